"""The rules of Daihinmin once more, from their text, with names and loops: nothing is shared.

A card is a name like `S3`, and `JO` the joker; a hand is a set of names. A submission is a text
like `S8 JO=H8`, where the joker stands for the 8 of hearts, or `pass`. The section of the
specification that a function follows is named in its docstring (A3, A5, ...).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import NamedTuple

SUITS = "SHDC"
RANKS = "3456789TJQKA2"
COLUMNS = "-" + RANKS + "+"  # only the joker stands below the 3 and above the 2
NATURALS = [suit + rank for rank in RANKS for suit in SUITS]
PACK = [*NATURALS, "JO"]
STRONGEST_FIRST = ["JO", *[suit + rank for rank in reversed(RANKS) for suit in SUITS]]
"""In which order cards are given away in the exchange (A3)."""


# Plays (A5)


class Shape(NamedTuple):
    """The server's analysis of the cells of a submission."""

    kind: str
    size: int
    suits: str  # those shown, by the joker too; X is the fifth card of a rank
    low: int  # columns, 0 to 14
    high: int
    cards: frozenset[str]  # from the hand


@cache  # a million positions show the same plays again and again
def analyze(text: str) -> Shape | None:
    """Return the analysis of a submission, or None if it is malformed."""
    if text == "pass":
        return Shape("pass", 0, "", 0, 0, frozenset())
    if text == "JO":
        return Shape("joker single", 1, "", 0, 0, frozenset(["JO"]))
    naturals: list[str] = []
    jokers: list[str] = []
    for name in text.split():
        (jokers if name.startswith("JO=") else naturals).append(name.removeprefix("JO="))
    cells = naturals + jokers
    if not naturals or len(jokers) > 1 or len(set(cells)) < len(cells):
        return None
    if any(name not in NATURALS for name in naturals):
        return None
    if any(len(name) != 2 or name[1] not in COLUMNS for name in jokers):
        return None
    suits = "".join(suit for suit in "SHDCX" if suit in [name[0] for name in cells])
    columns = sorted(COLUMNS.index(name[1]) for name in cells)
    if len(cells) == 1:
        kind = "single"
    elif len(suits) == len(cells) and columns[0] == columns[-1]:
        kind = "group"
    elif len(cells) >= 3 and len(suits) == 1 and suits != "X" and consecutive(columns):
        kind = "sequence"
    else:
        return None
    if "X" in suits and suits != "SHDCX":
        return None
    cards = frozenset(naturals + ["JO"] * len(jokers))
    return Shape(kind, len(cells), suits, columns[0], columns[-1], cards)


def consecutive(columns: list[int]) -> bool:
    """Return True if the columns follow one another."""
    return columns == list(range(columns[0], columns[0] + len(columns)))


def groups_of(hand: set[str]) -> Iterator[str]:
    """Two or more cards of a rank; the joker is a suit that is not among them, or the fifth."""
    for rank in RANKS:
        held = [suit for suit in SUITS if suit + rank in hand]
        for size in range(1, len(held) + 1):
            for suits in combinations(held, size):
                if size >= 2:
                    yield " ".join(suit + rank for suit in suits)
                if "JO" in hand:
                    for joker in [suit for suit in SUITS if suit not in suits] or ["X"]:
                        yield group_text(suits, joker, rank)


@cache
def group_text(suits: tuple[str, ...], joker: str, rank: str) -> str:
    """A group with the joker in its place among the suits."""
    names = []
    for suit in "SHDCX":
        if suit in suits:
            names.append(suit + rank)
        elif suit == joker:
            names.append("JO=" + suit + rank)
    return " ".join(names)


def sequences_of(hand: set[str], longest: int = 11) -> Iterator[str]:
    """Three or more cards of a suit in a row; the joker may be any one of them."""
    n_jokers = 1 if "JO" in hand else 0
    for suit in SUITS:
        for first in range(15):
            cells: list[str] = []
            missing: list[str] = []
            for column in COLUMNS[first : first + longest]:
                cells.append(suit + column)
                if suit + column not in hand:
                    missing.append(suit + column)
                if len(missing) > n_jokers:
                    break
                if len(cells) < 3:
                    continue
                if not missing:
                    yield " ".join(cells)
                if n_jokers:
                    for joker in missing or cells:
                        yield " ".join("JO=" + cell if cell == joker else cell for cell in cells)


def plays_of(hand: set[str], sequences: bool = True) -> list[str]:
    """Everything well-formed that a hand can lay on an empty field."""
    return [*sorted(hand), *groups_of(hand), *(sequences_of(hand) if sequences else [])]


@cache
def may_follow(text: str, field: str, revolution: bool, lock: bool) -> bool:
    """Return True if a well-formed play beats the field, regardless of hands (A5.1, A5.2)."""
    play, under = analyze(text), analyze(field)
    assert play is not None and under is not None
    if under.kind == "pass":
        return True
    if under.kind == "joker single":
        return text == "S3"
    if play.kind == "joker single":
        return under.kind == "single"
    if play.kind != under.kind or play.size != under.size:
        return False
    if lock and play.suits != under.suits:
        return False
    return play.high < under.low if revolution else play.low > under.high


def legal(
    hand: set[str], field: str, revolution: bool, lock: bool, sequences: bool = True
) -> list[str]:
    """The legal plays of a hand but the pass."""
    plays = plays_of(hand, sequences)
    return [text for text in plays if may_follow(text, field, revolution, lock)]


def is_legal(
    text: str, hand: set[str], field: str, revolution: bool, lock: bool, sequences: bool = True
) -> bool:
    """Return True if a submission is a legal play, by its cells and not by listing."""
    play = analyze(text)
    if play is None or play.kind == "pass" or not play.cards <= hand:
        return False
    if play.kind == "sequence" and not sequences:
        return False
    return may_follow(text, field, revolution, lock)


def strongest(cards: Iterable[str], n: int) -> list[str]:
    """The cards that are taken from a hand: the joker, then 2, A, K, ... (A3)."""
    held = set(cards)
    return [card for card in STRONGEST_FIRST if card in held][:n]


# A game


@dataclass
class Rules:
    """The switches (section 0, A1 and the 20 passes of A7)."""

    sequences: bool = True
    locks: bool = True
    revolutions: bool = True
    eight_cuts: bool = True
    exchanges: bool = True
    reseat_every: int = 3
    class_reset_every: int = 100
    idle_limit: int = 20


@dataclass
class Game:
    """A game that has been dealt; `begin` starts it."""

    hands: list[set[str]]  # by player
    seats: list[int]  # the player at each seat
    classes: list[int] | None  # by player; None in a game after a class reset
    rules: Rules = field(default_factory=Rules)
    giver: int | None = None  # who must give cards away now
    turn: int | None = None  # who must play now
    starter: int | None = None
    on_field: str = "pass"
    lock: bool = False
    revolution: bool = False
    cut: bool = False
    passed: set[int] = field(default_factory=set)
    last_player: int = -1
    n_passes: int = 0  # without an accepted play in between
    finished: list[int] = field(default_factory=list)
    drawn: set[int] = field(default_factory=set)  # whose places are drawn at the end
    flowed: bool = False  # after the last action


def begin(game: Game) -> None:
    """The poor give their strongest cards; then the rich choose, or the first lead follows (A3)."""
    if game.classes is None or not game.rules.exchanges:
        lead_first(game)
        return
    for poor, rich, n in ((4, 0, 2), (3, 1, 1)):
        giver, receiver = game.classes.index(poor), game.classes.index(rich)
        move_cards(game, strongest(game.hands[giver], n), giver, receiver)
    game.giver = game.classes.index(0)


def move_cards(game: Game, cards: Iterable[str], giver: int, receiver: int) -> None:
    """Cards go from hand to hand."""
    for card in cards:
        game.hands[giver].remove(card)
        game.hands[receiver].add(card)


def give(game: Game, cards: list[str]) -> tuple[str, list[str]]:
    """The rich player's choice: how it is called, and the cards that went (A3)."""
    assert game.classes is not None and game.giver is not None
    giver, rank = game.giver, game.classes[game.giver]
    n = 2 if rank == 0 else 1
    held = [card for card in cards if card in game.hands[giver]]
    how = "chosen" if len(cards) == n and len(set(held)) == n else "penalty"
    if how == "penalty":
        cards = strongest(game.hands[giver], n)
    move_cards(game, cards, giver, game.classes.index(4 - rank))
    if rank == 0:
        game.giver = game.classes.index(1)
    else:
        game.giver = None
        lead_first(game)
    return how, cards


def lead_first(game: Game) -> None:
    """The holder of the diamond 3 leads (A4)."""
    for player in range(5):
        if "D3" in game.hands[player]:
            game.turn = game.starter = game.last_player = player


def legal_now(game: Game) -> list[str]:
    """The legal plays of the player in turn but the pass."""
    assert game.turn is not None
    hand = game.hands[game.turn]
    return legal(hand, game.on_field, game.revolution, game.lock, game.rules.sequences)


def submit(game: Game, text: str) -> int:
    """The player in turn submits something; returns the answer, 9 or 8 (A6, A7 and B5)."""
    assert game.turn is not None
    player = game.turn
    hand, sequences = game.hands[player], game.rules.sequences
    if is_legal(text, hand, game.on_field, game.revolution, game.lock, sequences):
        accept(game, player, text)
        return 9
    answer = 9 if text == "pass" and game.on_field == "pass" else 8
    game.passed.add(player)  # what is illegal counts as a pass
    game.n_passes += 1
    return answer


def accept(game: Game, player: int, text: str) -> None:
    """The effects of an accepted play in the order of A6."""
    play, before = analyze(text), analyze(game.on_field)
    assert play is not None and before is not None
    spade_3 = before.kind == "joker single"
    # 1. The lock
    if play.kind == "joker single":
        game.lock = False
    elif spade_3 or before.kind == "pass" or not game.rules.locks:
        pass
    elif play.suits == before.suits:
        game.lock = True
    # 2. Cards leave the hand
    game.hands[player] -= play.cards
    game.on_field = text
    game.last_player = player
    game.n_passes = 0
    # 3. The hand is empty
    if not game.hands[player]:
        game.finished.append(player)
    # 4. The revolution
    large_group = play.kind == "group" and play.size >= 4
    long_sequence = play.kind == "sequence" and play.size >= 5
    if game.rules.revolutions and (large_group or long_sequence):
        game.revolution = not game.revolution
    # 5. The 8 cut, and 6. the spade 3
    eight = COLUMNS.index("8")
    has_eight = play.kind != "joker single" and play.low <= eight <= play.high
    game.cut = spade_3 or (game.rules.eight_cuts and has_eight)


def go_on(game: Game) -> None:
    """After every action: draws places, ends the trick, ends the game or hands the turn on (A7)."""
    playing = {player for player in range(5) if game.hands[player]}
    game.drawn = playing if game.n_passes >= game.rules.idle_limit else set()
    n_finished = len(game.finished) + len(game.drawn)
    game.flowed = game.cut or len(game.passed) >= 5 - n_finished
    if game.flowed:
        game.on_field, game.lock, game.cut, game.passed = "pass", False, False, set()
    if n_finished >= 4:
        if not game.drawn:
            game.finished.extend(playing)
        game.turn = None
    elif game.flowed:
        if not game.hands[game.last_player]:
            game.last_player = next_in_turn(game, game.last_player)
        game.turn = game.last_player
    else:
        assert game.turn is not None
        game.turn = next_in_turn(game, game.turn)


def next_in_turn(game: Game, player: int) -> int:
    """The next seat, cyclic, whose player holds cards and has not passed."""
    seat = game.seats.index(player)
    while True:
        seat = (seat + 1) % 5
        other = game.seats[seat]
        if game.hands[other] and other not in game.passed:
            return other


# A match


def classes_of(number: int, finished_before: list[int], rules: Rules) -> list[int] | None:
    """The classes by player in game `number` (A1); a period of 0 is never over."""
    every = rules.class_reset_every
    if number == 1 or (every > 0 and (number - 1) % every == 0):
        return None
    return [finished_before.index(player) for player in range(5)]


def reseats(number: int, rules: Rules) -> bool:
    """Return True if seats are drawn before game `number` (A1)."""
    every = rules.reseat_every
    return number == 1 or (every > 0 and (number - 1) % every == 0)

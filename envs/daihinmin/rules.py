"""The rules of one game of Daihinmin, by the UEC competition, on a record that kernels change.

A *game* is a record of `GAME`: hands, the play on the field, the player in turn, and all plays so
far. Kernels take a record (`games[i]`) and change it in place. A game goes

    deal -> exchange: `give` by the daifugo, then the fugo -> `play` ... -> over (`turn` is -1)

where `to_give` is the number of cards that the player in `turn` must give away now; 0 means that it
plays. A view holds what one player sees: it is such a record with hidden fields, see `views.py`. A
match reuses the record from game to game: see `match.py`.

Kernels check nothing: a play or a player out of range, or a record with impossible numbers, reads
and writes outside of arrays. Records from elsewhere are checked by `status` of
`records/validity.py`, plays by `is_legal`; environments and players do so by themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from numba import boolean, from_dtype, int64, njit, uint64, void

from afterstate.envs.daihinmin.cards import D3, N_CARDS, count, strongest
from afterstate.envs.daihinmin.plays import (
    CARDS,
    CUTS_AS_8,
    KIND,
    LONE_JOKER,
    N_PLAYS,
    PASS,
    REVOLVES,
    ROWS,
    SEQUENCE,
    SIZE,
    Numbers,
    follows,
    write_plays,
)
from afterstate.envs.words import Word, Words, below, next_random

N_PLAYERS = 5
LAST_NUMBER = 2**32
"""The largest number of a game in its match; games after it have the same."""
MAX_POINTS = 2**40
"""The most points of a player in a match; further ones do not count."""
ACCEPTED, REFUSED = 9, 8
"""Answers to a submission. A pass is accepted on an empty field only; its effect is the same."""
DAIFUGO, FUGO, HEIMIN, HINMIN, DAIHINMIN = range(5)
"""Classes, by finishing place in the previous game."""
MAX_IDLE = 20
"""The largest limit of passes in a row, and the competition's."""
MAX_ACTIONS = N_CARDS * MAX_IDLE
"""No game has more actions: after `MAX_IDLE` passes in a row it ends."""


class Rules(NamedTuple):
    """The rules that can be changed; the defaults are those of the competition."""

    sequences: bool = True
    """Three or more cards of a suit in a row can be played."""
    locks: bool = True
    """A second play of the same suits binds those that follow to these suits."""
    revolutions: bool = True
    """Four of a rank, or a sequence of five, reverse the order of the ranks."""
    eight_cuts: bool = True
    """A play with an 8 ends the trick."""
    exchanges: bool = True
    """Before a game, cards are exchanged between the rich and the poor."""
    reseat_every: int = 3
    """Games after which seats are drawn again; 0: only once."""
    class_reset_every: int = 100
    """Games after which classes are reset to none; 0: never."""
    idle_limit: int = MAX_IDLE
    """Passes in a row after which the remaining places are drawn, from 1 to `MAX_IDLE`."""


GAME = np.dtype(
    [
        # Cards, by player
        ("hands", "u8", 5),
        ("played", "u8", 5),  # in this game
        ("given", "u8", 5),  # in the exchange before it
        ("left", "i8", 5),  # number of cards in the hand
        # The exchange
        ("classes", "i8", 5),  # by player; -1 where there are none
        ("to_give", "i8"),  # number of cards that the player in turn must give now
        ("gift", "u8"),  # the cards chosen for it so far
        # The trick
        ("turn", "i8"),  # the player to move; -1 when the game is over
        ("field", "i8"),  # the play on the field; 0 when it is empty
        ("joker_column", "i8"),  # of a lone joker; the rules do not use it
        ("revolution", "i8"),
        ("lock", "i8"),
        ("cut", "i8"),  # 1 if the last play ends the trick
        ("passed", "i8"),  # players who have passed in this trick, as bits
        ("last", "i8"),  # player of the last play
        ("idle", "i8"),  # passes since the last play
        # The game
        ("starter", "i8"),  # holder of the diamond 3
        ("places", "i8", 5),  # finishing places by player, from 0; -1 while it plays
        ("n_out", "i8"),  # number of players who have finished
        ("actions", "u2", MAX_ACTIONS),  # player * N_PLAYS + play; a refused play is a pass
        ("n_actions", "i8"),
        # The match
        ("number", "i8"),  # number of this game in its match, from 1
        ("seats", "i8", 5),  # the player at each seat; play goes to the next seat
        ("points", "i8", 5),  # in all finished games
        ("seed", "u8"),
        ("rng", "u8"),
        ("viewer", "i8"),  # in a view, the player who sees it; otherwise -1
        *((rule, "i8") for rule in Rules._fields),
    ],
    align=True,
)
"""A game, or what one player sees of it. `i8` are `int64`, `u8` are `uint64`."""

GameType = from_dtype(GAME)


class Game(Protocol):
    """A record of `GAME`: a `numpy.void` such as `games[i]`.

    Kernels read a field as `game.turn`; Python reads it as `game["turn"]`.
    """

    hands: Words
    played: Words
    given: Words
    left: Numbers
    classes: Numbers
    to_give: int
    gift: Word
    turn: int
    field: int
    joker_column: int
    revolution: int
    lock: int
    cut: int
    passed: int
    last: int
    idle: int
    starter: int
    places: Numbers
    n_out: int
    actions: npt.NDArray[np.uint16]
    n_actions: int
    number: int
    seats: Numbers
    points: Numbers
    seed: Word
    rng: Word
    viewer: int
    sequences: int
    locks: int
    revolutions: int
    eight_cuts: int
    exchanges: int
    reseat_every: int
    class_reset_every: int
    idle_limit: int

    def __getitem__(self, name: str, /) -> Any:
        """Return a field."""

    def __setitem__(self, name: str, value: Any, /) -> None:
        """Set a field."""

    def copy(self) -> Game:
        """Return an independent record."""
        ...

    def tobytes(self) -> bytes:
        """Return the record's bytes."""
        ...


Games = npt.NDArray[np.void]
"""Records of `GAME`."""


def as_record(game: Any) -> Game | None:
    """Return a game record as kernels take it, or None for other values; no field is checked.

    A record that numpy has read from a file is equal, but not marked as aligned.
    """
    if getattr(game, "dtype", None) != GAME or game.shape != ():
        return None
    record: Any = game[()] if isinstance(game, np.ndarray) else game
    if game.dtype.isalignedstruct:
        aligned: Game = record
        return aligned
    copied = np.zeros(1, GAME)
    copied[0] = record
    aligned = copied[0]
    return aligned


def check_type(game: Any) -> Game:
    """Return a game record as kernels take it; no field is checked.

    Raises:
        ValueError: no record of a game.
    """
    record = as_record(game)
    if record is None:
        raise ValueError(f"game must be a record of a game, got {type(game).__name__}")
    return record


@njit(int64(GameType, int64), cache=True)
def seat_of(game: Game, player: int) -> int:
    """Return the seat of a player."""
    for seat in range(N_PLAYERS):
        if game.seats[seat] == player:
            return seat
    return -1


@njit(int64(GameType, int64), cache=True)
def of_class(game: Game, class_: int) -> int:
    """Return the player of a class; -1 if there are no classes."""
    for player in range(N_PLAYERS):
        if game.classes[player] == class_:
            return player
    return -1


@njit(int64(GameType, int64), cache=True)
def partner(game: Game, player: int) -> int:
    """Return the player with whom a player exchanges cards, or -1."""
    class_ = game.classes[player]
    if class_ < 0 or class_ == HEIMIN or not game.exchanges:
        return -1
    return of_class(game, 4 - class_)


@njit(int64(int64), cache=True)
def n_exchanged(class_: int) -> int:
    """Return the number of cards that a class exchanges: 2, 1, 0, 1, 2."""
    return abs(HEIMIN - class_) if class_ >= 0 else 0


@njit(int64(GameType, int64), cache=True)
def draw(game: Game, n: int) -> int:
    """Return a random number in 0..n-1, uniform within n / 2**32; advances `rng`."""
    game.rng, bits = next_random(game.rng)
    return int(below(bits, n))


@njit(void(GameType, int64), cache=True)
def deal(game: Game, dealer: int) -> None:
    """Deal the pack one card at a time, from the seat of the player `dealer` on."""
    pack = np.arange(N_CARDS)
    seat = seat_of(game, dealer)
    game.hands[:] = 0
    for i in range(N_CARDS):
        j = i + draw(game, N_CARDS - i)
        card, pack[j] = pack[j], pack[i]
        game.hands[game.seats[(seat + i) % N_PLAYERS]] |= np.uint64(1) << np.uint64(card)
    for player in range(N_PLAYERS):
        game.left[player] = count(game.hands[player])


@njit(void(GameType, int64, uint64), cache=True)
def _hand_over(game: Game, giver: int, cards: Word) -> None:
    """Move cards to the partner's hand."""
    receiver = partner(game, giver)
    game.given[giver] = cards
    game.hands[giver] &= ~np.uint64(cards)
    game.hands[receiver] |= np.uint64(cards)
    game.left[giver] -= count(cards)
    game.left[receiver] += count(cards)


@njit(int64(GameType, uint64), cache=True)
def holder(game: Game, cards: Word) -> int:
    """Return the first player who holds any of the cards, or -1."""
    for player in range(N_PLAYERS):
        if game.hands[player] & np.uint64(cards):
            return player
    return -1


@njit(void(GameType, int64), cache=True)
def _next_giver(game: Game, class_: int) -> None:
    """Give the turn to the rich player of a class, or, after the fugo, to the first leader."""
    player = of_class(game, class_)
    if class_ > FUGO or player < 0 or not game.exchanges:
        game.to_give = 0
        game.turn = holder(game, np.uint64(D3))
        game.starter = game.last = game.turn
    else:
        game.turn = player
        game.to_give = n_exchanged(class_)


@njit(void(GameType), cache=True)
def start(game: Game) -> None:
    """Start the exchange after a deal: the poor give their strongest cards, the rich must choose.

    Without classes or exchange, the holder of the diamond 3 leads.
    """
    for class_ in (DAIHINMIN, HINMIN):
        player = of_class(game, class_)
        if player >= 0 and game.exchanges:
            _hand_over(game, player, strongest(game.hands[player], n_exchanged(class_)))
    _next_giver(game, DAIFUGO)


@njit(boolean(GameType, uint64), cache=True)
def give(game: Game, cards: Word) -> bool:
    """Give cards of the player in turn to the partner; return True if they were a valid choice.

    Cards that the player does not hold, or another number of cards than `to_give`, are punished:
    the player's strongest cards are given. Nothing changes if nobody must give.
    """
    if game.to_give == 0:
        return False
    cards = np.uint64(cards)
    hand = game.hands[game.turn]
    valid = count(cards) == game.to_give and cards & ~hand == 0
    if not valid:
        cards = strongest(hand, game.to_give)
    game.gift = 0
    _hand_over(game, game.turn, cards)
    _next_giver(game, game.classes[game.turn] + 1)
    return bool(valid)


@njit(boolean(GameType, int64), cache=True)
def is_givable(game: Game, card: int) -> bool:
    """Return True if the player in turn may add a card to the gift; accepts any number."""
    if card < 0 or card >= N_CARDS:
        return False
    bit = np.uint64(1) << np.uint64(card)
    return bool(bit & game.hands[game.turn] & ~game.gift)


@njit(boolean(GameType, int64), cache=True)
def give_card(game: Game, card: int) -> bool:
    """Add one card to the gift, which is given once complete; return True if the card was valid.

    A card that the player does not hold, or has chosen already, is punished as in `give`.
    """
    if not is_givable(game, card):
        return give(game, np.uint64(0))
    game.gift |= np.uint64(1) << np.uint64(card)
    if count(game.gift) == game.to_give:
        give(game, game.gift)
    return True


@njit(boolean(GameType, int64), cache=True)
def is_legal(game: Game, play: int) -> bool:
    """Return True if the player in turn may make a play; accepts any number."""
    if play <= PASS or play >= N_PLAYS:
        return play == PASS
    if CARDS[play] & ~game.hands[game.turn]:
        return False
    if KIND[play] == SEQUENCE and not game.sequences:
        return False
    return follows(play, game.field, game.revolution != 0, game.lock != 0)


@njit(int64(GameType, int64[::1]), cache=True)
def write_legal(game: Game, out: Numbers) -> int:
    """Write the legal plays of the player in turn, return their number: see `plays.write_plays`."""
    hand = game.hands[game.turn]
    revolution, lock = game.revolution != 0, game.lock != 0
    return write_plays(hand, game.field, revolution, lock, game.sequences != 0, out)


@njit(int64(GameType, int64[::1]), cache=True)
def write_gifts(view: Game, out: Numbers) -> int:
    """Write the possible gifts of the player in turn as card sets; return their number."""
    hand, n = view.hands[view.turn], 0
    for first in range(N_CARDS):
        for second in range(first, first + 1 if view.to_give == 1 else N_CARDS):
            gift = np.uint64(1) << np.uint64(first) | np.uint64(1) << np.uint64(second)
            if gift & ~hand == 0 and count(gift) == view.to_give:
                out[n] = np.int64(gift)
                n += 1
    return n


@njit(void(GameType, int64), cache=True)
def _record(game: Game, play: int) -> None:
    """Append a play to the actions."""
    if game.n_actions < MAX_ACTIONS:  # always true in a game by the rules
        game.actions[game.n_actions] = game.turn * N_PLAYS + play
        game.n_actions += 1


@njit(int64(GameType, boolean), cache=True)
def largest_hand(game: Game, passed_too: bool) -> int:
    """Return the size of the others' largest hand; with `passed_too` also of those who passed."""
    largest = 0
    for player in range(N_PLAYERS):
        if player != game.turn and (passed_too or not game.passed >> player & 1):
            largest = max(largest, game.left[player])
    return largest


@njit(boolean(GameType, int64, int64), cache=True)
def cuts(game: Game, field: int, play: int) -> bool:
    """Return True if a play on a field ends the trick: an 8, or the spade 3 on the joker."""
    return bool(field == LONE_JOKER or (game.eight_cuts and CUTS_AS_8[play]))


@njit(int64(GameType, int64, int64, int64), cache=True)
def lock_after(game: Game, field: int, lock: int, play: int) -> int:
    """Return 1 if suits are locked after a play on a field, otherwise 0."""
    if play == LONE_JOKER:
        return 0
    locks = game.locks and field != PASS and field != LONE_JOKER and ROWS[play] == ROWS[field]
    return 1 if locks else lock


@njit(int64(GameType, int64, int64), cache=True)
def order_after(game: Game, revolution: int, play: int) -> int:
    """Return 1 if the order of the ranks is reversed after a play, otherwise 0."""
    return revolution ^ 1 if game.revolutions and REVOLVES[play] else revolution


@njit(void(GameType, int64), cache=True)
def lay(game: Game, play: int) -> None:
    """Make a play of the player in turn, without a legality check or the change of the turn."""
    player = game.turn
    _record(game, play)
    if play == LONE_JOKER:
        game.joker_column = 0 if game.revolution else 14
    game.lock = lock_after(game, game.field, game.lock, play)
    game.cut = cuts(game, game.field, play)
    game.field = play
    game.hands[player] &= ~CARDS[play]
    game.played[player] |= CARDS[play]
    game.left[player] -= SIZE[play]
    game.last = player
    game.idle = 0
    if game.left[player] == 0:
        game.places[player] = game.n_out
        game.n_out += 1
    game.revolution = order_after(game, game.revolution, play)


@njit(void(GameType), cache=True)
def skip(game: Game) -> None:
    """Pass for the player in turn, without the change of the turn."""
    _record(game, PASS)
    game.passed |= 1 << game.turn
    game.idle += 1


@njit(int64(GameType, int64), cache=True)
def submit(game: Game, play: int) -> int:
    """Submit a play of the player in turn, without the change of the turn.

    Any number is accepted; an illegal play counts as a pass.

    Returns:
        `ACCEPTED` for a legal play or a pass on an empty field, otherwise `REFUSED`.
    """
    if play != PASS and is_legal(game, play):
        lay(game, play)
        return ACCEPTED
    answer = ACCEPTED if play == PASS and game.field == PASS else REFUSED
    skip(game)
    return answer


@njit(int64(GameType, int64), cache=True)
def _next_player(game: Game, player: int) -> int:
    """Return the next player in seat order that has cards and has not passed."""
    seat = seat_of(game, player)
    for i in range(1, N_PLAYERS + 1):
        other = game.seats[(seat + i) % N_PLAYERS]
        if game.left[other] > 0 and not game.passed >> other & 1:
            return int(other)
    return player


@njit(int64(GameType), cache=True)
def leader(game: Game) -> int:
    """Return the leader of the next trick: the last to play, or the next player with cards."""
    seat = seat_of(game, game.last)
    for i in range(N_PLAYERS):
        player = game.seats[(seat + i) % N_PLAYERS]
        if game.left[player] > 0:
            return int(player)
    return -1


@njit(void(GameType), cache=True)
def _draw_places(game: Game) -> None:
    """Give the remaining places in random order to the players who still hold cards."""
    while game.n_out < N_PLAYERS:
        n_before = draw(game, N_PLAYERS - game.n_out)
        for player in range(N_PLAYERS):
            n_before -= game.places[player] < 0
            if n_before < 0:
                game.places[player] = game.n_out
                break
        game.n_out += 1


@njit(void(GameType), cache=True)
def _finish(game: Game) -> None:
    """End the game: give the last place and the points."""
    _draw_places(game)
    game.turn = -1
    for player in range(N_PLAYERS):
        points = game.points[player] + N_PLAYERS - game.places[player]
        game.points[player] = min(points, MAX_POINTS)


@njit(boolean(GameType), cache=True)
def advance(game: Game) -> bool:
    """End the trick, if it is complete, and pass the turn on; return True if the trick ended."""
    if game.idle >= game.idle_limit:
        _draw_places(game)
    trick_ends = game.cut != 0 or count(np.uint64(game.passed)) >= N_PLAYERS - game.n_out
    if trick_ends:
        game.field, game.lock, game.cut, game.passed = PASS, 0, 0, 0
    if game.n_out >= N_PLAYERS - 1:
        _finish(game)
    elif trick_ends:
        game.turn = game.last = leader(game)
    else:
        game.turn = _next_player(game, game.turn)
    return bool(trick_ends)


@njit(int64(GameType, int64), cache=True)
def play(game: Game, play: int) -> int:
    """Submit a play of the player in turn and pass the turn on: `submit` and `advance`.

    In the exchange and after the end of the game it is refused and changes nothing.
    """
    if game.turn < 0 or game.to_give > 0:
        return REFUSED
    answer = submit(game, play)
    advance(game)
    return answer


@njit(void(GameType), cache=True)
def clear_play(game: Game) -> None:
    """Clear the fields that plays change, but for the hands and the turn."""
    for player in range(N_PLAYERS):
        game.played[player] = 0
        game.places[player] = -1
    game.field = game.revolution = game.lock = game.cut = game.passed = game.idle = 0
    game.n_out = game.n_actions = 0
    game.joker_column = 14


@njit(void(GameType), cache=True)
def rewind(game: Game) -> None:
    """Return a game or a view to the moment after the exchange."""
    for player in range(N_PLAYERS):
        game.hands[player] |= game.played[player]
        game.left[player] += count(game.played[player])
    clear_play(game)
    game.turn = game.last = game.starter


@njit(int64(GameType, int64[::1]), cache=True)
def draw_play(game: Game, out: Numbers) -> int:
    """Return a uniformly random legal play of the player in turn; it never passes when leading.

    Args:
        game: its `rng` is advanced.
        out: `int64[N_PLAYS]`, overwritten.
    """
    n = write_legal(game, out)
    index = draw(game, n + (game.field != PASS))
    return int(out[index]) if index < n else PASS


@njit(int64(GameType, int64[::1]), cache=True)
def play_out(game: Game, out: Numbers) -> int:
    """Play a game to its end at random (see `draw_play`); return the number of actions."""
    n = 0
    while game.turn >= 0:
        play(game, draw_play(game, out))
        n += 1
    return n

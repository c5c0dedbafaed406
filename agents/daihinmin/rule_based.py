"""Players of Daihinmin by rules alone: random, the competition's sample client, and a better one.

`SampleAgent` is the yardstick: what the competition's sample client does, down to its illegal
submissions. It knows no played cards, no other player and no plan; a move is a look-up in tables of
the cards it holds, here as masks of the cells where an entry has the wanted value.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import boolean, float64, int64, njit, types, uint64, void

from afterstate.envs.daihinmin.cards import (
    DECK,
    JOKER,
    N_CARDS,
    NATURALS,
    S3,
    count,
    lowest,
    weakest,
)
from afterstate.envs.daihinmin.plays import (
    CARDS,
    CUTS_AS_8,
    HIGH,
    KIND,
    LONE_JOKER,
    LOW,
    MAX_SIZE,
    N_PLAYS,
    PASS,
    REVOLVES,
    ROWS,
    SEQUENCE,
    SIZE,
    Numbers,
    group,
    legal_plays,
    runs,
    sequence,
)
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game, GameType, list_legal
from afterstate.envs.daihinmin.views import all_played
from afterstate.envs.words import Word

_SUIT = np.uint64(0x0111_1111_1111_1111)  # the spades of all 15 columns; cells are 4 * column + row


# The sample client


@njit("uint64(uint64, int64, boolean)", cache=True)
def _run_starts(cells: Word, size: int, joker: bool) -> Word:
    """The cells that are the start of a run of exactly this value.

    Without the joker: as many cards from there to the very end of their run. With it: the first
    column that is missing is filled, and the run ends before the second.
    """
    cells = np.uint64(cells)
    starts = np.uint64(0)
    if not joker:
        starts = runs(cells, size)
    for place in range(size if joker else 0):
        here = runs(cells, place) & ~(cells >> np.uint64(4 * place))
        if place < size - 1:
            here &= runs(cells, size - 1 - place) >> np.uint64(4 * (place + 1))
        starts |= here & np.uint64((1 << 60) - 1) >> np.uint64(4 * (size - 1))
    return starts & ~(cells >> np.uint64(4 * size))


@njit("int64(uint64)", cache=True)
def _highest(cells: Word) -> int:
    """The number of the highest bit of a word that is not 0."""
    highest = -1
    cells = np.uint64(cells)
    while cells:
        highest += 1
        cells >>= np.uint64(1)
    return highest


@njit("int64(uint64, uint64, int64)", cache=True)
def _write_run(hand: Word, start: Word, size: int) -> int:
    """The run from a start cell: the joker stands where the whole hand has no card."""
    row, first = int(start) % 4, int(start) // 4
    joker_place = -1
    for i in range(size):
        if not np.uint64(hand) >> np.uint64(4 * (first + i) + row) & np.uint64(1):
            joker_place = i
    return sequence(row, first, size, joker_place)


@njit("int64(uint64, uint64, int64, boolean, boolean)", cache=True)
def _run(hand: Word, kept: Word, size: int, joker: bool, high: bool) -> int:
    """The lowest or highest run of a size, of the cells that are kept; the pass if there is none.

    The highest starts at a card that is held. From there it goes down as long as the start below
    has the same value, which puts a joker that would stand on top below instead.
    """
    starts = _run_starts(kept, size, joker)
    if not high:
        return _write_run(hand, lowest(starts), size) if starts else PASS
    held = starts & np.uint64(hand)
    if not held:
        return PASS
    start = _highest(held)
    while start >= 4 and starts >> np.uint64(start - 4) & np.uint64(1):
        start -= 4
    return _write_run(hand, start, size)


@njit("int64(uint64, int64, boolean)", cache=True)
def _group_value(cells: Word, column: int, joker: bool) -> int:
    """How many cards a group in a column has, with the joker if it is held; 0 if it is none."""
    n = count(np.uint64(cells) >> np.uint64(4 * column) & np.uint64(15))
    if joker:
        return n + 1 if n else 0
    return n if n > 1 else 0


@njit("int64(uint64, uint64, int64, int64, int64)", cache=True)
def _write_group(hand: Word, kept: Word, column: int, size: int, rows: int) -> int:
    """The group of a column. The joker stands in the first of `rows` in which no card is held."""
    suits = int(np.uint64(kept) >> np.uint64(4 * column) & np.uint64(15))
    held = int(np.uint64(hand) >> np.uint64(4 * column) & np.uint64(15))
    if count(np.uint64(suits)) == size or (size == 5 and column == 1):
        return group(column, suits, -1)  # beside four 3s the joker is forgotten
    if size == 5:
        return group(column, suits, 4)
    return group(column, suits, lowest(np.uint64(~held & rows & 15)))


@njit("int64(uint64, uint64, int64, boolean, boolean, int64)", cache=True)
def _group(hand: Word, kept: Word, size: int, joker: bool, high: bool, rows: int) -> int:
    """The lowest or highest group of a size, of the cells that are kept, or the pass."""
    for i in range(1, 14):
        column = 14 - i if high else i
        if _group_value(kept, column, joker) == size:
            return _write_group(hand, kept, column, size, rows)
    return PASS


@njit("int64(uint64, boolean, boolean)", cache=True)
def _single(kept: Word, joker: bool, high: bool) -> int:
    """The lowest or highest card that is kept, spades first; else the joker, else the pass."""
    if not kept:
        return LONE_JOKER if joker else PASS
    cell = lowest(kept)
    if high:
        column = _highest(kept) // 4
        cell = 4 * column + lowest(np.uint64(kept) >> np.uint64(4 * column))
    return cell - 3


@njit("int64(uint64, boolean, boolean)", cache=True)
def _sample_lead(hand: Word, joker: bool, high: bool) -> int:
    """A lead: the longest run, else the largest group, else a single card."""
    for i in range(MAX_SIZE - 2):
        if _run_starts(hand, MAX_SIZE - i, joker):
            return _run(hand, hand, MAX_SIZE - i, joker, high)
    for size in range(5, 1, -1):
        play = _group(hand, hand, size, joker, high, 15)
        if play != PASS:
            return play
    return _single(hand, joker, high)


@njit("uint64(uint64)", cache=True)
def _loose(hand: Word) -> Word:
    """The cards that belong to no run of three and share their rank with no other card."""
    hand = np.uint64(hand)
    bound = np.uint64(0)
    starts = runs(hand, 3)
    for i in range(3):
        bound |= starts << np.uint64(4 * i)
    for column in range(1, 14):
        suits = hand >> np.uint64(4 * column) & np.uint64(15)
        if count(suits) > 1:
            bound |= suits << np.uint64(4 * column)
    return hand & ~bound


@njit(int64(GameType), cache=True)
def _last_play(view: Game) -> int:
    """The last action of a game that has one."""
    return int(view.actions[view.n_actions - 1]) % N_PLAYS


@njit(boolean(GameType), cache=True)
def _joker_after_run(view: Game) -> bool:
    """Whether a lone joker in column 14 is misread, because the play before it was a run."""
    if view.joker_column != 14:
        return False
    before = PASS
    for i in range(view.n_actions):
        play = int(view.actions[i]) % N_PLAYS
        if play == LONE_JOKER:
            break
        if play != PASS:
            before = play
    return bool(KIND[before] == SEQUENCE)


@njit(int64(GameType), cache=True)
def _order_value(view: Game) -> int:
    """The column that must be beaten, as the client reads it.

    Of a run it is the end by the order *before* the last action: so the player after a run that
    has turned the order around reads the wrong end.
    """
    field = view.field
    if field == LONE_JOKER:
        return 0 if view.revolution and not _joker_after_run(view) else 14
    turned = view.revolutions and REVOLVES[_last_play(view)]
    old_revolution = view.revolution ^ 1 if turned else view.revolution
    return int(LOW[field] if old_revolution else HIGH[field])


@njit("uint64(uint64, int64, boolean, int64)", cache=True)
def _beating(cells: Word, value: int, revolution: bool, rows: int) -> Word:
    """The cells of a set on the strong side of a column, in some suits."""
    above = np.uint64(0) if value >= 14 else ~np.uint64(0) << np.uint64(4 * (value + 1))
    below = ~(~np.uint64(0) << np.uint64(4 * value))
    return np.uint64(cells) & (below if revolution else above) & _SUIT * np.uint64(rows)


@njit(int64(GameType), cache=True)
def sample_play(view: Game) -> int:
    """What the competition's sample client submits; it may be illegal, which is a pass.

    Args:
        view: what the player in turn sees.
    """
    own = view.hands[view.turn]
    joker = bool(own >> np.uint64(JOKER))
    hand = (own & np.uint64(NATURALS)) << np.uint64(4)
    high = view.revolution != 0
    field = view.field
    if field == PASS:
        return _sample_lead(hand, joker, high)
    rows = int(ROWS[field]) & 15 if view.lock else 15
    value, size = _order_value(view), int(SIZE[field])
    if size == 1:
        return _single(_beating(_loose(hand), value, high, rows), joker, high)
    kept = _beating(hand, value, high, rows)
    for with_joker in range(1 + joker):
        if KIND[field] == SEQUENCE:
            play = _run(hand, kept, size, with_joker != 0, high)
        else:
            play = _group(hand, kept, size, with_joker != 0, high, rows)
        if play != PASS:
            return play
    return PASS


class RandomAgent:
    """A random legal play, all alike; it passes only where it must follow."""

    def __init__(self, seed: int | None = None) -> None:
        self._rng = np.random.default_rng(seed)
        self._out = np.empty(N_PLAYS, np.int64)

    def choose(self, view: Game) -> int:
        """A random legal play, or the pass with the same chance as each of them."""
        n = list_legal(view, self._out)
        chosen = int(self._rng.integers(n + (view["field"] != PASS)))
        return int(self._out[chosen]) if chosen < n else PASS

    def give(self, view: Game, n: int) -> int:
        """Random cards."""
        hand = int(view["hands"][view["turn"]])
        held = [card for card in range(N_CARDS) if hand >> card & 1]
        return sum(1 << int(card) for card in self._rng.choice(held, n, replace=False))


class SampleAgent:
    """The competition's sample client, which is deterministic."""

    def choose(self, view: Game) -> int:
        """The client's submission: see `sample_play`."""
        return int(sample_play(view))

    def give(self, view: Game, n: int) -> int:
        """The weakest natural cards."""
        return int(weakest(view["hands"][view["turn"]], n))


# A better player by rules


class Weights(NamedTuple):
    """What the heuristic player thinks of cards.

    The unit is about one lead: a meld that surely loses the trick costs one to get rid of, a meld
    that surely wins it is worth keeping, which is a negative cost.
    """

    keep: float = 0.8
    """A single card that nothing unseen beats."""
    burden: float = 0.9
    """A single card that is surely beaten."""
    scale: float = 3.0
    """Unseen cards above it that make the one into the other."""
    slope: float = 0.3
    """And more the weaker, for it can be laid on fewer cards."""
    group_keep: float = 0.6
    group_burden: float = 0.8
    group_scale: float = 0.8
    group_slope: float = 0.3
    sequence_keep: float = 0.4
    sequence_burden: float = 0.4
    eight: float = 0.7
    """A single 8, which always wins the trick."""
    eights: float = 0.7
    """A group or sequence with an 8."""
    joker: float = 1.0
    """The joker for itself."""
    lead: float = 0.9
    """The lead after this trick."""
    win_scale: float = 2.0
    """Unseen cards above a play that make its chance of winning the trick 1 / e."""
    danger: float = 0.3
    """What the lead is worth more while somebody holds three cards or fewer."""


WeightsType = types.NamedUniTuple(float64, len(Weights._fields), Weights)
Table = npt.NDArray[np.float64]

_GROUP_CHANCE = np.zeros((5, 6))  # by size and unseen cards of the rank: that one of four holds it
_GROUP_CHANCE[2] = 0, 0, 0.25, 0.625, 0.906, 0.906
_GROUP_CHANCE[3] = 0, 0, 0, 0.0625, 0.2, 0.2
_GROUP_CHANCE[4] = 0, 0, 0, 0, 0.0156, 0.02
_SEQUENCE_WINS = 0.8  # a sequence is seldom beaten, whatever its ranks
_LITTLE = 3  # cards: then somebody is near his end


@njit(void(uint64, int64, float64[:, ::1]), cache=True)
def _count_beaters(unseen: Word, revolution: int, out: Table) -> None:
    """Writes how many unseen groups beat a group, in expectation: `out[size, column]`.

    For single cards that is the number of cards above it. Groups of others count by the chance that
    one player holds them.
    """
    joker = int(unseen >> np.uint64(JOKER))
    above = np.zeros(5)
    above[1] = joker
    for i in range(1, 14):
        column = i if revolution else 14 - i  # from the strongest down
        out[:, column] = above
        n = count(unseen >> np.uint64(4 * column - 4) & np.uint64(15))
        above[1] += n
        for size in range(2, 5 if n else 0):
            above[size] += _GROUP_CHANCE[size, n + joker]


@njit(void(float64[:, ::1], WeightsType, float64[:, ::1]), cache=True)
def _price(beaters: Table, w: Weights, out: Table) -> None:
    """Writes the cost of a group: `out[size, column]`."""
    for column in range(1, 14):
        above = beaters[1, column]
        lost = 1 - math.exp(-above / w.scale)
        out[1, column] = -w.keep + (w.keep + w.burden) * lost + w.slope * above / 40
        for size in range(2, 5):
            above = beaters[size, column]
            lost = 1 - math.exp(-above / w.group_scale)
            worth = w.group_keep + w.group_burden
            out[size, column] = -w.group_keep + worth * lost + w.group_slope * above / 6
    out[1, 6] = -w.eight
    out[2:, 6] = -w.eights


@njit(float64(int64, int64, int64, WeightsType), cache=True)
def _sequence_cost(first: int, size: int, revolution: int, w: Weights) -> float:
    """The cost of a sequence: it is seldom beaten, and the less the higher."""
    last = first + size - 1
    if first <= 6 <= last:
        return -w.eights
    height = (13 - last if revolution else first - 1) / 11
    return -w.sequence_keep + w.sequence_burden * (1 - height)


@njit(float64(uint64, boolean, int64, float64[:, ::1], WeightsType), cache=True)
def _hand_cost(hand: Word, joker: bool, revolution: int, prices: Table, w: Weights) -> float:
    """The cost of the cheapest way to divide a hand into single cards, groups and sequences.

    The lowest card goes alone, with its rank (all, or one of several), with the joker, or into a
    sequence that it begins, and the rest is divided likewise.

    Args:
        hand: its natural cards.
        joker: whether it has the joker, too.
        revolution: whether ranks are turned around.
        prices: of groups, `[size, column]`.
        w: the weights.
    """
    if hand == np.uint64(0):
        return -w.joker if joker else 0.0
    lowest_card = lowest(hand)
    column, row = lowest_card // 4 + 1, lowest_card % 4
    card = np.uint64(1) << np.uint64(lowest_card)
    rank = hand & np.uint64(15) << np.uint64(4 * column - 4)
    n = count(rank)
    cost = prices[1, column] + _hand_cost(hand ^ card, joker, revolution, prices, w)
    for size in range(2, n + 1):
        group_cards = rank
        while count(group_cards) > size:  # the lowest card and the highest others
            group_cards ^= np.uint64(1) << np.uint64(lowest(group_cards ^ card))
        rest = _hand_cost(hand ^ group_cards, joker, revolution, prices, w)
        cost = min(cost, prices[size, column] + rest)
    if joker and n < 4:
        rest = _hand_cost(hand ^ rank, False, revolution, prices, w)
        cost = min(cost, prices[n + 1, column] + rest)
    run, spare = np.uint64(0), joker
    for end in range(column, 14):
        here = np.uint64(1) << np.uint64(4 * end - 4 + row)
        if not hand & here:
            if not spare:
                break
            spare = False
            continue
        run |= here
        size = end - column + 1
        if size >= 3:
            rest = _hand_cost(hand ^ run, spare, revolution, prices, w)
            cost = min(cost, _sequence_cost(column, size, revolution, w) + rest)
    return float(cost)


@njit(boolean(uint64, int64, int64), cache=True)
def _run_beats(unseen: Word, play: int, revolution: int) -> bool:
    """Whether the unseen cards have a sequence that beats a sequence."""
    size = int(SIZE[play])
    joker = unseen >> np.uint64(JOKER) != np.uint64(0)
    cells = (unseen & np.uint64(NATURALS)) << np.uint64(4)
    first, last = (0, int(LOW[play]) - size) if revolution else (int(HIGH[play]) + 1, 15 - size)
    for row in range(4):
        for start in range(first, last + 1):
            held = cells >> np.uint64(4 * start + row) & _SUIT
            held &= (np.uint64(1) << np.uint64(4 * size)) - np.uint64(1)
            if count(held) + joker >= size:
                return True
    return False


@njit(boolean(uint64, int64, int64, int64), cache=True)
def _can_be_beaten(unseen: Word, play: int, revolution: int, largest: int) -> bool:
    """Whether any of the unseen cards, held together, beat a play.

    Args:
        unseen: the cards that others hold.
        play: what is laid.
        revolution: the order of ranks after it.
        largest: how many cards the others hold at most who may still answer.
    """
    size = int(SIZE[play])
    if size > largest or CUTS_AS_8[play]:
        return False
    if play == LONE_JOKER:
        return bool(unseen & np.uint64(S3))
    if KIND[play] == SEQUENCE:
        return _run_beats(unseen, play, revolution)
    joker = unseen >> np.uint64(JOKER) != np.uint64(0)
    if size == 1 and joker:
        return True
    first, last = (1, int(LOW[play]) - 1) if revolution else (int(LOW[play]) + 1, 13)
    for column in range(first, last + 1):
        n = count(unseen >> np.uint64(4 * column - 4) & np.uint64(15))
        if n and n + (joker and size > 1) >= size:
            return True
    return False


@njit(int64(GameType, int64), cache=True)
def _order_after(view: Game, play: int) -> int:
    """Whether ranks are turned around after a play."""
    return int(view.revolution) ^ int(view.revolutions != 0 and REVOLVES[play])


@njit(boolean(uint64, uint64, int64, int64, int64), cache=True)
def _surely_out(hand: Word, unseen: Word, revolution: int, largest: int, depth: int) -> bool:
    """Whether a hand that leads can be played out with plays that nobody beats, the last any.

    Args:
        hand: the cards.
        unseen: the cards that others hold.
        revolution: whether ranks are turned around.
        largest: how many cards another player holds at most.
        depth: how many plays are tried.
    """
    if hand == np.uint64(0):
        return True
    plays = np.empty(N_PLAYS, np.int64)
    n = legal_plays(hand, PASS, revolution != 0, False, True, plays)
    for i in range(n):
        if CARDS[plays[i]] == hand:
            return True
    for i in range(n if depth > 1 else 0):
        order = revolution ^ int(REVOLVES[plays[i]])
        rest = hand & ~CARDS[plays[i]]
        if not _can_be_beaten(unseen, plays[i], order, largest) and _surely_out(
            rest, unseen, order, largest, depth - 1
        ):
            return True
    return False


@njit(int64(GameType, boolean), cache=True)
def _largest_hand(view: Game, passed_too: bool) -> int:
    """How many cards another player holds at most; those who have passed, if asked for."""
    largest = 0
    for player in range(N_PLAYERS):
        if player != view.turn and (passed_too or not view.passed >> player & 1):
            largest = max(largest, view.left[player])
    return largest


@njit(boolean(GameType), cache=True)
def _somebody_is_near(view: Game) -> bool:
    """Whether another player holds little."""
    for player in range(N_PLAYERS):
        if player != view.turn and 0 < view.left[player] <= _LITTLE:
            return True
    return False


@njit(int64(GameType, uint64, int64[::1], int64), cache=True)
def _winning_play(view: Game, unseen: Word, plays: Numbers, n: int) -> int:
    """A play after which the hand is surely played out; the pass if none is found."""
    hand = view.hands[view.turn]
    depth = 4 if count(hand) <= 8 else 3
    answering, all_hands = _largest_hand(view, False), _largest_hand(view, True)
    for i in range(n):
        if CARDS[plays[i]] == hand:
            return int(plays[i])
    for i in range(n):
        order = _order_after(view, plays[i])
        rest = hand & ~CARDS[plays[i]]
        wins = view.field == LONE_JOKER or not _can_be_beaten(unseen, plays[i], order, answering)
        if wins and _surely_out(rest, unseen, order, all_hands, depth):
            return int(plays[i])
    return PASS


@njit(float64(GameType, uint64, int64, float64[:, ::1], WeightsType), cache=True)
def _win_chance(view: Game, unseen: Word, play: int, beaters: Table, w: Weights) -> float:
    """About the chance that a play wins the trick."""
    if CUTS_AS_8[play] or view.field == LONE_JOKER:
        return 1.0
    if play == LONE_JOKER:
        return 0.9 if unseen & np.uint64(S3) else 1.0
    if KIND[play] == SEQUENCE:
        return _SEQUENCE_WINS
    size = int(SIZE[play])
    scale = w.win_scale if size == 1 else 0.5 * w.win_scale
    return math.exp(-beaters[min(size, 4), int(LOW[play])] / scale)


@njit(int64(GameType, WeightsType), cache=True)
def heuristic_play(view: Game, w: Weights) -> int:
    """The play of the heuristic player.

    It finishes if that is certain. Otherwise it takes the play that leaves the hand of the least
    cost, less what the lead is worth if the play wins the trick; passing leaves the hand as it is.

    Args:
        view: what the player in turn sees.
        w: the weights.
    """
    plays = np.empty(N_PLAYS, np.int64)
    n = list_legal(view, plays)
    hand = view.hands[view.turn]
    unseen = np.uint64(DECK) & ~(hand | all_played(view))
    chosen = _winning_play(view, unseen, plays, n)
    if chosen != PASS or n == 0:
        return chosen
    beaters, prices = np.zeros((2, 5, 15)), np.zeros((2, 5, 15))
    for order in range(2):
        _count_beaters(unseen, order, beaters[order])
        _price(beaters[order], w, prices[order])
    lead = w.lead + (w.danger if _somebody_is_near(view) else 0.0)
    least = np.inf
    for i in range(-1 if view.field != PASS else 0, n):
        play = plays[i] if i >= 0 else PASS
        order = _order_after(view, play)
        rest = hand & ~CARDS[play]
        natural, joker = rest & np.uint64(NATURALS), rest >> np.uint64(JOKER) != np.uint64(0)
        cost = _hand_cost(natural, joker, order, prices[order], w)
        if play != PASS:
            cost -= lead * _win_chance(view, unseen, play, beaters[order], w)
        if cost < least:
            least, chosen = cost, play
    return int(chosen)


@njit(uint64(GameType, WeightsType), cache=True)
def heuristic_gift(view: Game, w: Weights) -> Word:
    """The cards that the heuristic player gives: those without which the hand costs least."""
    hand = view.hands[view.turn]
    natural, joker = hand & np.uint64(NATURALS), hand >> np.uint64(JOKER) != np.uint64(0)
    beaters, prices = np.zeros((5, 15)), np.zeros((5, 15))
    _count_beaters(np.uint64(DECK) & ~hand, 0, beaters)
    _price(beaters, w, prices)
    least, chosen = np.inf, np.uint64(0)
    for first in range(JOKER):
        for second in range(first, first + 1 if view.to_give == 1 else JOKER):
            gift = np.uint64(1) << np.uint64(first) | np.uint64(1) << np.uint64(second)
            if gift & ~natural or count(gift) != view.to_give:
                continue
            cost = _hand_cost(natural & ~gift, joker, 0, prices, w)
            if cost < least:
                least, chosen = cost, gift
    return chosen


class HeuristicAgent:
    """A player by rules: it divides its hand, and counts what can still beat its parts.

    It keeps groups and sequences whole, gets rid of what loses tricks, saves 8s, 2s and the joker
    for the lead, and plays out as soon as nobody can hinder it.
    """

    def __init__(self, weights: Weights | None = None) -> None:
        self._weights = weights or Weights()

    def choose(self, view: Game) -> int:
        """The play of least cost: see `heuristic_play`."""
        return int(heuristic_play(view, self._weights))

    def give(self, view: Game, n: int) -> int:
        """The cards that the rest of the hand misses least: see `heuristic_gift`."""
        return int(heuristic_gift(view, self._weights))

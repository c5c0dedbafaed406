"""A player of Daihinmin by rules: it divides its hand, and counts what can still beat the parts.

Every part of a hand (a single card, a group, a sequence) has a cost: about one lead if it surely
loses the trick, less than nothing if it wins it and is worth keeping. What can beat it is counted
among the cards that the player has not seen. A play is judged by the cost of what it leaves in the
hand, and by the lead, if it is likely to win that.
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
    NATURALS,
    S3,
    count,
    lowest,
)
from afterstate.envs.daihinmin.plays import (
    CARDS,
    CUTS_AS_8,
    HIGH,
    KIND,
    LONE_JOKER,
    LOW,
    N_PLAYS,
    PASS,
    REVOLVES,
    SEQUENCE,
    SIZE,
    SPADES,
    Numbers,
    legal_plays,
)
from afterstate.envs.daihinmin.rules import (
    N_PLAYERS,
    Game,
    GameType,
    largest_hand,
    list_legal,
    order_after,
)
from afterstate.envs.daihinmin.views import unseen_cards
from afterstate.envs.words import Word


class Weights(NamedTuple):
    """What the heuristic player thinks of cards.

    The unit is about one lead: a meld that surely loses the trick costs one to get rid of, a meld
    that surely wins it is worth keeping, which is a negative cost.
    """

    keep: float = 0.85
    """A single card that nothing unseen beats."""
    burden: float = 1.2
    """A single card that is surely beaten."""
    scale: float = 3.17
    """Unseen cards above it that make the one into the other."""
    slope: float = 0.33
    """And more the weaker, for it can be laid on fewer cards."""
    group_keep: float = 0.67
    group_burden: float = 0.84
    group_scale: float = 1.03
    group_slope: float = 0.27
    sequence_keep: float = 0.33
    sequence_burden: float = 0.42
    eight: float = 0.59
    """A single 8, which always wins the trick."""
    eights: float = 0.74
    """A group or sequence with an 8."""
    joker: float = 1.56
    """The joker for itself."""
    lead: float = 1.0
    """The lead after this trick."""
    win_scale: float = 2.39
    """Unseen cards above a play that make its chance of winning the trick 1 / e."""
    danger: float = 0.31
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
        for size in range(5):
            out[size, column] = above[size]
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


@njit(float64(uint64, int64, float64[:, ::1], WeightsType), cache=True)
def _hand_cost(hand: Word, revolution: int, prices: Table, w: Weights) -> float:
    """The cost of the cheapest way to divide a hand into single cards, groups and sequences.

    The lowest card goes alone, with others of its rank, with the joker, or into a sequence that it
    begins, and the rest is divided likewise.

    Args:
        hand: the card set.
        revolution: whether ranks are turned around.
        prices: of groups, `[size, column]`.
        w: the weights.
    """
    joker = hand & np.uint64(1) << np.uint64(JOKER)
    if hand == joker:
        return -w.joker if joker else 0.0
    lowest_card = lowest(hand)
    column, row = lowest_card // 4 + 1, lowest_card % 4
    card = np.uint64(1) << np.uint64(lowest_card)
    others = hand & np.uint64(15) << np.uint64(4 * column - 4) ^ card
    cost, more = np.inf, others
    while True:  # the lowest card with each subset of its rank's other cards
        size = count(more) + 1
        rest = hand ^ card ^ more
        cost = min(cost, prices[size, column] + _hand_cost(rest, revolution, prices, w))
        if joker and size < 4:
            rest ^= joker
            cost = min(cost, prices[size + 1, column] + _hand_cost(rest, revolution, prices, w))
        if more == np.uint64(0):
            break
        more = (more - np.uint64(1)) & others
    run, spare = np.uint64(0), joker
    for end in range(column, 14):
        here = np.uint64(1) << np.uint64(4 * end - 4 + row)
        if not hand & here:
            if not spare:
                break
            run |= spare
            spare = np.uint64(0)
            continue
        run |= here
        size = end - column + 1
        if size >= 3:
            rest_cost = _hand_cost(hand ^ run, revolution, prices, w)
            cost = min(cost, _sequence_cost(column, size, revolution, w) + rest_cost)
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
            held = cells >> np.uint64(4 * start + row) & SPADES
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


@njit(boolean(GameType), cache=True)
def _somebody_is_near(view: Game) -> bool:
    """Whether another player holds little."""
    for player in range(N_PLAYERS):
        if player != view.turn and 0 < view.left[player] <= _LITTLE:
            return True
    return False


@njit(boolean(GameType), cache=True)
def _has_usual_rules(view: Game) -> bool:
    """Whether the rules are those by which `_can_be_beaten` judges."""
    return bool(view.sequences and view.revolutions and view.eight_cuts)


@njit(boolean(GameType), cache=True)
def _leads_if_passing(view: Game) -> bool:
    """Whether the player in turn won the trick: he is asked again, and leads if he passes."""
    return bool(view.field != PASS and view.last == view.turn and largest_hand(view, False) == 0)


@njit(int64(GameType, uint64, int64[::1], int64), cache=True)
def _winning_play(view: Game, unseen: Word, plays: Numbers, n: int) -> int:
    """A play, or the pass, after which the hand is surely played out; -1 if none is found."""
    hand = view.hands[view.turn]
    for i in range(n):
        if CARDS[plays[i]] == hand:
            return int(plays[i])
    if not _has_usual_rules(view):
        return -1
    depth = 4 if count(hand) <= 8 else 3
    answering, all_hands = largest_hand(view, False), largest_hand(view, True)
    order = int(view.revolution)
    if _leads_if_passing(view) and _surely_out(hand, unseen, order, all_hands, depth):
        return PASS
    for i in range(n):
        order = order_after(view, view.revolution, plays[i])
        rest = hand & ~CARDS[plays[i]]
        wins = view.field == LONE_JOKER or not _can_be_beaten(unseen, plays[i], order, answering)
        if wins and _surely_out(rest, unseen, order, all_hands, depth):
            return int(plays[i])
    return -1


@njit(float64(GameType, uint64, int64, float64[:, ::1], WeightsType), cache=True)
def _win_chance(view: Game, unseen: Word, play: int, beaters: Table, w: Weights) -> float:
    """About the chance that a play wins the trick."""
    if play == PASS:
        return 1.0 if _leads_if_passing(view) else 0.0
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
    cost, less what the lead is worth if the play wins the trick. Passing leaves the hand as it is,
    and wins the trick for who is asked again on his own cards.

    Args:
        view: what the player in turn sees.
        w: the weights.
    """
    plays = np.empty(N_PLAYS, np.int64)
    n = list_legal(view, plays)
    hand = view.hands[view.turn]
    unseen = unseen_cards(view, view.turn)
    chosen = _winning_play(view, unseen, plays, n)
    if chosen >= PASS or n == 0:
        return max(chosen, PASS)
    beaters, prices = np.zeros((2, 5, 15)), np.zeros((2, 5, 15))
    for order in range(2):
        _count_beaters(unseen, order, beaters[order])
        _price(beaters[order], w, prices[order])
    lead = w.lead + (w.danger if _somebody_is_near(view) else 0.0)
    least = np.inf
    for i in range(-1 if view.field != PASS else 0, n):
        play = plays[i] if i >= 0 else PASS
        order = order_after(view, view.revolution, play)
        cost = _hand_cost(hand & ~CARDS[play], order, prices[order], w)
        cost -= lead * _win_chance(view, unseen, play, beaters[order], w)
        if cost < least:
            least, chosen = cost, play
    return int(chosen)


@njit(uint64(GameType, WeightsType), cache=True)
def heuristic_gift(view: Game, w: Weights) -> Word:
    """The cards that the heuristic player gives: those without which the hand costs least."""
    hand = view.hands[view.turn]
    beaters, prices = np.zeros((5, 15)), np.zeros((5, 15))
    _count_beaters(np.uint64(DECK) & ~hand, 0, beaters)
    _price(beaters, w, prices)
    least, chosen = np.inf, np.uint64(0)
    for first in range(JOKER):
        for second in range(first, first + 1 if view.to_give == 1 else JOKER):
            gift = np.uint64(1) << np.uint64(first) | np.uint64(1) << np.uint64(second)
            if gift & ~hand or count(gift) != view.to_give:
                continue
            cost = _hand_cost(hand ^ gift, 0, prices, w)
            if cost < least:
                least, chosen = cost, gift
    return chosen

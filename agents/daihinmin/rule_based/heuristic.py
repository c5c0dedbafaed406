"""The heuristic player of Daihinmin: hand division and the unseen cards that beat each meld.

Every meld of a hand (a single card, a group, a sequence) has a cost: about one lead if it surely
loses the trick, a negative cost if it wins the trick and is worth keeping. The cards that beat it
are counted among those that the player has not seen. The value of a play is the cost of the hand
that it leaves, less the value of the lead times the chance to win the trick.
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
    write_plays,
)
from afterstate.envs.daihinmin.rules import (
    N_PLAYERS,
    Game,
    GameType,
    largest_hand,
    order_after,
    write_gifts,
    write_legal,
)
from afterstate.envs.daihinmin.views import unseen_cards
from afterstate.envs.words import Word


class Weights(NamedTuple):
    """The costs of melds, in leads.

    A meld that surely loses the trick costs about one lead to get rid of. A meld that surely wins
    it is worth keeping, which is a negative cost.
    """

    keep: float = 0.85
    """Value of a single card that no unseen card beats."""
    burden: float = 1.2
    """Cost of a single card that is surely beaten."""
    scale: float = 3.17
    """Unseen cards above a single card over which its value falls to 1 / e."""
    slope: float = 0.33
    """Extra cost of a weak single card, which can be laid on fewer cards."""
    group_keep: float = 0.67
    group_burden: float = 0.84
    group_scale: float = 1.03
    group_slope: float = 0.27
    sequence_keep: float = 0.33
    sequence_burden: float = 0.42
    eight: float = 0.59
    """Value of a single 8, which always wins the trick."""
    eights: float = 0.74
    """Value of a group or sequence with an 8."""
    joker: float = 1.56
    """Value of the joker by itself."""
    lead: float = 1.0
    """Value of the lead after this trick."""
    win_scale: float = 2.39
    """Unseen cards above a play at which its chance to win the trick is 1 / e."""
    danger: float = 0.31
    """Extra value of the lead while another player holds three cards or fewer."""


WeightsType = types.NamedUniTuple(float64, len(Weights._fields), Weights)
Table = npt.NDArray[np.float64]

# [size, unseen cards of the rank]: the chance that one of four players holds such a group
_GROUP_CHANCE = np.zeros((5, 6))
_GROUP_CHANCE[2] = 0, 0, 0.25, 0.625, 0.906, 0.906
_GROUP_CHANCE[3] = 0, 0, 0, 0.0625, 0.2, 0.2
_GROUP_CHANCE[4] = 0, 0, 0, 0, 0.0156, 0.02
_SEQUENCE_WINS = 0.8  # the chance that a sequence wins, whatever its ranks
_FEW = 3  # cards of a player who is about to finish


@njit(void(uint64, int64, float64[:, ::1]), cache=True)
def _count_beaters(unseen: Word, revolution: int, out: Table) -> None:
    """Write the expected number of unseen groups that beat a group to `out[size, column]`.

    A single card is beaten by every card above it. A larger group counts by the chance that one
    player holds it.
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
    """Write the cost of each group to `out[size, column]`."""
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
    """Return the cost of a sequence, which falls with its height."""
    last = first + size - 1
    if first <= 6 <= last:
        return -w.eights
    height = (13 - last if revolution else first - 1) / 11
    return -w.sequence_keep + w.sequence_burden * (1 - height)


@njit(float64(uint64, int64, float64[:, ::1], WeightsType), cache=True)
def _hand_cost(hand: Word, revolution: int, prices: Table, w: Weights) -> float:
    """Return the cost of the cheapest division of a hand into single cards, groups and sequences.

    The lowest card goes alone, with others of its rank, with the joker, or into a sequence that it
    begins; the rest is divided recursively.

    Args:
        hand: the card set.
        revolution: 1 if ranks are reversed.
        prices: costs of groups, `[size, column]`.
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
    """Return True if the unseen cards contain a sequence that beats a sequence."""
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
    """Return True if the unseen cards, held in one hand, could beat a play.

    Args:
        unseen: the cards that others hold.
        play: the play on the field.
        revolution: 1 if ranks are reversed after the play.
        largest: the largest hand of a player who may still answer.
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
def _can_force_out(hand: Word, unseen: Word, revolution: int, largest: int, depth: int) -> bool:
    """Return True if the leader can go out with plays of which all but the last are unbeatable.

    Args:
        hand: the leader's cards.
        unseen: the cards that others hold.
        revolution: 1 if ranks are reversed.
        largest: the largest hand of another player.
        depth: the search depth, in plays.
    """
    if hand == np.uint64(0):
        return True
    plays = np.empty(N_PLAYS, np.int64)
    n = write_plays(hand, PASS, revolution != 0, False, True, plays)
    for i in range(n):
        if CARDS[plays[i]] == hand:
            return True
    for i in range(n if depth > 1 else 0):
        order = revolution ^ int(REVOLVES[plays[i]])
        rest = hand & ~CARDS[plays[i]]
        if not _can_be_beaten(unseen, plays[i], order, largest) and _can_force_out(
            rest, unseen, order, largest, depth - 1
        ):
            return True
    return False


@njit(boolean(GameType), cache=True)
def _somebody_is_about_to_finish(view: Game) -> bool:
    """Return True if another player is about to finish."""
    for player in range(N_PLAYERS):
        if player != view.turn and 0 < view.left[player] <= _FEW:
            return True
    return False


@njit(boolean(GameType), cache=True)
def _has_usual_rules(view: Game) -> bool:
    """Return True if the rules are those that `_can_be_beaten` assumes."""
    return bool(view.sequences and view.revolutions and view.eight_cuts)


@njit(boolean(GameType), cache=True)
def _leads_if_passing(view: Game) -> bool:
    """Return True if the player in turn has won the trick and leads after a pass."""
    return bool(view.field != PASS and view.last == view.turn and largest_hand(view, False) == 0)


@njit(int64(GameType, uint64, int64[::1], int64), cache=True)
def _winning_play(view: Game, unseen: Word, plays: Numbers, n: int) -> int:
    """Return a play, or the pass, after which the player can always go out; -1 if none."""
    hand = view.hands[view.turn]
    for i in range(n):
        if CARDS[plays[i]] == hand:
            return int(plays[i])
    if not _has_usual_rules(view):
        return -1
    depth = 4 if count(hand) <= 8 else 3
    answering, all_hands = largest_hand(view, False), largest_hand(view, True)
    order = int(view.revolution)
    if _leads_if_passing(view) and _can_force_out(hand, unseen, order, all_hands, depth):
        return PASS
    for i in range(n):
        order = order_after(view, view.revolution, plays[i])
        rest = hand & ~CARDS[plays[i]]
        wins = view.field == LONE_JOKER or not _can_be_beaten(unseen, plays[i], order, answering)
        if wins and _can_force_out(rest, unseen, order, all_hands, depth):
            return int(plays[i])
    return -1


@njit(float64(GameType, uint64, int64, float64[:, ::1], WeightsType), cache=True)
def _win_chance(view: Game, unseen: Word, play: int, beaters: Table, w: Weights) -> float:
    """Return the estimated chance that a play wins the trick."""
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
    """Return the play of the heuristic player.

    It goes out if that is certain. Otherwise it minimizes the cost of the hand that stays less the
    value of the lead times the chance that the play wins the trick. A pass keeps the hand, and wins
    the trick if all others have passed on the player's own play.

    Args:
        view: the view of the player in turn.
        w: the weights.
    """
    plays = np.empty(N_PLAYS, np.int64)
    n = write_legal(view, plays)
    hand = view.hands[view.turn]
    unseen = unseen_cards(view, view.turn)
    best = _winning_play(view, unseen, plays, n)
    if best >= PASS or n == 0:
        return max(best, PASS)
    beaters, prices = np.zeros((2, 5, 15)), np.zeros((2, 5, 15))
    for order in range(2):
        _count_beaters(unseen, order, beaters[order])
        _price(beaters[order], w, prices[order])
    lead = w.lead + (w.danger if _somebody_is_about_to_finish(view) else 0.0)
    least = np.inf
    for i in range(-1 if view.field != PASS else 0, n):
        play = plays[i] if i >= 0 else PASS
        order = order_after(view, view.revolution, play)
        cost = _hand_cost(hand & ~CARDS[play], order, prices[order], w)
        cost -= lead * _win_chance(view, unseen, play, beaters[order], w)
        if cost < least:
            least, best = cost, play
    return int(best)


@njit(uint64(GameType, WeightsType), cache=True)
def heuristic_gift(view: Game, w: Weights) -> Word:
    """Return the cards, without the joker, whose removal leaves the hand of least cost."""
    hand = view.hands[view.turn]
    beaters, prices = np.zeros((5, 15)), np.zeros((5, 15))
    _count_beaters(np.uint64(DECK) & ~hand, 0, beaters)
    _price(beaters, w, prices)
    least, best = np.inf, np.uint64(0)
    gifts = np.empty(N_PLAYS, np.int64)  # more than there are gifts
    for i in range(write_gifts(view, gifts)):
        gift = np.uint64(gifts[i])
        if gift >> np.uint64(JOKER):
            continue
        cost = _hand_cost(hand ^ gift, 0, prices, w)
        if cost < least:
            least, best = cost, gift
    return best

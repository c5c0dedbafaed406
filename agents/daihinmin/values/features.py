"""Binary features of a play or a gift and of the hand that it leaves.

They use what the player may know: its own hand, the cards that it has not seen, and public facts.

The strength of a meld is its *level*: the number of unseen cards (for groups: of unseen groups of
its size) above it. Nobody beats level 0. A hand is divided into *melds* in one way: cards in runs
of three or more form runs, the rest *loose* groups by rank. A meld that something beats is a
*loser*.

There are 13 *contexts*: the player leads or follows, holds few cards or not, and another player is
more or less near its end; and one context of gifts. The number of a feature in a context is
context * `N_FEATURES` + its number in the list below.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import int16, int64, njit, types, uint64, void

from afterstate.envs.daihinmin.cards import DECK, JOKER, NATURALS, S3, count, lowest
from afterstate.envs.daihinmin.plays import (
    CARDS,
    GROUP,
    HIGH,
    KIND,
    LONE_JOKER,
    LOW,
    PASS,
    ROWS,
    SEQUENCE,
    SINGLE,
    SIZE,
    Numbers,
    runs,
    write_plays,
)
from afterstate.envs.daihinmin.rules import (
    N_PLAYERS,
    Game,
    GameType,
    cuts,
    largest_hand,
    lock_after,
    order_after,
    write_legal,
)
from afterstate.envs.daihinmin.views import unseen_cards
from afterstate.envs.words import Word

# The features of a context: the number of the first one of each family.

LOOSE = 0  # loose groups that stay in the hand, by size (1-4) and level (0-9)
EIGHTS = LOOSE + 40  # an 8, several 8s that stay
JOKER_STAYS = EIGHTS + 2
S3_STAYS = JOKER_STAYS + 1  # the spade 3, while the joker is unseen
RUNS = S3_STAYS + 1  # a run that stays: low, high, with an 8
MELDS = RUNS + 3  # number of melds, 0-8
LOSERS = MELDS + 9  # number of losers, 0-7
BALANCE = LOSERS + 8  # winners less losers, -4 to 4
LEFT = BALANCE + 9  # cards that stay, 0-11 and more
RANKS = LEFT + 13  # loose single cards and pairs that stay, by rank
PLAYED = RANKS + 26  # the play: single, pair, triple, larger group, joker, sequence of 3, 4, more
LEVEL = PLAYED + 8  # level of the play by size (1, 2, more), 0-9
WINS = LEVEL + 30  # the play surely wins the trick or not, by the losers that stay, 0-4
STRENGTH = WINS + 10  # rank of the play by kind: single, pair, larger group, sequence
FLAGS = STRENGTH + 52  # see below
PASSES = FLAGS + 10  # the pass; the pass on the own play
PASS_LOSERS = PASSES + 2  # losers in the hand, 0-7
PASS_LEVEL = PASS_LOSERS + 8  # level of the field by size (1, 2, more), 0-9
PASS_FOLLOWERS = PASS_LEVEL + 30  # others that may still answer the field, 0-3
PASS_OWNER = PASS_FOLLOWERS + 4  # cards of the player of the field, 0-1, 2, 3, 4-5, more
N_FEATURES = PASS_OWNER + 5
"""Number of features of a context."""
LOCKS, TURNS, USES_JOKER, RISKS_JOKER, BEATS_JOKER, BREAKS_RUN, CUTS = range(7)
BREAKS_GROUP = 7  # the play takes some cards of a group of 2, 3 or 4

GIFTS = 12
N_CONTEXTS = GIFTS + 1
"""Contexts: 6 * follows + 3 * holds few cards + the smallest hand of another player (0: at most 2
cards, 1: at most 5, 2: more); and gifts."""
MOST = 48
"""The most features of a play."""

_SINGLE_LEVEL = np.array(
    [0, 1, 2, 3, 3, 4, 4, 5, 5, 5] + [6] * 4 + [7] * 5 + [8] * 7 + [9] * 28, np.int64
)
_NEARNESS = np.array([0, 0, 0, 1, 1, 1] + [2] * 9, np.int64)
_OWNER_LEFT = np.array([0, 0, 1, 2, 3, 3] + [4] * 9, np.int64)
_FEW = 5  # cards in the hand
_EIGHT = 6  # the column of the 8s
_EACH_RANK = np.uint64(0x1_1111_1111_1111)


class Scene(NamedTuple):
    """The facts that all plays of a decision share, as `int64`; card sets fit in 53 bits."""

    hand: np.int64
    unseen: np.int64
    """The cards that others hold."""
    order: int
    """1 if ranks are reversed."""
    field: int
    rows: int
    """The suits that may be laid, as bits: all 15 without a lock."""
    eight_cuts: int
    answering: int
    """The largest hand of a player that may answer a play."""
    context: int
    """The number of the first feature of the context."""


SceneType = types.NamedUniTuple(int64, len(Scene._fields), Scene)
Features = npt.NDArray[np.int16]


@njit(uint64(uint64, int64), cache=True)
def _ranks_with(cards: Word, size: int) -> Word:
    """Return the ranks of which a set holds `size` cards with the joker, as bits 4 * rank + 3."""
    joker = int(cards >> np.uint64(JOKER))
    counts = cards & np.uint64(NATURALS)
    counts -= counts >> np.uint64(1) & np.uint64(0x5555_5555_5555_5555)
    pairs = np.uint64(0x3333_3333_3333_3333)
    counts = (counts & pairs) + (counts >> np.uint64(2) & pairs)  # cards of a rank in its nibble
    need = min(max(1, size - joker), 5)
    return counts + np.uint64(8 - need) * _EACH_RANK & np.uint64(8) * _EACH_RANK


@njit(uint64(int64, int64, int64), cache=True)
def _above(low: int, high: int, order: int) -> Word:
    """Return the cards of all ranks stronger than columns `low` to `high`."""
    if order:
        return (np.uint64(1) << np.uint64(4 * max(low - 1, 0))) - np.uint64(1)
    return np.uint64(NATURALS) & ~((np.uint64(1) << np.uint64(4 * min(high, 13))) - np.uint64(1))


@njit(int64(uint64, int64, int64, int64, int64), cache=True)
def group_level(unseen: Word, column: int, size: int, order: int, rows: int) -> int:
    """Return the level of a group: 0 if no unseen group beats it, up to 9.

    Args:
        unseen: the cards that others hold.
        column: the column of its rank.
        size: its number of cards; 1 for a single card.
        order: 1 if ranks are reversed.
        rows: the suits that may answer a single card, as bits.
    """
    above = _above(column, column, order)
    if size > 1:
        return min(count(_ranks_with(unseen, size) & above), 9)
    suits = _EACH_RANK * np.uint64(rows & 15)
    return int(_SINGLE_LEVEL[count(unseen & above & suits) + int(unseen >> np.uint64(JOKER))])


@njit(int64(SceneType, int64, int64, int64, int64[::1]), cache=True)
def _level(scene: Scene, play: int, order: int, rows: int, out: Numbers) -> int:
    """Return the level of a play on the field, that `rows` may answer in the `order` after it."""
    unseen = np.uint64(scene.unseen)
    if play == LONE_JOKER:
        return int(unseen & np.uint64(S3))
    if KIND[play] == SEQUENCE:
        n = write_plays(unseen, play, order != 0, rows != 15, True, out)
        return min(n, 9)
    return group_level(unseen, int(LOW[play]), int(SIZE[play]), order, rows)


@njit(uint64(uint64), cache=True)
def _covered(starts: Word) -> Word:
    """Return the cards of the runs of three that start at the given cards."""
    starts = np.uint64(starts)
    return starts | starts << np.uint64(4) | starts << np.uint64(8)


@njit(int64(SceneType, uint64, int64, int16[::1]), cache=True)
def _describe_hand(scene: Scene, hand: Word, order: int, out: Features) -> int:
    """Write the features of the hand that stays.

    Returns:
        16 * the number of features + the number of losers.
    """
    unseen = np.uint64(scene.unseen)
    first = scene.context
    cells = hand & np.uint64(NATURALS)
    starts = runs(cells, 3)
    loose = cells & ~_covered(starts)
    n, n_melds, n_losers = 0, 0, 0
    while loose:
        rank = lowest(loose) >> 2
        column = rank + 1
        size = count(loose >> np.uint64(4 * rank) & np.uint64(15))
        loose &= ~(np.uint64(15) << np.uint64(4 * rank))
        n_melds += 1
        if column == _EIGHT and scene.eight_cuts:
            out[n] = first + EIGHTS + (size > 1)
            n += 1
            continue
        level = group_level(unseen, column, size, order, 15)
        out[n] = first + LOOSE + 10 * (size - 1) + level
        n += 1
        n_losers += level > 0
        if size <= 2:
            strength = 13 - column if order else rank
            out[n] = first + RANKS + 13 * (size - 1) + strength
            n += 1
    heads = starts & ~(starts << np.uint64(4))
    while heads:
        head = lowest(heads)
        heads &= heads - np.uint64(1)
        end = head + 8
        while end + 4 < JOKER and cells >> np.uint64(end + 4) & np.uint64(1):
            end += 4
        has_8 = scene.eight_cuts and head >> 2 <= _EIGHT - 1 <= end >> 2
        strong = head >> 2 < 4 if order else end >> 2 > 8
        out[n] = first + RUNS + (2 if has_8 else int(strong))
        n += 1
        n_melds += 1
    if hand >> np.uint64(JOKER):
        out[n] = first + JOKER_STAYS
        n += 1
        n_melds += 1
    if hand & np.uint64(S3) and unseen >> np.uint64(JOKER):
        out[n] = first + S3_STAYS
        n += 1
    out[n] = first + MELDS + min(n_melds, 8)
    out[n + 1] = first + LOSERS + min(n_losers, 7)
    out[n + 2] = first + BALANCE + max(0, min(n_melds - 2 * n_losers + 4, 8))
    out[n + 3] = first + LEFT + min(count(hand), 12)
    return (n + 4) * 16 + n_losers


@njit(int64(GameType, SceneType, int64, int16[::1], int64), cache=True)
def _describe_flags(game: Game, scene: Scene, play: int, out: Features, n: int) -> int:
    """Append the flags of a play to the `n` features; return the new number of features."""
    first = scene.context + FLAGS
    hand, cards = np.uint64(scene.hand), CARDS[play]
    uses_joker = cards >> np.uint64(JOKER) != 0
    if lock_after(game, scene.field, game.lock, play) > game.lock:
        out[n] = first + LOCKS
        n += 1
    if order_after(game, scene.order, play) != scene.order:
        out[n] = first + TURNS
        n += 1
    if uses_joker:
        out[n] = first + USES_JOKER
        n += 1
    if play == LONE_JOKER and scene.unseen & S3:
        out[n] = first + RISKS_JOKER
        n += 1
    if scene.field == LONE_JOKER:
        out[n] = first + BEATS_JOKER
        n += 1
    elif cuts(game, scene.field, play):
        out[n] = first + CUTS
        n += 1
    cells = hand & np.uint64(NATURALS)
    if KIND[play] != SEQUENCE and cards & _covered(runs(cells, 3)):
        out[n] = first + BREAKS_RUN
        n += 1
    if KIND[play] == SINGLE or KIND[play] == GROUP:
        rank = int(LOW[play]) - 1
        held = count(cells >> np.uint64(4 * rank) & np.uint64(15))
        if held > int(SIZE[play]) - int(uses_joker):
            out[n] = first + BREAKS_GROUP + held - 2
            n += 1
    return n


@njit(int64(GameType, SceneType, int64, int64[::1], int16[::1]), cache=True)
def _describe_play(game: Game, scene: Scene, play: int, beaters: Numbers, out: Features) -> int:
    """Write the features of a play other than the pass; return their number."""
    first, size, kind = scene.context, int(SIZE[play]), KIND[play]
    order = order_after(game, scene.order, play)
    rows = int(ROWS[play]) if lock_after(game, scene.field, game.lock, play) else 15
    hand = np.uint64(scene.hand) & ~CARDS[play]
    code = _describe_hand(scene, hand, order, out)
    n, n_losers = code >> 4, code & 15
    level = _level(scene, play, order, rows, beaters)
    wins = level == 0 or size > scene.answering or cuts(game, scene.field, play)
    shape = 4 if kind > SEQUENCE else min(size, 5) + 2 if kind == SEQUENCE else min(size, 4) - 1
    width = min(size, 3) - 1
    out[n] = first + PLAYED + shape
    out[n + 1] = first + LEVEL + 10 * width + level
    out[n + 2] = first + WINS + 5 * int(wins) + min(n_losers, 4)
    n += 3
    if play != LONE_JOKER:
        end = max(int(LOW[play]), 1)
        strength = 13 - min(int(HIGH[play]), 13) if order else end - 1
        out[n] = first + STRENGTH + 13 * (3 if kind == SEQUENCE else width) + strength
        n += 1
    return _describe_flags(game, scene, play, out, n)


@njit(int64(GameType, SceneType, int64[::1], int16[::1]), cache=True)
def _describe_pass(game: Game, scene: Scene, beaters: Numbers, out: Features) -> int:
    """Write the features of the pass; return their number."""
    first, field = scene.context, scene.field
    code = _describe_hand(scene, np.uint64(scene.hand), scene.order, out)
    n, n_losers = code >> 4, code & 15
    followers = 0
    for player in range(N_PLAYERS):
        is_in = game.left[player] > 0 and not game.passed >> player & 1
        followers += is_in and player != game.turn and player != game.last
    level = _level(scene, field, scene.order, scene.rows, beaters)
    out[n] = first + PASSES + int(game.last == game.turn)
    out[n + 1] = first + PASS_LOSERS + min(n_losers, 7)
    out[n + 2] = first + PASS_LEVEL + 10 * (min(int(SIZE[field]), 3) - 1) + level
    out[n + 3] = first + PASS_FOLLOWERS + followers
    out[n + 4] = first + PASS_OWNER + _OWNER_LEFT[min(game.left[game.last], 14)]
    return n + 5


@njit(SceneType(GameType), cache=True)
def _scene(game: Game) -> Scene:
    """Return the facts that all plays of the player in turn share."""
    hand = game.hands[game.turn]
    unseen, nearest = unseen_cards(game, game.turn), 14
    for player in range(N_PLAYERS):
        if player != game.turn and game.left[player] > 0:
            nearest = min(nearest, game.left[player])
    field = game.field
    is_short = game.left[game.turn] <= _FEW
    context = (6 * int(field != PASS) + 3 * int(is_short) + _NEARNESS[nearest]) * N_FEATURES
    rows = int(ROWS[field]) if game.lock else 15
    return Scene(
        np.int64(hand),
        np.int64(unseen),
        int(game.revolution),
        int(field),
        rows,
        int(game.eight_cuts),
        largest_hand(game, False),
        int(context),
    )


@njit(int64(GameType, int64[::1]), cache=True)
def list_options(game: Game, out: Numbers) -> int:
    """Write the options of the player in turn: the legal plays, and the pass unless it leads.

    Of plays of the same cards, which differ in the joker's place, only the first is listed. A play
    that empties the hand is listed alone.

    Args:
        game: a view, or a whole game, of which only what the player in turn sees counts.
        out: `int64[N_PLAYS]`, overwritten.

    Returns:
        The number of options, at least 1.
    """
    n_legal = write_legal(game, out)
    hand, n, before = game.hands[game.turn], 0, np.uint64(0)
    for i in range(n_legal):
        cards = CARDS[out[i]]
        if cards == hand:
            out[0] = out[i]
            return 1
        if cards != before:
            out[n] = out[i]
            n += 1
            before = cards
    if game.field != PASS or n == 0:
        out[n] = PASS
        n += 1
    return n


@njit(void(GameType, int64[::1], int64, int64[::1], int16[:, ::1], int64[::1]), cache=True)
def describe(
    game: Game, options: Numbers, n: int, beaters: Numbers, features: Features, sizes: Numbers
) -> None:
    """Write the features of the options of the player in turn.

    Args:
        game: a view or a whole game.
        options: plays of `list_options`.
        n: number of options.
        beaters: `int64[N_PLAYS]`, overwritten.
        features: `[n, MOST]`, overwritten with the features of each option.
        sizes: `[n]`, overwritten with the number of features of each option.
    """
    scene = _scene(game)
    for i in range(n):
        if options[i] == PASS:
            sizes[i] = _describe_pass(game, scene, beaters, features[i])
        else:
            sizes[i] = _describe_play(game, scene, options[i], beaters, features[i])


@njit(void(GameType, int64[::1], int64, int16[:, ::1], int64[::1]), cache=True)
def describe_gifts(game: Game, gifts: Numbers, n: int, features: Features, sizes: Numbers) -> None:
    """Write the features of the hands that gifts of `write_gifts` leave: see `describe`."""
    hand = game.hands[game.turn]
    unseen = np.int64(np.uint64(DECK) & ~hand)
    first = GIFTS * N_FEATURES
    scene = Scene(np.int64(hand), unseen, 0, PASS, 15, int(game.eight_cuts), 14, first)
    for i in range(n):
        stays = hand & ~np.uint64(gifts[i])
        sizes[i] = _describe_hand(scene, stays, 0, features[i]) >> 4

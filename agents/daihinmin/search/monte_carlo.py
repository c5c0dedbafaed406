"""A search player of Daihinmin: playouts from dealt hidden cards, shared out by a bandit rule.

A decision goes

    view -> deals that agree with it -> weights: how well they explain the plays seen -> drawn deals
         -> playouts of the legal plays (UCB1-Tuned) -> the play tried most

The player himself plays by the policy in playouts, and so do the others, but for those who are
taken for sample clients by what they have played (see `deals.py`).

The n-th playout of every play starts from the same deal with the same random numbers, so that what
is compared are the plays and not the luck of their deals. A playout ends when the player is out; it
is worth what his place is: its points and what its class brings in the games to come.
"""

from __future__ import annotations

import math
import time
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import boolean, float64, int64, njit, types, uint64

from afterstate.agents.daihinmin.afterstates.class_values import (
    TRANSITIONS,
    class_values,
    games_left,
)
from afterstate.agents.daihinmin.afterstates.endgame import sure_play
from afterstate.agents.daihinmin.search.deals import (
    MODELS,
    Deals,
    DealsType,
    Settings,
    SettingsType,
    add_gifts,
    draw_deals,
    new_deals,
    sample_move,
)
from afterstate.agents.daihinmin.values.softmax_policy import (
    Policy,
    Scores,
    Workspace,
    WorkspaceType,
    find_policy,
    policy_play,
    weigh_gifts,
    weigh_options,
)
from afterstate.envs.daihinmin.plays import CARDS, N_PLAYS, PASS, ROWS, Numbers
from afterstate.envs.daihinmin.rules import (
    Game,
    GameType,
    advance,
    give,
    lay,
    list_legal,
    play,
    skip,
)
from afterstate.envs.words import Word, Words, draw_word, next_random, whole

if TYPE_CHECKING:  # it needs torch
    from afterstate.agents.daihinmin.values.rank_net import RankAgent

_ENDLESS = 1 << 40  # playouts
_CHUNK = 64  # playouts between two looks at the clock
_DEALS_A_SECOND = 10_000  # are drawn in about a third of the time


class Estimates(NamedTuple):
    """What a search found."""

    actions: Words
    """The plays, or card sets to give, `[A]`."""
    values: Scores
    """What each is worth by the playouts, in points of `class_values`; nan without playouts."""
    visits: Numbers
    """Playouts of each."""


class Arms(NamedTuple):
    """What is tried, and what is known of it."""

    actions: Words  # plays or gifts
    visits: Numbers
    sums: Scores  # of rewards
    squares: Scores
    advice: Scores  # the reward that the adviser expects


ArmsType = types.NamedTuple((uint64[::1], int64[::1], *[float64[::1]] * 3), Arms)


def _new_arms() -> Arms:
    """Workspace for as many arms as there are plays."""
    actions, visits = np.zeros(N_PLAYS, np.uint64), np.zeros(N_PLAYS, np.int64)
    return Arms(actions, visits, *np.zeros((3, N_PLAYS)))


# Arms


@njit(int64(GameType, int64[::1], ArmsType), cache=True)
def list_plays(view: Game, listed: Numbers, arms: Arms) -> int:
    """Writes the plays that are tried; returns their number.

    These are the legal ones, and the pass where one must follow. Of plays of the same cards, where
    the joker stands for another suit, there is one that locks the suits and one that does not.
    """
    n_legal, n = list_legal(view, listed), 0
    before = -1
    for i in range(n_legal):
        locks = 1 if view.field != PASS and ROWS[listed[i]] == ROWS[view.field] else 0
        if before >= 0 and CARDS[listed[i]] == CARDS[before]:
            locked = 1 if view.field != PASS and ROWS[before] == ROWS[view.field] else 0
            if locks == locked:
                continue
        before = listed[i]
        arms.actions[n] = np.uint64(before)
        n += 1
    if view.field != PASS or n == 0:
        arms.actions[n] = np.uint64(PASS)
        n += 1
    return n


@njit(int64(GameType, int64, float64[::1], WorkspaceType, ArmsType), cache=True)
def choose_gifts(view: Game, most: int, weights: Scores, room: Workspace, arms: Arms) -> int:
    """Writes the gifts that the policy prefers, at most so many; returns their number."""
    n = weigh_gifts(view, weights, 1.0, room)
    for i in range(min(n, most)):
        best = 0
        for j in range(n):
            if room.scores[j] > room.scores[best]:
                best = j
        arms.actions[i] = np.uint64(room.options[best])
        room.scores[best] = -1.0
    return min(n, most)


# Playouts and the bandit


@njit(int64(GameType, int64, float64[::1], float64, DealsType), cache=True)
def _play_until_out(
    game: Game, player: int, weights: Scores, temperature: float, dealt: Deals
) -> int:
    """Plays until a player has finished, each as he is taken for; returns the player's place."""
    while game.places[player] < 0:
        if dealt.models[game.turn] and game.turn != player:
            chosen = sample_move(game)
        else:
            chosen = policy_play(game, weights, temperature, dealt.room)
        if chosen == PASS:
            skip(game)
        else:
            lay(game, chosen)
        advance(game)
    return int(game.places[player])


@njit(int64(int64, int64, SettingsType, ArmsType), cache=True)
def _most_promising(n_arms: int, n_playouts: int, settings: Settings, arms: Arms) -> int:
    """The arm of the highest upper bound: UCB1-Tuned (Auer, Cesa-Bianchi and Fischer 2002).

    What the adviser expects counts in the mean as much as `settings.advice` playouts.
    """
    log = math.log(n_playouts + 1)
    best, chosen = -np.inf, 0
    for arm in range(n_arms):
        n = arms.visits[arm]
        if n == 0:
            return arm
        mean = arms.sums[arm] / n
        variance = arms.squares[arm] / n - mean * mean + math.sqrt(2 * log / n)
        mean += settings.advice / (settings.advice + n) * (arms.advice[arm] - mean)
        bound = mean + settings.exploration * math.sqrt(log / n * min(0.25, variance))
        if bound > best:
            best, chosen = bound, arm
    return chosen


@njit(boolean(int64, int64, ArmsType), cache=True)
def _cannot_change(n_arms: int, n_more: int, arms: Arms) -> bool:
    """Whether the arm that was tried most stays so, whatever the next playouts say."""
    first, second = 0, 0
    for arm in range(n_arms):
        n = arms.visits[arm]
        if n > first:
            first, second = n, first
        elif n > second:
            second = n
    return first - second > n_more


class Task(NamedTuple):
    """How far a search has come and how far it goes."""

    n_deals: int
    n_arms: int
    done: int
    """Playouts before."""
    until: int
    """Playouts when to return."""
    total: int
    """Playouts when the search will end; it ends earlier if nothing can change any more."""


TaskType = types.NamedUniTuple(int64, len(Task._fields), Task)


@njit(
    int64(
        GameType, TaskType, uint64, float64[::1], float64[::1], SettingsType, DealsType, ArmsType
    ),
    cache=True,
)
def search(
    view: Game,
    task: Task,
    rng: Word,
    rewards: Scores,
    weights: Scores,
    settings: Settings,
    dealt: Deals,
    arms: Arms,
) -> int:
    """Tries arms by playouts.

    Args:
        view: what the player in turn sees.
        task: how many playouts.
        rng: of the search.
        rewards: of the places, from 0 to 1.
        weights: of the policy.
        settings: how the search works.
        dealt: the deals.
        arms: what is tried, and what is known of it.

    Returns:
        How many playouts have been made, with those before.
    """
    viewer, gives, done = view.viewer, view.to_give > 0, task.done
    while done < task.until:
        if done % 32 == 0 and _cannot_change(task.n_arms, task.total - done, arms):
            return done
        arm = _most_promising(task.n_arms, done, settings, arms)
        n = arms.visits[arm]
        deal = dealt.order[n % task.n_deals]
        dealt.scratch[0] = dealt.deals[deal]
        game = dealt.scratch[0]
        game.rng = next_random(rng + np.uint64(n))[1]
        if gives:
            give(game, arms.actions[arm])
            if game.to_give > 0:
                give(game, dealt.gifts[deal])
        else:
            play(game, int(arms.actions[arm]))
        place = _play_until_out(game, viewer, weights, settings.temperature, dealt)
        arms.visits[arm] += 1
        arms.sums[arm] += rewards[place]
        arms.squares[arm] += rewards[place] * rewards[place]
        done += 1
    return done


class MonteCarloAgent:
    """Plays what does best in playouts.

    What surely wins (see `endgame.sure_play`) is played without a search, and so is an only choice.
    A search also ends when its result cannot change any more. It remembers what the others have
    played in the match: have one such player for each seat, and a new one for another match.

    Args:
        playouts: of a decision; None: no limit but the time.
        milliseconds: of a decision, by the clock; None: no limit but the playouts. Then the same
            seed need not give the same choices.
        policy: of the playouts: a policy or its file, by default the one in the package.
        seed: of all random numbers.
        settings: how the search works.
        transitions: by which a finishing place is valued: see `classes.class_values`.
        adviser: a player with a rank network. What it expects of each play counts beside the
            playouts: see `Settings.advice`.

    Raises:
        OSError: the policy's file cannot be opened.
        ValueError: a wrong setting, or neither playouts nor milliseconds.
    """

    def __init__(
        self,
        playouts: int | None = 2000,
        milliseconds: float | None = None,
        policy: Policy | str | Path | None = None,
        seed: int | None = None,
        settings: Settings | None = None,
        transitions: npt.ArrayLike = TRANSITIONS,
        adviser: RankAgent | None = None,
    ) -> None:
        _check_budget(playouts, milliseconds)
        settings = _checked(Settings() if settings is None else settings)
        self._playouts = _ENDLESS if playouts is None else playouts
        self._seconds = math.inf if milliseconds is None else milliseconds / 1000
        self.policy, self.adviser = find_policy(policy), adviser
        self._weights = self.policy.weights.reshape(-1)
        self._generator = np.random.default_rng(seed)
        self._transitions = np.array(transitions, np.float64)
        class_values(0, self._transitions)
        if adviser is not None and not callable(getattr(adviser, "expect", None)):
            raise ValueError(f"an adviser is a `RankAgent`, got {adviser!r}")
        self._settings = settings._replace(advice=0.0) if adviser is None else settings
        self._dealt, self._arms = new_deals(self._n_deals()), _new_arms()

    def _n_deals(self) -> int:
        """How many deals are drawn: no more than there are playouts, or time for."""
        most = min(self._settings.deals, self._playouts, _DEALS_A_SECOND * self._seconds)
        return max(1, int(most))

    def choose(self, view: Game) -> int:
        """The play that was tried most, or one that surely wins."""
        start = time.perf_counter()
        sure = int(sure_play(view))
        return sure if sure >= 0 else self._best(view, start)

    def give(self, view: Game, n: int) -> int:
        """The gift that was tried most."""
        return self._best(view, time.perf_counter())

    def _best(self, view: Game, start: float) -> int:
        """The action that was tried most; without playouts that of the policy."""
        found = self._estimate(view, start)
        if len(found.visits) == 1 or found.visits.any():
            return int(found.actions[np.argmax(found.visits)])
        room, weigh = self._dealt.room, weigh_gifts if view["to_give"] > 0 else weigh_options
        n = weigh(view, self._weights, 1.0, room)
        return int(room.options[np.argmax(room.scores[:n])])

    def opponents(self) -> list[str]:
        """What the players, by number, are taken for in the last search: "policy" or "sample"."""
        return [MODELS[model] for model in self._dealt.models]

    def values(self, view: Game) -> Estimates:
        """What a search finds of the plays, or of the gifts where cards are to be given.

        Args:
            view: what the player in turn sees. Where he has one action there is no search.
        """
        return self._estimate(view, time.perf_counter())

    def _estimate(self, view: Game, start: float) -> Estimates:
        """The same for a decision that began at a time of the clock."""
        n, arms = int(self._list_arms(view)), self._arms
        arms.visits[:n] = 0
        arms.sums[:n] = arms.squares[:n] = 0
        worth = class_values(games_left(view), self._transitions)
        least, span = worth.min(), np.ptp(worth) or 1.0  # where all are equal, rewards are 0
        if n > 1:
            rewards = (worth - least) / span
            self._take_advice(view, n, rewards)
            self._search(view, n, rewards, start)
        visits = arms.visits[:n].copy()
        with np.errstate(invalid="ignore"):
            values = arms.sums[:n] / visits * span + least
        return Estimates(arms.actions[:n].copy(), values, visits)

    def _take_advice(self, view: Game, n_arms: int, rewards: Scores) -> None:
        """Writes what the adviser expects of each arm; of those that he does not see, the least."""
        if self.adviser is None:
            return
        gives, arms = view["to_give"] > 0, self._arms
        actions, places = self.adviser.expect(view)
        expected = places @ rewards
        known = actions if gives else CARDS[actions]
        listed = arms.actions[:n_arms] if gives else CARDS[arms.actions[:n_arms]]
        for arm, cards in enumerate(listed):
            arms.advice[arm] = expected[known == cards].max(initial=expected.min())

    def _list_arms(self, view: Game) -> int:
        """Writes what is tried; returns how much."""
        room = self._dealt.room
        if view["to_give"] > 0:
            most = int(self._settings.gifts)
            return int(choose_gifts(view, most, self._weights, room, self._arms))
        return int(list_plays(view, room.options, self._arms))

    def _search(self, view: Game, n_arms: int, rewards: Scores, start: float) -> None:
        """Deals, and makes playouts until the budget is used up."""
        weights, settings, dealt = self._weights, self._settings, self._dealt
        deals_rng, rng = draw_word(self._generator), draw_word(self._generator)
        n_deals = int(draw_deals(view, deals_rng, weights, settings, dealt))
        if n_deals == 0:
            return
        if view["to_give"] > 0:
            add_gifts(n_deals, weights, settings.temperature, dealt)
        done, total, is_over = 0, self._playouts, False
        while not is_over:
            until = total if self._seconds == math.inf else min(done + _CHUNK, total)
            task = Task(n_deals, n_arms, done, until, total)
            done = int(search(view, task, rng, rewards, weights, settings, dealt, self._arms))
            late = time.perf_counter() - start >= self._seconds
            is_over = late or done < until or done == total


def _check_budget(playouts: Any, milliseconds: Any) -> None:
    """Raises a ValueError unless this is a budget."""
    number = whole(playouts)
    if playouts is not None and (number is None or not 1 <= number < _ENDLESS):
        raise ValueError(f"playouts is a number from 1 on, or None, got {playouts!r}")
    limit = float(milliseconds) if isinstance(milliseconds, Real) else math.nan
    if milliseconds is not None and not 0 < limit < math.inf:
        raise ValueError(f"milliseconds is a number above 0, or None, got {milliseconds!r}")
    if playouts is None and milliseconds is None:
        raise ValueError("a search needs playouts or milliseconds, or it would never end")


def _checked(settings: Any) -> Settings:
    """Settings as floats, if they are such."""
    if not isinstance(settings, Settings):
        raise ValueError(f"settings are a `Settings` record, got {settings!r}")
    numbers = Settings(*map(float, settings))
    if not (
        all(map(math.isfinite, numbers))
        and min(numbers.deals, numbers.gifts) >= 1
        and min(numbers.trust, numbers.exploration) >= 0
        and 0 < numbers.doubt <= 1
        and numbers.temperature > 0
        and numbers.models in (0, 1)
        and numbers.advice >= 0
    ):
        raise ValueError(
            "settings: deals and gifts from 1 on, trust, exploration and advice from 0 on, doubt "
            f"above 0 and at most 1, temperature above 0, models 0 or 1; got {settings}"
        )
    return numbers

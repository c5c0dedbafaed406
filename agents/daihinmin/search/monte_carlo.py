"""A search player of Daihinmin: playouts from sampled hidden cards, allocated by a bandit rule.

A decision goes

    view -> consistent deals -> weights: likelihood of the plays seen -> resampled deals
         -> playouts of the legal plays (UCB1-Tuned) -> the play of most visits

In playouts the player itself follows the policy, and so do the others, except those whose earlier
plays are more likely for the sample client (see `deals.py`).

The n-th playout of every play starts from the same deal and random numbers, which compares the
plays and not the luck of their deals. A playout ends when the player is out; its reward is the
value of the finishing place: its points and the value of its class in the games to come.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from numba import boolean, float64, int64, njit, types, uint64

from afterstate.agents.config import (
    LEAST_TEMPERATURE,
    Count,
    NonNegative,
    Positive,
    Rate,
    Seconds,
    checked,
    given_or_default,
    settings,
)
from afterstate.agents.daihinmin.afterstates.class_values import (
    TRANSITIONS,
    class_values,
    games_left,
)
from afterstate.agents.daihinmin.afterstates.endgame import forced_win
from afterstate.agents.daihinmin.search.deals import (
    MODELS,
    Deals,
    DealsType,
    Parameters,
    ParametersType,
    add_gifts,
    draw_deals,
    legal_sample_play,
    new_deals,
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
from afterstate.envs.checks import as_int, check_seed
from afterstate.envs.daihinmin.players import CheckedPlayer, check_turn
from afterstate.envs.daihinmin.plays import CARDS, N_PLAYS, PASS, ROWS, Numbers
from afterstate.envs.daihinmin.records.validity import check_out
from afterstate.envs.daihinmin.rules import (
    MAX_ACTIONS,
    N_PLAYERS,
    Game,
    GameType,
    advance,
    give,
    lay,
    play,
    skip,
    write_legal,
)
from afterstate.envs.messages import shown
from afterstate.envs.words import Word, Words, draw_word, next_random

PLAYOUTS = 2000
"""Playouts of a decision by default."""
_MOST = 10_000_000  # playouts, some minutes in which no signal is heard
_UNLIMITED = 1 << 40
_CHUNK = 64  # playouts between two looks at the clock
_DEALS_PER_SECOND = 10_000  # with as many, drawing takes about a third of the time


@settings
class MonteCarloSettings:
    """Settings of the search."""

    deals: Count = 512
    """Deals to draw and weight; never more than there are playouts."""
    likelihood_power: NonNegative = 0.25
    """Power of the likelihood that weights a deal; 0: all deals have the same weight."""
    noise: Rate = 0.1
    """Share of random plays in the model of a player, above 0."""
    temperature: Positive = 1.0
    """Temperature of the policy in playouts and in the likelihood of deals."""
    exploration: NonNegative = 1.0
    """Factor of the bandit's exploration bonus."""
    gifts: Count = 20
    """Most gifts to try, those of the largest probability by the policy."""
    detect_sample_clients: bool = True
    """Model a player as the sample client if that is more likely; else all follow the policy."""
    prior_visits: NonNegative = 1000.0
    """Virtual visits given to the reward that the prior expects of an action."""


class Prior(Protocol):
    """A player that predicts the finishing place, such as `RankAgent`."""

    def expect(self, view: Game) -> tuple[Words, Scores]:
        """Return actions (plays or gifts) `[n]` and the probabilities of the places `[n, 5]`."""
        ...


class Estimates(NamedTuple):
    """The result of a search."""

    actions: Words
    """The plays, or in the exchange the card sets to give, `[A]`."""
    values: Scores
    """The mean values of the playouts, in points of `class_values`; nan without playouts."""
    visits: Numbers
    """The number of playouts of each action."""


class Arms(NamedTuple):
    """The statistics of the actions that the bandit tries."""

    actions: Words  # plays or gifts
    visits: Numbers
    sums: Scores  # of rewards
    squares: Scores  # sums of squared rewards
    priors: Scores  # expected rewards by the prior


ArmsType = types.NamedTuple((uint64[::1], int64[::1], *[float64[::1]] * 3), Arms)


def _new_arms() -> Arms:
    """Return statistics for as many actions as there are plays."""
    actions, visits = np.zeros(N_PLAYS, np.uint64), np.zeros(N_PLAYS, np.int64)
    return Arms(actions, visits, *np.zeros((3, N_PLAYS)))


# Arms


@njit(int64(GameType, int64[::1], ArmsType), cache=True)
def list_plays(view: Game, listed: Numbers, arms: Arms) -> int:
    """Write the plays to try; return their number.

    They are the legal plays, and the pass unless the player leads. Plays of the same cards differ
    in the joker's suit: of those in a row that all lock the suits, or all do not, one is tried.
    """
    n_legal, n = write_legal(view, listed), 0
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
def choose_gifts(view: Game, most: int, policy: Scores, workspace: Workspace, arms: Arms) -> int:
    """Write the gifts of the largest probability, at most `most`; return their number."""
    n = weigh_gifts(view, policy, 1.0, workspace)
    for i in range(min(n, most)):
        best = 0
        for j in range(n):
            if workspace.masses[j] > workspace.masses[best]:
                best = j
        arms.actions[i] = np.uint64(workspace.options[best])
        workspace.masses[best] = -1.0
    return min(n, most)


# Playouts and the bandit


@njit(int64(GameType, int64, float64[::1], float64, DealsType), cache=True)
def _play_until_out(
    game: Game, player: int, policy: Scores, temperature: float, deals: Deals
) -> int:
    """Play by the models until a player has finished; return the player's place.

    In a position that no game has, nobody may ever be in turn or finish: the place is the last one.
    """
    for _ in range(MAX_ACTIONS):
        if game.places[player] >= 0 or game.turn < 0:
            break
        if deals.models[game.turn] and game.turn != player:
            move = legal_sample_play(game)
        else:
            move = policy_play(game, policy, temperature, deals.workspace)
        if move == PASS:
            skip(game)
        else:
            lay(game, move)
        advance(game)
    return int(game.places[player]) if game.places[player] >= 0 else N_PLAYERS - 1


@njit(int64(int64, int64, ParametersType, ArmsType), cache=True)
def _most_promising(n_arms: int, n_playouts: int, parameters: Parameters, arms: Arms) -> int:
    """Return the arm of the highest bound by UCB1-Tuned (Auer, Cesa-Bianchi and Fischer 2002).

    The mean includes `prior_visits` virtual visits with the reward that the prior expects.
    """
    log = math.log(n_playouts + 1)
    highest, best = -np.inf, 0
    for arm in range(n_arms):
        n = arms.visits[arm]
        if n == 0:
            return arm
        mean = arms.sums[arm] / n
        variance = arms.squares[arm] / n - mean * mean + math.sqrt(2 * log / n)
        virtual = parameters.prior_visits
        mean += virtual / (virtual + n) * (arms.priors[arm] - mean)
        bound = mean + parameters.exploration * math.sqrt(log / n * min(0.25, variance))
        if bound > highest:
            highest, best = bound, arm
    return best


@njit(boolean(int64, int64, ArmsType), cache=True)
def _cannot_change(n_arms: int, n_more: int, arms: Arms) -> bool:
    """Return True if the next `n_more` playouts cannot change the arm of most visits."""
    first, second = 0, 0
    for arm in range(n_arms):
        n = arms.visits[arm]
        if n > first:
            first, second = n, first
        elif n > second:
            second = n
    return first - second > n_more


class Task(NamedTuple):
    """The progress of a search and the limits of one call of `search`."""

    n_deals: int
    n_arms: int
    done: int
    """Playouts made before the call."""
    until: int
    """Playouts after which the call returns."""
    total: int
    """Playouts of the whole search, which ends earlier once its result cannot change."""


TaskType = types.NamedUniTuple(int64, len(Task._fields), Task)


@njit(
    int64(
        *(GameType, TaskType, uint64, float64[::1], float64[::1]),
        *(ParametersType, DealsType, ArmsType),
    ),
    cache=True,
)
def search(
    view: Game,
    task: Task,
    rng: Word,
    rewards: Scores,
    policy: Scores,
    parameters: Parameters,
    deals: Deals,
    arms: Arms,
) -> int:
    """Try the arms by playouts.

    Args:
        view: the view of the player in turn.
        task: the progress and the limits.
        rng: the random state of the search.
        rewards: `[5]`, rewards of the places, from 0 to 1.
        policy: the weights of the policy.
        parameters: the settings of the search.
        deals: the deals.
        arms: the statistics, updated.

    Returns:
        The number of playouts made so far.
    """
    viewer, gives, done = view.viewer, view.to_give > 0, task.done
    while done < task.until:
        if done % 32 == 0 and _cannot_change(task.n_arms, task.total - done, arms):
            return done
        arm = _most_promising(task.n_arms, done, parameters, arms)
        n = arms.visits[arm]
        deal = deals.order[n % task.n_deals]
        deals.scratch[0] = deals.games[deal]
        game = deals.scratch[0]
        game.rng = next_random(rng + np.uint64(n))[1]
        if gives:
            give(game, arms.actions[arm])
            if game.to_give > 0:
                give(game, deals.gifts[deal])
        else:
            play(game, int(arms.actions[arm]))
        place = _play_until_out(game, viewer, policy, parameters.temperature, deals)
        arms.visits[arm] += 1
        arms.sums[arm] += rewards[place]
        arms.squares[arm] += rewards[place] * rewards[place]
        done += 1
    return done


class MonteCarloAgent(CheckedPlayer):
    """A player that chooses the action of most visits in a Monte-Carlo search.

    It plays forced wins (`endgame.forced_win`) and single options without a search. A search ends
    early once its result cannot change. The player remembers the plays of the others in its match:
    use one such player for each seat, and a new one for another match.

    Args:
        playouts: playouts a decision, at most 10 million; None: only `seconds` limits them.
        seconds: wall-clock time a decision; None: only `playouts` limits it. With a time limit
            the same seed may give other choices.
        policy: the policy of the playouts or its file, by default the pretrained one.
        seed: seed of all random numbers.
        settings: the settings of the search.
        transitions: `[5, 5]`, for the values of finishing places: see `class_values.class_values`.
        prior: a player with a rank network, whose expected rewards count as virtual visits: see
            `MonteCarloSettings.prior_visits`.

    Raises:
        OSError: the policy's file cannot be opened.
        ValueError: a wrong setting, or neither playouts nor seconds.
    """

    def __init__(
        self,
        playouts: int | None = PLAYOUTS,
        seconds: float | None = None,
        policy: Policy | str | Path | None = None,
        seed: int | None = None,
        settings: MonteCarloSettings | None = None,
        transitions: npt.ArrayLike = TRANSITIONS,
        prior: Prior | None = None,
    ) -> None:
        _check_budget(playouts, seconds)
        settings = given_or_default(settings, MonteCarloSettings)
        if prior is not None and not callable(getattr(prior, "expect", None)):
            raise ValueError(f"prior must be a RankAgent, got {shown(prior)}")
        check_seed(seed)
        self._playouts = _UNLIMITED if playouts is None else int(playouts)
        self._seconds = math.inf if seconds is None else float(seconds)
        self.policy, self.prior = find_policy(policy), prior
        self._weights = self.policy.weights.reshape(-1)
        self._generator = np.random.default_rng(seed)
        class_values(0, transitions)  # raises for others than probabilities
        self._transitions = np.array(transitions, np.float64)
        self._settings, self._parameters = settings, _parameters(settings, prior is not None)
        self._deals, self._arms = new_deals(self._n_deals()), _new_arms()

    def _n_deals(self) -> int:
        """Return the number of deals, limited by the playouts and the time."""
        most = min(self._settings.deals, self._playouts, _DEALS_PER_SECOND * self._seconds)
        return max(1, int(most))

    def choose_play(self, view: Game) -> int:
        """Return a play that wins by force, or the play of most visits."""
        start = time.perf_counter()
        check_out(view)
        forced = int(forced_win(view))
        return forced if forced >= 0 else self._best(view, start)

    def choose_gift(self, view: Game, n: int) -> int:
        """Return the gift of most visits."""
        check_out(view)
        return self._best(view, time.perf_counter())

    def _best(self, view: Game, start: float) -> int:
        """Return the action of most visits; without playouts the policy's best action."""
        result = self._estimate(view, start)
        if len(result.visits) == 1 or result.visits.any():
            return int(result.actions[np.argmax(result.visits)])
        workspace = self._deals.workspace
        weigh = weigh_gifts if view["to_give"] > 0 else weigh_options
        n = weigh(view, self._weights, 1.0, workspace)
        return int(workspace.options[np.argmax(workspace.masses[:n])])

    def opponents(self) -> list[str]:
        """Return the model of each player in the last search: "policy" or "sample"."""
        return [MODELS[model] for model in self._deals.models]

    def values(self, view: Game) -> Estimates:
        """Return the result of a search of the plays, or in the exchange of the gifts.

        Args:
            view: the view of the player in turn. A single action is not searched.
        """
        asked = check_turn(view)
        check_out(asked)
        return self._estimate(asked, time.perf_counter())

    def _estimate(self, view: Game, start: float) -> Estimates:
        """Return the result of a search whose time began at `start`."""
        n, arms = self._list_arms(view), self._arms
        arms.visits[:n] = 0
        arms.sums[:n] = arms.squares[:n] = 0
        place_values = class_values(games_left(view), self._transitions)
        least, span = place_values.min(), np.ptp(place_values) or 1.0  # equal values: rewards 0
        if n > 1:
            rewards = (place_values - least) / span
            self._set_priors(view, n, rewards)
            self._search(view, n, rewards, start)
        visits = arms.visits[:n].copy()
        with np.errstate(invalid="ignore"):
            values = arms.sums[:n] / visits * span + least
        return Estimates(arms.actions[:n].copy(), values, visits)

    def _set_priors(self, view: Game, n_arms: int, rewards: Scores) -> None:
        """Write the prior's expected reward of each arm, for unknown arms its least one."""
        if self.prior is None:
            return
        gives, arms = view["to_give"] > 0, self._arms
        actions, places = self.prior.expect(view)
        expected = places @ rewards
        known = actions if gives else CARDS[actions]
        listed = arms.actions[:n_arms] if gives else CARDS[arms.actions[:n_arms]]
        for arm, cards in enumerate(listed):
            arms.priors[arm] = expected[known == cards].max(initial=expected.min())

    def _list_arms(self, view: Game) -> int:
        """Write the actions to try; return their number."""
        workspace = self._deals.workspace
        if view["to_give"] > 0:
            most = self._settings.gifts
            return int(choose_gifts(view, most, self._weights, workspace, self._arms))
        return int(list_plays(view, workspace.options, self._arms))

    def _search(self, view: Game, n_arms: int, rewards: Scores, start: float) -> None:
        """Draw deals, and make playouts until the budget is used up."""
        weights, parameters, deals = self._weights, self._parameters, self._deals
        deals_rng, rng = draw_word(self._generator), draw_word(self._generator)
        n_deals = int(draw_deals(view, deals_rng, weights, parameters, deals))
        if n_deals == 0:
            return
        if view["to_give"] > 0:
            add_gifts(n_deals, weights, parameters.temperature, deals)
        done, total, is_over = 0, self._playouts, False
        while not is_over:
            until = total if self._seconds == math.inf else min(done + _CHUNK, total)
            task = Task(n_deals, n_arms, done, until, total)
            done = int(search(view, task, rng, rewards, weights, parameters, deals, self._arms))
            late = time.perf_counter() - start >= self._seconds
            is_over = late or done < until or done == total


def _parameters(settings: MonteCarloSettings, has_prior: bool) -> Parameters:
    """Return the settings as the kernels read them; without a prior it has no virtual visits."""
    values = Parameters(*(float(getattr(settings, name)) for name in Parameters._fields))
    values = values._replace(temperature=max(values.temperature, LEAST_TEMPERATURE))
    return values if has_prior else values._replace(prior_visits=0.0)


def _check_budget(playouts: Any, seconds: Any) -> None:
    """Raise ValueError unless this is a budget."""
    number = as_int(playouts)
    if playouts is not None and (number is None or not 1 <= number <= _MOST):
        expected = f"an integer in 1..{_MOST:,} or None"
        raise ValueError(f"playouts must be {expected}, got {shown(playouts)}")
    checked("seconds", seconds, Seconds | None)
    if playouts is None and seconds is None:
        raise ValueError("playouts or seconds must limit a search, got None for both")

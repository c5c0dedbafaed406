"""A search player of Daihinmin: playouts from dealt hidden cards, shared out by a bandit rule.

A decision goes

    view -> deals that agree with it -> weights: how well they explain the plays seen -> drawn deals
         -> playouts of the legal plays (UCB1-Tuned) -> the play tried most

The player himself plays by the policy in playouts, and so do the others; but one whose plays, in
this game and those of the match before it, are explained better by the rules of the competition's
sample client is taken for such a one.

The n-th playout of every play starts from the same deal with the same random numbers, so that what
is compared are the plays and not the luck of their deals. A playout ends when the player is out; it
is worth what his place is: its points and what its class brings in the games to come.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import boolean, float64, int64, njit, types, uint64, void

from afterstate.agents.daihinmin.classes import TRANSITIONS, class_values, games_left
from afterstate.agents.daihinmin.endgame import sure_play
from afterstate.agents.daihinmin.policy import (
    Policy,
    Room,
    RoomType,
    Scores,
    find_policy,
    new_room,
    policy_gift,
    policy_play,
    weigh_gifts,
    weigh_options,
)
from afterstate.agents.daihinmin.sample_client import sample_play
from afterstate.envs.daihinmin.cards import count, weakest
from afterstate.envs.daihinmin.plays import CARDS, N_PLAYS, PASS, ROWS, Numbers
from afterstate.envs.daihinmin.rules import (
    GAME,
    N_PLAYERS,
    Game,
    GameType,
    advance,
    give,
    is_legal,
    lay,
    list_legal,
    play,
    skip,
)
from afterstate.envs.daihinmin.views import fill_hidden
from afterstate.envs.words import Word, draw_word, next_random, whole

Words = npt.NDArray[np.uint64]

_MODELS = ("policy", "sample")
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


class Settings(NamedTuple):
    """How the search works. All are `float64` for the kernels."""

    deals: float = 512.0
    """How many deals are drawn and weighed; never more than there are playouts."""
    trust: float = 0.25
    """The power of the likelihood that a deal is weighed with; 0: all weigh the same."""
    doubt: float = 0.1
    """Share of plays that are taken to be random ones when deals are weighed."""
    temperature: float = 0.7
    """Of the policy in playouts and when deals are weighed."""
    exploration: float = 1.0
    """Factor of the bandit's bonus."""
    gifts: float = 20.0
    """How many gifts are tried, those that the policy prefers."""
    models: float = 1.0
    """Whether others may be taken for sample clients; 0: they all play by the policy."""


SettingsType = types.NamedUniTuple(float64, len(Settings._fields), Settings)


class Memory(NamedTuple):
    """Working memory of a search."""

    scratch: Any  # the game that is played out, [1]
    deals: Any  # the deals that were drawn, [D]
    order: Numbers  # which deal the n-th playout starts from, [D]
    gifts: Words  # what the fugo gives in each deal, [D]
    chances: Scores  # log weight of each deal, [D]
    evidence: Any  # log likelihood of each deal by model and player, [D, 2, 5]
    before: Scores  # log odds that a player is a sample client, by the games before, [5]
    now: Scores  # and by this game
    models: Numbers  # what each player is taken for, [5]
    number: Numbers  # of the game, [1]
    arms: Words  # plays or gifts
    visits: Numbers
    sums: Scores  # of rewards
    squares: Scores
    room: Room


_GAMES = GameType[::1]
MemoryType = types.NamedTuple(
    (
        *(_GAMES, _GAMES, int64[::1], uint64[::1], float64[::1]),
        *(float64[:, :, ::1], float64[::1], float64[::1], int64[::1], int64[::1]),
        *(uint64[::1], int64[::1], float64[::1], float64[::1], RoomType),
    ),
    Memory,
)


def _new_memory(n_deals: int) -> Memory:
    """Memory for a number of deals."""
    return Memory(
        np.zeros(1, GAME),
        np.zeros(n_deals, GAME),
        np.zeros(n_deals, np.int64),
        np.zeros(n_deals, np.uint64),
        np.zeros(n_deals),
        np.zeros((n_deals, 2, N_PLAYERS)),
        np.zeros(N_PLAYERS),
        np.zeros(N_PLAYERS),
        np.zeros(N_PLAYERS, np.int64),
        np.zeros(1, np.int64),
        np.zeros(N_PLAYS, np.uint64),
        np.zeros(N_PLAYS, np.int64),
        np.zeros(N_PLAYS),
        np.zeros(N_PLAYS),
        new_room(),
    )


# Deals


@njit(void(GameType), cache=True)
def _rewind(game: Game) -> None:
    """Takes a whole game back to its first lead."""
    for player in range(N_PLAYERS):
        game.hands[player] |= game.played[player]
        game.left[player] = count(game.hands[player])
        game.played[player] = np.uint64(0)
        game.places[player] = -1
    game.field = game.revolution = game.lock = game.cut = game.passed = game.idle = 0
    game.n_out = game.n_actions = 0
    game.joker_column = 14
    game.turn = game.last = game.starter


@njit(int64(GameType), cache=True)
def _sample_play(game: Game) -> int:
    """What counts of the sample client's submission."""
    play = sample_play(game)
    return int(play) if is_legal(game, play) else PASS


@njit(
    void(GameType, int64, GameType[::1], float64[::1], SettingsType, RoomType, float64[:, ::1]),
    cache=True,
)
def log_likelihoods(
    game: Game,
    viewer: int,
    scratch: Any,
    weights: Scores,
    settings: Settings,
    room: Room,
    out: Scores,
) -> None:
    """Writes how well a deal explains what others have played, as sums of log probabilities.

    Args:
        game: the whole game.
        viewer: whose plays do not count.
        scratch: `[1]`, overwritten.
        weights: of the policy.
        settings: `doubt`, `temperature` and `models`.
        room: overwritten.
        out: `[2, 5]`, by model, the policy or the sample client, and by player.
    """
    out[:] = 0.0
    scratch[0] = game
    past = scratch[0]
    _rewind(past)
    for i in range(game.n_actions):
        player, played = int(game.actions[i]) // N_PLAYS, int(game.actions[i]) % N_PLAYS
        if past.turn != player:
            break
        n = weigh_options(past, weights, settings.temperature, room) if player != viewer else 0
        mass, chance = 0.0, 0.0
        for j in range(n):
            mass += room.scores[j]
            if CARDS[room.options[j]] == CARDS[played]:
                chance = room.scores[j]
        if n > 1:  # otherwise there was nothing to choose
            out[0, player] += math.log((1 - settings.doubt) * chance / mass + settings.doubt / n)
            if settings.models:
                agrees = 1.0 if CARDS[_sample_play(past)] == CARDS[played] else 0.0
                out[1, player] += math.log((1 - settings.doubt) * agrees + settings.doubt / n)
        play(past, played)


@njit(float64(float64[:, :, ::1], int64, int64, int64), cache=True)
def _marginal(evidence: Any, n: int, model: int, player: int) -> float:
    """The log of the mean likelihood of a player's plays over `n` deals."""
    best, total = -np.inf, 0.0
    for i in range(n):
        best = max(best, evidence[i, model, player])
    for i in range(n):
        total += math.exp(evidence[i, model, player] - best)
    return best + math.log(total / n)


@njit(void(GameType, int64, boolean, MemoryType), cache=True)
def _judge(view: Game, n: int, may_be: bool, memory: Memory) -> None:
    """Takes each player for what explains his plays best, those in the games before too.

    Args:
        view: what the player in turn sees.
        n: how many deals there are.
        may_be: whether he may be taken for a sample client.
        memory: the `evidence` of the deals, and what is known of the players.
    """
    if view.number != memory.number[0]:
        goes_on = view.number > memory.number[0]
        for player in range(N_PLAYERS):
            now = memory.before[player] + memory.now[player]
            memory.before[player] = now if goes_on else 0.0
            memory.now[player] = 0.0
        memory.number[0] = view.number
    for player in range(N_PLAYERS):
        odds = _marginal(memory.evidence, n, 1, player) - _marginal(memory.evidence, n, 0, player)
        memory.now[player] = odds
        memory.models[player] = 1 if may_be and memory.before[player] + odds > 0 else 0


@njit(void(float64[::1], int64, float64, uint64, int64[::1]), cache=True)
def _resample(chances: Scores, n: int, trust: float, rng: Word, order: Numbers) -> None:
    """Writes `n` places of deals, drawn by their weights (systematically), in random order."""
    best = -np.inf
    for i in range(n):
        best = max(best, chances[i])
    total = 0.0
    for i in range(n):
        chances[i] = math.exp(trust * (chances[i] - best))
        total += chances[i]
    rng, bits = next_random(rng)
    at = (bits >> np.uint64(11)) / (1 << 53)
    mass, place = chances[0], 0
    for i in range(n):
        while mass < (i + at) / n * total and place < n - 1:
            place += 1
            mass += chances[place]
        order[i] = place
    for i in range(n - 1):
        rng, bits = next_random(rng)
        j = i + int((bits >> np.uint64(32)) * np.uint64(n - i) >> np.uint64(32))
        order[i], order[j] = order[j], order[i]


@njit(int64(GameType, uint64, float64[::1], SettingsType, MemoryType), cache=True)
def draw_deals(view: Game, rng: Word, weights: Scores, settings: Settings, memory: Memory) -> int:
    """Draws deals that agree with a view, and which of them the playouts start from.

    Returns:
        How many deals there are: 0 if none agrees with the view.
    """
    n = 0
    viewer = view.viewer
    for _ in range(len(memory.deals)):
        memory.deals[n] = view
        deal = memory.deals[n]
        rng, deal.rng = next_random(rng)
        if not fill_hidden(deal):
            continue
        log_likelihoods(
            deal, viewer, memory.scratch, weights, settings, memory.room, memory.evidence[n]
        )
        n += 1
    if n:
        _judge(view, n, settings.models != 0, memory)
        for i in range(n):
            memory.chances[i] = 0.0
            for player in range(N_PLAYERS):
                memory.chances[i] += memory.evidence[i, memory.models[player], player]
        _resample(memory.chances, n, settings.trust, rng, memory.order)
    return n


@njit(void(int64, float64[::1], float64, MemoryType), cache=True)
def _add_gifts(n: int, weights: Scores, temperature: float, memory: Memory) -> None:
    """What the fugo gives in each of `n` deals in which the daifugo is to give now."""
    for i in range(n):
        memory.scratch[0] = memory.deals[i]
        game = memory.scratch[0]
        give(game, np.uint64(0))  # whatever it is: the fugo's hand does not depend on it
        memory.gifts[i] = 0
        if game.to_give > 0 and memory.models[game.turn]:
            memory.gifts[i] = weakest(game.hands[game.turn], game.to_give)
        elif game.to_give > 0:
            memory.gifts[i] = policy_gift(game, weights, temperature, memory.room)


# Arms


@njit(int64(GameType, MemoryType), cache=True)
def list_plays(view: Game, memory: Memory) -> int:
    """Writes the plays that are tried; returns their number.

    These are the legal ones, and the pass where one must follow. Of plays of the same cards, where
    the joker stands for another suit, there is one that locks the suits and one that does not.
    """
    listed = memory.room.options
    n_legal, n = list_legal(view, listed), 0
    before = -1
    for i in range(n_legal):
        locks = 1 if view.field != PASS and ROWS[listed[i]] == ROWS[view.field] else 0
        if before >= 0 and CARDS[listed[i]] == CARDS[before]:
            locked = 1 if view.field != PASS and ROWS[before] == ROWS[view.field] else 0
            if locks == locked:
                continue
        before = listed[i]
        memory.arms[n] = np.uint64(before)
        n += 1
    if view.field != PASS or n == 0:
        memory.arms[n] = np.uint64(PASS)
        n += 1
    return n


@njit(int64(GameType, int64, float64[::1], MemoryType), cache=True)
def choose_gifts(view: Game, most: int, weights: Scores, memory: Memory) -> int:
    """Writes the gifts that the policy prefers, at most so many; returns their number."""
    room = memory.room
    n = weigh_gifts(view, weights, 1.0, room)
    for i in range(min(n, most)):
        best = 0
        for j in range(n):
            if room.scores[j] > room.scores[best]:
                best = j
        memory.arms[i] = np.uint64(room.options[best])
        room.scores[best] = -1.0
    return min(n, most)


# Playouts and the bandit


@njit(int64(GameType, int64, float64[::1], float64, MemoryType), cache=True)
def _play_until_out(
    game: Game, player: int, weights: Scores, temperature: float, memory: Memory
) -> int:
    """Plays until a player has finished, each as he is taken for; returns the player's place."""
    while game.places[player] < 0:
        if memory.models[game.turn] and game.turn != player:
            chosen = _sample_play(game)
        else:
            chosen = policy_play(game, weights, temperature, memory.room)
        if chosen == PASS:
            skip(game)
        else:
            lay(game, chosen)
        advance(game)
    return int(game.places[player])


@njit(int64(int64, int64, float64, MemoryType), cache=True)
def _most_promising(n_arms: int, n_playouts: int, exploration: float, memory: Memory) -> int:
    """The arm of the highest upper bound: UCB1-Tuned (Auer, Cesa-Bianchi and Fischer 2002)."""
    log = math.log(n_playouts + 1)
    best, chosen = -np.inf, 0
    for arm in range(n_arms):
        n = memory.visits[arm]
        if n == 0:
            return arm
        mean = memory.sums[arm] / n
        variance = memory.squares[arm] / n - mean * mean + math.sqrt(2 * log / n)
        bound = mean + exploration * math.sqrt(log / n * min(0.25, variance))
        if bound > best:
            best, chosen = bound, arm
    return chosen


@njit(boolean(int64, int64, MemoryType), cache=True)
def _cannot_change(n_arms: int, n_more: int, memory: Memory) -> bool:
    """Whether the arm that was tried most stays so, whatever the next playouts say."""
    first, second = 0, 0
    for arm in range(n_arms):
        n = memory.visits[arm]
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
    int64(GameType, TaskType, uint64, float64[::1], float64[::1], SettingsType, MemoryType),
    cache=True,
)
def search(
    view: Game,
    task: Task,
    rng: Word,
    rewards: Scores,
    weights: Scores,
    settings: Settings,
    memory: Memory,
) -> int:
    """Tries arms by playouts.

    Args:
        view: what the player in turn sees.
        task: how many playouts.
        rng: of the search.
        rewards: of the places, from 0 to 1.
        weights: of the policy.
        settings: how the search works.
        memory: arms and what is known of them.

    Returns:
        How many playouts have been made, with those before.
    """
    viewer, gives, done = view.viewer, view.to_give > 0, task.done
    while done < task.until:
        if done % 32 == 0 and _cannot_change(task.n_arms, task.total - done, memory):
            return done
        arm = _most_promising(task.n_arms, done, settings.exploration, memory)
        n = memory.visits[arm]
        deal = memory.order[n % task.n_deals]
        memory.scratch[0] = memory.deals[deal]
        game = memory.scratch[0]
        game.rng = next_random(rng + np.uint64(n))[1]
        if gives:
            give(game, memory.arms[arm])
            if game.to_give > 0:
                give(game, memory.gifts[deal])
        else:
            play(game, int(memory.arms[arm]))
        place = _play_until_out(game, viewer, weights, settings.temperature, memory)
        memory.visits[arm] += 1
        memory.sums[arm] += rewards[place]
        memory.squares[arm] += rewards[place] * rewards[place]
        done += 1
    return done


class MonteCarloAgent:
    """Plays what does best in playouts.

    What surely wins (see `endgame.sure_play`) is played without a search, and so is an only choice.
    A search also ends when its result cannot change any more.

    Args:
        playouts: of a decision; None: no limit but the time.
        milliseconds: of a decision, by the clock; None: no limit but the playouts. Then the same
            seed need not give the same choices.
        policy: of the playouts: a policy or its file, by default the one in the package.
        seed: of all random numbers.
        settings: how the search works.
        transitions: by which a finishing place is valued: see `classes.class_values`.

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
    ) -> None:
        _check_budget(playouts, milliseconds)
        self._settings = _checked(Settings() if settings is None else settings)
        self._playouts = _ENDLESS if playouts is None else playouts
        self._seconds = math.inf if milliseconds is None else milliseconds / 1000
        self._weights = find_policy(policy).weights.reshape(-1)
        self._generator = np.random.default_rng(seed)
        self._transitions = np.array(transitions, np.float64)
        class_values(0, self._transitions)
        self._memory = _new_memory(self._n_deals())

    def _n_deals(self) -> int:
        """How many deals are drawn: no more than there are playouts, or time for."""
        most = min(self._settings.deals, self._playouts, _DEALS_A_SECOND * self._seconds)
        return max(1, int(most))

    def choose(self, view: Game) -> int:
        """The play that was tried most, or one that surely wins."""
        sure = int(sure_play(view))
        return sure if sure >= 0 else self._best(view)

    def give(self, view: Game, n: int) -> int:
        """The gift that was tried most."""
        return self._best(view)

    def _best(self, view: Game) -> int:
        """The action that was tried most; without playouts that of the policy."""
        found = self.values(view)
        if len(found.visits) == 1 or found.visits.any():
            return int(found.actions[np.argmax(found.visits)])
        room, weigh = self._memory.room, weigh_gifts if view["to_give"] > 0 else weigh_options
        n = weigh(view, self._weights, 1.0, room)
        return int(room.options[np.argmax(room.scores[:n])])

    def opponents(self) -> list[str]:
        """What the players, by number, are taken for in the last search: "policy" or "sample"."""
        return [_MODELS[model] for model in self._memory.models]

    def values(self, view: Game) -> Estimates:
        """What a search finds of the plays, or of the gifts where cards are to be given.

        Args:
            view: what the player in turn sees. Where he has one action there is no search.
        """
        start, memory = time.perf_counter(), self._memory
        n = int(self._list_arms(view))
        memory.visits[:n] = 0
        memory.sums[:n] = memory.squares[:n] = 0
        rewards = class_values(games_left(view), self._transitions)
        if n > 1:
            self._search(view, n, rewards / rewards[0], start)
        visits = memory.visits[:n].copy()
        with np.errstate(invalid="ignore"):
            values = memory.sums[:n] / visits * rewards[0]
        return Estimates(memory.arms[:n].copy(), values, visits)

    def _list_arms(self, view: Game) -> int:
        """Writes what is tried; returns how much."""
        if view["to_give"] > 0:
            most = int(self._settings.gifts)
            return int(choose_gifts(view, most, self._weights, self._memory))
        return int(list_plays(view, self._memory))

    def _search(self, view: Game, n_arms: int, rewards: Scores, start: float) -> None:
        """Deals, and makes playouts until the budget is used up."""
        weights, settings, memory = self._weights, self._settings, self._memory
        deals_rng, rng = draw_word(self._generator), draw_word(self._generator)
        n_deals = int(draw_deals(view, deals_rng, weights, settings, memory))
        if n_deals == 0:
            return
        if view["to_give"] > 0:
            _add_gifts(n_deals, weights, settings.temperature, memory)
        done, total, is_over = 0, self._playouts, False
        while not is_over:
            until = total if self._seconds == math.inf else min(done + _CHUNK, total)
            task = Task(n_deals, n_arms, done, until, total)
            done = int(search(view, task, rng, rewards, weights, settings, memory))
            late = time.perf_counter() - start >= self._seconds
            is_over = late or done < until or done == total


def _check_budget(playouts: Any, milliseconds: Any) -> None:
    """Raises a ValueError unless this is a budget."""
    number = whole(playouts)
    if playouts is not None and (number is None or not 1 <= number < _ENDLESS):
        raise ValueError(f"playouts is a number from 1 on, or None, got {playouts!r}")
    if milliseconds is not None and not 0 < milliseconds < math.inf:
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
    ):
        raise ValueError(
            "settings: deals and gifts from 1 on, trust and exploration from 0 on, doubt above 0 "
            f"and at most 1, temperature above 0, models 0 or 1; got {settings}"
        )
    return numbers

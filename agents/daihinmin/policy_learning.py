"""Learning of play policies: from games against themselves, and from the choices of a player.

    python -m afterstate.agents.daihinmin.policy_learning policy.npz --games 6e6
    python -m afterstate.agents.daihinmin.policy_learning policy.npz --from heuristic --games 2000
    python -m afterstate.agents.daihinmin.policy_learning policy.npz --from net.safetensors

*Self-play* raises the expected value of the finishing place by the policy gradient (REINFORCE,
Williams 1992). Each deal is played several times, and what a player got is compared with the mean
of his games with the same cards, so that the luck of the deal plays no part.

*Supervised* learning raises the log likelihood of what a player chose in games of five such
players. Both climb by Adam (Kingma and Ba 2015), with a rate that falls to a tenth.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int16, int64, njit, types, void

from afterstate.agents import files
from afterstate.agents.commands import above_0, progress_bar
from afterstate.agents.daihinmin.classes import HORIZON, class_values
from afterstate.agents.daihinmin.features import (
    MOST,
    N_CONTEXTS,
    N_FEATURES,
    Features,
    describe,
    describe_gifts,
    list_gifts,
    list_options,
)
from afterstate.agents.daihinmin.logs import play_log
from afterstate.agents.daihinmin.policy import (
    Policy,
    Room,
    RoomType,
    Scores,
    draw_option,
    load,
    new_policy,
    new_room,
    policy_gift,
    policy_play,
    save,
    weigh,
    weigh_gifts,
    weigh_options,
)
from afterstate.envs.daihinmin.cards import count
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.players import find
from afterstate.envs.daihinmin.plays import CARDS, N_PLAYS, Numbers
from afterstate.envs.daihinmin.rules import (
    FUGO,
    GAME,
    N_PLAYERS,
    Game,
    GameType,
    give,
    play,
    rewind,
)

N_REPEATS = 4
"""How often a deal is played in self-play."""
CYCLE = 100
"""Deals of a match in self-play, from one class reset to the next."""
SHARE = 2_500
"""Games of rank networks that are played side by side."""
MATCHES = 5
"""Matches between two steps of self-play."""
BATCH = 1_000
"""Decisions between two steps of supervised learning."""
RATE = 0.025
"""Adam's first rate."""


# Gradients


@njit(void(RoomType, int64, int64, float64, float64[::1]), cache=True)
def add_gradient(room: Room, n: int, chosen: int, factor: float, gradient: Scores) -> None:
    """Adds `factor` times the gradient of log p(chosen) by the weights, at temperature 1.

    That is the features of the chosen option less their mean by the policy.

    Args:
        room: of `weigh_options`.
        n: the number of options; with one the gradient is 0.
        chosen: the place of the one.
        factor: what it is multiplied with.
        gradient: by weight, changed.
    """
    if n == 1:
        return
    total = 0.0
    for i in range(n):
        total += room.scores[i]
    for i in range(n):
        share = factor * ((1.0 if i == chosen else 0.0) - room.scores[i] / total)
        for j in range(room.sizes[i]):
            gradient[room.features[i, j]] += share


@njit(void(GameType, float64[::1], float64[:, ::1], RoomType), cache=True)
def _play_game(game: Game, weights: Scores, gradients: Scores, room: Room) -> None:
    """Plays a game to its end by a policy; adds up each player's gradient of log likelihood."""
    while game.to_give > 0:
        n = weigh_gifts(game, weights, 1.0, room)
        chosen = draw_option(game, n, room)
        add_gradient(room, n, chosen, 1.0, gradients[game.turn])
        give(game, np.uint64(room.options[chosen]))
    while game.turn >= 0:
        n = weigh_options(game, weights, 1.0, room)
        chosen = draw_option(game, n, room)
        add_gradient(room, n, chosen, 1.0, gradients[game.turn])
        play(game, room.options[chosen])


@njit(
    void(
        *(GameType, GameType[::1], int64, float64[::1], float64[::1]),
        *(float64[:, :, ::1], RoomType, float64[::1]),
    ),
    cache=True,
)
def _add_games(
    match: Game,
    games: Any,
    n_deals: int,
    weights: Scores,
    values: Scores,
    gradients: Any,
    room: Room,
    total: Scores,
) -> None:
    """Plays deals of a match, each several times, and adds up the policy gradient.

    Args:
        match: goes on from each deal with a game of its own.
        games: `[1]`, overwritten.
        n_deals: how many deals.
        weights: of the policy.
        values: of the finishing places.
        gradients: `[n_repeats, 5, weights]`, overwritten.
        room: overwritten.
        total: by weight; the sum of the gradient over games is added.
    """
    n_repeats = len(gradients)
    rewards = np.empty((n_repeats, N_PLAYERS))
    for _ in range(n_deals):
        next_game(match)
        for repeat in range(n_repeats):
            gradients[repeat] = 0.0
            games[0] = match
            game = games[0]
            game.rng += np.uint64(repeat + 1) * np.uint64(0xD6E8_FEB8_6659_FD93)
            _play_game(game, weights, gradients[repeat], room)
            for player in range(N_PLAYERS):
                rewards[repeat, player] = values[game.places[player]]
        for player in range(N_PLAYERS):
            mean = rewards[:, player].mean()
            for repeat in range(n_repeats):
                factor = (rewards[repeat, player] - mean) * n_repeats / (n_repeats - 1)
                for i in range(len(total)):
                    total[i] += factor * gradients[repeat, player, i]
        while match.to_give > 0:
            give(match, policy_gift(match, weights, 1.0, room))
        while match.turn >= 0:
            play(match, policy_play(match, weights, 1.0, room))


def self_play_gradient(weights: Scores, seed: int, n_deals: int = CYCLE) -> Scores:
    """The policy gradient by one match of five players of a policy, as a mean over games.

    Args:
        weights: all weights of the policy, row after row.
        seed: of the match.
        n_deals: its games, each of which is played `N_REPEATS` times.
    """
    total = np.zeros(len(weights))
    gradients = np.empty((N_REPEATS, N_PLAYERS, len(weights)))
    match, games, values = new_match(seed), np.empty(1, GAME), class_values(HORIZON)
    _add_games(match, games, n_deals, weights, values, gradients, new_room(), total)
    return total / (n_deals * N_REPEATS)


class Choices(NamedTuple):
    """What a player chose, in decisions with several options."""

    features: Features
    """`[O, MOST]`: numbers of weights of each option, all decisions one after the other."""
    sizes: Numbers
    """`[O]`: how many features it has."""
    first: Numbers
    """`[D + 1]`: where the options of each decision begin, and the end."""
    chosen: Numbers
    """`[D]`: the place of the chosen option among them."""


ChoicesType = types.NamedTuple((int16[:, ::1], int64[::1], int64[::1], int64[::1]), Choices)


@njit(float64(ChoicesType, int64[::1], float64[::1], RoomType, float64[::1]), cache=True)
def add_choices(
    choices: Choices, which: Numbers, weights: Scores, room: Room, total: Scores
) -> float:
    """Adds the gradient of the log likelihood of some decisions; returns their log likelihood."""
    likelihood = 0.0
    for decision in which:
        start = choices.first[decision]
        n, chosen = choices.first[decision + 1] - start, choices.chosen[decision]
        for i in range(n):
            room.sizes[i] = choices.sizes[start + i]
            for j in range(room.sizes[i]):
                room.features[i, j] = choices.features[start + i, j]
        weigh(n, weights, 1.0, room)
        mass = 0.0
        for i in range(n):
            mass += room.scores[i]
        likelihood += np.log(max(room.scores[chosen] / mass, 1e-300))
        add_gradient(room, n, chosen, 1.0, total)
    return likelihood


def log_likelihood(policy: Policy, choices: Choices) -> float:
    """The mean log likelihood of choices by a policy; no choice is surer than 0."""
    weights, which = np.ravel(policy.weights), np.arange(len(choices.chosen))
    total = add_choices(choices, which, weights, new_room(), np.zeros(len(weights)))
    return float(total / len(which))


# Choices of games that are over


@njit(types.UniTuple(int64, 2)(GameType, int64, RoomType), cache=True)
def _describe_play(game: Game, move: int, room: Room) -> tuple[int, int]:
    """Describes the options of the player in turn; returns their number and the place of a move."""
    n = list_options(game, room.options)
    if n > 1:  # otherwise there was nothing to choose
        describe(game, room.options, n, room.beaters, room.features, room.sizes)
    for i in range(n):
        if CARDS[room.options[i]] == CARDS[move]:
            return n, i
    return n, -1


@njit(types.UniTuple(int64, 2)(GameType, int64, RoomType), cache=True)
def _describe_gift(game: Game, player: int, room: Room) -> tuple[int, int]:
    """The same for what a player gave in the exchange just before; no options if he had none."""
    gift = np.uint64(game.given[player])
    if gift == 0 or not 0 <= game.classes[player] <= FUGO:
        return 0, -1
    hand, turn = game.hands[player], game.turn
    game.hands[player], game.turn, game.to_give = hand | gift, player, count(gift)
    n, chosen = list_gifts(game, room.options), -1
    describe_gifts(game, room.options, n, room.features, room.sizes)
    game.hands[player], game.turn, game.to_give = hand, turn, 0
    for i in range(n):
        if np.uint64(room.options[i]) == gift:
            chosen = i
    return n, chosen


@njit(ChoicesType(GameType[::1], RoomType), cache=True)
def choices_in(games: Any, room: Room) -> Choices:
    """The decisions with several options, gifts among them, in games that are over.

    Args:
        games: `GAME[n]`.
        room: overwritten.
    """
    features, sizes = np.empty((2 * N_PLAYS, MOST), np.int16), np.empty(2 * N_PLAYS, np.int64)
    most, n_decisions = (games["n_actions"] + N_PLAYERS).sum(), 0
    first, chosen = np.zeros(most + 1, np.int64), np.empty(most, np.int64)
    for i in range(len(games)):
        replayed = games[i : i + 1].copy()
        game = replayed[0]
        rewind(game)
        for k in range(-N_PLAYERS, games[i].n_actions):
            if k < 0:
                n, place = _describe_gift(game, k + N_PLAYERS, room)
            else:
                move = int(games[i].actions[k]) % N_PLAYS
                n, place = _describe_play(game, move, room)
                play(game, move)
            if n < 2 or place < 0:
                continue
            start = first[n_decisions]
            if start + n > len(sizes):
                features = np.concatenate((features, np.empty_like(features)))
                sizes = np.concatenate((sizes, np.empty_like(sizes)))
            for j in range(n):
                features[start + j], sizes[start + j] = room.features[j], room.sizes[j]
            chosen[n_decisions], first[n_decisions + 1] = place, start + n
            n_decisions += 1
    end = first[n_decisions]
    return Choices(features[:end], sizes[:end], first[: n_decisions + 1], chosen[:n_decisions])


def join(parts: Sequence[Choices]) -> Choices:
    """All choices of several matches."""
    ends = np.cumsum([0, *(part.first[-1] for part in parts)])
    firsts = [part.first[:-1] + end for part, end in zip(parts, ends[:-1], strict=True)]
    return Choices(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.sizes for part in parts]),
        np.concatenate([*firsts, ends[-1:]]),
        np.concatenate([part.chosen for part in parts]),
    )


# Learning


class Ascent:
    """Adam: steps up a gradient, of about the rate for each weight.

    Args:
        weights: changed in place.
        n_steps: how many steps there will be: the rate falls to a tenth of its start.
        rate: the first rate.
    """

    def __init__(self, weights: Scores, n_steps: int, rate: float = RATE) -> None:
        self.weights, self._n_steps, self._rate = weights, n_steps, rate
        self._mean, self._square = np.zeros_like(weights), np.zeros_like(weights)
        self._n = 0

    def step(self, gradient: Scores) -> None:
        """Makes a step."""
        rate = self._rate * (1 - 0.9 * self._n / self._n_steps)
        self._n += 1
        self._mean += 0.1 * (gradient - self._mean)
        self._square += 0.002 * (gradient * gradient - self._square)
        mean = self._mean / (1 - 0.9**self._n)
        square = self._square / (1 - 0.998**self._n)
        self.weights += rate * mean / (np.sqrt(square) + 1e-6)


def learn_by_self_play(
    n_games: float, seed: int = 0, start: Policy | None = None, rate: float = RATE, jobs: int = 1
) -> Iterator[Policy]:
    """Learns from games of five players of the policy.

    Args:
        n_games: how many games; the last step may make it more.
        seed: of the games. The policy does not depend on `jobs`.
        start: the policy to start from; by default all weights are 0.
        rate: of the first steps.
        jobs: processes side by side.

    Yields:
        The policy after each step, of `MATCHES` * `CYCLE` * `N_REPEATS` games.

    Raises:
        ImportError: joblib is not installed.
    """
    from joblib import Parallel, delayed

    weights = np.array((start or new_policy()).weights, np.float64).reshape(-1)
    n_steps = -(-int(n_games) // (MATCHES * CYCLE * N_REPEATS))
    ascent = Ascent(weights, n_steps, rate)
    with Parallel(n_jobs=jobs) as run:
        for step in range(n_steps):
            seeds = np.random.default_rng([seed, step]).integers(2**63, size=MATCHES).tolist()
            ascent.step(
                np.mean(run(delayed(self_play_gradient)(weights, s) for s in seeds), axis=0)
            )
            yield Policy(weights.reshape(N_CONTEXTS, N_FEATURES).copy())


def learn_from_choices(
    choices: Choices,
    epochs: int = 10,
    seed: int = 0,
    start: Policy | None = None,
    rate: float = RATE,
) -> Iterator[Policy]:
    """Learns to choose as a player did.

    Args:
        choices: his decisions.
        epochs: how often each is used.
        seed: of their order.
        start: the policy to start from; by default all weights are 0.
        rate: of the first steps.

    Yields:
        The policy after each epoch.
    """
    weights = np.array((start or new_policy()).weights, np.float64).reshape(-1)
    n_batches = -(-len(choices.chosen) // BATCH)
    rng, room = np.random.default_rng(seed), new_room()
    ascent = Ascent(weights, n_batches * epochs, rate)
    for _ in range(epochs):
        for which in np.array_split(rng.permutation(len(choices.chosen)), n_batches):
            gradient = np.zeros(len(weights))
            add_choices(choices, which, weights, room, gradient)
            ascent.step(gradient / len(which))
        yield Policy(weights.reshape(N_CONTEXTS, N_FEATURES).copy())


def share_of(player: str) -> int:
    """How many games of a player are played and recorded at a time."""
    return SHARE if Path(player).suffix == ".safetensors" else CYCLE


def play_share(player: str, n_games: int, seed: int) -> Choices:
    """What five players of a kind choose in some games.

    Args:
        player: a name, or the file of a rank network, which plays as the file says.
        n_games: how many games.
        seed: of the games and the players.
    """
    if Path(player).suffix == ".safetensors":
        from afterstate.agents.daihinmin.training import play_alone  # it needs torch

        return choices_in(play_alone(player, n_games, seed).games, new_room())
    seeds = np.random.default_rng(seed).integers(2**63, size=N_PLAYERS).tolist()
    log = play_log([find(player, one) for one in seeds], n_games, seed)
    return choices_in(log.games, new_room())


def record(player: str, n_games: int, seed: int = 0, jobs: int = 1) -> Iterator[Choices]:
    """What players of a kind choose, share by share: see `play_share`.

    Raises:
        ImportError: joblib is not installed.
    """
    from joblib import Parallel, delayed

    size = share_of(player)
    sizes = [min(size, n_games - begin) for begin in range(0, n_games, size)]
    seeds = np.random.default_rng(seed).integers(2**63, size=len(sizes)).tolist()
    run = Parallel(n_jobs=jobs, return_as="generator")
    yield from run(delayed(play_share)(player, *share) for share in zip(sizes, seeds, strict=True))


# The command


def _parser() -> argparse.ArgumentParser:
    """The arguments of the command."""
    parser = argparse.ArgumentParser(description="Learns a play policy for Daihinmin.")
    parser.add_argument("file", type=Path, help="where the policy is written")
    parser.add_argument("--games", type=above_0, default=1e6, help="how many games (1e6)")
    parser.add_argument(
        "--from", dest="player", help="learn what a player chooses: its name, or a file"
    )
    parser.add_argument("--epochs", type=int, default=10, help="how often choices are used (10)")
    parser.add_argument("--start", type=Path, help="a policy to start from")
    parser.add_argument("--rate", type=above_0, default=RATE, help=f"of the first steps ({RATE})")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side (1)")
    return parser


def _policies(options: argparse.Namespace, start: Policy | None) -> tuple[int, Iterable[Policy]]:
    """How many policies there will be, one after the other, and these."""
    if options.player is None:
        n = -(-int(options.games) // (MATCHES * CYCLE * N_REPEATS))
        seed, rate, jobs = options.seed, options.rate, options.jobs
        return n, learn_by_self_play(options.games, seed, start, rate, jobs)
    n_games = int(options.games)
    shares = record(options.player, n_games, options.seed, options.jobs)
    n_shares = -(-n_games // share_of(options.player))
    choices = join(list(progress_bar()(shares, total=n_shares, unit="share")))
    policies = learn_from_choices(choices, options.epochs, options.seed, start, options.rate)
    return options.epochs, policies


def main(arguments: Sequence[str] | None = None) -> int:
    """Learns a policy and writes it, also what there is when it is interrupted."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if min(options.games, options.epochs, options.jobs) < 1 or options.seed < 0:
        parser.error("games, epochs and jobs are at least 1, and the seed at least 0")
    policy = start = None
    try:
        files.prepare(options.file)
        policy = start = load(options.start) if options.start else None
        total, policies = _policies(options, start)
        for learned in progress_bar()(policies, total=total, unit="step"):
            policy = learned
    except (ValueError, OSError, ImportError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        kept = "nothing has been learned" if policy is start else "what has been learned is written"
        print(f"interrupted; {kept}", file=sys.stderr)
    if policy is not None and policy is not start:
        asked = {name: str(value) for name, value in vars(options).items() if name != "file"}
        save(policy, options.file, learned=asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())

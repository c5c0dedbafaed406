"""Learning of play policies: from games against themselves, and from the choices of a player.

    python -m afterstate.agents.daihinmin.learning.policy_learner policy.npz --games 6e6
    python -m afterstate.agents.daihinmin.learning.policy_learner policy.npz --from heuristic
    python -m afterstate.agents.daihinmin.learning.policy_learner policy.npz --from net.safetensors

*Self-play* raises the expected value of the finishing place by the policy gradient (REINFORCE,
Williams 1992). Each deal is played several times, and what a player got is compared with the mean
of his games with the same cards, so that the luck of the deal plays no part.

*Supervised* learning raises the log likelihood of what a player chose in games of five such
players. Both climb by Adam (Kingma and Ba 2015), with a rate that falls to a tenth.

The policy is written each minute, and on Ctrl-C or SIGTERM. Beside it, in `policy.npz.learning/`,
is until the end what `--resume` goes on from, exactly: `ascent.npz`, how far the run has come, and
`00000.npz` and so on, the choices that have been recorded.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int16, int64, njit, types, void

from afterstate.agents import files
from afterstate.agents.daihinmin.afterstates.class_values import HORIZON, class_values
from afterstate.agents.daihinmin.learning.game_records import play_log
from afterstate.agents.daihinmin.values.features import (
    MOST,
    N_CONTEXTS,
    N_FEATURES,
    Features,
    describe,
    describe_gifts,
    list_gifts,
    list_options,
)
from afterstate.agents.daihinmin.values.softmax_policy import (
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
from afterstate.agents.training.commands import above_0, progress_bar, sigterm_raises
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
SAVE_EVERY = 60.0
"""Seconds between two saves."""
_KIND = "daihinmin-policy-learning"


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


class Ascent(NamedTuple):
    """How far Adam has come up: the weights of a policy, and what it remembers of gradients."""

    weights: Scores
    """All weights of the policy, row after row."""
    mean: Scores
    """Of the gradients, by weight; the latest count most."""
    square: Scores
    """The same of their squares."""
    n: int
    """How many steps it has made."""

    def policy(self) -> Policy:
        """The policy of these weights."""
        return Policy(self.weights.reshape(N_CONTEXTS, N_FEATURES))

    def step(self, gradient: Scores, n_steps: int, rate: float) -> Ascent:
        """A step up the gradient, of about the rate for each weight.

        Args:
            gradient: by weight.
            n_steps: how many steps there will be: the rate falls to a tenth of its start.
            rate: the first rate.
        """
        rate *= 1 - 0.9 * self.n / n_steps
        n = self.n + 1
        mean = self.mean + 0.1 * (gradient - self.mean)
        square = self.square + 0.002 * (gradient * gradient - self.square)
        up = rate * (mean / (1 - 0.9**n)) / (np.sqrt(square / (1 - 0.998**n)) + 1e-6)
        return Ascent(self.weights + up, mean, square, n)


def new_ascent(start: Policy | None = None) -> Ascent:
    """The ascent from a policy, by default from weights of 0."""
    weights = np.array((start or new_policy()).weights, np.float64).reshape(-1)
    return Ascent(weights, np.zeros_like(weights), np.zeros_like(weights), 0)


def self_play_steps(n_games: float) -> int:
    """How many steps there are in so many games of self-play."""
    return -(-int(n_games) // (MATCHES * CYCLE * N_REPEATS))


def learn_by_self_play(
    n_games: float,
    seed: int = 0,
    start: Ascent | None = None,
    rate: float = RATE,
    jobs: int = 1,
) -> Iterator[Ascent]:
    """Learns from games of five players of the policy.

    Args:
        n_games: how many games; the last step may make it more.
        seed: of the games. The policy does not depend on `jobs`.
        start: goes on from there; by default all weights are 0.
        rate: of the first steps.
        jobs: processes side by side.

    Yields:
        How far it has come after each step, of `MATCHES` * `CYCLE` * `N_REPEATS` games.

    Raises:
        ImportError: joblib is not installed.
    """
    from joblib import Parallel, delayed

    ascent, n_steps = start or new_ascent(), self_play_steps(n_games)
    with Parallel(n_jobs=jobs) as run:
        for step in range(ascent.n, n_steps):
            seeds = np.random.default_rng([seed, step]).integers(2**63, size=MATCHES).tolist()
            found = run(delayed(self_play_gradient)(ascent.weights, one) for one in seeds)
            ascent = ascent.step(np.mean(found, axis=0), n_steps, rate)
            yield ascent


def n_batches(choices: Choices) -> int:
    """How many steps there are in an epoch of supervised learning."""
    return -(-len(choices.chosen) // BATCH)


def learn_from_choices(
    choices: Choices,
    epochs: int = 10,
    seed: int = 0,
    start: Ascent | None = None,
    rate: float = RATE,
) -> Iterator[Ascent]:
    """Learns to choose as a player did.

    Args:
        choices: his decisions.
        epochs: how often each is used.
        seed: of their order.
        start: goes on from there; by default all weights are 0.
        rate: of the first steps.

    Yields:
        How far it has come after each step, of about `BATCH` decisions.
    """
    ascent, n, room = start or new_ascent(), n_batches(choices), new_room()
    rng = np.random.default_rng(seed)
    orders = (rng.permutation(len(choices.chosen)) for _ in range(epochs))
    batches = (which for order in orders for which in np.array_split(order, n))
    for which in islice(batches, ascent.n, None):
        gradient = np.zeros(len(ascent.weights))
        add_choices(choices, which, ascent.weights, room, gradient)
        ascent = ascent.step(gradient / len(which), n * epochs, rate)
        yield ascent


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
        from afterstate.agents.daihinmin.learning.rank_training import play_alone  # it needs torch

        return choices_in(play_alone(player, n_games, seed).games, new_room())
    seeds = np.random.default_rng(seed).integers(2**63, size=N_PLAYERS).tolist()
    log = play_log([find(player, one) for one in seeds], n_games, seed)
    return choices_in(log.games, new_room())


def record(
    player: str, n_games: int, seed: int = 0, jobs: int = 1, first: int = 0
) -> Iterator[Choices]:
    """What players of a kind choose, share by share from the `first` on: see `play_share`.

    Raises:
        ImportError: joblib is not installed.
    """
    from joblib import Parallel, delayed

    size = share_of(player)
    sizes = [min(size, n_games - begin) for begin in range(0, n_games, size)]
    seeds = np.random.default_rng(seed).integers(2**63, size=len(sizes)).tolist()
    shares = list(zip(sizes, seeds, strict=True))[first:]
    run = Parallel(n_jobs=jobs, return_as="generator")
    yield from run(delayed(play_share)(player, *share) for share in shares)


# The command


def _folder(file: Path) -> Path:
    """Where it is kept what an interrupted run goes on from."""
    return file.with_name(f"{file.name}.learning")


class _Run:
    """A run of the command, and what is kept of it until it is over.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a wrong file, or what is kept does not fit what is asked for.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._options, self._saved = options, time.monotonic()
        asked = {name: str(value) for name, value in vars(options).items()}
        self._asked = {name: asked[name] for name in asked if name not in ("file", "resume")}
        files.check_writable(options.file)
        self._folder = _folder(options.file)
        if self._folder.exists() != options.resume:
            there = "is there: go on with --resume, or remove it"
            missing = "is not there: there is nothing to resume"
            raise ValueError(f"{self._folder} {missing if options.resume else there}")
        self._ascent = self._begin()

    def _begin(self) -> Ascent:
        """How far the run has come before."""
        place = self._folder / "ascent.npz"
        if not place.exists():
            return new_ascent(load(self._options.start) if self._options.start else None)
        kept = self._read(place)
        if kept["weights"].shape != (N_CONTEXTS * N_FEATURES,):
            raise ValueError(f"{place} has other features: learn it again")
        return Ascent(kept["weights"], kept["mean"], kept["square"], int(kept["n"]))

    def _read(self, place: Path) -> files.Arrays:
        """Reads what was kept, if it is of a run with the same settings."""
        header, arrays = files.read(place, _KIND)
        if {**header["asked"], "jobs": self._asked["jobs"]} != self._asked:
            raise ValueError(f"{place} is of a run with other settings: {header['asked']}")
        return arrays

    def _write(self, place: Path, kept: Ascent | Choices) -> None:
        """Keeps something."""
        files.write(place, _KIND, {"asked": self._asked}, kept._asdict())

    def learn(self) -> None:
        """Learns to the end, and saves also where it is interrupted."""
        total, steps = self._steps()
        try:
            bar = progress_bar()
            for ascent in bar(steps, total=total, initial=self._ascent.n, unit="step"):
                self._ascent = ascent
                if time.monotonic() - self._saved >= SAVE_EVERY:
                    self._save()
        finally:
            self._save()
        shutil.rmtree(self._folder)

    def _save(self) -> None:
        """Writes the policy, and how far it has come, unless nothing has been learned."""
        if self._ascent.n > 0:
            self._write(self._folder / "ascent.npz", self._ascent)
            save(self._ascent.policy(), self._options.file, learned=self._asked)
        self._saved = time.monotonic()

    def _steps(self) -> tuple[int, Iterable[Ascent]]:
        """How many steps there are in all, and those that are still to be made."""
        asked, begun = self._options, self._ascent
        if asked.player is None:
            steps = learn_by_self_play(asked.games, asked.seed, begun, asked.rate, asked.jobs)
            return self_play_steps(asked.games), steps
        choices = join(self._choices())
        steps = learn_from_choices(choices, asked.epochs, asked.seed, begun, asked.rate)
        return n_batches(choices) * asked.epochs, steps

    def _choices(self) -> list[Choices]:
        """What the player chooses, share by share, each kept as soon as it is recorded."""
        asked, n_games, shares = self._options, int(self._options.games), list[Choices]()
        while (place := self._share(len(shares))).exists():
            shares.append(Choices(**self._read(place)))
        more = record(asked.player, n_games, asked.seed, asked.jobs, len(shares))
        total = -(-n_games // share_of(asked.player))
        for share in progress_bar()(more, total=total, initial=len(shares), unit="share"):
            self._write(self._share(len(shares)), share)
            shares.append(share)
        return shares

    def _share(self, number: int) -> Path:
        """The file of a share of the choices."""
        return self._folder / f"{number:05}.npz"


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
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Learns a policy and writes it; returns 130 if it is interrupted."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if min(options.games, options.epochs, options.jobs) < 1 or options.seed < 0:
        parser.error("games, epochs and jobs are at least 1, and the seed at least 0")
    try:
        with sigterm_raises(KeyboardInterrupt()):
            _Run(options).learn()
    except (ValueError, OSError, ImportError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        goes_on = "go on with --resume" if _folder(options.file).exists() else "nothing is kept"
        print(f"interrupted; {goes_on}", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

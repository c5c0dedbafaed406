"""Learning of play policies: from games against themselves, and from the choices of a player.

    afterstate train daihinmin-policy --out RUN --games 6e6
    afterstate train daihinmin-policy --out RUN --player heuristic
    afterstate train daihinmin-policy --out RUN --player net.safetensors

*Self-play* raises the expected value of the finishing place by the policy gradient: see
`policy_gradient.py`.

*Supervised* learning raises the log likelihood of a player's choices in games of five such players.
Both ascend by Adam (Kingma and Ba 2015), with a rate that falls to a tenth.

The folder of a run has the policy, `policy.npz`, which `agents.load` reads; `ascent.npz`, from
which the run is resumed exactly; and `00000.npz` and so on, the choices that have been recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from afterstate.agents import files
from afterstate.agents.config import changes
from afterstate.agents.daihinmin.learning.game_records import play_log
from afterstate.agents.daihinmin.learning.policy_gradient import (
    N_REPEATS,
    Choices,
    add_choices,
    choices_in,
    join,
    self_play_gradient,
)
from afterstate.agents.daihinmin.learning.policy_settings import (
    RATE,
    DaihinminPolicyRun,
    PolicyOptions,
)
from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE, find_player, has_name
from afterstate.agents.daihinmin.values.features import MOST, N_CONTEXTS, N_FEATURES
from afterstate.agents.daihinmin.values.softmax_policy import (
    Policy,
    PolicyAgent,
    Scores,
    load,
    new_policy,
    new_workspace,
    save,
)
from afterstate.agents.training.evaluation import EVALUATION_SEED
from afterstate.agents.training.folder import RunFolder
from afterstate.agents.training.workers import ALONE, Workers
from afterstate.envs.compiling import clock
from afterstate.envs.daihinmin.plays import N_PLAYS
from afterstate.envs.daihinmin.rules import N_PLAYERS
from afterstate.envs.messages import shown

GAMES_PER_PART = 2_500
"""Games of rank networks that are played in parallel."""
MATCHES = 5
"""Matches between two steps of self-play."""
BATCH = 1_000
"""Decisions between two steps of supervised learning."""
_KIND = "daihinmin-policy-learning"

# Learning


class Ascent(NamedTuple):
    """State of Adam: the weights of a policy, and the means of gradients."""

    weights: Scores
    """All weights of the policy, row after row."""
    mean: Scores
    """Moving average of the gradients, by weight."""
    square: Scores
    """Moving average of their squares."""
    n: int
    """Number of steps."""

    def policy(self) -> Policy:
        """Return the policy of these weights."""
        return Policy(self.weights.reshape(N_CONTEXTS, N_FEATURES))

    def step(self, gradient: Scores, n_steps: int, rate: float) -> Ascent:
        """Return the state after a step up the gradient, of about the rate for each weight.

        Args:
            gradient: gradient by weight.
            n_steps: number of steps of the run: the rate falls to a tenth of its start.
            rate: the first rate.
        """
        rate *= 1 - 0.9 * self.n / n_steps
        n = self.n + 1
        mean = self.mean + 0.1 * (gradient - self.mean)
        square = self.square + 0.002 * (gradient * gradient - self.square)
        up = rate * (mean / (1 - 0.9**n)) / (np.sqrt(square / (1 - 0.998**n)) + 1e-6)
        return Ascent(self.weights + up, mean, square, n)


def new_ascent(start: Policy | None = None) -> Ascent:
    """Return the ascent from a policy, by default from weights of 0."""
    weights = np.array((start or new_policy()).weights, np.float64).reshape(-1)
    return Ascent(weights, np.zeros_like(weights), np.zeros_like(weights), 0)


def self_play_steps(n_games: float) -> int:
    """Return the number of steps of some games of self-play."""
    return -(-int(n_games) // (MATCHES * GAMES_PER_CYCLE * N_REPEATS))


def learn_by_self_play(
    n_games: float,
    seed: int = 0,
    start: Ascent | None = None,
    rate: float = RATE,
    workers: Workers = ALONE,
) -> Iterator[Ascent]:
    """Learn from games of five players of the policy.

    Args:
        n_games: number of games; the last step may play some more.
        seed: seed of the games. The policy does not depend on `workers`.
        start: the state to continue from; by default all weights are 0.
        rate: learning rate of the first steps.
        workers: processes that play.

    Yields:
        The state after each step, of `MATCHES` * `GAMES_PER_CYCLE` * `N_REPEATS` games.

    Raises:
        ImportError: joblib is not installed.
    """
    ascent, n_steps = start or new_ascent(), self_play_steps(n_games)
    for step in range(ascent.n, n_steps):
        seeds = np.random.default_rng([seed, step]).integers(2**63, size=MATCHES).tolist()
        calls = [partial(self_play_gradient, ascent.weights, one) for one in seeds]
        ascent = ascent.step(np.mean(list(workers.results(calls)), axis=0), n_steps, rate)
        yield ascent


def n_batches(choices: Choices) -> int:
    """Return the number of steps of an epoch of supervised learning."""
    return -(-len(choices.chosen) // BATCH)


def learn_from_choices(
    choices: Choices,
    epochs: int = 10,
    seed: int = 0,
    start: Ascent | None = None,
    rate: float = RATE,
) -> Iterator[Ascent]:
    """Learn to choose as a player did.

    Args:
        choices: its decisions.
        epochs: number of times that each is used.
        seed: seed of their order.
        start: the state to continue from; by default all weights are 0.
        rate: learning rate of the first steps.

    Yields:
        The state after each step, of about `BATCH` decisions.
    """
    ascent, n, workspace = start or new_ascent(), n_batches(choices), new_workspace()
    rng = np.random.default_rng(seed)
    orders = (rng.permutation(len(choices.chosen)) for _ in range(epochs))
    batches = (which for order in orders for which in np.array_split(order, n))
    for which in islice(batches, ascent.n, None):
        gradient = np.zeros(len(ascent.weights))
        add_choices(choices, which, ascent.weights, workspace, gradient)
        ascent = ascent.step(gradient / len(which), n * epochs, rate)
        yield ascent


def part_size(player: str) -> int:
    """Return the number of games of a player that are played and recorded at a time."""
    return GAMES_PER_PART if _is_file(player) else GAMES_PER_CYCLE


def play_part(player: str, n_games: int, seed: int) -> Choices:
    """Return the choices of five equal players in some games.

    Args:
        player: a name, or the file of a rank network, which plays as the file says.
        n_games: number of games.
        seed: seed of the games and the players.
    """
    if _is_file(player):
        from afterstate.agents.daihinmin.learning.rank_training import play_alone  # it needs torch

        return choices_in(play_alone(player, n_games, seed).games, new_workspace())
    seeds = np.random.default_rng(seed).integers(2**63, size=N_PLAYERS).tolist()
    log = play_log([find_player(player, one) for one in seeds], n_games, seed)
    return choices_in(log.games, new_workspace())


def record(
    player: str, n_games: int, seed: int = 0, workers: Workers = ALONE, first: int = 0
) -> Iterator[Choices]:
    """Yield the choices of equal players, part by part from the `first` on: see `play_part`.

    Raises:
        ImportError: joblib is not installed.
    """
    size = part_size(player)
    sizes = [min(size, n_games - begin) for begin in range(0, n_games, size)]
    seeds = np.random.default_rng(seed).integers(2**63, size=len(sizes)).tolist()
    parts = list(zip(sizes, seeds, strict=True))[first:]
    yield from workers.results(partial(play_part, player, *part) for part in parts)


# Runs


class PolicyTraining:
    """Training of a play policy, measured in steps.

    Raises:
        OSError: a file cannot be read.
        ValueError: a wrong file, or a folder that does not fit the settings.
    """

    amount_unit: ClassVar[str] = "steps"
    chunk: ClassVar[int] = 1
    saves_each_chunk: ClassVar[bool] = False

    def __init__(self, run: DaihinminPolicyRun, options: PolicyOptions, folder: RunFolder) -> None:
        self.run, self.options, self.out, self.seconds = run, options, folder.path, 0.0
        values: dict[str, Any] = {
            "games": float(run.games),
            "player": run.player,
            "epochs": run.epochs,
            "start": run.start,
            "rate": float(run.rate),
            "seed": run.seed,
        }
        self._settings = {name: str(value) for name, value in values.items()}
        if (path := self.out / "ascent.npz").exists():
            self.ascent = _ascent(path, self._read(path))
        else:
            self.ascent = new_ascent(load(run.start) if run.start else None)
        if run.player is not None and not _is_file(run.player):
            find_player(run.player)
        self._n_parts = 0 if run.player is None else -(-run.games // part_size(run.player))
        self._parts = self._saved_parts()
        self._choices: Choices | None = None
        self._rest: Iterator[Choices] | None = None
        self._steps: Iterator[Ascent] | None = None

    def _read(self, path: Path) -> files.Arrays:
        """Return the arrays of a file, if it is of a run with the same settings."""
        header, arrays = files.read(path, _KIND)
        before = header.get("asked")
        if not isinstance(before, dict):
            raise ValueError(f"{path} has no settings of a run")
        before.pop("jobs", None)  # in files of earlier versions
        differ = "; ".join(map(str, changes(before, self._settings)))
        if differ:
            raise ValueError(f"{path} is of a run with other settings: {shown(differ)}")
        if not all(files.is_finite(array) for array in arrays.values()):
            raise ValueError(f"{path} has numbers that are NaN or infinite")
        return arrays

    def _write(self, path: Path, state: Ascent | Choices) -> None:
        """Write a part of the state."""
        files.write(path, _KIND, {"asked": self._settings}, state._asdict())

    @property
    def amount(self) -> int:
        """Number of steps."""
        return self.ascent.n

    @property
    def end(self) -> int | None:
        """Number of steps of the whole run; None until all choices are recorded."""
        if self.run.player is None:
            return self_play_steps(self.run.games)
        if not self._is_recorded:
            return None
        return n_batches(self._recorded()) * self.run.epochs

    @property
    def _is_recorded(self) -> bool:
        """True if there is nothing to record any more."""
        return len(self._parts) == self._n_parts

    def _recorded(self) -> Choices:
        """Return all choices of the player."""
        if self._choices is None:
            self._choices = join(self._parts)
        return self._choices

    def _saved_parts(self) -> list[Choices]:
        """Return the choices that are in the folder."""
        parts: list[Choices] = []
        while (path := self._part_file(len(parts))).exists():
            parts.append(_choices(path, self._read(path)))
        return parts

    def _record_part(self, player: str) -> None:
        """Record some games of a player, and write the choices in them."""
        if self._rest is None:
            games, first = self.run.games, len(self._parts)
            self._rest = record(player, games, self.run.seed, self._workers(), first)
        part = next(self._rest)
        self._write(self._part_file(len(self._parts)), part)
        self._parts.append(part)

    def _workers(self) -> Workers:
        """Return the processes that play."""
        return Workers(self.options.jobs, self.options.backend)

    def _part_file(self, number: int) -> Path:
        """Return the file of a part of the choices."""
        return self.out / f"{number:05}.npz"

    def advance(self, amount: int) -> None:
        """Make some steps, or record a part of the choices, which come first."""
        start = clock()
        if self.run.player is not None and not self._is_recorded:
            self._record_part(self.run.player)
        else:
            self._steps = self._steps or self._new_steps()
            for ascent in islice(self._steps, amount):
                self.ascent = ascent
        self.seconds += clock() - start

    def _new_steps(self) -> Iterator[Ascent]:
        """Return the steps that are left."""
        own = self.run
        if own.player is None:
            return learn_by_self_play(own.games, own.seed, self.ascent, own.rate, self._workers())
        return learn_from_choices(self._recorded(), own.epochs, own.seed, self.ascent, own.rate)

    def counters(self) -> dict[str, Any]:
        """Return the step, and the seconds since the run was started or resumed."""
        return {"step": self.ascent.n, "seconds": round(self.seconds, 1)}

    def report(self) -> dict[str, Any]:
        """Return the parts that are recorded, while some are not; steps have no score."""
        if self._is_recorded:
            return {}
        return {"recorded": f"{len(self._parts)} of {self._n_parts} parts"}

    def evaluate(self) -> dict[str, Any]:
        """Return the points per 100 games of the policy against four sample clients."""
        players: list[Any] = [PolicyAgent(self.ascent.policy(), seed=1)]
        players += [find_player("sample", seed) for seed in range(2, N_PLAYERS + 1)]
        places = play_log(players, self.options.evaluate, EVALUATION_SEED).games["places"][:, 0]
        return {"against_sample": round(100 * float(np.mean(N_PLAYERS - places)), 1)}

    def save(self) -> None:
        """Write the policy and the state of the ascent, unless nothing has been learned."""
        if self.ascent.n > 0:
            self._write(self.out / "ascent.npz", self.ascent)
            save(self.ascent.policy(), self.out / "policy.npz", learned=self._settings)


_Layouts = dict[str, tuple[Any, tuple[int, ...]]]
"""Types and shapes of arrays, by name."""


def _ascent(path: Path, arrays: files.Arrays) -> Ascent:
    """Return the ascent of a file.

    Raises:
        ValueError: the arrays are not those of an ascent.
    """
    vector = (np.dtype(np.float64), (N_CONTEXTS * N_FEATURES,))
    layouts: _Layouts = dict.fromkeys(("weights", "mean", "square"), vector)
    _check_layouts(path, arrays, {**layouts, "n": (np.dtype(np.int64), ())})
    if arrays["n"] < 0:
        raise ValueError(f"{path} has {arrays['n']} steps")
    return Ascent(arrays["weights"], arrays["mean"], arrays["square"], int(arrays["n"]))


def _choices(path: Path, arrays: files.Arrays) -> Choices:
    """Return the choices of a file.

    Raises:
        ValueError: the arrays are not those of choices.
    """
    n_options, n_decisions = (len(np.atleast_1d(arrays.get(k, 0))) for k in ("sizes", "chosen"))
    numbers = np.dtype(np.int64)
    layouts: _Layouts = {
        "sizes": (numbers, (n_options,)),
        "chosen": (numbers, (n_decisions,)),
        "first": (numbers, (n_decisions + 1,)),
        "features": (np.dtype(np.int16), (n_options, MOST)),
    }
    _check_layouts(path, arrays, layouts)
    choices = Choices(**arrays)
    if not _in_range(choices):
        raise ValueError(f"{path} has choices that do not exist")
    return choices


def _in_range(choices: Choices) -> bool:
    """Return True if the kernels that learn from choices stay within the arrays."""
    first, sizes, features = choices.first, choices.sizes, choices.features
    n = np.diff(first)
    fits = first[0] == 0 and first[-1] == len(sizes) and ((n > 0) & (n <= N_PLAYS)).all()
    fits = fits and ((choices.chosen >= 0) & (choices.chosen < n)).all()
    fits = fits and ((sizes >= 0) & (sizes <= MOST)).all()
    columns = (features[sizes > j, j] for j in range(MOST))  # the others are not written
    return bool(fits) and all(
        ((each >= 0) & (each < N_CONTEXTS * N_FEATURES)).all() for each in columns
    )


def _check_layouts(path: Path, arrays: files.Arrays, layouts: _Layouts) -> None:
    """Raise ValueError unless arrays have these types and shapes."""
    given = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    if given != layouts:
        raise ValueError(f"{path} has other arrays, or those of other features: learn it again")


def _is_file(player: str) -> bool:
    """Return True for the file of a rank network."""
    return Path(player).suffix == ".safetensors" and not has_name(player)

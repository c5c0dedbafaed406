"""Value networks that learn in self-play, by temporal differences of afterstates.

    python -m afterstate.agents.game2048.learning.value_td SETTINGS.json --out runs/cnn22 --hours 1

A settings file is a JSON object, all of it optional:

    {"network": {"name": "CNN22"}, "learner": {"games": 64, "segment": 64}, "seed": 1}

Thousands of games stand side by side on the device of the network. In each move of all of them

1. the legal afterstates of every board are valued, and the best one by reward plus value is chosen;
2. this reward plus value is the target of the afterstate that came before; where no move is legal
   the target is 0. The network is fitted to the targets in steps of `batch` afterstates;
3. chance adds a tile, and the board is turned to one of the eight symmetric ones; games that are
   over begin again.

With a `segment` of more moves the network learns at its end, from all of its moves in random order,
and targets are lambda-returns (Sutton 1988): to the target above is added `lam` times what the next
afterstate is worth more by its own target than by its value. What happens in a game so reaches
its moves many at a time instead of one: values rise much sooner.

They begin again at the start; with `restart` (Matsuzaki 2017) in the middle of the game that has
ended, then in the middle of what followed, until what is left is short; with `jump` some of them at
positions of a play log, where a stronger player had come.

In the folder of a run are `learner.safetensors`, from which it goes on, `net.safetensors`, which
`agents.load` reads, `rows.jsonl` and `settings.json`: see `runs.py`.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from afterstate.agents import nets
from afterstate.agents.config import check_fields, check_names
from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.play import Games, play
from afterstate.agents.game2048.values.planes import planes
from afterstate.agents.game2048.values.value_net import MAX_DEPTH, ValueNetAgent, evaluate, network
from afterstate.agents.training import run
from afterstate.agents.training.commands import uninterrupted
from afterstate.agents.training.optimizer import Fitter, Fitting, set_threads
from afterstate.agents.training.run import EVALUATION_SEED, Kind, check_seed, summary
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.game2048.torch_rules import afterstates, draw_bits, exponents, spawn, start

_RANGES = {"games": "from 1 on", "segment": "from 1 on", "lam": "from 0 to 1", "unit": "above 0"}
_RANGES |= {"restart": "from 1 on", "jump": "from 0 to 1"}


@dataclass(frozen=True)
class Settings(Fitting):
    """How a value network learns.

    Raises:
        ValueError: a wrong setting.
    """

    games: int = 1_024
    """Played side by side. Fewer of them get further in the same number of moves."""
    segment: int = 1
    """Moves of each game from one lesson to the next, of which targets know. A lesson is of
    `segment * games` positions, and is learned to its end before a run is interrupted."""
    lam: float = 0.95
    """Lambda, how much a target knows of later moves of the segment: 0 nothing, 1 all."""
    unit: float = 1_000.0
    """What 1 of the network is in points: networks learn numbers of about 1 best."""
    restart: int | None = None
    """Games are played again from their middle until at most so many moves are left."""
    jump: float = 0.0
    """The chance of a game to begin at a position of the log."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, _RANGES)


class _Tables(NamedTuple):
    """Games side by side, `[n]` each, on one device."""

    boards: Tensor  # before a move
    afters: Tensor  # the afterstates that came before; 0 where a game has begun
    scores: Tensor  # so far
    lengths: Tensor  # how many moves were made
    begins: Tensor  # at which move a game was begun again by restart, else 0
    jumped: Tensor  # whether a game began at a position of the log


class _Step(NamedTuple):
    """What a move of all games tells of the afterstates before it, `[n]` each."""

    afters: Tensor  # those before; 0 where a game has begun
    best: Tensor  # reward plus value of the best move; 0 where the game is over
    values: Tensor  # of the afterstate of that move; 0 where the game is over
    over: Tensor


class _History:
    """The boards before each move of games, for restart.

    Args:
        n: games.
        device: where they are.
    """

    def __init__(self, n: int, device: torch.device) -> None:
        self.boards = torch.zeros(n, 1_024, dtype=torch.int64, device=device)  # [n, moves]
        self._longest = 0  # no game is longer

    def note(self, tables: _Tables) -> None:
        """Writes boards down; there is always room for them."""
        if self._longest >= self.boards.shape[1]:
            self._longest = int(tables.lengths.max())  # asked seldom, for a GPU has to answer
        self._grow()
        self.boards.scatter_(1, tables.lengths[:, None], tables.boards[:, None])
        self._longest += 1

    def _grow(self) -> None:
        """Makes room for one more move of the longest game."""
        while self._longest >= self.boards.shape[1]:
            self.boards = torch.cat((self.boards, torch.zeros_like(self.boards)), 1)

    def at(self, moves: Tensor) -> Tensor:
        """The boards before a move of each game, `int64[n]`."""
        return self.boards.gather(1, moves[:, None])[:, 0]

    def used(self, tables: _Tables) -> Tensor:
        """As much of them as belongs to games that go on, `[n, moves]`."""
        longest = int(tables.lengths.max())
        moves = torch.arange(longest, device=self.boards.device)
        return torch.where(moves < tables.lengths[:, None], self.boards[:, :longest], 0)

    def take(self, used: Tensor) -> None:
        """Takes up what `used` gave."""
        self._longest = used.shape[1]
        self._grow()
        self.boards[:, : self._longest] = used.to(self.boards.device)


class Learner:
    """A value network that learns in self-play.

    Args:
        net: maps planes `[n, 16, 4, 4]` to values `[n]`; learns in place, where it is.
        settings: how.
        seed: of chance; None is 0.
        log: for `jump`: see `play_logs.read`.

    Attributes:
        seconds: how long it has played and learned, by the clock.

    Raises:
        ValueError: the settings ask for a log, and there is none.
    """

    def __init__(
        self,
        net: nn.Module,
        settings: Settings | None = None,
        seed: int | None = None,
        log: play_logs.Moves | None = None,
    ) -> None:
        self.settings = how = settings or Settings()
        if how.jump and log is None:
            raise ValueError("to jump, a learner needs a log")
        self.fitter = Fitter(net, average=how.average, mixed=how.mixed, clip=how.clip)
        self.n_moves, self.n_games, self.seconds = 0, 0, 0.0
        self._device, self._seed = next(net.parameters()).device, int(seed or 0)
        self._chance = torch.Generator(self._device).manual_seed(self._seed % 2**63)
        self._log, self._rng = log, np.random.default_rng(self._seed)
        self._history = None if how.restart is None else _History(how.games, self._device)
        boards, jumped = self._new_games(how.games)
        zeros = torch.zeros_like(boards)
        self._tables = _Tables(boards, zeros, zeros, zeros, zeros, jumped)
        self._segment: list[_Step] = []
        self._loss, self._n_steps = torch.zeros((), device=self._device), 0

    @property
    def net(self) -> nn.Module:
        """The network that plays: the mean of the one that learns, or that one."""
        return self.fitter.played

    def play(self, n_moves: float) -> Games:
        """Plays and learns at least `n_moves` moves, in moves of all games.

        Returns:
            The games that ended and had begun at the start.
        """
        began, end = time.monotonic(), self.n_moves + n_moves
        ended = [self._tables.scores.new_empty(0, 3)]
        try:
            while self.n_moves < end:
                with uninterrupted():  # the network must not learn a move that is not made
                    ended.append(self._move())
        finally:
            self.seconds += time.monotonic() - began
        return Games(*torch.cat(ended).cpu().numpy().T)

    def _move(self) -> Tensor:
        """Makes a move in all games and learns from it; returns what games have ended, `[n, 3]`."""
        tables = self._tables
        if self._history is not None:
            self._history.note(tables)
        chosen, rewards, best, over = self._choose(tables.boards)
        self._segment.append(_Step(tables.afters, best, best - rewards, over))
        if len(self._segment) >= self.settings.segment:
            self._learn()
        moved = tables._replace(
            boards=self._turned(spawn(chosen, draw_bits(over.shape, self._chance))),
            afters=chosen,
            scores=tables.scores + rewards,
            lengths=tables.lengths + ~over,
        )
        n_over, ended = int(over.sum()), tables.scores.new_empty(0, 3)
        if n_over:
            moved, ended = self._begin_again(moved, over)
        self._tables, self.n_moves = moved, self.n_moves + len(over) - n_over
        self.n_games += len(ended)
        return ended

    def _choose(self, boards: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The afterstates of the best moves, their rewards, reward plus value, and who is over.

        Rewards and values are 0 where a game is over.
        """
        afters, rewards = afterstates(boards)
        legal = afters != boards[:, None]
        best, actions = self._values(afters, rewards, legal).max(1)
        over, at = ~legal.any(1), actions[:, None]
        chosen, reward = afters.gather(1, at)[:, 0], rewards.gather(1, at)[:, 0]
        return chosen, reward, torch.where(over, 0.0, best), over

    def _turned(self, boards: Tensor) -> Tensor:
        """Boards in symmetric positions, if that is asked for.

        Games go on there. If only what is learned were turned, the network would judge positions as
        it had never learned them, and its values, which are targets again, would soon explode.
        """
        if not self.settings.symmetric:
            return boards
        which = torch.randint(8, boards.shape, generator=self._chance, device=self._device)
        return torch_rules.symmetric(boards, which)

    def _values(self, afters: Tensor, rewards: Tensor, legal: Tensor) -> Tensor:
        """Reward plus value of the moves, `float32[n, 4]`, in points."""
        values = torch.full(afters.shape, -torch.inf, device=afters.device)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self.settings.mixed):
            found = evaluate(self.net, afters[legal])
        values[legal] = rewards[legal] + self.settings.unit * found
        return values

    def _targets(self) -> Tensor:
        """Those of the afterstates of the segment, `[segment, n]`, in points."""
        targets = [self._segment[-1].best]
        for step in reversed(self._segment[:-1]):
            more = self.settings.lam * (targets[-1] - step.values)
            targets.append(torch.where(step.over, 0.0, step.best + more))
        return torch.stack(targets[::-1])

    def _learn(self) -> None:
        """Fits the network to the targets of the segment, whose afterstates are shuffled."""
        afters, targets = torch.stack([step.afters for step in self._segment]), self._targets()
        self._segment = []
        known = afters != 0
        afters, targets = afters[known], targets[known]
        order = torch.randperm(len(afters), generator=self._chance, device=self._device)
        self._fit(afters[order], targets[order])

    def _fit(self, afters: Tensor, targets: Tensor) -> None:
        """Fits the network to the targets of afterstates, in steps of a batch."""
        n_steps = -(-len(afters) // self.settings.batch)
        if n_steps == 0:  # before the first move
            return
        parts = (each.tensor_split(n_steps) for each in (afters, targets))
        rate = self.settings.rate_after(self.n_moves)
        self.fitter.net.train()
        try:
            for part, target in zip(*parts, strict=True):
                wanted = target / self.settings.unit
                self._loss += self.fitter.step(planes(part), partial(mse_loss, target=wanted), rate)
                self._n_steps += 1
        finally:
            self.fitter.net.eval()

    def _begin_again(self, tables: _Tables, over: Tensor) -> tuple[_Tables, Tensor]:
        """Begins games that are over again.

        Returns:
            All games, and those from the start among them that have ended, `[n, 3]`: their scores,
            numbers of moves and largest tiles.
        """
        ended = over & (tables.begins == 0) & ~tables.jumped
        tiles = 1 << exponents(tables.boards[ended]).amax((1, 2))
        found = torch.stack((tables.scores[ended], tables.lengths[ended], tiles), 1)
        fresh, middles, boards = over, torch.zeros_like(tables.lengths), tables.boards.clone()
        if self._history is not None and self.settings.restart is not None:
            halves = (tables.begins + tables.lengths) // 2
            again = over & (tables.lengths - halves > self.settings.restart)
            fresh, middles = over & ~again, torch.where(again, halves, 0)
            boards = torch.where(again, self._history.at(middles), boards)
        jumped = tables.jumped.clone()
        boards[fresh], jumped[fresh] = self._new_games(int(fresh.sum()))
        afters, scores = (torch.where(over, 0, x) for x in (tables.afters, tables.scores))
        lengths, begins = (torch.where(over, middles, x) for x in (tables.lengths, tables.begins))
        return _Tables(boards, afters, scores, lengths, begins, jumped), found

    def _new_games(self, n: int) -> tuple[Tensor, Tensor]:
        """The first boards of `n` games, and whether they are positions of the log."""
        boards, jumped = start((n,), self._chance), torch.zeros(n, dtype=torch.bool)
        if self.settings.jump and self._log is not None:
            jumped = torch.from_numpy(self._rng.random(n) < self.settings.jump)
            there = self._log[self._rng.integers(len(self._log), size=n)]["board"]
            logged = torch_rules.from_words(there, self._device)
            boards = torch.where(jumped.to(self._device), logged, boards)
        return boards, jumped.to(self._device)

    def loss(self) -> float:
        """The mean squared error, in squares of the unit, since it was asked last.

        Nothing is known of what was learned before a `resume`.
        """
        mean = float(self._loss) / self._n_steps if self._n_steps else math.nan
        self._loss, self._n_steps = torch.zeros_like(self._loss), 0
        return round(mean, 4)

    def save(self, path: str | Path) -> None:
        """Writes the learner to a file, and the network beside it to `net.safetensors`.

        Raises:
            OSError: a file cannot be written.
        """
        facts: dict[str, Any] = {"n_moves": self.n_moves, "n_games": self.n_games}
        facts |= {"seconds": round(self.seconds, 1), "unit": self.settings.unit}
        facts |= {"learner": asdict(self.settings), "device": self._device.type}
        facts |= {"seed": self._seed}
        others = {**self._tables._asdict(), "chance": self._chance.get_state()}
        for name, steps in zip(_Step._fields, zip(*self._segment, strict=True), strict=False):
            others[f"segment/{name}"] = torch.stack(steps)
        if self._history is not None:
            others["history"] = self._history.used(self._tables)
        drawn = {"drawn": self._rng.bit_generator.state}
        self.fitter.save(path, others, **facts, **drawn)
        nets.save(self.net, Path(path).with_name("net.safetensors"), **facts)

    def resume(self, path: str | Path) -> None:
        """Takes up what `save` wrote.

        Raises:
            OSError: the file cannot be read.
            ValueError: another file, a damaged one, or of another network, unit or number of games.
        """
        told, others = self.fitter.load(path)
        try:
            if told["unit"] != self.settings.unit:
                raise ValueError(f"its unit is {told['unit']} and not {self.settings.unit}")
            self._take_games(others)
            self._take_segment(others)
            if told["device"] == self._device.type:
                self._chance.set_state(others["chance"])
            else:  # whose generators are others
                self._chance.manual_seed(self._chance.initial_seed() + int(told["n_moves"]))
            self._rng.bit_generator.state = told["drawn"]
            self.n_moves, self.n_games = int(told["n_moves"]), int(told["n_games"])
            self.seconds = float(told["seconds"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{path} does not fit the settings: {error}") from error

    def _take_games(self, tensors: dict[str, Tensor]) -> None:
        """Takes up games.

        Raises:
            KeyError: something is missing.
            ValueError: it is of another number of games.
        """
        n = self.settings.games
        for name in _Tables._fields:
            if tensors[name].shape != (n,):
                raise ValueError(f"it has {len(tensors[name])} games, not {n}")
        self._tables = _Tables(*(tensors[name].to(self._device) for name in _Tables._fields))
        if self._history is None:
            return
        history = tensors.get("history")
        if history is None:  # what these games were before is not known
            self._tables = self._tables._replace(begins=self._tables.lengths)
            history = torch.zeros(n, int(self._tables.lengths.max()), dtype=torch.int64)
        self._history.take(history)

    def _take_segment(self, tensors: dict[str, Tensor]) -> None:
        """Takes up the moves from which nothing has been learned yet.

        Raises:
            KeyError: something is missing.
            ValueError: it is not of all games.
        """
        names = [f"segment/{name}" for name in _Step._fields]
        known = any(name in tensors for name in names)
        columns = [tensors[name].to(self._device) for name in names if known]
        if any(column.shape[1:] != (self.settings.games,) for column in columns):
            raise ValueError("its segment is of another number of games")
        self._segment = [_Step(*each) for each in zip(*columns, strict=True)]


# The command


def new_learner(settings: dict[str, Any], device: str = "cpu") -> Learner:
    """A learner from settings.

    Raises:
        OSError: the log cannot be read.
        ValueError: wrong settings.
    """
    check_names("learner", settings["learner"], [each.name for each in fields(Settings)])
    check_seed(settings["seed"])
    nets.check_device(device)
    if settings["log"] is not None and not isinstance(settings["log"], str):
        raise ValueError(f"log is the file of a play log, got {settings['log']!r}")
    if not isinstance(settings["network"], dict):
        raise ValueError(f"network has a name and its settings, got {settings['network']!r}")
    with nets.seeded(settings["seed"]):
        net = network(**{"name": "CNN22", **settings["network"]}).to(device)
    log = None if settings["log"] is None else play_logs.read(settings["log"])
    return Learner(net, Settings(**settings["learner"]), settings["seed"], log)


def _evaluate(learner: Learner, chosen: argparse.Namespace) -> dict[str, Any]:
    """What rows say of a learner."""
    found: dict[str, Any] = {"loss": learner.loss()}
    for depth, n_games in chosen.evaluate.items():
        how = learner.settings
        player = ValueNetAgent(learner.net, depth, value_scale=how.unit, bf16=how.mixed)
        found[f"{depth}-ply"] = summary(play(player, n_games, EVALUATION_SEED))
    return found


def _begin(settings: dict[str, Any], chosen: argparse.Namespace, path: Path | None) -> Learner:
    """A learner from settings and options, which goes on from a file if there is one."""
    if chosen.evaluate and max(chosen.evaluate) > MAX_DEPTH:
        raise ValueError(f"a value network looks at most {MAX_DEPTH} moves ahead: see --evaluate")
    set_threads(chosen.threads)
    learner = new_learner(settings, chosen.device)
    if path is not None:
        learner.resume(path)
    return learner


VALUE = Kind(
    module="value_learning",
    what="a value network",
    file=lambda settings: "learner.safetensors",
    settings={"network": {}, "log": None, "learner": {}, "seed": 0},
    begin=_begin,
    evaluate=_evaluate,
    evaluate_every=1e6,
    plies="1:300",
    devices=True,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    run.run(VALUE, arguments)


if __name__ == "__main__":
    main()

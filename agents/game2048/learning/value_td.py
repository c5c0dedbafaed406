"""Value networks that learn in self-play, by temporal differences of afterstates.

    afterstate train value SETTINGS.json --out runs/cnn22 --hours 1

    {"network": {"name": "CNN22"}, "learner": {"games": 64, "segment": 64}, "seed": 1}

Thousands of games are played in parallel on the device of the network. For each move of all games

1. the network values the legal afterstates of every board, and the move with the best reward plus
   value is selected;
2. this reward plus value is the target of the previous afterstate; if no move is legal, the target
   is 0. The network is fitted to the targets in steps of `batch` afterstates;
3. chance adds a tile, and the board is turned to one of its eight symmetric boards; games that are
   over are replaced by new ones.

With a `segment` of several moves the network learns after the last of them, from all of them in
random order, and targets are lambda-returns (Sutton 1988): the target above plus `lam` times the
difference between the next afterstate's target and its value. The outcome of a game then reaches
many of its moves in one step, and values rise much sooner.

New games begin at the start. With `restart` (Matsuzaki 2017) they begin in the middle of the game
that has ended, then in the middle of the rest, until the rest is short. With `jump` some of them
begin at positions from a play log of a stronger player.

The folder of a run has `learner.safetensors`, from which it is resumed, and `net.safetensors`,
which `agents.load` reads.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from afterstate.agents import nets
from afterstate.agents.config import current_names, given_or_default
from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.learning.run_settings import ValueSettings
from afterstate.agents.game2048.play import Games
from afterstate.agents.game2048.values.planes import planes
from afterstate.agents.game2048.values.value_net import evaluate
from afterstate.agents.training.cuda_graphs import CudaGraphed
from afterstate.agents.training.fitter import new_fitter
from afterstate.agents.training.run import whole_moves
from afterstate.envs.checks import check_seed
from afterstate.envs.compiling import clock
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.game2048.torch_rules import afterstates, draw_bits, exponents, spawn, start
from afterstate.envs.messages import shown
from afterstate.envs.signals import uninterrupted


class _GameBatch(NamedTuple):
    """Games played in parallel, `[n]` each, on one device."""

    boards: Tensor  # before a move
    afters: Tensor  # previous afterstates; 0 at the beginning of a game
    scores: Tensor  # so far
    lengths: Tensor  # number of moves
    begins: Tensor  # the move at which a restarted game began, otherwise 0
    jumped: Tensor  # True if the game began at a position from the log


class _Step(NamedTuple):
    """A move of all games, from which the previous afterstates are learned, `[n]` each."""

    afters: Tensor  # previous afterstates; 0 at the beginning of a game
    best: Tensor  # reward plus value of the best move; 0 if the game is over
    values: Tensor  # value of the best move's afterstate; 0 if the game is over
    over: Tensor  # True if the game is over


class _History:
    """The boards before each move of the current games, for restart.

    Args:
        n: number of games.
        device: device of the boards.
    """

    def __init__(self, n: int, device: torch.device) -> None:
        self.boards = torch.zeros(n, 1_024, dtype=torch.int64, device=device)  # [n, moves]
        self._longest = 0  # an upper bound of the games' lengths

    def add(self, games: _GameBatch) -> None:
        """Add the current boards, growing if necessary."""
        if self._longest >= self.boards.shape[1]:
            self._longest = int(games.lengths.max())  # rarely, since it waits for the GPU
        self._grow()
        self.boards.scatter_(1, games.lengths[:, None], games.boards[:, None])
        self._longest += 1

    def _grow(self) -> None:
        """Make space for one more move of the longest game."""
        while self._longest >= self.boards.shape[1]:
            self.boards = torch.cat((self.boards, torch.zeros_like(self.boards)), 1)

    def at(self, moves: Tensor) -> Tensor:
        """Return the boards before the given move of each game, `int64[n]`."""
        return self.boards.gather(1, moves[:, None])[:, 0]

    def used(self, games: _GameBatch) -> Tensor:
        """Return the boards of the current games, `[n, moves]`; 0 after the last of a game."""
        longest = int(games.lengths.max())
        moves = torch.arange(longest, device=self.boards.device)
        return torch.where(moves < games.lengths[:, None], self.boards[:, :longest], 0)

    def restore(self, used: Tensor) -> None:
        """Restore the result of `used`."""
        self._longest = used.shape[1]
        self._grow()
        self.boards[:, : self._longest] = used.to(self.boards.device)


def _spawn_and_turn(afters: Tensor, bits: Tensor, symmetry: Tensor) -> Tensor:
    """Return boards with new tiles, in symmetric positions.

    The games continue there. If only the samples were turned, the network would value positions
    that it has never learned, and its values, which are also targets, would soon diverge.
    """
    return torch_rules.symmetric(spawn(afters, bits), symmetry)


class ValueLearner:
    """A value network that learns in self-play.

    Args:
        network: maps planes `[n, 16, 4, 4]` to values `[n]`; learns in place, on its device.
        settings: settings of learning.
        seed: seed of the games; None is 0.
        log: play log for `jump`: see `play_logs.read`.

    Attributes:
        seconds: wall-clock time of play and learning, without compilation.

    Raises:
        ValueError: `jump` without a log.
    """

    suffix = ".safetensors"
    """Ending of its files."""

    def __init__(
        self,
        network: nn.Module,
        settings: ValueSettings | None = None,
        seed: int | None = None,
        log: play_logs.Moves | None = None,
    ) -> None:
        self.settings = settings = given_or_default(settings, ValueSettings)
        if log is not None:
            play_logs.check_moves(log)
        if settings.jump and log is None:
            raise ValueError(f"jump must be 0 without a log, got {shown(settings.jump)}")
        self.fitter = new_fitter(network, mse_loss, settings, planes)
        self.n_moves = self.n_games = 0
        self.seconds = 0.0
        self._device = nets.device_of(network)
        self._seed = check_seed(seed) or 0
        self._chance = torch.Generator(self._device).manual_seed(self._seed % 2**63)
        self._log = log
        self._rng = np.random.default_rng(self._seed)
        self._afterstates = CudaGraphed(afterstates)
        self._spawn, self._spawn_and_turn = CudaGraphed(spawn), CudaGraphed(_spawn_and_turn)
        self._history = None
        if settings.restart is not None:
            self._history = _History(settings.games, self._device)
        boards, jumped = self._new_games(settings.games)
        zeros = torch.zeros_like(boards)
        self._games = _GameBatch(boards, zeros, zeros, zeros, zeros, jumped)
        self._ended: list[Tensor] = []  # games that were not returned yet, `[n, 3]` each
        self._segment: list[_Step] = []
        self._loss = torch.zeros((), device=self._device)
        self._n_steps = 0

    @property
    def network(self) -> nn.Module:
        """The network that plays: the average of the learning network, or that network itself."""
        return self.fitter.played

    def learn(self, n_moves: float) -> Games:
        """Play and learn at least `n_moves` moves, one in each game at a time.

        Returns:
            The games that ended and had begun at the start.

        Raises:
            ValueError: `n_moves` is not a whole number >= 1.
        """
        start_time, end = clock(), self.n_moves + whole_moves(n_moves)
        try:
            while self.n_moves < end:
                with uninterrupted():  # a move that is learned from must also be made
                    self._ended.append(self._move())
        finally:
            self.seconds += clock() - start_time
        return self.ended()

    def ended(self) -> Games:
        """Return the games that have ended and were not returned yet, such as before Ctrl-C."""
        ended, self._ended = [self._games.scores.new_empty(0, 3), *self._ended], []
        return Games(*torch.cat(ended).cpu().numpy().T)

    def _move(self) -> Tensor:
        """Make a move in all games and learn from it; return the games that ended, `[n, 3]`."""
        games = self._games
        if self._history is not None:
            self._history.add(games)
        afters, rewards, best, over = self._choose(games.boards)
        self._segment.append(_Step(games.afters, best, best - rewards, over))
        if len(self._segment) >= self.settings.segment:
            self._learn()
        moved = games._replace(
            boards=self._after_chance(afters),
            afters=afters,
            scores=games.scores + rewards,
            lengths=games.lengths + ~over,
        )
        n_over = int(over.sum())
        ended = games.scores.new_empty(0, 3)
        if n_over:
            moved, ended = self._begin_again(moved, over)
        self._games = moved
        self.n_moves += len(over) - n_over
        self.n_games += len(ended)
        return ended

    def _choose(self, boards: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the best moves' afterstates, rewards, rewards plus values, and the ended games.

        Rewards and values are 0 where a game is over.
        """
        afters, rewards = self._afterstates(boards)
        legal = afters != boards[:, None]
        best, actions = self._values(afters, rewards, legal).max(1)
        over, at = ~legal.any(1), actions[:, None]
        after, reward = afters.gather(1, at)[:, 0], rewards.gather(1, at)[:, 0]
        return after, reward, torch.where(over, 0.0, best), over

    def _after_chance(self, afters: Tensor) -> Tensor:
        """Return the boards after chance has added tiles, turned unless `symmetric` is false."""
        bits = draw_bits(afters.shape, self._chance)
        if not self.settings.symmetric:
            spawned: Tensor = self._spawn(afters, bits)
            return spawned
        symmetry = torch.randint(8, afters.shape, generator=self._chance, device=self._device)
        turned: Tensor = self._spawn_and_turn(afters, bits, symmetry)
        return turned

    def _values(self, afters: Tensor, rewards: Tensor, legal: Tensor) -> Tensor:
        """Return reward plus value of the moves, `float32[n, 4]`, in points."""
        values = torch.full(afters.shape, -torch.inf, device=afters.device)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self.settings.bf16):
            outputs = evaluate(self.network, afters[legal])
        values[legal] = rewards[legal] + self.settings.value_scale * outputs
        return values

    def _targets(self) -> Tensor:
        """Return the targets of the afterstates of the segment, `[segment, n]`, in points."""
        targets = [self._segment[-1].best]
        for step in reversed(self._segment[:-1]):
            more = self.settings.lam * (targets[-1] - step.values)
            targets.append(torch.where(step.over, 0.0, step.best + more))
        return torch.stack(targets[::-1])

    def _learn(self) -> None:
        """Fit the network to the targets of the segment in random order."""
        afters, targets = torch.stack([step.afters for step in self._segment]), self._targets()
        self._segment = []
        known = afters != 0
        afters, targets = afters[known], targets[known]
        order = torch.randperm(len(afters), generator=self._chance, device=self._device)
        self._fit(afters[order], targets[order] / self.settings.value_scale)

    def _fit(self, afters: Tensor, targets: Tensor) -> None:
        """Fit the network to its targets for afterstates, in steps of a batch.

        All steps have one size, on a GPU always the same, for which a step is recorded. The first
        afterstates fill up the last one.
        """
        if len(afters) == 0:  # before the first move
            return
        n_steps = -(-len(afters) // self.settings.batch)
        size = -(-len(afters) // n_steps)
        if afters.is_cuda and n_steps > 1:
            size = self.settings.batch
        full = (torch.cat((each, each[: -len(each) % size])) for each in (afters, targets))
        parts = (each.split(size) for each in full)
        rate = self.settings.rate_after(self.n_moves)
        self.fitter.network.train()
        try:
            for part, target in zip(*parts, strict=True):
                self._loss += self.fitter.step(part, target, rate)
                self._n_steps += 1
        finally:
            self.fitter.network.eval()

    def _begin_again(self, games: _GameBatch, over: Tensor) -> tuple[_GameBatch, Tensor]:
        """Replace the games that are over by new or restarted ones.

        Returns:
            All games, and the scores, numbers of moves and largest tiles, `[n, 3]`, of the games
            that ended and had begun at the start.
        """
        ended = over & (games.begins == 0) & ~games.jumped
        tiles = 1 << exponents(games.boards[ended]).amax((1, 2))
        results = torch.stack((games.scores[ended], games.lengths[ended], tiles), 1)
        fresh, middles, boards = over, torch.zeros_like(games.lengths), games.boards.clone()
        if self._history is not None and self.settings.restart is not None:
            halves = (games.begins + games.lengths) // 2
            again = over & (games.lengths - halves > self.settings.restart)
            fresh, middles = over & ~again, torch.where(again, halves, 0)
            boards = torch.where(again, self._history.at(middles), boards)
        jumped = games.jumped.clone()
        boards[fresh], jumped[fresh] = self._new_games(int(fresh.sum()))
        afters, scores = (torch.where(over, 0, x) for x in (games.afters, games.scores))
        lengths, begins = (torch.where(over, middles, x) for x in (games.lengths, games.begins))
        return _GameBatch(boards, afters, scores, lengths, begins, jumped), results

    def _new_games(self, n: int) -> tuple[Tensor, Tensor]:
        """Return the first boards of `n` games, and a mask of those that are from the log."""
        boards = start((n,), self._chance)
        jumped = torch.zeros(n, dtype=torch.bool)
        if self.settings.jump and self._log is not None:
            jumped = torch.from_numpy(self._rng.random(n) < self.settings.jump)
            words = self._log[self._rng.integers(len(self._log), size=n)]["board"]
            logged = torch_rules.from_words(words, self._device)
            boards = torch.where(jumped.to(self._device), logged, boards)
        return boards, jumped.to(self._device)

    def loss(self) -> float:
        """Return the mean squared error of the outputs since the last call or `resume`."""
        mean = float(self._loss) / self._n_steps if self._n_steps else math.nan
        self._loss = torch.zeros_like(self._loss)
        self._n_steps = 0
        return round(mean, 4)

    def save(self, path: str | Path) -> None:
        """Write the learner to a file, and the network next to it: see `nets.network_file`.

        Raises:
            OSError: a file cannot be written.
        """
        metadata: dict[str, Any] = {
            "n_moves": self.n_moves,
            "n_games": self.n_games,
            "seconds": round(self.seconds, 1),
            "value_scale": self.settings.value_scale,
            "learner": asdict(self.settings),
            "device": self._device.type,
            "seed": self._seed,
        }
        others = {**self._games._asdict(), "chance": self._chance.get_state()}
        for name, steps in zip(_Step._fields, zip(*self._segment, strict=True), strict=False):
            others[f"segment/{name}"] = torch.stack(steps)
        if self._history is not None:
            others["history"] = self._history.used(self._games)
        numpy_state = {"drawn": self._rng.bit_generator.state}
        self.fitter.save(path, others, **metadata, **numpy_state)
        nets.save(self.network, nets.network_file(path), **metadata)

    def resume(self, path: str | Path) -> None:
        """Continue from a file of `save`.

        Raises:
            OSError: the file cannot be read.
            ValueError: another file, a damaged one, or of another network, value scale or number of
                games.
        """
        metadata, others = self.fitter.load(path)
        try:
            scale = current_names(metadata)["value_scale"]
            if scale != self.settings.value_scale:
                raise ValueError(
                    f"value_scale must be {self.settings.value_scale}, got {shown(scale)}"
                )
            self._restore_games(others)
            self._restore_segment(others)
            self._ended = []
            if metadata["device"] == self._device.type:
                self._chance.set_state(others["chance"])
            else:  # a generator of another device has another kind of state
                self._chance.manual_seed(self._chance.initial_seed() + int(metadata["n_moves"]))
            self._rng.bit_generator.state = metadata["drawn"]
            self.n_moves, self.n_games = int(metadata["n_moves"]), int(metadata["n_games"])
            self.seconds = float(metadata["seconds"])
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise ValueError(f"{path} does not fit the settings: {error}") from error

    def _restore_games(self, tensors: dict[str, Tensor]) -> None:
        """Restore the games, or raise KeyError or ValueError if they do not fit the settings."""
        n = self.settings.games
        for name in _GameBatch._fields:
            if tensors[name].shape != (n,):
                raise ValueError(f"it has {len(tensors[name])} games, not {n}")
        self._games = _GameBatch(*(tensors[name].to(self._device) for name in _GameBatch._fields))
        if self._history is None:
            return
        history = tensors.get("history")
        if history is None:  # the earlier boards of these games are unknown
            self._games = self._games._replace(begins=self._games.lengths)
            history = torch.zeros(n, int(self._games.lengths.max()), dtype=torch.int64)
        self._history.restore(history)

    def _restore_segment(self, tensors: dict[str, Tensor]) -> None:
        """Restore the moves that are not learned from yet; errors are those of `_restore_games`."""
        names = [f"segment/{name}" for name in _Step._fields]
        has_segment = any(name in tensors for name in names)
        columns = [tensors[name].to(self._device) for name in names if has_segment]
        if any(column.shape[1:] != (self.settings.games,) for column in columns):
            raise ValueError("its segment has another number of games")
        self._segment = [_Step(*each) for each in zip(*columns, strict=True)]

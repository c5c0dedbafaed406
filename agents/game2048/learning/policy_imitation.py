"""Policy networks that learn from play logs, by supervised learning.

    afterstate train policy SETTINGS.json --out RUN --moves 1e7

A settings file names the network and the log of `play_logs.py`:

    {"network": {"layers": 5}, "log": "logs/moves.npy", "learner": {"decay": 1e7}, "seed": 1}

The network is fitted to the moves of the log by cross entropy. It reads the log in order, since
logs are shuffled, and starts again after the last move. Each position is turned to one of its eight
symmetric positions at random, unless `symmetric` is false.

The folder of a run has `learner.safetensors`, from which it is resumed, and `net.safetensors`,
which `agents.load` reads. A row has the mean cross entropy in nats (`loss`) and the accuracy before
learning (`accuracy`) of the moves since the last row or `--resume`, and the `summary` of evaluation
games.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from afterstate.agents import nets
from afterstate.agents.config import given_or_default
from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.play import Games
from afterstate.agents.game2048.values.planes import planes
from afterstate.agents.training.fitter import new_fitter
from afterstate.agents.training.fitting_settings import FittingSettings
from afterstate.agents.training.run import whole_moves
from afterstate.envs.checks import check_seed
from afterstate.envs.compiling import clock
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.signals import uninterrupted


def logged(moves: play_logs.Moves, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Return the boards and the actions of moves of a play log, `int64[n]` each, on a device.

    Raises:
        ValueError: an action is illegal.
    """
    boards = torch_rules.from_words(moves["board"], device)
    actions = torch.from_numpy(moves["action"].astype(np.int64)).to(device)
    legal = torch_rules.legal(boards).gather(1, actions.clamp(max=3)[:, None])
    if not ((actions < 4) & legal[:, 0]).all():
        raise ValueError("the log has an illegal move: it is damaged or not of 2048")
    return boards, actions


class PolicyLearner:
    """A policy network that learns from a log.

    Args:
        network: maps planes `[n, 16, 4, 4]` to logits `[n, 4]`; learns in place, on its device.
        log: the moves to learn: see `play_logs.read`.
        settings: settings of learning.
        seed: seed of the random symmetries; None is 0.
        log_metadata: description of the log for the metadata of the network, fit for JSON.

    Attributes:
        seconds: wall-clock time of learning, without compilation.
    """

    n_games = 0
    """No games are played."""

    suffix = ".safetensors"
    """Ending of its files."""

    def __init__(
        self,
        network: nn.Module,
        log: play_logs.Moves,
        settings: FittingSettings | None = None,
        seed: int | None = None,
        log_metadata: dict[str, Any] | None = None,
    ) -> None:
        self.settings = given_or_default(settings, FittingSettings)
        play_logs.check_moves(log)
        self.log, self.n_moves, self.seconds = log, 0, 0.0
        self.fitter = new_fitter(network, self._counted_loss, self.settings, planes)
        self._device, self._seed = nets.device_of(network), check_seed(seed) or 0
        self._log_metadata = log_metadata
        # Sums of losses and of accuracies, and number of steps.
        self._sums = torch.zeros(3, dtype=torch.float64, device=self._device)

    @property
    def network(self) -> nn.Module:
        """The network that plays: the average of the learning network, or that network itself."""
        return self.fitter.played

    def learn(self, n_moves: float) -> Games:
        """Learn from at least the next `n_moves` moves of the log, in whole steps.

        Returns:
            No games, since none are played.

        Raises:
            ValueError: `n_moves` is not a whole number >= 1, or the log has an illegal move.
        """
        start, end = clock(), self.n_moves + whole_moves(n_moves)
        try:
            self.fitter.network.train()
            while self.n_moves < end:
                with uninterrupted():  # a move that is learned must also be counted
                    self._step()
        finally:
            self.fitter.network.eval()
            self.seconds += clock() - start
        return self.ended()

    def ended(self) -> Games:
        """Return no games, since none are played."""
        return Games(*(np.empty(0, np.int64) for _ in Games._fields))

    def _step(self) -> None:
        """Learn from one batch."""
        boards, actions = self._batch()
        rate = self.settings.rate_after(self.n_moves)
        self._sums[0] += self.fitter.step(boards, actions, rate)
        self._sums[2] += 1
        self.n_moves += len(boards)

    def _counted_loss(self, logits: Tensor, actions: Tensor) -> Tensor:
        """Return the cross entropy, and add the accuracy to its sum."""
        self._sums[1] += (logits.argmax(1) == actions).float().mean().detach()
        return cross_entropy(logits, actions)

    def _batch(self) -> tuple[Tensor, Tensor]:
        """Return the next boards and actions, `[batch]`, on the device of the network."""
        first, size = self.n_moves % len(self.log), self.settings.batch
        if first + size <= len(self.log):
            part = self.log[first : first + size]
        else:
            part = self.log[np.arange(first, first + size) % len(self.log)]
        boards, actions = logged(part, self._device)
        if not self.settings.symmetric:
            return boards, actions
        rng = np.random.default_rng([self._seed, self.n_moves])
        which = torch.from_numpy(rng.integers(8, size=len(actions))).to(self._device)
        return torch_rules.symmetric(boards, which), torch_rules.symmetric_actions(actions, which)

    def metrics(self) -> dict[str, float]:
        """Return the mean cross entropy and the accuracy since the last call or `resume`."""
        loss, accuracy, n_steps = self._sums.tolist()
        self._sums.zero_()  # in place, since recorded steps add to it
        if not n_steps:
            return {"loss": math.nan, "accuracy": math.nan}
        return {"loss": round(loss / n_steps, 4), "accuracy": round(accuracy / n_steps, 4)}

    def save(self, path: str | Path) -> None:
        """Write the learner to a file, and the network next to it: see `nets.network_file`.

        Raises:
            OSError: a file cannot be written.
        """
        metadata: dict[str, Any] = {
            "n_moves": self.n_moves,
            "seconds": round(self.seconds, 1),
            "learner": asdict(self.settings),
            "seed": self._seed,
            "log": self._log_fingerprint(),
        }
        if self._log_metadata is not None:
            metadata["log_about"] = self._log_metadata
        self.fitter.save(path, {}, **metadata)
        nets.save(self.network, nets.network_file(path), **metadata)

    def resume(self, path: str | Path) -> None:
        """Continue from a file of `save`.

        Raises:
            OSError: the file cannot be read.
            ValueError: another file, a damaged one, or of another network or log.
        """
        metadata, _ = self.fitter.load(path)
        try:
            n_moves, seconds = int(metadata["n_moves"]), float(metadata["seconds"])
            log = metadata["log"]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path} lacks the amount learned: {error}") from error
        if log != self._log_fingerprint():
            raise ValueError(f"{path} has learned from another log")
        self.n_moves, self.seconds = n_moves, seconds

    def _log_fingerprint(self) -> list[int]:
        """Return the length of the log and a checksum of its first and last moves."""
        ends = self.log[:1_000].tobytes() + self.log[-1_000:].tobytes()
        return [len(self.log), zlib.crc32(ends)]

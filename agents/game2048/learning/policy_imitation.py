"""Policy networks that learn from play logs, by supervised learning.

    python -m afterstate.agents.game2048.learning.policy_imitation RUN.json --out RUN --moves 1e7

A settings file names the network and the log of `play_logs.py`:

    {"network": {"layers": 5}, "log": "logs/moves.npy", "learner": {"decay": 1e7}, "seed": 1}

The network is fitted to the moves of the log by their cross entropy, one after the other, for logs
are shuffled; what comes after the last one is the first again. A move is seen in one of the eight
symmetric positions, drawn each time, unless the settings say otherwise.

In the folder of a run are `learner.safetensors`, from which it goes on, `net.safetensors`, the
network, which `agents.load` reads, `rows.jsonl` and `settings.json`: see `runs.py`. A row has,
of the moves since the last one, the mean cross entropy in nats and the share of moves that the
network found most probable, before it learned them, and the `summary` of games that it plays.
Moves learned before `--resume` are not in the first row after it.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import zlib
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from afterstate.agents import nets
from afterstate.agents.config import check_names
from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.play import Games, play
from afterstate.agents.game2048.values.planes import planes
from afterstate.agents.game2048.values.policy_net import PolicyNetAgent, network
from afterstate.agents.training import run
from afterstate.agents.training.commands import uninterrupted
from afterstate.agents.training.optimizer import Fitter, Fitting, set_threads
from afterstate.agents.training.run import EVALUATION_SEED, Kind, check_seed, summary
from afterstate.envs.game2048 import torch_rules


def logged(moves: play_logs.Moves, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """The boards and the actions of moves of a play log, `int64[n]` each, on a device.

    Raises:
        ValueError: one of them is illegal.
    """
    boards = torch_rules.from_words(moves["board"], device)
    actions = torch.from_numpy(moves["action"].astype(np.int64)).to(device)
    legal = torch_rules.legal(boards).gather(1, actions.clamp(max=3)[:, None])
    if not ((actions < 4) & legal[:, 0]).all():
        raise ValueError("the log has an illegal move: it is not of 2048, or damaged")
    return boards, actions


class Learner:
    """A policy network that learns from a log.

    Args:
        net: maps planes `[n, 16, 4, 4]` to logits `[n, 4]`; learns in place, where it is.
        log: the moves: see `play_logs.read`.
        settings: how.
        seed: of symmetries; None is 0.
        log_about: what the network's file is to say of the log, fit for JSON.

    Attributes:
        seconds: how long it has learned, by the clock.
    """

    n_games = 0
    """It plays none."""

    def __init__(
        self,
        net: nn.Module,
        log: play_logs.Moves,
        settings: Fitting | None = None,
        seed: int | None = None,
        log_about: dict[str, Any] | None = None,
    ) -> None:
        self.settings = how = settings or Fitting()
        self.log, self.n_moves, self.seconds = log, 0, 0.0
        self.fitter = Fitter(net, average=how.average, mixed=how.mixed, clip=how.clip)
        self._device, self._seed = next(net.parameters()).device, int(seed or 0)
        self._log_about = log_about
        self._learned = self._none_learned()

    @property
    def net(self) -> nn.Module:
        """The network that is to play: the mean of the one that learns, or that one."""
        return self.fitter.played

    def play(self, n_moves: float) -> Games:
        """Learns from at least the next `n_moves` moves of the log, in whole steps.

        Returns:
            No games.

        Raises:
            ValueError: the log has an illegal move.
        """
        began, end = time.monotonic(), self.n_moves + n_moves
        try:
            self.fitter.net.train()
            while self.n_moves < end:
                with uninterrupted():  # no move may be learned that is not counted
                    self._step()
        finally:
            self.fitter.net.eval()
            self.seconds += time.monotonic() - began
        return Games(*(np.empty(0, np.int64) for _ in Games._fields))

    def _step(self) -> None:
        """Learns from one batch."""
        boards, actions = self._batch()

        def loss(logits: Tensor) -> Tensor:
            self._learned[1] += (logits.argmax(1) == actions).float().mean().detach()
            return cross_entropy(logits, actions)

        rate = self.settings.rate_after(self.n_moves)
        self._learned[0] += self.fitter.step(planes(boards), loss, rate)
        self._learned[2] += 1
        self.n_moves += len(boards)

    def _batch(self) -> tuple[Tensor, Tensor]:
        """The boards and actions that come next, `[batch]`, where the network is."""
        first, size = self.n_moves % len(self.log), self.settings.batch
        if first + size <= len(self.log):
            part = self.log[first : first + size]
        else:
            part = self.log[np.arange(first, first + size) % len(self.log)]
        boards, actions = logged(part, self._device)
        if not self.settings.symmetric:
            return boards, actions
        chance = np.random.default_rng([self._seed, self.n_moves])
        which = torch.from_numpy(chance.integers(8, size=len(actions))).to(self._device)
        return torch_rules.symmetric(boards, which), torch_rules.symmetric_actions(actions, which)

    def learned(self) -> dict[str, float]:
        """Mean cross entropy and share of moves foreseen since it was asked last.

        Nothing is known of what was learned before a `resume`.
        """
        loss, hits, n_steps = self._learned.tolist()
        self._learned = self._none_learned()
        if not n_steps:
            return {"loss": math.nan, "foreseen": math.nan}
        return {"loss": round(loss / n_steps, 4), "foreseen": round(hits / n_steps, 4)}

    def _none_learned(self) -> Tensor:
        """The sums of losses and of shares foreseen, and the number of steps; on the device."""
        return torch.zeros(3, dtype=torch.float64, device=self._device)

    def save(self, path: str | Path) -> None:
        """Writes the learner to a file, and the network beside it to `net.safetensors`.

        Raises:
            OSError: a file cannot be written.
        """
        facts: dict[str, Any] = {"n_moves": self.n_moves, "seconds": round(self.seconds, 1)}
        facts |= {"learner": asdict(self.settings), "seed": self._seed}
        facts |= {"log": self._print_of_log()}
        if self._log_about is not None:
            facts["log_about"] = self._log_about
        self.fitter.save(path, {}, **facts)
        nets.save(self.net, Path(path).with_name("net.safetensors"), **facts)

    def resume(self, path: str | Path) -> None:
        """Takes up what `save` wrote.

        Raises:
            OSError: the file cannot be read.
            ValueError: another file, a damaged one, or of another network or log.
        """
        told, _ = self.fitter.load(path)
        try:
            n_moves, seconds, log = int(told["n_moves"]), float(told["seconds"]), told["log"]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} does not say how far it has come: {error}") from error
        if log != self._print_of_log():
            raise ValueError(f"{path} has learned from another log")
        self.n_moves, self.seconds = n_moves, seconds

    def _print_of_log(self) -> list[int]:
        """What tells a log from others: its length, and a checksum of its first and last moves."""
        ends = self.log[:1_000].tobytes() + self.log[-1_000:].tobytes()
        return [len(self.log), zlib.crc32(ends)]


# The command


def _about_log(path: Path) -> Any:
    """What stands beside a log, see `play_logs.py`, or None.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged.
    """
    beside = path.with_suffix(".json")
    try:
        return json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else None
    except ValueError as error:
        raise ValueError(f"{beside} does not tell of {path.name}: {error}") from error


def new_learner(settings: dict[str, Any], device: str = "cpu") -> Learner:
    """A learner from settings.

    Raises:
        OSError: the log cannot be read.
        ValueError: wrong settings.
    """
    check_names("learner", settings["learner"], [each.name for each in fields(Fitting)])
    check_names("network", settings["network"], ["layers"])
    check_seed(settings["seed"])
    nets.check_device(device)
    if not isinstance(settings["log"], str):
        raise ValueError(f"log is the file of a play log, got {settings['log']!r}")
    with nets.seeded(settings["seed"]):
        net = network("PolicyCNN", **settings["network"]).to(device)
    log = play_logs.read(settings["log"])
    how, about = Fitting(**settings["learner"]), _about_log(Path(settings["log"]))
    return Learner(net, log, how, settings["seed"], about)


def evaluate(net: nn.Module, n_games: int) -> dict[str, Any]:
    """The `runs.summary` of games that a network plays."""
    return summary(play(PolicyNetAgent(net), n_games, EVALUATION_SEED))


def _evaluate(learner: Learner, chosen: argparse.Namespace) -> dict[str, Any]:
    """What rows say of a learner."""
    found = {f"{ply}-ply": evaluate(learner.net, n) for ply, n in chosen.evaluate.items()}
    return {**learner.learned(), **found}


def _begin(settings: dict[str, Any], chosen: argparse.Namespace, path: Path | None) -> Learner:
    """A learner from settings and options, which goes on from a file if there is one."""
    if set(chosen.evaluate) - {1}:
        raise ValueError("a policy network does not search: --evaluate is 1:GAMES")
    set_threads(chosen.threads)
    learner = new_learner(settings, chosen.device)
    if path is not None:
        learner.resume(path)
    return learner


POLICY = Kind(
    module="policy_learning",
    what="a policy network",
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
    run.run(POLICY, arguments)


if __name__ == "__main__":
    main()

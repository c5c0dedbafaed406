"""Rank networks that learn from games: the function approximation of Kuwabara and Hoki (2018).

Each afterstate that a player chose is labelled with the place in which he finished, and a network
is fitted to the labels by their cross entropy. That is off-policy Monte-Carlo control (see
`off_policy.py`) with all weights 1: the returns of the games tell what their players' policy is
worth, and whoever plays greedily by these values plays a better one.

    learner = Learner(BaseCNN(32))
    learner.fit(samples(play_games(["heuristic"] * 5, 10_000)), iterations=1_000)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from afterstate.agents.daihinmin.chains import Afterstates
from afterstate.agents.daihinmin.history import Moments, decisions
from afterstate.agents.daihinmin.rank_nets import POINTS, inputs, values
from afterstate.agents.daihinmin.self_play import Log
from afterstate.envs.daihinmin.plays import Numbers


class Samples(NamedTuple):
    """Afterstates and what became of them."""

    afters: Afterstates  # AFTERSTATE[n]
    places: Numbers  # [n] the finishing place of the player whose they are, from 0
    moments: Moments  # at which they were reached

    def part(self, rows: Any) -> Samples:
        """Some of them."""
        return Samples(self.afters[rows], self.places[rows], self.moments.part(rows))


def samples(log: Log, gifts_too: bool = False) -> Samples:
    """The samples of games that are over.

    Of each game those from its last random move on are taken. Afterstates that nobody chose are
    none: after a forced pass, within a chain of plays, with an empty hand, and all where only two
    players are left.

    Args:
        log: the games.
        gifts_too: whether what the rich were left with after the exchange are samples, too.
    """
    afters, facts = decisions(log.games, log.last_random, gifts_too)
    players, actions, origins = facts.T.copy()
    places = log.games["places"][origins, players]
    return Samples(afters, places, Moments(log.games, origins, players, actions))


def rmse(net: nn.Module, of: Samples) -> float:
    """The root mean squared error of expected points against the points that became of them."""
    points = POINTS[0] - of.places
    return float(np.sqrt(np.mean((values(net, of.afters, of.moments) - points) ** 2)))


@dataclass(frozen=True)
class Settings:
    """How a network is fitted.

    Raises:
        ValueError: a wrong setting.
    """

    optimizer: str = "adam"
    """`adam` (Kingma and Ba 2015), or `sgd` with momentum, as in the study."""
    rate: float = 1e-3
    """Of learning; the study has 0.0003 with `sgd`."""
    momentum: float = 0.9
    """Of `sgd`."""
    batch: int = 1_024
    """Samples an iteration; the study has as many as a game has, about 25."""
    mixed: bool = False
    """Whether to calculate with 16 bits where that does no harm (bfloat16)."""

    def __post_init__(self) -> None:
        if self.optimizer not in ("adam", "sgd"):
            raise ValueError(f"the optimizer is adam or sgd, not {self.optimizer!r}")
        if not 0 < self.rate < 1 or not 0 <= self.momentum < 1:
            raise ValueError(f"rate is in 0..1, momentum from 0 on and below 1, not {self}")
        if self.batch < 1:
            raise ValueError(f"a batch has at least one sample, not {self.batch}")


class Learner:
    """A network and its optimizer.

    Args:
        net: learns in place, on the device that it is on.
        settings: how.
        seed: of the order of samples.

    Attributes:
        iterations: how many have been made.
    """

    def __init__(self, net: nn.Module, settings: Settings | None = None, seed: int = 0) -> None:
        self.net, self.settings = net, settings or Settings()
        self.iterations = 0
        self._seed = seed
        rate, momentum = self.settings.rate, self.settings.momentum
        if self.settings.optimizer == "adam":
            self.optimizer: torch.optim.Optimizer = torch.optim.Adam(net.parameters(), rate)
        else:
            self.optimizer = torch.optim.SGD(net.parameters(), rate, momentum)

    def fit(
        self,
        of: Samples,
        iterations: int,
        final_rate: float | None = None,
        report: Callable[[int], Any] | None = None,
    ) -> float:
        """Fits the network to samples, each used once before any is used again.

        Args:
            of: at least one sample.
            iterations: how many batches.
            final_rate: to which the rate goes down, in a straight line; by default it stays.
            report: called after each iteration with 1.

        Returns:
            The mean loss of the last 100 iterations, in nats.
        """
        losses: list[Tensor] = []
        rate, last = self.settings.rate, final_rate or self.settings.rate
        self.net.train()
        for i, rows in enumerate(self._batches(len(of.places), iterations)):
            for group in self.optimizer.param_groups:
                group["lr"] = rate + (last - rate) * i / iterations
            losses = [*losses[-99:], self._step(of.part(rows))]
            self.iterations += 1
            if report is not None:
                report(1)
        self.net.eval()
        return float(torch.stack(losses).mean()) if losses else float("nan")

    def _batches(self, n: int, iterations: int) -> Iterator[Numbers]:
        """The numbers of the samples of each batch: a new order each time all have been used."""
        rng = np.random.default_rng([self._seed, self.iterations])
        order, size = np.empty(0, np.int64), self.settings.batch
        for _ in range(iterations):
            while len(order) < size:
                order = np.concatenate([order, rng.permutation(n)])
            yield order[:size]
            order = order[size:]

    def _step(self, of: Samples) -> Tensor:
        """One step against the gradient."""
        device = next(self.net.parameters()).device
        with torch.autocast(device.type, torch.bfloat16, enabled=self.settings.mixed):
            logits = self.net(inputs(self.net, of.afters, of.moments).to(device))
        loss = cross_entropy(logits.float(), torch.from_numpy(of.places).to(device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

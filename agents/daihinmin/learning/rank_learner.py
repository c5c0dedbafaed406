"""Rank networks that learn from games: the function approximation of Kuwabara and Hoki (2018).

Each afterstate that a player chose is labelled with the place in which it finished, and a network
is fitted to the labels by their cross entropy. That is off-policy Monte-Carlo control with all
weights 1: the returns of the games are the values of their players' policy, and the greedy policy
by these values is a better one.

    from afterstate.agents.daihinmin.learning.self_play import play_games
    from afterstate.agents.daihinmin.values.rank_net import BaseCNN

    learner = RankLearner(BaseCNN(32))
    learner.fit(samples_of(play_games(["heuristic"] * 5, 10_000)), iterations=1_000)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from numba import float32, float64, int64, njit, void
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from afterstate.agents import nets
from afterstate.agents.config import given_or_default
from afterstate.agents.daihinmin.afterstates.chains import Afterstates
from afterstate.agents.daihinmin.afterstates.symmetry import N_SYMMETRIES, permuted
from afterstate.agents.daihinmin.learning.game_records import Log
from afterstate.agents.daihinmin.learning.rank_settings import RankSettings
from afterstate.agents.daihinmin.values.history import Moments, decisions
from afterstate.agents.daihinmin.values.rank_net import inputs, predict, values
from afterstate.agents.training.fitter import Fitter
from afterstate.envs.daihinmin.match import POINTS
from afterstate.envs.daihinmin.plays import Numbers
from afterstate.envs.daihinmin.rules import N_PLAYERS
from afterstate.envs.words import Float32s


class Samples(NamedTuple):
    """Afterstates and the outcomes of their games."""

    afters: Afterstates  # AFTERSTATE[n]
    places: Numbers  # [n] the finishing places of their players, from 0
    targets: Float32s  # float32[n, 5], 1 at `places`, or see `bootstrap`
    moments: Moments  # at which they were reached

    def part(self, rows: Any) -> Samples:
        """Return the samples of some rows."""
        afters, places, targets, moments = self
        return Samples(afters[rows], places[rows], targets[rows], moments.part(rows))


def samples_of(log: Log, gifts_too: bool = False) -> Samples:
    """Return the samples of games that are over, in their order.

    They are those of the students of each game, from its last random move on, and those of the
    exchange only if no move was random. Afterstates without a choice are left out: after a forced
    pass, within a chain of plays, with an empty hand, and all where only two players are left.

    Args:
        log: the games.
        gifts_too: whether the hands of the rich after the exchange are samples, too.
    """
    afters, facts = decisions(log.games, log.last_random, gifts_too)
    learned = log.students[facts[:, 2]] >> facts[:, 0] & 1 == 1
    afters = afters[learned]
    players, actions, origins = facts[learned].T.copy()
    places = log.games["places"][origins, players]
    targets = np.eye(N_PLAYERS, dtype=np.float32)[places]
    return Samples(afters, places, targets, Moments(log.games, origins, players, actions))


def without_games(samples: Samples) -> Samples:
    """Return samples without their games, 2.6 kB each, which are only counted."""
    counted = np.empty(len(samples.moments.games), "V1")
    return samples._replace(moments=samples.moments._replace(games=counted))


def join(parts: Sequence[Samples]) -> Samples:
    """Return concatenated samples; those of a single part are not copied."""
    if len(parts) == 1:
        return parts[0]
    afters, places, targets, moments = zip(*parts, strict=True)
    games, origins, players, actions = zip(*moments, strict=True)
    firsts = np.cumsum([0, *map(len, games)])
    shifted = [mine + first for mine, first in zip(origins, firsts, strict=False)]
    return Samples(
        np.concatenate(afters),
        np.concatenate(places),
        np.concatenate(targets),
        Moments(*map(np.concatenate, (games, shifted, players, actions))),
    )


@njit(void(int64[::1], int64[::1], float32[:, ::1], float64, float32[:, ::1]), cache=True)
def _mix(
    origins: Numbers, players: Numbers, predicted: Float32s, lam: float, out: Float32s
) -> None:
    """Mix targets from the end of each game on."""
    next_ = np.full(N_PLAYERS, -1)
    for i in range(len(origins) - 1, -1, -1):
        if i == len(origins) - 1 or origins[i] != origins[i + 1]:
            next_ = np.full(N_PLAYERS, -1)
        after = next_[players[i]]
        for place in range(N_PLAYERS if after >= 0 else 0):
            out[i, place] = (1 - lam) * predicted[after, place] + lam * out[after, place]
        next_[players[i]] = i


def bootstrap(net: nn.Module, samples: Samples, lam: float) -> Samples:
    """Return samples whose targets are partly predictions of a network later in the game.

    The target of a player's last afterstate is its place; of the others, with weight `lam` the
    target of its next one, and otherwise the network's prediction of that: TD(lambda), backward
    through each game. Targets have less variance, but they are only as good as the network.

    Args:
        net: predicts the places.
        samples: samples of `samples_of`, in order.
        lam: 1 leaves the samples as they are, which is Monte Carlo (Kuwabara and Hoki 2018).
    """
    if lam == 1:
        return samples
    targets = np.eye(N_PLAYERS, dtype=np.float32)[samples.places]
    predicted = predict(net, samples.afters, samples.moments)
    _mix(samples.moments.origins, samples.moments.players, predicted, lam, targets)
    return samples._replace(targets=targets)


def errors(net: nn.Module, samples: Samples) -> npt.NDArray[np.float64]:
    """Return the predicted less the reached points, `[n]`."""
    reached: npt.NDArray[np.float64] = np.array(POINTS)[samples.places]
    return values(net, samples.afters, samples.moments) - reached


def rmse(net: nn.Module, samples: Samples) -> float:
    """Return the root mean squared error of predicted points; nan without samples."""
    return float(np.sqrt(np.mean(errors(net, samples) ** 2))) if len(samples.places) else math.nan


# Learning


class RankLearner:
    """A network and its optimizer.

    Args:
        network: learns in place, on the device that it is on.
        settings: settings of fitting.
        seed: seed of the order of samples.

    Attributes:
        network: the network that learns.
        fitter: its optimizer and the average of its weights.
    """

    def __init__(
        self, network: nn.Module, settings: RankSettings | None = None, seed: int = 0
    ) -> None:
        self.network, self._seed = network, seed
        self.settings = own = given_or_default(settings, RankSettings)
        if own.symmetries and network.encode == "history":
            raise ValueError("symmetries must be false for networks that use the history, got true")
        self.fitter = Fitter(
            network, cross_entropy, own.optimizer, own.momentum, own.average, own.bf16
        )

    @property
    def played(self) -> nn.Module:
        """The network that plays: the average of `network`, or `network` itself."""
        return self.fitter.played

    @property
    def iterations(self) -> int:
        """Number of iterations that have been made."""
        return self.fitter.n_steps

    def fit(
        self,
        samples: Samples,
        iterations: int,
        final_rate: float | None = None,
        report: Callable[[int], Any] | None = None,
    ) -> float:
        """Fit the network to samples, each used once before any is used again.

        Args:
            samples: samples, at least one.
            iterations: number of batches.
            final_rate: learning rate at the end, to which it falls linearly; by default constant.
            report: called after each iteration with 1.

        Returns:
            The mean loss of the last 100 iterations, in nats.

        Raises:
            ValueError: there are no samples.
        """
        if not len(samples.places):
            raise ValueError("there are no samples to learn from")
        losses: list[Tensor] = []
        rate = self.settings.rate
        last = rate if final_rate is None else final_rate
        self.network.train()
        for i, rows in enumerate(self._batches(len(samples.places), iterations)):
            batch = self._exchange_suits(samples.part(rows))
            losses = [*losses[-99:], self._step(batch, rate + (last - rate) * i / iterations)]
            if report is not None:
                report(1)
        self.network.eval()
        return float(torch.stack(losses).mean()) if losses else float("nan")

    def _batches(self, n: int, iterations: int) -> Iterator[Numbers]:
        """Yield the rows of each batch: a new order each time all have been used."""
        rng = np.random.default_rng([self._seed, self.iterations])
        order, size = np.empty(0, np.int64), self.settings.batch
        for _ in range(iterations):
            while len(order) < size:
                order = np.concatenate([order, rng.permutation(n)])
            yield order[:size]
            order = order[size:]

    def _exchange_suits(self, samples: Samples) -> Samples:
        """Return a batch with suits permuted, if the settings ask for it."""
        if not self.settings.symmetries:
            return samples
        rng = np.random.default_rng([self._seed, self.iterations, 1])
        symmetries = rng.integers(N_SYMMETRIES, size=len(samples.places))
        return samples._replace(afters=permuted(samples.afters, symmetries))

    def _step(self, samples: Samples, rate: float) -> Tensor:
        """Make a gradient step; return the loss."""
        device = nets.device_of(self.network)
        targets = torch.from_numpy(samples.targets).to(device)
        planes = inputs(self.network, samples.afters, samples.moments).to(device)
        return self.fitter.step(planes, targets, rate)

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights that learn and the state of the optimizer, by name."""
        return self.fitter.tensors()

    def resume(self, played: nn.Module, tensors: dict[str, Tensor], iterations: int) -> None:
        """Continue learning from a saved state: see `Fitter.resume`."""
        self.fitter.resume(played.state_dict(), tensors, iterations)

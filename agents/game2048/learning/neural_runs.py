"""Runs of neural networks of 2048: their settings, which are read without loading torch.

`value_td.py` and `policy_imitation.py` have the learners.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

from afterstate.agents.config import Count, Positive, Share, Whole, settings
from afterstate.agents.training.fitting import Fitting
from afterstate.agents.training.folder import RunFolder
from afterstate.agents.training.run import MoveTraining, NeuralOptions

if TYPE_CHECKING:
    from afterstate.agents.game2048.learning.policy_imitation import PolicyLearner
    from afterstate.agents.game2048.learning.value_td import ValueLearner


class _NeuralRun(ABC):
    """What runs of neural networks share."""

    options: ClassVar = NeuralOptions
    row_key: ClassVar[str] = "n_moves"
    evaluation_key: ClassVar[str] = "loss"
    checkpoints: ClassVar[tuple[str, ...]] = ("learner.safetensors",)

    @abstractmethod
    def new(self, device: str = "cpu") -> Any:
        """Return a new learner."""

    @abstractmethod
    def evaluation(self, learner: Any, games: dict[int, int]) -> dict[str, Any]:
        """Return the row of an evaluation, with the numbers of games for each depth."""

    def begin(self, options: NeuralOptions, folder: RunFolder) -> MoveTraining:
        """Return a new learner, or the one in the folder."""
        from afterstate.agents.training.optimizer import set_threads

        self.check(options)
        set_threads(options.threads)
        learner, path = self.new(options.device), folder.path / self.checkpoints[0]
        if options.resume:
            learner.resume(path)
        return MoveTraining(learner, path, lambda: self.evaluation(learner, options.games))

    @abstractmethod
    def check(self, options: NeuralOptions) -> None:
        """Raise ValueError for evaluation games that the networks cannot play."""


@settings
class ValueSettings(Fitting):
    """Settings of learning of a value network.

    Raises:
        ValueError: a wrong setting.
    """

    games: Count = 1_024
    """Games played in parallel. With fewer games the network learns more from as many moves."""
    segment: Count = 1
    """Moves of each game between two updates, by which targets look ahead. An update has
    `segment * games` positions and is completed before a run is interrupted."""
    lam: Share = 0.95
    """Lambda, the weight of later moves of the segment in a target: 0 none, 1 full."""
    value_scale: Positive = 1_000.0
    """Points per 1 of the network's output; outputs of about 1 are learned best."""
    restart: Count | None = None
    """Play games again from their middle until at most this many moves are left; by default each
    game is played once."""
    jump: Share = 0.0
    """Probability that a game begins at a position from the log."""


@settings
class ValueRun(_NeuralRun):
    """Settings of a run in which a neural value network of 2048 learns in self-play."""

    network: dict[str, str | int] = field(default_factory=lambda: {"name": "CNN22"})
    """Name and settings of a network of `value_net.py`."""
    log: str | None = None
    """File of a play log, for `jump`."""
    learner: ValueSettings = field(default_factory=ValueSettings)
    seed: Whole | None = 0
    """Seed of the weights and of the games."""

    def new(self, device: str = "cpu") -> ValueLearner:
        """Return a new learner.

        Raises:
            OSError: the log cannot be read.
            ValueError: a wrong network or device.
        """
        from afterstate.agents import nets
        from afterstate.agents.game2048.learning import play_logs
        from afterstate.agents.game2048.learning.value_td import ValueLearner
        from afterstate.agents.game2048.values.value_net import network

        nets.check_device(device)
        with nets.seeded(self.seed):
            options: dict[str, Any] = {"name": "CNN22", **self.network}
            net = network(**options).to(device)
        log = None if self.log is None else play_logs.read_whole(self.log)
        return ValueLearner(net, self.learner, self.seed, log)

    def check(self, options: NeuralOptions) -> None:
        """Raise ValueError for evaluation games that search too deep."""
        from afterstate.agents.game2048.values.value_net import MAX_DEPTH

        if max(options.games, default=1) > MAX_DEPTH:
            raise ValueError(f"evaluate must have at most {MAX_DEPTH} plies for value networks")

    def evaluation(self, learner: ValueLearner, games: dict[int, int]) -> dict[str, Any]:
        """Return the loss and the `summary` of the games of each depth."""
        from afterstate.agents.game2048.learning import value_td

        return {"loss": learner.loss(), **value_td.evaluation(learner, games)}


@settings
class PolicyNetwork:
    """Settings of the network of `PolicyRun`."""

    layers: int = 5
    """Number of convolutional layers, 2 to 5 (Matsuzaki and Teramura 2018)."""


@settings
class PolicyRun(_NeuralRun):
    """Settings of a run in which a policy network of 2048 learns from a play log."""

    network: PolicyNetwork = field(default_factory=PolicyNetwork)
    log: str | None = None
    """File of a play log; required."""
    learner: Fitting = field(default_factory=Fitting)
    seed: Whole | None = 0
    """Seed of the weights and of the random symmetries."""

    def new(self, device: str = "cpu") -> PolicyLearner:
        """Return a new learner.

        Raises:
            OSError: the log cannot be read.
            ValueError: no log, or a wrong network or device.
        """
        from afterstate.agents import nets
        from afterstate.agents.game2048.learning import play_logs
        from afterstate.agents.game2048.learning.policy_imitation import PolicyLearner
        from afterstate.agents.game2048.values.policy_net import network

        nets.check_device(device)
        if self.log is None:
            raise ValueError("log must be the file of a play log, got null")
        with nets.seeded(self.seed):
            net = network("PolicyCNN", layers=self.network.layers).to(device)
        log, about = play_logs.read_whole(self.log), play_logs.description(self.log)
        return PolicyLearner(net, log, self.learner, self.seed, about)

    def check(self, options: NeuralOptions) -> None:
        """Raise ValueError for evaluation games by search."""
        if set(options.games) - {1}:
            raise ValueError("evaluate must be 1:GAMES: a policy network does not search")

    def evaluation(self, learner: PolicyLearner, games: dict[int, int]) -> dict[str, Any]:
        """Return the metrics of learning and the `summary` of the games."""
        from afterstate.agents.game2048.learning.policy_imitation import evaluate

        plies = {f"{ply}-ply": evaluate(learner.net, n) for ply, n in games.items()}
        return {**learner.metrics(), **plies}

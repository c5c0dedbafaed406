"""Options of `afterstate train` that all learners share; they may change when a run is resumed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from afterstate.agents.config import Backend, Count, Jobs, Positive, settings
from afterstate.agents.training.evaluation import Evaluation, evaluation_games
from afterstate.envs.options import NAMED, Device, Folder


@settings
class Options:
    """Options of a run, which may change when it is resumed."""

    out: Annotated[Folder, NAMED]
    """Folder of the run, created if it does not exist."""
    hours: Positive | None = None
    """Stop after this many hours from this start, without compilation; this or a total must be
    given."""
    resume: bool = False
    """Continue the run in the folder."""
    save_minutes: Positive = 10
    """Minutes from one save to the next."""
    tensorboard: bool = False
    """Write the rows to TensorBoard, too."""
    evaluate_every: Count = 1_000_000
    """Moves, generations or steps from one evaluation to the next."""

    amount_name: ClassVar[str] = "moves"
    """Name of the option that says when the run stops: moves, generations or steps."""

    @property
    def amount(self) -> int | None:
        """Moves, generations or steps at which the run stops."""
        amount: int | None = getattr(self, self.amount_name, None)
        return amount

    @property
    def has_end(self) -> bool:
        """True if the options say when the run stops."""
        return self.amount is not None or self.hours is not None


@settings
class ProcessOptions(Options):
    """Options of a run whose games are played in several processes."""

    jobs: Jobs = 1
    """Processes that play; what is learned does not depend on it."""
    backend: Backend = "local"
    """Host of the processes: this machine (local), or a Ray cluster (ray)."""


@settings
class MoveOptions(Options):
    """Options of a run of a learner of 2048."""

    moves: Count | None = None
    """Stop after this many moves in total, including those before --resume; this or --hours must be
    given."""
    threads: Count = 1
    """Number of threads that learn."""
    evaluate_every: Count = 1_000_000
    """Moves from one evaluation to the next."""
    evaluate: Evaluation | None = "1:300"
    """Number of evaluation games of each search depth; depth 1 is greedy; none: no games."""

    @property
    def games_by_depth(self) -> dict[int, int]:
        """Number of evaluation games of each search depth."""
        return evaluation_games(self.evaluate)


@settings
class NeuralOptions(MoveOptions):
    """Options of a run of a neural network of 2048."""

    device: Device = "cpu"
    """Device on which the network learns and plays: cpu or cuda."""

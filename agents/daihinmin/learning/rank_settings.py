"""Runs of rank networks of Daihinmin: their settings, which are read without loading torch.

`rank_training.py` has the run, `rank_learner.py` the learner.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from afterstate.agents.config import (
    Count,
    NamedPlayer,
    Number,
    OpenShare,
    Positive,
    Share,
    ShareBelow1,
    Whole,
    settings,
)
from afterstate.agents.training.folder import RunFolder
from afterstate.agents.training.options import ProcessOptions
from afterstate.envs.messages import named, shown
from afterstate.envs.options import Device, FileName, Placeholder

if TYPE_CHECKING:
    import torch

    from afterstate.agents.daihinmin.learning.rank_training import RankTraining

RulePlayer = Literal["sample", "heuristic", "policy"]
RULE_PLAYERS: tuple[RulePlayer, ...] = get_args(RulePlayer)
"""The names of the players that need no network."""


@settings
class RankSettings:
    """Settings of fitting a rank network.

    Raises:
        ValueError: a wrong setting.
    """

    optimizer: Literal["adam", "sgd"] = "adam"
    """Adam (Kingma and Ba 2015), or SGD with momentum (Kuwabara and Hoki 2018)."""
    rate: OpenShare = 1e-3
    """Learning rate; 0.0003 with `sgd` in Kuwabara and Hoki 2018."""
    momentum: ShareBelow1 = 0.9
    """Momentum of `sgd`."""
    batch: Count = 1_024
    """Samples of an iteration; as many as a game has, about 25, in Kuwabara and Hoki 2018."""
    bf16: bool = False
    """Calculate in bfloat16 by torch's autocast, which keeps losses and weights in float32."""
    symmetries: bool = False
    """Exchange suits at random. Not for networks that use the history."""
    average: ShareBelow1 = 0.0
    """Decay of the exponential moving average of the weights, which plays. 0: no average, the
    weights themselves play."""


@settings
class RankOptions(ProcessOptions):
    """Options of a run of a rank network."""

    generations: Count | None = None
    """Stop at this generation; this or --hours must be given."""
    threads: Count = 1
    """Number of threads that learn."""
    evaluate_every: Count = 10
    """Generations from one evaluation to the next."""
    evaluate: Count = 2_000
    """Games of an evaluation, against four sample clients."""
    device: Device = "cpu"
    """Device on which networks learn and play: cpu or cuda."""

    amount_name: ClassVar[str] = "generations"


@settings
class RankRun:
    """Settings of a run in which a rank network of Daihinmin learns.

    Raises:
        ValueError: a wrong setting.
    """

    options: ClassVar[Any] = RankOptions
    row_key: ClassVar[str] = "generation"
    evaluation_key: ClassVar[str] = "against_sample"
    checkpoints: ClassVar[tuple[str, ...]] = ("net.safetensors",)

    network: dict[str, str | int] = field(
        default_factory=lambda: {"name": "BaseCNN", "channels": 32}
    )
    """Network: BaseCNN, HistoryCNN, FCNN or RankResNet, and its settings, such as
    RankResNet,channels=64,blocks=5."""
    learner: RankSettings = field(default_factory=RankSettings)
    teacher: list[NamedPlayer] = field(default_factory=list)
    """Players whose games are learned from; none: networks play themselves."""
    logs: list[FileName] = field(default_factory=list)
    """Files of recorded games that are learned from in every generation, too."""
    guests: list[RulePlayer] = field(default_factory=list)
    """Players without networks that play in the games, too, and are not learned from."""
    guest_share: Share = 0.5
    """Probability that a guest takes a seat, if there are any; one seat is never a guest's."""
    temperature: Positive = 1.0
    """Temperature of the player policy, where it is a teacher or a guest."""
    epsilon: ShareBelow1 = 0.0
    """Probability of a random move. The moves before the last one in its game are not learned."""
    points: Annotated[Literal["game", "classes"] | list[Number], Placeholder("POINTS")] = "game"
    """Values of places for networks that play: game, the points of the game; classes, these and
    what a class brings in later games, as if classes were never reset; or five numbers, the first
    place first."""
    learned_gifts: bool = False
    """Networks choose the cards to give in the exchange, and learn from the hands left."""
    games: Whole = 10_000
    """Games played in each generation; 0 with logs: only these are learned from."""
    table: Count = 1_000
    """Games after which five players are drawn again, from teachers or generations. They play
    matches of up to 100 games, 64 matches in parallel where players have kernels: with less than
    6,400 games a table's matches are shorter, and more games have no classes."""
    window: Count = 100_000
    """Number of latest games that are learned from."""
    pool: Count = 200
    """Number of latest generations that play."""
    iterations: Count = 1_000
    """Gradient steps of each generation."""
    lam: Share = 1.0
    """Lambda of the targets: 1 for the places, as in Kuwabara and Hoki 2018; below 1 they are
    partly predictions later in the game, by the network that plays when the fit of the generation
    begins."""
    final_rate: OpenShare | None = None
    """Learning rate at the end of each generation, to which it falls linearly; by default it is
    constant."""
    start: FileName | None = None
    """File of a network to start from, with the settings of `network`; by default a new one."""
    seed: Whole = 0
    """Seed of the weights, games and batches."""

    def __post_init__(self) -> None:
        names = [name.removeprefix("daihinmin-") for name in self.teacher]
        object.__setattr__(self, "teacher", names)
        if not isinstance(self.network.get("name"), str):
            raise ValueError(f"network must have a name, got {shown(self.network)}")
        if self.games == 0 and not self.logs:
            raise ValueError("games must be >= 1 without logs, got 0")
        if isinstance(self.points, list) and len(self.points) != 5:
            raise ValueError(f"points must be five numbers, got {shown(self.points)}")

    def new_network(self) -> torch.nn.Module:
        """Return a new network.

        Raises:
            ValueError: an unknown network, or wrong settings of it.
        """
        from afterstate.agents.daihinmin.values import rank_net

        return rank_net.network(**self.network)  # type: ignore[arg-type]

    def begin(self, options: RankOptions, folder: RunFolder) -> RankTraining:
        """Return a new run, or that of the folder."""
        from afterstate.agents.daihinmin.learning.rank_training import RankTraining
        from afterstate.agents.training.fitter import set_threads

        set_threads(options.threads)
        with named("network"):
            self.new_network()  # before anything is compiled
        return RankTraining(self, options, folder)

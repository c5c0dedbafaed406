"""Runs of learners of 2048: their settings, which are read without loading kernels or torch.

`ntuple_learner.py`, `value_td.py`, `policy_imitation.py` and `from_search.py` have the learners.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from afterstate.agents.config import (
    Count,
    Number,
    OpenShare,
    Positive,
    Rate,
    Share,
    Whole,
    check_names,
    settings,
)
from afterstate.agents.game2048.search.softmax_settings import MCSoftmaxSettings
from afterstate.agents.training.evaluation import Evaluation
from afterstate.agents.training.fitting_settings import FittingSettings
from afterstate.agents.training.folder import RECENT_FILE, RunFolder
from afterstate.agents.training.options import MoveOptions, NeuralOptions
from afterstate.agents.training.run import MoveTraining
from afterstate.envs.messages import shown
from afterstate.envs.options import FileName

if TYPE_CHECKING:
    from afterstate.agents.game2048.learning.from_search import Model, SearchValueLearner
    from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
    from afterstate.agents.game2048.learning.play_logs import Moves
    from afterstate.agents.game2048.learning.policy_imitation import PolicyLearner
    from afterstate.agents.game2048.learning.value_td import ValueLearner
    from afterstate.agents.game2048.values.ntuple_network import Network

MAX_DELAY = 64
MAX_MOVES = 1 << 18
"""A game is truncated here, four times as long as the tile 131072 takes."""

DEFAULT_RATES = {"tc": 1.0, "td": 0.1}
"""Step sizes of the rules."""


def _read_log(path: str | Path | None) -> Moves | None:
    """Return the moves of a play log, None without one: see `play_logs.read_whole`."""
    from afterstate.agents.game2048.learning import play_logs

    return None if path is None else play_logs.read_whole(path)


# N-tuple networks


@settings
class NTupleSettings:
    """Settings of learning by self-play.

    Raises:
        ValueError: a wrong setting, or settings that do not go together.
    """

    rule: Literal["tc", "td"] = "tc"
    """Temporal coherence (tc) or plain temporal differences (td)."""
    order: Literal["backward", "forward"] = "backward"
    """Updates are made after each game, from its end (backward), or during it (forward)."""
    lam: Share | None = None
    """Lambda, 0 to 1; by default 0.5, but 0 in forward learning with `delay` 0."""
    rate: Rate | None = None
    """Step size, at most 1; by default 1 for tc and 0.1 for td."""
    printed: bool = False
    """Add the steps to the accumulators of TC learning, as Matsuzaki 2017 prints it, instead of the
    shares of the errors."""
    floor: Share = 0.0
    """Least rate of a weight by TC, as a share of the step size."""
    delay: Annotated[Whole, Field(le=MAX_DELAY)] = 0
    """Forward learning updates an afterstate this many moves later, by the errors up to then
    weighted with powers of lambda (Jaskowski 2016)."""
    restart: Annotated[Count, Field(le=MAX_MOVES)] | None = None
    """Play again from the middle of what was played last until at most this many moves are left
    (Matsuzaki 2017: 10); by default each game is played once."""
    good: OpenShare | None = None
    """Learn only from games that score above this share of the best score so far, each from its
    beginning; a game that was learned from is not restarted. By default from all."""
    epsilon: Share = 0.0
    """Probability of a random legal move."""
    skip: Literal["target", "own"] = "target"
    """With epsilon, the update that is left out: that of the afterstate before the random move, so
    that values are of play without random moves, but weights may diverge, as those of 4x6 tuples
    with 10% random moves within 500 million moves; or that of the random move's own afterstate."""
    search_share: Share = 0.0
    """Share of games that are played by expectimax, without restart."""
    search_from: Whole = 0
    """Number of moves after which such games begin."""
    search_depth: Annotated[int, Field(ge=2, le=5)] = 2
    """Depth of that search, in moves of the player."""
    carousel: bool = False
    """Begin games in turn at the start and where earlier games entered each stage of the network
    (Jaskowski 2016), which must have more than one."""
    carousel_stages: tuple[int, ...] = ()
    """With carousel shaping, the tiles that begin the stages at which games begin, 0 for the start;
    by default all."""
    within_stage: bool = False
    """End games where they enter another stage of the network, whose value they learn from: with
    carousel shaping each stage is learned in games of its own, otherwise only the first one."""
    jump: Share = 0.0
    """Probability that a game begins at a position from the log."""

    def __post_init__(self) -> None:
        forward = self.order == "forward"
        if forward and self.lambda_ != 0 and self.delay == 0:
            raise ValueError(
                f"lam must be 0 in forward learning without delay, got {shown(self.lam)}"
            )
        if self.delay and not forward:
            raise ValueError(f"delay must be 0 in backward learning, got {self.delay}")
        if self.within_stage and (forward or self.good is not None):
            raise ValueError(
                "within_stage must be false in forward learning and with good, got true"
            )
        if self.carousel_stages and not self.carousel:
            raise ValueError(
                f"carousel_stages must be empty without carousel, got {[*self.carousel_stages]}"
            )
        if self.good is not None and (forward or self.carousel or self.jump):
            raise ValueError(
                "good must be none in forward learning and with carousel or jump, got "
                f"{shown(self.good)}"
            )
        if self.floor and self.rule != "tc":
            raise ValueError(f"floor is for the rule tc, got {shown(self.floor)} with {self.rule}")

    @property
    def lambda_(self) -> float:
        """Lambda, the default one if none is given."""
        default = 0.0 if self.order == "forward" and not self.delay else 0.5
        return default if self.lam is None else self.lam

    @property
    def step_size(self) -> float:
        """Step size, that of the rule if none is given."""
        return DEFAULT_RATES[self.rule] if self.rate is None else self.rate


@settings
class NetworkSettings:
    """Settings of the N-tuple network."""

    tuples: str | list[list[int]] = "4x6"
    """4x6, 5x6, 8x6, 5x4 or several joined by +, or the cells of each tuple, numbered on 4x4
    cells, such as [[0, 1, 2, 3], [4, 5, 6, 7]]."""
    size: tuple[int, int] = (4, 4)
    """Rows and columns of the board."""
    stages: list[int] = field(default_factory=list)
    """Tiles, or sums of tiles, that begin a new stage when they are on the board."""
    promote: bool = False
    """A weight of a later stage that is 0 has the value of the stage before."""
    symmetric: bool = True
    """Read the tuples on all symmetric boards."""
    fixed_point: bool = False
    """Weights are integers of 32 bits, in 1024ths."""
    downgrade: int | None = None
    """Value boards with this tile or a larger one as their downgraded form (Guei, Chen and Wu
    2021); by default no board."""
    start_value: Number = 0.0
    """Value of every board at first, in points; large is optimistic."""
    start_value_from: Whole = 0
    """Stages that begin with these tiles or more have the start value; by default all."""

    def new(self, **others: Any) -> Network:
        """Return a new network, with some of the settings replaced."""
        from afterstate.agents.game2048.values.ntuple_network import network

        return network(**{**asdict(self), **others})


@settings
class Start:
    """A learner whose weights stages of a new run begin with."""

    file: Path
    """A learner's file."""
    begin: Whole = 0
    """Stages that begin with these tiles or more, up to those of the next start."""
    weights: bool = True
    """Begin with its weights and their sums; false: with zeros, but with its boards where games
    entered the stages."""


@settings
class NTupleOptions(MoveOptions):
    """Options of a run of an N-tuple network."""

    evaluate_every: Count = 1_000_000_000
    """Moves from one evaluation to the next."""
    evaluate: Evaluation | None = "1:1000,3:10"
    """Number of evaluation games of each search depth; 1 is greedy, more is expectimax; none: no
    games."""


@settings
class NTupleRun:
    """Settings of a run in which an N-tuple network of 2048 learns by self-play."""

    options: ClassVar[Any] = NTupleOptions
    row_key: ClassVar[str] = "n_moves"
    evaluation_key: ClassVar[str] = "n_learned"
    checkpoints: ClassVar[tuple[str, ...]] = ("learner.npz",)

    network: NetworkSettings = field(default_factory=NetworkSettings)
    learner: NTupleSettings = field(default_factory=NTupleSettings)
    seed: Whole | None = None
    """Seed of the games; by default a random one."""
    start: list[Start] = field(default_factory=list)
    """Learners whose weights stages begin with, in ascending order; by default all are zero."""
    log: FileName | None = None
    """File of a play log, for `learner.jump`."""

    def __post_init__(self) -> None:
        begins = [each.begin for each in self.start]
        if begins != sorted(set(begins)):
            raise ValueError(f"start must be in ascending order of begin, got {shown(begins)}")
        if self.learner.jump and self.log is None:
            raise ValueError(f"jump must be 0 without a log, got {shown(self.learner.jump)}")

    def new(self, threads: int = 1) -> NTupleLearner:
        """Return a new learner.

        Raises:
            OSError: a file of the start cannot be read.
            ValueError: it does not fit the settings.
        """
        from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner

        net, log = self.network.new(), _read_log(self.log)
        learner = NTupleLearner(net, self.learner, self.seed, threads, log)
        ends = [each.begin for each in self.start[1:]]
        for start, end in zip(self.start, [*ends, None], strict=False):
            other = NTupleLearner.load(start.file)
            learner.start_from(other, start.begin, end, weights=start.weights)
            del other  # before the next file is read
        return learner

    def resume(self, path: Path, threads: int = 1) -> NTupleLearner:
        """Return the learner of a file, with the learner's settings of this run.

        Raises:
            OSError: the file cannot be read.
            ValueError: it has another network or another rule of learning.
        """
        from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
        from afterstate.agents.game2048.values.ntuple_file import check_same

        net = self.network.new(start_value=0)  # allocates no memory page of the weights
        learner = NTupleLearner.load(path, _read_log(self.log))
        check_same(path, learner.network, net)
        learner.settings, learner.threads = self.learner, threads
        return learner

    def begin(self, options: NTupleOptions, folder: RunFolder) -> MoveTraining:
        """Return the learner, a new one or that of the folder."""
        from afterstate.agents.game2048.learning.ntuple_learner import play_evaluation

        path, threads = folder.path / self.checkpoints[0], options.threads
        learner = self.resume(path, threads) if options.resume else self.new(threads)

        def evaluation() -> dict[str, Any]:
            scores = play_evaluation(learner.network, options.games_by_depth, threads)
            return {"n_learned": learner.n_learned, **scores}

        return MoveTraining(learner, path, evaluation, folder.path / RECENT_FILE)


# Neural networks


class _NeuralRun(ABC):
    """Common parts of runs of neural networks."""

    options: ClassVar[Any] = NeuralOptions
    row_key: ClassVar[str] = "n_moves"
    evaluation_key: ClassVar[str] = "loss"
    checkpoints: ClassVar[tuple[str, ...]] = ("learner.safetensors",)

    @abstractmethod
    def new(self, device: str = "cpu") -> Any:
        """Return a new learner."""

    @abstractmethod
    def evaluation(self, learner: Any, games_by_depth: dict[int, int]) -> dict[str, Any]:
        """Return the row of an evaluation, with a number of games for each depth."""

    def begin(self, options: NeuralOptions, folder: RunFolder) -> MoveTraining:
        """Return a new learner, or the one in the folder."""
        from afterstate.agents.training.fitter import set_threads

        self.check(options)
        set_threads(options.threads)
        learner, path = self.new(options.device), folder.path / self.checkpoints[0]
        if options.resume:
            learner.resume(path)
        recent = folder.path / RECENT_FILE
        games = options.games_by_depth
        return MoveTraining(learner, path, lambda: self.evaluation(learner, games), recent)

    @abstractmethod
    def check(self, options: NeuralOptions) -> None:
        """Raise ValueError for evaluation games that the networks cannot play."""


@settings
class ValueSettings(FittingSettings):
    """Settings of learning of a value network.

    Raises:
        ValueError: a wrong setting.
    """

    games: Count = 1_024
    """Games played in parallel. With fewer games the network learns more from as many moves."""
    segment: Count = 1
    """Moves of each game between two updates, by which targets look ahead. An update has this many
    positions of each game and is completed before a run is interrupted."""
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
    """Network: CNN22 and its settings, such as CNN22,output=relu."""
    log: FileName | None = None
    """File of a play log, for `learner.jump`."""
    learner: ValueSettings = field(default_factory=ValueSettings)
    seed: Whole = 0
    """Seed of the weights and of the games."""

    def new(self, device: str = "cpu") -> ValueLearner:
        """Return a new learner.

        Raises:
            OSError: the log cannot be read.
            ValueError: a wrong network or device.
        """
        from afterstate.agents import nets
        from afterstate.agents.game2048.learning.value_td import ValueLearner
        from afterstate.agents.game2048.values.value_net import network

        nets.check_device(device)
        with nets.seeded(self.seed):
            options: dict[str, Any] = {"name": "CNN22", **self.network}
            net = network(**options).to(device)
        return ValueLearner(net, self.learner, self.seed, _read_log(self.log))

    def check(self, options: NeuralOptions) -> None:
        """Raise ValueError for evaluation games that search too deep."""
        from afterstate.agents.game2048.values.value_net import MAX_DEPTH

        if max(options.games_by_depth, default=1) > MAX_DEPTH:
            raise ValueError(f"evaluate must have at most {MAX_DEPTH} plies for value networks")

    def evaluation(self, learner: ValueLearner, games_by_depth: dict[int, int]) -> dict[str, Any]:
        """Return the loss and the `summary` of the games of each depth."""
        from afterstate.agents.game2048.play import evaluation
        from afterstate.agents.game2048.values.value_net import ValueNetAgent

        scale, bf16 = self.learner.value_scale, self.learner.bf16

        def player(depth: int) -> ValueNetAgent:
            return ValueNetAgent(learner.network, depth=depth, value_scale=scale, bf16=bf16)

        return {"loss": learner.loss(), **evaluation(player, games_by_depth)}


@settings
class PolicyNetwork:
    """Settings of the policy network."""

    layers: int = 5
    """Number of convolutional layers, 2 to 5 (Matsuzaki and Teramura 2018)."""


@settings
class PolicyRun(_NeuralRun):
    """Settings of a run in which a policy network of 2048 learns from a play log."""

    network: PolicyNetwork = field(default_factory=PolicyNetwork)
    log: FileName | None = None
    """File of a play log, which must be given here or in SETTINGS."""
    learner: FittingSettings = field(default_factory=FittingSettings)
    seed: Whole = 0
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
            raise ValueError("log must be given: the file of a play log")
        with nets.seeded(self.seed):
            net = network("PolicyCNN", layers=self.network.layers).to(device)
        log, about = play_logs.read_whole(self.log), play_logs.description(self.log)
        return PolicyLearner(net, log, self.learner, self.seed, about)

    def check(self, options: NeuralOptions) -> None:
        """Raise ValueError for evaluation games by search."""
        if set(options.games_by_depth) - {1}:
            raise ValueError("evaluate must be 1:GAMES: a policy network does not search")

    def evaluation(self, learner: PolicyLearner, games_by_depth: dict[int, int]) -> dict[str, Any]:
        """Return the metrics of learning and the `summary` of the games."""
        from afterstate.agents.game2048.play import evaluation
        from afterstate.agents.game2048.values.policy_net import PolicyNetAgent

        player = PolicyNetAgent(learner.network)
        return {**learner.metrics(), **evaluation(lambda _: player, games_by_depth)}


# Values from searches


@settings
class SearchValueSettings:
    """Settings of learning from searches.

    Raises:
        ValueError: a wrong setting, or settings that do not go together.
    """

    games: Count = 64
    """Games played in parallel."""
    learn: Literal["paths", "nodes", "root", "nothing"] = "root"
    """Afterstates whose values are learned: on random paths, all inner nodes, or the one before the
    root."""
    paths: Count = 1
    """Number of random paths in each tree."""
    visits: Count = 1
    """Minimum number of simulations through a node whose value is learned."""
    root: Literal["searched", "valued"] = "searched"
    """Value of the root that the target has: that of the search (NodeV), or that of the value
    function (EvalV)."""
    reward_twice: bool = False
    """Add the reward to the searched value of the root, which includes it already: another reading
    of NodeV+Reward."""
    clip: Positive | None = None
    """Largest difference between a target and the current value, in points; by default no limit."""
    turn: bool = True
    """Turn each board to one of its eight symmetric positions after each move, at random. This
    makes no difference to symmetric N-tuple networks."""

    def __post_init__(self) -> None:
        if self.reward_twice and (self.learn, self.root) != ("root", "searched"):
            wanted = "reward_twice must be false unless learn='root' and root='searched'"
            raise ValueError(f"{wanted}, got learn={self.learn!r} and root={self.root!r}")
        special = (("paths", "paths", 1), ("visits", "nodes", 1), ("root", "root", "searched"))
        for name, learn, default in special:
            if self.learn != learn and getattr(self, name) != default:
                raise ValueError(f"{name} is for learn={learn!r}, got learn={self.learn!r}")
        if self.clip is not None and self.learn == "nothing":
            raise ValueError(f"clip must be none with learn='nothing', got {self.clip}")


@settings
class SearchFitting(FittingSettings):
    """Settings of fitting: `rule` and `rate` of N-tuple networks, all but `rule` of neural ones."""

    rule: Literal["tc", "td"] | None = None
    """Learning rule of an N-tuple network; by default temporal coherence."""
    rate: Rate | None = None  # type: ignore[assignment]
    """Learning rate; by default 1 of TC, 0.1 of TD and 0.001 of Adam."""
    value_scale: Positive | None = None
    """Points per 1 of the neural network's output; by default 1,000, or that of the
    network to start from."""

    def neural(self) -> FittingSettings:
        """Return the settings of a neural network."""
        values = {each.name: getattr(self, each.name) for each in fields(FittingSettings)}
        return FittingSettings(
            **{name: value for name, value in values.items() if value is not None}
        )

    def check_tables(self) -> None:
        """Raise ValueError if a setting of neural networks differs from its default."""
        default = SearchFitting(rule=self.rule, rate=self.rate)
        for each in fields(self):
            value = getattr(self, each.name)
            if value != getattr(default, each.name):
                wanted = f"{each.name} must not be given without a neural network"
                raise ValueError(f"{wanted}, got {shown(value)}")


@settings
class SearchOptions(NeuralOptions):
    """Options of a run that learns values from searches."""

    evaluate_every: Count = 100_000
    """Moves from one evaluation to the next."""
    evaluate: Evaluation | None = "1:100"
    """Evaluation games of the greedy player, 1:GAMES."""


@settings
class SearchValueRun:
    """Settings of a run in which values of 2048 learn from Monte-Carlo Softmax searches."""

    options: ClassVar[Any] = SearchOptions
    row_key: ClassVar[str] = "n_moves"
    evaluation_key: ClassVar[str] = "searched"

    network: Annotated[
        NetworkSettings | dict[str, str | int], Field(union_mode="left_to_right")
    ] = field(default_factory=NetworkSettings)
    """N-tuple network, or the name CNN22 and settings of a neural network."""
    start: FileName | None = None
    """File of a network to start from, also of TDL2048 (.w); by default a new one."""
    fitting: SearchFitting = field(default_factory=SearchFitting)
    search: MCSoftmaxSettings = field(default_factory=MCSoftmaxSettings)
    learner: SearchValueSettings = field(default_factory=SearchValueSettings)
    seed: Whole = 0
    """Seed of the weights and of the games."""

    def __post_init__(self) -> None:
        if isinstance(self.network, dict) and "name" not in self.network:
            check_names("network", self.network, [each.name for each in fields(NetworkSettings)])
            raise ValueError(f"network must have tuples or a name, got {shown(self.network)}")
        if self.start is not None and self.network != NetworkSettings():
            raise ValueError(f"network must not be given with start, got {shown(self.network)}")
        if not self.is_neural:
            self.fitting.check_tables()
        elif self.fitting.rule is not None:
            raise ValueError(f"rule must be none for neural networks, got {self.fitting.rule!r}")

    @property
    def is_neural(self) -> bool:
        """True for a neural network, which needs torch."""
        if self.start is not None:
            return Path(self.start).suffix == ".safetensors"
        return isinstance(self.network, dict)

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """File of the learner."""
        return ("learner.safetensors" if self.is_neural else "learner.npz",)

    def model(self, device: str = "cpu") -> Model:
        """Return the value function, a new one or that of `start`.

        Raises:
            OSError: the network to start from cannot be read.
            ValueError: wrong settings.
            ImportError: a neural network needs an extra that is not installed.
        """
        if self.is_neural or isinstance(self.network, dict):
            from afterstate.agents.game2048.learning import net_model

            scale, fitting = self.fitting.value_scale, self.fitting.neural()
            model: Model = net_model.new(
                self.network, self.start, fitting, scale, self.seed, device
            )
            return model
        from afterstate.agents.game2048.learning.table_model import TableModel
        from afterstate.agents.game2048.values import ntuple_file
        from afterstate.agents.game2048.values.pruned import expand

        net = self.network.new() if self.start is None else expand(ntuple_file.load(self.start))
        return TableModel(net, self.fitting.rule or "tc", self.fitting.rate)

    def new(self, device: str = "cpu") -> SearchValueLearner:
        """Return a new learner: see `model`."""
        from afterstate.agents.game2048.learning.from_search import SearchValueLearner

        return SearchValueLearner(self.model(device), self.search, self.learner, self.seed)

    def begin(self, options: SearchOptions, folder: RunFolder) -> MoveTraining:
        """Return a new learner, or the one in the folder."""
        from afterstate.agents.game2048.play import evaluation

        if set(options.games_by_depth) - {1}:
            raise ValueError(f"evaluate must be 1:GAMES, got {shown(options.evaluate)}")
        if self.is_neural:
            from afterstate.agents.training.fitter import set_threads

            set_threads(options.threads)
        elif options.threads != 1 or options.device != "cpu":
            raise ValueError(
                "threads must be 1 and device cpu for an N-tuple network, got "
                f"{options.threads} and {options.device}"
            )
        learner, path = self.new(options.device), folder.path / self.checkpoints[0]
        if options.resume:
            learner.resume(path)

        def evaluate() -> dict[str, Any]:
            scores = evaluation(lambda _: learner.model.player(), options.games_by_depth)
            return {"error": learner.loss(), **learner.latest, **scores}

        return MoveTraining(learner, path, evaluate, folder.path / RECENT_FILE)

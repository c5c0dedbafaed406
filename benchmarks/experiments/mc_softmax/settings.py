"""The settings of the Monte-Carlo Softmax experiments: `settings.json`, or another file like it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

from afterstate.agents import game2048
from afterstate.agents.config import Count, NamedPlayer, Positive, Share, Whole, settings
from afterstate.envs.json_files import Row
from benchmarks.experiments.harness import selected

HERE = Path(__file__).parent
SETTINGS = HERE / "settings.json"
PRETRAINED = Path(str(game2048.__file__)).parent / "pretrained"

Network = Literal["ntuple", "value-net"]

NETWORK_FILES: dict[Network, str] = {"ntuple": "ntuple.npz", "value-net": "value.safetensors"}
"""Files of the pretrained networks."""

Measure = Literal["regrets", "scores"]
"""The ways to measure players: by positions or by games."""


@settings
class Positions:
    """Positions of games that a player plays."""

    player: NamedPlayer
    games: Count
    share: Share
    """Share of the positions that are kept."""
    seed: Whole
    n: Count
    """Number of positions."""


@settings
class ValuedPositions(Positions):
    """Positions whose moves are valued by a search."""

    reference: dict[str, Any]
    """Settings of the search, `expectimax`."""
    seeds: Count
    """Seeds of players that draw random numbers."""
    most: Positive
    """Largest regret of a move, in points."""

    @property
    def digest(self) -> str:
        """Twelve characters that identify the settings."""
        return sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]


@settings
class Temperature:
    """The temperature of selection that is learned from searches."""

    positions: Positions
    searches: dict[str, Any]
    """Settings of the searches."""


@settings
class Players:
    """Players that differ in some settings."""

    player: NamedPlayer = "mc-softmax"
    network: Literal["ntuple", "ntuple, batched", "value-net"] | None = None
    """The pretrained network; None: the player has its own."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of all of them."""
    each: tuple[dict[str, Any], ...] | None = None
    """Settings of each."""
    vary: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Settings by their values, whose combinations are the players if `each` is not given."""
    games: Count | None = None
    """Games of each, if they play."""
    chunk: Count | None = None
    """Games that a process plays at a time; by default all."""

    def __post_init__(self) -> None:
        if self.each is not None and self.vary:
            raise ValueError("each and vary must not both be given")

    def variants(self) -> Iterator[Row]:
        """Yield the settings of the players."""
        names, combinations = list(self.vary), itertools.product(*self.vary.values())
        for variant in self.each or [dict(zip(names, v, strict=True)) for v in combinations]:
            network = {} if self.network is None else {"network": self.network}
            yield {**self.settings, **variant, **network}

    def entries(self) -> Iterator[Row]:
        """Yield the players with their numbers of games."""
        sizes = {"games": self.games, "chunk": self.chunk}
        given = {name: size for name, size in sizes.items() if size is not None}
        for variant in self.variants():
            yield {"player": self.player, "settings": variant, **given}


@settings
class Learner:
    """A learner, by what differs from the others of its experiment."""

    moves: Count
    """That it learns from."""
    search: dict[str, Any] = field(default_factory=dict)
    learner: dict[str, Any] = field(default_factory=dict)


@settings
class Learners:
    """Learners of an experiment of the paper."""

    about: str
    """The published results."""
    base: dict[str, Any]
    """Settings of all learners, those of `afterstate train search`."""
    every: Count
    """Moves from one row to the next."""
    runs: dict[str, Learner]
    """The learners by name."""
    window: Count | None = None
    """Moves whose games a mean score is of; by default it is of the last 1,000 games."""

    def settings_of(self, run: str, seed: int) -> Row:
        """Return the settings of a learner."""
        own = self.runs[run]
        merged = {**self.base, "seed": seed}
        merged["search"] = {**self.base.get("search", {}), **own.search}
        merged["learner"] = {**self.base.get("learner", {}), **own.learner}
        if "start" in merged:
            merged["start"] = str(PRETRAINED / merged["start"])
        return merged


class LearnerPlan(NamedTuple):
    """A learner of an experiment."""

    experiment: str
    run: str  # its name
    seed: int
    settings: Row
    moves: int  # number of moves that it learns from
    every: int  # moves from one row to the next

    @property
    def digest(self) -> str:
        """Twelve characters that identify all that the learner learns with, in any folder."""
        start = {"start": Path(self.settings["start"]).name} if "start" in self.settings else {}
        text = json.dumps({**self.settings, **start}, sort_keys=True)
        return sha256(text.encode()).hexdigest()[:12]


@settings
class Published:
    """Scores of the paper."""

    searches: dict[str, int]
    """By the depth of the search, as in `3-ply`."""
    simulations: dict[int, int]
    """By the number of simulations."""


@settings
class Experiment:
    """Players that are measured, learners, and published scores."""

    title: str
    networks: dict[Network, str]
    """First sixteen digits of the SHA-256 of the networks' files."""
    positions: ValuedPositions
    temperature: Temperature
    regrets: dict[str, tuple[Players, ...]]
    """Players that are measured by positions, by their group."""
    scores: dict[str, tuple[Players, ...]]
    """Players that play games, by their group."""
    searched: Count
    """Games that learners play by search at the end."""
    learners: dict[str, Learners]
    published: Published
    other_networks: dict[str, str] = field(default_factory=dict)
    """Names of other networks that games were played with, by the digits of their files."""

    def __post_init__(self) -> None:
        if missing := NETWORK_FILES.keys() - self.networks.keys():
            raise ValueError(f"networks.{min(missing)} is required")
        for group, every in self.scores.items():
            if any(players.games is None for players in every):
                raise ValueError(f"scores.{group}.games is required")

    def groups(self, measure: Measure) -> dict[str, tuple[Players, ...]]:
        """Return the players that are measured in a way, by their group."""
        return self.regrets if measure == "regrets" else self.scores

    def entries(self, measure: Measure, names: Sequence[str] = ()) -> Iterator[Row]:
        """Yield the players of groups: group, name, settings, numbers of games and network.

        The network is the hash of its file, and with regrets there is one of the settings of the
        positions, so that rows of others do not count.
        """
        groups = self.groups(measure)
        places = {"measured_on": self.positions.digest} if measure == "regrets" else {}
        for group in selected(groups, names):
            for players in groups[group]:
                for entry in players.entries():
                    network = {"network_sha256": self.networks[network_name(entry)]}
                    yield {"group": group, **entry, **network, **places}

    def learner_plans(self, repeats: int = 1) -> Iterator[LearnerPlan]:
        """Yield the learners of all experiments, with the seeds 1, 2, ... one after the other."""
        for seed in range(1, repeats + 1):
            for experiment, plan in self.learners.items():
                for run in plan.runs:
                    yield self.learner_plan(experiment, run, seed)

    def learner_plan(self, experiment: str, run: str, seed: int) -> LearnerPlan:
        """Return a learner of an experiment."""
        plan = self.learners[experiment]
        learner, moves = plan.settings_of(run, seed), plan.runs[run].moves
        return LearnerPlan(experiment, run, seed, learner, moves, plan.every)

    def check_network(self, name: Network) -> None:
        """Check that the installed network is the one of the settings.

        Raises:
            ValueError: it has another hash.
        """
        expected = self.networks[name]
        installed = sha256((PRETRAINED / NETWORK_FILES[name]).read_bytes()).hexdigest()[:16]
        if installed != expected:
            raise ValueError(
                f"{NETWORK_FILES[name]} must have the hash {expected} of this experiment, got "
                f"{installed}: to repeat it with the installed network, write its hash to networks "
                "in a copy of settings.json, and give that by --settings"
            )


def network_name(entry: Row) -> Network:
    """Return the name of the pretrained network of a player."""
    names = entry["player"], entry["settings"].get("network")
    return "value-net" if "value-net" in names else "ntuple"

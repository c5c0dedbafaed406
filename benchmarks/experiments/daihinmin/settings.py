"""Settings of the experiments with rank networks: `generations.json` and `logs.json`."""

from __future__ import annotations

from dataclasses import field, replace
from pathlib import Path
from typing import Any

from afterstate.agents import config
from afterstate.agents.config import (
    Count,
    NamedPlayer,
    NonNegative,
    Share,
    Whole,
    from_dict,
    settings,
)
from afterstate.agents.daihinmin.learning.rank_settings import RankRun
from afterstate.envs.messages import shown
from benchmarks.experiments.harness import settings_file

FOLDER = Path(__file__).parent


def seeded(name: str, seed: int) -> str:
    """Return the name of a network that learned with a seed; with the first one it has no other.

    >>> seeded("BaseCNN16", 1), seeded("BaseCNN16", 2)
    ('BaseCNN16', 'BaseCNN16, seed 2')
    """
    return name if seed == 1 else f"{name}, seed {seed}"


def without_seed(name: str) -> str:
    """Return the name of a network without the seed that it learned with.

    >>> without_seed("BaseCNN16, seed 2")
    'BaseCNN16'
    """
    return name.partition(", seed ")[0]


@settings
class Published:
    """Published results of a player."""

    points: float
    """Points per 100 games."""
    error: float
    """Standard error of the points."""
    rmse: float
    iterations: float | None = None


@settings
class Player:
    """A player: a network, a player of the package, or one that only the paper has."""

    network: dict[str, str | int] | None = None
    """Name of a network of `rank_net.py`, and its settings, if it is trained here."""
    epsilon: Share | None = None
    """Probability of a random move in the games that the network learns from."""
    iterations: Whole | None = None
    learner: dict[str, Any] = field(default_factory=dict)
    """Settings of its learner that differ from those of all runs."""
    player: NamedPlayer | None = None
    """A player of the package that plays only, such as mc,playouts=500."""
    is_from_self_play: bool = False
    """The network is the one of `--self-play`."""
    published: Published | None = None


@settings
class Claim:
    """A claim of the paper: one player is better than another, or two are equal."""

    says: str
    better: str = ""
    worse: str = ""
    equal: tuple[str, str] | None = None

    @property
    def players(self) -> tuple[str, str]:
        """The two players."""
        return self.equal or (self.better, self.worse)


@settings
class Experiment:
    """Tables of the paper."""

    title: str
    paper: str
    """Citation."""
    shows: str
    """Tables of the paper."""
    readings: tuple[str, ...]
    """Differences from the paper."""
    run: dict[str, Any]
    """Settings of training that all runs share."""
    generations: Count
    sets: Count
    """Sets of games of each draw of players."""
    players: dict[str, Player]
    claims: tuple[Claim, ...]
    paper_games: Count
    """Games that the paper's networks learned from."""
    others: dict[str, int] = field(default_factory=dict)
    """Published points of players that do not play here."""
    others_error: NonNegative = 0
    """Their published standard error."""

    def __post_init__(self) -> None:
        for claim in self.claims:
            for name in claim.players:
                if name not in self.players:
                    raise ValueError(f"claims: there is no player {shown(name)}")

    @property
    def has_one_run(self) -> bool:
        """True if all networks are generations of one run."""
        return "network" in self.run

    def runs(self, repeats: int = 1) -> dict[str, RankRun]:
        """Return the training runs by name, with the seeds 1, 2, ... one after the other.

        With each seed there is one run of all generations, or one for each network.
        """
        return {
            seeded(name, seed): replace(run, seed=seed)
            for seed in range(1, repeats + 1)
            for name, run in self._runs().items()
        }

    def _runs(self) -> dict[str, RankRun]:
        """Return the settings of the runs of one seed by name."""
        if self.has_one_run:
            return {"all": from_dict(self.run, RankRun)}
        return {
            name: from_dict(self.run | _own_settings(player, self.run), RankRun)
            for name, player in self.players.items()
            if player.network is not None
        }


def _own_settings(player: Player, run: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of training that a player has for itself, given those of all runs."""
    own = {key: getattr(player, key) for key in ("network", "epsilon", "iterations")}
    learner = {"learner": run.get("learner", {}) | player.learner}
    return {key: value for key, value in own.items() if value is not None} | learner


def read(name: str) -> Experiment:
    """Return the experiment of this name, or of a settings file.

    Raises:
        OSError: its file cannot be read.
        ValueError: there is none, or the file has unknown, missing or wrong settings.
    """
    return config.read(settings_file(name, FOLDER), Experiment)

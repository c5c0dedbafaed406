"""The settings of the experiments with 2048-AI: `settings.json`, or another file like it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from afterstate.agents.config import Count, Positive, settings
from afterstate.agents.training.evaluation import EVALUATION_SEED
from afterstate.envs.json_files import Row
from afterstate.envs.messages import listed
from benchmarks.experiments.entries import entry_id

HERE = Path(__file__).parent
SETTINGS = HERE / "settings.json"

Tiles = Literal["annoying", "any", "chance"]

SEARCHES: dict[Tiles, str] = {
    "annoying": "minimax over the heuristic's worst tiles",
    "any": "minimax over all tiles",
    "chance": "expectimax",
}
"""Names of the searches, by the player's setting `tiles`."""

Players = dict[str, Row]
"""Cells by a label."""


@settings
class Reach:
    """Games with a limit of time, until they have a tile."""

    seconds: Positive
    """Limit of a move."""
    settings: dict[str, Any]
    """Other settings of the player."""
    tile: Count
    games: Count

    @property
    def player(self) -> Row:
        """The player's settings."""
        return {"seconds": self.seconds, **self.settings}

    @property
    def seeds(self) -> range:
        """The seeds of the games."""
        return range(EVALUATION_SEED, EVALUATION_SEED + self.games)


@settings
class Comparison:
    """The games of a search with each evaluation."""

    depth: Count
    games: Count


@settings
class Experiment:
    """The players, and how many games they play."""

    title: str
    chunk: Count
    """Games that a process plays at a time."""
    reach: Reach
    terms: dict[Tiles, Comparison]
    """The searches that use each evaluation."""
    evaluations: dict[str, dict[str, Any]]
    """Settings of the evaluation by its label."""
    depths: dict[Tiles, dict[int, Count]]
    """Games with the full evaluation, by search and depth."""

    def __post_init__(self) -> None:
        for label, weights in self.evaluations.items():
            if used := {"tiles", "depth", "cutoffs"} & weights.keys():
                raise ValueError(f"evaluations.{label} must not have {listed(sorted(used))}")

    def entries(self) -> list[Row]:
        """Return all players, without duplicates."""
        every = [each for tiles in self.terms for each in self.by_evaluation(tiles).values()]
        return list({entry_id(each): each for each in [*every, *self.by_depth().values()]}.values())

    def by_evaluation(self, tiles: Tiles) -> Players:
        """Return the players with a search, by evaluation."""
        plan = self.terms[tiles]
        return {
            label: self.entry(tiles, plan.depth, plan.games, weights)
            for label, weights in self.evaluations.items()
        }

    def by_depth(self) -> Players:
        """Return the players with the full evaluation, by search and depth."""
        return {
            f"{SEARCHES[tiles]}, depth {depth}": self.entry(tiles, depth, games)
            for tiles, plan in self.depths.items()
            for depth, games in plan.items()
        }

    def entry(self, tiles: Tiles, depth: int, games: int, evaluation: Row | None = None) -> Row:
        """Return a player by its name and settings, with its number of games."""
        options = {"tiles": tiles, "depth": depth, "cutoffs": "equal", **(evaluation or {})}
        return {"player": "alphabeta", "settings": options, "games": games, "chunk": self.chunk}

    def heading(self, tiles: Tiles) -> str:
        """Return the name of a search with the depth at which evaluations are compared."""
        return f"{SEARCHES[tiles]}, depth {self.terms[tiles].depth}"

"""The settings of the experiments with 2048-AI: `settings.json`, or another file like it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from afterstate.leaderboard.row_files import Row
from benchmarks.experiments.cells import name

HERE = Path(__file__).parent
SETTINGS = HERE / "settings.json"

SEARCHES = {
    "annoying": "minimax over the heuristic's worst tiles",
    "any": "minimax over all tiles",
    "chance": "expectimax",
}
"""Names of the searches, by the setting `tiles`."""

Players = dict[str, Row]
"""Cells by a label."""


class Study(NamedTuple):
    """The experiments with one file of settings."""

    settings: Row
    out: Path  # folder of the results

    def cells(self) -> list[Row]:
        """Return all players, without duplicates."""
        every = [each for tiles in SEARCHES for each in self.by_evaluation(tiles).values()]
        return list({name(each): each for each in [*every, *self.by_depth().values()]}.values())

    def by_evaluation(self, tiles: str) -> Players:
        """Return the players with a search, by evaluation."""
        plan = self.settings["terms"][tiles]
        return {
            label: self.cell(tiles, plan["depth"], plan["games"], weights)
            for label, weights in self.settings["evaluations"].items()
        }

    def by_depth(self) -> Players:
        """Return the players with the full evaluation, by search and depth."""
        return {
            f"{SEARCHES[tiles]}, depth {depth}": self.cell(tiles, int(depth), games)
            for tiles, plan in self.settings["depths"].items()
            for depth, games in plan.items()
        }

    def cell(self, tiles: str, depth: int, games: int, evaluation: Row | None = None) -> Row:
        """Return a player by its name and settings, with its number of games."""
        options = {"tiles": tiles, "depth": depth, "cutoffs": "equal", **(evaluation or {})}
        sizes = {"games": games, "chunk": self.settings["chunk"]}
        return {"player": "alphabeta", "settings": options, **sizes}

    def title(self, tiles: str) -> str:
        """Return the name of a search with the depth at which evaluations are compared."""
        return f"{SEARCHES[tiles]}, depth {self.settings['terms'][tiles]['depth']}"

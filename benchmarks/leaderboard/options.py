"""Options of the leaderboard's command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from afterstate.agents.config import Backend, Count, Jobs, Whole, settings
from afterstate.envs.options import File, Folder, Name, PlayerOfDaihinmin


@settings
class Report:
    """Write tables, CSV files and figures of all entries that have rows.

    Example: afterstate leaderboard report --rows results
    """

    entries: File | None = None
    """JSON file of the entries; by default those of the package."""
    rows: Folder = Path("leaderboard")
    """Folder of the rows and results."""


@settings
class Readme(Report):
    """Copy the tables of a report into the README and docs/leaderboard.md of a checkout.

    Example: afterstate leaderboard readme
    """

    rows: Folder = Path("benchmarks/results/leaderboard")
    """Folder of the tables."""


@settings
class Play(Report):
    """Play the games that have no rows yet.

    Example: afterstate leaderboard play --only "expectimax*" --jobs 2
    """

    only: tuple[Name, ...] = ("*",)
    """Names or patterns of entries, such as "random", "2048/random" or "MC*"."""
    jobs: Jobs | None = None
    """Number of processes that play; by default 1, or all of the cluster with Ray."""
    backend: Backend = "local"
    """Host of the processes: this machine (local), or a Ray cluster (ray)."""


@settings
class Verify(Play):
    """Play games again and compare them with their rows.

    Example: afterstate leaderboard verify --only random --chunks 2
    """

    seed: Whole | None = None
    """Seed of the game or cycle to play; by default chunks are drawn at random."""
    chunks: Count = 1
    """Number of chunks of each entry that are played."""
    all: bool = False
    """Play all chunks of each entry."""
    json: bool = False
    """Print the results as a JSON list, an object for each chunk or entry."""


@settings
class Tournament:
    """Play Daihinmin between any players: points per 100 games, with intervals over whole cycles.

    Example: afterstate leaderboard tournament heuristic sample sample sample sample --cycles 200
    """

    players: tuple[PlayerOfDaihinmin, ...]
    """Players, at least five."""
    cycles: Annotated[Count, Field(le=1_000_000)] = 20
    """Number of draws of five players, which play a cycle each."""
    games: Count = 100
    """Number of games of a cycle."""
    duplicate: bool = False
    """Play each deal five times, with the players moved on."""
    seed: Whole = 0
    """Seed of the draws and deals."""
    jobs: Jobs = 1
    """Number of processes that play."""
    backend: Backend = "local"
    """Host of the processes: this machine (local), or a Ray cluster (ray)."""
    rows: File | None = None
    """New file for the rows; by default they are not kept."""
    json: bool = False
    """Print the results of the players as a JSON list instead of tables."""

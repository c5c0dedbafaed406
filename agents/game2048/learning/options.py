"""Options of the commands that write play logs and small networks; they import no kernels."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from afterstate.agents.config import Backend, Count, Jobs, Rate, Whole, settings
from afterstate.envs.options import File, Player2048

MAX_STEP = 1e6
Step = Annotated[float, Field(gt=0, le=MAX_STEP)]


@settings
class LogOptions:
    """Write a shuffled log of the moves of players of 2048.

    Example: afterstate log moves.npy --player expectimax,depth=2 --games 100
    """

    log: File
    """File to write; its name ends in .npy."""
    player: Annotated[list[Player2048], Field(min_length=1)] = field(
        default_factory=lambda: ["expectimax"]
    )
    """Players: a file each, or a name and settings such as expectimax,depth=2. They take turns."""
    games: Count | None = None
    """Stop after this many games of each player."""
    moves: Count | None = None
    """Stop when the log has this many moves, such as 1e7."""
    skip: Whole = 0
    """Number of first moves of each game that are not logged."""
    share: Rate = 1.0
    """Probability that each of the other moves is logged."""
    batch: Annotated[Count, Field(le=1_000_000)] = 32
    """Games that a player plays in parallel."""
    seed: Whole = 1
    """Seed of the first game and of the sampling."""
    jobs: Jobs = 1
    """Number of processes that play."""
    backend: Backend = "local"
    """Host of the processes: this machine (local), or a Ray cluster (ray)."""
    resume: bool = False
    """Continue a run that was interrupted."""

    def __post_init__(self) -> None:
        if (self.games is None) == (self.moves is None):
            given = "neither" if self.games is None else "both"
            raise ValueError(f"one of --games and --moves must be given, got {given}")
        if self.log.suffix != ".npy":
            raise ValueError(f"log must end in .npy, got {str(self.log)!r}")

    @property
    def folder(self) -> Path:
        """Folder of the buckets."""
        return self.log.with_suffix(".parts")

    @property
    def target(self) -> int:
        """Number of games or moves after which to stop."""
        return self.moves or self.games or 0


@settings
class PruneOptions:
    """Write a small file of an N-tuple network of 2048, for play.

    Example: afterstate prune RUN/learner.npz small.npz --weights 1e7
    """

    network: File
    """File of a network or of a learner, or of TDL2048 if its name ends in .w."""
    output: File
    """File to write, another one than the network; its name ends in .npz."""
    weights: Annotated[Count, Field(lt=2**31)] = 10_000_000
    """Number of weights to keep."""
    step: Step = 8.0
    """Weights are rounded to multiples of it, in points; rarely used ones more coarsely."""
    games: Count = 3000
    """Games in which uses are counted."""
    depth: Literal[1, 2] = 1
    """Depth of these games: 1 for a file that plays greedily, 2 for one that searches."""
    seed: Whole = 0
    """Seed of these games."""
    downgrade: Annotated[int, Field(ge=4, le=32768)] | None = None
    """The small network downgrades boards from this tile on; by default as the large one."""

    def __post_init__(self) -> None:
        if self.output.suffix != ".npz":
            raise ValueError(f"output must end in .npz, got {str(self.output)!r}")

"""The commands `log` and `prune`, run in the tests' process; their errors are raised."""

from __future__ import annotations

from afterstate.agents.game2048.learning.options import LogOptions, PruneOptions
from afterstate.agents.game2048.learning.play_logs import write
from afterstate.agents.game2048.learning.pruning import prune
from afterstate.envs.commands import parse


def run_log(*words: str) -> None:
    """Run `afterstate log` with the words after its name."""
    write(parse(LogOptions, "afterstate log", words))


def run_prune(*words: str) -> None:
    """Run `afterstate prune` with the words after its name."""
    prune(parse(PruneOptions, "afterstate prune", words))

"""Score of the pretrained N-tuple network, with greedy play and with 3-ply search.

    python -m benchmarks.pretrained.ntuple

Plays 4,000 greedy games and 200 by search, the same in every run, and writes the scores to
`agents/game2048/pretrained/ntuple.json`, where its training is described.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from afterstate import agents
from afterstate.agents.config import Count, settings
from afterstate.agents.game2048 import players
from afterstate.agents.game2048.learning.ntuple_learner import evaluate
from afterstate.agents.game2048.values.ntuple_file import load
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.envs.commands import parse, run_process
from afterstate.envs.messages import shown
from afterstate.leaderboard.machine import machine


def network_of(player: str) -> Network:
    """Return the N-tuple network of a player, given by its name or file.

    Raises:
        ValueError: it has none.
    """
    network = getattr(agents.find(player), "network", None)
    if not isinstance(network, Network):
        raise ValueError(f"player must have an N-tuple network, got {shown(player)}")
    return network


@settings
class Args:
    """Measure the pretrained N-tuple network."""

    greedy: Count = 4_000
    """Games of greedy play."""
    search: Count = 200
    """Games of 3-ply search."""
    threads: Count = 2
    """Threads."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.pretrained.ntuple", arguments)
    plies = {1: args.greedy, 3: args.search}
    scores = evaluate(load(players.PRETRAINED), plies, args.threads)
    print(json.dumps(scores, indent=1))
    metadata = players.PRETRAINED.with_suffix(".json")
    description = json.loads(metadata.read_text(encoding="utf-8"))
    description |= {"scores": scores, "measured_on": machine()}
    metadata.write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run_process(main))

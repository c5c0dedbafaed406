"""Score of the pretrained N-tuple network, with greedy play and with 3-ply search.

    python -m benchmarks.pretrained.ntuple

Plays 1,000 greedy games and 100 by search, the same in every run, and writes the scores to
`agents/game2048/pretrained/ntuple.json`, where its training is described.
"""

from __future__ import annotations

import argparse
import json

from afterstate.agents.game2048 import players
from afterstate.agents.game2048.learning.ntuple_learner import evaluate
from afterstate.agents.game2048.values.ntuple import load
from benchmarks.machine import machine


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Measures the network in the package.")
    parser.add_argument("--greedy", type=int, default=1_000, help="games (%(default)s)")
    parser.add_argument("--search", type=int, default=100, help="games (%(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    plies = {1: options.greedy, 3: options.search}
    scores = evaluate(load(players.PRETRAINED), plies, options.threads)
    print(json.dumps(scores, indent=1))
    metadata = players.PRETRAINED.with_suffix(".json")
    description = json.loads(metadata.read_text(encoding="utf-8"))
    description |= {"scores": scores, "measured_on": machine()}
    metadata.write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

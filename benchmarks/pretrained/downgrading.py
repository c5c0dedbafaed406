"""The gain of an N-tuple network by downgraded boards: the same games with and without.

    python -m benchmarks.pretrained.downgrading --games 8000
    python -m benchmarks.pretrained.downgrading --games 300 --depth 2

Both games of a pair have the same seed, so they are the same until the network first values a board
that is downgraded. A JSON row is appended to the results.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from afterstate.agents.config import Count, settings
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.agents.training.evaluation import EVALUATION_SEED, half_interval
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.leaderboard.games import fingerprint
from afterstate.leaderboard.machine import machine
from benchmarks.pretrained.ntuple import network_of

RESULT = Path(__file__).parents[1] / "results" / "downgrading.jsonl"
NEVER = 16
"""Exponent from which on a network downgrades no board."""


def gain(net: Network, depth: int, n_games: int) -> dict[str, Any]:
    """Return the mean scores without and with downgraded boards, and the mean of the differences.

    Args:
        net: a network that downgrades boards.
        depth: depth of search; 1 is greedy play.
        n_games: number of pairs of games, at least 2.

    Raises:
        ValueError: the network downgrades no boards.
    """
    if net.downgrade == NEVER:
        raise ValueError("the network must be one that downgrades boards, got one that does not")
    nets = (net._replace(downgrade=NEVER), net)
    players = [NTupleAgent(each) if depth == 1 else ExpectimaxAgent(each, depth) for each in nets]
    without, with_ = (play(player, n_games, EVALUATION_SEED).scores for player in players)
    gains = with_ - without
    return {
        "depth": depth,
        "games": n_games,
        "without": round(float(without.mean())),
        "with": round(float(with_.mean())),
        "gain": round(float(gains.mean())),
        "interval": round(half_interval(gains)),
        "different": int(np.count_nonzero(gains)),
    }


@settings
class Args:
    """Measure the gain of an N-tuple network by downgraded boards."""

    player: str = "ntuple"
    """Player whose network plays, by its name or file."""
    games: Count = 1_000
    """Pairs of games."""
    depth: Count = 1
    """Depth of search; 1 is greedy play."""
    out: Path = RESULT
    """File that the row is appended to."""

    def __post_init__(self) -> None:
        if self.games < 2:
            raise ValueError("games must be at least 2, got 1: an interval needs two")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.pretrained.downgrading", arguments)
    net = network_of(args.player)
    row = gain(net, args.depth, args.games)
    print(
        f"without {row['without']:,}, with {row['with']:,}: {row['gain']:+,} ± {row['interval']:,} "
        f"({row['games']:,} pairs of games, {row['different']:,} of them differ)"
    )
    about = {"player": args.player, "weights": fingerprint(net)}
    json_files.append(args.out, [{**about, **row, "machine": machine()}])


if __name__ == "__main__":
    sys.exit(run_process(main))

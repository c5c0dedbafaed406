"""How long rank networks take to decide, and how many games of self-play two processes make.

    python benchmarks/speed_rank_nets.py --out benchmarks/results/speed_rank_nets.txt

Decisions are those of whole games between heuristic players in which there is a choice: more than
one legal play or the pass. A network is asked in each of them, in CPU time of one thread; the
networks are new, which costs the same. Games of self-play are timed by the clock, in two processes
of one thread each, after a first share of games that is not counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import fresh_kernels  # noqa: F401 - first of all that uses numba
import numpy as np
import torch
from machine import machine
from tqdm import tqdm

from afterstate.agents.daihinmin import rank_nets
from afterstate.agents.daihinmin.play import play_match
from afterstate.agents.daihinmin.rank_nets import RankAgent
from afterstate.agents.daihinmin.rule_based import HeuristicAgent
from afterstate.agents.daihinmin.training import Run, generate
from afterstate.envs.daihinmin.plays import N_PLAYS, PASS
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game, list_legal

CHANNELS = (16, 32, 64, 128)


class _Watched(HeuristicAgent):
    """A heuristic player who keeps the views in which he has a choice."""

    def __init__(self) -> None:
        super().__init__()
        self.views: list[Game] = []
        self._listed = np.empty(N_PLAYS, np.int64)

    def choose(self, view: Game) -> int:
        """The play of a heuristic player."""
        if list_legal(view, self._listed) + (view["field"] != PASS) > 1:
            self.views.append(view)
        return super().choose(view)


def positions(n_games: int, seed: int = 1) -> list[Game]:
    """What players see in games between heuristic players where they have a choice."""
    watched = _Watched()
    for _ in play_match([watched] * N_PLAYERS, n_games, seed):
        pass
    return watched.views


def decision_times(agent: RankAgent, views: Sequence[Game]) -> np.ndarray:
    """CPU milliseconds of each decision."""
    agent.choose(views[0])
    times = []
    for seen in views:
        start = time.process_time()
        agent.choose(seen)
        times.append(1e3 * (time.process_time() - start))
    return np.array(times)


def self_play_speeds(channels: int, mixed: bool, rounds: int) -> list[float]:
    """Games of self-play per second of the clock, of two processes."""
    run = Run(
        network={"name": "BaseCNN", "channels": channels},
        learner={"mixed": mixed},
        games=1_000,
        table=500,
    )
    speeds = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.safetensors"
        torch.manual_seed(1)
        rank_nets.save(rank_nets.network(**run.network), path)
        for number in range(rounds + 1):
            start = time.monotonic()
            generate(run, [path], [number], jobs=2, device="cpu")
            speeds.append(run.games / (time.monotonic() - start))
    return speeds[1:]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Times rank networks.")
    parser.add_argument("--games", type=int, default=20, help="whose decisions (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of self-play (%(default)s)")
    parser.add_argument("--out", type=Path, help="file for the figures")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    views = positions(chosen.games)
    lines = [
        ", ".join(f"{k} {v}" for k, v in machine().items()),
        f"{len(views)} decisions of {chosen.games} games, CPU milliseconds each:",
    ]
    for channels in tqdm(CHANNELS):
        net = rank_nets.network("BaseCNN", channels=channels)
        times = decision_times(RankAgent(net), views)
        low, high = np.percentile(times, [50, 95])
        lines.append(
            f"  BaseCNN{channels:<4} mean {times.mean():6.2f}   median {low:6.2f}   "
            f"95 % within {high:6.2f}   longest {times.max():6.2f}"
        )
    lines.append("self-play of BaseCNN32, two processes, games per second (range):")
    for mixed in (False, True):
        speeds = self_play_speeds(32, mixed, chosen.rounds)
        name = "16-bit" if mixed else "32-bit"
        span = f"{min(speeds):.1f} to {max(speeds):.1f}, n = {len(speeds)}"
        lines.append(f"  {name}   {np.median(speeds):.1f} ({span})")
    print("\n".join(lines))
    if chosen.out is not None:
        chosen.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Scores that an N-tuple network expects late in its games, and those that it reaches.

    python -m benchmarks.pretrained.late_game --player out/run/learner.npz
    python -m benchmarks.pretrained.late_game --games 200 --depth 2

A line is a score that games pass: how many do, what the network expects to score from there on, and
what it scores, both as means. A network that expects games to end soon plays carelessly, so they
do: expectations that fall towards zero short of a tile show a wall. A JSON row is appended to the
results.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import trange

from afterstate.agents.config import Count, settings
from afterstate.agents.game2048.learning.run_settings import MAX_MOVES
from afterstate.agents.game2048.learning.self_play import PlaySettings, play_path
from afterstate.agents.game2048.learning.td import new_path
from afterstate.agents.game2048.search.expectimax import CUTOFF, TABLE_BITS
from afterstate.agents.game2048.search.expectimax_search import new_search
from afterstate.agents.game2048.values.ntuple import estimate
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.agents.training.evaluation import EVALUATION_SEED
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.game2048.rules import field, spawn
from afterstate.envs.words import Floats, seed_word
from afterstate.leaderboard.games import fingerprint
from afterstate.leaderboard.machine import machine
from benchmarks.pretrained.ntuple import network_of

RESULT = Path(__file__).parents[1] / "results" / "late_game.jsonl"
STEP = 20_000
"""Points from one line to the next."""
N_LINES = 60


def expected_and_scored(
    net: Network, depth: int, seed: int, scores: npt.NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Return what the network expects and scores in a game of `Game2048-v0`, at several scores.

    From a 65536 tile on, it sees a 32768.

    Args:
        net: plays and values.
        depth: 1 for greedy play, more for expectimax.
        seed: of the game.
        scores: where to look, ascending `int64[N]`.

    Returns:
        What the network expects to score from the first board at each score on, and what it scores
        from there on, `float64[N]`; NaN where the game has ended before.
    """
    path, cells = new_path(MAX_MOVES), field(*net.size)
    settings = PlaySettings(
        backward=True,
        delay=0,
        restart=-1,
        good=0.0,
        epsilon=0.0,
        search_share=0.0,
        search_from=0,
        search_depth=depth,
        carousel=False,
        carousel_stages=0,
        within_stage=False,
        jump=0.0,
    )
    search = new_search(CUTOFF, TABLE_BITS) if depth > 1 else None
    board, rng = spawn(*spawn(np.uint64(0), np.uint64(seed_word(seed)), cells), cells)
    first = np.uint64(board), np.uint64(rng)  # kernels return words as integers
    n = play_path(net, settings, search, depth > 1, *first, path, 0)[0]
    rewards = path.rewards[:n]
    left = rewards[::-1].cumsum()[::-1]
    at = np.searchsorted(left[0] - left, scores)
    expected, scored = (np.full(len(scores), np.nan) for _ in range(2))
    some = at < n
    expected[some] = rewards[at[some]] + estimate(net, path.afters[at[some]])
    scored[some] = left[at[some]]
    return expected, scored


def lines(net: Network, depth: int, n_games: int) -> list[dict[str, Any]]:
    """Return a line for each score that any of the evaluation games passes."""
    scores = STEP * np.arange(1, N_LINES, dtype=np.int64)
    games = [expected_and_scored(net, depth, EVALUATION_SEED + i, scores) for i in trange(n_games)]
    expected, scored = (np.array(column) for column in zip(*games, strict=True))
    return [
        {
            "score": score,
            "games": int(np.isfinite(scored[:, i]).sum()),
            "expected": round(float(np.nanmean(expected[:, i]))),
            "scored": round(float(np.nanmean(scored[:, i]))),
        }
        for i, score in enumerate(scores.tolist())
        if np.isfinite(scored[:, i]).any()
    ]


def measure(net: Network, depth: int, n_games: int) -> dict[str, Any]:
    """Return the row of a network: its hash, depth, number of games, lines and machine."""
    row = {"weights": fingerprint(net), "depth": depth, "games": n_games}
    return {**row, "lines": lines(net, depth, n_games), "machine": machine()}


@settings
class Args:
    """Compare what a network expects to score late in games with what it scores."""

    player: str = "ntuple"
    """Player whose network plays, by its name or file."""
    games: Count = 1_000
    """Games."""
    depth: Count = 1
    """Depth of search; 1 is greedy play."""
    out: Path = RESULT
    """File that the row is appended to."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.pretrained.late_game", arguments)
    row = measure(network_of(args.player), args.depth, args.games)
    print(f"{'score':>9} {'games':>7} {'expected':>9} {'scored':>9}")
    for line in row["lines"]:
        print(f"{line['score']:9,} {line['games']:7,} {line['expected']:9,} {line['scored']:9,}")
    json_files.append(args.out, [{"player": args.player, **row}])


if __name__ == "__main__":
    sys.exit(run_process(main))

"""Repeat the claims of 2048-AI, and measure the contribution of each term of its evaluation.

    python -m benchmarks.experiments.alphabeta.run play --jobs 2
    python -m benchmarks.experiments.alphabeta.run reach
    python -m benchmarks.experiments.alphabeta.run report

`play` plays the games of `settings.json` that have no row in `games.jsonl` in
`benchmarks/results/experiments/alphabeta`, or in `--out`: three searches use each evaluation, and
each search uses the full evaluation at several depths. `reach` plays games with the original's
limit of 100 ms a move until they have a 2048 tile, and appends each to `reached.jsonl` there; they
take two minutes each, and nothing else may use the core. `report` writes tables and a figure to
`README.md` there.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
from matplotlib import pyplot as plt
from scipy.stats import binomtest

from afterstate import agents
from afterstate.agents.config import Backend, Jobs, Positive, settings
from afterstate.agents.training.commands import markdown
from afterstate.agents.training.folder import FolderLock
from afterstate.agents.training.run import EVALUATION_SEED
from afterstate.agents.training.workers import Workers
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.leaderboard import figures
from afterstate.leaderboard.machine import machine
from afterstate.leaderboard.row_files import Row
from benchmarks.experiments import harness
from benchmarks.experiments.cells import (
    cost,
    latest,
    mean_text,
    name,
    play_cells,
    play_part,
    took,
)
from benchmarks.experiments.harness import are_published, check_options, results

HERE = Path(__file__).parent
RESULTS = harness.RESULTS / "alphabeta"
GAMES, REACHED, FIGURE = "games.jsonl", "reached.jsonl", "rate_2048.svg"

TILES = (512, 1024, 2048, 4096)
"""Tiles whose rates are reported."""

SEARCHES = {
    "annoying": "minimax over the heuristic's worst tiles",
    "any": "minimax over all tiles",
    "chance": "expectimax",
}
"""Names of the searches, by the setting `tiles`."""


@settings
class Args:
    """Repeat the claims of 2048-AI, and measure the terms of its evaluation."""

    command: Literal["play", "reach", "report"]
    """Play the games that have no row, those with a limit of time, or write the report."""
    jobs: Jobs = 1
    """Processes that play."""
    backend: Backend = "local"
    """Place of the processes: this machine, or a Ray cluster."""
    hours: Positive | None = None
    """Hours after which no more games begin; by default there is no limit."""
    out: Path = RESULTS
    """Folder of rows, page and figure."""


def load_settings() -> Row:
    """Return the settings of the experiment."""
    loaded: Row = json.loads((HERE / "settings.json").read_text(encoding="utf-8"))
    return loaded


# Games


def cell(tiles: str, depth: int, games: int, evaluation: Row | None = None) -> Row:
    """Return a player by its name and settings, with its number of games."""
    options = {"tiles": tiles, "depth": depth, "cutoffs": "equal", **(evaluation or {})}
    sizes = {"games": games, "chunk": load_settings()["chunk"]}
    return {"player": "alphabeta", "settings": options, **sizes}


def by_evaluation(tiles: str) -> dict[str, Row]:
    """Return the cells of a search, by evaluation."""
    loaded = load_settings()
    plan, evaluations = loaded["terms"][tiles], loaded["evaluations"].items()
    return {of: cell(tiles, plan["depth"], plan["games"], weights) for of, weights in evaluations}


def by_depth() -> dict[str, Row]:
    """Return the cells of all searches with the full evaluation, by search and depth."""
    return {
        f"{SEARCHES[tiles]}, depth {depth}": cell(tiles, int(depth), games)
        for tiles, plan in load_settings()["depths"].items()
        for depth, games in plan.items()
    }


def cells() -> list[Row]:
    """Return all cells, without duplicates."""
    every = [each for tiles in SEARCHES for each in by_evaluation(tiles).values()]
    return list({name(each): each for each in [*every, *by_depth().values()]}.values())


def play_cell(cell: Row, seeds: range) -> Row:
    """Play some games of a cell and return their results."""
    player = agents.make(cell["player"], **cell["settings"])
    player.act(0x11)  # load the kernels before the clock starts
    return play_part(cell, seeds, player)


def reach_tile(seed: int) -> Row:
    """Play a game with a limit of time until it has the tile, or is lost; return its row."""
    plan = load_settings()["reach"]
    player = agents.make("alphabeta", **plan["settings"])
    player.act(0x11)  # load the kernels before the clock starts
    env: Any = gym.make("Game2048-v0").unwrapped
    env.reset(seed=seed)
    moves, score, is_over, largest_tile = 0, 0, False, 0
    start, began = time.process_time(), time.monotonic()
    while not is_over and largest_tile < plan["tile"]:
        _, reward, is_over, _, info = env.step(player.act(env.board))
        moves, score, largest_tile = moves + 1, score + int(reward), info["max_tile"]
    seconds, passed = time.process_time() - start, time.monotonic() - began
    row = {"seed": seed, **plan["settings"], "max_tile": largest_tile, "score": score}
    row |= {"moves": moves, "ms_per_move": round(1e3 * passed / moves, 1)}
    return {**row, "cpu_ms_per_move": round(1e3 * seconds / moves, 1), "machine": machine()}


def reached_rows(out: Path) -> list[Row]:
    """Return the rows of the games with the limit of time of the settings."""
    options = load_settings()["reach"]["settings"].items()
    return [row for row in json_files.rows(out / REACHED) if options <= row.items()]


def reach(out: Path, workers: Workers, hours: float | None) -> None:
    """Play the games with a limit of time that have no row, and append each when it ends.

    Raises:
        ValueError: more processes than this machine has processors, which would share its time.
    """
    cores = os.cpu_count() or 1
    if workers.backend == "local" and (workers.jobs or cores) > cores:
        raise ValueError(f"jobs must be <= {cores}, the processors here, got {workers.jobs}")
    _held = FolderLock(out)
    seeds = range(EVALUATION_SEED, EVALUATION_SEED + load_settings()["reach"]["games"])
    done = {row["seed"] for row in reached_rows(out)}
    calls = [partial(reach_tile, seed) for seed in seeds if seed not in done]
    for row in results(calls, workers, hours, "games"):
        json_files.append(out / REACHED, [row])


# Report


def rows(out: Path, selected: Mapping[str, Row]) -> dict[str, Row]:
    """Return the latest row in a folder of each cell that has one, by the cell's label."""
    labels = {name(each): label for label, each in selected.items()}
    return {labels[name(row)]: row for row in latest(out / GAMES, selected.values())}


def rate(row: Row) -> tuple[float, float, float]:
    """Return the rate of 2048 and the ends of its 95% interval (Wilson), in percent."""
    return share_of(round(row["reached"]["2048"] * row["n_games"]), row["n_games"])


def share_of(n: int, n_games: int) -> tuple[float, float, float]:
    """Return the share of n games and the ends of its 95% interval (Wilson), in percent."""
    ends = binomtest(n, n_games).proportion_ci(method="wilson")
    return 100 * n / n_games, 100 * ends.low, 100 * ends.high


def reached_table(out: Path) -> str:
    """Return the table of the games with a limit of time, of all and of those that are lost."""
    plan, rows = load_settings()["reach"], reached_rows(out)
    if not rows:
        return "No games yet."
    n_reached = sum(row["max_tile"] >= plan["tile"] for row in rows)
    share, low, high = share_of(n_reached, len(rows))
    moves = sum(row["moves"] for row in rows)
    passed, took = (
        sum(row["moves"] * row[name] for row in rows) / moves
        for name in ("ms_per_move", "cpu_ms_per_move")
    )
    head = ["games", f"reach {plan['tile']}", "%", "moves per game", "ms per move", "of CPU time"]
    head += ["core hours"]
    body = [str(len(rows)), str(n_reached), f"{share:.0f} ({low:.0f} to {high:.0f})"]
    body += [
        f"{moves / len(rows):,.0f}",
        f"{passed:.0f}",
        f"{took:.0f}",
        f"{moves * took / 3.6e6:.1f}",
    ]
    return markdown(head, [body])


def table(out: Path, selected: Mapping[str, Row]) -> str:
    """Return the table of the players that have rows."""
    rates = [f"{tile}, %" for tile in TILES]
    head = ["", "games", "mean score", *rates, "moves per game", "CPU time per move (µs)"]
    body = []
    for label, row in rows(out, selected).items():
        shares = {tile: f"{100 * row['reached'][str(tile)]:.1f}" for tile in TILES}
        _, low, high = rate(row)
        shares[2048] += f" ({low:.0f} to {high:.0f})"
        moves = f"{row['moves'] / row['n_games']:,.0f}"
        games = str(row["n_games"])
        body.append([label, games, mean_text(row), *shares.values(), moves, cost(row)])
    return markdown(head, body)


def title(tiles: str) -> str:
    """Return the name of a search with the depth at which evaluations are compared."""
    return f"{SEARCHES[tiles]}, depth {load_settings()['terms'][tiles]['depth']}"


def draw_rates(out: Path) -> None:
    """Draw the rates of 2048 by evaluation, with their intervals."""
    names = list(load_settings()["evaluations"])
    _, axes = plt.subplots(figsize=(7, 5.5))
    for i, tiles in enumerate(SEARCHES):
        played = rows(out, by_evaluation(tiles))
        heights = [names.index(evaluation) + 0.2 * (i - 1) for evaluation in played]
        rates = [rate(row) for row in played.values()]
        spreads = [[r - low for r, low, _ in rates], [high - r for r, _, high in rates]]
        means = [mean for mean, _, _ in rates]
        axes.errorbar(means, heights, xerr=spreads, fmt="o", capsize=3, label=title(tiles))
    axes.set(xlabel="games that reach 2048, %", xlim=(-2, 102))
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.legend()
    figures.save(axes.figure, out / FIGURE)


def write_report(out: Path) -> None:
    """Write tables and the figure of the rows that a folder has.

    The text is about the published rows, and left out with others.
    """
    out.mkdir(parents=True, exist_ok=True)
    names = ("text.md", "verdicts.md") if are_published(out, GAMES) else ()
    texts = [(HERE / name).read_text(encoding="utf-8").rstrip() for name in names]
    parts = ["# " + load_settings()["title"], *texts]
    parts += [f"## With {1e3 * load_settings()['reach']['settings']['seconds']:.0f} ms a move"]
    parts += [
        reached_table(out),
        "## What each term contributes",
        took(json_files.rows(out / GAMES)),
    ]
    parts += [f"![]({FIGURE})"]
    for tiles in SEARCHES:
        heading = title(tiles)
        parts += [f"## {heading[0].upper()}{heading[1:]}", table(out, by_evaluation(tiles))]
    parts += ["## All four terms, by depth", table(out, by_depth())]
    parts.append((HERE / "readings.md").read_text(encoding="utf-8").rstrip())
    draw_rates(out)
    path = out / "README.md"
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"written: {path}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.experiments.alphabeta.run", arguments)
    check_options(args, dict.fromkeys(("jobs", "backend", "hours"), ("play", "reach")))
    workers = Workers(args.jobs, args.backend)
    if args.command == "play":
        play_cells(args.out / GAMES, cells(), play_cell, workers, args.hours, TILES)
    elif args.command == "reach":
        reach(args.out, workers, args.hours)
    else:
        write_report(args.out)


if __name__ == "__main__":
    from benchmarks.experiments.alphabeta import run  # other processes import its functions

    sys.exit(run_process(run.main))

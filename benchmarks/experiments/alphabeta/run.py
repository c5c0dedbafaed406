"""Ablation of alpha-beta search's hand-made evaluation: the contribution of each of its terms.

    python -m benchmarks.experiments.alphabeta.run play --jobs 2
    python -m benchmarks.experiments.alphabeta.run report

`play` plays the games of `settings.json` that have no row in `games.jsonl` in
`benchmarks/results/experiments/alphabeta`, or in `--out`: three searches use each evaluation, and
each search uses the full evaluation at several depths. `report` writes tables and a figure to
`README.md` there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from matplotlib import pyplot as plt
from scipy.stats import binomtest

from afterstate import agents
from afterstate.agents.config import Backend, Jobs, Positive, settings
from afterstate.agents.training.commands import markdown
from afterstate.agents.training.workers import Workers
from afterstate.envs.commands import parse, run_process
from afterstate.leaderboard import figures
from afterstate.leaderboard.row_files import Row
from benchmarks.experiments import harness
from benchmarks.experiments.cells import (
    cost,
    fill,
    latest,
    mean_text,
    name,
    play_games,
)
from benchmarks.experiments.harness import check_options

HERE = Path(__file__).parent
RESULTS = harness.RESULTS / "alphabeta"
GAMES, FIGURE = "games.jsonl", "rate_2048.svg"

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
    """Measure the terms of the hand-made evaluation."""

    command: Literal["play", "report"]
    """Play the games that have no row, or write the report."""
    jobs: Jobs = 1
    """Processes that play."""
    backend: Backend = "local"
    """Place of the processes: this machine, or a Ray cluster."""
    hours: Positive | None = None
    """Hours after which no more players begin; by default there is no limit."""
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
    return {"player": "alphabeta", "settings": options, "games": games}


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


def play_cell(cell: Row) -> Row:
    """Play the games of a cell and return its row."""
    player = agents.make(cell["player"], **cell["settings"])
    player.act(0x11)  # load the kernels before the clock starts
    return play_games(cell, player, TILES)


# Report


def rows(out: Path, selected: Mapping[str, Row]) -> dict[str, Row]:
    """Return the latest row in a folder of each cell that has one, by the cell's label."""
    labels = {name(each): label for label, each in selected.items()}
    return {labels[name(row)]: row for row in latest(out / GAMES, selected.values())}


def rate(row: Row) -> tuple[float, float, float]:
    """Return the rate of 2048 and the ends of its 95% interval (Wilson), in percent."""
    share, n_games = row["reached"]["2048"], row["n_games"]
    ends = binomtest(round(share * n_games), n_games).proportion_ci(method="wilson")
    return 100 * share, 100 * ends.low, 100 * ends.high


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
    """Write tables and the figure of the rows that a folder has."""
    out.mkdir(parents=True, exist_ok=True)
    text = (HERE / "text.md").read_text(encoding="utf-8").rstrip()
    verdicts = (HERE / "verdicts.md").read_text(encoding="utf-8").rstrip()
    parts = ["# " + load_settings()["title"], text, verdicts]
    parts += ["## What each term contributes", f"![]({FIGURE})"]
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
    check_options(args, dict.fromkeys(("jobs", "backend", "hours"), ("play",)))
    if args.command == "play":
        workers = Workers(args.jobs, args.backend)
        fill(args.out / GAMES, cells(), play_cell, workers, args.hours)
    else:
        write_report(args.out)


if __name__ == "__main__":
    from benchmarks.experiments.alphabeta import run  # other processes import its functions

    sys.exit(run_process(run.main))

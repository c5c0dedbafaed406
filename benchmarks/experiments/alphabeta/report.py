"""Tables and the figure of the experiments with 2048-AI."""

from __future__ import annotations

from dataclasses import fields

from matplotlib import pyplot as plt

from afterstate.agents.game2048.search.alphabeta import AlphaBetaSettings
from afterstate.envs import json_files
from afterstate.envs.json_files import Row
from afterstate.leaderboard import figures
from afterstate.text_tables import markdown
from benchmarks.experiments.alphabeta.settings import HERE, Experiment, Players
from benchmarks.experiments.entries import cost, entry_id, latest, mean_text, took
from benchmarks.experiments.harness import (
    ExperimentFolder,
    processors,
    published_texts,
    share_of,
)

GAMES, REACHED, FIGURE = "games.jsonl", "reached.jsonl", "rate_2048.svg"
"""Files of the results."""

TILES = (512, 1024, 2048, 4096)
"""Tiles whose rates are reported."""


def write(folder: ExperimentFolder[Experiment]) -> None:
    """Write the page and the figure of the rows that a folder has.

    The text is about the published rows, and left out with others.
    """
    experiment = folder.experiment
    folder.path.mkdir(parents=True, exist_ok=True)
    texts = published_texts(HERE, folder.path, ["text.md", "verdicts.md"])
    parts = ["# " + experiment.title, *texts, *reached_section(folder)]
    played = latest(folder.path / GAMES, experiment.entries())
    parts += ["## What each term contributes", *([took(played)] if played else [])]
    parts.append(f"![]({FIGURE})")
    for tiles in experiment.terms:
        heading = experiment.heading(tiles)
        parts.append(f"## {heading[0].upper()}{heading[1:]}")
        parts.append(table(folder, experiment.by_evaluation(tiles)))
    parts += ["## All four terms, by depth", table(folder, experiment.by_depth())]
    parts.append((HERE / "readings.md").read_text(encoding="utf-8").rstrip())
    draw_rates(folder)
    path = folder.path / "README.md"
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"written: {path}")


# Games with a limit of time


def reached_rows(folder: ExperimentFolder[Experiment]) -> list[Row]:
    """Return the rows of the games of the settings: their player, tile and seeds."""
    plan = folder.experiment.reach
    names = {each.name for each in fields(AlphaBetaSettings)}
    return [
        row
        for row in json_files.rows(folder.path / REACHED)
        if {key: row[key] for key in row if key in names} == plan.player
        and row["tile"] == plan.tile
        and row["seed"] in plan.seeds
    ]


def reached_section(folder: ExperimentFolder[Experiment]) -> list[str]:
    """Return the section of the games with a limit of time."""
    limit = 1e3 * folder.experiment.reach.seconds
    rows = reached_rows(folder)
    text = reached_table(folder, rows) if rows else "No games yet."
    return [f"## With {limit:.0f} ms a move", text]


def reached_table(folder: ExperimentFolder[Experiment], rows: list[Row]) -> str:
    """Return the table of the games with a limit of time, of all and of those that are lost."""
    tile, moves = folder.experiment.reach.tile, sum(row["moves"] for row in rows)
    n_reached = sum(row["max_tile"] >= tile for row in rows)
    share, low, high = share_of(n_reached, len(rows))
    passed, cpu = (
        sum(row["moves"] * row[key] for row in rows) / moves
        for key in ("ms_per_move", "cpu_ms_per_move")
    )
    cells = {
        "games": f"{len(rows)}",
        f"reach {tile}": f"{n_reached}",
        "%": f"{share:.0f} ({low:.0f} to {high:.0f})",
        "moves per game": f"{moves / len(rows):,.0f}",
        "ms per move": f"{passed:.0f}",
        "of CPU time": f"{cpu:.0f}",
        "core hours": f"{moves * cpu / 3.6e6:.1f}",
        "processor": ", ".join(processors(rows)),
    }
    return markdown(list(cells), [list(cells.values())])


# Games to the end


def rows_of(folder: ExperimentFolder[Experiment], players: Players) -> dict[str, Row]:
    """Return the latest row of each player that has one, by the player's label."""
    labels = {entry_id(entry): label for label, entry in players.items()}
    return {labels[entry_id(row)]: row for row in latest(folder.path / GAMES, players.values())}


def rate(row: Row) -> tuple[float, float, float]:
    """Return the rate of 2048 and the ends of its 95% interval (Wilson), in percent."""
    return share_of(round(row["reached"]["2048"] * row["n_games"]), row["n_games"])


def table(folder: ExperimentFolder[Experiment], players: Players) -> str:
    """Return the table of the players that have rows."""
    rates = [f"{tile}, %" for tile in TILES]
    head = ["", "games", "mean score", *rates, "moves per game", "CPU time per move (µs)"]
    body = []
    for label, row in rows_of(folder, players).items():
        shares = {tile: f"{100 * row['reached'][str(tile)]:.1f}" for tile in TILES}
        _, low, high = rate(row)
        shares[2048] += f" ({low:.0f} to {high:.0f})"
        moves = f"{row['moves'] / row['n_games']:,.0f}"
        games = str(row["n_games"])
        body.append([label, games, mean_text(row), *shares.values(), moves, cost(row)])
    return markdown(head, body)


def draw_rates(folder: ExperimentFolder[Experiment]) -> None:
    """Draw the rates of 2048 by evaluation, with their intervals."""
    experiment = folder.experiment
    names = list(experiment.evaluations)
    _, axes = plt.subplots(figsize=(7, 5.5))
    for i, tiles in enumerate(experiment.terms):
        played = rows_of(folder, experiment.by_evaluation(tiles))
        heights = [names.index(evaluation) + 0.2 * (i - 1) for evaluation in played]
        rates = [rate(row) for row in played.values()]
        spreads = [[r - low for r, low, _ in rates], [high - r for r, _, high in rates]]
        means = [mean for mean, _, _ in rates]
        label = experiment.heading(tiles)
        axes.errorbar(means, heights, xerr=spreads, fmt="o", capsize=3, label=label)
    axes.set(xlabel="games that reach 2048, %", xlim=(-2, 102))
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.legend()
    figures.save(axes.figure, folder.path / FIGURE)

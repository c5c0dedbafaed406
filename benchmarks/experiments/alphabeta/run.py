"""Measures what the terms of the hand-made evaluation are worth, by leaving them out.

    python -m benchmarks.experiments.alphabeta.run play --jobs 2
    python -m benchmarks.experiments.alphabeta.run report

`play` lets the players of `study.json` play: with each evaluation there against the most annoying
tiles, against any tiles and against chance, and with the whole evaluation to several depths. It
leaves out those that have a row in `games.jsonl` in `benchmarks/results/experiments/alphabeta`.
`report` writes tables and a figure to `README.md` there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import pyplot as plt

from afterstate import agents
from afterstate.agents.training.commands import markdown, whole_above_0
from benchmarks import figures
from benchmarks.experiments.cells import Row, cost, fill, latest, name, played, reached

HERE = Path(__file__).parent
RESULTS = Path(__file__).parents[2] / "results" / "experiments" / "alphabeta"
GAMES, FIGURE = "games.jsonl", "rate_2048.svg"

TILES = (512, 1024, 2048, 4096)
"""Those whose rates are told."""

EXPECTED = {
    "annoying": "the most annoying tiles",
    "any": "the worst tiles",
    "chance": "tiles by chance",
}
"""The searches, by the tiles that they expect."""


def study() -> Row:
    """The settings."""
    told: Row = json.loads((HERE / "study.json").read_text(encoding="utf-8"))
    return told


# Games


def cell(tiles: str, depth: int, games: int, evaluation: Row | None = None) -> Row:
    """A player, told by its name and settings, and its number of games."""
    settings = {"tiles": tiles, "depth": depth, "cutoffs": "equal", **(evaluation or {})}
    return {"player": "alphabeta", "settings": settings, "games": games}


def by_evaluation(tiles: str) -> dict[str, Row]:
    """The cells of a search with each evaluation."""
    plan, told = study()["terms"][tiles], study()["evaluations"]
    return {of: cell(tiles, plan["depth"], plan["games"], how) for of, how in told.items()}


def by_depth() -> dict[str, Row]:
    """The cells of all searches with the whole evaluation."""
    return {
        f"{EXPECTED[tiles]}, depth {depth}": cell(tiles, int(depth), games)
        for tiles, plan in study()["depths"].items()
        for depth, games in plan.items()
    }


def cells() -> list[Row]:
    """All cells, each once."""
    every = [each for tiles in EXPECTED for each in by_evaluation(tiles).values()]
    return list({name(each): each for each in [*every, *by_depth().values()]}.values())


def play_cell(asked: Row) -> Row:
    """The row of a cell."""
    player = agents.make(asked["player"], **asked["settings"])
    player.act(0x11)  # what is loaded for the first move does not count
    return played(asked, player, TILES)


def play_all(chosen: argparse.Namespace) -> None:
    """Lets all players play that have no row."""
    fill(RESULTS / GAMES, cells(), play_cell, chosen.jobs)


# The report


def rows(asked: Mapping[str, Row]) -> dict[str, Row]:
    """The latest rows of those cells that have one."""
    called = {name(each): of for of, each in asked.items()}
    return {called[name(row)]: row for row in latest(RESULTS / GAMES, asked.values())}


def interval(share: float, n: int) -> tuple[float, float]:
    """The 95% interval of a share of n, by Wilson's formula.

    >>> [round(end, 3) for end in interval(0.5, 100)]
    [0.404, 0.596]
    """
    squared = 1.96**2 / n
    middle = share + squared / 2
    spread = (squared * (share * (1 - share) + squared / 4)) ** 0.5
    return (middle - spread) / (1 + squared), (middle + spread) / (1 + squared)


def rate(row: Row) -> tuple[float, float, float]:
    """The rate of 2048 and its interval, in percent."""
    share = row["reached"]["2048"]
    low, high = interval(share, row["n_games"])
    return 100 * share, 100 * min(low, share), 100 * max(high, share)


def table(asked: Mapping[str, Row]) -> str:
    """What players reached."""
    rates = [f"{tile}, %" for tile in TILES]
    head = ["", "games", "mean score", *rates, "moves a game", "µs of CPU a move"]
    body = []
    for of, row in rows(asked).items():
        shares = {tile: f"{100 * row['reached'][str(tile)]:.1f}" for tile in TILES}
        _, low, high = rate(row)
        shares[2048] += f" ({low:.0f} to {high:.0f})"
        per_game = f"{row['moves'] / row['n_games']:,.0f}"
        body.append([of, str(row["n_games"]), reached(row), *shares.values(), per_game, cost(row)])
    return markdown(head, body)


def draw_rates() -> None:
    """Draws the rates of 2048 by evaluation, with their intervals."""
    names = list(study()["evaluations"])
    _, axes = plt.subplots(figsize=(7, 5.5))
    for i, tiles in enumerate(EXPECTED):
        found = rows(by_evaluation(tiles))
        places = [names.index(of) + 0.2 * (i - 1) for of in found]
        rates = [rate(row) for row in found.values()]
        shares = [share for share, _, _ in rates]
        ends = [[s - low for s, low, _ in rates], [high - s for s, _, high in rates]]
        axes.errorbar(shares, places, xerr=ends, fmt="o", capsize=3, label=called(tiles))
    axes.set(xlabel="games that reach 2048, %", xlim=(-2, 102))
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.legend()
    figures.save(axes.figure, RESULTS / FIGURE)


def called(tiles: str) -> str:
    """What a search is called that is used with each evaluation."""
    return f"{EXPECTED[tiles]}, depth {study()['terms'][tiles]['depth']}"


def write(chosen: argparse.Namespace) -> None:
    """Writes tables and the figure of what there is."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = (HERE / "text.md").read_text(encoding="utf-8").rstrip()
    parts = ["# " + study()["title"], text, f"![]({FIGURE})"]
    for tiles in EXPECTED:
        parts += [f"## Expecting {called(tiles)}", table(by_evaluation(tiles))]
    parts += ["## All four terms, by depth", table(by_depth())]
    draw_rates()
    path = RESULTS / "README.md"
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"written: {path}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Measures the terms of the evaluation.")
    commands = {"play": play_all, "report": write}
    parser.add_argument("command", choices=list(commands))
    parser.add_argument("--jobs", type=whole_above_0, default=1, help="(%(default)s)")
    chosen = parser.parse_args(arguments)
    try:
        commands[chosen.command](chosen)
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()

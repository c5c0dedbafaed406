"""Compare settings of learning, each with a run that lacks them, after the same moves.

    python -m benchmarks.pretrained.study --runs out/study
    python -m benchmarks.pretrained.study --only restart --only "8x6, restart"
    python -m benchmarks.pretrained.study --draw

The runs of `study.json` are played one after the other, each in one thread with seed 1. A run that
was interrupted goes on with the same command. The rows of a run are written when it has ended, to
`benchmarks/results/study/NAME.jsonl`; `README.md` and `curves.svg` there have the scores of all
that have ended.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from afterstate.agents.config import Count, settings
from afterstate.agents.training.commands import markdown
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.messages import listed, shown
from afterstate.leaderboard.machine import machine
from afterstate.leaderboard.row_files import Row
from benchmarks.experiments.harness import train
from benchmarks.experiments.quasi_greedy.settings import short
from benchmarks.pretrained import curves

RUNS = json_files.read(Path(__file__).with_suffix(".json"))
"""By the name of a run its settings of `afterstate train ntuple`, and the run that it is compared
with."""

RESULTS = Path(__file__).parents[1] / "results" / "study"
EVALUATE = "1:2000,2:200"
TILES = ("8192", "16384", "32768")


@settings
class Args:
    """Learn with several settings and compare what they are worth."""

    runs: Path = Path("out/study")
    """Folder of the runs."""
    out: Path = RESULTS
    """Folder of rows, table and curves."""
    moves: Count = 1_000_000_000
    """Moves of each run."""
    evaluate: str = EVALUATE
    """Evaluation games by depths, as for `afterstate train ntuple`, four times a run."""
    only: list[str] = field(default_factory=list)
    """Names of runs; by default all."""
    draw: bool = False
    """Play nothing, but write the table and the curves of the runs that have ended."""

    def __post_init__(self) -> None:
        for name in self.only:
            if name not in RUNS:
                raise ValueError(f"only must be some of {listed(RUNS)}, got {shown(name)}")


def file_name(name: str) -> str:
    """Return the name of a run as that of a file.

    >>> file_name("stages, carousel, restart")
    'stages_carousel_restart'
    """
    return name.replace(",", "").replace(" ", "_")


def learn(name: str, args: Args) -> None:
    """Play a run, or the rest of it, and write its rows to the results."""
    folder, of_run = args.runs / file_name(name), {**RUNS[name]["settings"], "seed": 1}
    print(f"{name}:", flush=True)
    every = args.moves // 4
    train("ntuple", of_run, folder, moves=args.moves, evaluate=args.evaluate, evaluate_every=every)
    run = {"threads": 1, "seed": 1, "machine": machine()}
    rows = [{**row, **run} for row in json_files.rows(folder / "rows.jsonl")]
    json_files.write_rows(args.out / f"{file_name(name)}.jsonl", rows)


def ended(args: Args) -> dict[str, list[Row]]:
    """Return the rows of the runs that have ended, by their names."""
    rows = {name: json_files.rows(args.out / f"{file_name(name)}.jsonl") for name in RUNS}
    return {name: each for name, each in rows.items() if each}


def difference(row: Row, other: Row | None, depth: str) -> str:
    """Return the difference of two mean scores with its 95% interval; empty without another row."""
    if other is None:
        return ""
    mean = row[depth]["mean"] - other[depth]["mean"]
    half = math.hypot(row[depth]["interval"], other[depth]["interval"])
    return f"{mean:+,.0f} ± {half:,.0f}"


def depth_name(depth: str) -> str:
    """Return the name of a depth: greedy or n-ply."""
    return "greedy" if depth == "1-ply" else depth


def table(runs: dict[str, list[Row]]) -> str:
    """Return the last scores of the runs, with differences from those that they are compared with.

    Raises:
        ValueError: runs have other moves or evaluation games than the first one.
    """
    last = {name: rows[-1] for name, rows in runs.items()}
    games = {name: (round(row["n_moves"], -7), n_games(row)) for name, row in last.items()}
    for name, each in games.items():
        if each != next(iter(games.values())):
            raise ValueError(f"{name} must have the moves and games of the other runs, got {each}")
    depths = list(n_games(next(iter(last.values()))))
    head = ["setting", "difference from"]
    for depth in depths:
        head += [depth_name(depth), "difference"]
    body = []
    for name, row in last.items():
        against = RUNS[name].get("against", "")
        line = [name, against]
        for depth in depths:
            line += [f"{row[depth]['mean']:,.0f} ± {row[depth]['interval']:,.0f}"]
            line += [difference(row, last.get(against), depth)]
        body.append([*line, *(f"{row['1-ply']['reached'][tile]:.1%}" for tile in TILES)])
    return markdown([*head, *TILES], body)


def page(runs: dict[str, list[Row]]) -> str:
    """Return the page of the results."""
    names = {name: json.dumps(RUNS[name]["settings"]) for name in runs}
    last = next(iter(runs.values()))[-1]
    counts = " and ".join(f"{n:,} {depth_name(depth)}" for depth, n in n_games(last).items())
    return "\n".join(
        [
            "# What settings of learning are worth\n",
            "Networks of [4x6 tuples](../../../docs/players.md#n-tuple-networks) learn by backward "
            f"[TC(0.5)](../../../docs/learning.md) from {short(last['n_moves'])} moves with one "
            "thread and seed 1, unless a setting says otherwise. A difference is that of all "
            "settings which the run has and the other one lacks. ± is half of the 95% interval of "
            f"a mean over games ({counts}). It does not cover other seeds: each setting has one "
            "run, so differences of a few percent are not significant. The last columns are the "
            "shares of greedy games that reach a tile.\n",
            table(runs) + "\n",
            "![Scores by moves learned](curves.svg)\n",
            "| setting | of `afterstate train ntuple` |\n| --- | --- |",
            *(f"| {name} | `{text}` |" for name, text in names.items()),
            "\nCommand: `python -m benchmarks.pretrained.study`\n",
        ]
    )


def n_games(row: Row) -> dict[str, int]:
    """Return the numbers of evaluation games of a row by their depths."""
    return {name: each["n_games"] for name, each in row.items() if name.endswith("-ply")}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Raises:
        SystemExit: wrong arguments, or no run has ended.
    """
    args = parse(Args, "python -m benchmarks.pretrained.study", arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in () if args.draw else args.only or RUNS:
        rows = json_files.rows(args.out / f"{file_name(name)}.jsonl")
        if not rows or rows[-1]["n_moves"] < args.moves:
            learn(name, args)
    runs = ended(args)
    if not runs:
        raise SystemExit(f"{args.out} has no rows: let a run learn first")
    (args.out / "README.md").write_text(page(runs), encoding="utf-8")
    curves.draw(runs, args.out / "curves.svg", [*n_games(next(iter(runs.values()))[-1])])
    print(table(runs))


if __name__ == "__main__":
    sys.exit(run_process(main))

"""Compare settings of learning, each alone with the first one, after the same moves.

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
from typing import Any

from afterstate.agents.config import Count, settings
from afterstate.agents.training import __main__ as training
from afterstate.agents.training.commands import markdown
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.messages import listed, shown
from afterstate.leaderboard.row_files import Row
from benchmarks.pretrained import curves

RUNS = json_files.read(Path(__file__).with_suffix(".json"))
"""The settings of `afterstate train ntuple` by the name of the run."""

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
    folder = args.runs / file_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    asked = folder / "asked.json"
    asked.write_text(json.dumps(RUNS[name], indent=1) + "\n", encoding="utf-8")
    words = ["ntuple", str(asked), "--out", str(folder), "--seed", "1", "--moves", str(args.moves)]
    words += ["--evaluate", args.evaluate, "--evaluate-every", str(args.moves // 4)]
    resume = ["--resume"] if (folder / "learner.npz").exists() else []
    print(f"{name}:", flush=True)
    training.main([*words, *resume])
    rows = json_files.rows(folder / "rows.jsonl")
    json_files.write_rows(args.out / f"{file_name(name)}.jsonl", rows)


def ended(args: Args) -> dict[str, list[Row]]:
    """Return the rows of the runs that have ended, by their names."""
    rows = {name: json_files.rows(args.out / f"{file_name(name)}.jsonl") for name in RUNS}
    return {name: each for name, each in rows.items() if each}


def difference(row: Row, first: Row, depth: str) -> str:
    """Return the difference of mean scores from the first run, with its 95% interval."""
    mean = row[depth]["mean"] - first[depth]["mean"]
    half = math.hypot(row[depth]["interval"], first[depth]["interval"])
    return f"{mean:+,.0f} ± {half:,.0f}"


def table(runs: dict[str, list[Row]]) -> str:
    """Return the last scores of the runs, with differences from the first run in the table."""
    last = {name: rows[-1] for name, rows in runs.items()}
    first = next(iter(last.values()))
    depths = [name for name in first if name.endswith("-ply")]
    head = ["setting", "moves", "hours"]
    for depth in depths:
        head += [depth, "difference"]
    head += TILES
    body = []
    for name, row in last.items():
        line = [name, f"{row['n_moves']:.2g}", f"{row['seconds'] / 3600:.2f}"]
        for depth in depths:
            score = row[depth]
            line += [f"{score['mean']:,.0f} ± {score['interval']:,.0f}"]
            line += ["" if row is first else difference(row, first, depth)]
        body.append([*line, *(f"{row['1-ply']['reached'][tile]:.1%}" for tile in TILES)])
    return markdown(head, body)


def page(runs: dict[str, list[Row]]) -> str:
    """Return the page of the results."""
    names = {name: json.dumps(RUNS[name]) for name in runs}
    games = {depth: each["n_games"] for depth, each in _scores(next(iter(runs.values()))[-1])}
    counts = ", ".join(f"{n:,} by {depth} play" for depth, n in games.items())
    return "\n".join(
        [
            "# What settings of learning are worth\n",
            "Networks of 4x6 tuples learn by backward TC(0.5) with one thread and seed 1, unless a "
            "setting says otherwise. ± is half of the 95% interval of a mean over games, and the "
            f"difference is that from *{next(iter(runs))}*. As each setting has one run, "
            "differences of a few percent are not significant. Hours are those of one core, "
            "which other programs used, too, in some runs. Evaluation games: "
            f"{counts}. The last columns are the shares of greedy games that reach a tile.\n",
            table(runs) + "\n",
            "![Scores by moves learned](curves.svg)\n",
            "| setting | of `afterstate train ntuple` |\n| --- | --- |",
            *(f"| {name} | `{text}` |" for name, text in names.items()),
            "\nCommand: `python -m benchmarks.pretrained.study`\n",
        ]
    )


def _scores(row: Row) -> list[tuple[str, Any]]:
    """Return the scores of a row by their depths."""
    return [(name, each) for name, each in row.items() if name.endswith("-ply")]


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
    curves.draw(runs, args.out / "curves.svg")
    print(table(runs))


if __name__ == "__main__":
    sys.exit(run_process(main))

"""Compare settings of learning, each with a run that lacks them, after the same moves.

    python -m benchmarks.pretrained.ablations learn --runs out/ablations
    python -m benchmarks.pretrained.ablations learn --only restart "8x6, restart"
    python -m benchmarks.pretrained.ablations report

With `learn`, the runs of `ablations.json` are played one after the other, each in one thread with
seed 1. A run that was interrupted goes on with the same command. The rows of a run are written when
it has ended, to `benchmarks/results/ablations/NAME.jsonl`; `README.md` and `curves.svg` there have
the scores of all that have ended. Play logs at whose positions games of some runs begin are made
first, in minutes. `report` only writes the page and the curves.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib import pyplot as plt

from afterstate.agents.config import Count, settings
from afterstate.agents.game2048.learning.play_logs import MOVE
from afterstate.agents.training.evaluation import evaluation_games
from afterstate.envs import durable_files, json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.game2048.rules import words
from afterstate.envs.json_files import Row
from afterstate.envs.messages import listed, shown
from afterstate.leaderboard import figures
from afterstate.leaderboard.games import fingerprint
from afterstate.leaderboard.machine import machine
from afterstate.text_tables import markdown
from benchmarks.experiments.harness import (
    WAIT,
    check_options,
    published_texts,
    rows_lock,
    train,
    write_log,
)
from benchmarks.experiments.quasi_greedy.settings import short
from benchmarks.pretrained import curves, late_game
from benchmarks.pretrained.ntuple import network_of

RUNS = json_files.read(Path(__file__).with_suffix(".json"))
"""By the name of a run its settings of `afterstate train ntuple`, and the run that it is compared
with."""

RESULTS = Path(__file__).parents[1] / "results" / "ablations"
N_MADE_UP = 100_000
OPTIONS = dict.fromkeys(("runs", "moves", "evaluate", "only", "late_games"), ("learn",))
"""The commands that use an option, where not all do."""
MOVES, EVALUATE = 1_000_000_000, "1:2000,2:200"
LATE_GAME = "late_game.jsonl"
LATE_SCORES = (100_000, 200_000, 300_000, 360_000, 380_000)
TILES = ("8192", "16384", "32768")


@settings
class Args:
    """Learn with several settings and compare what they are worth."""

    command: Literal["learn", "report"]
    """Play the runs, or only write the table and the curves of those that have ended."""
    runs: Path = Path("out/ablations")
    """Folder of the runs."""
    out: Path = RESULTS
    """Folder of rows, table and curves."""
    moves: Count = MOVES
    """Moves of each run."""
    evaluate: str = EVALUATE
    """Evaluation games by depths, as for `afterstate train ntuple`, four times a run."""
    only: tuple[str, ...] = ()
    """Names of runs; by default all."""
    late_games: Count = 1_000
    """Greedy games in which is measured what a network expects to score."""

    def __post_init__(self) -> None:
        for name in self.only:
            if name not in RUNS:
                raise ValueError(f"only must be some of {listed(RUNS)}, got {shown(name)}")
        games = evaluation_games(self.evaluate)
        if 1 not in games or min(games.values()) < 2:
            text = "evaluate must have 1 ply, and at least 2 games of each depth"
            raise ValueError(f"{text}, got {shown(self.evaluate)}")


def file_name(name: str) -> str:
    """Return the name of a run as that of a file.

    >>> file_name("stages, carousel, restart")
    'stages_carousel_restart'
    """
    return name.replace(",", "").replace(" ", "_")


def write_searched(path: Path) -> None:
    """Write positions behind the first 8,000 moves of 200 games by 2-ply search."""
    options = {"player": "expectimax,depth=2", "games": 200, "skip": 8_000, "share": 0.25}
    write_log(path, options)


def write_made_up(path: Path) -> None:
    """Write random boards of a 32768 in the first corner and two to five tiles from 2 to 128."""
    rng = np.random.default_rng(1)
    order = rng.permuted(np.tile(np.arange(15), (N_MADE_UP, 1)), axis=1)
    has_tile = order < rng.integers(2, 6, (N_MADE_UP, 1))
    boards = np.full((N_MADE_UP, 16), 15)
    boards[:, 1:] = np.where(has_tile, rng.integers(1, 8, order.shape), 0)
    log = np.zeros(N_MADE_UP, MOVE)
    log["board"] = words(boards.reshape(-1, 4, 4))
    with durable_files.replace(path) as opened:
        np.save(opened, log)


LOGS = {"searched.npy": write_searched, "made_up.npy": write_made_up}
"""The play logs that runs need, with what writes them."""


def run_settings(name: str, runs: Path) -> Row:
    """Return the settings of a run, with its log, which is made if a folder lacks it."""
    of_run = {**RUNS[name]["settings"], "seed": 1}
    if log := of_run.get("log"):
        path = runs / log
        if not path.exists():
            runs.mkdir(parents=True, exist_ok=True)
            LOGS[log](path)
        of_run["log"] = str(path)
    return of_run


def learn(name: str, args: Args) -> None:
    """Play a run, or the rest of it, and write its rows to the results."""
    folder, of_run = args.runs / file_name(name), run_settings(name, args.runs)
    print(f"{name}:", flush=True)
    every = args.moves // 4
    train("ntuple", of_run, folder, moves=args.moves, evaluate=args.evaluate, evaluate_every=every)
    run = {"threads": 1, "seed": 1, "moves": args.moves, "machine": machine()}
    rows = [{**row, **run} for row in json_files.rows(folder / "rows.jsonl")]
    json_files.write_rows(args.out / f"{file_name(name)}.jsonl", rows)


def measure_late_game(name: str, args: Args) -> None:
    """Play greedy games with a learner that is there, and write what it expects late in them.

    The row takes the place of one of another network or number of games.
    """
    file, results = args.runs / file_name(name) / "learner.npz", args.out / LATE_GAME
    if not file.exists():
        return
    net = network_of(str(file))
    key = {"setting": name, "weights": fingerprint(net), "games": args.late_games}
    if any(key.items() <= row.items() for row in json_files.rows(results)):
        return
    row = {"setting": name, **late_game.measure(net, 1, args.late_games)}
    with rows_lock(results, WAIT):
        rows = {each["setting"]: each for each in json_files.rows(results)}
        json_files.write_rows(results, list({**rows, name: row}.values()))


def ended(args: Args) -> dict[str, list[Row]]:
    """Return the rows of the runs that have ended, by their names."""
    rows = {name: json_files.rows(args.out / f"{file_name(name)}.jsonl") for name in RUNS}
    return {name: each for name, each in rows.items() if each}


def difference(row: Row, other: Row | None, depth: str) -> str:
    """Return the difference of two mean scores with half of its interval; empty without a row."""
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


def late_table(rows: Sequence[Row]) -> str:
    """Return what networks expect to score from some scores on, and what they score."""
    head = ["setting", *(f"{score:,}" for score in LATE_SCORES)]
    body = []
    for row in rows:
        lines = {line["score"]: line for line in row["lines"]}
        cells = [
            f"{line['expected']:,} / {line['scored']:,} ({line['games']})" if line else ""
            for line in map(lines.get, LATE_SCORES)
        ]
        body.append([row["setting"], *cells])
    return markdown(head, body)


def page(runs: dict[str, list[Row]], late: Sequence[Row], texts: Sequence[str] = ()) -> str:
    """Return the page of the results, with texts that are about these."""
    names = {name: json.dumps(RUNS[name]["settings"]) for name in runs}
    last = next(iter(runs.values()))[-1]
    counts = " and ".join(f"{n:,} {depth_name(depth)}" for depth, n in n_games(last).items())
    return "\n".join(
        [
            "# What settings of learning are worth\n",
            "Networks of [4x6 tuples](../../../docs/players.md#n-tuple-networks) learn by backward "
            f"[TC(0.5)](../../../docs/learning.md) from {short(last['n_moves'])} moves with one "
            "thread and seed 1, unless a setting says otherwise. A difference is that of all "
            "settings which the run has and the other one lacks. ± is half the 95% confidence "
            f"interval of a mean over games ({counts}). It does not cover other seeds: each "
            "setting has one run. The last columns are the shares of greedy games that reach a "
            "tile. `searched.npy` has positions behind the first 8,000 moves of 200 games by 2-ply "
            f"search with the package's network, and `made_up.npy` {N_MADE_UP:,} boards of a 32768 "
            "in a corner and two to five tiles from 2 to 128.\n",
            *(f"{text}\n" for text in texts),
            table(runs) + "\n",
            "![Scores by moves learned](curves.svg)\n",
            "| setting | of `afterstate train ntuple` |\n| --- | --- |",
            *(f"| {name} | `{text}` |" for name, text in names.items()),
            "\nWhat the networks expect to score from some scores on, what they score from there "
            "on, and in how many of their greedy games they come there.\n",
            late_table(late),
            f"\nCommand: `{command(last)}`\n",
        ]
    )


def command(row: Row) -> str:
    """Return the command of runs with the moves and evaluation games of a row.

    Rows of earlier versions do not have the moves that were asked for.
    """
    words = ["python -m benchmarks.pretrained.ablations learn"]
    moves = row.get("moves", round(row["n_moves"], -7) or row["n_moves"])
    if moves != MOVES:
        words.append(f"--moves {moves}")
    evaluate = ",".join(f"{depth[0]}:{n}" for depth, n in n_games(row).items())
    if evaluation_games(evaluate) != evaluation_games(EVALUATE):
        words.append(f"--evaluate {evaluate}")
    return " ".join(words)


def n_games(row: Row) -> dict[str, int]:
    """Return the numbers of evaluation games of a row by their depths."""
    return {name: each["n_games"] for name, each in row.items() if name.endswith("-ply")}


def draw(runs: dict[str, list[Row]], out: Path) -> None:
    """Draw the curves of the runs, one row of panels for each run that others are compared with."""
    compared: dict[str, list[str]] = {}
    for name in runs:
        compared.setdefault(RUNS[name].get("against", name), []).append(name)
    depths = [*n_games(next(iter(runs.values()))[-1])]
    size = (4.6 * len(depths) + 2.5, 2.9 * len(compared))
    figure, axes = plt.subplots(
        len(compared), len(depths), figsize=size, layout="constrained", squeeze=False, sharex=True
    )
    for row, (base, names) in zip(axes, compared.items(), strict=True):
        for axis, depth in zip(row, depths, strict=True):
            for name in dict.fromkeys([name for name in (base, *names) if name in runs]):
                points = zip(*curves.points(runs[name], depth), strict=True)
                axis.errorbar(*points, marker="o", markersize=3, label=name)
            axis.set_title(f"{base}, and what is compared with it: {depth_name(depth)}", fontsize=9)
            axis.yaxis.set_major_formatter("{x:,.0f}")
            axis.grid(alpha=0.3)
        row[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize="small")
    for axis in axes[-1]:
        axis.set_xlabel("moves learned from")
    figures.save(figure, out)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Raises:
        SystemExit: wrong arguments.
        ValueError: no run has ended.
    """
    args = parse(Args, "python -m benchmarks.pretrained.ablations", arguments)
    check_options(args, OPTIONS)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.only or RUNS if args.command == "learn" else ():
        rows = json_files.rows(args.out / f"{file_name(name)}.jsonl")
        if not rows or rows[-1]["n_moves"] < args.moves:
            learn(name, args)
        measure_late_game(name, args)
    runs = ended(args)
    if not runs:
        raise ValueError(f"{args.out} has no rows: let a run learn first")
    texts = published_texts(Path(__file__).parent, args.out, ["ablations.md"])
    text = page(runs, json_files.rows(args.out / LATE_GAME), texts)
    (args.out / "README.md").write_text(text, encoding="utf-8")
    draw(runs, args.out / "curves.svg")
    print(table(runs))


if __name__ == "__main__":
    sys.exit(run_process(main))

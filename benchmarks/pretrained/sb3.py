"""What the stable-baselines3 examples have learned, beside players of the package.

    python examples/sb3_2048.py maskable-ppo
    python examples/sb3_daihinmin.py --opponents sample
    python -m benchmarks.pretrained.sb3 --publish

Reads the evaluations of all runs in the folders, and writes rows, a figure and a table of each game
to `benchmarks/results/sb3`; of a game without runs what was written before stays. Beside the runs
of 2048 stands an N-tuple network that learns for as many moves; beside those of Daihinmin stand
players that learn nothing, against the same opponents.
`--publish` also writes the players of finished runs into the package; of Daihinmin, where runs
differ in their teachers, the best one.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from sb3_daihinmin import GAMES, evaluate

from afterstate.agents import files
from afterstate.agents.daihinmin.play import find_player
from afterstate.agents.daihinmin.values import actor_net
from afterstate.agents.game2048.learning.ntuple_learner import Learner
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values import policy_net
from afterstate.agents.game2048.values.ntuple import NTupleAgent
from afterstate.agents.training.commands import markdown
from afterstate.agents.training.run import EVALUATION_SEED, summary
from benchmarks import figures
from benchmarks.row_files import Row

RESULTS = Path(__file__).parents[1] / "results" / "sb3"
RUNS = [Path("runs/sb3"), Path("runs/sb3_daihinmin")]
TABLE = "N-tuple network, TC"
N_POINTS, N_GAMES = 25, 100
"""Of the table player's curve, and of each of its points."""

REFERENCES = ("heuristic", "sample")
"""Players that stand beside the runs of Daihinmin."""

N_CYCLES = 100
"""Of 100 games, that each of them plays."""

ABOUT = """# What stable-baselines3 has learned

`examples/sb3_2048.py` and `examples/sb3_daihinmin.py` trained;
`python -m benchmarks.pretrained.sb3` made this of their evaluations. In these a player of the
package plays: it takes the legal action that the network finds best, without exploration. The last
evaluation of a run that is at its end is
one of more games, by `actor.safetensors`, the file that it leaves, with weights of 16 bits. Hours
are those of learning and evaluations by the clock, on one or two busy cores; of the table player
those of learning.

Moves are steps of the environment. PPO, DQN and QR-DQN know nothing of masks: their steps are also
those in which they tried an illegal move of 2048. In games in which DQN and QR-DQN learn it is the
last one, in those of PPO it does nothing. One run each: another seed may come to something else.
"""


class Shown(NamedTuple):
    """How the rows of a game are shown."""

    name: str
    unit: str
    scale: str  # of means in the figure
    digits: int  # of means in the table, after the point
    earlier: tuple[int, ...]  # moves after which means are told too
    about: str


SHOWN = {
    "Game2048-v0": Shown(
        *("2048", "mean score", "log", 0, (1_000_000, 3_000_000)),
        "Mean scores with 95 % intervals (normal, over games). The table player learns by temporal "
        "coherence, and plays greedily.",
    ),
    "Daihinmin-v0": Shown(
        *("Daihinmin", "points per 100 games", "linear", 1, (200_000, 500_000)),
        "Points per 100 games with 95 % intervals (Student's t, over cycles of 100 games). A run "
        "is called by those who taught it, `self` is what it had learned so far. Players that are "
        "alike get 300 points each; those that learn nothing are lines.",
    ),
}
"""The games by their environments."""


def runs(folders: Sequence[Path]) -> Iterator[tuple[Path, Row, list[Row]]]:
    """The folder, settings and rows of all runs in folders that have rows; not of `--smoke`.

    A row that is being written is left out.

    Raises:
        SystemExit: a run has no settings, or rows that are none.
    """
    for file in [file for folder in folders for file in sorted(folder.glob("*/rows.jsonl"))]:
        if not file.parent.name.startswith("smoke-"):
            whole = file.read_text(encoding="utf-8").rpartition("\n")[0]
            try:
                told = json.loads((file.parent / "settings.json").read_text(encoding="utf-8"))
                yield file.parent, told, [json.loads(line) for line in whole.splitlines()]
            except (OSError, ValueError) as error:
                raise SystemExit(f"{file.parent} is no run of the examples: {error}") from error


def read(folders: Sequence[Path]) -> dict[str, list[Row]]:
    """The rows of all runs in folders, by their environments.

    Raises:
        SystemExit: there are none.
    """
    found: dict[str, list[Row]] = {}
    for run, told, rows in runs(folders):
        name = run.name  # of Daihinmin those of the opponents, who also stand beside it
        name = name if told["env"] == "Game2048-v0" else f"maskable-ppo, taught by {name}"
        head = {"player": name, "against": told.get("against")}
        found.setdefault(told["env"], []).extend({**head, **row} for row in rows)
    if not any(found.values()):
        where = ", ".join(map(str, folders))
        raise SystemExit(f"no evaluations in {where}: run examples/sb3_2048.py first")
    return found


def publish(folders: Sequence[Path]) -> None:
    """Takes the players of runs that are at their end into the package, the best one last.

    Raises:
        SystemExit: points that were made against different opponents would be compared.
    """
    ended = [(rows[-1]["mean"], *of) for *of, rows in runs(folders) if rows and rows[-1]["end"]]
    against = {json.dumps(told["against"]) for _, _, told in ended if "against" in told}
    if len(against) > 1:
        met = " and ".join(sorted(against))
        raise SystemExit(f"runs against {met} are not compared: give folders of one kind alone")
    for mean, run, told in sorted(ended, key=lambda each: each[0]):
        is_2048 = told["env"] == "Game2048-v0"
        place = policy_net.BASELINES[told["algorithm"]] if is_2048 else actor_net.PRETRAINED
        files.write_bytes(place, (run / "actor.safetensors").read_bytes())
        print(f"{place.name} is that of {run}, {mean:,.1f}")


def table_rows(n_moves: int) -> Iterator[Row]:
    """The rows of an N-tuple network that learns 2048 for so many moves."""
    learner, seconds = Learner(seed=1), 0.0
    for point in range(1, N_POINTS + 1):
        began = time.perf_counter()
        learner.play(max(1, n_moves * point // N_POINTS - learner.n_moves))
        seconds += time.perf_counter() - began
        found = summary(play(NTupleAgent(learner.network), N_GAMES, seed=EVALUATION_SEED))
        told = {"mean": found["mean"], "interval": found["interval"], "games": N_GAMES}
        head = {"player": TABLE, "against": None, "moves": learner.n_moves}
        yield {**head, "seconds": round(seconds, 1), **told, "end": point == N_POINTS}


def reference_row(name: str, against: Sequence[str]) -> Row:
    """The row of a player of Daihinmin that learns nothing, in the matches of the evaluations."""
    told = evaluate(find_player(name), N_CYCLES * GAMES, against)
    return {"player": name, "against": list(against), "moves": None, **told, "end": True}


def beside(env: str, rows: Sequence[Row]) -> list[Row]:
    """The rows of the players that stand beside runs."""
    if env == "Game2048-v0":
        return list(table_rows(max(row["moves"] for row in rows)))
    opponents = sorted({tuple(row["against"]) for row in rows})
    return [reference_row(name, against) for against in opponents for name in REFERENCES]


def label(row: Row) -> str:
    """The player of a row, and its opponents, of whom those that are alike are named once."""
    told = row["against"]
    if told is None:
        return str(row["player"])
    return f"{row['player']} against {', '.join(told if len(set(told)) > 1 else told[:1])}"


def draw(rows: Sequence[Row], how: Shown, path: Path) -> None:
    """Draws means against moves, with their intervals as bands; what does not learn is a line."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for number, name in enumerate(dict.fromkeys(map(label, rows))):
        of = [row for row in rows if label(row) == name]
        moves, means, spreads = (
            np.array([row[key] for row in of], float) for key in ("moves", "mean", "interval")
        )
        if np.isnan(moves).all():
            axes.axhline(means[0], label=name, color=f"C{number}", linestyle="--")
            continue
        axes.plot(moves, means, label=name, color=f"C{number}")
        spreads = np.nan_to_num(spreads)  # of a single game or cycle there is none
        axes.fill_between(moves, means - spreads, means + spreads, alpha=0.2, color=f"C{number}")
    axes.set(xlabel="moves", ylabel=how.unit, yscale=how.scale)
    axes.grid(alpha=0.3)
    axes.legend()
    figures.save(figure, path)


def ends(rows: Sequence[Row], how: Shown) -> str:
    """What each player came to, and what it was earlier, as a table."""
    curves: dict[str, list[Row]] = {}
    for row in rows:
        curves.setdefault(label(row), []).append(row)
    body: list[list[str]] = []
    for player, curve in sorted(curves.items(), key=lambda pair: -pair[1][-1]["mean"]):
        row = curve[-1]
        moves = "" if row["moves"] is None else f"{row['moves']:,}" + " so far" * (not row["end"])
        hours = f"{row['seconds'] / 3600:.2g}" if "seconds" in row else ""
        before = [reached(at(curve, n), how) for n in how.earlier]
        body.append([player, moves, hours, *before, reached(row, how), f"{row['games']:,}"])
    after = [f"after {n:,} moves" for n in how.earlier]
    return markdown(["player", "moves", "hours", *after, how.unit, "games"], body)


def reached(row: Row | None, how: Shown) -> str:
    """A mean and its interval; nothing of no row."""
    if row is None:
        return ""
    spread = "" if row["interval"] is None else f" ± {row['interval']:,.{how.digits}f}"
    return f"{row['mean']:,.{how.digits}f}{spread}"


def at(curve: Sequence[Row], moves: int) -> Row | None:
    """The evaluation after about so many moves; None if there is none, or if it is the last."""
    near = [row for row in curve[:-1] if row["moves"] and abs(row["moves"] / moves - 1) < 0.02]
    return min(near, key=lambda row: abs(row["moves"] - moves), default=None)


def write(rows: Sequence[Row], how: Shown, out: Path) -> str:
    """Writes rows and figure of a game, and returns its section."""
    name = how.name.lower()
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (out / f"{name}.jsonl").write_text(text, encoding="utf-8")
    draw(rows, how, out / f"{name}.svg")
    return "\n".join([f"## {how.name}\n\n{how.about}\n", ends(rows, how), f"\n![]({name}.svg)"])


def written(how: Shown, out: Path) -> list[Row]:
    """The rows of a game that an earlier command has written; none if there was none.

    Raises:
        SystemExit: the file is damaged.
    """
    file = out / f"{how.name.lower()}.jsonl"
    try:
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise SystemExit(f"{file} is damaged: {error}") from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Collects what stable-baselines3 has learned.")
    parser.add_argument("--runs", type=Path, nargs="+", default=RUNS, help="folders of runs")
    parser.add_argument("--out", type=Path, default=RESULTS, help="(%(default)s)")
    parser.add_argument("--publish", action="store_true", help="take players into the package")
    args = parser.parse_args(arguments)
    found = read(args.runs)
    args.out.mkdir(parents=True, exist_ok=True)
    parts = [ABOUT]
    for env, how in SHOWN.items():
        rows = found.get(env, [])
        rows = [*rows, *beside(env, rows)] if rows else written(how, args.out)
        if rows:
            parts.append(write(rows, how, args.out) + "\n")
            print(ends(rows, how) + "\n")
    (args.out / "README.md").write_text("\n".join(parts), encoding="utf-8")
    if args.publish:
        publish(args.runs)


if __name__ == "__main__":
    main()

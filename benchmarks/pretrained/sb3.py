"""Results of the stable-baselines3 examples, compared with other players of the package.

    python examples/sb3_2048.py --algorithm maskable-ppo
    python examples/sb3_daihinmin.py --opponents sample
    python -m benchmarks.pretrained.sb3 --publish

Reads the evaluations of all runs in the folders, and writes rows, a figure and a table of each game
to `benchmarks/results/sb3`; a game without runs keeps its earlier rows. Runs of 2048 are compared
with an N-tuple network that learns from as many moves, runs of Daihinmin with players that do not
learn, against the same opponents. `--publish` also copies the players of finished runs into the
package; of Daihinmin only the best one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from scipy import stats

from afterstate.agents.config import settings
from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE, find_player, points_per_cycle
from afterstate.agents.daihinmin.values import actor_net
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values import policy_net
from afterstate.agents.game2048.values.ntuple import NTupleAgent
from afterstate.agents.training.evaluation import EVALUATION_SEED, summary
from afterstate.envs import durable_files, json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.json_files import Row
from afterstate.leaderboard import figures
from afterstate.text_tables import markdown

RESULTS = Path(__file__).parents[1] / "results" / "sb3"
TABLE = "N-tuple network, TC"
N_POINTS, N_GAMES = 25, 100
"""Points of the N-tuple network's curve, and games of each point."""

REFERENCES = ("heuristic", "sample")
"""Players that the runs of Daihinmin are compared with."""

N_CYCLES = 100
"""Cycles of 100 games that each of them plays."""

ABOUT = """# Results of stable-baselines3

`examples/sb3_2048.py` and `examples/sb3_daihinmin.py` trained;
`python -m benchmarks.pretrained.sb3` made this page from their evaluations. In evaluations a player
of the package takes the legal action that the network prefers, without exploration. The last
evaluation of a finished run has more games and plays `actor.safetensors`, the file that the run
leaves, with weights of 16 bits. Hours are wall time of learning and evaluations on one or two busy
cores; those of the N-tuple network are of learning only.

Moves are steps of the environment. PPO, DQN and QR-DQN do not use masks: their steps include
illegal moves of 2048. An illegal move ends the game in which DQN or QR-DQN learns, and does nothing
in those of PPO. Each run has one seed; results with another seed may differ.
"""


@settings
class Args:
    """Compare the results of the stable-baselines3 examples."""

    runs: tuple[Path, ...] = (Path("runs/sb3"), Path("runs/sb3_daihinmin"))
    """Folders of runs."""
    out: Path = RESULTS
    """Folder of the results."""
    publish: bool = False
    """Copy players into the package."""


class Game(NamedTuple):
    """The page's section of a game."""

    name: str
    measure: str
    scale: str  # of means in the figure
    digits: int  # of means in the table, after the point
    earlier: tuple[int, ...]  # numbers of moves after which means are in the table
    about: str


GAMES = {
    "Game2048-v0": Game(
        *("2048", "mean score", "log", 0, (1_000_000, 3_000_000)),
        "Mean scores with 95% intervals (normal, over games). The N-tuple network learns by "
        "temporal coherence, and plays greedily.",
    ),
    "Daihinmin-v0": Game(
        *("Daihinmin", "points per 100 games", "linear", 1, (200_000, 500_000)),
        "Points per 100 games with 95% intervals (Student's t, over cycles of 100 games). A run is "
        "named after its opponents in training; `self` is its own policy of the latest rollout. "
        "Five equal players get 300 points each; players that do not learn are lines.",
    ),
}
"""The games by their environments."""


def find_runs(folders: Sequence[Path]) -> Iterator[tuple[Path, Row, list[Row]]]:
    """Yield the folder, settings and rows of the runs in folders that have rows; not of `--smoke`.

    Raises:
        ValueError: a run has no settings.
    """
    for file in [file for folder in folders for file in sorted(folder.glob("*/rows.jsonl"))]:
        if not file.parent.name.startswith("smoke-"):
            try:
                options = json.loads((file.parent / "settings.json").read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise ValueError(f"{file.parent} is not a run of the examples: {error}") from error
            yield file.parent, options, json_files.rows(file)


def read(folders: Sequence[Path]) -> dict[str, list[Row]]:
    """Return the rows of all runs in folders, by their environments."""
    games: dict[str, list[Row]] = {}
    for run, options, rows in find_runs(folders):
        player = run.name  # of Daihinmin those of the opponents, which also play for themselves
        if options["env"] != "Game2048-v0":
            player = f"maskable-ppo, taught by {player}"
        key = {"player": player, "against": options.get("against")}
        games.setdefault(options["env"], []).extend({**key, **row} for row in rows)
    return games


def publish(folders: Sequence[Path]) -> None:
    """Copy the players of finished runs into the package, the best one last.

    Raises:
        ValueError: the points of runs were made against different opponents.
    """
    ended = [(rows[-1]["mean"], *run) for *run, rows in find_runs(folders) if rows[-1]["end"]]
    against = {json.dumps(options["against"]) for _, _, options in ended if "against" in options}
    if len(against) > 1:
        opponents = " and ".join(sorted(against))
        raise ValueError(f"runs against {opponents} cannot be compared: give folders of one kind")
    for mean, run, options in sorted(ended, key=lambda each: each[0]):
        is_2048 = options["env"] == "Game2048-v0"
        place = policy_net.BASELINES[options["algorithm"]] if is_2048 else actor_net.PRETRAINED
        durable_files.write(place, (run / "actor.safetensors").read_bytes())
        print(f"{place.name} is that of {run}, {mean:,.1f}")


def table_rows(n_moves: int) -> Iterator[Row]:
    """Yield the rows of an N-tuple network that learns 2048 for a number of moves."""
    learner, seconds = NTupleLearner(seed=1), 0.0
    for point in range(1, N_POINTS + 1):
        start = time.perf_counter()
        learner.learn(max(1, n_moves * point // N_POINTS - learner.n_moves))
        seconds += time.perf_counter() - start
        result = summary(play(NTupleAgent(learner.network), N_GAMES, seed=EVALUATION_SEED))
        scores = {"mean": result["mean"], "interval": result["interval"], "games": N_GAMES}
        key = {"player": TABLE, "against": None, "moves": learner.n_moves}
        yield {**key, "seconds": round(seconds, 1), **scores, "end": point == N_POINTS}


def reference_row(name: str, against: Sequence[str]) -> Row:
    """Return the row of a player of Daihinmin that does not learn, in matches as of evaluations."""
    points = points_per_cycle(find_player(name), against, N_CYCLES, EVALUATION_SEED)
    half = float(stats.t.ppf(0.975, N_CYCLES - 1) * stats.sem(points))
    scores = {"mean": round(float(np.mean(points)), 1), "interval": round(half, 1)}
    key = {"player": name, "against": list(against), "moves": None}
    return {**key, "games": N_CYCLES * GAMES_PER_CYCLE, **scores, "end": True}


def compared_rows(env: str, rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the players that runs are compared with."""
    if env == "Game2048-v0":
        return list(table_rows(max(row["moves"] for row in rows)))
    opponents = sorted({tuple(row["against"]) for row in rows})
    return [reference_row(name, against) for against in opponents for name in REFERENCES]


def label(row: Row) -> str:
    """Return the player of a row and its opponents; equal opponents are named once."""
    against = row["against"]
    if against is None:
        return str(row["player"])
    return f"{row['player']} against {', '.join(against if len(set(against)) > 1 else against[:1])}"


def curves(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return rows by the label of their player."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(label(row), []).append(row)
    return groups


def draw(rows: Sequence[Row], game: Game, path: Path) -> None:
    """Draw means with their intervals against moves; players that do not learn are lines."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for number, (name, curve) in enumerate(curves(rows).items()):
        moves, means, intervals = (
            np.array([row[key] for row in curve], float) for key in ("moves", "mean", "interval")
        )
        if np.isnan(moves).all():
            axes.axhline(means[0], label=name, color=f"C{number}", linestyle="--")
            continue
        axes.plot(moves, means, label=name, color=f"C{number}")
        half = np.nan_to_num(intervals)  # a single game or cycle has none
        axes.fill_between(moves, means - half, means + half, alpha=0.2, color=f"C{number}")
    axes.set(xlabel="moves", ylabel=game.measure, yscale=game.scale)
    axes.grid(alpha=0.3)
    axes.legend()
    figures.save(figure, path)


def table(rows: Sequence[Row], game: Game) -> str:
    """Return the last and earlier means of each player."""
    body: list[list[str]] = []
    for player, curve in sorted(curves(rows).items(), key=lambda pair: -pair[1][-1]["mean"]):
        row = curve[-1]
        moves = "" if row["moves"] is None else f"{row['moves']:,}" + " so far" * (not row["end"])
        hours = f"{row['seconds'] / 3600:.2g}" if "seconds" in row else ""
        earlier = [mean_text(near(curve, n), game) for n in game.earlier]
        body.append([player, moves, hours, *earlier, mean_text(row, game), f"{row['games']:,}"])
    after = [f"after {n:,} moves" for n in game.earlier]
    return markdown(["player", "moves", "hours", *after, game.measure, "games"], body)


def mean_text(row: Row | None, game: Game) -> str:
    """Return a mean and half of its interval, empty without a row."""
    if row is None:
        return ""
    half = "" if row["interval"] is None else f" ± {row['interval']:,.{game.digits}f}"
    return f"{row['mean']:,.{game.digits}f}{half}"


def near(curve: Sequence[Row], moves: int) -> Row | None:
    """Return the evaluation within 2% of a number of moves, but for the last; None if none is."""
    rows = [row for row in curve[:-1] if row["moves"] and abs(row["moves"] / moves - 1) < 0.02]
    return min(rows, key=lambda row: abs(row["moves"] - moves), default=None)


def write(rows: Sequence[Row], game: Game, out: Path) -> str:
    """Write the rows and the figure of a game, and return its section of the page."""
    name = game.name.lower()
    json_files.write_rows(out / f"{name}.jsonl", rows)
    draw(rows, game, out / f"{name}.svg")
    return f"## {game.name}\n\n{game.about}\n\n{table(rows, game)}\n\n![]({name}.svg)\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.pretrained.sb3", arguments)
    games, parts = read(args.runs), [ABOUT]
    if not any(games.values()) and not list(args.out.glob("*.jsonl")):
        places = ", ".join(map(str, args.runs))
        raise ValueError(f"no evaluations in {places}: run examples/sb3_2048.py first")
    args.out.mkdir(parents=True, exist_ok=True)
    for env, game in GAMES.items():
        rows = games.get(env, [])
        if rows:
            rows = [*rows, *compared_rows(env, rows)]
        else:
            rows = json_files.rows(args.out / f"{game.name.lower()}.jsonl")
        if rows:
            parts.append(write(rows, game, args.out))
            print(table(rows, game) + "\n")
    (args.out / "README.md").write_text("\n".join(parts), encoding="utf-8")
    if args.publish:
        publish(args.runs)


if __name__ == "__main__":
    sys.exit(run_process(main))

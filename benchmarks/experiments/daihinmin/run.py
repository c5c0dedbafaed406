"""Repeats the experiments of Kuwabara and Hoki (2018) with rank networks, at a smaller scale.

    python benchmarks/experiments/daihinmin/run.py logs train --runs runs
    python benchmarks/experiments/daihinmin/run.py logs play --runs runs --self runs/net.safetensors
    python benchmarks/experiments/daihinmin/run.py logs draw
    python benchmarks/experiments/daihinmin/run.py generations train --runs runs

The settings file `NAME.json` says which networks learn, and how. `train` lets them learn, one after
the other, each in a folder of `--runs`; it goes on where it was interrupted. `play` draws five of
the players again and again, and lets them play sets of 100 games, from one class reset to the next;
a row for each set goes to `benchmarks/results/experiments/daihinmin/NAME.jsonl`. Then, and with
`draw` alone, come the table with the published values, `NAME.md`, and the figure, `NAME.svg`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import fresh_kernels  # noqa: F401 - first of all that uses numba
import numpy as np
import torch
from experiments.daihinmin import report
from torch import nn
from tqdm import tqdm

from afterstate.agents.daihinmin import rank_nets
from afterstate.agents.daihinmin.learning import errors, samples
from afterstate.agents.daihinmin.self_play import RULE_PLAYERS, play_games
from afterstate.agents.daihinmin.training import Run, Standing, points_against_sample
from afterstate.envs.daihinmin.rules import N_PLAYERS

HERE = Path(__file__).parent
RESULTS = Path(__file__).parents[2] / "results" / "experiments" / "daihinmin"
GAMES = 100

Row = dict[str, Any]


def experiment(name: str) -> dict[str, Any]:
    """The settings of an experiment."""
    told: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return told


def runs_of(told: dict[str, Any]) -> dict[str, Run]:
    """The training runs of an experiment: one for each network, or one of which all come."""
    if "network" in told["run"]:
        return {"all": Run(**told["run"])}
    names = ("network", "epsilon", "iterations")
    return {
        name: Run(**told["run"] | {key: player[key] for key in names if key in player})
        for name, player in told["players"].items()
        if "network" in player
    }


# Training


def train(told: dict[str, Any], folder: Path, only: Sequence[str], jobs: int) -> None:
    """Lets the networks learn; what is there is kept."""
    for name, run in runs_of(told).items():
        if only and name not in only:
            continue
        out = folder / name
        standing = Standing(out, run, "cpu", (out / "net.safetensors").exists())
        left = range(standing.generation, told["generations"])
        for _ in tqdm(left, desc=name, unit=" generations"):
            row = standing.advance(jobs, lambda n: None)
            points, error = points_against_sample(standing.learner.played, 1_000, 1 << 40, run)
            row |= {"against_sample": round(points, 1), "error": round(error, 1)}
            with (out / "rows.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


# Play


def load_players(
    told: dict[str, Any], folder: Path, self_net: Path | None
) -> dict[str, nn.Module | str]:
    """The players of an experiment that are there, by name."""
    found: dict[str, nn.Module | str] = {}
    for name, player in told["players"].items():
        path = folder / name / "net.safetensors"
        if "network" in told["run"]:
            path = folder / "all" / "pool" / f"{int(name):05}.safetensors"
        if player.get("file") and self_net is not None:
            path = self_net
        if name in RULE_PLAYERS:
            found[name] = name
        elif path.exists():
            found[name] = rank_nets.load(path)
    return found


def play_draw(
    players: dict[str, nn.Module | str], names: list[str], n_sets: int, seed: int
) -> list[Row]:
    """Five players play sets of games: a row for each set."""
    seated = [players[name] for name in names]
    log = play_games(seated, GAMES * n_sets, seed, n_matches=n_sets)
    of = samples(log)
    matches = log.games["seed"]
    squares = np.full((n_sets, N_PLAYERS), np.nan)
    visits = np.zeros((n_sets, N_PLAYERS), np.int64)
    for player, net in enumerate(seated):
        if isinstance(net, str):
            continue
        part = of.part(np.flatnonzero(of.moments.players == player))
        squared = errors(net, part) ** 2
        for i, match in enumerate(np.unique(matches)):
            mine = matches[part.moments.origins] == match
            squares[i, player], visits[i, player] = squared[mine].sum(), mine.sum()
    points = N_PLAYERS - log.games["places"]
    return [
        {
            "seed": seed,
            "set": i,
            "players": names,
            "points": points[matches == match].sum(axis=0).tolist(),
            "visits": visits[i].tolist(),
            "squared_error": [None if x != x else round(x, 2) for x in squares[i].tolist()],
        }
        for i, match in enumerate(np.unique(matches))
    ]


def draws(
    players: dict[str, nn.Module | str], n_draws: int, n_sets: int, first: int
) -> Iterator[list[Row]]:
    """Draws five players without repetition again and again, and lets them play."""
    for draw in range(first, n_draws):
        rng = np.random.default_rng([1, draw])
        names = [str(name) for name in rng.choice(list(players), N_PLAYERS, replace=False)]
        yield play_draw(players, names, n_sets, draw)


def play(told: dict[str, Any], players: dict[str, Any], n_draws: int, path: Path) -> None:
    """Plays the draws that are missing in the file of rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    first = 1 + max((row["seed"] for row in read_rows(path)), default=-1)
    sets = told["sets"]
    with path.open("a", encoding="utf-8") as file:
        played = draws(players, n_draws, sets, first)
        for rows in tqdm(played, total=n_draws, initial=first, unit=" draws"):
            file.writelines(json.dumps(row) + "\n" for row in rows)
            file.flush()


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, none if it is not there."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def curves(told: dict[str, Any], folder: Path | None, out: Path) -> dict[str, list[Row]]:
    """The rows of the training runs, which are copied beside the results."""
    kept = out.with_suffix(".training.json")
    if folder is not None:
        found = {name: read_rows(folder / name / "rows.jsonl") for name in runs_of(told)}
        kept.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    told_before: dict[str, list[Row]] = json.loads(kept.read_text(encoding="utf-8"))
    return told_before


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Repeats an experiment with rank networks.")
    add = parser.add_argument
    add("name", choices=sorted(path.stem for path in HERE.glob("*.json")))
    add("what", choices=("train", "play", "draw"))
    add("--runs", type=Path, help="folder of the training runs")
    add("--only", nargs="+", default=[], help="networks to train (all)")
    add("--self", type=Path, dest="self_net", help="the network of self-play")
    add("--draws", type=int, default=100, help="of five players (%(default)s)")
    add("--jobs", type=int, default=1, help="processes that play while training (%(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.runs is None and chosen.what != "draw":
        parser.error("say where the training runs are: --runs")
    told, out = experiment(chosen.name), RESULTS / f"{chosen.name}.jsonl"
    torch.set_num_threads(1)
    folder: Path | None = None if chosen.runs is None else chosen.runs / chosen.name
    if chosen.what == "train" and folder is not None:
        train(told, folder, chosen.only, chosen.jobs)
        return
    if chosen.what == "play" and folder is not None:
        players = load_players(told, folder, chosen.self_net)
        if len(players) < N_PLAYERS:
            parser.error(f"five players sit down, and there are {list(players)}: train them first")
        play(told, players, chosen.draws, out)
    out.parent.mkdir(parents=True, exist_ok=True)
    report.write(told, read_rows(out), curves(told, folder, out), out.with_suffix(""))
    print(out.with_suffix(".md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()

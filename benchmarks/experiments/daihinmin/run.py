r"""Repeats the experiments of Kuwabara and Hoki (2018) with rank networks, at a smaller scale.

    python -m benchmarks.experiments.daihinmin.run generations train --runs runs
    python -m benchmarks.experiments.daihinmin.run generations play --runs runs
    python -m benchmarks.experiments.daihinmin.run logs train --runs runs
    python -m benchmarks.experiments.daihinmin.run logs play --runs runs \
        --self runs/generations/all/net.safetensors
    python -m benchmarks.experiments.daihinmin.run logs draw

The settings file `NAME.json` says which networks learn, and how. `train` lets them learn, one after
the other, each in a folder of `--runs`. `play` draws five of the players again and again, and lets
them play sets of 100 games, from one class reset to the next; a row for each set goes to
`benchmarks/results/experiments/daihinmin/NAME.jsonl`, and says among which players it was drawn:
those of other players are not mixed with them. Both go on where they were interrupted. Then, and
with `draw` alone, come the tables with the published values, `NAME.md`, and the figure, `NAME.svg`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from afterstate.agents import files, nets
from afterstate.agents.config import from_dict
from afterstate.agents.daihinmin.learning.rank_learner import errors, samples
from afterstate.agents.daihinmin.learning.rank_training import RankOptions, RankTraining, Run
from afterstate.agents.daihinmin.learning.self_play import RULE_PLAYERS, play_games
from afterstate.agents.daihinmin.values import rank_net
from afterstate.agents.training import __main__ as training
from afterstate.envs.daihinmin.rules import N_PLAYERS
from benchmarks.experiments.daihinmin import report

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
        return {"all": from_dict(told["run"], Run)}
    names = ("network", "epsilon", "iterations")
    return {
        name: from_dict(told["run"] | {key: player[key] for key in names if key in player}, Run)
        for name, player in told["players"].items()
        if "network" in player
    }


def generations_of(told: dict[str, Any]) -> list[int]:
    """The generations that are players, where all come of one run."""
    return [int(name) for name in told["players"]] if "network" in told["run"] else []


# Training


def train(told: dict[str, Any], folder: Path, chosen: argparse.Namespace) -> None:
    """Lets the networks learn; what is there is kept."""
    for name, run in runs_of(told).items():
        if chosen.only and name not in chosen.only:
            continue
        out = folder / name
        try:
            total = told["generations"]
            options = RankOptions(
                out,
                resume=(out / "net.safetensors").exists(),
                evaluate=1_000,
                generations=total,
                jobs=chosen.jobs,
                device=chosen.device,
            )
            trainee = cast(RankTraining, training.start(run, options)[0])
            with tqdm(total=total, initial=trainee.amount, desc=name, unit=" generations") as bar:
                advance(trainee, total, generations_of(told), bar)
        except (OSError, ValueError) as error:
            raise SystemExit(str(error)) from error


def advance(trainee: RankTraining, generations: int, kept: Collection[int], bar: Any) -> None:
    """Lets a network learn until it has so many generations, and measures each.

    Args:
        trainee: the run.
        generations: their number.
        kept: the generations that are copied to `players/`, for the pool drops the oldest.
        bar: shows generations.
    """
    trainee.prepare()
    while True:
        if trainee.generation in kept:
            latest = trainee.pool()[-1]
            files.write_bytes(trainee.out / "players" / latest.name, latest.read_bytes())
        rows = [row for row in trainee.folder.rows() if row["generation"] == trainee.generation]
        if trainee.generation > 0 and not any("against_sample" in row for row in rows):
            trainee.folder.add_row({**trainee.position(), **trainee.evaluate()})
        if trainee.generation >= generations:
            return
        trainee.advance()
        trainee.save()
        bar.update()
        bar.set_postfix(trainee.report())


# Play


def load_players(
    told: dict[str, Any], folder: Path, self_net: Path | None, device: str = "cpu"
) -> dict[str, nn.Module | str]:
    """The players of an experiment that are there, by name."""
    found: dict[str, nn.Module | str] = {}
    for name, player in told["players"].items():
        path = folder / name / "net.safetensors"
        if "network" in told["run"]:
            path = folder / "all" / "pool" / f"{int(name):05}.safetensors"
            path = path if path.exists() else folder / "all" / "players" / path.name
        if player.get("file") and self_net is not None:
            path = self_net
        if name in RULE_PLAYERS:
            found[name] = name
        elif path.exists():
            found[name] = rank_net.load(path, device)
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
            "sets": n_sets,
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


def fingerprint(players: dict[str, nn.Module | str]) -> str:
    """Twelve characters that tell players apart, by names, order and weights of networks."""
    found = hashlib.sha256()
    for name, player in players.items():
        found.update(f"{name}\n".encode())
        if isinstance(player, nn.Module):
            for weights in player.state_dict().values():
                found.update(weights.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()[:12]


def play(told: dict[str, Any], players: dict[str, Any], n_draws: int, path: Path) -> None:
    """Plays the draws that are missing in the file of rows.

    Raises:
        SystemExit: the draws there are of other players.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    before, among = whole_draws(read_rows(path)), fingerprint(players)
    if any(row.get("among") != among for row in before):
        raise SystemExit(
            f"the draws in {path} are of other players, or of networks that have learned since: "
            "move it away or delete it"
        )
    last = max((row["seed"] for row in before), default=-1)
    files.truncate_rows(path, "seed", last)
    played = draws(players, n_draws, told["sets"], last + 1)
    for rows in tqdm(played, total=n_draws, initial=last + 1, unit=" draws"):
        add_rows(path, [{**row, "among": among} for row in rows])


# Files of rows


def add_rows(path: Path, rows: list[Row]) -> None:
    """Adds rows to a file, all in one write, so that a kill hardly ever leaves some of them."""
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, none if it is not there, without a line that a kill cut off."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):
            rows.append(json.loads(line))
    return rows


def whole_draws(rows: list[Row]) -> list[Row]:
    """The rows of the draws of which all sets are there."""
    n_sets = Counter(row["seed"] for row in rows)
    return [row for row in rows if n_sets[row["seed"]] == row["sets"]]


def curves(told: dict[str, Any], folder: Path | None, kept: Path) -> dict[str, list[Row]]:
    """The rows of the training runs, which are copied beside the results."""
    if folder is not None:
        found = {name: read_rows(folder / name / "rows.jsonl") for name in runs_of(told)}
        files.write_bytes(kept, (json.dumps(found, indent=0) + "\n").encode())
    told_before: dict[str, list[Row]] = json.loads(kept.read_text(encoding="utf-8"))
    return told_before


# The command line


def _parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description="Repeats an experiment with rank networks.")
    add = parser.add_argument
    add("name", choices=sorted(path.stem for path in HERE.glob("*.json")))
    add("what", choices=("train", "play", "draw"))
    add("--runs", type=Path, help="folder of the training runs")
    add("--only", nargs="+", default=[], help="networks to train (all)")
    add("--self", type=Path, dest="self_net", help="the network of self-play")
    add("--draws", type=int, default=100, help="of five players (%(default)s)")
    add("--jobs", type=int, default=1, help="processes that play while training (%(default)s)")
    add("--device", default="cpu", help="where networks learn and play: cpu, cuda (%(default)s)")
    return parser


def fault(told: dict[str, Any], chosen: argparse.Namespace) -> str | None:
    """What is wrong with what is asked for, if anything."""
    names = list(runs_of(told))
    if unknown := [name for name in chosen.only if name not in names]:
        return f"no network is called {unknown[0]!r}, but {', '.join(names)}"
    if min(chosen.draws, chosen.jobs) < 1:
        return "draws and jobs are from 1 on"
    if chosen.self_net is not None:
        if not any(player.get("file") for player in told["players"].values()):
            return "no player of this experiment is a network from elsewhere: leave out --self"
        if not chosen.self_net.is_file():
            return f"there is no file {chosen.self_net} for --self"
    if chosen.runs is None and chosen.what != "draw":
        return "say where the training runs are: --runs"
    if chosen.runs is not None and chosen.what != "train":
        folder = chosen.runs / chosen.name
        return None if folder.is_dir() else f"{folder} is not there: train first"
    return None


def find_players(
    told: dict[str, Any], folder: Path, chosen: argparse.Namespace
) -> dict[str, nn.Module | str]:
    """The players that are there.

    Raises:
        ValueError: they are fewer than five, or one of them cannot be read.
    """
    players = load_players(told, folder, chosen.self_net, chosen.device)
    if len(players) < N_PLAYERS:
        raise ValueError(f"five players sit down, and there are {list(players)}: train them first")
    if missing := [name for name in told["players"] if name not in players]:
        print(f"Not here, so they do not play: {', '.join(missing)}", file=sys.stderr)
    return players


def show(told: dict[str, Any], folder: Path | None, out: Path) -> None:
    """Writes the tables and the figure, and prints the tables."""
    rows, kept = whole_draws(read_rows(out)), out.with_suffix(".training.json")
    if not rows:
        raise SystemExit(f"{out} has no draws: play some first")
    if folder is None and not kept.exists():
        raise SystemExit(f"{kept} is not there: say where the training runs are, --runs")
    report.write(told, rows, curves(told, folder, kept), out.with_suffix(""))
    print(out.with_suffix(".md").read_text(encoding="utf-8"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    told, out = experiment(chosen.name), RESULTS / f"{chosen.name}.jsonl"
    if wrong := fault(told, chosen):
        parser.error(wrong)
    torch.set_num_threads(1)
    folder: Path | None = None if chosen.runs is None else chosen.runs / chosen.name
    players: dict[str, nn.Module | str] = {}
    try:
        nets.check_device(chosen.device)
        if chosen.what == "play" and folder is not None:
            players = find_players(told, folder, chosen)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if chosen.what == "train" and folder is not None:
        train(told, folder, chosen)
        return
    if chosen.what == "play":
        play(told, players, chosen.draws, out)
    show(told, folder, out)


if __name__ == "__main__":
    main()

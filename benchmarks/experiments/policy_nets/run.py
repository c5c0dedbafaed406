"""Repeats the study of policy networks of Matsuzaki and Teramura, at the scale of `study.json`.

    python benchmarks/experiments/policy_nets/run.py log --runs runs/policy --jobs 2
    python benchmarks/experiments/policy_nets/run.py train --runs runs/policy
    python benchmarks/experiments/policy_nets/run.py play --runs runs/policy
    python benchmarks/experiments/policy_nets/run.py inside --runs runs/policy

`log` writes the play log. `train` lets networks learn from it, each in a folder of `--runs`; with
`--layers 2` only that one, so that they may learn beside each other. Both go on where they were
interrupted. `play` plays the games of
table 2 with those that have learned; a row for each goes to
`benchmarks/results/experiments/policy_nets/games.jsonl`. `inside` has the network with the most
layers play 20 games, whose positions are those of section 6, and writes the tables and pictures of
sections 4 to 6, with the published values beside ours, to `README.md` there.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import fresh_kernels  # noqa: F401 - first of all that uses numba
import numpy as np
import torch
from machine import machine
from torch import nn

from afterstate.agents import nets
from afterstate.agents.game2048 import analysis, inside, play_logs, policy_learning
from afterstate.agents.game2048.analysis import STUDY_BOARDS, TILES
from afterstate.agents.game2048.inside import markdown
from afterstate.agents.game2048.policy_net import chances, choices, load, network
from afterstate.envs.game2048 import rules, torch_rules

HERE = Path(__file__).parent
RESULTS = Path(__file__).parents[2] / "results" / "experiments" / "policy_nets"
SNAKES = list(STUDY_BOARDS)[:3]
ROWS = {"last layer": {2: 6, 5: 4}, "layer before": {2: 11, 5: 11}}
"""Rows of tables 4 to 7, by the layers of the network."""


def study() -> dict[str, Any]:
    """The settings and the published values."""
    told: dict[str, Any] = json.loads((HERE / "study.json").read_text(encoding="utf-8"))
    return told


def published_filters() -> dict[tuple[int, str], analysis.Floats]:
    """The filters of table 3, `[4, 16]` each, by layers and name."""
    found: dict[tuple[int, str], list[list[float]]] = {}
    with (HERE / "published_filters.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            of = int(row["layers"]), row["filter"]
            found.setdefault(of, []).append([float(row[tile]) for tile in TILES])
    return {of: np.array(rows) for of, rows in found.items()}


# Table 2


def log(chosen: argparse.Namespace) -> None:
    """Writes the log that networks learn from."""
    told, path = study()["log"], chosen.runs / "moves.npy"
    of = ["--player", told["player"], "--moves", str(told["moves"]), "--seed", str(told["seed"])]
    goes_on = ["--resume"] if path.with_suffix(".parts").exists() else []
    play_logs.main([str(path), *of, "--jobs", str(chosen.jobs), *goes_on])


def train(chosen: argparse.Namespace) -> None:
    """Lets networks learn."""
    told = study()
    for layers in chosen.layers or told["layers"]:
        out = chosen.runs / f"k{layers}"
        settings = {"network": {"layers": layers}, "log": str(chosen.runs / "moves.npy")}
        settings |= {"learner": told["learner"], "seed": told["seed"]}
        out.mkdir(parents=True, exist_ok=True)
        (out / "asked.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
        goes_on = ["--resume"] if (out / "learner.safetensors").exists() else []
        how = ["--moves", str(told["log"]["moves"]), "--evaluate", "1:50", "--save-minutes", "5"]
        policy_learning.main([str(out / "asked.json"), "--out", str(out), *how, *goes_on])


def networks(runs: Path) -> dict[int, nn.Module]:
    """The networks that have learned all moves, by their layers."""
    told, found = study(), {}
    for layers in told["layers"]:
        file = runs / f"k{layers}" / "net.safetensors"
        if file.exists() and nets.about(file).get("n_moves", 0) >= told["log"]["moves"]:
            found[layers] = load(file)
    if not found:
        raise SystemExit(f"no network in {runs} has learned all moves: train some first")
    return found


def play(chosen: argparse.Namespace) -> None:
    """Plays the games of table 2."""
    games, path = chosen.games or study()["games"], RESULTS / "games.jsonl"
    found = networks(chosen.runs)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for layers, net in found.items():
            about = nets.about(chosen.runs / f"k{layers}" / "net.safetensors")
            row = {"layers": layers, "moves": about["n_moves"], "seconds": about.get("seconds")}
            row |= {**policy_learning.evaluate(net, games), "machine": machine()}
            file.write(json.dumps(row) + "\n")
            print(f"k = {layers}: {row['mean']:,.0f} ± {row['interval']:,.0f}")


def table_2(published: dict[str, Any]) -> str:
    """Scores of the networks."""
    lines = (RESULTS / "games.jsonl").read_text(encoding="utf-8").splitlines()
    latest = {row["layers"]: row for row in map(json.loads, lines)}
    head = ["layers", "mean, 95 % interval", "max", "games", "published mean", "published max"]
    rows = []
    for layers, row in sorted(latest.items()):
        theirs = published["scores"][str(layers)]
        ours = [f"{row['mean']:,.0f} ± {row['interval']:,.0f}", f"{row['max']:,}"]
        of = f"{row['n_games']:,}"
        rows.append([str(layers), *ours, of, f"{theirs['mean']:,}", f"{theirs['max']:,}"])
    return markdown(head, rows)


# Inside


def table_3(found: Mapping[int, nn.Module]) -> str:
    """For each published filter the most similar one of ours; both are drawn.

    Beside it is how similar the most similar filter of a network is that has learned nothing.
    """
    rows, drawn, titles = [], [], []
    with nets.seeded(1):
        new = {
            layers: analysis.first_layer(network("PolicyCNN", layers=layers)) for layers in found
        }
    for (layers, name), pattern in published_filters().items():
        if layers not in found:
            continue
        weights = analysis.first_layer(found[layers])
        number, side, cosine = analysis.most_similar(weights, pattern)
        by_chance = analysis.most_similar(new[layers], pattern)[2]
        said = [f"k = {layers}, #{name}", f"#{number}", str(side)]
        rows.append([*said, f"{cosine:.2f}", f"{by_chance:.2f}"])
        drawn += [pattern, weights[number]]
        titles += [f"k = {layers}, #{name}, published", f"ours, #{number}, {cosine:.2f}"]
    scaled = np.stack([each / np.abs(each).max() for each in drawn])
    inside.draw_filters(scaled, titles, RESULTS / "filters.png")
    head = ["published", "ours", "turned by symmetry", "cosine", "of a new network"]
    return markdown(head, rows)


def tables_4_to_7(net: nn.Module, layers: int, published: dict[str, Any]) -> str:
    """The contributions to down, of the last layer and the one before, ours and the study's."""
    words = [rules.from_text(STUDY_BOARDS[name]) for name in SNAKES]
    down = inside.ACTIONS.index("down")
    traced = [analysis.contributions(net, word, down, 2, [28]) for word in words]
    said = []
    for i, (what, n_rows) in enumerate(ROWS.items()):
        table = inside.contribution_table([each[i] for each in traced], SNAKES, n_rows[layers])
        theirs = published[what][str(layers)]
        sums, rows = np.zeros(3), []
        for unit, *shares in theirs:
            sums += shares
            pairs = zip(shares, sums.tolist(), strict=True)
            rows.append([unit, *(f"{share:.1f} ({total:.1f})" for share, total in pairs)])
        head = ["unit", "a: % (sum)", "b: % (sum)", "c: % (sum)"]
        said += [f"Inputs of the {what}, ours:", table, "Published:", markdown(head, rows)]
    tops = [{unit for unit, _ in analysis.top_units(each[0], 4)} for each in traced]
    four = (sum(share for _, share in analysis.top_units(each[0], 4)) for each in traced)
    covered = ", ".join(f"{100 * share:.1f}" for share in four)
    shared = len(set.intersection(*tops))
    said.append(
        f"The four largest inputs of the last layer have {covered} % on the three boards; "
        f"{shared} of them are the same on all three."
    )
    return "\n\n".join(said)


def figure_5(found: Mapping[int, nn.Module], published: dict[str, Any]) -> str:
    """What the networks say of the boards of figure 5."""
    rows = []
    for name in ("5a", "5b"):
        board = torch_rules.from_words(np.array([rules.from_text(STUDY_BOARDS[name])], np.uint64))
        for layers, net in found.items():
            ours = chances(net, board)[0].tolist()
            theirs = published.get(name, {}).get(str(layers))
            told = "" if theirs is None else " ".join(f"{p:.3f}" for p in theirs)
            rows.append([f"{name}, k = {layers}", " ".join(f"{p:.3f}" for p in ours), told])
    return markdown(["board, network", "up right down left", "published"], rows)


def section_6(found: Mapping[int, nn.Module], runs: Path, published: dict[str, Any]) -> str:
    """Agreement on the positions of games of the network with the most layers."""
    strongest = max(found)
    log = runs / f"states_k{strongest}.npy"
    if not log.exists():
        player = str(runs / f"k{strongest}" / "net.safetensors")
        of = ["--player", player, "--games", "20", "--skip", "100", "--beside", "20"]
        goes_on = ["--resume"] if log.with_suffix(".parts").exists() else []
        play_logs.main([str(log), *of, *goes_on])
    boards = torch_rules.from_words(play_logs.read(log)["board"])
    named = {f"k = {layers}": net for layers, net in found.items()}
    moves = torch.stack([choices(net, boards) for net in named.values()])
    ours = inside.agreement_table(list(named), analysis.agreement(moves))
    theirs = published["agreement"]
    share = 100 / theirs["boards"]
    counts = [("all agree", theirs["all"]), ("only k = 2 differs", theirs["only k = 2"])]
    rows = [[what, f"{n:,}", f"{share * n:.1f}"] for what, n in counts]
    head = f"published, four networks, of {theirs['boards']:,} boards"
    table = markdown([head, "boards", "%"], rows)
    draw_disagreements(found[min(found)], found[strongest], boards)
    probes = inside.probe_table(named, boards[:4_000])
    return "\n\n".join([ours, table, inside.heuristics_table(named, boards), probes])


def draw_disagreements(weak: nn.Module, strong: nn.Module, boards: torch.Tensor) -> None:
    """Draws the six boards on which two networks differ most surely."""
    places = analysis.disagreements(weak, strong, boards, 6)
    named = {f"k = {nets.kind(net)['settings']['layers']}": net for net in (weak, strong)}
    said = [inside.said(named, board) for board in boards[places]]
    words = torch_rules.to_words(boards[places]).tolist()
    inside.draw_boards(words, said, RESULTS / "boards.png")


def look(chosen: argparse.Namespace) -> None:
    """Writes the tables and pictures of what is inside."""
    told, found = study()["published"], networks(chosen.runs)
    if len(found) < 2 or not {2, 5} & set(found):
        raise SystemExit("the tables need two networks, k = 2 or 5 among them")
    if not (RESULTS / "games.jsonl").exists():
        raise SystemExit(f"{RESULTS / 'games.jsonl'} is not there: `play` first")
    weights = {f"k = {layers}": analysis.first_layer(net) for layers, net in found.items()}
    inside.draw_weights(weights, RESULTS / "weights.svg")
    parts = ["# " + study()["title"], (HERE / "text.md").read_text(encoding="utf-8").rstrip()]
    parts += ["## Table 2: scores", table_2(told)]
    parts += ["## Table 3: filters of the first layer", table_3(found), "![](filters.png)"]
    parts += ["## Figure 3: large weights", "![](weights.svg)"]
    for layers in (2, 5):
        if layers in found:
            tables = "4 and 5" if layers == 2 else "6 and 7"
            parts += [f"## Tables {tables}: contributions to down, k = {layers}"]
            parts += [tables_4_to_7(found[layers], layers, told)]
    parts += ["## Section 6: agreement and heuristics", section_6(found, chosen.runs, told)]
    parts += ["![](boards.png)", "## Figure 5", figure_5(found, told)]
    (RESULTS / "README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"written: {RESULTS / 'README.md'}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Repeats the study of policy networks.")
    commands = {"log": log, "train": train, "play": play, "inside": look}
    parser.add_argument("command", choices=list(commands))
    parser.add_argument("--runs", type=Path, required=True, help="folder of networks and logs")
    parser.add_argument("--layers", type=int, nargs="+", help="networks that learn (all)")
    parser.add_argument("--jobs", type=int, default=1, help="that write the log (%(default)s)")
    parser.add_argument("--games", type=int, help="of table 2, instead of those in study.json")
    chosen = parser.parse_args(arguments)
    if chosen.games is not None and chosen.games < 2:
        parser.error("--games is from 2 on")
    try:
        commands[chosen.command](chosen)
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()

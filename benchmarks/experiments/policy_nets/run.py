"""Repeats the study of policy networks of Matsuzaki and Teramura, at the scale of `study.json`.

    python -m benchmarks.experiments.policy_nets.run log --runs runs/policy --jobs 2
    python -m benchmarks.experiments.policy_nets.run train --runs runs/policy
    python -m benchmarks.experiments.policy_nets.run play --runs runs/policy
    python -m benchmarks.experiments.policy_nets.run inside --runs runs/policy
    python -m benchmarks.experiments.policy_nets.run contributions --runs runs/policy

`log` writes the play log. `train` lets networks learn from it, each in a folder of `--runs`; with
`--layers 2` only that one, so that they may learn beside each other. Both go on where they were
interrupted. `play` plays the games of table 2 with those that have learned; a row for each goes to
`benchmarks/results/experiments/policy_nets/games.jsonl`. `inside` has the network with the most
layers play 20 games, whose positions are those of section 6, and more games for the probes, and
writes the tables and pictures of sections 4 to 6, with the published values beside ours, to
`README.md` there.

`contributions` writes tables 4 to 7 of the page again, by the pretrained networks of the package.

With `--moves 6e8` all commands are for as many moves as the study had, and with `--device cuda`
networks learn and play on a GPU.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.play import play as games
from afterstate.agents.game2048.values.policy_net import (
    PRETRAINED,
    PolicyNetAgent,
    best_moves,
    load,
    network,
    probabilities,
)
from afterstate.agents.training import __main__ as training
from afterstate.agents.training.commands import above_0, markdown
from afterstate.agents.training.run import EVALUATION_SEED, summary
from afterstate.envs.game2048 import rules, torch_rules
from benchmarks.experiments.policy_nets import analysis, inside
from benchmarks.experiments.policy_nets.analysis import STUDY_BOARDS, TILES
from benchmarks.machine import machine

HERE = Path(__file__).parent
RESULTS = Path(__file__).parents[2] / "results" / "experiments" / "policy_nets"
FIGURE_4 = list(STUDY_BOARDS)[:3]
ROWS = {"last layer": {2: 6, 5: 4}, "layer before": {2: 11, 5: 11}}
"""Rows of tables 4 to 7, by the layers of the network."""

UP_ON_5B = "(0, 3)#154 has the largest share"

PROBE_GAMES, PROBED = 200, 5_000
"""Games, and the most boards of them, to which probes are fitted, and by which they are judged."""


def study() -> dict[str, Any]:
    """The settings and the published values."""
    told: dict[str, Any] = json.loads((HERE / "study.json").read_text(encoding="utf-8"))
    return told


def moves(chosen: argparse.Namespace) -> float:
    """How many moves networks learn."""
    return float(chosen.moves or study()["log"]["moves"])


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
    of = ["--player", told["player"], "--moves", str(moves(chosen)), "--seed", str(told["seed"])]
    goes_on = ["--resume"] if path.with_suffix(".parts").exists() else []
    play_logs.main([str(path), *of, "--jobs", str(chosen.jobs), *goes_on])


def train(chosen: argparse.Namespace) -> None:
    """Lets networks learn."""
    told = study()
    for layers in chosen.layers or told["layers"]:
        out = chosen.runs / f"k{layers}"
        settings = {"network": {"layers": layers}, "log": str(chosen.runs / "moves.npy")}
        settings |= {"learner": {**told["learner"], "decay": moves(chosen)}, "seed": told["seed"]}
        out.mkdir(parents=True, exist_ok=True)
        (out / "asked.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
        goes_on = ["--resume"] if (out / "learner.safetensors").exists() else []
        how = ["--moves", str(moves(chosen)), "--evaluate", "1:50", "--save-minutes", "5"]
        how += ["--device", chosen.device, "--threads", str(chosen.threads)]
        training.main(["policy", str(out / "asked.json"), "--out", str(out), *how, *goes_on])


def networks(chosen: argparse.Namespace, device: str = "cpu") -> dict[int, nn.Module]:
    """The networks that have learned all moves, by their layers."""
    found = {}
    for layers in study()["layers"]:
        file = chosen.runs / f"k{layers}" / "net.safetensors"
        if file.exists() and nets.metadata(file).get("n_moves", 0) >= moves(chosen):
            found[layers] = load(file, device)
    if not found:
        raise SystemExit(f"no network in {chosen.runs} has learned all moves: train some first")
    return found


def play(chosen: argparse.Namespace) -> None:
    """Plays the games of table 2, also with random moves."""
    n_games, path = chosen.games or study()["games"], RESULTS / "games.jsonl"
    players: dict[int, Any] = {0: agents.make("random", seed=1)}
    for layers, net in networks(chosen, chosen.device).items():
        players[layers] = PolicyNetAgent(net)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for layers, player in players.items():
            found = summary(games(player, n_games, EVALUATION_SEED))
            row = {"layers": layers, **learned(chosen.runs, layers), **found}
            row |= {"seed": EVALUATION_SEED, "machine": machine()}
            file.write(json.dumps(row) + "\n")
            print(f"{called(layers)}: {row['mean']:,.0f} ± {row['interval']:,.0f}")


def learned(runs: Path, layers: int) -> dict[str, Any]:
    """How many moves a network has learned from, and how long that took; nothing of random ones."""
    about = nets.metadata(runs / f"k{layers}" / "net.safetensors") if layers else {}
    return {"moves": about["n_moves"], "seconds": about.get("seconds")} if about else {}


def called(layers: int) -> str:
    """What a network is called; the player without layers makes random moves."""
    return f"k = {layers}" if layers else "random moves"


def table_2(published: dict[str, Any]) -> str:
    """Scores of the networks."""
    lines = (RESULTS / "games.jsonl").read_text(encoding="utf-8").splitlines()
    latest = {row["layers"]: row for row in map(json.loads, lines)}
    head = ["", "mean, 95 % interval", "max", "games", "published mean", "published max"]
    rows = []
    for layers, row in sorted(latest.items()):
        theirs = published["scores"].get(str(layers), {})
        ours = [f"{row['mean']:,.0f} ± {row['interval']:,.0f}", f"{row['max']:,}"]
        told = [f"{theirs[name]:,}" if theirs else "" for name in ("mean", "max")]
        rows.append([called(layers), *ours, f"{row['n_games']:,}", *told])
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
        rows.append([f"k = {layers}, #{name}", f"#{number}", f"{cosine:.2f}", f"{by_chance:.2f}"])
        drawn += [pattern, analysis.sides(weights[number])[side]]
        titles += [f"k = {layers}, #{name}, published", f"ours, #{number}, turned, {cosine:.2f}"]
    scaled = np.stack([each / np.abs(each).max() for each in drawn])
    label = "weight / largest of the filter"
    inside.draw_filters(scaled, titles, RESULTS / "filters.png", label=label)
    return markdown(["published", "most similar of ours", "cosine", "of a new network"], rows)


def tables_4_to_7(net: nn.Module, layers: int, published: dict[str, Any]) -> str:
    """The contributions to down, of the last layer and the one before, ours and the study's."""
    words = [rules.from_text(STUDY_BOARDS[name]) for name in FIGURE_4]
    down = inside.ACTIONS.index("down")
    traced = [analysis.contributions(net, word, down, 2, [28]) for word in words]
    boards = torch_rules.from_words(np.array(words, np.uint64))
    said = [inside.logits_table(net, boards, FIGURE_4)]
    for i, (what, n_rows) in enumerate(ROWS.items()):
        table = inside.contribution_table([each[i] for each in traced], FIGURE_4, n_rows[layers])
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
    said.append(
        f"The four largest inputs of the last layer have {covered} % on the three boards. "
        f"Of these four, {len(set.intersection(*tops))} are the same on all three."
    )
    return "\n\n".join(said)


def figure_5(found: Mapping[int, nn.Module], published: dict[str, Any]) -> str:
    """What the networks say of the boards of figure 5, and where up on 5b comes from."""
    rows = []
    for name in ("5a", "5b"):
        board = torch_rules.from_words(np.array([rules.from_text(STUDY_BOARDS[name])], np.uint64))
        for layers, net in found.items():
            ours = " ".join(f"{p:.3f}" for p in probabilities(net, board)[0].tolist())
            move = inside.ACTIONS[int(best_moves(net, board))]
            theirs = published[name].get(str(layers), "")
            told = theirs if isinstance(theirs, str) else " ".join(f"{p:.3f}" for p in theirs)
            rows.append([f"{name}, k = {layers}", ours, move, told])
    parts = [markdown(["board, network", " ".join(inside.ACTIONS), "move", "published"], rows)]
    if 2 in found:
        word, up = rules.from_text(STUDY_BOARDS["5b"]), inside.ACTIONS.index("up")
        shares = analysis.contributions(found[2], word, up, 2)[1]
        head = f"Units of the first layer of k = 2 from which up comes on 5b; published: {UP_ON_5B}"
        parts += [f"{head}.", inside.contribution_table([shares], ["5b"], 4)]
    return "\n\n".join(parts)


def positions(
    chosen: argparse.Namespace, layers: int, name: str, n_games: int, seed: int, share: float
) -> torch.Tensor:
    """Boards of games of a network, without their first 100 moves; played if they are not there."""
    log = chosen.runs / f"{name}_k{layers}.npy"
    if not log.exists():
        player = str(chosen.runs / f"k{layers}" / "net.safetensors")
        of = ["--player", player, "--games", str(n_games), "--skip", "100", "--batch", "20"]
        goes_on = ["--resume"] if log.with_suffix(".parts").exists() else []
        some = ["--share", str(share), "--seed", str(seed)]
        play_logs.main([str(log), *of, *some, *goes_on])
    return torch_rules.from_words(play_logs.read(log)["board"])


def section_6(
    found: Mapping[int, nn.Module], chosen: argparse.Namespace, published: dict[str, Any]
) -> str:
    """Agreement on the positions of games of the network with the most layers, and heuristics."""
    boards = positions(chosen, max(found), "states", 20, 1, 1.0)
    named = {called(layers): net for layers, net in found.items()}
    moves = torch.stack([best_moves(net, boards) for net in named.values()])
    ours = inside.agreement_table(list(named), analysis.agreement(moves))
    theirs = published["agreement"]
    share = 100 / theirs["boards"]
    counts = [("all agree", theirs["all"]), ("only k = 2 differs", theirs["only k = 2"])]
    rows = [[what, f"{n:,}", f"{share * n:.1f}"] for what, n in counts]
    head = f"published, four networks, of {theirs['boards']:,} boards"
    table = markdown([head, "boards", "%"], rows)
    draw_disagreements(named, boards)
    some, others = (  # seeds of games are numbers from that of the first one on
        positions(chosen, max(found), f"probe_{i}", PROBE_GAMES, i * 10**6, 0.05) for i in (1, 2)
    )
    probes = inside.probe_table(named, some[:PROBED], others[:PROBED])
    return "\n\n".join([ours, table, inside.heuristics_table(named, boards), probes])


def draw_disagreements(named: Mapping[str, nn.Module], boards: torch.Tensor) -> None:
    """Draws the six boards on which the first network differs most surely from all others."""
    alone, *others = named.values()
    places = analysis.disagreements(alone, others, boards, 6)
    said = [inside.said(named, board) for board in boards[places]]
    words = torch_rules.to_words(boards[places]).tolist()
    inside.draw_boards(words, said, RESULTS / "boards.png")


def look(chosen: argparse.Namespace) -> None:
    """Writes the tables and pictures of what is inside."""
    told, found = study()["published"], networks(chosen)
    if len(found) < 2 or not {2, 5} & set(found):
        raise SystemExit("the tables need two networks, k = 2 or 5 among them")
    if not (RESULTS / "games.jsonl").exists():
        raise SystemExit(f"{RESULTS / 'games.jsonl'} is not there: `play` first")
    weights = {f"k = {layers}": analysis.first_layer(net) for layers, net in found.items()}
    inside.draw_weights(weights, RESULTS / "weights.svg")
    text = (HERE / "text.md").read_text(encoding="utf-8").rstrip()
    parts = [
        "# " + study()["title"],
        text.replace("{moves}", f"{moves(chosen) / 1e6:,.0f} million"),
    ]
    if (
        chosen.moves is None
    ):  # they are of the networks that learned as many moves as study.json has
        parts += ["## What agrees", (HERE / "verdicts.md").read_text(encoding="utf-8").rstrip()]
    parts += ["## Table 2: scores", table_2(told)]
    parts += ["## Table 3: filters of the first layer", table_3(found), "![](filters.png)"]
    parts += ["## Figure 3: large weights", "![](weights.svg)"]
    parts += contribution_sections(found, told)
    parts += ["## Section 6: agreement and heuristics", section_6(found, chosen, told)]
    parts += ["![](boards.png)", "## Figure 5", figure_5(found, told)]
    (RESULTS / "README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"written: {RESULTS / 'README.md'}")


def contribution_sections(
    networks_: Mapping[int, nn.Module], published: dict[str, Any]
) -> list[str]:
    """Return the sections with tables 4 to 7, for networks of 2 and 5 layers."""
    parts = []
    for layers, tables in ((2, "4 and 5"), (5, "6 and 7")):
        if layers in networks_:
            parts += [f"## Tables {tables}: contributions to down, k = {layers}"]
            parts += [tables_4_to_7(networks_[layers], layers, published)]
    return parts


def contributions(chosen: argparse.Namespace) -> None:
    """Write tables 4 to 7 of the page again, by the pretrained networks."""
    page = RESULTS / "README.md"
    text = page.read_text(encoding="utf-8")
    before, after = text.index("## Tables 4 and 5"), text.index("## Section 6")
    pretrained = {layers: load(file) for layers, file in PRETRAINED.items()}
    parts = contribution_sections(pretrained, study()["published"])
    page.write_text(text[:before] + "\n\n".join(parts) + "\n\n" + text[after:], encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Repeats the study of policy networks.")
    commands = {"log": log, "train": train, "play": play, "inside": look}
    commands["contributions"] = contributions
    parser.add_argument("command", choices=list(commands))
    parser.add_argument("--runs", type=Path, required=True, help="folder of networks and logs")
    parser.add_argument("--layers", type=int, nargs="+", help="networks that learn (all)")
    parser.add_argument("--jobs", type=int, default=1, help="that write the log (%(default)s)")
    parser.add_argument("--games", type=int, help="of table 2, instead of those in study.json")
    parser.add_argument("--moves", type=above_0, help="to learn, instead of those in study.json")
    parser.add_argument("--device", default="cpu", help="where networks are (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU (%(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.games is not None and chosen.games < 2:
        parser.error("--games is from 2 on")
    try:
        commands[chosen.command](chosen)
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()

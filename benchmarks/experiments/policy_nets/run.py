"""Repeats the experiments of Matsuzaki and Teramura on policy networks, at a smaller scale.

    python -m benchmarks.experiments.policy_nets.run log --jobs 2
    python -m benchmarks.experiments.policy_nets.run train
    python -m benchmarks.experiments.policy_nets.run play
    python -m benchmarks.experiments.policy_nets.run report
    python -m benchmarks.experiments.policy_nets.run contributions

`log` writes the play log. `train` trains the networks of `settings.json` on it, each in a folder of
`--runs`, or only those of `--layers`. Both continue where they were interrupted. `play` plays the
games of table 2 with the trained networks, and appends a row for each to `games.jsonl` in
`benchmarks/results/experiments/policy_nets`. `report` plays games with the network that has the
most layers, for the positions of section 6 and the probes, and writes tables and pictures with the
published values to `README.md` there. `contributions` writes tables 4 to 7 of that page again, by
the pretrained networks.

With `--moves 6e8` all commands take as many moves as the paper; with `--device cuda` networks learn
and play on a GPU.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import nn

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.config import Backend, Count, Jobs, settings
from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.play import play as play_games
from afterstate.agents.game2048.values.policy_net import (
    PRETRAINED,
    PolicyNetAgent,
    best_moves,
    load,
    network,
    probabilities,
)
from afterstate.agents.training import __main__ as training
from afterstate.agents.training.commands import markdown
from afterstate.agents.training.folder import FolderLock
from afterstate.agents.training.run import EVALUATION_SEED, summary
from afterstate.envs import durable_files, json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.game2048 import rules, torch_rules
from afterstate.leaderboard.machine import machine
from benchmarks.experiments.cells import check_options
from benchmarks.experiments.policy_nets import analysis, drawing, tables
from benchmarks.experiments.policy_nets.analysis import PAPER_BOARDS, TILES
from benchmarks.experiments.policy_nets.tables import ACTIONS

HERE = Path(__file__).parent
RESULTS = Path(__file__).parents[2] / "results" / "experiments" / "policy_nets"
FIGURE_4 = list(PAPER_BOARDS)[:3]
ROWS = {"last layer": {2: 6, 5: 4}, "layer before": {2: 11, 5: 11}}
"""Number of rows of tables 4 to 7, by the layers of the network."""

UP_ON_5B = "(0, 3)#154 has the largest share"

PROBE_GAMES, PROBE_BOARDS = 200, 5_000
"""Games, and largest number of their boards, to fit probes to, and as many to test them."""


@settings
class Args:
    """Repeat the experiments of Matsuzaki and Teramura on policy networks."""

    command: Literal["log", "train", "play", "report", "contributions"]
    """Part to run."""
    runs: Path = Path("runs/policy_nets")
    """Folder of the log and the networks."""
    layers: tuple[int, ...] = ()
    """Layers of the networks to train; by default all of settings.json."""
    jobs: Jobs = 1
    """Processes that write the log."""
    backend: Backend = "local"
    """Place of the processes: this machine, or a Ray cluster."""
    games: Count | None = None
    """Games of table 2 for each network, at least 2; by default those of settings.json."""
    moves: Count | None = None
    """Moves to log and to learn from; by default those of settings.json."""
    device: str = "cpu"
    """Device of the networks."""
    threads: Count = 1
    """CPU threads."""


def load_settings() -> dict[str, Any]:
    """Return the settings of the experiment and the published values."""
    loaded: dict[str, Any] = json.loads((HERE / "settings.json").read_text(encoding="utf-8"))
    return loaded


def n_moves(args: Args) -> float:
    """Return the number of moves that networks learn from."""
    return float(args.moves or load_settings()["moves"])


def published_filters() -> dict[tuple[int, str], analysis.Floats]:
    """Return the filters of table 3, `[4, 16]` each, by layers and name."""
    rows = pd.read_csv(HERE / "published_filters.csv", dtype={"filter": str})
    groups = rows.groupby(["layers", "filter"], sort=False)[list(TILES)]
    return {(int(layers), name): group.to_numpy(float) for (layers, name), group in groups}


def log(args: Args) -> None:
    """Write the log that networks learn from."""
    options = {**load_settings()["log"], "jobs": args.jobs, "backend": args.backend}
    if args.moves is not None:
        options["moves"] = args.moves
    write_log(args.runs / "moves.npy", options)


def write_log(path: Path, options: Mapping[str, Any]) -> None:
    """Write a play log, or continue one that was interrupted."""
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    resume = ["--resume"] if path.with_suffix(".parts").exists() else []
    play_logs.main([str(path), *words, *resume])


def train(args: Args) -> None:
    """Train the networks that have not learned from all moves yet."""
    loaded = load_settings()
    for layers in args.layers or loaded["layers"]:
        out = args.runs / f"k{layers}"
        run = {"network": {"layers": layers}, "log": str(args.runs / "moves.npy")}
        run |= {"learner": {**loaded["learner"], "decay": n_moves(args)}, "seed": loaded["seed"]}
        out.mkdir(parents=True, exist_ok=True)
        (out / "config.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
        options = ["--moves", str(n_moves(args)), "--evaluate", "none", "--save-minutes", "5"]
        options += ["--evaluate-every", str(n_moves(args) / 20)]
        options += ["--device", args.device, "--threads", str(args.threads)]
        resume = ["--resume"] if (out / "learner.safetensors").exists() else []
        training.main(["policy", str(out / "config.json"), "--out", str(out), *options, *resume])


def trained_networks(args: Args, device: str = "cpu") -> dict[int, nn.Module]:
    """Return the networks that have learned from all moves, by their layers."""
    networks = {}
    for layers in load_settings()["layers"]:
        file = args.runs / f"k{layers}" / "net.safetensors"
        if file.exists() and nets.metadata(file).get("n_moves", 0) >= n_moves(args):
            networks[layers] = load(file, device)
    if not networks:
        raise SystemExit(f"no network in {args.runs} has learned all moves: train some first")
    return networks


def play(args: Args) -> None:
    """Play the games of table 2, also with random moves."""
    _held = FolderLock(RESULTS)
    n_games, path = args.games or load_settings()["games"], RESULTS / "games.jsonl"
    players: dict[int, Any] = {0: agents.make("random", seed=1)}
    for layers, net in trained_networks(args, args.device).items():
        players[layers] = PolicyNetAgent(net)
    for layers, player in players.items():
        result = summary(play_games(player, n_games, EVALUATION_SEED))
        row = {"layers": layers, **training_cost(args.runs, layers), **result}
        row |= {"seed": EVALUATION_SEED, "machine": machine()}
        json_files.append(path, [row])
        print(f"{label(layers)}: {row['mean']:,.0f} ± {row['interval']:,.0f}")


def training_cost(runs: Path, layers: int) -> dict[str, Any]:
    """Return the moves and seconds that a network learned; nothing for the random player."""
    if not layers:
        return {}
    metadata = nets.metadata(runs / f"k{layers}" / "net.safetensors")
    return {"moves": metadata["n_moves"], "seconds": metadata.get("seconds")}


def label(layers: int) -> str:
    """Return the name of a player in tables; the one without layers makes random moves."""
    return f"k = {layers}" if layers else "random moves"


def table_2(published: dict[str, Any]) -> str:
    """Return the scores of the networks."""
    games = pd.read_json(RESULTS / "games.jsonl", lines=True)
    latest = games.drop_duplicates("layers", keep="last").sort_values("layers")
    rows = []
    for row in latest.itertuples():
        scores = published["scores"].get(str(row.layers), {})
        cells = [f"{row.mean:,.0f} ± {row.interval:,.0f}", f"{row.max:,}", f"{row.n_games:,}"]
        cells += [f"{scores[name]:,}" if scores else "" for name in ("mean", "max")]
        rows.append([label(row.layers), *cells])
    head = ["", "mean, 95 % interval", "max", "games", "published mean", "published max"]
    return markdown(head, rows)


def table_3(networks: Mapping[int, nn.Module]) -> str:
    """Return the filter of ours that is most similar to each published one, and draw both.

    The last column is the similarity of the most similar filter of an untrained network.
    """
    rows, drawn, titles = [], [], []
    with nets.seeded(1):
        untrained = {
            layers: analysis.first_layer(network("PolicyCNN", layers=layers)) for layers in networks
        }
    for (layers, name), pattern in published_filters().items():
        if layers not in networks:
            continue
        weights = analysis.first_layer(networks[layers])
        number, symmetry, cosine = analysis.most_similar(weights, pattern)
        by_chance = analysis.most_similar(untrained[layers], pattern)[2]
        rows.append([f"k = {layers}, #{name}", f"#{number}", f"{cosine:.2f}", f"{by_chance:.2f}"])
        drawn += [pattern, analysis.symmetric(weights[number])[symmetry]]
        titles += [f"k = {layers}, #{name}, published", f"ours, #{number}, turned, {cosine:.2f}"]
    scaled = np.stack([each / np.abs(each).max() for each in drawn])
    scale = "weight / largest of the filter"
    drawing.draw_filters(scaled, titles, RESULTS / "filters.png", label=scale)
    return markdown(["published", "most similar of ours", "cosine", "of a new network"], rows)


def tables_4_to_7(net: nn.Module, layers: int, published: dict[str, Any]) -> str:
    """Return the contributions to down of the last two layers, ours and the published ones."""
    words = [rules.from_text(PAPER_BOARDS[name]) for name in FIGURE_4]
    down = ACTIONS.index("down")
    traced = [analysis.contributions(net, word, down, 2, [28]) for word in words]
    boards = torch_rules.from_words(np.array(words, np.uint64))
    parts = [tables.logits_table(net, boards, FIGURE_4)]
    for i, (layer, n_rows) in enumerate(ROWS.items()):
        shares = [each[i] for each in traced]
        ours = tables.contribution_table(shares, FIGURE_4, n_rows[layers])
        rows = [(unit, shares) for unit, *shares in published[layer][str(layers)]]
        theirs = tables.share_table(["a", "b", "c"], rows)
        parts += [f"Inputs of the {layer}, ours:", ours, "Published:", theirs]
    return "\n\n".join([*parts, concentration([each[0] for each in traced])])


def concentration(shares: Sequence[analysis.Floats]) -> str:
    """Return the shares of the four largest inputs on the boards, and how many are the same."""
    tops = [analysis.top_units(each, 4) for each in shares]
    sums = ", ".join(f"{100 * sum(share for _, share in top):.1f}" for top in tops)
    common = set.intersection(*({unit for unit, _ in top} for top in tops))
    return (
        f"The four largest inputs of the last layer have {sums} % on the three boards. "
        f"Of these four, {len(common)} are the same on all three."
    )


def figure_5(networks: Mapping[int, nn.Module], published: dict[str, Any]) -> str:
    """Return the moves of the networks on the boards of figure 5, and the units for up on 5b."""
    rows = []
    for name in ("5a", "5b"):
        board = torch_rules.from_words(np.array([rules.from_text(PAPER_BOARDS[name])], np.uint64))
        for layers, net in networks.items():
            ours = " ".join(f"{p:.3f}" for p in probabilities(net, board)[0].tolist())
            move, theirs = ACTIONS[int(best_moves(net, board))], published[name].get(str(layers))
            if isinstance(theirs, list):
                theirs = " ".join(f"{p:.3f}" for p in theirs)
            rows.append([f"{name}, k = {layers}", ours, move, theirs or ""])
    parts = [markdown(["board, network", " ".join(ACTIONS), "move", "published"], rows)]
    if 2 in networks:
        word, up = rules.from_text(PAPER_BOARDS["5b"]), ACTIONS.index("up")
        shares = analysis.contributions(networks[2], word, up, 2)[1]
        head = f"Units of the first layer of k = 2 from which up comes on 5b; published: {UP_ON_5B}"
        parts += [f"{head}.", tables.contribution_table([shares], ["5b"], 4)]
    return "\n\n".join(parts)


def positions(
    args: Args, layers: int, name: str, n_games: int, seed: int, share: float
) -> torch.Tensor:
    """Return boards of a network's games without the first 100 moves, which are played if needed.

    Args:
        args: arguments of the command.
        layers: layers of the network.
        name: name of the log.
        n_games: number of games.
        seed: seed of the first game; the others have the seeds after it.
        share: share of the boards to keep.
    """
    file = args.runs / f"{name}_k{layers}.npy"
    if not file.exists():
        player = args.runs / f"k{layers}" / "net.safetensors"
        options = {"player": player, "games": n_games, "skip": 100, "batch": 20}
        write_log(file, {**options, "share": share, "seed": seed})
    return torch_rules.from_words(play_logs.read(file)["board"])


def section_6(networks: Mapping[int, nn.Module], args: Args, published: dict[str, Any]) -> str:
    """Return the agreement in games of the network with the most layers, and the heuristics."""
    boards = positions(args, max(networks), "states", 20, 1, 1.0)
    named = {label(layers): net for layers, net in networks.items()}
    moves = torch.stack([best_moves(net, boards) for net in named.values()])
    ours = tables.agreement_table(list(named), analysis.agreement(moves))
    counts = published["agreement"]
    share = 100 / counts["boards"]
    lines = [("all agree", counts["all"]), ("only k = 2 differs", counts["only k = 2"])]
    rows = [[name, f"{n:,}", f"{share * n:.1f}"] for name, n in lines]
    head = f"published, four networks, of {counts['boards']:,} boards"
    theirs = markdown([head, "boards", "%"], rows)
    draw_disagreements(named, boards)
    fit, test = (
        positions(args, max(networks), f"probe_{i}", PROBE_GAMES, i * 10**6, 0.05) for i in (1, 2)
    )
    probes = tables.probe_table(named, fit[:PROBE_BOARDS], test[:PROBE_BOARDS])
    return "\n\n".join([ours, theirs, tables.heuristics_table(named, boards), probes])


def draw_disagreements(named: Mapping[str, nn.Module], boards: torch.Tensor) -> None:
    """Draw the six boards on which the first network differs most surely from all others."""
    alone, *others = named.values()
    places = analysis.disagreements(alone, others, boards, 6)
    captions = [tables.caption(named, board) for board in boards[places]]
    words = torch_rules.to_words(boards[places]).tolist()
    drawing.draw_boards(words, captions, RESULTS / "boards.png")


def report(args: Args) -> None:
    """Write the page with its tables and pictures."""
    published, networks = load_settings()["published"], trained_networks(args)
    if len(networks) < 2 or not {2, 5} & set(networks):
        raise SystemExit("the tables need two networks, k = 2 or 5 among them")
    if not (RESULTS / "games.jsonl").exists():
        raise SystemExit(f"{RESULTS / 'games.jsonl'} is not there: `play` first")
    weights = {f"k = {layers}": analysis.first_layer(net) for layers, net in networks.items()}
    drawing.draw_weights(weights, RESULTS / "weights.svg")
    parts = introduction(args)
    parts += ["## Table 2: scores", table_2(published)]
    parts += ["## Table 3: filters of the first layer", table_3(networks), "![](filters.png)"]
    parts += ["## Figure 3: large weights", "![](weights.svg)"]
    parts += contribution_sections(networks, published)
    parts += ["## Section 6: agreement and heuristics", section_6(networks, args, published)]
    parts += ["![](boards.png)", "## Figure 5", figure_5(networks, published)]
    parts += [(HERE / "readings.md").read_text(encoding="utf-8").rstrip()]
    (RESULTS / "README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"written: {RESULTS / 'README.md'}")


def introduction(args: Args) -> list[str]:
    """Return the title and the text of the page; the verdicts only for the default moves."""
    text = (HERE / "text.md").read_text(encoding="utf-8").rstrip()
    about = (args.runs / "moves.json").read_bytes()
    durable_files.write(RESULTS / "log.json", about)
    log = json_files.parse(about)
    (player,) = log["players"]
    text = text.format(
        moves=f"{n_moves(args) / 1e6:,.0f} million",
        log_moves=f"{log['moves'] / 1e6:,.0f} million moves",
        games=f"{player['games']:,}",
        score=f"{player['mean_score']:,.0f}",
    )
    parts = ["# " + load_settings()["title"], text]
    if args.moves is None:
        parts += ["## What agrees", (HERE / "verdicts.md").read_text(encoding="utf-8").rstrip()]
    return parts


def contribution_sections(
    networks: Mapping[int, nn.Module], published: dict[str, Any]
) -> list[str]:
    """Return the sections with tables 4 to 7, for networks of 2 and 5 layers."""
    parts = []
    for layers, numbers in ((2, "4 and 5"), (5, "6 and 7")):
        if layers in networks:
            parts += [f"## Tables {numbers}: contributions to down, k = {layers}"]
            parts += [tables_4_to_7(networks[layers], layers, published)]
    return parts


def contributions(args: Args) -> None:
    """Write tables 4 to 7 of the page again, by the pretrained networks."""
    page = RESULTS / "README.md"
    text = page.read_text(encoding="utf-8")
    before, after = text.index("## Tables 4 and 5"), text.index("## Section 6")
    pretrained = {layers: load(file) for layers, file in PRETRAINED.items()}
    parts = contribution_sections(pretrained, load_settings()["published"])
    page.write_text(text[:before] + "\n\n".join(parts) + "\n\n" + text[after:], encoding="utf-8")


COMMANDS = {
    "log": log,
    "train": train,
    "play": play,
    "report": report,
    "contributions": contributions,
}
OPTIONS = {"jobs": ("log",), "backend": ("log",), "layers": ("train",), "games": ("play",)}
"""The commands that use an option, where not all do."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.experiments.policy_nets.run", arguments)
    if args.games == 1:
        raise SystemExit("--games must be >= 2")
    try:
        check_options(args, OPTIONS)
        COMMANDS[args.command](args)
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error
    except KeyboardInterrupt as interrupt:
        raise SystemExit(str(interrupt)) from None


if __name__ == "__main__":
    sys.exit(run_process(main))

"""The page of the experiment with policy networks: tables and pictures, ours and the published.

`write` makes the page from trained networks. `renew` makes those sections again that need only what
the repository has: the text, the rows of games and the pretrained networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from afterstate.agents import nets
from afterstate.agents.game2048.values.policy_net import (
    PRETRAINED,
    best_moves,
    load,
    network,
    probabilities,
)
from afterstate.envs import durable_files, json_files
from afterstate.envs.game2048 import rules, torch_rules
from afterstate.envs.json_files import Row
from afterstate.text_tables import markdown
from benchmarks.experiments.entries import rows_by_id, score
from benchmarks.experiments.harness import INTERVALS, ExperimentFolder, over_runs, published_texts
from benchmarks.experiments.policy_nets import analysis, drawing, logs, tables
from benchmarks.experiments.policy_nets.analysis import PAPER_BOARDS
from benchmarks.experiments.policy_nets.settings import (
    HERE,
    Experiment,
    Published,
    label,
    network_file,
    published_filters,
)
from benchmarks.experiments.policy_nets.tables import ACTIONS

GAMES, LOG, LEARNING = "games.jsonl", "log.json", "learning.jsonl"
"""Files of the results."""

FIGURE_4 = list(PAPER_BOARDS)[:3]
ROWS = {"last layer": {2: 6, 5: 4}, "layer before": {2: 11, 5: 11}}
"""Number of rows of tables 4 to 7, by the layers of the network."""

UP_ON_5B = "(0, 3)#154 has the largest share"

PROBE_GAMES, PROBE_BOARDS = 200, 5_000
"""Games, and largest number of their boards, to fit probes to, and as many to test them."""

Networks = Mapping[int, nn.Module]
"""Networks by their number of layers."""


# The page


def write(
    folder: ExperimentFolder[Experiment], networks: Networks, runs: Path, moves: float
) -> None:
    """Write the page and its pictures.

    Args:
        folder: the settings, and the folder of the rows of games, which is written to.
        networks: at least two, one of 2 or 5 layers among them.
        runs: the folder of their runs and of the log.
        moves: number of moves that they learned from.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: there are too few networks, or no games.
    """
    if len(networks) < 2 or not {2, 5} & set(networks):
        raise ValueError("the tables need two networks, k = 2 or 5 among them")
    published, out = folder.experiment.published, folder.path
    if not (out / GAMES).exists():
        raise ValueError(f"{out / GAMES} is not there: `play` first")
    durable_files.write(out / LOG, (runs / "moves.json").read_bytes())
    weights = {label(layers): analysis.first_layer(net) for layers, net in networks.items()}
    drawing.draw_weights(weights, out / "weights.svg")
    parts = introduction(folder, moves)
    parts |= {
        "Table 2: scores": table_2(out, published),
        "Table 3: filters of the first layer": table_3(out, networks) + "\n\n![](filters.png)",
        "Figure 3: large weights": "![](weights.svg)",
        **contribution_sections(networks, published),
        "Section 6: agreement and heuristics": section_6(out, networks, runs, published)
        + "\n\n![](boards.png)",
        "Figure 5": figure_5(networks, published),
        **readings(),
    }
    write_page(out, parts)


def renew(folder: ExperimentFolder[Experiment]) -> None:
    """Write those sections of the page again that need no other networks than the pretrained.

    Raises:
        OSError: a file cannot be read or written.
    """
    published, out = folder.experiment.published, folder.path
    page = (out / "README.md").read_text(encoding="utf-8").rstrip()
    first, *others = page.removeprefix("# ").split("\n\n## ")
    parts = dict(part.split("\n\n", 1) for part in (first, *others))
    pretrained = {layers: load(file) for layers, file in PRETRAINED.items()}
    new = introduction(folder, folder.experiment.moves)
    new |= {"Table 2: scores": table_2(out, published)}
    new |= contribution_sections(pretrained, published) | readings()
    write_page(out, parts | new)


def write_page(out: Path, parts: Mapping[str, str]) -> None:
    """Write the page: its sections by their headings, the title first."""
    text = "\n\n## ".join(f"{heading}\n\n{body}" for heading, body in parts.items())
    (out / "README.md").write_text(f"# {text}\n", encoding="utf-8")
    print(f"written: {out / 'README.md'}")


def introduction(folder: ExperimentFolder[Experiment], moves: float) -> dict[str, str]:
    """Return the title with the text of the page, and the verdicts, which are of published rows."""
    texts = published_texts(HERE, folder.path, ["text.md", "verdicts.md"])
    if not texts:
        return {folder.experiment.title: f"Learned from {moves:,.0f} moves of a [log](log.json)."}
    text, verdicts = texts
    log = json_files.read(folder.path / LOG)
    (player,) = log["players"]
    text = text.format(
        moves=f"{moves / 1e6:,.0f} million",
        log_moves=f"{log['moves'] / 1e6:,.0f} million moves",
        games=f"{player['games']:,}",
        score=f"{player['mean_score']:,.0f}",
    )
    return {folder.experiment.title: text} | section(verdicts)


def readings() -> dict[str, str]:
    """Return the last section."""
    return section((HERE / "readings.md").read_text(encoding="utf-8").rstrip())


def section(text: str) -> dict[str, str]:
    """Return the text of a section by its heading."""
    heading, body = text.split("\n\n", 1)
    return {heading.removeprefix("## "): body}


# Tables and figures


def games_by_layers(out: Path) -> dict[int, list[Row]]:
    """Return the latest rows of games by layers, a row for each seed.

    Networks are those that learned from the moves, the log and with the settings of the last row,
    and all have as many games as it has.
    """
    rows = [*rows_by_id(out / GAMES).values()]
    learned = [_learned(row) for row in rows if "layers" in row["settings"]]
    groups: dict[int, list[Row]] = {}
    for row in rows:
        if row["games"] == rows[-1]["games"] and _learned(row) in ({}, *learned[-1:]):
            groups.setdefault(row["settings"].get("layers", 0), []).append(row)
    return dict(sorted(groups.items()))


def _learned(row: Row) -> Row:
    """Return the moves, log and settings that a network learned from; empty for random moves."""
    names = ("moves", "log", "learner") if "layers" in row["settings"] else ()
    return {name: row["settings"].get(name) for name in names}


def table_2(out: Path, published: Published) -> str:
    """Return the scores of the networks, means over runs if there are several."""
    body = []
    for layers, rows in games_by_layers(out).items():
        scores = published.scores.get(layers)
        n_runs = str(len(rows)) if layers else "-"
        cells = [label(layers), str(over_runs([score(row) for row in rows])), n_runs]
        cells += [f"{max(row['max'] for row in rows):,}", f"{rows[-1]['n_games']:,}"]
        theirs = ["", ""] if scores is None else [f"{scores.mean:,}", f"{scores.max:,}"]
        body.append(cells + theirs)
    head = ["", "mean, 95 % interval", "runs", "max", "games of each"]
    return f"{INTERVALS}\n\n" + markdown([*head, "published mean", "published max"], body)


def table_3(out: Path, networks: Networks) -> str:
    """Return the filter of ours that is most similar to each published one, and draw both.

    The last column is the similarity of the most similar filter of an untrained network.
    """
    rows, drawn, titles = [], [], []
    with nets.seeded(1):
        untrained = {
            layers: analysis.first_layer(network("PolicyCNN", layers=layers)) for layers in networks
        }
    for (layers, filter_name), pattern in published_filters().items():
        if layers not in networks:
            continue
        title = f"k = {layers}, #{filter_name}"
        weights = analysis.first_layer(networks[layers])
        number, symmetry, cosine = analysis.most_similar(weights, pattern)
        by_chance = analysis.most_similar(untrained[layers], pattern)[2]
        rows.append([title, f"#{number}", f"{cosine:.2f}", f"{by_chance:.2f}"])
        drawn += [pattern, analysis.symmetric(weights[number])[symmetry]]
        titles += [f"{title}, published", f"ours, #{number}, turned, {cosine:.2f}"]
    scaled = np.stack([each / np.abs(each).max() for each in drawn])
    scale = "weight / largest of the filter"
    drawing.draw_filters(scaled, titles, out / "filters.png", label=scale)
    return markdown(["published", "most similar of ours", "cosine", "of a new network"], rows)


def contribution_sections(networks: Networks, published: Published) -> dict[str, str]:
    """Return the sections with tables 4 to 7, for networks of 2 and 5 layers."""
    return {
        f"Tables {numbers}: contributions to down, k = {layers}": tables_4_to_7(
            networks[layers], layers, published
        )
        for layers, numbers in ((2, "4 and 5"), (5, "6 and 7"))
        if layers in networks
    }


def tables_4_to_7(net: nn.Module, layers: int, published: Published) -> str:
    """Return the contributions to down of the last two layers, ours and the published ones."""
    words = [rules.from_text(PAPER_BOARDS[name]) for name in FIGURE_4]
    down = ACTIONS.index("down")
    traced = [analysis.contributions(net, word, down, 2, [28]) for word in words]
    boards = torch_rules.from_words(np.array(words, np.uint64))
    parts = [tables.logits_table(net, boards, FIGURE_4)]
    for i, (layer, n_rows) in enumerate(ROWS.items()):
        shares = [each[i] for each in traced]
        ours = tables.contribution_table(shares, FIGURE_4, n_rows[layers])
        rows = [(unit, shares) for unit, *shares in published.contributions[layer][layers]]
        theirs = tables.share_table(["a", "b", "c"], rows)
        parts += [f"Inputs of the {layer}, ours:", ours, "Published:", theirs]
    return "\n\n".join([*parts, concentration([each[0] for each in traced])])


def concentration(shares: Sequence[analysis.Floats]) -> str:
    """Return the shares of the four largest inputs on the boards, and the number of equal ones."""
    tops = [analysis.top_units(each, 4) for each in shares]
    sums = ", ".join(f"{100 * sum(share for _, share in top):.1f}" for top in tops)
    common = set.intersection(*({unit for unit, _ in top} for top in tops))
    return (
        f"The four largest inputs of the last layer have {sums} % on the three boards. "
        f"Of these four, {len(common)} are the same on all three."
    )


def figure_5(networks: Networks, published: Published) -> str:
    """Return the moves of the networks on the boards of figure 5, and the units for up on 5b."""
    rows = []
    for title in ("5a", "5b"):
        board = torch_rules.from_words(np.array([rules.from_text(PAPER_BOARDS[title])], np.uint64))
        for layers, net in networks.items():
            ours = " ".join(f"{p:.3f}" for p in probabilities(net, board)[0].tolist())
            move = ACTIONS[int(best_moves(net, board))]
            theirs = published.figure_5[title].get(layers)
            if isinstance(theirs, tuple):
                theirs = " ".join(f"{p:.3f}" for p in theirs)
            rows.append([f"{title}, k = {layers}", ours, move, theirs or ""])
    parts = [markdown(["board, network", " ".join(ACTIONS), "move", "published"], rows)]
    if 2 in networks:
        word, up = rules.from_text(PAPER_BOARDS["5b"]), ACTIONS.index("up")
        shares = analysis.contributions(networks[2], word, up, 2)[1]
        head = f"Units of the first layer of k = 2 from which up comes on 5b; published: {UP_ON_5B}"
        parts += [f"{head}.", tables.contribution_table([shares], ["5b"], 4)]
    return "\n\n".join(parts)


def section_6(out: Path, networks: Networks, runs: Path, published: Published) -> str:
    """Return the agreement in games of the network with the most layers, and the heuristics."""
    most, player = max(networks), network_file(runs, max(networks))
    boards = logs.boards(runs / f"states_k{most}.npy", player, 20, 1, 1.0)
    named = {label(layers): net for layers, net in networks.items()}
    moves = torch.stack([best_moves(net, boards) for net in named.values()])
    ours = tables.agreement_table(list(named), analysis.agreement(moves))
    counts = published.agreement
    share = 100 / counts.boards
    lines = [("all agree", counts.all), ("only k = 2 differs", counts.only_2)]
    rows = [[name, f"{n:,}", f"{share * n:.1f}"] for name, n in lines]
    head = f"published, four networks, of {counts.boards:,} boards"
    theirs = markdown([head, "boards", "%"], rows)
    draw_disagreements(out, named, boards)
    fit, test = (
        logs.boards(runs / f"probe_{i}_k{most}.npy", player, PROBE_GAMES, i * 10**6, 0.05)
        for i in (1, 2)
    )
    probes = tables.probe_table(named, fit[:PROBE_BOARDS], test[:PROBE_BOARDS])
    return "\n\n".join([ours, theirs, tables.heuristics_table(named, boards), probes])


def draw_disagreements(out: Path, named: Mapping[str, nn.Module], boards: torch.Tensor) -> None:
    """Draw the six boards on which the first network differs most surely from all others."""
    alone, *others = named.values()
    places = analysis.disagreements(alone, others, boards, 6)
    captions = [tables.caption(named, board) for board in boards[places]]
    words = torch_rules.to_words(boards[places]).tolist()
    drawing.draw_boards(words, captions, out / "boards.png")

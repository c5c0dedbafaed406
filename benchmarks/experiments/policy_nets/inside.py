"""What happens inside policy networks, as tables and pictures: see `analysis.py`.

    alias inside='python -m benchmarks.experiments.policy_nets.inside'
    inside filters k5.safetensors --out filters.svg
    inside weights k2.safetensors k5.safetensors --out w.svg
    inside contributions k2.safetensors --action down
    inside agreement k2.safetensors k5.safetensors --log x.npy
    inside disagreements 2 5 --log x.npy --out boards.png
    inside heuristics 2 5 --log x.npy --others y.npy

Tables are Markdown. Where the file of a network is asked for, `2` and `5` stand for those in the
package.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.learning.policy_imitation import logged
from afterstate.agents.game2048.values.policy_net import PRETRAINED, best_moves, load, logits
from afterstate.agents.training.commands import above_0, markdown, whole_above_0
from afterstate.envs.game2048 import rules, torch_rules
from benchmarks.experiments.policy_nets import analysis
from benchmarks.experiments.policy_nets.analysis import CELLS, STUDY_BOARDS, TILES, Floats

ACTIONS = ("up", "right", "down", "left")

# Pictures


def _panels(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    """A figure of matplotlib, which comes with an extra, and its panels `[rows, columns]`.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import matplotlib.figure
    except ImportError as error:
        raise ImportError('pictures need matplotlib: pip install "afterstate[examples]"') from error
    figure = matplotlib.figure.Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def draw_filters(
    weights: npt.NDArray[Any],
    titles: Sequence[str],
    path: str | Path,
    columns: int = 2,
    label: str = "weight",
) -> None:
    """Draws filters of the first layer: positive weights blue, negative ones red.

    Args:
        weights: `[n, 4, 16]`.
        titles: one each.
        path: a picture of any kind that matplotlib writes.
        columns: panels beside each other.
        label: of the colours.

    Raises:
        OSError: it cannot be written.
        ImportError: matplotlib is not installed.
    """
    rows, bound = -(-len(weights) // columns), float(np.abs(weights).max()) or 1.0
    figure, panels = _panels(rows, columns, 5.2 * columns + 0.8, 1.75 * rows + 0.6)
    for panel in panels.flat[len(weights) :]:
        panel.set_axis_off()
    for panel, filter_, title in zip(panels.flat[: len(weights)], weights, titles, strict=True):
        image = panel.imshow(filter_, cmap="RdBu", vmin=-bound, vmax=bound, aspect="auto")
        panel.set_title(title, fontsize=9)
        panel.set_yticks(range(4), CELLS, fontsize=8)
        panel.set_xticks(
            range(16), TILES, fontsize=7, rotation=60, ha="right", rotation_mode="anchor"
        )
        panel.set_xticks(np.arange(15) + 0.5, minor=True)
        panel.set_yticks(np.arange(3) + 0.5, minor=True)
        panel.grid(which="minor", color="white", linewidth=1)
        panel.tick_params(which="both", length=0)
    figure.colorbar(image, ax=panels, label=label, shrink=min(1.0, 2 / rows))
    _save(figure, path)


def draw_weights(
    networks: Mapping[str, npt.NDArray[np.float32]], path: str | Path, threshold: float = 0.1
) -> None:
    """Draws how many filters have more than x weights above a threshold: figure 3 of the study.

    Args:
        networks: weights `[filters, 4, 16]` by what the legend calls them.
        path: a picture.
        threshold: of absolute values.
    """
    figure, ((panel,),) = _panels(1, 1, 6.4, 4)
    for name, weights in networks.items():
        counts = analysis.filters_above(weights, threshold)
        panel.step(range(65), counts, where="post", label=f"{name}, of {len(weights)} filters")
    panel.set_xlabel("x, of the 64 weights of a filter")
    panel.set_ylabel(
        f"filters with more than x weights\nwhose absolute value is above {threshold:g}"
    )
    panel.set_xlim(0, 64)
    panel.set_ylim(0)
    panel.grid(alpha=0.3)
    panel.legend()
    _save(figure, path)


def draw_boards(
    boards: Sequence[int], captions: Sequence[str], path: str | Path, columns: int = 3
) -> None:
    """Draws boards with captions.

    Args:
        boards: words.
        captions: one each.
        path: a picture.
        columns: boards beside each other.
    """
    rows = max(1, -(-len(boards) // columns))
    figure, panels = _panels(rows, columns, 2.7 * columns, 3.3 * rows)
    for panel in panels.flat:
        panel.set_axis_off()
    for panel, board, caption in zip(panels.flat[: len(boards)], boards, captions, strict=True):
        cells = rules.cells(np.uint64(board))
        panel.imshow(cells, cmap="YlOrBr", vmin=0, vmax=20)
        for (row, column), exponent in np.ndenumerate(cells):
            if exponent:
                text = str(1 << int(exponent))
                panel.text(column, row, text, ha="center", va="center", fontsize=11)
        for edge in np.arange(-0.5, 4):
            panel.axhline(edge, color="white", linewidth=3)
            panel.axvline(edge, color="white", linewidth=3)
        panel.set_title(caption, fontsize=8, loc="left")
    _save(figure, path)


def _save(figure: Any, path: str | Path) -> None:
    """Writes a figure, the same SVG for the same figure."""
    from matplotlib import rc_context

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    dateless = {"Date": None} if Path(path).suffix.lower() == ".svg" else None
    with rc_context({"svg.hashsalt": "afterstate"}):
        figure.savefig(path, dpi=110, metadata=dateless)


# Tables


def said(networks: Mapping[str, nn.Module], board: Tensor) -> str:
    """What networks say of a board, `int64[]`: a line for the moves, and one for each.

    The probabilities are those among the legal moves; the move that is made stands behind them.
    """
    legal, lines = torch_rules.legal(board).tolist(), [" ".join(ACTIONS)]
    for name, net in networks.items():
        odds = analysis.legal_chances(net, board[None])[0]
        told = [f"{p:.2f}" if ok else "-" for p, ok in zip(odds.tolist(), legal, strict=True)]
        lines.append(f"{name}: {' '.join(told)}, {ACTIONS[int(odds.argmax())]}")
    return "\n".join(lines)


def logits_table(net: nn.Module, boards: Tensor, names: Sequence[str]) -> str:
    """The logits that a network gives the moves of boards `int64[n]`; in brackets: illegal."""
    rows = []
    for name, row, legal in zip(names, logits(net, boards), torch_rules.legal(boards), strict=True):
        pairs = zip(row.tolist(), legal.tolist(), strict=True)
        rows.append([name, *(f"{x:.2f}" if ok else f"({x:.2f})" for x, ok in pairs)])
    return markdown(["logits", *ACTIONS], rows)


def contribution_table(shares: Sequence[Floats], names: Sequence[str], n: int) -> str:
    """The units with the largest shares, as tables 4 to 7 of the study have them.

    A row has a unit and, for each board, its share and that of it and the rows above, in percent.
    Rows stand in the order of the middle board.

    Args:
        shares: of the inputs of one layer, `[filters, rows, columns]` for each board.
        names: of the boards.
        n: rows.
    """
    rows, sums = [], np.zeros(len(shares))
    for unit, _ in analysis.top_units(shares[len(shares) // 2], n):
        each = [100 * float(of[unit.filter, unit.row, unit.column]) for of in shares]
        sums += each
        pairs = zip(each, sums.tolist(), strict=True)
        rows.append([str(unit), *(f"{share:.1f} ({total:.1f})" for share, total in pairs)])
    return markdown(["unit", *(f"{name}: % (sum)" for name in names)], rows)


def agreement_table(names: Sequence[str], found: analysis.Agreement) -> str:
    """On how many boards networks agree, and each of them alone differs."""
    counts = [("all agree", found.all_agree)]
    counts += [(f"only {name} differs", n) for name, n in zip(names, found.only, strict=True)]
    rows = [[what, f"{n:,}", f"{100 * n / found.n:.1f}"] for what, n in counts]
    return markdown([f"of {found.n:,} boards", "boards", "%"], rows)


def heuristics_table(
    networks: Mapping[str, nn.Module], boards: Tensor, players: Tensor | None = None
) -> str:
    """How often moves obey the two heuristics, and how well the layers tell what obeys them.

    Args:
        networks: by name.
        boards: `int64[n]`.
        players: the moves of the players of the log, which make another row.
    """
    chosen = {name: best_moves(net, boards) for name, net in networks.items()}
    if players is not None:
        chosen = {"the log's players": players, **chosen}
    head, rows = ["where there is a choice"], [[name] for name in ["random moves", *chosen]]
    for heuristic in analysis.HEURISTICS:
        found = [analysis.obedience(heuristic, boards, each) for each in chosen.values()]
        head.append(f"{heuristic}: % of {found[0].n:,} boards")
        for row, share in zip(rows, [found[0].by_chance, *(o.obeyed for o in found)], strict=True):
            row.append(f"{100 * share:.1f}")
    return markdown(head, rows)


def probe_table(networks: Mapping[str, nn.Module], boards: Tensor, others: Tensor) -> str:
    """How well a linear function of each layer tells whether a board obeys the heuristics.

    Args:
        networks: by name.
        boards: `int64[n]`, to which it is fitted.
        others: `int64[m]`, of other games, by which it is judged.
    """
    head, rows = ["area under the ROC curve", *analysis.HEURISTICS], []
    answers = [(obeys(boards), obeys(others)) for obeys in analysis.HEURISTICS.values()]
    for name, net in networks.items():
        pairs = zip(*(analysis.activations(net, each) for each in (boards, others)), strict=True)
        for i, (units, theirs) in enumerate(pairs):
            areas = (analysis.probe(units, yes, theirs, other) for yes, other in answers)
            layer = f"convolution {i}" if i else "planes"
            rows.append([f"{name}, {layer}", *(f"{area:.3f}" for area in areas)])
    return markdown(head, rows)


# The command


def _named(paths: Sequence[str]) -> dict[str, nn.Module]:
    """Networks by names for tables.

    Raises:
        ValueError: one is named twice.
    """
    if len(set(paths)) < len(paths):
        raise ValueError(f"each network is named once, got {list(paths)}")
    shipped = {str(layers): path for layers, path in PRETRAINED.items()}
    found = {path: load(shipped.get(path, path)) for path in paths}
    names = [f"k = {nets.describe(net)['settings']['layers']}" for net in found.values()]
    return {
        name if names.count(name) == 1 else f"{name}, {path}": net
        for name, (path, net) in zip(names, found.items(), strict=True)
    }


def _boards(chosen: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """The first boards of a log, and the moves of its players."""
    return logged(play_logs.read(chosen.log)[: chosen.states])


def filters(chosen: argparse.Namespace) -> str:
    """Draws filters of a network, by default those with the largest weights."""
    name, net = next(iter(_named(chosen.net).items()))
    weights = analysis.first_layer(net)
    largest = np.argsort(-np.abs(weights).sum((1, 2)))[: chosen.top]
    numbers = chosen.filters or largest.tolist()
    if not all(0 <= number < len(weights) for number in numbers):
        raise ValueError(f"there are filters 0 to {len(weights) - 1}, not {numbers}")
    draw_filters(weights[numbers], [f"{name}, #{number}" for number in numbers], chosen.out)
    return f"written: {chosen.out}"


def weights(chosen: argparse.Namespace) -> str:
    """Draws figure 3."""
    found = {name: analysis.first_layer(net) for name, net in _named(chosen.net).items()}
    draw_weights(found, chosen.out, chosen.threshold)
    return f"written: {chosen.out}"


def _word(text: str) -> int:
    """A board by its name in the study, or its tiles.

    Raises:
        ValueError: it is neither.
    """
    if text in STUDY_BOARDS:
        return rules.from_text(STUDY_BOARDS[text])
    if len(text.replace("/", " ").split()) != 16:
        raise ValueError(f"a board is one of {list(STUDY_BOARDS)} or 16 tiles, got {text!r}")
    return rules.from_text(text)


def contributions(chosen: argparse.Namespace) -> str:
    """Tables 4 to 7."""
    net = next(iter(_named(chosen.net).values()))
    words = [_word(text) for text in chosen.boards]
    output, followed = ACTIONS.index(chosen.action), [chosen.followed] * chosen.layers
    traced = [analysis.contributions(net, word, output, chosen.layers, followed) for word in words]
    tables = []
    for i, shares in enumerate(zip(*traced, strict=True)):
        of = "the last layer" if i == 0 else f"layer {i} before the last"
        tables.append(
            f"Inputs of {of}:\n\n" + contribution_table(shares, chosen.boards, chosen.units)
        )
    logits = logits_table(net, torch_rules.from_words(np.array(words, np.uint64)), chosen.boards)
    return "\n\n".join([logits, *tables])


def agreement(chosen: argparse.Namespace) -> str:
    """The counts of section 6."""
    networks, (boards, _) = _named(chosen.net), _boards(chosen)
    moves = torch.stack([best_moves(net, boards) for net in networks.values()])
    return agreement_table(list(networks), analysis.agreement(moves))


def disagreements(chosen: argparse.Namespace) -> str:
    """Draws the boards on which the first network differs most surely from others that agree."""
    networks, (boards, _) = _named(chosen.net), _boards(chosen)
    if len(networks) < 2:
        raise ValueError("disagreements are between at least two networks")
    alone, *others = networks.values()
    places = analysis.disagreements(alone, others, boards, chosen.top)
    if not len(places):
        return f"there are none on {len(boards):,} boards"
    captions = [said(networks, board) for board in boards[places]]
    draw_boards(torch_rules.to_words(boards[places]).tolist(), captions, chosen.out)
    return f"written: {chosen.out}"


def heuristics(chosen: argparse.Namespace) -> str:
    """How moves obey them, and with --others the probes."""
    networks, (boards, moves) = _named(chosen.net), _boards(chosen)
    tables = [heuristics_table(networks, boards, moves)]
    if chosen.others is not None:
        others, _ = logged(play_logs.read(chosen.others)[: chosen.probed])
        tables.append(probe_table(networks, boards[: chosen.probed], others))
    return "\n\n".join(tables)


_COMMANDS: dict[str, Callable[[argparse.Namespace], str]] = {
    each.__name__: each
    for each in (filters, weights, contributions, agreement, disagreements, heuristics)
}


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.experiments.policy_nets.inside",
        description="What happens inside policy networks of 2048, as tables and pictures.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    added = {name: commands.add_parser(name, help=of.__doc__) for name, of in _COMMANDS.items()}
    for name, command in added.items():
        many = name not in ("filters", "contributions")
        command.add_argument("net", nargs="+" if many else 1, help="a file, or 2 or 5")
        if name in ("filters", "weights", "disagreements"):
            command.add_argument("--out", type=Path, required=True, help="a picture")
        if name in ("agreement", "disagreements", "heuristics"):
            command.add_argument("--log", type=Path, required=True, help="of play_logs")
            command.add_argument("--states", type=whole_above_0, default=20_000, help="of the log")
        if name in ("filters", "disagreements"):
            command.add_argument("--top", type=whole_above_0, default=12, help="(%(default)s)")
    added["filters"].add_argument("--filters", type=int, nargs="+", help="their numbers")
    added["weights"].add_argument("--threshold", type=above_0, default=0.1)
    add = added["heuristics"].add_argument
    add("--others", type=Path, help="a log of other games, by which probes are judged")
    add("--probed", type=whole_above_0, default=4_000, help="boards of each (%(default)s)")
    add = added["contributions"].add_argument
    add("--boards", nargs="+", default=list(STUDY_BOARDS)[:3], help="names of the study, or tiles")
    add("--action", choices=ACTIONS, default="down")
    add("--layers", type=whole_above_0, default=2, help="to go back (%(default)s)")
    add("--units", type=whole_above_0, default=11, help="rows (%(default)s)")
    add("--followed", type=whole_above_0, help="units of each layer (all); the study had 28")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    chosen = options(arguments)
    try:
        print(_COMMANDS[chosen.command](chosen))
    except (OSError, ValueError, ImportError) as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()

"""Tables of what networks compute, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from afterstate.agents.game2048.values.policy_net import best_moves, logits
from afterstate.envs.game2048 import torch_rules
from afterstate.text_tables import markdown
from benchmarks.experiments.policy_nets import analysis
from benchmarks.experiments.policy_nets.analysis import Floats

ACTIONS = ("up", "right", "down", "left")


def weights_table(networks: Mapping[str, npt.NDArray[np.float32]], threshold: float) -> str:
    """Return the table of the sizes of weights of first layers, and of the numbers of large ones.

    Args:
        networks: weights `[filters, 4, 16]` by name.
        threshold: absolute value above which a weight is large.
    """
    rows = []
    for name, weights in networks.items():
        median = np.median((np.abs(weights) > threshold).sum((1, 2)))
        rows.append([name, f"{np.abs(weights).mean():.3f}", f"{median:g}"])
    head = ["", "mean absolute weight", f"median weights of a filter above {threshold:g}, of 64"]
    return markdown(head, rows)


def caption(networks: Mapping[str, nn.Module], board: Tensor) -> str:
    """Return the moves of networks on a board `int64[]`: a header line and a line for each network.

    A network's line has its probabilities among the legal moves, and the move that it makes.
    """
    legal, lines = torch_rules.legal(board).tolist(), [" ".join(ACTIONS)]
    for name, net in networks.items():
        odds = analysis.legal_probabilities(net, board[None])[0]
        cells = [f"{p:.2f}" if ok else "-" for p, ok in zip(odds.tolist(), legal, strict=True)]
        lines.append(f"{name}: {' '.join(cells)}, {ACTIONS[int(odds.argmax())]}")
    return "\n".join(lines)


def logits_table(net: nn.Module, boards: Tensor, names: Sequence[str]) -> str:
    """Return the logits of the moves on boards `int64[n]`; those of illegal moves in brackets."""
    rows = []
    for name, row, legal in zip(names, logits(net, boards), torch_rules.legal(boards), strict=True):
        pairs = zip(row.tolist(), legal.tolist(), strict=True)
        rows.append([name, *(f"{x:.2f}" if ok else f"({x:.2f})" for x, ok in pairs)])
    return markdown(["logits", *ACTIONS], rows)


def share_table(names: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Return units with their shares on boards, and the sums of each share and those above it.

    Args:
        names: names of the boards.
        rows: units, each with its share on each board, in percent.
    """
    sums, cells = np.zeros(len(names)), []
    for unit, shares in rows:
        sums += shares
        pairs = zip(shares, sums.tolist(), strict=True)
        cells.append([unit, *(f"{share:.1f} ({total:.1f})" for share, total in pairs)])
    return markdown(["unit", *(f"{name}: % (sum)" for name in names)], cells)


def contribution_table(shares: Sequence[Floats], names: Sequence[str], n: int) -> str:
    """Return the units with the largest shares on the middle board, as tables 4 to 7 of the paper.

    Args:
        shares: of the inputs of one layer, `[filters, rows, columns]` for each board.
        names: names of the boards.
        n: number of units.
    """
    units = [unit for unit, _ in analysis.top_units(shares[len(shares) // 2], n)]
    places = [(unit.filter, unit.row, unit.column) for unit in units]
    rows = [[100 * float(board[place]) for board in shares] for place in places]
    return share_table(names, list(zip(map(str, units), rows, strict=True)))


def agreement_table(names: Sequence[str], counts: analysis.Agreement) -> str:
    """Return the numbers of boards where all networks agree, and where exactly one differs."""
    lines = [("all agree", counts.all_agree)]
    lines += [(f"only {name} differs", n) for name, n in zip(names, counts.only, strict=True)]
    rows = [[name, f"{n:,}", f"{100 * n / counts.n:.1f}"] for name, n in lines]
    return markdown([f"of {counts.n:,} boards", "boards", "%"], rows)


def heuristics_table(
    networks: Mapping[str, nn.Module], boards: Tensor, players: Tensor | None = None
) -> str:
    """Return the rates of moves that obey the two heuristics where there is a choice.

    Args:
        networks: by name.
        boards: `int64[n]`.
        players: the moves of the log's players, which add a row.
    """
    moves = {name: best_moves(net, boards) for name, net in networks.items()}
    if players is not None:
        moves = {"the log's players": players, **moves}
    head, rows = ["where there is a choice"], [[name] for name in ["random moves", *moves]]
    for heuristic in analysis.HEURISTICS:
        results = [analysis.obedience(heuristic, boards, each) for each in moves.values()]
        head.append(f"{heuristic}: % of {results[0].n:,} boards")
        shares = [results[0].by_chance, *(result.obeyed for result in results)]
        for row, share in zip(rows, shares, strict=True):
            row.append(f"{100 * share:.1f}")
    return markdown(head, rows)


def probe_table(networks: Mapping[str, nn.Module], boards: Tensor, test_boards: Tensor) -> str:
    """Return the accuracy with which linear functions of layers predict the heuristics.

    Args:
        networks: by name.
        boards: `int64[n]`, to which it is fitted.
        test_boards: `int64[m]` of other games, on which it is tested.
    """
    head, rows = ["area under the ROC curve", *analysis.HEURISTICS], []
    labels = [(holds(boards), holds(test_boards)) for holds in analysis.HEURISTICS.values()]
    for name, net in networks.items():
        both = (analysis.activations(net, each) for each in (boards, test_boards))
        for i, (units, test_units) in enumerate(zip(*both, strict=True)):
            areas = (analysis.probe(units, fit, test_units, test) for fit, test in labels)
            layer = f"convolution {i}" if i else "planes"
            rows.append([f"{name}, {layer}", *(f"{area:.3f}" for area in areas)])
    return markdown(head, rows)

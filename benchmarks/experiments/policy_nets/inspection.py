"""Tables and pictures of any policy networks of 2048: see `analysis.py`.

    alias inspection='python -m benchmarks.experiments.policy_nets.inspection'
    inspection filters k5.safetensors --out filters.svg
    inspection weights k2.safetensors k5.safetensors --out w.svg
    inspection contributions k2.safetensors --action down
    inspection agreement k2.safetensors k5.safetensors --log x.npy
    inspection disagreements 2 5 --log x.npy --out boards.png
    inspection heuristics 2 5 --log x.npy --others y.npy

Tables are Markdown. `2` and `5` stand for the files of the pretrained networks with 2 and 5 layers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.agents.config import Count, Positive, settings
from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.learning.policy_imitation import logged
from afterstate.agents.game2048.values.policy_net import PRETRAINED, best_moves, load
from afterstate.envs.commands import parse_one_of, run_process
from afterstate.envs.game2048 import rules, torch_rules
from afterstate.envs.messages import listed
from afterstate.envs.options import NAMED
from benchmarks.experiments.policy_nets import analysis, drawing, tables
from benchmarks.experiments.policy_nets.analysis import PAPER_BOARDS
from benchmarks.experiments.policy_nets.tables import ACTIONS


@settings
class Filters:
    """Draw filters of a network."""

    net: str
    """Network: a file, or 2 or 5."""
    out: Annotated[Path, NAMED]
    """Picture to write."""
    filters: tuple[int, ...] = ()
    """Numbers of the filters; by default those with the largest weights."""
    top: Count = 12
    """Number of filters with the largest weights."""


@settings
class Weights:
    """Draw the numbers of large weights of filters, and write the sizes of all weights."""

    nets: tuple[str, ...]
    """Networks: files, or 2 or 5."""
    out: Annotated[Path, NAMED]
    """Picture to write."""
    threshold: Positive = 0.1
    """Absolute value above which a weight is large."""


@settings
class Contributions:
    """Write which units contribute to a move on each board."""

    net: str
    """Network: a file, or 2 or 5."""
    boards: tuple[str, ...] = tuple(PAPER_BOARDS)[:3]
    """Names of the paper's boards, or tiles such as "2 4 _ _ / ..."."""
    action: Literal["up", "right", "down", "left"] = "down"
    """Move that is traced back."""
    layers: Count = 2
    """Number of layers to go back."""
    units: Count = 11
    """Rows of a table."""
    followed: Count | None = None
    """Units of each layer that are traced further, by default all; the paper followed 28."""


@settings
class Compared:
    """Networks compared on the boards of a log."""

    nets: tuple[str, ...]
    """Networks: files, or 2 or 5."""
    log: Annotated[Path, NAMED]
    """Play log."""


@settings
class Agreement(Compared):
    """Write the number of boards where networks choose the same move."""

    states: Count = 20_000
    """Boards of the log, from its first on."""


@settings
class Disagreements(Compared):
    """Draw the boards on which the first network differs most surely from the others."""

    out: Annotated[Path, NAMED]
    """Picture to write."""
    states: Count = 20_000
    """Boards of the log, from its first on."""
    top: Count = 12
    """Number of boards to draw."""


@settings
class Heuristics(Compared):
    """Write the rates of moves that obey two heuristics, and the layers that predict them."""

    states: Count = 20_000
    """Boards of the log, from its first on."""
    others: Path | None = None
    """Log of other games, on which linear probes are tested; by default no probes."""
    probed: Count = 4_000
    """Boards of each log for the probes."""


def read_networks(paths: Sequence[str]) -> dict[str, nn.Module]:
    """Return networks by the names that tables give them.

    Raises:
        ValueError: a network is given twice.
    """
    if len(set(paths)) < len(paths):
        raise ValueError(f"networks must be different, got {list(paths)}")
    pretrained = {str(layers): path for layers, path in PRETRAINED.items()}
    networks = {path: load(pretrained.get(path, path)) for path in paths}
    names = [f"k = {nets.describe(net)['settings']['layers']}" for net in networks.values()]
    return {
        name if names.count(name) == 1 else f"{name}, {path}": net
        for name, (path, net) in zip(names, networks.items(), strict=True)
    }


def read_board(text: str) -> int:
    """Return the word of one of the paper's boards, or of a board's tiles.

    Raises:
        ValueError: neither a name nor 16 tiles.
    """
    if text in PAPER_BOARDS:
        return rules.from_text(PAPER_BOARDS[text])
    if len(text.replace("/", " ").split()) != 16:
        raise ValueError(f"a board must be one of {listed(PAPER_BOARDS)} or 16 tiles, got {text!r}")
    return rules.from_text(text)


def read_log(log: Path, n: int) -> tuple[Tensor, Tensor]:
    """Return the first `n` boards of a log, and the moves of its players."""
    return logged(play_logs.read(log)[:n])


def filters(args: Filters) -> str:
    """Draw filters of a network."""
    ((name, net),) = read_networks([args.net]).items()
    weights = analysis.first_layer(net)
    largest = np.argsort(-np.abs(weights).sum((1, 2)))[: args.top]
    numbers = list(args.filters) or largest.tolist()
    if not all(0 <= number < len(weights) for number in numbers):
        raise ValueError(f"filters must be in 0..{len(weights) - 1}, got {numbers}")
    titles = [f"{name}, #{number}" for number in numbers]
    drawing.draw_filters(weights[numbers], titles, args.out)
    return f"written: {args.out}"


def weights(args: Weights) -> str:
    """Draw figure 3 of the paper and return a table of the weights."""
    networks = read_networks(args.nets).items()
    first = {name: analysis.first_layer(net) for name, net in networks}
    drawing.draw_weights(first, args.out, args.threshold)
    return f"{tables.weights_table(first, args.threshold)}\n\nwritten: {args.out}"


def contributions(args: Contributions) -> str:
    """Return tables 4 to 7 of the paper."""
    (net,) = read_networks([args.net]).values()
    words = [read_board(text) for text in args.boards]
    output, followed = ACTIONS.index(args.action), [args.followed] * args.layers
    traced = [analysis.contributions(net, word, output, args.layers, followed) for word in words]
    parts = []
    for i, shares in enumerate(zip(*traced, strict=True)):
        layer = "the last layer" if i == 0 else f"layer {i} before the last"
        table = tables.contribution_table(shares, args.boards, args.units)
        parts.append(f"Inputs of {layer}:\n\n{table}")
    boards = torch_rules.from_words(np.array(words, np.uint64))
    return "\n\n".join([tables.logits_table(net, boards, args.boards), *parts])


def agreement(args: Agreement) -> str:
    """Return the counts of section 6 of the paper."""
    networks, (boards, _) = read_networks(args.nets), read_log(args.log, args.states)
    moves = torch.stack([best_moves(net, boards) for net in networks.values()])
    return tables.agreement_table(list(networks), analysis.agreement(moves))


def disagreements(args: Disagreements) -> str:
    """Draw boards on which the first network differs from others that agree."""
    networks, (boards, _) = read_networks(args.nets), read_log(args.log, args.states)
    if len(networks) < 2:
        raise ValueError("disagreements need at least two networks")
    alone, *others = networks.values()
    places = analysis.disagreements(alone, others, boards, args.top)
    if not len(places):
        return f"the networks agree on all {len(boards):,} boards"
    captions = [tables.caption(networks, board) for board in boards[places]]
    drawing.draw_boards(torch_rules.to_words(boards[places]).tolist(), captions, args.out)
    return f"written: {args.out}"


def heuristics(args: Heuristics) -> str:
    """Return the rates of moves that obey the heuristics, and with other games the probes."""
    networks, (boards, moves) = read_networks(args.nets), read_log(args.log, args.states)
    parts = [tables.heuristics_table(networks, boards, moves)]
    if args.others is not None:
        test_boards, _ = read_log(args.others, args.probed)
        parts.append(tables.probe_table(networks, boards[: args.probed], test_boards))
    return "\n\n".join(parts)


COMMANDS: dict[type, Callable[[Any], str]] = {
    Filters: filters,
    Weights: weights,
    Contributions: contributions,
    Agreement: agreement,
    Disagreements: disagreements,
    Heuristics: heuristics,
}


def parse(arguments: Sequence[str] | None = None) -> Any:
    """Return the settings of a command line."""
    kinds = {kind.__name__.lower(): kind for kind in COMMANDS}
    return parse_one_of(kinds, "python -m benchmarks.experiments.policy_nets.inspection", arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(arguments)
    print(COMMANDS[type(args)](args))


if __name__ == "__main__":
    sys.exit(run_process(main))

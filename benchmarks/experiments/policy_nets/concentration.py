"""Measure the concentration of the contributions to a bad move: figure 4 and tables 4 to 7.

    python -m benchmarks.experiments.policy_nets.concentration

Matsuzaki and Teramura trace the output *down* on three boards of one pattern, with tiles twice and
half as large: "large tiles along the first row, the second row empty". Their picture is lost, and
they do not say what the lower rows hold. So the lower rows are drawn at random, many times and with
three densities, and every figure is given with its spread. The networks are the pretrained ones.

Writes `concentration.jsonl`, a row for each network and pattern, and `concentration.md`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from afterstate.agents.config import settings
from afterstate.agents.game2048.values.policy_net import PRETRAINED, load
from afterstate.envs import durable_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.game2048 import rules
from afterstate.text_tables import markdown
from benchmarks.experiments.policy_nets.analysis import contributions, top_units
from benchmarks.experiments.policy_nets.settings import RESULTS

FIRST_ROW = (12, 11, 10, 9)
"""Exponents of the first row of the middle board: 4096 2048 1024 512."""
LOWER_ROWS = {"sparse": (0.8, 3), "half full": (0.5, 4), "full": (0.2, 7)}
"""The lower rows: the probability that a cell is empty, and the largest exponent."""
N_PATTERNS, N_TOP = 48, 4

TEXT = """# Concentration of the contributions to a bad move

The output *down* of the [policy networks](README.md) on triples of boards with a large first row,
an empty second row and random lower rows, {n} triples for each density of these. The boards of a
triple differ by a factor of two in all tiles. *Shared* are units of the last layer that are among
the four with the largest shares on all three boards; the last column is the share of each board's
own four together, a mean over the boards, and 5% and 95% quantiles of triples. Command:
`python -m benchmarks.experiments.policy_nets.concentration`; it takes ten seconds.

"""
"""The page before the table."""


def patterns(density: str, n: int = N_PATTERNS, seed: int = 1) -> list[list[int]]:
    """Return `n` patterns, each as the board words of three boards: tiles x2, x1 and x0.5."""
    rng, result = np.random.default_rng(seed), list[list[int]]()
    empty, largest = LOWER_ROWS[density]
    while len(result) < n:
        lower = rng.integers(2, largest + 1, size=(2, 4))
        lower[rng.random((2, 4)) < empty] = 0
        board = np.array([FIRST_ROW, [0] * 4, *lower])
        scaled = [np.where(board > 0, board + step, 0) for step in (1, 0, -1)]
        boards = [int(rules.words(each.astype(np.uint8))) for each in scaled]
        if all(rules.legal(each, rules.field(4, 4)) >> rules.DOWN & 1 for each in boards):
            result.append(boards)
    return result


def measure(layers: int, density: str) -> list[dict[str, Any]]:
    """Return a row for each pattern of a pretrained network: its top units on the three boards."""
    net, rows = load(PRETRAINED[layers]), []
    for number, boards in enumerate(patterns(density)):
        shares = [contributions(net, board, rules.DOWN, 1)[0] for board in boards]
        tops = [top_units(each, N_TOP) for each in shares]
        common = set.intersection(*({unit for unit, _ in top} for top in tops))
        covered = round(float(np.mean([sum(share for _, share in top) for top in tops])), 4)
        pattern = {"layers": layers, "lower rows": density, "pattern": number}
        rows.append({**pattern, "common": len(common), "covered": covered})
    return rows


def table(rows: pd.DataFrame) -> str:
    """Return the rates of top units that three boards share, and the share of each board's own."""
    body = []
    for (layers, density), group in rows.groupby(["layers", "lower rows"], sort=False):
        low, high = group["covered"].quantile([0.05, 0.95])
        shared = [f"{(group['common'] >= n).mean():.0%}" for n in (4, 3)]
        covered = f"{group['covered'].mean():.0%} ({low:.0%} to {high:.0%})"
        body.append([f"k = {layers}, {density}", *shared, covered])
    head = ["network, lower rows", "4 units shared", "3 or 4 shared"]
    return markdown([*head, "share of the top 4 (5% to 95%)"], body)


def page_of(rows: Sequence[dict[str, Any]]) -> str:
    """Return the page of the rows."""
    return TEXT.format(n=N_PATTERNS) + table(pd.DataFrame(rows)) + "\n"


@settings
class Args:
    """Measure both pretrained networks and write the rows and the table."""

    out: Path = RESULTS
    """Folder of rows and table."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.experiments.policy_nets.concentration", arguments)
    cases = [(layers, density) for layers in sorted(PRETRAINED) for density in LOWER_ROWS]
    rows = [row for case in cases for row in measure(*case)]
    args.out.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    durable_files.write(args.out / "concentration.jsonl", text.encode())
    page = page_of(rows)
    (args.out / "concentration.md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    sys.exit(run_process(main))

"""Speed of environments, players and learners, per CPU second on one core.

    python -m benchmarks.speed.throughput                   # this package, both games
    python -m benchmarks.speed.throughput daihinmin         # one game
    python -m benchmarks.speed.throughput 2048 --peers      # and other programs

Our subjects and other programs take turns, round after round. The figures are medians with their
range, printed and kept as printed in `results/throughput_GAME.txt`, with all values in
`results/throughput_GAME.json`. The subjects are in `game2048.py` and `daihinmin.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Literal

from tyro.conf import Positional

from afterstate.agents.config import Count, settings
from afterstate.envs.commands import parse
from benchmarks.machine import machine
from benchmarks.speed.timing import lines

RESULTS = Path(__file__).parents[1] / "results"
MODULES = {"2048": "game2048", "daihinmin": "daihinmin"}


@settings
class Args:
    """Measure the speed of environments, players and learners."""

    games: Positional[tuple[Literal["2048", "daihinmin"], ...]] = ("2048", "daihinmin")
    """Games to measure."""
    peers: bool = False
    """Time other installed programs as well."""
    rounds: Count = 7
    """Rounds of fast subjects."""
    slow_rounds: Count = 3
    """Rounds of slow subjects."""
    out: Path = RESULTS
    """Folder of the results."""


def measure(game: str, args: Args) -> None:
    """Time all subjects of a game; print and write the figures."""
    here = machine()
    speed = import_module(f"benchmarks.speed.{MODULES[game]}")
    figures, times_faster = speed.measure(args.rounds, args.slow_rounds, args.peers)
    printed = [
        ", ".join(f"{name} {value}" for name, value in here.items()),
        *lines(figures),
        *(f"{name} = {ratio:.1f}" for name, ratio in times_faster.items()),
    ]
    print("\n".join(printed))
    rows = [{**f._asdict(), "median": median(f.values)} for f in figures]
    result = {"machine": here, "figures": rows, "ratios": times_faster}
    args.out.mkdir(parents=True, exist_ok=True)
    name = args.out / f"throughput_{game}"
    name.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    name.with_suffix(".txt").write_text("\n".join(printed) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.speed.throughput", arguments)
    for game in args.games:
        measure(game, args)


if __name__ == "__main__":
    main()

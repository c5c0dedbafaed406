"""Speed of environments, players and learners, per CPU second on one core.

    python -m benchmarks.speed.throughput                   # this package, both games
    python -m benchmarks.speed.throughput daihinmin         # one game
    python -m benchmarks.speed.throughput 2048 --peers      # and other programs

Our subjects and other programs take turns, round after round. The figures are medians with their
range, printed and kept as printed in `results/throughput_GAME.txt`, with all values in
`results/throughput_GAME.json`. The subjects are in `game2048.py` and `daihinmin.py`.
"""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path
from statistics import median

from benchmarks.machine import machine
from benchmarks.speed.timing import lines

GAMES = ("2048", "daihinmin")
RESULTS = Path(__file__).parents[1] / "results"


MODULES = {"2048": "game2048", "daihinmin": "daihinmin"}


def measure(game: str, options: argparse.Namespace) -> None:
    """Time all subjects of a game; print and write the figures."""
    here = machine()
    speed = import_module(f"benchmarks.speed.{MODULES[game]}")
    figures, times_faster = speed.measure(options.rounds, options.slow_rounds, options.peers)
    printed = [
        ", ".join(f"{name} {value}" for name, value in here.items()),
        *lines(figures),
        *(f"{name} = {ratio:.1f}" for name, ratio in times_faster.items()),
    ]
    print("\n".join(printed))
    rows = [{**f._asdict(), "median": median(f.values)} for f in figures]
    result = {"machine": here, "figures": rows, "ratios": times_faster}
    options.out.mkdir(parents=True, exist_ok=True)
    name = options.out / f"throughput_{game}"
    name.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    name.with_suffix(".txt").write_text("\n".join(printed) + "\n")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Measures how fast everything is.")
    parser.add_argument("games", nargs="*", metavar="GAME", help="2048 or daihinmin (both)")
    parser.add_argument(
        "--peers", action="store_true", help="also time the other programs that are installed"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slow-rounds", type=int, default=3, help="rounds of slow subjects")
    parser.add_argument("--out", type=Path, default=RESULTS, help="a folder")
    options = parser.parse_args()
    unknown = sorted(set(options.games) - set(GAMES))
    if unknown:
        parser.error(f"game must be one of {GAMES}, got {unknown[0]!r}")
    for game in options.games or GAMES:
        measure(game, options)


if __name__ == "__main__":
    main()

"""How fast everything is, per CPU second of this process, on one core.

    python -m benchmarks.speed.throughput                   # this package, both games
    python -m benchmarks.speed.throughput daihinmin         # one game
    python -m benchmarks.speed.throughput 2048 --peers      # and other programs

Our subjects and other programs take turns, round after round. The figures are medians with their
range, printed and kept as printed in `results/throughput_GAME.txt`, with all values in
`results/throughput_GAME.json`. What is timed is in `speed_2048.py` and `speed_daihinmin.py`.
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
    """Times all subjects of a game, and prints and writes the figures."""
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
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Measures how fast everything is.")
    parser.add_argument("games", nargs="*", metavar="GAME", help="2048 or daihinmin (both)")
    parser.add_argument("--peers", action="store_true", help="also the other programs installed")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slow-rounds", type=int, default=3, help="of what takes long")
    parser.add_argument("--out", type=Path, default=RESULTS, help="a folder")
    options = parser.parse_args()
    unknown = sorted(set(options.games) - set(GAMES))
    if unknown:
        parser.error(f"there is no game {unknown[0]!r}, but {' and '.join(GAMES)}")
    for game in options.games or GAMES:
        measure(game, options)


if __name__ == "__main__":
    main()

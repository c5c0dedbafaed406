"""Fuzz readers and protocol for as long as asked; exit with 1 if a fault is found."""

from __future__ import annotations

import argparse
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path

from tqdm import tqdm

from tests.fuzz.driver import Fault, run
from tests.fuzz.targets import ATTACKS, READERS, TARGETS

ORDER = 4 * READERS + ATTACKS
"""Targets in their order; an attack takes as long as many reads."""


def _arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="time to run (default 60)")
    parser.add_argument("--only", default="*", help=f"pattern of targets, which are {[*TARGETS]}")
    parser.add_argument("--seed", type=int, help="of the mutations; by default the time")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="folder of faults")
    return parser.parse_args()


def main() -> int:
    """Run the command."""
    args = _arguments()
    names = [name for name in ORDER if fnmatchcase(name, args.only)]
    if not names:
        raise SystemExit(f"--only must name some of {[*TARGETS]}, got {args.only!r}")
    seed = int(time.time()) if args.seed is None else args.seed
    with tqdm(unit=" inputs", desc="0 faults") as bar:
        n_faults = 0

        def show(name: str, fault: Fault | None) -> None:
            nonlocal n_faults
            bar.update()
            if fault is not None:
                n_faults += 1
                bar.set_description(f"{n_faults} faults")
                bar.write(f"{fault.file}: {fault.error.splitlines()[0]}")

        result = run(names, args.out, seed, seconds=60 * args.minutes, progress=show)
    for name, tried in result.tried.items():
        n = sum(fault.target == name for fault in result.faults)
        print(f"{name:25} {tried:9,} inputs {n:4} faults")
    total = sum(result.tried.values())
    print(f"seed {seed}: {total:,} inputs tried, {len(result.faults)} faults found")
    return int(bool(result.faults))


if __name__ == "__main__":
    sys.exit(main())

"""Speed of environments, players and learners, alone and against other programs.

    python -m benchmarks.speed                     # the figures of this package, both games
    python -m benchmarks.speed daihinmin           # of one game
    python -m benchmarks.speed --peers --tdl2048 TDL2048/2048 --python other/bin/python

Figures are medians per CPU second with their range, printed and kept as printed in
`results/throughput_GAME.txt`, with all values in `results/throughput_GAME.json`. The subjects are
in `game2048.py` and `daihinmin.py`; they take turns, round after round.

With `--peers` ours and other programs take turns, and the figures are ratios: see `comparisons.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from subprocess import CalledProcessError
from typing import Annotated, Literal

from afterstate.agents.config import Count, Positive, settings
from afterstate.envs.commands import fail, parse, run_process
from afterstate.envs.messages import listed
from afterstate.envs.options import POSITIONAL
from afterstate.envs.signals import sigterm_raises
from afterstate.leaderboard.machine import machine
from benchmarks.experiments.harness import check_defaults, is_given
from benchmarks.speed import comparisons
from benchmarks.speed.comparisons import Peers
from benchmarks.speed.timing import lines

RESULTS = Path(__file__).parents[1] / "results"
MODULES = {"2048": "game2048", "daihinmin": "daihinmin"}
OF_PEERS = ("tdl2048", "python", "network", "turns", "length", "only", "result")
"""Options that have no effect without `--peers`."""


@settings
class Args:
    """Measure the speed of environments, players and learners."""

    games: Annotated[tuple[Literal["2048", "daihinmin"], ...], POSITIONAL] = ("2048", "daihinmin")
    """Games to measure, without --peers."""
    rounds: Count = 7
    """Rounds of each subject, without --peers."""
    out: Path = RESULTS
    """Folder of the results, without --peers."""
    peers: bool = False
    """Compare with other programs instead. The options below are for this."""
    tdl2048: Path | None = None
    """A built TDL2048 (github.com/moporgic/TDL2048); its comparisons are skipped without it."""
    python: Path = Path(sys.executable)
    """Interpreter of the other programs in Python; those it does not have are skipped."""
    network: Path | None = None
    """File of TDL2048 (.w) that both programs play with; by default TDL2048 learns one first."""
    turns: Count = 5
    """Turns of each comparison."""
    length: Positive = 1.0
    """Length of each turn, 1 for the usual one; less for a trial."""
    only: tuple[str, ...] = ()
    """Comparisons to make, by parts of their names; by default all."""
    result: Path = RESULTS / "peers.json"
    """File of the ratios, written after each comparison."""


def check(args: Args) -> None:
    """Raise ValueError if arguments are given that have no effect with or without `--peers`."""
    if args.peers and is_given(args, "games"):
        raise ValueError(f"games has no effect with --peers, got {listed(args.games)}")
    if args.peers:
        check_defaults(args, ("rounds", "out"), "with --peers")
    else:
        check_defaults(args, OF_PEERS, "without --peers")


def measure(game: str, args: Args) -> None:
    """Time all subjects of a game; print and write the figures."""
    here = machine()
    speed = import_module(f"benchmarks.speed.{MODULES[game]}")
    figures = speed.measure(args.rounds)
    head = ", ".join(f"{name} {value}" for name, value in here.items())
    printed = "\n".join([head, *lines(figures)]) + "\n"
    print(printed, end="")
    rows = [{**f._asdict(), "median": median(f.values)} for f in figures]
    args.out.mkdir(parents=True, exist_ok=True)
    name = args.out / f"throughput_{game}"
    name.with_suffix(".json").write_text(
        json.dumps({"machine": here, "figures": rows}, indent=1) + "\n"
    )
    name.with_suffix(".txt").write_text(printed)


def compare(args: Args) -> int:
    """Compare with other programs; return the exit status, 1 if a program failed."""
    tdl2048, network = (path and path.absolute() for path in (args.tdl2048, args.network))
    peers = Peers(args.python.absolute(), tdl2048, network)
    try:
        with sigterm_raises(KeyboardInterrupt()):
            rows = comparisons.run(peers, args.only, args.turns, args.length, args.result)
    except (ValueError, OSError, CalledProcessError) as error:
        fail(error)
    except KeyboardInterrupt:
        print(f"interrupted; {args.result} has the comparisons that ended", file=sys.stderr)
        return 130
    return int(any("failed" in row for row in rows))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    args = parse(Args, "python -m benchmarks.speed", arguments)
    check(args)
    if args.peers:
        return compare(args)
    for game in args.games:
        measure(game, args)
    return 0


if __name__ == "__main__":
    sys.exit(run_process(main))

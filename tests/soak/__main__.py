"""Training, serving and playing for hours, stopped or killed about once a minute.

    make soak                          # an hour
    make soak ARGS="--minutes 10 --out out/soak"

Nothing may be lost or grow. Each job is a program of the package that writes to a folder of its
own. After every life it is checked what it wrote: after a polite stop (SIGTERM, SIGINT) all must be
there, after SIGKILL all but an interval. Then it goes on. The command ends with 1 at the first
fault, and keeps the folder; its summary is also in `summary.json` there. It needs POSIX signals,
and samples memory, open files and threads where there is a `/proc`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from functools import partial
from pathlib import Path

from tests.soak.harness import Fault, Job, Soak, Times, interruptible, run
from tests.soak.playing import Leaderboard, PlayLog
from tests.soak.serving import Server
from tests.soak.training import NTuple, RankNet, ValueNet


def jobs(folder: Path, port: int) -> list[Job]:
    """Return all jobs, each with a folder of its own."""
    names = ["ntuple", "value", "rank", "logs", "board", "server"]
    ntuple, value, rank, logs, board, server = (folder / name for name in names)
    training = [NTuple(ntuple), ValueNet(value), RankNet(rank)]
    return [*training, PlayLog(logs), Leaderboard(board), Server(server, port)]


def soak(folder: Path, minutes: float, seed: int, port: int, times: Times | None = None) -> str:
    """Let all jobs run for some time, and return the summary.

    Raises:
        Fault: the first fault.
    """
    interruptible()
    programs = Soak(jobs(folder, port), folder, seed, times)
    fault = None
    try:
        run(programs, 60 * minutes, partial(print, flush=True))
    except Fault as error:
        fault = str(error)
        raise
    finally:
        facts = {"minutes": minutes, "seed": seed, "fault": fault, **programs.summary()}
        (folder / "summary.json").write_text(json.dumps(facts, indent=1) + "\n")
    return programs.text()


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="time to run (default 60)")
    parser.add_argument("--out", type=Path, default=Path("out/soak"), help="folder of all files")
    parser.add_argument("--seed", type=int, default=1, help="of the times and signals")
    parser.add_argument("--port", type=int, default=22_500, help="of the server, on loopback")
    args = parser.parse_args()
    shutil.rmtree(args.out, ignore_errors=True)
    os.nice(10)  # this process and all that it starts
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        print(f"{args.minutes:g} minutes: {soak(args.out, args.minutes, args.seed, args.port)}")
    except Fault as fault:
        print(f"fault: {fault}; the files are in {args.out}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

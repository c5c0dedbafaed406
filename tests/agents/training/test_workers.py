"""Jobs in other processes, which end with the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("joblib")

STARTER = """
import os, sys, time
from joblib import Parallel
from afterstate.agents.training import workers

def work(number):
    os.write(1, f"worker {os.getpid()}\\n".encode())  # at once: two processes write to one pipe
    time.sleep(0.2)
    return number

run = Parallel(n_jobs=2, return_as="generator")
for done in run(workers.delayed(work)(number) for number in range(10_000)):
    print("done", done, flush=True)
"""


def runs(process: int) -> bool:
    """Return True if a process runs."""
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=str)
def test_workers_end_with_the_process_that_started_them(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "starter.py").write_text(STARTER)
    command, pipe = [sys.executable, "starter.py"], subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, text=True, stdout=pipe) as starter:
        assert starter.stdout
        found: set[int] = set()
        while len(found) < 2:  # one worker may do several tasks before the other has started
            word, process = starter.stdout.readline().split()
            found |= {int(process)} if word == "worker" else set()
        assert all(runs(each) for each in found) and os.getpid() not in found
        starter.send_signal(number)
        starter.wait(10)
        deadline = time.monotonic() + 30
        while any(runs(each) for each in found):
            assert time.monotonic() < deadline
            time.sleep(0.1)

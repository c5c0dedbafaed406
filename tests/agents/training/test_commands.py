"""Parts that commands share: signals that end a program, and blocks that delay them; memory."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from afterstate.agents.training.commands import aligned, memory, sigterm_raises, uninterrupted


def test_columns_of_a_table_are_aligned() -> None:
    table = aligned(["player", "n"], [["a", "1,000"], ["longer one", ""]])
    assert table.split("\n") == [
        "player          n",
        "------          -",
        "a           1,000",
        "longer one",
    ]
    assert aligned(["a", "b"], [["xy", "z"]], left=2).split("\n") == ["a   b", "-   -", "xy  z"]


def handlers() -> list[Any]:
    """Return the handlers of Ctrl-C and SIGTERM."""
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.parametrize(
    ("numbers", "error"),
    [
        ([signal.SIGINT], KeyboardInterrupt),
        ([signal.SIGTERM], SystemExit),
        ([signal.SIGINT] * 3, KeyboardInterrupt),
        ([signal.SIGTERM, signal.SIGINT, signal.SIGTERM], KeyboardInterrupt),
    ],
)
def test_signals_are_delayed_until_the_end_of_the_block(
    numbers: list[signal.Signals], error: type[BaseException]
) -> None:
    done: list[int] = []
    with sigterm_raises(SystemExit(143)):
        before = handlers()
        with pytest.raises(error):
            with uninterrupted():
                for number in numbers:
                    signal.raise_signal(number)
                    done.append(number)
            done.append(0)
        assert handlers() == before
    assert done == numbers


def test_a_block_without_a_signal_changes_no_handler() -> None:
    before = handlers()
    with uninterrupted():
        pass
    with pytest.raises(ZeroDivisionError), uninterrupted():
        raise ZeroDivisionError
    assert handlers() == before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_ignored_signals_remain_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
    assert signal.signal(signal.SIGINT, before) is signal.SIG_IGN


def test_blocks_in_other_threads_change_no_handler() -> None:
    handlers_inside: list[list[Any]] = []

    def enter_block() -> None:
        with uninterrupted():
            handlers_inside.append(handlers())

    thread = threading.Thread(target=enter_block)
    thread.start()
    thread.join()
    assert handlers_inside == [handlers()]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the memory of a process")
def test_memory_of_a_process_includes_its_arrays() -> None:
    """A new process, since this one may free the arrays of other tests meanwhile."""
    program = (
        "import numpy as np; from afterstate.agents.training.commands import memory; "
        "print(memory()); array = np.ones(100 << 17); print(memory())"  # 100 MiB
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    printed = re.findall(r"memory: ([\d,]+) MiB, ([\d,]+) MiB of it in huge pages\n", run.stdout)
    before, after = ([int(number.replace(",", "")) for number in line] for line in printed)
    assert 95 <= after[0] - before[0] <= 110
    assert 0 <= after[1] - before[1] <= 110


def test_memory_is_unknown_on_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda path: False)
    assert memory() == "memory: unknown on this system"

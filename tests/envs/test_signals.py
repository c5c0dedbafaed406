"""Signals that end a program, and blocks that delay them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from afterstate.envs.signals import blocked, sigterm_raises, uninterrupted


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


def test_a_blocked_signal_is_blocked_in_processes_that_start() -> None:
    show = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    outputs = []
    with pytest.raises(KeyboardInterrupt):
        with blocked(signal.SIGINT):
            signal.raise_signal(signal.SIGINT)
            outputs.append(subprocess.check_output([sys.executable, "-c", show]))
    outputs.append(subprocess.check_output([sys.executable, "-c", show]))
    assert outputs == [b"True\n", b"False\n"]


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

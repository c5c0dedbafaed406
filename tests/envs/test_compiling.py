"""The line on the standard error stream when kernels are compiled for more than a second."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from numba.core.compiler_lock import global_compiler_lock
from tqdm import tqdm

from afterstate.envs import compiling

STEP = (
    "import gymnasium as gym; env = gym.make('afterstate:Game2048-v0'); env.reset(seed=1); "
    "env.step(0)"
)


def kernel(module: str) -> Any:
    """Return the event of compiling a kernel of a module."""
    function = SimpleNamespace(__module__=module)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


class Compiler:
    """Compiles kernels, in a time of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.listener, self.now = compiling._Listener(), 0.0
        monkeypatch.setattr(compiling, "time", SimpleNamespace(monotonic=lambda: self.now))

    def __call__(self, module: str, seconds: float, *within: float) -> None:
        """Compile a kernel, and within it those that it calls."""
        self.listener.on_start(kernel(module))
        for each in within:
            self("numba.core", each)
        self.now += seconds
        self.listener.on_end(kernel(module))


def test_each_group_that_takes_long_has_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compile_kernel = Compiler(monkeypatch)
    with caplog.at_level(logging.WARNING):
        compile_kernel("afterstate.envs.game2048.rules", 0.6)
        compile_kernel("somebody.else", 9.0)
        compile_kernel("afterstate.envs.game2048.games", 0.6)  # of another group
        assert caplog.messages == []
        for _ in range(3):
            compile_kernel("afterstate.envs.game2048.rules", 0.6)
        assert caplog.messages == [
            "compiling the rules of 2048: about 4 seconds, the first time only"
        ]
        compile_kernel("afterstate.agents.daihinmin.search.monte_carlo", 0.1, 2.0, 1.0)
        assert len(caplog.messages) == 2
        assert "the search of Daihinmin" in caplog.messages[1]


def test_the_clock_stands_still_while_kernels_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_kernel = Compiler(monkeypatch)
    monkeypatch.setattr(compiling, "_LISTENER", compile_kernel.listener)
    start = compiling.clock()
    compile_kernel("afterstate.envs.game2048.rules", 5.0, 2.0)
    compile_kernel("somebody.else", 1.0)
    assert compile_kernel.now == 8 and compiling.clock() == start
    compile_kernel.listener.on_start(kernel("afterstate.envs.game2048.rules"))
    compile_kernel.now += 3
    assert compiling.clock() == start  # in the middle of it
    compile_kernel.listener.on_end(kernel("afterstate.envs.game2048.rules"))
    compile_kernel.now += 0.5
    assert compiling.clock() == start + 0.5


def test_a_progress_bar_gives_way_to_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = logging.StreamHandler(sys.stderr)
    compile_kernel = Compiler(monkeypatch)
    compiling.LOGGER.addHandler(handler)
    try:
        with tqdm(total=2) as bar:
            bar.update(1)
            compile_kernel("afterstate.envs.game2048.rules", 0.6)
            compile_kernel("afterstate.envs.game2048.rules", 0.6)
            compile_kernel("afterstate.envs.game2048.rules", 0.6)
    finally:
        compiling.LOGGER.removeHandler(handler)
    before, line, after = capsys.readouterr().err.partition("compiling the rules of 2048")
    assert line and before.endswith("\r") and after.count("\r") >= 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
def test_an_interrupt_waits_until_a_kernel_is_loaded() -> None:
    """The compiler's library would end the process, or swallow it."""
    is_whole = False
    with pytest.raises(KeyboardInterrupt):
        with global_compiler_lock, global_compiler_lock:  # as kernels that others call
            signal.raise_signal(signal.SIGINT)
            is_whole = True
    assert is_whole


@pytest.mark.slow
@pytest.mark.parametrize("quiet", [False, True])
def test_a_first_step_says_that_it_compiles(tmp_path: Path, quiet: bool) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "AFTERSTATE_QUIET"}
    environ |= {"NUMBA_CACHE_DIR": str(tmp_path)} | ({"AFTERSTATE_QUIET": "1"} if quiet else {})
    for is_first in (True, False):
        run = subprocess.run(
            [sys.executable, "-c", STEP], env=environ, capture_output=True, text=True, check=True
        )
        says = run.stderr.count("compiling the rules of 2048")
        assert says == (is_first and not quiet)


def test_a_signal_waits_for_the_end_of_the_outermost_kernel() -> None:
    listener = compiling._Delay()
    listener.on_start(kernel("numba.core"))
    listener.on_start(kernel("numba.core"))
    for _ in range(3):
        signal.raise_signal(signal.SIGINT)
    listener.on_end(kernel("numba.core"))
    with pytest.raises(KeyboardInterrupt):
        listener.on_end(kernel("numba.core"))
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)  # as before


INTERRUPTED = """
import signal, threading
from numba import njit
import afterstate.envs.compiling

@njit
def inner(n):
    total = 0
    for i in range(n):
        total += i * i
    return total

@njit
def outer(n):
    return inner(n) + inner(n + 1)

threading.Timer(0.05, signal.raise_signal, (signal.SIGINT,)).start()
try:
    while True:
        outer.overloads or outer(3)
except KeyboardInterrupt:
    print(outer(3))
"""


def test_kernels_can_be_called_after_a_signal(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("19\n", "")

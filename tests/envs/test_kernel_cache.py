"""The cache of compiled kernels after its sources have changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

from afterstate import envs
from afterstate.envs import compiling

MODULES = [
    "afterstate.envs.words",
    "afterstate.envs.game2048.games",
    "afterstate.envs.daihinmin.rules",
    "afterstate.agents.game2048.learning.self_play",
    "afterstate.agents.daihinmin.values.features",
]

OUTER = """
import afterstate.envs.words
from afterstate.envs.inner import (
    plus,
)
from numba import njit


@njit("int64(int64)", cache=True)
def twice(n):
    return 2 * plus(n)


@njit("int64(int64)", cache=True)
def first(n):
    return n
"""
INNER = """
import afterstate.envs.words
from numba import njit

ONE = {}


@njit("int64(int64)", cache=True)
def plus(n):
    return n + ONE
"""
CALL = (
    "from afterstate.envs.outer import first, twice; "
    "print(twice(5), sum(twice.stats.cache_hits.values()), first.stats.cache_path)"
)


def is_kernel(value: Any) -> bool:
    """Return True for a kernel in numba's cache."""
    return isinstance(value, Dispatcher) and value.stats.cache_path is not None


@pytest.mark.parametrize("module", MODULES)
def test_names_of_cached_files_have_the_hash_of_the_sources(module: str) -> None:
    kernels = [each for each in vars(import_module(module)).values() if is_kernel(each)]
    assert any(kernel.py_func.__module__ == module for kernel in kernels)
    for kernel in kernels:
        digest = compiling.digest(kernel.py_func.__module__)
        assert f".{digest}." in kernel._cache._impl.filename_base


def test_the_hash_is_of_all_modules_that_a_module_imports() -> None:
    _, imported = compiling._imports("afterstate.agents.game2048.learning.self_play")
    assert "afterstate.agents.game2048.learning.td" in imported
    assert "afterstate.envs.game2048.rules" in imported
    assert not any("daihinmin" in name or name == "afterstate.envs" for name in imported)


def test_kernels_of_no_module_are_cached_as_before() -> None:
    def kernel(n: int) -> int:
        return n

    kernel.__module__ = None  # type: ignore[assignment]
    assert compiling.KernelLocator.from_function(kernel, __file__) is None


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return a folder with a copy of the package and two more modules, `outer` and `inner`."""
    folder = tmp_path / "afterstate" / "envs"
    shutil.copytree(Path(envs.__file__).parent, folder, ignore=shutil.ignore_patterns("*.nb?"))
    (tmp_path / "afterstate" / "__init__.py").write_text("")
    (folder / "outer.py").write_text(OUTER)
    (folder / "inner.py").write_text(INNER.format(1))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("cache", [None, "kernels"])
def test_a_kernel_is_compiled_again_after_an_edit_of_another_file(
    copied: Path, cache: str | None
) -> None:
    environ = {**os.environ, "PYTHONPATH": str(copied)}
    environ.pop("NUMBA_CACHE_DIR", None)
    if cache is not None:
        environ["NUMBA_CACHE_DIR"] = str(copied / cache)

    def call() -> tuple[int, int, Path]:
        command = [sys.executable, "-c", CALL]
        run = subprocess.run(
            command, cwd=copied, env=environ, check=True, capture_output=True, text=True
        )
        value, hits, path = run.stdout.split()
        return int(value), int(hits), Path(path)

    assert call()[:2] == (12, 0)
    value, hits, path = call()
    assert (value, hits) == (12, 1)
    n_files = len(list(path.glob("*.nb?")))
    (copied / "afterstate" / "envs" / "inner.py").write_text(INNER.format(2))
    assert call()[:2] == (14, 0)
    assert call()[:2] == (14, 1)
    assert len(list(path.glob("*.nb?"))) == n_files  # those from before are removed

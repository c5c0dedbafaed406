"""Readers of files are fuzzed, and the driver finds faults."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("needs limits of memory", allow_module_level=True)
for extra in ("torch", "safetensors", "joblib", "matplotlib"):
    pytest.importorskip(extra)

from tests.fuzz import driver  # noqa: E402 - after the skips
from tests.fuzz.broken import TARGETS  # noqa: E402
from tests.fuzz.driver import Run, run  # noqa: E402

INPUTS = 50
"""Inputs of each target, which take seconds."""


def assert_no_faults(result: Run) -> None:
    assert [(fault.target, fault.error, str(fault.file)) for fault in result.faults] == []


@pytest.mark.slow
def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    from tests.fuzz.targets import READERS

    result = run(READERS, tmp_path, seed=1, n_inputs=INPUTS * len(READERS))
    assert_no_faults(result)
    assert set(result.tried.values()) == {INPUTS}


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [2, 3])
def test_many_damaged_files_are_read_or_refused(tmp_path: Path, seed: int) -> None:
    from tests.fuzz.targets import READERS

    assert_no_faults(run(READERS, tmp_path, seed, seconds=60))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("raise", "KeyError('kind')"),
        ("allocate", "MemoryError()"),
        ("sleep", "took more than"),
        ("die", "the process ended with -6"),
        ("refuse", ""),
    ],
)
def test_faults_are_found_and_their_inputs_kept(
    tmp_path: Path, name: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "DEAF", 30)  # an input is read twice
    n = 1 if name == "sleep" else 2  # it takes twenty seconds each
    result = run([name], tmp_path, seed=1, n_inputs=n, module="tests.fuzz.broken")
    assert result.tried == {name: n}
    assert len(result.faults) == (n if error else 0)
    for number, fault in enumerate(result.faults):
        assert fault.target == name
        assert error in fault.error
        failing = driver.mutated(TARGETS[name], [b"sample"], 1, number)
        assert fault.file.read_bytes() == failing != b"sample"
        assert fault.file.with_name("error.txt").read_text() == fault.error

"""Imports of learners: torch and tables apart, and nothing that only a command needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

TABLES = "afterstate.agents.game2048.values.ntuple"


def loaded(*groups: list[str]) -> list[set[str]]:
    """Return the modules that a fresh process has loaded after each group of imports."""
    code = "import importlib, json, sys\n"
    code += f"for group in {groups!r}:\n"
    code += "    for name in group: importlib.import_module(f'afterstate.agents.{name}')\n"
    code += "    print(json.dumps(list(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return [set(json.loads(line)) for line in result.stdout.splitlines()]


@pytest.mark.slow
def test_torch_learners_load_no_tables() -> None:
    pytest.importorskip("torch")
    (modules,) = loaded([f"game2048.learning.{name}" for name in ("value_td", "policy_imitation")])
    assert "torch" in modules and TABLES not in modules


def test_the_run_loop_loads_no_learner_and_learners_of_tables_load_no_torch() -> None:
    loop, tables = loaded(
        [f"training.{name}" for name in ("run", "folder", "fitting_settings")],
        [f"game2048.learning.{name}" for name in ("ntuple_learner", "from_search")],
    )
    assert not loop & {"torch", "tqdm", "pandas", TABLES}
    assert TABLES in tables and "torch" not in tables

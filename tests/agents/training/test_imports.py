"""Imports of learners: torch and tables apart, and nothing that only a command needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

TABLES = "afterstate.agents.game2048.values.ntuple"
LEARNING = "afterstate.agents.game2048.learning"


def loaded(module: str) -> set[str]:
    """Returns the modules that a fresh process has loaded after it has imported one."""
    code = f"import json, sys, {module}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", [f"{LEARNING}.value_td", f"{LEARNING}.policy_imitation"])
def test_a_torch_learner_loads_no_tables(module: str) -> None:
    pytest.importorskip("torch")
    assert TABLES not in loaded(module)


@pytest.mark.parametrize("module", [f"{LEARNING}.ntuple_learner", f"{LEARNING}.from_search"])
def test_a_learner_of_tables_loads_no_torch(module: str) -> None:
    modules = loaded(module)
    assert TABLES in modules and "torch" not in modules


@pytest.mark.parametrize("name", ["training.run", "training.folder", "training.fitting"])
def test_the_run_loop_loads_no_learner_and_no_command(name: str) -> None:
    modules = loaded(f"afterstate.agents.{name}")
    assert not modules & {"torch", "tyro", "tqdm", "pandas", TABLES}

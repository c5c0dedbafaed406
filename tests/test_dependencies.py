"""The package works with the lowest versions of what it requires, and with the newest.

Both are installed into environments of their own, without torch, whose builds take gigabytes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = [
    *("tests/test_registration.py", "tests/test_properties.py", "tests/envs/test_json_files.py"),
    *("tests/envs/game2048/test_env.py", "tests/envs/daihinmin/test_env.py"),
    *("tests/envs/daihinmin/test_views.py", "tests/agents/test_agents.py"),
    *(
        "tests/agents/game2048/learning/test_ntuple_learner.py",
        "tests/agents/training/test_main.py",
    ),
    "tests/agents/game2048/search/test_expectimax.py",
]


def uv(*arguments: object) -> None:
    """Run uv; skip the test if it cannot be reached."""
    run = subprocess.run(["uv", *map(str, arguments)], capture_output=True, text=True)
    if "dns error" in run.stderr or "Connect" in run.stderr:
        pytest.skip("the package index cannot be reached")
    assert run.returncode == 0, run.stderr


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("uv"), reason="needs uv")
@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
def test_the_package_works_with_other_versions(tmp_path: Path, resolution: str) -> None:
    if not (ROOT / "envs").exists():
        pytest.skip("needs the sources")
    source, python = tmp_path / "source", tmp_path / "venv" / "bin" / "python"
    ignore = shutil.ignore_patterns(".*", "__pycache__", "build", "out", "runs")
    shutil.copytree(ROOT, source, ignore=ignore)
    uv("venv", "--python", sys.executable, tmp_path / "venv")
    group = f"{source / 'pyproject.toml'}:test"
    options = ("--python", python, "--resolution", resolution)
    uv("pip", "install", *options, f"{source}[render,train]", "--group", group)
    for folder in ("envs", "agents", "app"):
        shutil.rmtree(source / folder)
    # New versions of other packages warn that those below them are old.
    pytest_options = ("-q", "-o", "filterwarnings=default", "--rootdir", str(source))
    kernels = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    command = [str(python), "-m", "pytest", *pytest_options, *TESTS]
    run = subprocess.run(command, cwd=source, env=kernels, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-5000:]

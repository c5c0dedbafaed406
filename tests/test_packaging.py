"""The packages: every folder of code is listed, docstring examples are true, examples run."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import afterstate
import afterstate.agents
import afterstate.envs
import afterstate.leaderboard

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "afterstate": Path(str(afterstate.__file__)).parent,
    "afterstate.envs": Path(str(afterstate.envs.__file__)).parent,
    "afterstate.agents": Path(str(afterstate.agents.__file__)).parent,
    "afterstate.leaderboard": Path(str(afterstate.leaderboard.__file__)).parent,
}
MODULES = sorted(
    {
        ".".join([name, *path.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__")
        for name, folder in PACKAGES.items()
        for path in folder.rglob("*.py")
    }
)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_are_true(name: str) -> None:
    if name.endswith("sb3_vec_env"):
        pytest.importorskip("stable_baselines3")
    if name.startswith("afterstate.web."):
        pytest.importorskip("fastapi")
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_docstring_examples_exist() -> None:
    rules = importlib.import_module("afterstate.envs.game2048.rules")
    assert doctest.testmod(rules).attempted >= 7


def test_every_folder_of_code_is_listed_as_a_package() -> None:
    configuration = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^packages = \[(.*?)^\]", configuration, re.DOTALL | re.MULTILINE)
    assert listed is not None
    folders = {
        ".".join([name, *path.parent.relative_to(folder).parts])
        for name, folder in PACKAGES.items()
        for path in folder.rglob("*.py")
    }
    assert set(re.findall(r'"(afterstate[\w.]*)"', listed[1])) == folders


def test_class_variables_have_types() -> None:
    """Pydantic evaluates annotations, and Python 3.10 refuses a plain `ClassVar` there."""
    for folder in ("agents", "envs", "app", "benchmarks"):
        for file in (ROOT / folder).rglob("*.py"):
            assert not re.search(r":\s*ClassVar\b(?!\[)", file.read_text()), file


def test_packages_say_that_they_are_typed() -> None:
    assert all((folder / "py.typed").exists() for folder in PACKAGES.values())


@pytest.mark.slow
def test_quickstart_writes_its_files(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = subprocess.run(
        [sys.executable, ROOT / "examples" / "quickstart.py", "--smoke", "--out", tmp_path],
        capture_output=True,
        text=True,
        env={**os.environ, "MPLBACKEND": "Agg"},
        cwd=tmp_path,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for name in ("learning_curve.png", "last_moves.gif", "network.npz"):
        assert (tmp_path / name).stat().st_size > 1_000
        assert str(tmp_path / name) in run.stdout
    assert re.search(r"^greedy +20 +[\d,]+ ± [\d,]+", run.stdout, re.MULTILINE)
    assert "M moves/s, mean score" in run.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("quickstart.py --seconds -1", "seconds must be > 0, got -1.0"),
        ("quickstart.py --seed -1", "seed must be >= 0, got -1"),
        ("quickstart.py --greedy-games 0", "greedy_games must be >= 1, got 0"),
        ("daihinmin.py --games 0", "games must be >= 1, got 0"),
    ],
)
def test_examples_refuse_wrong_options(tmp_path: Path, words: str, message: str) -> None:
    pytest.importorskip("tyro")
    name, *options = words.split()
    script, out = str(ROOT / "examples" / name), str(tmp_path / "out")
    command = [sys.executable, script, *options, "--out", out]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 2 and message in run.stderr and "Traceback" not in run.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_example_of_daihinmin_draws_a_game_and_plays_a_match(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    run = subprocess.run(
        [sys.executable, ROOT / "examples" / "daihinmin.py", "--smoke", "--out", tmp_path],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "daihinmin.gif").stat().st_size > 100_000
    points = re.findall(r"^\w+ +(\d\.\d\d) points a game$", run.stdout, re.MULTILINE)
    assert len(points) == 5 and abs(sum(map(float, points)) - 15) < 0.05
    assert len(re.findall(r"^player_\d has \d+ points$", run.stdout, re.MULTILINE)) == 5


def test_the_types_are_those_of_the_sources() -> None:
    """`typings/afterstate` lays the folders of the package out for mypy, by links alone."""
    if not (ROOT / "typings").exists():
        pytest.skip("needs a checkout")
    assert all(each.is_symlink() for each in (ROOT / "typings" / "afterstate").iterdir())

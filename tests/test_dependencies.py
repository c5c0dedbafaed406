"""The package works with the lowest versions of what it requires, and with the newest.

They are installed into environments of their own. The lowest versions of torch have no builds for
CPUs on the package index: with the libraries for GPUs that they link they take gigabytes. So the
lowest versions of what needs torch are installed next to the torch of this environment, and of the
lowest torch it is only shown that all extras together can be resolved for each version of Python.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
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
    *("tests/agents/game2048/search/test_expectimax.py", "tests/commands/test_completion.py"),
]
TESTS_OF_EXTRAS = [
    *("tests/agents/test_nets.py", "tests/agents/training/test_fitter.py"),
    *("tests/agents/game2048/values/test_policy_net.py", "tests/commands/test_app.py"),
    *("tests/agents/daihinmin/values/test_rank_net.py", "tests/examples/test_sb3.py"),
    *("tests/envs/game2048/test_sb3_vec_env.py", "tests/envs/game2048/test_torch_rules.py"),
    "tests/benchmarks/leaderboard/test_tables.py",
    "tests/benchmarks/leaderboard/test_gzip_rows.py",
]

UNREACHABLE = re.compile(
    r"error sending request for url .*(client error \(Connect\)|operation timed out)", re.DOTALL
)
"""Reports of uv if no server answers, but not if one answers with an error."""

UV = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")

needs_uv = pytest.mark.skipif(not UV, reason="needs uv")


def run_uv(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run uv and return what it prints."""
    command = [UV or "uv", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)


def uv(*arguments: object) -> str:
    """Run uv and return its output; skip the test if the package index cannot be reached."""
    run = run_uv(*arguments)
    if run.returncode and UNREACHABLE.search(run.stderr):
        pytest.skip("the package index cannot be reached")
    assert run.returncode == 0, run.stderr
    return run.stdout


def local_torch() -> tuple[str, str]:
    """Return the version of a torch for CPUs and the folder that pip installed it from."""
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = ""
    command = [sys.executable, "-m", "pip", "config", "get", "global.find-links"]
    folder = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    if not torch.endswith("+cpu") or not list(Path(folder or ".").glob(f"torch-{torch}-*.whl")):
        pytest.skip("needs a build of torch for CPUs in the folder `find-links` of pip")
    return torch, folder


def install(folder: Path, extras: str, resolution: str, *options: object) -> Path:
    """Install the package into a new environment; return a copy of the sources without it."""
    source, python = folder / "source", folder / "venv" / "bin" / "python"
    ignore = shutil.ignore_patterns(".*", "__pycache__", "build", "out", "runs")
    shutil.copytree(ROOT, source, ignore=ignore)
    uv("venv", "--python", sys.executable, folder / "venv")
    group = f"{source / 'pyproject.toml'}:test"
    chosen = ("--python", python, "--resolution", resolution, *options)
    uv("pip", "install", *chosen, f"{source}[{extras}]", "--group", group)
    for name in ("envs", "agents", "app"):
        shutil.rmtree(source / name)
    return source


def with_local_torch(folder: Path) -> tuple[object, ...]:
    """Return the options of uv that install the torch for CPUs of this environment."""
    torch, wheels = local_torch()
    (folder / "torch.txt").write_text(f"torch=={torch}\n")
    return ("--find-links", wheels, "--constraint", folder / "torch.txt")


def assert_passes(source: Path, tests: list[str]) -> str:
    """Run tests with the package installed next to a copy of the sources; return the output."""
    # New versions of other packages warn that those below them are old.
    options = ("-q", "-o", "filterwarnings=default", "--rootdir", str(source))
    kernels = os.environ | {"NUMBA_CACHE_DIR": str(source.parent / "kernels")}
    kernels.pop("PYTHONPATH", None)
    command = [str(source.parent / "venv" / "bin" / "python"), "-m", "pytest", *options, *tests]
    run = subprocess.run(command, cwd=source, env=kernels, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-5000:]
    assert "no tests ran" not in run.stdout
    return run.stdout


@pytest.mark.index
@pytest.mark.slow
@needs_uv
@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
def test_the_package_works_with_other_versions(tmp_path: Path, resolution: str) -> None:
    assert_passes(install(tmp_path, "render,train", resolution), TESTS)


@pytest.mark.index
@pytest.mark.slow
@needs_uv
def test_extras_work_with_their_lowest_versions_and_this_torch(tmp_path: Path) -> None:
    source = install(tmp_path, "all", "lowest-direct", *with_local_torch(tmp_path))
    listed = uv("pip", "freeze", "--python", tmp_path / "venv" / "bin" / "python")
    for name in ("safetensors", "stable-baselines3", "sb3-contrib", "matplotlib", "pandas"):
        lowest = re.search(rf'"{name}>=([\d.]+)"', (source / "pyproject.toml").read_text())
        assert lowest and f"{name}=={lowest[1]}" in listed, name
    assert_passes(source, TESTS_OF_EXTRAS)


@pytest.mark.index
@pytest.mark.slow
@needs_uv
def test_wrappers_of_other_libraries_work(tmp_path: Path) -> None:
    libraries = ("ray[rllib]", "supersuit", "tianshou")
    source = install(tmp_path, "neural", "highest", *with_local_torch(tmp_path), *libraries)
    assert "skipped" not in assert_passes(source, ["tests/test_wrappers_of_the_field.py"])


@pytest.mark.index
@pytest.mark.slow
@needs_uv
@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_all_extras_can_be_installed_together(tmp_path: Path, python: str, resolution: str) -> None:
    """Of each package there is a build for this Python which agrees with all others."""
    project, chosen = ROOT / "pyproject.toml", tmp_path / "chosen.txt"
    what = ("--extra", "all", "--extra", "ray", "--group", f"{project}:dev")
    builds = ("--only-binary", ":all:", "--no-annotate", "--no-header")
    options = ("--python-version", python, "--resolution", resolution, "--output-file", chosen)
    uv("pip", "compile", "--quiet", project, *what, *builds, *options)
    names = {line.partition("==")[0] for line in chosen.read_text().splitlines()}
    assert names >= {"numba", "torch", "stable-baselines3", "ray", "hypothesis"}


@pytest.mark.parametrize("name", TESTS + TESTS_OF_EXTRAS)
def test_the_tests_that_are_run_exist(name: str) -> None:
    assert (ROOT / name).exists()


@needs_uv
def test_uv_says_when_the_index_cannot_be_reached(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("numpy\n")
    nobody = ("--no-cache", "--index-url", "http://127.0.0.1:9/simple")
    run = run_uv("pip", "compile", tmp_path / "one.txt", *nobody, UV_HTTP_RETRIES="0")
    assert run.returncode != 0
    assert UNREACHABLE.search(run.stderr), run.stderr


@pytest.mark.parametrize(
    "error",
    [
        "error: Failed to fetch: https://x/simple/y/\n  cause: HTTP status client error (404)",
        "No solution found\n  cause: Because Connect was not found in the package registry",
        "error sending request for url (https://x/y)\n  cause: invalid peer certificate",
    ],
)
def test_other_errors_are_no_reason_to_skip(error: str) -> None:
    assert not UNREACHABLE.search(error)

"""The layout: imports between folders run one way, and no folder is too full to take in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import afterstate.agents
import afterstate.envs

ENVS, AGENTS = Path(afterstate.envs.__path__[0]), Path(afterstate.agents.__path__[0])

ORDER = [
    "envs",
    "agents files",
    "training",
    "base",
    "rule_based",
    "afterstates",
    "values",
    "search",
    "learning",
    "players",
]
"""A module may import those of its own layer and of the layers before it."""

AGENTS_FILES = ("config", "factories", "files", "locks", "nets", "progress")
PLAYERS = ("players", "__init__")


def layer(name: str) -> str:
    """Return the layer of a module, by its name below `afterstate`.

    >>> layer("agents.game2048.values.ntuple"), layer("agents.game2048.kernels")
    ('values', 'base')
    """
    parts = name.split(".")
    if parts[0] == "envs" or parts[:2] == ["agents", "training"]:
        return parts[0] if parts[0] == "envs" else "training"
    if len(parts) == 2 and parts[1] in AGENTS_FILES:
        return "agents files"
    if len(parts) > 2 and parts[2] in ORDER:
        return parts[2]
    return "base" if len(parts) == 3 and parts[2] not in PLAYERS else "players"


def imports(path: Path) -> Iterator[str]:
    """Yield the modules below `afterstate` that a module imports when it is imported itself."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("afterstate."):
            module = (node.module or "").removeprefix("afterstate.")
            for alias in node.names:
                is_module = (AGENTS.parent / Path(*module.split("."), f"{alias.name}.py")).exists()
                is_module |= (AGENTS.parent / Path(*module.split("."), alias.name)).is_dir()
                yield f"{module}.{alias.name}" if is_module else module


MODULES = {
    ".".join(["agents", *path.relative_to(AGENTS).with_suffix("").parts]): path
    for path in sorted(AGENTS.rglob("*.py"))
    if path.name != "__init__.py"
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_from_its_layer_and_those_before(name: str) -> None:
    if name == "agents.training.__main__":
        return  # the command, which starts the learners
    own = ORDER.index(layer(name))
    later = [other for other in imports(MODULES[name]) if ORDER.index(layer(other)) > own]
    assert later == []


@pytest.mark.parametrize("game", ["game2048", "daihinmin"])
def test_a_game_knows_nothing_of_the_other(game: str) -> None:
    other = {"game2048": "daihinmin", "daihinmin": "game2048"}[game]
    for name, path in MODULES.items():
        if f".{game}." in name:
            assert [each for each in imports(path) if f".{other}" in each] == []


def test_environments_import_no_agents() -> None:
    for path in ENVS.rglob("*.py"):
        assert [name for name in imports(path) if name.startswith("agents")] == [], path


def test_no_folder_has_more_than_12_modules() -> None:
    root = Path(__file__).parents[1]
    for top in (ENVS, AGENTS, *(root / name for name in ("benchmarks", "examples", "tests"))):
        for folder in {path.parent for path in top.rglob("*.py")}:
            modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
            assert len(modules) <= 12, folder

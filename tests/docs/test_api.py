"""The reference: it has every public name; modules that users do not call are listed here."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import afterstate
import afterstate.agents
import afterstate.envs
import afterstate.leaderboard
from tests.docs.run_page import ROOT

FOLDERS = {
    "afterstate": Path(str(afterstate.__file__)).parent,
    "afterstate.envs": Path(afterstate.envs.__path__[0]),
    "afterstate.agents": Path(afterstate.agents.__path__[0]),
    "afterstate.leaderboard": Path(afterstate.leaderboard.__path__[0]),
}
INTERNAL = {
    *(f"afterstate.{name}" for name in ("__main__", "commands", "completion", "web")),
    "afterstate.text_tables",
    *(f"afterstate.envs.{name}" for name in ("vector_arguments", "commands", "options")),
    *(f"afterstate.envs.{name}" for name in ("checks", "compiling")),
    *(f"afterstate.envs.{name}" for name in ("messages", "signals")),
    *(f"afterstate.envs.{name}" for name in ("durable_files", "json_files")),
    *(f"afterstate.envs.daihinmin.uecda.{name}" for name in ("hosting", "journal", "lobby")),
    *(f"afterstate.envs.daihinmin.uecda.{name}" for name in ("metrics", "seats")),
    "afterstate.agents.training.__main__",
    *(f"afterstate.agents.training.{name}" for name in ("learners", "workers")),
    "afterstate.agents.game2048.kernels",
    "afterstate.agents.factories",
    "afterstate.agents.locks",
    "afterstate.agents.progress",
    "afterstate.agents.game2048.learning.options",
    "afterstate.agents.game2048.players",
    "afterstate.agents.daihinmin.players",
    *(f"afterstate.leaderboard.{name}" for name in ("__main__", "command", "options")),
    "afterstate.leaderboard.machine",
}
"""Modules and packages that users do not call from Python."""


def modules() -> dict[str, Path]:
    """Return the files of all modules by their names."""
    return {
        ".".join([name, *path.relative_to(folder).with_suffix("").parts]).removesuffix(
            ".__init__"
        ): path
        for name, folder in FOLDERS.items()
        for path in folder.rglob("*.py")
    }


def is_internal(module: str) -> bool:
    """Return True for a module of `INTERNAL`, or below a package of it."""
    parts = module.split(".")
    return any(".".join(parts[: i + 1]) in INTERNAL for i in range(len(parts)))


def public_names(path: Path) -> set[str]:
    """Return the functions and classes of a module that have no underscore."""
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    defined = [each for each in nodes if isinstance(each, (ast.FunctionDef, ast.ClassDef))]
    return {each.name for each in defined if not each.name.startswith("_")}


def listed() -> dict[str, set[str] | None]:
    """Return what the reference lists, with the members of a module that it shows; None for all."""
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md")]
    entry = re.compile(r"^::: (\S+)\n(?:    options: \{.*?members: \[(.*)\])?", re.MULTILINE)
    return {
        match[1]: None if match[2] is None else set(match[2].split(", ")) - {""}
        for page in pages
        for match in entry.finditer(page)
    }


def shown() -> list[str]:
    """Return the public names that the reference shows, as often as it does."""
    reference, known = listed(), modules()
    names = [name for name in reference if name not in known]
    for module in reference.keys() & known.keys():
        members = reference[module]
        of_module = public_names(known[module]) if members is None else members
        names += [f"{module}.{each}" for each in of_module]
    return names


def test_every_public_name_is_in_the_reference_once() -> None:
    public = [
        f"{module}.{name}"
        for module, path in modules().items()
        if not is_internal(module)
        for name in public_names(path)
    ]
    assert sorted(shown()) == sorted(public)


def test_internal_modules_exist() -> None:
    assert modules().keys() >= INTERNAL

"""The reference: it has every module for users; the internal ones are listed here."""

from __future__ import annotations

import re
from pathlib import Path

import afterstate.agents
import afterstate.envs
from tests.docs.run_page import ROOT

FOLDERS = {
    "afterstate.envs": Path(afterstate.envs.__path__[0]),
    "afterstate.agents": Path(afterstate.agents.__path__[0]),
}
INTERNAL = {
    *(f"afterstate.envs.{name}" for name in ("batches", "commands", "command_errors", "compiling")),
    *(f"afterstate.envs.{name}" for name in ("messages", "signals")),
    *(f"afterstate.envs.{name}" for name in ("durable_files", "json_files")),
    *(f"afterstate.envs.daihinmin.uecda.{name}" for name in ("hosting", "journal", "lobby")),
    *(f"afterstate.envs.daihinmin.uecda.{name}" for name in ("metrics", "seats")),
    *(f"afterstate.agents.training.{name}" for name in ("__main__", "commands", "fitting")),
    "afterstate.agents.training.workers",
    "afterstate.agents.game2048.kernels",
    "afterstate.agents.game2048.players",
    "afterstate.agents.daihinmin.players",
}
"""Modules that users do not call."""
PARTS = ("search", "learning", "values", "afterstates", "rule_based")
"""Folders whose other modules are parts of the methods of those in the reference."""


def modules() -> set[str]:
    """Return the names of all modules."""
    return {
        ".".join([name, *path.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__")
        for name, folder in FOLDERS.items()
        for path in folder.rglob("*.py")
    }


def test_every_module_for_users_is_in_the_reference() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md")]
    listed = {name for page in pages for name in re.findall(r"^ *::: (\S+)", page, re.MULTILINE)}
    missing = {
        name
        for name in modules() - INTERNAL
        if not any(each == name or each.startswith(f"{name}.") for each in listed)
        and not set(name.split(".")) & set(PARTS)
    }
    packages = {name for name in missing if any(each.startswith(f"{name}.") for each in modules())}
    assert missing - packages == set()


def test_internal_modules_exist() -> None:
    assert modules() >= INTERNAL

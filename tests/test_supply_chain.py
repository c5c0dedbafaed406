"""Loaded files are never executed: no code of ours unpickles, evaluates or runs them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import afterstate
import afterstate.agents
import afterstate.envs

ROOT = Path(__file__).parents[1]
FOLDERS = [
    *(Path(package.__path__[0]) for package in (afterstate, afterstate.agents, afterstate.envs)),
    *(ROOT / name for name in ("benchmarks", "examples")),
]

MODULES = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}
"""Modules of which nothing may be called."""

CALLS = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen"),
    *("torch.load", "joblib.load", "pandas.read_pickle"),
    *("yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load", "yaml.unsafe_load_all"),
}
"""Functions that may not be called, by their full names."""

ALLOWED: dict[str, str] = {}
"""Calls that are allowed, as `file: call`, and why."""


def names_of(tree: ast.AST) -> dict[str, str]:
    """Return the full names of what a module imports, by the names that it gives them."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def full_name(node: ast.expr, names: dict[str, str]) -> str:
    """Return the full name of what is called; empty for a method of an object."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        owner = full_name(node.value, names)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def is_forbidden(call: ast.Call, name: str) -> bool:
    """Return True if a call may execute what it reads."""
    keywords = {each.arg: each.value for each in call.keywords}
    pickles, shell = keywords.get("allow_pickle"), keywords.get("shell")
    return (
        name in CALLS
        or name.partition(".")[0] in MODULES
        or (pickles is not None and ast.unparse(pickles) != "False")
        or (shell is not None and ast.unparse(shell) != "False")
    )


def forbidden_calls(source: str) -> Iterator[str]:
    """Yield the names of forbidden calls in the source of a module."""
    tree = ast.parse(source)
    names = names_of(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and is_forbidden(node, full_name(node.func, names)):
            yield full_name(node.func, names) or ast.unparse(node.func)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_nothing_that_is_read_is_executed(folder: Path) -> None:
    sources = sorted(folder.rglob("*.py"))
    assert sources
    found = {
        f"{path.relative_to(folder)}: {call}"
        for path in sources
        for call in forbidden_calls(path.read_text(encoding="utf-8"))
    }
    assert found <= ALLOWED.keys()


@pytest.mark.parametrize(
    "source",
    [
        "import pickle; pickle.loads(data)",
        "import pickle as p; p.load(file)",
        "from pickle import loads as read; read(data)",
        "import marshal; marshal.load(file)",
        "import shelve; shelve.open(name)",
        "eval(text)",
        "exec(compile(text, 'x', 'exec'))",
        "import torch; torch.load(file, weights_only=False)",
        "from torch import load; load(file)",
        "import yaml; yaml.load(text, yaml.Loader)",
        "import numpy as np; np.load(file, allow_pickle=True)",
        "import numpy as np; np.load(file, allow_pickle=flag)",
        "import os; os.system(command)",
        "import subprocess; subprocess.run(command, shell=True)",
    ],
)
def test_forbidden_calls_are_found(source: str) -> None:
    assert list(forbidden_calls(source))


@pytest.mark.parametrize(
    "source",
    [
        "net.eval()",
        "import yaml; yaml.safe_load(text)",
        "import numpy as np; np.load(file)",
        "import numpy as np; np.load(file, allow_pickle=False)",
        "import json; json.loads(text)",
        "import re; re.compile(pattern)",
        "model.load(file)",
    ],
)
def test_other_calls_are_not(source: str) -> None:
    assert list(forbidden_calls(source)) == []

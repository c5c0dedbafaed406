"""Loaded files are never executed: no code of ours unpickles, evaluates or runs them."""

from __future__ import annotations

import ast
import builtins
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import afterstate
import afterstate.agents
import afterstate.envs

ROOT = Path(__file__).parents[1]
APP = Path(afterstate.__path__[0])
FOLDERS = {
    "app": [each for part in ("", "commands/", "web/**/") for each in APP.glob(f"{part}*.py")],
    "agents": sorted(Path(afterstate.agents.__path__[0]).rglob("*.py")),
    "envs": sorted(Path(afterstate.envs.__path__[0]).rglob("*.py")),
    **{name: sorted((ROOT / name).rglob("*.py")) for name in ("benchmarks", "examples")},
}

# Full names, each with all that is below it. They may neither be imported nor be named, so that
# another name for them cannot hide a call.
FORBIDDEN = {
    *("pickle", "_pickle", "cloudpickle", "dill", "jsonpickle", "marshal", "shelve"),
    *("builtins", "code", "codeop", "runpy", "pdb", "timeit", "pty", "zipimport", "pkgutil", "imp"),
    *("cProfile", "profile", "trace", "pydoc", "doctest", "ruamel", "ray.cloudpickle"),
    *("globals", "types.FunctionType", "types.CodeType", "numba.core.serialize"),
    *("multiprocessing.connection.Client", "multiprocessing.connection.Listener"),
    *("multiprocessing.managers", "multiprocessing.reduction", "torch.storage"),
    *("ctypes", "subprocess", "logging.config", "stable_baselines3", "sb3_contrib"),
    *("eval", "exec", "compile", "__import__", "__builtins__", "__loader__", "__spec__"),
    *(
        "importlib.machinery",
        "importlib.reload",
        "importlib._bootstrap",
        "importlib.util.LazyLoader",
    ),
    *("importlib.util.spec_from_file_location", "importlib.util.spec_from_loader"),
    *("importlib.util.module_from_spec", "sys.modules", "sys.path_hooks", "sys.meta_path"),
    *("os.system", "os.popen", "os.startfile", "asyncio.create_subprocess_shell"),
    *(f"os.exec{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    *(f"os.spawn{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    *("os.posix_spawn", "os.posix_spawnp", "asyncio.create_subprocess_exec"),
    *("torch.load", "torch.jit", "torch.package", "torch.hub", "torch.serialization"),
    *("torch.export", "torch.classes", "torch.ops", "torch.distributed", "torch.utils.data"),
    *("torch.utils.cpp_extension", "torch.utils.model_zoo", "pydantic.ImportString"),
    *("numpy.ctypeslib", "numpy.f2py", "numpy.lib.npyio", "numpy.lib._npyio_impl"),
    *("joblib.load", "joblib.Memory", "joblib.numpy_pickle", "joblib.memory"),
    *("pandas.read_pickle", "pandas.read_hdf", "pandas.eval", "pandas.HDFStore"),
    *(f"yaml.{name}" for name in ("load", "load_all", "full_load", "full_load_all", "loader")),
    *(f"yaml.{name}" for name in ("unsafe_load", "unsafe_load_all", "constructor", "cyaml")),
    *(f"yaml.{name}Loader" for name in ("", "Full", "Unsafe", "C", "CFull", "CUnsafe")),
}
ATTRIBUTES = {"__globals__", "__builtins__", "__subclasses__", "__getattribute__", "__self__"}
ATTRIBUTES |= {"query", "load_replay_buffer", "load_from_zip_file", "load_from_pkl"}
"""Attributes of any object that lead to such names, evaluate a text (in pandas), or unpickle in
stable-baselines3."""

READERS = {"numpy.load": 2, "numpy.lib.format.read_array": 1}
"""Functions that unpickle only if asked to, and the place of that argument."""

WITH_FORBIDDEN_PARTS = {
    *("torch", "torch.utils", "numpy", "numpy.lib", "numpy.lib.format", "os", "sys", "asyncio"),
    *("yaml", "pandas", "joblib", "importlib", "importlib.util", "logging", "pydantic"),
}
"""Modules that may only be named for what is in them: `getattr(os, name)` may be anything."""

OWN = "runs programs with arguments of its own, which no file that is read can change"
NAMED = "imports the module that the user names in order to run it"
TRAINS = "trains, and reads no file by it"
CHECKPOINT = "stable-baselines3 unpickles checkpoints; docs/files.md says to resume only one's own"

ALLOWED = {
    "app/__init__.py: sys.modules": "only to tell whether Gymnasium is imported",
    "app/__main__.py: importlib.import_module": "a module of its table",
    "agents/factories.py: importlib.import_module": NAMED,
    "app/memory.py: os.execv": "starts the process itself again, with its own arguments",
    "envs/__init__.py: importlib.import_module": "a module of its table",
    "envs/game2048/sb3_vec_env.py: stable_baselines3": "the base class of an environment",
    "benchmarks/leaderboard/games.py: importlib.import_module": NAMED,
    "benchmarks/leaderboard/games.py: subprocess": OWN,
    "benchmarks/leaderboard/games.py: sys.modules": "only to tell where a module comes from",
    "benchmarks/speed/__main__.py: subprocess": "only its error",
    "benchmarks/speed/alphabeta.py: subprocess": OWN,
    "benchmarks/speed/comparisons.py: subprocess": OWN,
    "benchmarks/speed/daihinmin.py: subprocess": OWN,
    "benchmarks/speed/timing.py: importlib.import_module": "a module of the benchmark itself",
    "benchmarks/speed/timing.py: subprocess": OWN,
    "benchmarks/speed/web.py: subprocess": OWN,
    "examples/sb3_2048.py: stable_baselines3": TRAINS,
    "examples/sb3_daihinmin.py: stable_baselines3": TRAINS,
    "examples/sb3_training.py: load_replay_buffer": CHECKPOINT,
    "examples/sb3_training.py: sb3_contrib": TRAINS,
    "examples/sb3_training.py: stable_baselines3": TRAINS,
}
"""Names that are allowed, as `file: name`, and why."""


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


def full_name(node: ast.AST, names: dict[str, str]) -> str:
    """Return the full name of what was imported or is built in; empty for others."""
    if isinstance(node, ast.Name):
        is_builtin = hasattr(builtins, node.id) or node.id.startswith("__")
        return names.get(node.id, node.id if is_builtin else "")
    if isinstance(node, ast.Attribute):
        owner = full_name(node.value, names)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def rule(name: str) -> str:
    """Return the forbidden name that a full name is, or is below; empty if there is none.

    Names with a dot are also found below other modules, which import theirs: `pathlib.os.system`.
    """
    parts = name.split(".")
    starts = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
    below = [".".join(parts[i:n]) for n in range(3, len(parts) + 1) for i in range(1, n - 1)]
    return next((each for each in (*starts, *below) if each in FORBIDDEN), "")


def forbidden_imports(tree: ast.AST) -> Iterator[str]:
    """Yield the rules that imports break."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (rule(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield rule(f"{node.module}.{alias.name}")
                yield f"{node.module}.*" if alias.name == "*" else ""


def forbidden_names(tree: ast.AST) -> Iterator[str]:
    """Yield the rules that names break, and modules and readers that get another name."""
    names = names_of(tree)
    nodes = list(ast.walk(tree))
    owners = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        name = full_name(node, names)
        yield rule(name)
        if name in READERS and node not in called:
            yield name
        if name in WITH_FORBIDDEN_PARTS and node not in owners:
            yield f"{name} as a whole"
        if isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            yield node.attr


def forbidden_calls(tree: ast.AST) -> Iterator[str]:
    """Yield the names of calls that may execute what they read, by their arguments."""
    names = names_of(tree)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = full_name(call.func, names)
        keywords = {each.arg: ast.unparse(each.value) for each in call.keywords}
        if name in READERS and (None in keywords or _has_argument(call, READERS[name])):
            yield name
        for flag in ("allow_pickle", "shell"):
            yield flag if keywords.get(flag, "False") != "False" else ""
        if name == "importlib.import_module":
            text = call.args[0]
            yield name if not _names_a_package(text) else ""
            yield rule(str(text.value)) if isinstance(text, ast.Constant) else ""
        if name.startswith("subprocess.") and _is_text(call.args[0] if call.args else None):
            yield f"{name} of a text"


def _has_argument(call: ast.Call, place: int) -> bool:
    """Return True if a call has, or may have, an argument in a place."""
    return len(call.args) > place or any(isinstance(each, ast.Starred) for each in call.args)


def _is_text(node: ast.AST | None) -> bool:
    """Return True for a text."""
    return isinstance(node, (ast.Constant, ast.JoinedStr))


def _names_a_package(node: ast.expr) -> bool:
    """Return True for a text, or for one that begins with the name of a package and a dot."""
    first = node.values[0] if isinstance(node, ast.JoinedStr) else node
    return isinstance(first, ast.Constant) and (first is node or "." in str(first.value))


def forbidden(source: str) -> set[str]:
    """Return the rules that the source of a module breaks."""
    tree = ast.parse(source)
    rules = {*forbidden_imports(tree), *forbidden_names(tree), *forbidden_calls(tree)}
    return rules - {""}


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_that_is_read_is_executed(folder: str) -> None:
    broken = set()
    for path in FOLDERS[folder]:
        name = path.as_posix().rpartition(f"/{folder}/")[2] if folder != "app" else path.name
        for each in forbidden(path.read_text(encoding="utf-8")):
            broken.add(f"{folder}/{name}: {each}")
    assert FOLDERS[folder]
    assert broken == {entry for entry in ALLOWED if entry.startswith(f"{folder}/")}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import pickle; p = pickle; p.loads(data)",
        "import pickle as p; p.load(file)",
        "from pickle import loads as read; read(data)",
        "from pickle import *; loads(data)",
        "from anything import *",
        "import pickle; getattr(pickle, 'loads')(data)",
        "import pickle; pickle.Unpickler(file).load()",
        "import marshal; marshal.load(file)",
        "import shelve; shelve.open(name)",
        "eval(text)",
        "run = eval",
        "exec(compile(text, 'x', 'exec'))",
        "import builtins; builtins.eval(text)",
        "__builtins__['eval'](text)",
        "print.__self__.__getattribute__('eval')",
        "import sys; sys.modules['pickle'].loads(data)",
        "import runpy; runpy.run_path(file)",
        "import importlib; importlib.import_module(name)",
        "from importlib import import_module; import_module(f'{name}.module')",
        "import importlib.util; importlib.util.spec_from_file_location('x', file)",
        "from importlib.machinery import SourceFileLoader",
        "import torch; torch.load(file, weights_only=False)",
        "import torch as t; t.jit.load(file)",
        "from torch import load; load(file)",
        "from torch.package import PackageImporter",
        "import torch; other = torch; other.load(file)",
        "import torch; getattr(torch, 'load')(file)",
        "import yaml; yaml.load(text, yaml.Loader)",
        "import numpy as np; np.load(file, allow_pickle=True)",
        "import numpy as np; np.load(file, allow_pickle=flag)",
        "import numpy as np; np.load(file, None, True)",
        "import numpy as np; np.load(*arguments)",
        "import numpy as np; np.load(file, **options)",
        "import numpy as np; read = np.load",
        "from numpy.lib.format import read_array; read_array(file, True)",
        "import numpy as np; np.lib.format.read_array(file, allow_pickle=True)",
        "import os; os.system(command)",
        "import os; os.execv(program, arguments)",
        "from os import spawnl",
        "import subprocess",
        "from subprocess import run; run(command)",
        "import ctypes; ctypes.CDLL(file)",
        "from stable_baselines3 import PPO; PPO.load(file)",
        "model.load_replay_buffer(file)",
        "import importlib; importlib.import_module('pickle').loads(data)",
        "frame.query(text)",
        "from multiprocessing.connection import Client; Client(address).recv()",
        "import torch; torch.storage._load_from_bytes(data)",
        "from numba.core import serialize; serialize.loads(data)",
        "from ray import cloudpickle; cloudpickle.loads(data)",
        "from ruamel.yaml import YAML; YAML(typ='unsafe').load(text)",
        "import cProfile; cProfile.run(text)",
        "import pydoc; pydoc.locate(name)",
        "print.__self__.eval(text)",
        "globals()['__builtins__']['eval'](text)",
        "import pathlib; pathlib.os.system(command)",
        "import types; types.FunctionType(code, {})",
    ],
)
def test_forbidden_uses_are_found(source: str) -> None:
    assert forbidden(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import subprocess; subprocess.run('rm -r x', shell=True)", "shell"),
        ("from subprocess import run; run(f'start {name}')", "subprocess.run of a text"),
    ],
)
def test_programs_are_not_started_by_texts(source: str, expected: str) -> None:
    """These are found in files that may import `subprocess`, too."""
    assert expected in forbidden(source)


@pytest.mark.parametrize(
    "source",
    [
        "net.eval()",
        "code = 1; print(code)",
        "import yaml; yaml.safe_load(text)",
        "import numpy as np; np.load(file)",
        "import numpy as np; np.load(file, 'r', allow_pickle=False)",
        "import json; json.loads(text)",
        "import re; re.compile(pattern)",
        "import os.path; os.path.exists(os.environ['HOME'])",
        "from importlib import import_module; import_module(f'afterstate.agents.{name}')",
        "import torch; torch.nn.functional.relu(x)",
        "model.load(file)",
        "from multiprocessing.connection import Connection",
    ],
)
def test_other_uses_are_not(source: str) -> None:
    assert forbidden(source) == set()


WATCHED = [
    *("pickle.find_class", "marshal.loads", "exec", "compile", "import", "ctypes.dlopen"),
    *("os.system", "os.exec", "os.spawn", "os.posix_spawn", "subprocess.Popen"),
]
"""Audit events of code that is run, found or loaded."""

WATCH = f"""
import json, sys
from pathlib import Path
from tests.fuzz.targets import READERS, TARGETS

seen, watched = [], False
def watch(event, arguments):
    if watched and event in {WATCHED!r}:
        seen.append((name, event, repr(arguments)[:200]))
sys.addaudithook(watch)
for name in READERS:
    target, folder = TARGETS[name], Path(sys.argv[1]) / name
    folder.mkdir()
    samples, path = target.samples(folder), folder / "read" / target.file
    path.parent.mkdir(parents=True)
    for again in (False, True):  # the first time imports modules and loads compiled kernels
        for sample in samples:
            path.write_bytes(sample)
            watched = again
            target.read(path)
            watched = False
print(json.dumps([len(READERS), seen]))
"""


@pytest.mark.slow
def test_readers_of_files_find_no_code(tmp_path: Path) -> None:
    """All file formats of the package are read without unpickling, compiling or importing."""
    for extra in ("torch", "safetensors", "joblib", "matplotlib"):
        pytest.importorskip(extra)
    command = [sys.executable, "-c", WATCH, str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    n_readers, seen = json.loads(run.stdout.splitlines()[-1])
    assert n_readers > 9
    assert seen == []

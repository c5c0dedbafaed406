"""Tests of registered environments, and of what each part of the package imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import VectorizeMode

import afterstate
import afterstate.envs
from afterstate.envs.daihinmin.seat_env import DaihinminEnv
from afterstate.envs.daihinmin.vector_env import DaihinminVectorEnv
from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.vector_env import Game2048VectorEnv

ENVS = Path(afterstate.envs.__path__[0])
AGENTS = Path(afterstate.agents.__path__[0])
HEAVY = ("numba", "torch", "pygame", "PIL", "pettingzoo", "stable_baselines3", "matplotlib")

# A package without the `__init__.py` that registers the environments with gymnasium: what is loaded
# then is what the imported modules need.
STAND_IN = f"""
import sys, types
package = types.ModuleType("afterstate")
package.__path__ = {list(afterstate.__path__)!r}
sys.modules["afterstate"] = package
"""


def in_fresh_process(code: str) -> Any:
    """Return `result` of code run by a new interpreter, where warnings are errors."""
    code += "\nimport json\nprint(json.dumps(result))"
    command = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return json.loads(run.stdout)


def loaded_after(*groups: list[str], stand_in: bool = False) -> list[set[str]]:
    """Return the modules that a new interpreter has loaded after importing each group."""
    code = f"{STAND_IN if stand_in else ''}\nimport importlib, sys\nresult = []\n"
    for group in groups:
        code += f"for name in {group!r}:\n    importlib.import_module(name)\n"
        code += "result.append(sorted(sys.modules))\n"
    return [set(names) for names in in_fresh_process(code)]


NEURAL = (
    "values.planes",
    "values.value_net",
    "values.policy_net",
    "learning.value_td",
    "learning.policy_imitation",
    "learning.net_model",
)
"""Modules of `agents/game2048` with neural networks."""


def table_agents() -> list[str]:
    """Return the modules of `agents/game2048` without neural networks."""
    folder = AGENTS / "game2048"
    names = {
        ".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("*.py")
    }
    return [f"afterstate.agents.game2048.{name}" for name in sorted(names - set(NEURAL))]


def test_import_registers_the_environment_and_its_vector_form() -> None:
    spec = gym.spec("Game2048-v0")
    assert spec.max_episode_steps is None
    assert spec.order_enforce
    env = gym.make("Game2048-v0")
    assert type(env.unwrapped) is Game2048Env
    assert env.spec is not None and env.spec.id == "Game2048-v0"
    assert env.unwrapped.spec is not None and env.unwrapped.spec.make().reset(seed=1)[0].any()


def test_import_registers_daihinmin() -> None:
    spec = gym.spec("Daihinmin-v0")
    assert spec.max_episode_steps is None
    env = gym.make("Daihinmin-v0", seat=2, games=3, illegal="raise")
    assert type(env.unwrapped) is DaihinminEnv
    assert env.unwrapped.seat == 2 and env.unwrapped.illegal == "raise"
    assert env.unwrapped.spec is not None and env.unwrapped.spec.make().reset(seed=1)[0].any()
    envs = gym.make_vec("Daihinmin-v0", num_envs=2, seat=3, max_episode_steps=9)
    assert isinstance(envs, DaihinminVectorEnv)
    assert envs.seat == 3 and envs.max_episode_steps == 9
    sync = gym.make_vec("Daihinmin-v0", num_envs=2, vectorization_mode="sync")
    assert type(sync) is gym.vector.SyncVectorEnv
    assert envs.reset(seed=1)[0].shape == sync.reset(seed=1)[0].shape == (2, 116, 15)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["gymnasium, afterstate", "afterstate, gymnasium"])
def test_a_help_of_another_program_registers_the_environments(order: str) -> None:
    name = "afterstate" if order.startswith("gymnasium") else "mine"
    code = f"import sys; sys.argv = [{name!r}, '-h']; import {order}\n"
    assert in_fresh_process(f"{code}result = 'Daihinmin-v0' in gymnasium.registry") is True


def test_settings_reach_both_environments() -> None:
    settings: dict[str, Any] = {
        "size": (2, 3),
        "observation": "onehot",
        "illegal": "terminate",
        "start_tiles": 3,
        "render_mode": "ansi",
    }
    env = gym.make("Game2048-v0", **settings).unwrapped
    envs = gym.make_vec("Game2048-v0", num_envs=5, **settings).unwrapped
    assert isinstance(env, Game2048Env) and isinstance(envs, Game2048VectorEnv)
    assert {key: getattr(env, key) for key in settings} == settings
    assert {key: getattr(envs, key) for key in settings} == settings
    assert envs.num_envs == 5


def test_make_vec_makes_the_vector_environment() -> None:
    envs = gym.make_vec("Game2048-v0", num_envs=3)
    assert type(envs) is Game2048VectorEnv
    assert envs.spec is not None
    assert envs.spec.kwargs["vectorization_mode"] == VectorizeMode.VECTOR_ENTRY_POINT.value
    sync = gym.make_vec("Game2048-v0", num_envs=3, vectorization_mode="sync")
    assert type(sync) is gym.vector.SyncVectorEnv


def test_make_vec_and_make_take_a_limit_of_steps() -> None:
    envs = gym.make_vec("Game2048-v0", num_envs=3, max_episode_steps=7)
    assert isinstance(envs, Game2048VectorEnv) and envs.max_episode_steps == 7
    env = gym.make("Game2048-v0", max_episode_steps=7)
    env.reset(seed=1)
    ends = [env.step(0)[3] for _ in range(7)]
    assert ends == [False] * 6 + [True]


def test_lazy_names_are_the_classes_themselves() -> None:
    assert afterstate.envs.Game2048Env is Game2048Env
    assert afterstate.envs.Game2048VectorEnv is Game2048VectorEnv
    assert afterstate.envs.DaihinminEnv is DaihinminEnv
    assert afterstate.envs.DaihinminVectorEnv is DaihinminVectorEnv
    assert afterstate.envs.daihinmin_v0.__name__ == "afterstate.envs.daihinmin_v0"
    with pytest.raises(AttributeError, match="no attribute 'Game2049Env'"):
        _ = afterstate.envs.Game2049Env


def test_every_name_of_all_exists() -> None:
    pytest.importorskip("stable_baselines3")
    for name in afterstate.envs.__all__:
        assert getattr(afterstate.envs, name).__name__.split(".")[-1] == name


@pytest.mark.slow
def test_make_by_module_and_id_needs_no_import() -> None:
    boards = in_fresh_process(
        "import gymnasium as gym\n"
        "names = ('Game2048-v0', 'Daihinmin-v0')\n"
        "result = [gym.make(f'afterstate.envs:{name}').reset(seed=1)[0].tolist() for name in names]"
    )
    for name, board in zip(("Game2048-v0", "Daihinmin-v0"), boards, strict=True):
        assert board == gym.make(name).reset(seed=1)[0].tolist()


def test_importing_the_package_is_light_and_environments_need_no_agents() -> None:
    package, first, daihinmin, games = loaded_after(
        ["afterstate.envs"],
        [f"afterstate.envs.game2048.{name}" for name in ("env", "vector_env", "render")],
        ["afterstate.envs.daihinmin_v0"],
        [f"afterstate.envs.daihinmin.{name}" for name in ("seat_env", "vector_env", "render")],
    )
    lazy = {"afterstate.envs.game2048", "afterstate.envs.daihinmin", "afterstate.agents"}
    assert not package & {*HEAVY, *lazy}
    assert not first & {*HEAVY[1:], "afterstate.agents"}
    assert "pettingzoo" in daihinmin
    assert not games & ({*HEAVY[1:], "afterstate.agents"} - {"pettingzoo"})


@pytest.mark.slow
def test_played_games_need_no_extra() -> None:
    loaded = in_fresh_process(
        "import sys\n"
        "extras = ('torch', 'pygame', 'PIL', 'stable_baselines3')\n"
        "sys.modules.update(dict.fromkeys((*extras, 'pettingzoo')))\n"
        "import gymnasium as gym, afterstate.envs\n"
        "env = gym.make('Game2048-v0', render_mode='ansi', observation='onehot')\n"
        "env.reset(seed=1); env.step(2); env.render()\n"
        "envs = gym.make_vec('Game2048-v0', num_envs=3)\n"
        "envs.reset(seed=1); envs.step(envs.unwrapped.sample_legal())\n"
        "del sys.modules['pettingzoo']\n"
        "from afterstate.envs import daihinmin_v0\n"
        "env = daihinmin_v0.env(games=2, render_mode='ansi')\n"
        "env.reset(seed=1); env.last(); env.step(0); env.render(); env.state()\n"
        "env = gym.make('Daihinmin-v0', render_mode='ansi')\n"
        "env.reset(seed=1); env.step(0); env.render()\n"
        "result = [name for name in (*extras, 'afterstate.agents') if sys.modules.get(name)]"
    )
    assert loaded == []


RULES = [
    *(f"afterstate.envs.game2048.{name}" for name in ("rules", "games")),
    *(
        f"afterstate.envs.daihinmin.{name}"
        for name in ("cards", "plays", "rules", "match", "views", "observation", "players")
    ),
    "afterstate.envs.daihinmin.records.recording",
]
UECDA = [
    f"afterstate.envs.daihinmin.uecda.{name}"
    for name in ("tables", "client_view", "seats", "lobby", "hosting", "server", "client")
]
RULE_PLAYERS = [
    f"afterstate.agents.daihinmin.{name}"
    for name in ("rule_based.players", "rule_based.sample_client", "rule_based.heuristic", "play")
]
ENVIRONMENTS = {
    f"afterstate.envs.{name}"
    for name in ("game2048.env", "game2048.vector_env", "game2048.render", "daihinmin.env")
}


@pytest.mark.slow
def test_rules_network_and_agents_know_no_api() -> None:
    """The groups are imported in order, so each is checked with those before it."""
    tables = ["afterstate.agents", "afterstate.agents.files", *table_agents()]
    assert "afterstate.agents.game2048.learning.ntuple_learner" in tables
    rules, network, players, agents = loaded_after(
        RULES, UECDA, RULE_PLAYERS, tables, stand_in=True
    )
    api = {"gymnasium", *HEAVY[1:], *ENVIRONMENTS}
    assert not rules & {*api, "afterstate.agents"}
    assert not network & {*api, "afterstate.agents"}
    assert not players & api
    assert not agents & api


@pytest.mark.slow
def test_neural_agents_know_torch_and_the_rules() -> None:
    pytest.importorskip("torch")
    modules = [f"afterstate.agents.game2048.{name}" for name in NEURAL]
    (loaded,) = loaded_after(modules, stand_in=True)
    assert {"afterstate.envs.game2048.torch_rules", "torch"} <= loaded
    assert not loaded & {"gymnasium", "matplotlib", *ENVIRONMENTS}


@pytest.mark.slow
def test_missing_stable_baselines3_names_the_extra() -> None:
    message = in_fresh_process(
        "import sys\n"
        "sys.modules['stable_baselines3'] = None\n"
        "import afterstate.envs\n"
        "try:\n"
        "    afterstate.envs.Game2048VecEnv\n"
        "except ImportError as error:\n"
        "    result = str(error)"
    )
    assert 'pip install "afterstate[sb3]"' in message


def test_star_import_and_dir_list_all_names() -> None:
    names: dict[str, object] = {}
    exec("from afterstate.envs import *", names)
    vector_envs = {"DaihinminVectorEnv", "Game2048VectorEnv"}
    all_names = {"DaihinminEnv", "Game2048Env", "daihinmin_v0", *vector_envs}
    assert all_names <= set(names)
    assert all_names | {"Game2048VecEnv"} == set(dir(afterstate.envs))

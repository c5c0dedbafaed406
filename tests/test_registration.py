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
from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.vector_env import Game2048VectorEnv

ENVS = Path(afterstate.envs.__path__[0])
AGENTS = Path(afterstate.agents.__path__[0])
HEAVY = ("numba", "torch", "pygame", "PIL", "pettingzoo", "stable_baselines3", "matplotlib")

# A folder's modules are imported without running the package's own `__init__.py`, whose task is to
# register the environments with gymnasium: what is then imported, the modules asked for.
STAND_IN = f"""
import sys, types
package = types.ModuleType("afterstate")
package.__path__ = {list(afterstate.__path__)!r}
sys.modules["afterstate"] = package
"""


def in_fresh_process(code: str) -> Any:
    """What a new interpreter leaves in `result`; warnings there are errors."""
    code += "\nimport json\nprint(json.dumps(result))"
    command = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return json.loads(run.stdout)


def imported(modules: list[str], of: tuple[str, ...], before: str = "") -> list[str]:
    """Those of `of` that a new interpreter has loaded after importing `modules`."""
    return list(
        in_fresh_process(
            f"{before}\nimport importlib, sys\n"
            f"for name in {modules!r}:\n    importlib.import_module(name)\n"
            f"result = [name for name in {of!r} if name in sys.modules]"
        )
    )


NEURAL = (
    "values.planes",
    "values.value_net",
    "values.policy_net",
    "learning.value_td",
    "learning.policy_imitation",
    "learning.net_model",
)
"""The modules of `agents/game2048` that have neural networks."""


def table_agents() -> list[str]:
    """The modules of `agents/game2048` but for neural networks."""
    folder = AGENTS / "game2048"
    names = {
        ".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("*.py")
    }
    return [f"afterstate.agents.game2048.{name}" for name in sorted(names - set(NEURAL))]


# Registration


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
    assert spec.max_episode_steps is None and spec.vector_entry_point is None
    env = gym.make("Daihinmin-v0", seat=2, games=3, illegal="raise")
    assert type(env.unwrapped) is DaihinminEnv
    assert env.unwrapped.seat == 2 and env.unwrapped.illegal == "raise"
    assert env.unwrapped.spec is not None and env.unwrapped.spec.make().reset(seed=1)[0].any()
    envs = gym.make_vec("Daihinmin-v0", num_envs=2)
    assert type(envs) is gym.vector.SyncVectorEnv
    assert envs.reset(seed=1)[0].shape == (2, 116, 15)


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


def test_make_vec_picks_the_vector_environment_by_itself() -> None:
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
    assert afterstate.envs.daihinmin_v0.__name__ == "afterstate.envs.daihinmin_v0"
    with pytest.raises(AttributeError, match="no attribute 'Game2049Env'"):
        _ = afterstate.envs.Game2049Env


def test_every_name_of_all_can_be_had() -> None:
    pytest.importorskip("stable_baselines3")
    for name in afterstate.envs.__all__:
        assert getattr(afterstate.envs, name).__name__.split(".")[-1] == name


# Fresh processes


def test_make_by_module_and_id_needs_no_import() -> None:
    board = in_fresh_process(
        "import gymnasium as gym\n"
        "env = gym.make('afterstate.envs:Game2048-v0')\n"
        "result = env.reset(seed=1)[0].tolist()"
    )
    assert board == gym.make("Game2048-v0").reset(seed=1)[0].tolist()


def test_daihinmin_needs_no_import_but_its_own() -> None:
    agents = in_fresh_process(
        "from afterstate.envs import daihinmin_v0\n"
        "env = daihinmin_v0.env()\n"
        "env.reset(seed=1)\n"
        "result = env.agents"
    )
    assert agents == [f"player_{number}" for number in range(5)]
    observation = in_fresh_process(
        "import gymnasium as gym\n"
        "env = gym.make('afterstate.envs:Daihinmin-v0', seat=1)\n"
        "result = env.reset(seed=1)[0].tolist()"
    )
    assert observation == gym.make("Daihinmin-v0", seat=1).reset(seed=1)[0].tolist()


def test_daihinmin_is_imported_when_it_is_first_asked_for() -> None:
    loaded = in_fresh_process(
        "import sys, afterstate.envs\n"
        "before = 'pettingzoo' in sys.modules\n"
        "afterstate.envs.daihinmin_v0.raw_env\n"
        "result = [before, 'pettingzoo' in sys.modules]"
    )
    assert loaded == [False, True]


def test_make_after_import() -> None:
    board = in_fresh_process(
        "import gymnasium as gym, afterstate.envs\n"
        "env = gym.make('Game2048-v0', size=(2, 2))\n"
        "result = env.reset(seed=1)[0].tolist()"
    )
    assert board == gym.make("Game2048-v0", size=(2, 2)).reset(seed=1)[0].tolist()


def test_import_of_the_package_is_light_and_silent() -> None:
    lazy = ("afterstate.envs.game2048", "afterstate.envs.daihinmin", "afterstate.agents")
    assert imported(["afterstate.envs"], (*HEAVY, *lazy)) == []


def test_environments_import_neither_agents_nor_extras() -> None:
    modules = [f"afterstate.envs.game2048.{name}" for name in ("env", "vector_env", "render")]
    of = ("numba", "gymnasium", *HEAVY[1:], "afterstate.agents")
    assert imported(modules, of) == ["numba", "gymnasium"]


def test_environments_of_daihinmin_import_neither_agents_nor_extras() -> None:
    names = ("env", "parallel_env", "seat_env", "render")
    modules = [f"afterstate.envs.daihinmin.{name}" for name in names]
    of = ("numba", "gymnasium", *HEAVY[1:], "afterstate.agents", "afterstate.envs.game2048")
    assert imported(modules, of) == ["numba", "gymnasium", "pettingzoo"]


def test_a_played_match_of_daihinmin_needs_no_extra() -> None:
    loaded = in_fresh_process(
        "import sys\n"
        "extras = ('torch', 'pygame', 'PIL', 'stable_baselines3')\n"
        "sys.modules.update(dict.fromkeys(extras))\n"
        "import gymnasium as gym\n"
        "from afterstate.envs import daihinmin_v0\n"
        "env = daihinmin_v0.env(games=2, render_mode='ansi')\n"
        "env.reset(seed=1); env.last(); env.step(0); env.render(); env.state()\n"
        "env = gym.make('Daihinmin-v0', render_mode='ansi')\n"
        "env.reset(seed=1); env.step(0); env.render()\n"
        "result = [name for name in (*extras, 'afterstate.agents') if sys.modules.get(name)]"
    )
    assert loaded == []


def test_a_played_game_needs_no_extra() -> None:
    loaded = in_fresh_process(
        "import sys\n"
        "extras = ('torch', 'pygame', 'PIL', 'pettingzoo', 'stable_baselines3')\n"
        "sys.modules.update(dict.fromkeys(extras))\n"
        "import gymnasium as gym, afterstate.envs\n"
        "env = gym.make('Game2048-v0', render_mode='ansi', observation='onehot')\n"
        "env.reset(seed=1); env.step(2); env.render()\n"
        "envs = gym.make_vec('Game2048-v0', num_envs=3)\n"
        "envs.reset(seed=1); envs.step(envs.unwrapped.sample_legal())\n"
        "result = [name for name in extras if sys.modules[name]]"
    )
    assert loaded == []


def test_rules_and_games_know_no_api() -> None:
    modules = [f"afterstate.envs.game2048.{name}" for name in ("rules", "games")]
    of = ("numba", "gymnasium", *HEAVY[1:], "afterstate.agents")
    assert imported(modules, of, STAND_IN) == ["numba"]


def test_rules_and_observations_of_daihinmin_know_no_api() -> None:
    names = (
        "cards",
        "plays",
        "rules",
        "match",
        "views",
        "observation",
        "records.recording",
        "players",
    )
    modules = [f"afterstate.envs.daihinmin.{name}" for name in names]
    of = ("numba", "gymnasium", *HEAVY[1:], "afterstate.agents")
    assert imported(modules, of, STAND_IN) == ["numba"]


def test_the_bridge_of_daihinmin_knows_the_rules_and_sockets_only() -> None:
    names = ("tables", "watching", "seats", "server", "client")
    modules = [f"afterstate.envs.daihinmin.uecda.{name}" for name in names]
    of = ("numba", "gymnasium", *HEAVY[1:], "afterstate.agents")
    assert imported(modules, of, STAND_IN) == ["numba"]


def test_players_of_daihinmin_by_rules_know_the_rules_only() -> None:
    rules = ("players", "sample_client", "heuristic")
    names = (*(f"rule_based.{name}" for name in rules), "play")
    modules = [f"afterstate.agents.daihinmin.{name}" for name in names]
    of = (
        "afterstate.envs.daihinmin.rules",
        "afterstate.envs.daihinmin.env",
        "gymnasium",
        *HEAVY[1:],
    )
    assert imported(modules, of, STAND_IN) == ["afterstate.envs.daihinmin.rules"]


def test_table_agents_know_the_rules_only() -> None:
    modules = ["afterstate.agents", "afterstate.agents.files", *table_agents()]
    assert "afterstate.agents.game2048.learning.ntuple_learner" in modules
    of = (
        "afterstate.envs.game2048.rules",
        "afterstate.envs.game2048.env",
        "afterstate.envs.game2048.vector_env",
        "afterstate.envs.game2048.render",
        "gymnasium",
        *HEAVY[1:],
    )
    assert imported(modules, of, STAND_IN) == ["afterstate.envs.game2048.rules"]


def test_neural_agents_know_torch_and_the_rules() -> None:
    pytest.importorskip("torch")
    modules = [f"afterstate.agents.game2048.{name}" for name in NEURAL]
    of = (
        "afterstate.envs.game2048.torch_rules",
        "afterstate.envs.game2048.env",
        "afterstate.envs.game2048.render",
        *("gymnasium", "matplotlib", "torch"),
    )
    assert imported(modules, of, STAND_IN) == ["afterstate.envs.game2048.torch_rules", "torch"]


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


def test_star_import_and_dir_name_what_there_is() -> None:
    names: dict[str, object] = {}
    exec("from afterstate.envs import *", names)
    all_names = {"DaihinminEnv", "Game2048Env", "Game2048VectorEnv", "daihinmin_v0"}
    assert all_names <= set(names)
    assert all_names | {"Game2048VecEnv"} == set(dir(afterstate.envs))

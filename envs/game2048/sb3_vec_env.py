"""The vector environment of 2048 for stable-baselines3."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from afterstate.envs.game2048.vector_env import Game2048VectorEnv
from afterstate.envs.messages import listed, needs, shown

try:
    from stable_baselines3.common.vec_env import VecEnv
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn
except ImportError as error:
    raise ImportError(needs("Game2048VecEnv", "stable_baselines3")) from error

_METHODS = ("action_masks", "afterstates", "render", "sample_legal")
"""The methods of single games."""

EnvIndices = int | Iterable[int] | None  # games; None: all


class Game2048VecEnv(VecEnv):
    """`num_envs` games of 2048 in one kernel call, for stable-baselines3 and sb3-contrib.

    stable-baselines3 does not accept Gymnasium's vector environments; this class adapts
    `Game2048VectorEnv` to its `VecEnv`. Games restart in the step that ends them, with
    `terminal_observation` in the info. `MaskablePPO` gets the legal actions by
    `env_method("action_masks")`.

    Args:
        num_envs: number of games.
        **settings: settings of `Game2048VectorEnv`, without `autoreset_mode`.
    """

    def __init__(self, num_envs: int = 1, **settings: Any) -> None:
        self.env = Game2048VectorEnv(num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **settings)
        self._actions = np.zeros(num_envs, np.int64)
        super().__init__(num_envs, self.env.single_observation_space, self.env.single_action_space)

    def reset(self) -> VecEnvObs:
        """Start all games, with the seeds of `seed()` and the options of `set_options()`."""
        seeds, all_options = self._seeds, self._options
        self._reset_seeds()
        self._reset_options()
        options = all_options[0]
        if any(other.keys() != options.keys() for other in all_options):
            raise ValueError("options must have the same keys for all games")
        if "board" in options:
            boards = [other["board"] for other in all_options]
            options = {"board": [b.item() if getattr(b, "shape", 0) == () else b for b in boards]}
        observations, infos = self.env.reset(seed=seeds, options=options)
        self.reset_infos = self._unbatch(infos)
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions for the next `step_wait`."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Play the actions; return observations, rewards, dones and one info dict per game."""
        observations, rewards, terminated, truncated, infos = self.env.step(self._actions)
        dones = terminated | truncated
        games = self._unbatch(infos)
        for i in np.flatnonzero(dones):
            self.reset_infos[i] = games[i]
        if dones.any():
            finals = self._unbatch(infos["final_info"])
            for i in np.flatnonzero(dones):
                games[i] = finals[i]
                games[i]["terminal_observation"] = infos["final_obs"][i]
        for info, stopped in zip(games, (truncated & ~terminated).tolist(), strict=True):
            info["TimeLimit.truncated"] = stopped
        return observations, rewards.astype(np.float32), dones, games

    def close(self) -> None:
        """Close the games."""
        self.env.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return one picture per game."""
        return list(self.env.render() or ())

    def get_attr(self, attr_name: str, indices: EnvIndices = None) -> list[Any]:
        """Return an attribute of each selected game: its entry, or the value all games share."""
        of_game = attr_name in ("action_space", "observation_space")
        value = getattr(self if of_game else self.env, attr_name)
        if isinstance(value, np.ndarray) and len(value) == self.num_envs:
            return [value[i] for i in self._selected(indices)]
        return [value] * len(self._selected(indices))

    def set_attr(self, attr_name: str, value: Any, indices: EnvIndices = None) -> None:
        """Raise AttributeError, since the games share all attributes.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(f"games share {attr_name!r}: set it in the constructor")

    def env_method(
        self, method_name: str, *method_args: Any, indices: EnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Return the result of a method that reads, such as `action_masks`, for each selected game.

        Raises:
            AttributeError: another method, which would change games that are not selected.
        """
        if method_name not in _METHODS:
            raise AttributeError(
                f"method_name must be one of {listed(_METHODS)}, got {shown(method_name)}"
            )
        result = getattr(self.env, method_name)(*method_args, **method_kwargs)
        if result is None:
            return [None] * len(self._selected(indices))
        if isinstance(result, tuple) and method_name != "render":
            result = list(zip(*result, strict=True))
        return [result[i] for i in self._selected(indices)]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: EnvIndices = None) -> list[bool]:
        """Return False for each selected game: games have no wrappers."""
        return [False] * len(self._selected(indices))

    def _selected(self, indices: EnvIndices) -> list[int]:
        """Return the numbers of the selected games."""
        return list(self._get_indices(indices))

    def _unbatch(self, infos: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the info of each game, from arrays over all games."""
        keys = self.env.info_keys
        columns = [infos[k].tolist() if infos[k].ndim == 1 else infos[k] for k in keys]
        return [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]

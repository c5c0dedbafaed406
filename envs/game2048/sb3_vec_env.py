"""The vector environment in the form that stable-baselines3 takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from afterstate.envs.game2048.vector_env import Game2048VectorEnv

try:
    from stable_baselines3.common.vec_env import VecEnv
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn
except ImportError as error:
    message = 'Game2048VecEnv needs stable-baselines3: pip install "afterstate[sb3]"'
    raise ImportError(message) from error

Indices = int | Iterable[int] | None  # of the games meant: all by default


class Game2048VecEnv(VecEnv):
    """`num_envs` games of 2048 in one kernel call, for stable-baselines3 and sb3-contrib.

    stable-baselines3 refuses Gymnasium's vector environments; this one is `Game2048VectorEnv` in
    its own form: games restart in the step that ends them, with `terminal_observation` in the info.
    `MaskablePPO` finds the legal actions in `env_method("action_masks")`.

    Args:
        num_envs: how many games.
        **settings: those of `Game2048VectorEnv`, but for `autoreset_mode`.
    """

    def __init__(self, num_envs: int = 1, **settings: Any) -> None:
        self.env = Game2048VectorEnv(num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **settings)
        self._actions = np.zeros(num_envs, np.int64)
        super().__init__(num_envs, self.env.single_observation_space, self.env.single_action_space)

    def reset(self) -> VecEnvObs:
        """Starts all games, with the seeds of `seed()` and the options of `set_options()`."""
        seeds, all_options = self._seeds, self._options
        self._reset_seeds()
        self._reset_options()
        options = all_options[0]
        if any(other.keys() != options.keys() for other in all_options):
            raise ValueError("all games take the same options")
        if "board" in options:
            options = {"board": np.stack([other["board"] for other in all_options])}
        observations, infos = self.env.reset(seed=seeds, options=options)
        self.reset_infos = self._unbatch(infos)
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Takes the actions of the next `step_wait`."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Plays the actions: observations, rewards, dones and one info dict a game."""
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
        """Closes the games."""
        self.env.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """One picture a game."""
        return list(self.env.render() or ())

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """An attribute of each game asked for: its entry, or one that all games share."""
        value = getattr(self.env, attr_name)
        if isinstance(value, np.ndarray) and len(value) == self.num_envs:
            return [value[i] for i in self._chosen(indices)]
        return [value] * len(self._chosen(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Not for these games, which share all attributes.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(f"the games share {attr_name!r}: give it when they are made")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """What a method of the vector environment gives, such as `action_masks`, for each game."""
        result = getattr(self.env, method_name)(*method_args, **method_kwargs)
        if result is None:
            return [None] * len(self._chosen(indices))
        if isinstance(result, tuple) and method_name != "render":
            result = list(zip(*result, strict=True))
        return [result[i] for i in self._chosen(indices)]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Indices = None) -> list[bool]:
        """Whether each game has a wrapper: none has."""
        return [False] * len(self._chosen(indices))

    def _chosen(self, indices: Indices) -> list[int]:
        """The numbers of the games asked for."""
        return list(self._get_indices(indices))

    def _unbatch(self, infos: dict[str, Any]) -> list[dict[str, Any]]:
        """The info of each game, from the arrays of all."""
        keys = self.env.info_keys
        columns = [infos[k].tolist() if infos[k].ndim == 1 else infos[k] for k in keys]
        return [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]

"""Arguments and infos that the vector environments of both games share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from numba import njit

from afterstate.envs.checks import (
    as_array,
    as_int,
    check_count,
    check_length,
    check_one_of,
    check_seed,
    described,
)
from afterstate.envs.words import Flags

Infos = dict[str, Any]
Seeds = int | Sequence[int | None] | None


def check_autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    """Return an autoreset mode, given it or its value such as `"SameStep"`."""
    if not isinstance(mode, AutoresetMode):
        check_one_of([known.value for known in AutoresetMode], autoreset_mode=mode)
    return AutoresetMode(mode)


def step_limit(max_episode_steps: int | None) -> int:
    """Return the number of steps after which kernels truncate an episode.

    Raises:
        ValueError: the setting is neither None, for no limit, nor an integer in 1..2**62.
    """
    limit = check_count("max_episode_steps", max_episode_steps, optional=True)
    return 2**62 if limit is None else limit


def check_seeds(seed: Seeds, num_envs: int) -> list[int | None]:
    """Return one seed or None for each game: those of a sequence, or `seed + i`."""
    if seed is None:
        return [None] * num_envs
    first = as_int(seed)
    if first is not None:
        seed = [first + i for i in range(num_envs)]
    given: Any = seed
    check_length("seed", given, num_envs)
    is_list = given.ndim > 0 if isinstance(given, np.ndarray) else isinstance(given, Sequence)
    seeds = list(given) if is_list else [given]
    if len(seeds) != num_envs:
        raise ValueError(f"seed must be one number or {num_envs}, got {len(seeds)}")
    return [check_seed(one) for one in seeds]


def check_reset_mask(options: dict[str, Any], num_envs: int) -> Flags:
    """Return the games that the reset options select, by default all."""
    given = options.get("reset_mask", np.ones(num_envs, np.bool_))
    check_length("reset_mask", given, num_envs)
    mask = as_array(given)
    if mask.shape != (num_envs,) or mask.dtype != np.bool_ or not mask.any():
        raise ValueError(
            f"reset_mask must be bool[{num_envs}] with at least one True, "
            f"got {described(given, mask)}"
        )
    return np.array(mask, order="C")


def check_actions(actions: Any, num_envs: int, n_actions: int, meaning: str) -> npt.NDArray[Any]:
    """Return the actions as `int64[num_envs]`.

    Raises:
        ValueError: another shape or type, or an action that is not in 0..n_actions-1.
    """
    check_length("actions", actions, num_envs)
    numbers = as_array(actions)
    if numbers.shape != (num_envs,) or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"actions must be integers of shape ({num_envs},), got {described(actions, numbers)}"
        )
    moves = np.ascontiguousarray(numbers, np.int64)
    if not moves.flags.writeable:  # kernels take no read-only arrays
        moves = moves.copy()
    i = _first_outside(moves, n_actions)
    if i < num_envs:
        raise ValueError(f"actions must be {meaning}, got {numbers[i]} for game {i}")
    return moves


@njit("int64(int64[::1], int64)", cache=True)
def _first_outside(numbers: npt.NDArray[np.int64], n: int) -> int:
    """Return the index of the first number that is not in 0..n-1, or their count."""
    for i in range(numbers.size):
        if numbers[i] < 0 or numbers[i] >= n:
            return i
    return numbers.size


def check_running(mode: AutoresetMode, over: Flags) -> None:
    """Raise ResetNeeded if a game is over and nothing but a reset restarts it."""
    if mode is AutoresetMode.DISABLED and over.any():
        ended = np.flatnonzero(over)
        raise ResetNeeded(f"games {ended} are over: reset(options={{'reset_mask': ...}})")


def with_masks(values: Infos, mask: Flags) -> Infos:
    """Return infos with a mask for each key: the games that have it, `_score` for `score`."""
    return {**values, **{f"_{key}": mask.copy() for key in values}}


def finals(observations: npt.NDArray[Any], infos: Infos, ended: Flags) -> Infos:
    """Return `final_obs` and `final_info` of the games that ended, empty for the others."""
    rows = np.flatnonzero(ended)
    final_obs = np.empty(len(ended), object)  # of None
    for i in rows:
        final_obs[i] = observations[i].copy()
    final_info = {key: _only(values, rows) for key, values in infos.items()}
    return with_masks({"final_obs": final_obs, "final_info": final_info}, ended)


def _only(values: npt.NDArray[Any], rows: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """Return the values of the games that ended, and 0 or None for the others."""
    is_object = values.dtype == object
    final = np.empty(len(values), object) if is_object else np.zeros(values.shape, values.dtype)
    final[rows] = values[rows]
    return final

"""The base class of all players of 2048."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from afterstate.envs.checks import as_array, described
from afterstate.envs.game2048.rules import MAX_EXPONENT, check_words, words
from afterstate.envs.words import Words


class Agent(ABC):
    """A player of 2048, which returns one action for each board word.

    A new player has `choose_actions`. Boards with a tile above 32768 are passed in downgraded: see
    `afterstate.envs.game2048.rules.words`.
    """

    size: tuple[int, int] = (4, 4)
    """Rows and columns of the boards it plays on."""

    def act(self, boards: Any) -> npt.NDArray[np.int8]:
        """Choose moves for board words.

        Args:
            boards: board words `uint64[B]`, or one of them.

        Returns:
            Actions `int8[B]`, or one of them as an array of shape `()`: 0 up, 1 right, 2 down,
            3 left; legal wherever a legal one exists.

        Raises:
            ValueError: not words of boards of the player's size; for observations see `predict`.
        """
        if getattr(boards, "ndim", 0) > 1:
            raise ValueError(_not_words(boards.shape))
        array = check_words(boards, *self.size)
        if array.ndim > 1:
            raise ValueError(_not_words(array.shape))
        return self.choose_actions(array.reshape(-1)).reshape(array.shape)

    @abstractmethod
    def choose_actions(self, boards: Words) -> npt.NDArray[np.int8]:
        """Return the actions `int8[B]` of board words `uint64[B]`, which `act` has checked.

        Actions are legal wherever a legal one exists.
        """

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        action_masks: Any = None,
    ) -> tuple[npt.NDArray[np.int8], Any]:
        """Choose moves for observations of `Game2048-v0`, as stable-baselines3's models do.

        Args:
            observation: exponents `[rows, cols]`, planes `[18, rows, cols]`, these in one row
                `[18 * rows * cols]`, or a batch of them.
            state: returned unchanged; players have no memory.
            episode_start: not used.
            deterministic: not used.
            action_masks: not used; players compute the legal moves themselves.

        Returns:
            The action (an array of shape `()`) or the actions of the batch, and `state`.

        Raises:
            ValueError: not an observation, or boards of another size than the player's.
        """
        given = array = as_array(observation)
        n_cells = self.size[0] * self.size[1]
        if array.shape[-1:] == ((MAX_EXPONENT + 1) * n_cells,):
            array = array.reshape(*array.shape[:-1], MAX_EXPONENT + 1, *self.size)
        if array.shape[-3:] == (MAX_EXPONENT + 1, *self.size) and _are_planes(array):
            array = array.argmax(axis=-3)
        if array.ndim not in (2, 3) or array.shape[-2:] != tuple(self.size):
            raise ValueError(
                f"observation must be exponents {list(self.size)}, planes {[18, *self.size]}, "
                f"these in one row or a batch of them, got {described(observation, given)}"
            )
        return self.act(words(array)), state


def _are_planes(array: npt.NDArray[Any]) -> bool:
    """Return True for planes, whose integers have a single 1 in each cell; False for 18 boards."""
    if array.dtype.kind == "f":
        return True
    return bool(((array == 0) | (array == 1)).all() and (array.sum(axis=-3) == 1).all())


def _not_words(shape: tuple[int, ...]) -> str:
    """Return that an array is none of board words."""
    expected = "boards must be board words, one or a list of them"
    return f"{expected}, got shape {shape}: predict takes observations"

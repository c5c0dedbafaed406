"""A player in a match whose errors and impossible answers are logged."""

from __future__ import annotations

import logging
from collections.abc import Callable

from afterstate.envs.checks import as_int
from afterstate.envs.daihinmin.cards import count
from afterstate.envs.daihinmin.players import Player, returned
from afterstate.envs.daihinmin.records.recording import ILLEGAL
from afterstate.envs.daihinmin.rules import Game
from afterstate.envs.messages import shown

LOGGER = logging.getLogger(__name__)


class PlayerError(RuntimeError):
    """An error of a player that was asked for a play or a gift; its cause is the player's own."""


class GuardedPlayer:
    """A player of a match, guarded against its errors.

    Its methods raise PlayerError if the player fails or returns no integer.

    Args:
        player: the player.
        name: its name in the log.
    """

    def __init__(self, player: Player, name: str) -> None:
        self._player, self._name = player, name

    def choose(self, view: Game) -> int:
        """Return the number of the player's play, `ILLEGAL` if there is no play of this number."""
        value, play = self._ask("choose", lambda: self._player.choose(view))
        if play == value:
            return play
        LOGGER.warning("the player %r chose %s, which is no play", self._name, shown(value))
        return ILLEGAL

    def give(self, view: Game, n: int) -> int:
        """Return the set of cards that the player gives away; 0 if it is no set of cards."""
        hand = int(view["hands"][view["viewer"]])
        value, gift = self._ask("give", lambda: self._player.give(view, n))
        if gift != value or count(gift) != n or gift & ~hand:
            text = "the player %r gave %s, which is no set of %d cards of its hand"
            LOGGER.warning(text, self._name, shown(value), n)
        return gift

    def _ask(self, method: str, answer: Callable[[], int]) -> tuple[int | None, int]:
        """Return the player's answer, and the same with 0 for an impossible one."""
        try:
            value = answer()
        except Exception as error:
            LOGGER.exception("the player %r failed", self._name)
            raise PlayerError(f"the player {self._name!r} raised {shown(error)}") from error
        try:
            return as_int(value), returned(value, method)
        except ValueError as error:
            raise PlayerError(f"the player {self._name!r}: {error}") from error

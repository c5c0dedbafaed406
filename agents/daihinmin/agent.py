"""The base class of the players of Daihinmin."""

from __future__ import annotations

from abc import ABC, abstractmethod

from afterstate.envs.daihinmin.arguments import check_turn
from afterstate.envs.daihinmin.rules import Game


class Agent(ABC):
    """A player of Daihinmin: see `envs.daihinmin.players.Player`.

    A new player implements `_choose` and `_give`, which get checked views.
    """

    def choose(self, view: Game) -> int:
        """Return the number of a play, `plays.PASS` to pass.

        Args:
            view: what the player in turn sees.

        Raises:
            ValueError: a field of the view is out of its range, or another player is in turn.
        """
        return self._choose(check_turn(view, plays=True))

    def give(self, view: Game, n: int) -> int:
        """Return the set of `n` cards to give away in the exchange.

        Args:
            view: what the player in turn sees.
            n: number of cards.

        Raises:
            ValueError: a field of the view is out of its range, or another player is in turn.
        """
        return self._give(check_turn(view), n)

    @abstractmethod
    def _choose(self, view: Game) -> int:
        """Return the number of a play."""

    @abstractmethod
    def _give(self, view: Game, n: int) -> int:
        """Return a set of `n` cards."""

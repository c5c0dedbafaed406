"""What plays Daihinmin: the one protocol by which environments, server and client ask a player."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from afterstate.envs.daihinmin.rules import Game


class Player(Protocol):
    """A player: any agent of `afterstate.agents`, or your own."""

    def choose(self, view: Game) -> int:
        """The number of a play, `plays.PASS` to pass.

        Args:
            view: what the player in turn sees: see `views.py`. What is not legal counts as a pass.
        """
        ...

    def give(self, view: Game, n: int) -> int:
        """The card set of `n` cards to give away in the exchange.

        Args:
            view: what the player in turn sees, the received cards in his hand. A wrong choice is
                punished: then his strongest cards go.
            n: 2 for the daifugo, 1 for the fugo.
        """
        ...


def find(player: Any) -> Player:
    """A player by its name, like `"sample"`, or the player itself.

    Names are those of `afterstate.agents.make` without `daihinmin-`; the agents are imported only
    when a name is given.

    Raises:
        ValueError: an unknown name, or no player.
    """
    if isinstance(player, str):
        name = player if player.startswith("daihinmin-") else f"daihinmin-{player}"
        found: Player = import_module("afterstate.agents").make(name)
        return found
    if callable(getattr(player, "choose", None)) and callable(getattr(player, "give", None)):
        checked: Player = player
        return checked
    raise ValueError(
        f"a player has `choose(view)` and `give(view, n)`, or is a name; got {player!r}"
    )

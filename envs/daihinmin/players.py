"""What plays Daihinmin: the one protocol by which environments, server and client ask a player.

The player that needs no method, `RandomPlayer`, is here too; all others are in `afterstate.agents`.
"""

from __future__ import annotations

import operator
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from afterstate.envs.daihinmin import plays
from afterstate.envs.daihinmin.cards import N_CARDS
from afterstate.envs.daihinmin.rules import Game, list_legal

_PREFIX = "daihinmin-"  # of the names that `afterstate.agents.make` knows


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


class RandomPlayer:
    """Random legal plays, all alike, and random gifts; it passes only where it must follow.

    Args:
        seed: of its choices, or the generator that makes them.
    """

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        self._generator = np.random.default_rng(seed)
        self._listed = np.empty(plays.N_PLAYS, np.int64)  # overwritten at will

    def choose(self, view: Game) -> int:
        """A random legal play, or the pass with the same chance as each of them."""
        n = list_legal(view, self._listed)
        chosen = int(self._generator.integers(n + (view["field"] != plays.PASS)))
        return int(self._listed[chosen]) if chosen < n else plays.PASS

    def give(self, view: Game, n: int) -> int:
        """Random cards."""
        return sum(1 << card for card in self._generator.choice(_held(view), n, replace=False))


def _held(view: Game) -> list[int]:
    """The numbers of the cards that the player in turn holds."""
    hand = int(view["hands"][view["turn"]])
    return [card for card in range(N_CARDS) if hand >> card & 1]


def actions_of(player: Player, view: Game) -> list[int]:
    """What a player does next, as actions of the environments.

    Args:
        player: the player in turn.
        view: what he sees.

    Returns:
        The number of a play, or in the exchange one number for each card that he gives. An invalid
        play or gift is a pass, which for a gift is punished.
    """
    n = int(view["to_give"])
    if n == 0:
        play = operator.index(player.choose(view))
        return [play if 0 <= play < plays.N_PLAYS else plays.PASS]
    gift = operator.index(player.give(view, n))
    chosen = [plays.single(card) for card in _held(view) if gift >> card & 1]
    return chosen if len(chosen) == gift.bit_count() == n else [plays.PASS]


def find(player: Any, seed: int | None = None) -> Player:
    """A player by its name, like `"sample"`, or the player itself.

    Names are those of `afterstate.agents.make` without `daihinmin-`; the agents are imported only
    when a name is given.

    Args:
        player: the name or the player.
        seed: of the choices of the player `"random"`.

    Raises:
        ValueError: an unknown name, or no player.
    """
    if player in ("random", "daihinmin-random"):
        return RandomPlayer(seed)
    if isinstance(player, str):
        agents = import_module("afterstate.agents")
        names = [name.removeprefix(_PREFIX) for name in agents.names() if name.startswith(_PREFIX)]
        if player.removeprefix(_PREFIX) not in names:
            raise ValueError(f"there is no player {player!r}, but {names}")
        found: Player = agents.make(_PREFIX + player.removeprefix(_PREFIX))
        return found
    methods = [getattr(player, name, None) for name in ("choose", "give")]
    if all(map(callable, methods)) and not isinstance(player, type):
        checked: Player = player
        return checked
    raise ValueError(
        f"a player has `choose(view)` and `give(view, n)`, or is a name; got {player!r}"
    )

"""The interface between a player of Daihinmin and the environments, the server and the client.

`RandomPlayer` plays at random; all other players are in `afterstate.agents`.
"""

from __future__ import annotations

import operator
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from afterstate.envs.daihinmin import plays
from afterstate.envs.daihinmin.cards import N_CARDS
from afterstate.envs.daihinmin.rules import Game, list_legal
from afterstate.envs.words import check_seed

_RANDOM = ("random", "daihinmin-random")


class Player(Protocol):
    """A player: any agent of `afterstate.agents`, or your own."""

    def choose(self, view: Game) -> int:
        """Return the number of a play, `plays.PASS` to pass.

        Args:
            view: what the player in turn sees: see `views.py`. An illegal play counts as a pass.
        """
        ...

    def give(self, view: Game, n: int) -> int:
        """Return the set of `n` cards to give away in the exchange.

        Args:
            view: what the player in turn sees; the received cards are in the hand already. A wrong
                set is punished: the player loses the strongest cards of the hand.
            n: 2 for the daifugo, 1 for the fugo.
        """
        ...


class RandomPlayer:
    """A player of uniformly random legal plays and gifts, which passes only where it must follow.

    Args:
        seed: seed of its choices, or the generator that makes them.
    """

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        if not isinstance(seed, np.random.Generator):
            check_seed(seed)
        self._generator = np.random.default_rng(seed)
        self._legal = np.empty(plays.N_PLAYS, np.int64)  # scratch space

    def choose(self, view: Game) -> int:
        """Return a random legal play, or the pass with the same probability as each of them."""
        n_legal = list_legal(view, self._legal)
        index = int(self._generator.integers(n_legal + (view["field"] != plays.PASS)))
        return int(self._legal[index]) if index < n_legal else plays.PASS

    def give(self, view: Game, n: int) -> int:
        """Return random cards of the hand."""
        return sum(1 << card for card in self._generator.choice(_hand(view), n, replace=False))


def _hand(view: Game) -> list[int]:
    """Return the numbers of the cards that the player in turn holds."""
    hand = int(view["hands"][view["turn"]])
    return [card for card in range(N_CARDS) if hand >> card & 1]


def actions_of(player: Player, view: Game) -> list[int]:
    """Return a player's next move as actions of the environments.

    Args:
        player: the player in turn.
        view: what the player sees.

    Returns:
        The number of a play, or in the exchange one number for each card to give. An invalid play
        or gift becomes a pass, which is punished if it stands for a gift.
    """
    n = int(view["to_give"])
    if n == 0:
        play = operator.index(player.choose(view))
        return [play if 0 <= play < plays.N_PLAYS else plays.PASS]
    gift = operator.index(player.give(view, n))
    actions = [plays.single(card) for card in _hand(view) if gift >> card & 1]
    return actions if len(actions) == gift.bit_count() == n else [plays.PASS]


def check_player(player: Any) -> Player:
    """Return an object that has the two methods of a player.

    Raises:
        ValueError: it lacks one, or it is a class.
    """
    methods = [getattr(player, name, None) for name in ("choose", "give")]
    if not all(map(callable, methods)) or isinstance(player, type):
        raise ValueError(
            f"player must be a name, or have choose(view) and give(view, n), got {player!r}"
        )
    checked: Player = player
    return checked


def resolve(player: Player | str, seed: int | None = None) -> Player:
    """Return a player, or the player of a name or of a file.

    Only a name or a file imports `afterstate.agents`: see `agents.daihinmin.play.find_player`,
    which has the same arguments and raises the same errors.
    """
    if isinstance(player, str) and player in _RANDOM:
        return RandomPlayer(seed)
    if isinstance(player, str):
        agents = import_module("afterstate.agents.daihinmin.play")
        return check_player(agents.find_player(player, seed))
    return check_player(player)

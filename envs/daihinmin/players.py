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
from afterstate.envs.words import check_seed

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
        if not isinstance(seed, np.random.Generator):
            check_seed(seed)
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


def _named(name: str, seed: int | None) -> Any:
    """The player of a name or of a file."""
    agents = import_module("afterstate.agents")
    if name.endswith((".npz", ".safetensors")):
        return agents.load(name)
    full = _PREFIX + name.removeprefix(_PREFIX)
    if full not in agents.names():
        known = [each.removeprefix(_PREFIX) for each in agents.names() if each.startswith(_PREFIX)]
        raise ValueError(f"there is no player {name!r}, but {known}, or a player's file")
    return agents.make(full, **({"seed": seed} if "seed" in agents.setting_names(full) else {}))


def find(player: Any, seed: int | None = None) -> Player:
    """A player by its name, like `"sample"`, the player of a file, or the player itself.

    Names are those of `afterstate.agents.make` without `daihinmin-`; the agents are imported only
    when a name or a file is given.

    Args:
        player: the name, a file of `afterstate.agents.load` (its name ends in `.npz` or
            `.safetensors`), or the player.
        seed: of the player's choices, if it has a name and chooses by chance.

    Raises:
        OSError: the file cannot be read.
        ValueError: an unknown name, another file, or no player.
        ImportError: the player needs what is not installed.
    """
    if player in ("random", "daihinmin-random"):
        return RandomPlayer(seed)
    if isinstance(player, str):
        player = _named(player, seed)
    methods = [getattr(player, name, None) for name in ("choose", "give")]
    if all(map(callable, methods)) and not isinstance(player, type):
        checked: Player = player
        return checked
    raise ValueError(
        f"a player has `choose(view)` and `give(view, n)`, or is a name; got {player!r}"
    )

"""Players that a command line names.

A name is that of `agents.find`. The rules of a game are imported only for its players.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from afterstate import agents
from afterstate.envs.daihinmin.uecda.settings import N_SEATS
from afterstate.envs.messages import needs
from afterstate.envs.options import name_and_pairs, settings_of

if TYPE_CHECKING:
    from afterstate.envs.daihinmin.players import Player
    from afterstate.envs.game2048.rules import Cells


def game_of(names: Sequence[str]) -> str:
    """Return the game that players play, `"2048"` or `"daihinmin"`.

    Raises:
        OSError, ValueError, ImportError: see `agents.find`; or players of both games.
    """
    if not names:
        raise ValueError("players must be at least one, got none")
    games = [_games(name) for name in names]
    for game in ("2048", "daihinmin"):
        if all(game in each for each in games):
            return game
    given = ", ".join(f"{name} ({each[0]})" for name, each in zip(names, games, strict=True))
    raise ValueError(f"players must be of one game, got {given}")


def check_players(names: Sequence[str], game: str) -> None:
    """Raise an error, before anything is compiled, unless names are those of a game's players.

    Raises:
        OSError, ValueError, ImportError: see `agents.find`; or a player of the other game.
    """
    title = {"2048": "2048", "daihinmin": "Daihinmin"}
    for name in names:
        games = _games(name)
        if game not in games:
            wanted = f"a player must be one of {title[game]}"
            raise ValueError(f"{wanted}, got {name!r}, a player of {title[games[0]]}")


def _games(name: str) -> list[str]:
    """Return the games that have a player of a name; it is made if no player has this name.

    Of 2048 and Daihinmin, 2048 is the first: each has a player `random`.
    """
    known, first = agents.names(), name.partition(",")[0]
    of_daihinmin = f"daihinmin-{first.removeprefix('daihinmin-')}"
    is_2048 = first in known and not first.startswith("daihinmin-")
    if not is_2048 and of_daihinmin not in known:
        return ["2048" if hasattr(agents.find(name), "act") else "daihinmin"]
    if missing := agents.missing_packages(first if is_2048 else of_daihinmin):
        raise ImportError(needs(first, *missing))
    settings_of(name_and_pairs(name)[1:])
    is_of = {"2048": is_2048, "daihinmin": of_daihinmin in known}
    return [game for game, has_player in is_of.items() if has_player]


def check_settings(names: Sequence[str]) -> None:
    """Raise an error for wrong settings of players, before their games are compiled.

    Raises:
        OSError, ValueError, ImportError: see `agents.find`.
    """
    for name in names:
        if "," in name:
            agents.find(name)


def player_2048(name: str, seed: int | None = None) -> Any:
    """Return a player of 2048.

    Raises:
        OSError, ValueError, ImportError: see `agents.find`; or a player of Daihinmin.
    """
    player = agents.find(name, seed)
    if not hasattr(player, "act"):
        raise ValueError(f"player must be one of 2048, got {name!r}")
    return player


def player_daihinmin(name: str, seed: int | None = None) -> Player:
    """Return a player of Daihinmin.

    Raises:
        OSError, ValueError, ImportError: see `agents.find`; or not a player of Daihinmin.
    """
    from afterstate.envs.daihinmin import players

    return players.resolve(name, seed)


def move_2048(player: Any, board: Cells) -> int:
    """Return the action of a player for a board of exponents.

    Raises:
        ValueError: a board of another size than the player's, by default 4x4.
    """
    from afterstate.agents.game2048.play import actions_of, size_of_player
    from afterstate.envs.game2048.rules import words

    rows, cols = size_of_player(player)
    if board.shape != (rows, cols):
        raise ValueError(f"the player needs a board of {rows}x{cols}")
    action = int(actions_of(player, np.array([words(board)], np.uint64))[0])
    if not 0 <= action < 4:
        raise ValueError(f"the player must return actions in 0..3, got {action}")
    return action


def move_once(player: Any) -> None:
    """Let a player move, so that all that its moves need is compiled."""
    if hasattr(player, "act"):
        from afterstate.envs.game2048.games import new_games

        player.act(np.array([1], np.uint64))  # a tile 2 in the corner of a board of any size
        if hasattr(player, "finish"):
            player.finish(new_games(1))  # a game without a move
        return
    from afterstate.agents.daihinmin.play import play_match

    *_, _ = play_match([player] * N_SEATS, 1, 1)


def fill_seats(names: Sequence[str], n: int) -> list[str]:
    """Return the names of `n` players; the last name takes all seats that are left.

    Raises:
        ValueError: no name, or more than `n`.
    """
    if not 1 <= len(names) <= n:
        raise ValueError(f"players must be 1 to {n}, got {len(names)}")
    return [*names, *[names[-1]] * (n - len(names))]


def five_players(names: Sequence[str], seed: int | None = None) -> list[Player]:
    """Return five players of Daihinmin, with different seeds.

    Raises:
        OSError, ValueError, ImportError: see `agents.find`; or more than five names.
    """
    seeds = [None if seed is None else seed + i for i in range(N_SEATS)]
    return [player_daihinmin(*each) for each in zip(fill_seats(names, N_SEATS), seeds, strict=True)]

"""Matches between players in one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game, Options, give, play
from afterstate.envs.daihinmin.views import view


def play_match(
    players: Sequence[Player], n_games: int, seed: int = 0, options: Options | None = None
) -> Iterator[Game]:
    """Play a match.

    Args:
        players: five players, in the order of their numbers.
        n_games: number of games.
        seed: determines deals, seats and drawn places.
        options: the rules, by default the competition's.

    Returns:
        An iterator over the match after each game. Every game overwrites the same record: copy it
        to keep it.

    Raises:
        ValueError: not five players, a negative number of games, or a wrong seed or option.
    """
    if len(players) != N_PLAYERS:
        raise ValueError(f"players must be {N_PLAYERS} players, got {len(players)}")
    if n_games < 0:
        raise ValueError(f"n_games must be >= 0, got {n_games}")
    return _games(players, n_games, new_match(seed, options))


def _games(players: Sequence[Player], n_games: int, match: Game) -> Iterator[Game]:
    """Play the games of a match, one at a time."""
    for _ in range(n_games):
        next_game(match)
        while (turn := int(match["turn"])) >= 0:
            seen, n = view(match, turn), int(match["to_give"])
            if n:
                give(match, players[turn].give(seen, n))
            else:
                play(match, players[turn].choose(seen))
        yield match

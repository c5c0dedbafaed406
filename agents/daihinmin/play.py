"""Whole matches between players, in one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game, Options, give, play
from afterstate.envs.daihinmin.views import view


def play_match(
    players: Sequence[Player], n_games: int, seed: int = 0, options: Options | None = None
) -> Iterator[Game]:
    """Plays a match.

    Args:
        players: five, in the order of their numbers.
        n_games: how many games.
        seed: of deals, seats and drawn places.
        options: the rules, by default the competition's.

    Returns:
        The match after each game: the same record each time, so copy what is to last.

    Raises:
        ValueError: not five players, a negative number of games, or a wrong seed or option.
    """
    if len(players) != N_PLAYERS or n_games < 0:
        raise ValueError(f"five players play, got {len(players)}; games are from 0 on, {n_games}")
    return _games(players, n_games, new_match(seed, options))


def _games(players: Sequence[Player], n_games: int, match: Game) -> Iterator[Game]:
    """Plays the games of a match."""
    for _ in range(n_games):
        next_game(match)
        while (turn := int(match["turn"])) >= 0:
            seen, n = view(match, turn), int(match["to_give"])
            if n:
                give(match, players[turn].give(seen, n))
            else:
                play(match, players[turn].choose(seen))
        yield match

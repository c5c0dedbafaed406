"""Daihinmin, played by a person in the terminal."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from afterstate.agents.daihinmin.play import play_match
from afterstate.commands.options import PlayDaihinmin
from afterstate.commands.players import check_players, fill_seats, five_players, player_daihinmin
from afterstate.envs.checks import check_seed
from afterstate.envs.daihinmin import cards, plays, render
from afterstate.envs.daihinmin.players import Player, returned
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game
from afterstate.envs.daihinmin.views import legal_plays
from afterstate.envs.messages import counted

HELP = "a play in notation or its number, pass, ? hint, L legal plays, Q quit"
NAMES = ("you", *(f"player {number}" for number in range(1, N_PLAYERS)))


class Quit(Exception):
    """The person has ended the match."""


class Person:
    """A player whose plays and gifts are typed.

    Args:
        hints: name of the player that gives hints.

    Raises:
        OSError, ValueError, ImportError: that player is not found.
    """

    def __init__(self, hints: str) -> None:
        check_players([hints], "daihinmin")
        self._hints = hints
        self._seen = 0

    @cached_property
    def _player(self) -> Player:
        """The player that gives hints, which is made for the first one."""
        return player_daihinmin(self._hints)

    def choose(self, view: Game) -> int:
        """Ask for a play and return its number."""
        self._show(view)
        legal = [*legal_plays(view), plays.PASS]
        while True:
            text = ask("your play")
            if text == "?":
                self._hint(lambda: plays.text(returned(self._player.choose(view), "choose")))
            elif text == "l":
                print(listed(legal))
            else:
                try:
                    return read_play(text, legal)
                except ValueError as error:
                    print(f"{error}: {HELP}")

    def _hint(self, text: Callable[[], str]) -> None:
        """Print what the player selects, or why there is no hint."""
        try:
            print(f"hint of {self._hints}: {text()}")
        except ValueError as error:
            print(f"there is no hint: {error}")

    def give(self, view: Game, n: int) -> int:
        """Ask for cards to give away and return their set."""
        self._show(view)
        hand = int(view["hands"][view["turn"]])
        while True:
            text = ask(f"{counted(n, 'card')} to give away")
            if text == "?":
                self._hint(lambda: cards.text(returned(self._player.give(view, n), "give")))
                continue
            try:
                given = cards.parse(text.upper())
                if given & ~hand or cards.count(given) != n:
                    raise ValueError(f"a gift must be {n} of your cards, got {text!r}")
                return given
            except ValueError as error:
                print(error)

    def _show(self, view: Game) -> None:
        """Print the table and, where it does not show them all, the plays since the last turn."""
        actions = render.history(view, NAMES)
        seen = self._seen if self._seen <= len(actions) else 0  # else another game has begun
        self._seen = len(actions)
        print()
        if len(actions) - seen > N_PLAYERS:
            print(f"since your turn: {', '.join(actions[seen:])}")
        print(render.ansi(view, NAMES))
        if np.any(view["points"]):
            print(points_text(view["points"]))


def points_text(points: Any) -> str:
    """Return the players' points as a line."""
    return "points: " + ", ".join(f"{n} {p}" for n, p in zip(NAMES, points, strict=True))


def ask(what: str) -> str:
    """Return what is typed, in lower case if it is a single letter.

    Raises:
        Quit: Q or the end of the input.
    """
    try:
        text = input(f"{what}> ").strip()
    except EOFError:
        raise Quit from None
    if text.lower() == "q":
        raise Quit
    return text.lower() if len(text) == 1 else text


def listed(legal: list[int]) -> str:
    """Return the legal plays with their numbers in this list."""
    return "  ".join(f"{number}: {plays.text(play)}" for number, play in enumerate(legal, 1))


def read_play(text: str, legal: list[int]) -> int:
    """Return the play of a text, in notation or a number of the list.

    Raises:
        ValueError: it is neither, or not legal here.
    """
    if text.isdecimal():
        if not 1 <= int(text) <= len(legal):
            raise ValueError(f"a number in the list must be in 1..{len(legal)}, got {text:.20}")
        return legal[int(text) - 1]
    play = plays.PASS if text.lower() == "pass" else plays.parse(text.upper())
    if play not in legal:
        raise ValueError(f"{text!r} is not legal here")
    return play


def run(options: PlayDaihinmin) -> None:
    """Let a person play a match.

    Raises:
        OSError, ValueError, ImportError: a wrong number of games, seed or player.
    """
    seed = check_seed(options.seed)
    if seed is None:
        seed = int(np.random.default_rng().integers(2**32))
    person = Person(options.hints)
    others = five_players(fill_seats(options.opponents, N_PLAYERS - 1), seed)[:-1]
    print(f"match of seed {seed}; {HELP}")
    try:
        _play([person, *others], options.games, seed)
    except Quit:
        print("the match has ended")


def _play(players: list[Player], n_games: int, seed: int) -> None:
    """Play the games of a match and print their results."""
    for match in play_match(players, n_games, seed):
        order = np.argsort(match["places"])
        print(f"\ngame {match['number']}: {', '.join(NAMES[player] for player in order)}")
        print(points_text(match["points"]))

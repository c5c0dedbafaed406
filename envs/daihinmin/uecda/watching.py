"""A client's view of a match, kept up to date with the server's tables.

No table says who passed, which cards others gave away, or how a game ended. A watcher therefore
plays the game along by the rules on its own record, which at every turn equals the view that
`views.view` returns of a game in the same process.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match
from afterstate.envs.daihinmin.plays import LONE_JOKER, PASS
from afterstate.envs.daihinmin.records.recording import ILLEGAL
from afterstate.envs.daihinmin.rules import (
    DAIFUGO,
    HEIMIN,
    MAX_ACTIONS,
    N_PLAYERS,
    Game,
    advance,
    lay,
    n_exchanged,
    skip,
)
from afterstate.envs.daihinmin.uecda.tables import (
    ProtocolError,
    State,
    Table,
    read_hand,
    read_state,
    submission,
)

LOGGER = logging.getLogger(__name__)


class Watcher:
    """One client's view of a match.

    If the server's tables differ from the rules, the watcher follows the tables and logs a warning.

    Args:
        viewer: number of the client.
    """

    def __init__(self, viewer: int) -> None:
        self.viewer = viewer
        self.view: Game = self._new_view()
        self._points_before = np.zeros(N_PLAYERS, np.int64)

    def _new_view(self) -> Game:
        """Return a view before its first table."""
        view = new_match()
        view["viewer"] = self.viewer
        view["places"] = view["last"] = -1
        return view

    @property
    def points(self) -> list[int]:
        """Points of all games so far, by player.

        Drawn places are known only from the classes of the next game; they stay unknown before a
        game without classes and at the end of the match.
        """
        points: list[int] = self.view["points"].tolist()
        return points

    def start(self, table: Table) -> None:
        """Start a game from a start table."""
        state = read_state(table)
        if not state.is_start:
            raise ProtocolError("the server sent another table instead of a start table")
        before, view = self.view, self._new_view()
        has_classes = len(set(state.classes)) == N_PLAYERS
        if has_classes and before["number"] > 0:
            before["points"] = self._points_before + N_PLAYERS - np.array(state.classes)
        view["number"] = before["number"] + 1
        view["points"] = self._points_before = before["points"].copy()
        view["seats"] = state.seats
        view["classes"] = state.classes if has_classes else -1
        view["hands"][self.viewer] = read_hand(table)
        view["left"] = state.left
        self.view = view
        if state.to_give:
            self._give(state.to_give)

    def _give(self, n: int) -> None:
        """Set the viewer's gift: the poor have given already, and the daifugo before the fugo."""
        view = self.view
        exchanged = HEIMIN - view["classes"]
        if n != exchanged[self.viewer]:
            raise ProtocolError(
                f"the server asks for {n} cards, which the viewer's class does not give"
            )
        if n != n_exchanged(DAIFUGO):
            exchanged[np.abs(exchanged) == n_exchanged(DAIFUGO)] = 0
        view["left"] += exchanged
        view["turn"] = self.viewer
        view["to_give"] = n

    def _lead(self, state: State, hand: int) -> None:
        """Start the first turn, after the exchange."""
        view = self.view
        before, rank = int(view["hands"][self.viewer]), int(view["classes"][self.viewer])
        given = cards.strongest(before, n_exchanged(rank)) if rank > HEIMIN else before & ~hand
        view["given"][self.viewer] = given
        view["hands"][self.viewer] = hand
        view["left"] = state.left
        view["to_give"] = 0
        view["turn"] = view["starter"] = view["last"] = state.player

    def _read(self, table: Table) -> State:
        """Return the state of a turn or field table."""
        state = read_state(table)
        if state.is_start:
            raise ProtocolError("the server started a game in the middle of another one")
        return state

    def turn(self, table: Table) -> bool:
        """Read a turn table; return True if it is the viewer's turn."""
        state = self._read(table)
        hand = read_hand(table)
        if self.view["starter"] < 0:
            self._lead(state, hand)
        if state.is_empty != (self.view["field"] == PASS):
            LOGGER.warning("by the rules the field is %s", plays.text(int(self.view["field"])))
            self.view["field"] = self.view["passed"] = 0
        self._follow("turn", state.player)
        self._follow("revolution", state.revolution)
        self._follow("lock", state.lock)
        self._follow("left", state.left)
        if hand != self.view["hands"][self.viewer]:
            LOGGER.warning("the server sent another hand: %s", cards.text(hand))
            self.view["hands"][self.viewer] = hand
        if state.is_mine != (state.player == self.viewer):
            raise ProtocolError(f"the server gave player {self.viewer} the turn of {state.player}")
        return state.is_mine

    def field(self, table: Table) -> None:
        """Read a field table: the action of the player in turn."""
        state, view = self._read(table), self.view
        if view["starter"] < 0 or view["n_actions"] >= MAX_ACTIONS:
            raise ProtocolError(
                "the server sent a field table before a turn, or a game without end"
            )
        self._follow("turn", state.player)
        if state.left[state.player] < view["left"][state.player]:
            self._lay(table)
        else:
            skip(view)
        advance(view)

    def _lay(self, table: Table) -> None:
        """Make the play of the player in turn that is on the field."""
        play, text, joker = submission(table)
        if play in (PASS, ILLEGAL):
            raise ProtocolError(f"the server sent a field of {text!r}, which is not a play")
        lay(self.view, play)
        if play == LONE_JOKER and joker is not None:
            self.view["joker_column"] = joker[1]

    def _follow(self, name: str, value: Any) -> None:
        """Set a field to the server's value; log a warning if it differs from the rules."""
        expected = self.view[name].tolist()
        if expected != value:
            LOGGER.warning("the server sent %s %s, by the rules it is %s", name, value, expected)
            self.view[name] = value

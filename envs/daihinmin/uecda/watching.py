"""What a client sees of a match: a view that the server's tables keep up to date.

No table says who passed, what another player gave away, or how a game ended. A watcher plays the
game along on its own record, by the rules, and has in it at every turn what `views.view` shows of
a game in the same process.
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

    Where the server's tables differ from the rules, they hold, and a warning is logged.

    Args:
        viewer: the client's number.
    """

    def __init__(self, viewer: int) -> None:
        self.viewer = viewer
        self.view: Game = self._new_view()
        self._points_before = np.zeros(N_PLAYERS, np.int64)

    def _new_view(self) -> Game:
        """A view before its first table."""
        view = new_match()
        view["viewer"] = self.viewer
        view["places"] = view["last"] = -1
        return view

    @property
    def points(self) -> list[int]:
        """The points of all games so far, by player.

        Places that were drawn are told only by the classes of the next game, and not before a game
        without classes nor at the end of the match.
        """
        points: list[int] = self.view["points"].tolist()
        return points

    # Start and exchange

    def start(self, table: Table) -> None:
        """A start table: a new game."""
        state = read_state(table)
        if not state.is_start:
            raise ProtocolError("the server sent another table where a game should start")
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
        """It is on the viewer to give: the poor have done so, and before the fugo the daifugo."""
        view = self.view
        exchanged = HEIMIN - view["classes"]
        if n != exchanged[self.viewer]:
            raise ProtocolError(f"the server asks for {n} cards, which no class of this game gives")
        if n != n_exchanged(DAIFUGO):
            exchanged[np.abs(exchanged) == n_exchanged(DAIFUGO)] = 0
        view["left"] += exchanged
        view["turn"] = self.viewer
        view["to_give"] = n

    def _lead(self, state: State, hand: int) -> None:
        """The first turn: the exchange is over."""
        view = self.view
        before, rank = int(view["hands"][self.viewer]), int(view["classes"][self.viewer])
        given = cards.strongest(before, n_exchanged(rank)) if rank > HEIMIN else before & ~hand
        view["given"][self.viewer] = given
        view["hands"][self.viewer] = hand
        view["left"] = state.left
        view["to_give"] = 0
        view["turn"] = view["starter"] = view["last"] = state.player

    # Actions

    def _read(self, table: Table) -> State:
        """What a turn or field table tells."""
        state = read_state(table)
        if state.is_start:
            raise ProtocolError("the server started a game in the middle of another one")
        return state

    def turn(self, table: Table) -> bool:
        """A turn table: whether it is the viewer's turn."""
        state = self._read(table)
        hand = read_hand(table)
        if self.view["starter"] < 0:
            self._lead(state, hand)
        if state.is_empty != (self.view["field"] == PASS):
            LOGGER.warning("by the rules the field is %s", plays.text(int(self.view["field"])))
            self.view["field"] = self.view["passed"] = 0
        self._take("turn", state.player)
        self._take("revolution", state.revolution)
        self._take("lock", state.lock)
        self._take("left", state.left)
        if hand != self.view["hands"][self.viewer]:
            LOGGER.warning("the server tells a hand of %s", cards.text(hand))
            self.view["hands"][self.viewer] = hand
        if state.is_mine != (state.player == self.viewer):
            raise ProtocolError(f"the server gave player {self.viewer} the turn of {state.player}")
        return state.is_mine

    def field(self, table: Table) -> None:
        """A field table: what the player in turn did."""
        state, view = self._read(table), self.view
        if view["starter"] < 0 or view["n_actions"] >= MAX_ACTIONS:
            raise ProtocolError("the server sent a field before a turn, or a game without end")
        self._take("turn", state.player)
        if state.left[state.player] < view["left"][state.player]:
            self._lay(table)
        else:
            skip(view)
        advance(view)

    def _lay(self, table: Table) -> None:
        """The player in turn has laid down what lies on the field."""
        play, text, joker = submission(table)
        if play in (PASS, ILLEGAL):
            raise ProtocolError(f"the server says that {text!r} lies on the field: that is no play")
        lay(self.view, play)
        if play == LONE_JOKER and joker is not None:
            self.view["joker_column"] = joker[1]

    def _take(self, name: str, told: Any) -> None:
        """Takes over what the server tells; says so if it differs from the rules."""
        ours = self.view[name].tolist()
        if ours != told:
            LOGGER.warning("the server tells %s %s, by the rules it is %s", name, told, ours)
            self.view[name] = told

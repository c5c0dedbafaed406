"""A client's view of a match, kept up to date with the server's tables.

No table says who passed, which cards others gave away, or how a game ended. A client's view
therefore plays the game along by the rules on its own record, which at every turn equals the view
that `views.view` returns of a game in the same process. Tables that contradict the rules are
errors: no player can choose well in a position that cannot be.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.cards import D3, N_CARDS
from afterstate.envs.daihinmin.match import new_match
from afterstate.envs.daihinmin.plays import CARDS, LONE_JOKER, PASS, SIZE, follows
from afterstate.envs.daihinmin.records.recording import ILLEGAL
from afterstate.envs.daihinmin.rules import (
    DAIFUGO,
    HEIMIN,
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
    read_submission,
)
from afterstate.envs.daihinmin.views import all_played

LOGGER = logging.getLogger(__name__)
DEALT = {N_CARDS // N_PLAYERS, N_CARDS // N_PLAYERS + 1}
"""Numbers of cards that are dealt to a player."""


class ClientView:
    """One client's view of a match.

    Its methods raise ProtocolError for tables that contradict the rules or each other. Only another
    lock is followed.

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
        view["places"] = -1
        return view

    @property
    def points(self) -> list[int]:
        """Points of all games so far, by player.

        Drawn places are known only from the classes of the next game; they stay unknown before a
        game without classes and at the end of the match.
        """
        points: list[int] = self.view["points"].tolist()
        return points

    def read_start(self, table: Table) -> None:
        """Read a start table: a game begins."""
        state, before, view = read_state(table), self.view, self._new_view()
        if not state.is_start:
            raise ProtocolError("the server sent another table instead of a start table")
        has_classes = len(set(state.classes)) == N_PLAYERS
        if has_classes and before["number"] > 0:
            self._check_places(state.classes)
            before["points"] = self._points_before + N_PLAYERS - np.array(state.classes)
        view["number"] = before["number"] + 1
        view["points"] = self._points_before = before["points"].copy()
        view["seats"] = state.seats
        view["classes"] = state.classes if has_classes else -1
        view["last"] = before["last"]
        view["hands"][self.viewer] = hand = read_hand(table)
        view["left"] = state.left
        self.view = view
        _check_dealt(state.left)
        if state.to_give:
            self._give(state.to_give)
        self._expect("number of cards", cards.count(hand), int(view["left"][self.viewer]))

    def _check_places(self, classes: list[int]) -> None:
        """Raise ProtocolError for classes that are not the places of the previous game.

        Drawn places are not known, but places reached before are.
        """
        before = self.view
        known = before["left"] == 0 if before["idle"] >= before["idle_limit"] else True
        if np.any((before["places"] != classes) & known):
            places = before["places"].tolist()
            raise ProtocolError(f"the server sent classes {classes}, the places were {places}")

    def _give(self, n: int) -> None:
        """Set the viewer's gift: the poor have given already, and the daifugo before the fugo."""
        view = self.view
        exchanged = HEIMIN - view["classes"]
        if view["classes"][self.viewer] < 0 or n != exchanged[self.viewer]:
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
        view["given"][self.viewer] = self._given(hand)
        view["hands"][self.viewer] = hand
        view["left"] = state.left
        view["to_give"] = 0
        view["turn"] = view["starter"] = view["last"] = state.player
        _check_dealt(state.left)
        self._expect("number of cards", cards.count(hand), state.left[self.viewer])
        if bool(hand & D3) != (state.player == self.viewer):
            raise ProtocolError(f"player {state.player} leads without the diamond 3")

    def _given(self, hand: int) -> int:
        """Return the cards that the viewer gave away before its first turn with a hand."""
        view = self.view
        before, rank = int(view["hands"][self.viewer]), int(view["classes"][self.viewer])
        if rank > HEIMIN:
            given = cards.strongest(before, n_exchanged(rank))
            is_possible = before & ~given & ~hand == 0
        else:
            given = before & ~hand
            is_possible = hand & ~before == 0 and cards.count(given) == view["to_give"]
        if not is_possible:
            raise ProtocolError(f"the hand became {cards.text(hand)} in the exchange")
        return int(given)

    def _read(self, table: Table) -> State:
        """Return the state of a turn or field table."""
        state = read_state(table)
        if state.is_start:
            raise ProtocolError("the server started a game in the middle of another one")
        return state

    def read_turn(self, table: Table) -> bool:
        """Read a turn table; return True if it is the viewer's turn."""
        state, hand, view = self._read(table), read_hand(table), self.view
        if view["starter"] < 0:
            self._lead(state, hand)
        self._check_state(state)
        self._expect("revolution", state.revolution, bool(view["revolution"]))
        self._expect("an empty field", state.is_empty, bool(view["field"] == PASS))
        self._expect("left", state.left, view["left"].tolist())
        self._expect("hand", cards.text(hand), cards.text(view["hands"][self.viewer]))
        self._expect("the viewer's turn", state.is_mine, state.player == self.viewer)
        if state.lock != view["lock"]:
            self._follow_lock(state)
        return state.is_mine

    def _follow_lock(self, state: State) -> None:
        """Take the server's lock into the view, because the server tests plays by it.

        An empty field and a lone joker have no suit to lock.
        """
        view = self.view
        LOGGER.warning("the server sent lock %d, by the rules it is %d", state.lock, view["lock"])
        view["lock"] = state.lock and view["field"] not in (PASS, LONE_JOKER)

    def _check_state(self, state: State) -> None:
        """Raise ProtocolError if another player is in turn, or the seats are others."""
        self._expect("turn", state.player, int(self.view["turn"]))
        self._expect("seats", state.seats, self.view["seats"].tolist())

    def read_field(self, table: Table, submitted: int | None = None) -> None:
        """Read a field table: the action of the player in turn.

        Args:
            table: the table.
            submitted: the play that the server accepted from the viewer, if it was in turn.
        """
        state, view = self._read(table), self.view
        if view["starter"] < 0:
            raise ProtocolError("the server sent a field table before a turn")
        self._check_state(state)
        left = view["left"].copy()
        play = self._play_of(table) if state.left[state.player] < left[state.player] else PASS
        left[state.player] -= SIZE[play]
        self._expect("left", state.left, left.tolist())
        if submitted is not None:
            self._expect("the viewer's play", plays.text(play), plays.text(submitted))
        if play == PASS:
            skip(view)
        else:
            self._lay(play, read_submission(table).joker)
        advance(view)

    def _play_of(self, table: Table) -> int:
        """Return the play of the player in turn that is on the field."""
        play, text, _ = read_submission(table)
        view, is_mine = self.view, self.view["turn"] == self.viewer
        revolution, lock = bool(view["revolution"]), bool(view["lock"])
        if play in (PASS, ILLEGAL) or not follows(play, view["field"], revolution, lock):
            field = plays.text(int(view["field"]))
            raise ProtocolError(f"the server sent the play {text!r}, which is illegal on {field!r}")
        hand, used = view["hands"][self.viewer], CARDS[play]
        if used & all_played(view) or (used & ~hand if is_mine else used & hand):
            raise ProtocolError(f"the server sent the play {text!r}, whose cards are elsewhere")
        return play

    def _lay(self, play: int, joker: plays.Cell | None) -> None:
        """Make a play of the player in turn."""
        lay(self.view, play)
        if play == LONE_JOKER and joker is not None:
            self.view["joker_column"] = joker[1]

    def check_end(self, is_over: bool) -> None:
        """Raise ProtocolError if the server ends a game too early or too late."""
        self._expect("the end of the game", is_over, bool(self.view["turn"] < 0))

    def _expect(self, name: str, value: Any, expected: Any) -> None:
        """Raise ProtocolError if a value of the server is not the one by the rules."""
        if value != expected:
            raise ProtocolError(f"the server sent {name} {value}, by the rules it is {expected}")


def _check_dealt(left: list[int]) -> None:
    """Raise ProtocolError if players have numbers of cards that are never dealt."""
    if sum(left) != N_CARDS or not set(left) <= DEALT:
        raise ProtocolError(f"the server dealt {left} cards")

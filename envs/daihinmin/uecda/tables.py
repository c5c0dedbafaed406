"""The tables of the competition's protocol 20070, as pure functions of games, plays and bytes.

Server and client exchange two kinds of messages: tables of 8 rows and 15 columns, and single
numbers. Every number is an `int32`, high byte first. Columns are the ranks of `cards.py`:

    row 0-3   spades, hearts, diamonds, clubs: 1 a card, 2 the joker in place of a card
    row 4     the joker: in a hand column 1, as the fifth card of a rank its column
    row 5     0 the game starts, 1 cards to give, 2 it is your turn, 3 a player, 4 empty field,
              6 revolution, 7 lock
    row 6     0-4 cards left by player, 5-9 classes by player, 10-14 players by seat

A client's tables have only rows 0 to 4. The messages of a match, for each client:

    profile ->, <- its number or a `RefusalCode`, and for each game
        <- start table, (gift table ->), and for each action
            <- turn table, (submission ->, <- answer), <- field table, <- end
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from afterstate.envs.daihinmin import plays
from afterstate.envs.daihinmin.cards import JOKER, N_CARDS, RANKS, SUITS, check_set
from afterstate.envs.daihinmin.plays import LONE_JOKER, PASS, Cell
from afterstate.envs.daihinmin.records.recording import ILLEGAL
from afterstate.envs.daihinmin.rules import DAIFUGO, HEIMIN, N_PLAYERS, Game, n_exchanged
from afterstate.envs.messages import shown

PROTOCOL = 20070
"""The version of the protocol."""
SHAPE = (8, 15)
"""Rows and columns of a table."""
TABLE_BYTES, INT_BYTES = 480, 4
"""Lengths of the messages."""
MORE, GAME_OVER, MATCH_OVER = range(3)
"""Values of the number after each action."""
NOBODY = 6
"""The player number in a start table."""
MAX_SENT_NAME, MAX_NAME = 14, 9
"""Maximum lengths of a name, as sent by a client and as kept by a server."""

Table = npt.NDArray[np.int32]

_CARD_ROWS = 5
_PLAYERS = set(range(N_PLAYERS))


class RefusalCode(IntEnum):
    """A reason why a client gets no seat, sent instead of its number.

    The server then closes the connection. Clients that know no reasons take the number for theirs
    and end when they find no start table; more bytes after it would be taken for that table.
    """

    FULL = -1
    PROTOCOL = -2
    NO_PROFILE = -3
    CROWD = -4
    ADDRESS = -5


REASONS = {
    RefusalCode.FULL: "all seats are taken",
    RefusalCode.PROTOCOL: f"it speaks protocol {PROTOCOL} only",
    RefusalCode.NO_PROFILE: "it got no profile in time",
    RefusalCode.CROWD: "too many connections wait for a seat",
    RefusalCode.ADDRESS: "it accepts no more clients of this address",
}
"""The reasons in words, as the end of a sentence about the server."""


class ProtocolError(Exception):
    """The other side sent a message that the protocol does not allow."""


def to_bytes(table: Table) -> bytes:
    """Return the 480 bytes of a table, or those of several in a row.

    A negative cell is sent as 0.
    """
    return np.maximum(table, 0).astype(">i4").tobytes()


def messages(tables: Table) -> list[bytes]:
    """Return the bytes of each of several tables `[T, 8, 15]`."""
    data = to_bytes(tables)
    return [data[at : at + TABLE_BYTES] for at in range(0, len(data), TABLE_BYTES)]


def from_bytes(data: bytes) -> Table:
    """Return the table of 480 bytes."""
    return np.frombuffer(data, ">i4").astype(np.int32).reshape(SHAPE)


def part_of_table(data: bytes) -> str:
    """Return in words how much of a table has arrived.

    >>> part_of_table(bytes(12))
    '12 of the 480 bytes of a table'
    """
    return f"{len(data)} of the {TABLE_BYTES} bytes of a table"


def int_to_bytes(number: int) -> bytes:
    """Return the 4 bytes of a number.

    >>> int_to_bytes(9).hex()
    '00000009'
    """
    return number.to_bytes(INT_BYTES, "big", signed=True)


def int_from_bytes(data: bytes) -> int:
    """Return the number of 4 bytes."""
    return int.from_bytes(data, "big", signed=True)


def profile_table(name: str) -> Table:
    """Return the first table of a client: the version, and the first 14 characters of its name.

    Characters outside ASCII are sent as `?`.
    """
    table = np.zeros(SHAPE, np.int32)
    table[0, 0] = PROTOCOL
    sent = name[:MAX_SENT_NAME].encode("ascii", "replace")
    table[1, : len(sent)] = list(sent)
    return table


def read_profile(table: Table) -> tuple[int, str]:
    """Return the version that a client asks for, and the first 9 characters of its name.

    Unprintable characters become `?`.
    """
    codes = table[1, :MAX_NAME].tolist()
    name = codes[: codes.index(0)] if 0 in codes else codes
    return int(table[0, 0]), "".join(chr(code) if 32 <= code < 127 else "?" for code in name)


def _hand_cells(hands: npt.NDArray[np.uint64]) -> Table:
    """Return rows 0 to 4 of the tables of hands `[H]`: `[H, 5, 15]`."""
    bits = np.unpackbits(hands.astype("<u8").view(np.uint8), bitorder="little").reshape(-1, 64)
    cells = np.zeros((len(bits), _CARD_ROWS, SHAPE[1]), np.int32)
    cells[:, :4, 1:14] = bits[:, :JOKER].reshape(-1, 13, 4).transpose(0, 2, 1)
    cells[:, 4, 1] = 2 * bits[:, JOKER]
    return cells


_BITS = np.array([[1 << 4 * rank + suit for rank in range(13)] for suit in range(4)], np.uint64)


def read_hand(table: Table) -> int:
    """Return the cards of a hand's table, without cells that cannot hold a card of a hand."""
    return _hand(table[:_CARD_ROWS].tobytes())


@lru_cache(maxsize=64)
def _hand(cells: bytes) -> int:
    """Return the cards of rows 0 to 4, cached because most hands are read many times."""
    rows = np.frombuffer(cells, np.int32).reshape(_CARD_ROWS, SHAPE[1])
    naturals = int(_BITS[rows[:4, 1:14] == 1].sum())
    return naturals | int(rows[4, 1] == 2) << JOKER


def gift_table(cards: int) -> Table:
    """Return the table by which a client gives cards away.

    Raises:
        ValueError: not a card set.
    """
    check_set(cards)
    table = np.zeros(SHAPE, np.int32)
    table[:_CARD_ROWS] = _hand_cells(np.array([cards], np.uint64))[0]
    return table


def read_gift(table: Table) -> int:
    """Return the cards that a client gives away; 0, which is punished, if a cell is wrong."""
    cards = read_hand(table)
    return cards if np.array_equal(gift_table(cards)[:_CARD_ROWS], table[:_CARD_ROWS]) else 0


def _play_cells(play: int) -> Table:
    """Return rows 0 to 4 of a play's table."""
    naturals, joker = plays.cells(play)
    cells = np.zeros((_CARD_ROWS, SHAPE[1]), np.int32)
    for cell in naturals:
        cells[cell] = 1
    if joker is not None:
        cells[joker] = 2
    return cells


_CELLS = np.array([_play_cells(play) for play in range(plays.N_PLAYS)])
_PLAYS = {cells.tobytes(): play for play, cells in enumerate(_CELLS)}


def play_table(play: int, joker: Cell | None = None) -> Table:
    """Return the table of a play.

    Args:
        play: its number.
        joker: cell of a lone joker; by default row 0, column 14.

    Raises:
        ValueError: not the number of a play.
    """
    if not 0 <= play < plays.N_PLAYS:
        raise ValueError(f"play must be in 0..{plays.N_PLAYS - 1}, got {shown(play)}")
    table = np.zeros(SHAPE, np.int32)
    if play == LONE_JOKER and joker is not None:
        table[joker] = 2
    else:
        table[:_CARD_ROWS] = _CELLS[play]
    return table


def submission_table(play: int, game: Game) -> Table:
    """Return the table by which a client submits a play.

    That of `ILLEGAL` has a card in a cell that cannot hold one, so that the server counts it.
    """
    table = play_table(max(play, PASS), lone_joker_cell(game))
    if play == ILLEGAL:
        table[0, 0] = 1
    return table


def lone_joker_cell(game: Game) -> Cell:
    """Return the cell of our lone joker: beyond the strongest rank, as in the sample client."""
    return 0, 0 if game["revolution"] else 14


class Submission(NamedTuple):
    """A play that a client submits, or the play on the field."""

    play: int
    """Number of the play, `ILLEGAL` if it is not a play."""
    text: str
    """Notation of recorded games; `?r,c=v` is a cell that cannot hold a card."""
    joker: Cell | None = None
    """Cell of a lone joker."""


NOTHING = Submission(PASS, plays.text(PASS))
"""A pass, or an empty field."""


def _lone_joker(cells: Table) -> Cell | None:
    """Return the cell of a joker that is alone in rows 0 to 3, or None for any other cells.

    In row 4 it has no suit, which is illegal.
    """
    used = np.argwhere(cells).tolist()
    if len(used) != 1 or used[0][0] > 3 or cells[tuple(used[0])] != 2:
        return None
    row, column = used[0]
    return row, column


def _cell_text(row: int, column: int, value: int) -> str:
    """Return the notation of one cell of a submission."""
    if value == 1 and row < 4 and 1 <= column <= 13:
        return SUITS[row] + RANKS[column]
    if value == 2:
        return "JO=" + (SUITS + "X")[row] + RANKS[column]
    return f"?{row},{column}={value}"


def read_submission(table: Table) -> Submission:
    """Return the submission of a client, or the play on the field, from rows 0 to 4."""
    cells = table[:_CARD_ROWS]
    play = _PLAYS.get(cells.tobytes())
    if play is not None and play != LONE_JOKER:
        return Submission(play, plays.text(play))
    joker = _lone_joker(cells)
    if joker is not None:
        return Submission(LONE_JOKER, plays.text(LONE_JOKER), joker)
    used = np.argwhere(cells.T).tolist()
    names = [_cell_text(row, column, int(cells[row, column])) for column, row in used]
    return Submission(ILLEGAL, " ".join(names))


class State(NamedTuple):
    """Rows 5 and 6 of a server's table."""

    player: int
    """The player to move in a turn table, the one that has just acted in a field table, `NOBODY` in
    a start table."""
    is_empty: bool
    """True if the field is empty."""
    revolution: bool
    lock: bool
    left: list[int]
    classes: list[int]
    """All 0 if there are none. The competition's server changes them during a game: only those of
    the start table are valid."""
    seats: list[int]
    is_mine: bool = False
    """True if it is this client's turn."""
    is_start: bool = False
    to_give: int = 0
    """Number of cards that this client must give now."""


def state_of(game: Game) -> State:
    """Return the state of a game before an action."""
    classes = game["classes"].tolist()
    return State(
        int(game["turn"]),
        bool(game["field"] == PASS),
        bool(game["revolution"]),
        bool(game["lock"]),
        game["left"].tolist(),
        classes if classes[0] >= 0 else [0] * N_PLAYERS,
        game["seats"].tolist(),
    )


def read_state(table: Table) -> State:
    """Return the state in rows 5 and 6 of a server's table.

    Raises:
        ProtocolError: impossible rows.
    """
    flags, people = table[5:7].tolist()
    start, to_give, mine, player, empty, _, revolution, lock = flags[:8]
    public = player, empty == 1, revolution == 1, lock == 1, people[:5], people[5:10], people[10:]
    state = State(*public, mine == 1, start == 1, to_give)
    if not _is_possible(state):
        raise ProtocolError(f"the server sent impossible rows 5 and 6: {flags}, {people}")
    return state


def _is_possible(state: State) -> bool:
    """Return True if players, seats, classes and counts are in their ranges.

    Only the classes of a start table are the server's: parts of a client's table may be in others.
    """
    return (
        (0 <= state.player < N_PLAYERS or (state.is_start and state.player == NOBODY))
        and 0 <= state.to_give <= n_exchanged(DAIFUGO)
        and min(state.left) >= 0
        and max(state.left) <= N_CARDS
        and (not state.is_start or _PLAYERS.issuperset(state.classes))
        and set(state.seats) == _PLAYERS
    )


def _state_rows(state: State) -> list[list[int]]:
    """Return rows 5 and 6 of a table, as all clients see them."""
    row = [0] * SHAPE[1]
    row[3], row[4], row[6], row[7] = state.player, state.is_empty, state.revolution, state.lock
    return [row, [*state.left, *state.classes, *state.seats]]


def _tables(hands: npt.NDArray[np.uint64], state: State) -> Table:
    """Return the five players' tables, each with its hand: `[5, 8, 15]`."""
    tables = np.zeros((N_PLAYERS, *SHAPE), np.int32)
    tables[:, :_CARD_ROWS] = _hand_cells(hands)
    tables[:, 5:7] = _state_rows(state)
    return tables


def start_tables(game: Game) -> Table:
    """Return the five start tables, after the gifts of the poor, before the rich: `[5, 8, 15]`.

    The rich see the cards they received, the poor still those they gave away, and all see the
    numbers of dealt cards.
    """
    exchanged = HEIMIN - game["classes"] if game["to_give"] else np.zeros(N_PLAYERS, np.int64)
    dealt = (game["left"] - exchanged).tolist()
    state = state_of(game)._replace(player=NOBODY, is_empty=False, left=dealt)
    tables = _tables(game["hands"] | game["given"], state)
    tables[:, 5, 0] = 1
    tables[:, 5, 1] = np.maximum(exchanged, 0)
    return tables


def turn_tables(game: Game) -> Table:
    """Return the five turn tables before an action, each with its hand: `[5, 8, 15]`."""
    tables = _tables(game["hands"], state_of(game))
    tables[game["turn"], 5, 2] = 1
    return tables


def field_table(state: State, field: int, joker: Cell | None = None) -> Table:
    """Return the table for all after an action, before the trick ends and the turn passes on.

    Args:
        state: the state at that moment.
        field: the play on the field.
        joker: cell of a lone joker.
    """
    table = play_table(field, joker)
    table[5:7] = _state_rows(state)
    return table

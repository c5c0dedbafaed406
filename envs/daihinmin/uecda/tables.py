"""The tables of the competition's protocol 20070, as pure functions of games, plays and bytes.

Server and client exchange two kinds of messages: tables of 8 rows and 15 columns, and single
numbers. Every number is an `int32`, high byte first. Columns are the ranks of `cards.py`:

    row 0-3   spades, hearts, diamonds, clubs: 1 a card, 2 the joker in its place
    row 4     the joker: column 1 of a hand, the column of the four others as their fifth
    row 5     0 the game starts, 1 cards to give, 2 it is your turn, 3 a player, 4 empty field,
              6 revolution, 7 lock
    row 6     0-4 cards left by player, 5-9 classes by player, 10-14 players by seat

A client's tables hold rows 0 to 4 alone. A match goes, for each client,

    profile ->, <- its number, and for each game
        <- start table, (gift table ->), and for each action
            <- turn table, (submission ->, <- answer), <- field table, <- end
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from afterstate.envs.daihinmin import plays
from afterstate.envs.daihinmin.cards import DECK, JOKER, N_CARDS, RANKS, SUITS
from afterstate.envs.daihinmin.plays import LONE_JOKER, PASS, Cell
from afterstate.envs.daihinmin.records.recording import ILLEGAL
from afterstate.envs.daihinmin.rules import DAIFUGO, HEIMIN, N_PLAYERS, Game, n_exchanged

PROTOCOL = 20070
"""The version of the protocol."""
PORT = 42485
"""The port that servers listen on by custom."""
SHAPE = (8, 15)
"""Rows and columns of a table."""
TABLE_BYTES, INT_BYTES = 480, 4
"""The lengths of the messages."""
MORE, GAME_OVER, MATCH_OVER = range(3)
"""What the number after each action says."""
NOBODY = 6
"""The player that a start table names."""
MAX_SENT_NAME, MAX_NAME = 14, 9
"""Characters of a name that a client may send, and that a server keeps."""

Table = npt.NDArray[np.int32]

_CARD_ROWS = 5
_PLAYERS = set(range(N_PLAYERS))


class ProtocolError(Exception):
    """The other side sent what the protocol does not know."""


# Bytes


def to_bytes(table: Table) -> bytes:
    """The 480 bytes of a table, or those of several one after the other.

    A negative cell is sent as 0.
    """
    return np.maximum(table, 0).astype(">i4").tobytes()


def messages(tables: Table) -> list[bytes]:
    """The bytes of several tables `[T, 8, 15]`, one by one."""
    data = to_bytes(tables)
    return [data[at : at + TABLE_BYTES] for at in range(0, len(data), TABLE_BYTES)]


def from_bytes(data: bytes) -> Table:
    """The table of 480 bytes."""
    return np.frombuffer(data, ">i4").astype(np.int32).reshape(SHAPE)


def int_bytes(number: int) -> bytes:
    """The 4 bytes of a number.

    >>> int_bytes(9).hex()
    '00000009'
    """
    return number.to_bytes(INT_BYTES, "big", signed=True)


def read_int(data: bytes) -> int:
    """The number of 4 bytes."""
    return int.from_bytes(data, "big", signed=True)


# Profiles


def profile_table(name: str) -> Table:
    """The first table of a client: the protocol's version, and the first 14 characters of its name.

    What is not ASCII is sent as `?`.
    """
    table = np.zeros(SHAPE, np.int32)
    table[0, 0] = PROTOCOL
    sent = name[:MAX_SENT_NAME].encode("ascii", "replace")
    table[1, : len(sent)] = list(sent)
    return table


def read_profile(table: Table) -> tuple[int, str]:
    """The version that a client asks for, and the first 9 characters of its name.

    What cannot be printed becomes `?`.
    """
    codes = table[1, :MAX_NAME].tolist()
    name = codes[: codes.index(0)] if 0 in codes else codes
    return int(table[0, 0]), "".join(chr(code) if 32 <= code < 127 else "?" for code in name)


# Hands


def _hand_cells(hands: npt.NDArray[np.uint64]) -> Table:
    """Rows 0 to 4 of the tables of hands `[H]`: `[H, 5, 15]`."""
    bits = np.unpackbits(hands.astype("<u8").view(np.uint8), bitorder="little").reshape(-1, 64)
    cells = np.zeros((len(bits), _CARD_ROWS, SHAPE[1]), np.int32)
    cells[:, :4, 1:14] = bits[:, :JOKER].reshape(-1, 13, 4).transpose(0, 2, 1)
    cells[:, 4, 1] = 2 * bits[:, JOKER]
    return cells


_BITS = np.array([[1 << 4 * rank + suit for rank in range(13)] for suit in range(4)], np.uint64)


def read_hand(table: Table) -> int:
    """The cards of a hand's table; cells that hold no card of a hand are left out."""
    return _hand(table[:_CARD_ROWS].tobytes())


@lru_cache(maxsize=64)
def _hand(cells: bytes) -> int:
    """The cards of rows 0 to 4: most hands are read many times."""
    rows = np.frombuffer(cells, np.int32).reshape(_CARD_ROWS, SHAPE[1])
    naturals = int(_BITS[rows[:4, 1:14] == 1].sum())
    return naturals | int(rows[4, 1] == 2) << JOKER


def gift_table(cards: int) -> Table:
    """The table by which a client gives cards away.

    Raises:
        ValueError: it is no card set.
    """
    if not 0 <= int(cards) <= DECK:
        raise ValueError(f"a card set has 53 bits, got {cards!r}")
    table = np.zeros(SHAPE, np.int32)
    table[:_CARD_ROWS] = _hand_cells(np.array([cards], np.uint64))[0]
    return table


def gift(table: Table) -> int:
    """The cards that a client gives away; none, which is punished, if a cell is out of place."""
    cards = read_hand(table)
    return cards if np.array_equal(gift_table(cards)[:_CARD_ROWS], table[:_CARD_ROWS]) else 0


# Plays


def _play_cells(play: int) -> Table:
    """Rows 0 to 4 of a play's table."""
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
    """The table of a play.

    Args:
        play: its number.
        joker: where a lone joker lies; by default in row 0, column 14.

    Raises:
        ValueError: there is no such play.
    """
    if not 0 <= play < plays.N_PLAYS:
        raise ValueError(f"a play is a number from 0 to {plays.N_PLAYS - 1}, got {play!r}")
    table = np.zeros(SHAPE, np.int32)
    if play == LONE_JOKER and joker is not None:
        table[joker] = 2
    else:
        table[:_CARD_ROWS] = _CELLS[play]
    return table


def lone_joker_cell(game: Game) -> Cell:
    """Where our players put a lone joker: beyond the strongest rank, as the sample client does."""
    return 0, 0 if game["revolution"] else 14


class Submission(NamedTuple):
    """What a player lays down, or wants to."""

    play: int
    """Its number, `ILLEGAL` for what is no play."""
    text: str
    """In the notation of recorded games; `?r,c=v` is a cell that holds no card."""
    joker: Cell | None = None
    """Where a lone joker lies."""


NOTHING = Submission(PASS, plays.text(PASS))
"""The pass, and an empty field."""


def _lone_joker(cells: Table) -> Cell | None:
    """Where the joker lies that is alone in rows 0 to 3; None if that is not what the cells hold.

    In row 4 it stands for no suit: that is illegal.
    """
    used = np.argwhere(cells).tolist()
    if len(used) != 1 or used[0][0] > 3 or cells[tuple(used[0])] != 2:
        return None
    row, column = used[0]
    return row, column


def _cell_text(row: int, column: int, value: int) -> str:
    """How one cell of a submission is written."""
    if value == 1 and row < 4 and 1 <= column <= 13:
        return SUITS[row] + RANKS[column]
    if value == 2:
        return "JO=" + (SUITS + "X")[row] + RANKS[column]
    return f"?{row},{column}={value}"


def submission(table: Table) -> Submission:
    """Reads what a client submits, or what lies on the field, from rows 0 to 4."""
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


# What a server tells


class State(NamedTuple):
    """What rows 5 and 6 of a server's table tell."""

    player: int
    """To move in a turn table, who has just acted in a field table, nobody in a start table."""
    is_empty: bool
    """No cards lie on the field."""
    revolution: bool
    lock: bool
    left: list[int]
    classes: list[int]
    """All 0 where there are none. The competition's server changes them while a game goes on: only
    those of the start table hold."""
    seats: list[int]
    is_mine: bool = False
    """It is this client's turn."""
    is_start: bool = False
    to_give: int = 0
    """How many cards this client must give now."""


def state_of(game: Game) -> State:
    """What all clients are told of a game before an action."""
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
    """Reads rows 5 and 6 of a server's table.

    Raises:
        ProtocolError: no server of this protocol sends them.
    """
    flags, people = table[5:7].tolist()
    start, to_give, mine, player, empty, _, turned, locked = flags[:8]
    told = player, empty == 1, turned == 1, locked == 1, people[:5], people[5:10], people[10:]
    state = State(*told, mine == 1, start == 1, to_give)
    if not _is_possible(state):
        raise ProtocolError(f"a table of the server has impossible rows 5 and 6: {flags}, {people}")
    return state


def _is_possible(state: State) -> bool:
    """Whether players, seats, classes and counts are in their ranges."""
    return (
        (0 <= state.player < N_PLAYERS or (state.is_start and state.player == NOBODY))
        and 0 <= state.to_give <= n_exchanged(DAIFUGO)
        and min(state.left) >= 0
        and max(state.left) <= N_CARDS
        and min(state.classes) >= 0
        and max(state.classes) < N_PLAYERS
        and set(state.seats) == _PLAYERS
    )


def _state_rows(state: State) -> list[list[int]]:
    """Rows 5 and 6 of a table, as all clients see them."""
    row = [0] * SHAPE[1]
    row[3], row[4], row[6], row[7] = state.player, state.is_empty, state.revolution, state.lock
    return [row, [*state.left, *state.classes, *state.seats]]


def _tables(hands: npt.NDArray[np.uint64], state: State) -> Table:
    """The five players' tables with a hand each: `[5, 8, 15]`."""
    tables = np.zeros((N_PLAYERS, *SHAPE), np.int32)
    tables[:, :_CARD_ROWS] = _hand_cells(hands)
    tables[:, 5:7] = _state_rows(state)
    return tables


def start_tables(game: Game) -> Table:
    """The five players' tables of a game in which the poor have given, the rich not: `[5, 8, 15]`.

    The rich see the cards that they received, the poor still those that they gave away, and all
    the numbers of cards that were dealt.
    """
    exchanged = HEIMIN - game["classes"] if game["to_give"] else np.zeros(N_PLAYERS, np.int64)
    dealt = (game["left"] - exchanged).tolist()
    state = state_of(game)._replace(player=NOBODY, is_empty=False, left=dealt)
    tables = _tables(game["hands"] | game["given"], state)
    tables[:, 5, 0] = 1
    tables[:, 5, 1] = np.maximum(exchanged, 0)
    return tables


def turn_tables(game: Game) -> Table:
    """The five players' tables before an action, each with his hand: `[5, 8, 15]`."""
    tables = _tables(game["hands"], state_of(game))
    tables[game["turn"], 5, 2] = 1
    return tables


def field_table(state: State, field: int, joker: Cell | None = None) -> Table:
    """The table that all see after an action, before the trick flows and the turn goes on.

    Args:
        state: of that moment.
        field: the play that lies on the field then.
        joker: where a lone joker lies.
    """
    table = play_table(field, joker)
    table[5:7] = _state_rows(state)
    return table

"""The tables of the protocol equal tables written by hand from its text."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pytest

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.records import replay
from afterstate.envs.daihinmin.records.recording import ILLEGAL
from afterstate.envs.daihinmin.rules import Game, give, lay, play_out
from afterstate.envs.daihinmin.uecda import tables

Cells = dict[tuple[int, int], int]


def table_of(cells: Cells) -> tables.Table:
    """Return the table of a few cells."""
    table = np.zeros((8, 15), np.int32)
    for cell, value in cells.items():
        table[cell] = value
    return table


def message_of(cells: Cells) -> bytes:
    """Return the bytes of a table: 120 integers row by row, high byte first."""
    numbers = [cells.get((row, column), 0) for row in range(8) for column in range(15)]
    return struct.pack(">120i", *numbers)


def cells_of(table: tables.Table) -> Cells:
    """Return the cells of a table that are not 0."""
    return {(r, c): int(table[r, c]) for r in range(8) for c in range(15) if table[r, c]}


def hand_cells(names: str) -> Cells:
    """Return the cells of a hand."""
    cells: Cells = {}
    for name in names.split():
        cell = (4, 1) if name == "JO" else ("SHDC".index(name[0]), "-3456789TJQKA2".index(name[1]))
        cells[cell] = 2 if name == "JO" else 1
    return cells


def test_a_profile_has_the_version_and_the_name() -> None:
    expected = "00004e66" + "00000000" * 14 + "00000061" + "00000062" + "00000000" * 103
    assert tables.to_bytes(tables.profile_table("ab")).hex() == expected


def test_an_integer_is_four_bytes_high_byte_first() -> None:
    assert tables.int_to_bytes(0x102) == bytes([0, 0, 1, 2])
    assert tables.int_from_bytes(bytes([255, 255, 255, 254])) == -2


def test_a_negative_cell_is_sent_as_0() -> None:
    assert tables.to_bytes(table_of({(5, 1): -2, (0, 1): 1})) == message_of({(0, 1): 1})


def test_bytes_make_a_round_trip() -> None:
    table = np.arange(120, dtype=np.int32).reshape(8, 15) * 17_000_000
    assert np.array_equal(tables.from_bytes(tables.to_bytes(table)), table)
    both = np.array([table, table // 2])
    assert tables.messages(both) == [tables.to_bytes(table), tables.to_bytes(table // 2)]


@pytest.mark.parametrize(
    ("sent", "name"),
    [("ab", "ab"), ("", ""), ("abcdefghijklmnopqr", "abcdefghi"), ("é\n猫x", "???x")],
)
def test_names_are_shortened_and_cleaned(sent: str, name: str) -> None:
    assert tables.read_profile(tables.profile_table(sent)) == (20070, name)


def test_a_profile_of_another_version_and_an_unprintable_name() -> None:
    table = table_of({(0, 0): 20060, (1, 0): 7, (1, 1): 65, (1, 2): -3, (1, 3): 1 << 30})
    assert tables.read_profile(table) == (20060, "?A??")


def test_a_gift_with_the_joker() -> None:
    message = message_of({(0, 1): 1, (4, 1): 2})
    assert tables.to_bytes(tables.gift_table(cards.parse("S3 JO"))) == message
    assert tables.read_gift(tables.from_bytes(message)) == cards.parse("S3 JO")


def test_gifts_make_a_round_trip() -> None:
    chance = random.Random(1)
    for _ in range(300):
        hand = chance.getrandbits(53)
        assert tables.read_gift(tables.gift_table(hand)) == hand
        assert cells_of(tables.gift_table(hand)) == hand_cells(cards.text(hand))
    with pytest.raises(ValueError, match="53 bits"):
        tables.gift_table(1 << 53)


@pytest.mark.parametrize(
    "cells",
    [
        {(0, 0): 1},
        {(0, 14): 1},
        {(0, 1): 2},
        {(0, 1): -1},
        {(4, 1): 1},
        {(4, 2): 2},
        {(0, 1): 1, (2, 3): 9},
    ],
)
def test_a_gift_with_a_wrong_cell_is_empty(cells: Cells) -> None:
    assert tables.read_gift(table_of(cells)) == 0


def test_rows_5_to_7_of_a_client_are_not_read() -> None:
    noise = {(row, column): 3 for row in (5, 6, 7) for column in range(15)}
    assert tables.read_gift(table_of(noise | {(3, 13): 1})) == cards.parse("C2")
    assert tables.read_submission(table_of(noise | {(3, 13): 1})).text == "C2"


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ({}, "pass"),
        ({(2, 1): 1}, "D3"),
        ({(0, 6): 1, (1, 6): 2}, "S8 JO=H8"),
        ({(0, 5): 1, (1, 5): 1, (2, 5): 1, (3, 5): 1, (4, 5): 2}, "S7 H7 D7 C7 JO=X7"),
        ({(0, 0): 2, (0, 1): 1, (0, 2): 1}, "JO=S- S3 S4"),
        ({(3, 12): 1, (3, 13): 1, (3, 14): 2}, "CA C2 JO=C+"),
        ({(1, 9): 1, (1, 10): 2, (1, 11): 1}, "HJ JO=HQ HK"),
    ],
)
def test_submissions_are_read_from_their_bytes(cells: Cells, text: str) -> None:
    message = message_of(cells)
    assert tables.read_submission(tables.from_bytes(message)) == (plays.parse(text), text, None)
    assert tables.to_bytes(tables.play_table(plays.parse(text))) == message


def test_all_plays_make_a_round_trip() -> None:
    for play in range(plays.N_PLAYS):
        read = tables.read_submission(tables.from_bytes(tables.to_bytes(tables.play_table(play))))
        assert read[:2] == (play, plays.text(play))


def test_a_lone_joker_may_be_in_any_cell_of_rows_0_to_3() -> None:
    for row in range(4):
        for column in range(15):
            message = message_of({(row, column): 2})
            read = tables.read_submission(tables.from_bytes(message))
            assert read == (plays.LONE_JOKER, "JO", (row, column))
            table = tables.play_table(plays.LONE_JOKER, (row, column))
            assert tables.to_bytes(table) == message


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ({(4, 7): 2}, "JO=X9"),
        ({(0, 0): 1}, "?0,0=1"),
        ({(4, 1): 1, (0, 3): 7}, "?4,1=1 ?0,3=7"),
        ({(0, 1): 1, (1, 1): -1, (3, 2): 1}, "S3 ?1,1=-1 C4"),
        ({(0, 1): 1, (0, 2): 1}, "S3 S4"),
        ({(0, 1): 2, (1, 14): 2}, "JO=S3 JO=H+"),
        ({(0, 5): 1, (4, 5): 2}, "S7 JO=X7"),
    ],
)
def test_malformed_plays_are_written_cell_by_cell(cells: Cells, text: str) -> None:
    assert tables.read_submission(table_of(cells)) == (ILLEGAL, text, None)


def test_the_text_of_a_submission_is_replayed_as_the_same_play() -> None:
    chance = random.Random(2)
    for _ in range(1_000):
        n = chance.choice((1, 1, 2, 3, 75))
        table = table_of(
            {
                (chance.randrange(5), chance.randrange(15)): chance.choice((1, 1, 2, 3, -5))
                for _ in range(n)
            }
        )
        read = tables.read_submission(table)
        assert replay.parse_submission(read.text) == read.play


def test_a_wrong_play_number_is_an_error() -> None:
    for play in (-1, plays.N_PLAYS):
        with pytest.raises(ValueError, match="play"):
            tables.play_table(play)


SEATS = [2, 4, 1, 0, 3]
DEAL = [
    "D3 C5 C6 S7 C7 S8 C8 HJ HK HA H2",
    "S3 JO H5 D7 H9 HT DT SQ DQ C2",
    "H3 S4 D5 S9 CT SJ HQ SK CA S2",
    "C3 H4 D4 S5 D6 H8 D8 D9 C9 CQ DA",
    "C4 S6 H6 H7 ST DJ CJ DK CK SA D2",
]
CLASSES = [0, 4, 1, 2, 3]
SEAT_CELLS = {(6, 10): 2, (6, 11): 4, (6, 12): 1, (6, 14): 3}
CLASS_CELLS = {(6, 6): 4, (6, 7): 1, (6, 8): 2, (6, 9): 3}


def dealt(classes: list[int] | None) -> Game:
    """Return the game of `DEAL`; player 0 is daifugo, 1 daihinmin, 2 fugo, 4 hinmin."""
    entry: dict[str, Any] = {
        "game": 2,
        "seats": SEATS,
        "class_reset": classes is None,
        "classes": classes,
        "deal": DEAL,
    }
    return replay.dealt(entry)


def counts(*left: int) -> Cells:
    """Return the cells of the numbers of cards."""
    return {(6, player): n for player, n in enumerate(left)}


def test_start_tables_without_classes() -> None:
    for player, table in enumerate(tables.start_tables(dealt(None))):
        public = {(5, 0): 1, (5, 3): 6} | counts(11, 10, 10, 11, 11) | SEAT_CELLS
        assert tables.to_bytes(table) == message_of(hand_cells(DEAL[player]) | public)


def test_start_tables_of_an_exchange() -> None:
    # The daihinmin gives JO C2, the hinmin D2; their tables still show these cards.
    hands = [DEAL[0] + " JO C2", DEAL[1], DEAL[2] + " D2", DEAL[3], DEAL[4]]
    to_give: list[Cells] = [{(5, 1): 2}, {}, {(5, 1): 1}, {}, {}]
    for player, table in enumerate(tables.start_tables(dealt(CLASSES))):
        public = {(5, 0): 1, (5, 3): 6} | counts(11, 10, 10, 11, 11) | SEAT_CELLS | CLASS_CELLS
        expected = hand_cells(hands[player]) | public | to_give[player]
        assert cells_of(table) == expected


def test_turn_tables_show_the_hands_after_the_exchange() -> None:
    game = dealt(CLASSES)
    give(game, cards.parse("D3 HK"))
    give(game, cards.parse("H3"))
    hands = [
        "C5 C6 S7 C7 S8 C8 HJ HA H2 JO C2",
        "S3 H5 D7 H9 HT DT SQ DQ D3 HK",
        "S4 D5 S9 CT SJ HQ SK CA S2 D2",
        DEAL[3],
        "C4 S6 H6 H7 ST DJ CJ DK CK SA H3",
    ]
    for player, table in enumerate(tables.turn_tables(game)):
        public = {(5, 3): 1, (5, 4): 1} | counts(11, 10, 10, 11, 11) | SEAT_CELLS | CLASS_CELLS
        mine = {(5, 2): 1} if player == 1 else {}
        assert cells_of(table) == hand_cells(hands[player]) | public | mine


def test_a_field_table_has_the_expected_bytes() -> None:
    game = dealt(None)
    lay(game, plays.parse("C6 C7 C8"))
    state = tables.state_of(game)._replace(player=0, lock=True, revolution=True)
    message = tables.to_bytes(tables.field_table(state, int(game["field"])))
    flags = {(5, 6): 1, (5, 7): 1}
    on_field = {(3, 4): 1, (3, 5): 1, (3, 6): 1}
    assert message == message_of(on_field | flags | counts(8, 10, 10, 11, 11) | SEAT_CELLS)


def test_a_field_table_shows_the_cell_of_a_lone_joker() -> None:
    state = tables.state_of(dealt(None))
    table = tables.field_table(state, plays.LONE_JOKER, (2, 5))
    assert table[2, 5] == 2
    assert np.count_nonzero(table[:5]) == 1


def test_states_make_a_round_trip() -> None:
    match = new_match(3)
    out = np.empty(plays.N_PLAYS, np.int64)
    for _ in range(5):
        next_game(match)
        while match["to_give"]:
            for table in tables.start_tables(match):
                assert tables.read_state(table).is_start
            give(match, np.uint64(0))
        state = tables.state_of(match)
        for player, table in enumerate(tables.turn_tables(match)):
            assert tables.read_state(table) == state._replace(is_mine=player == match["turn"])
            assert tables.read_hand(table) == match["hands"][player]
        play_out(match, out)


@pytest.mark.parametrize(
    "cells",
    [{(5, 3): 5}, {(5, 3): -1}, {(5, 1): 3}, {(6, 0): 54}, {(6, 10): 4}, {(6, 0): -1}],
)
def test_impossible_rows_are_refused(cells: Cells) -> None:
    table = tables.turn_tables(_after_exchange())[0]
    tables.read_state(table)
    for cell, value in cells.items():
        table[cell] = value
    with pytest.raises(tables.ProtocolError, match="rows 5 and 6"):
        tables.read_state(table)


def _after_exchange() -> Game:
    """Return the game of `DEAL` at its first turn."""
    game = dealt(CLASSES)
    give(game, np.uint64(0))
    give(game, np.uint64(0))
    return game

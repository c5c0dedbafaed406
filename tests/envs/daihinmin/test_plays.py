"""The table of plays and the search for legal ones, against shapes and hands of names."""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match
from afterstate.envs.daihinmin.rules import is_legal, list_legal
from tests.oracles import daihinmin as oracle

KINDS = {
    "pass": plays.NO_PLAY,
    "single": plays.SINGLE,
    "group": plays.GROUP,
    "sequence": plays.SEQUENCE,
    "joker single": plays.JOKER_SINGLE,
}
CARD_BITS = {name: 1 << i for i, name in enumerate(oracle.PACK)}
TEXTS = [plays.text(play) for play in range(plays.N_PLAYS)]
NUMBERS = {text: play for play, text in enumerate(TEXTS)}


def shape(text: str) -> oracle.Shape:
    """The oracle's analysis of a play."""
    analyzed = oracle.analyze(text)
    assert analyzed is not None, text
    return analyzed


def word(names: set[str]) -> int:
    """A hand as a card set."""
    return sum(CARD_BITS[name] for name in names)


def test_the_table_has_every_play_of_the_pack_once() -> None:
    assert plays.N_PLAYS == 2_422 == 1 + 53 + 520 + 252 + 1_596
    assert TEXTS[plays.PASS] == "pass"
    assert sorted(TEXTS[1:]) == sorted(oracle.plays_of(set(oracle.PACK)))
    assert len(set(TEXTS)) == plays.N_PLAYS


@pytest.mark.parametrize(
    ("first", "last", "kinds", "joker"),
    [
        (0, 0, {"pass"}, {False}),
        (1, 52, {"single"}, {False}),
        (53, 53, {"joker single"}, {True}),
        (54, 573, {"group"}, {False, True}),
        (574, 825, {"sequence"}, {False}),
        (826, 2_421, {"sequence"}, {True}),
    ],
)
def test_plays_are_numbered_by_kind(
    first: int, last: int, kinds: set[str], joker: set[bool]
) -> None:
    shapes = [shape(text) for text in TEXTS[first : last + 1]]
    assert {s.kind for s in shapes} == kinds
    assert {"JO" in s.cards for s in shapes} == joker


def test_a_rank_has_11_groups_without_and_29_with_the_joker() -> None:
    for column in range(1, 14):
        first = 54 + 40 * (column - 1)
        shapes = [shape(text) for text in TEXTS[first : first + 40]]
        assert {s.low for s in shapes} == {column}
        assert ["JO" in s.cards for s in shapes] == [False] * 11 + [True] * 29
        assert Counter(s.size for s in shapes) == {2: 6 + 12, 3: 4 + 12, 4: 1 + 4, 5: 1}


def test_sequences_are_numbered_by_size_and_those_with_the_joker_by_its_place() -> None:
    def place(play: int) -> int:
        names = TEXTS[play].split()
        return next(i for i, name in enumerate(names) if name.startswith("JO="))

    plain = [(shape(t).size, shape(t).low, shape(t).suits) for t in TEXTS[574:826]]
    assert plain == sorted(plain, key=lambda p: (p[0], p[1], "SHDC".index(p[2])))
    with_joker = [
        (s.size, place(play), s.low, "SHDC".index(s.suits))
        for play in range(826, 2_422)
        for s in [shape(TEXTS[play])]
    ]
    assert with_joker == sorted(with_joker)
    assert {size for size, *_ in plain} == {size for size, *_ in with_joker} == set(range(3, 12))


def test_the_rows_of_the_table_are_those_of_the_oracle() -> None:
    for play, text in enumerate(TEXTS):
        s = shape(text)
        assert plays.KIND[play] == KINDS[s.kind], text
        assert plays.SIZE[play] == s.size, text
        assert plays.CARDS[play] == word(set(s.cards)), text
        large = s.size >= {"group": 4, "sequence": 5}.get(s.kind, 99)
        assert plays.REVOLVES[play] == large, text
        if s.kind != "joker single":  # it lies anywhere
            assert plays.ROWS[play] == sum(1 << "SHDCX".index(suit) for suit in s.suits), text
            assert (plays.LOW[play], plays.HIGH[play]) == (s.low, s.high), text
            assert plays.CUTS_AS_8[play] == (s.low <= 6 <= s.high), text
    assert not plays.CUTS_AS_8[plays.LONE_JOKER]


def test_the_cells_of_a_play_are_those_that_its_text_names() -> None:
    for play, text in enumerate(TEXTS):
        if play in (plays.PASS, plays.LONE_JOKER):
            continue
        naturals, joker = plays.cells(play)
        names = {
            ("JO=" if cell == joker else "") + "SHDCX"[cell[0]] + oracle.COLUMNS[cell[1]]
            for cell in [*naturals, *([joker] if joker else [])]
        }
        assert names == set(text.split())
        assert plays.JOKER_CELL[play] == (15 * joker[0] + joker[1] if joker else -1)
    assert plays.cells(plays.PASS) == ([], None)
    assert plays.JOKER_CELL[plays.PASS] == -1
    naturals, joker = plays.cells(plays.LONE_JOKER)
    assert naturals == [] and joker is not None and joker[0] < 4


def test_cells_returns_a_list_of_its_own() -> None:
    plays.cells(54)[0].clear()
    assert plays.cells(54) == ([(0, 1), (1, 1)], None)


def test_the_fifth_card_of_a_rank_is_the_joker_in_row_4() -> None:
    play = plays.parse("S8 H8 D8 C8 JO=X8")
    assert plays.cells(play)[1] == (4, 6)
    assert plays.ROWS[play] == 31
    assert plays.SIZE[play] == 5


def test_single_is_the_play_of_one_card() -> None:
    for card, name in enumerate(oracle.PACK):
        assert TEXTS[plays.single(card)] == name


def test_every_play_is_read_back_from_its_text_in_any_order() -> None:
    rng = random.Random(1)
    for play, text in enumerate(TEXTS):
        names = text.split()
        assert plays.parse(text) == play
        rng.shuffle(names)
        assert plays.parse("  ".join(names)) == play


def test_names_of_a_text_go_by_column_then_suit() -> None:
    def place(name: str) -> tuple[int, int]:
        cell = name.removeprefix("JO=")
        return oracle.COLUMNS.index(cell[1]), "SHDCX".index(cell[0])

    for text in TEXTS[1:]:
        names = text.split()
        if names != ["JO"]:
            assert names == sorted(names, key=place)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PASS",
        "pass pass",
        "pass S3",
        "S1",
        "S3 S3",
        "S3 S4",  # two of a suit are no sequence
        "S3 S4 S6",
        "S3 S4 H5",
        "S3 H4",
        "JO JO",
        "JO S3",  # where does it stand?
        "JO=S3",  # a lone joker stands for nothing
        "S3 JO=S3",
        "S3 JO=H4",
        "S3 JO=X3",  # the fifth card needs four others
        "S3 H3 D3 JO=X3",
        "S3 H3 D3 C3 JO=S3",
        "S- S3 S4",
        "S3 JO=S4",
        "JO=S- JO=S4 S3",
        "JO=S- S4 S5",
        "SK SA JO=S+",
        "S2 JO=S+",
        "JO=S- S3",
        "JO=H- S3 S4",
        "SA S2 JO=S+ S3",
        "S3 S4 S5 S6 S7 S8 S9 ST SJ SQ SK SA",  # more cards than a hand has
        "?0,0=1",
    ],
)
def test_a_text_that_is_not_a_play_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="play"):
        plays.parse(text)


def test_random_texts_are_plays_exactly_where_the_oracle_finds_a_shape() -> None:
    """Cells drawn near to each other, so that most kinds of wrong shapes occur."""
    rng = random.Random(2)
    found: Counter[str] = Counter()
    for _ in range(40_000):
        first = rng.randrange(12)
        columns = oracle.COLUMNS[first : first + rng.randint(1, 4)]
        suits = rng.sample("SHDCX", rng.choice([1, 1, 2, 4, 5]))
        names = [suit + column for suit in suits for column in columns]
        names = rng.sample(names, rng.randint(1, min(len(names), 5)))
        for i in range(len(names)):
            if rng.random() < (1.0 if names[i][0] == "X" else 0.15):
                names[i] = "JO=" + names[i]
        text = " ".join(names)
        s = oracle.analyze(text)
        found[s.kind if s else "malformed"] += 1
        if s is None:
            with pytest.raises(ValueError, match="play"):
                plays.parse(text)
        else:
            play = plays.parse(text)
            assert set(TEXTS[play].split()) == set(names)
    assert min(found[kind] for kind in ("single", "group", "sequence", "malformed")) > 1_000, found


class Position(NamedTuple):
    """The facts that decide which plays are legal."""

    hand: set[str]
    field: str
    revolution: bool
    lock: bool


def field_plays() -> dict[tuple[str, int, str], list[str]]:
    """The plays that may lie on the field, by kind and size; sequences also by suit."""
    listed: dict[tuple[str, int, str], list[str]] = {}
    for text in TEXTS[1:]:
        s = shape(text)
        suit = s.suits if s.kind == "sequence" else ""
        listed.setdefault((s.kind, s.size, suit), []).append(text)
    return listed


FIELD_PLAYS = field_plays()
FIELDS = [("single", 1)] * 4 + [("group", 2)] * 4 + [("group", 3)] * 2 + [("group", 4)]
FIELDS += [("sequence", 3)] * 4 + [("sequence", 4)] * 2 + [("sequence", 5), ("sequence", 6)]
FIELDS += [("group", 5), ("sequence", 7)]


def random_hand(rng: random.Random) -> set[str]:
    """1 to 11 cards, the joker in half of them: of all cards, of a few ranks, or of a few suits."""
    n = rng.randint(1, 11)
    scheme = rng.randrange(3)
    if scheme == 0:
        pool = oracle.NATURALS
    elif scheme == 1:
        first = rng.randrange(11)
        pool = oracle.NATURALS[4 * first : 4 * first + 4 * rng.randint(1, 5)]
    else:
        suits = rng.sample("SHDC", rng.randint(1, 2))
        pool = [card for card in oracle.NATURALS if card[0] in suits]
    names = rng.sample(pool, min(n, len(pool)))
    if rng.random() < 0.5:
        names[-1] = "JO"
    return set(names)


def random_field(rng: random.Random, hand: set[str]) -> str:
    """Nothing, a lone joker, or a play of other cards; sequences of a suit that the hand has."""
    chance = rng.random()
    if chance < 0.15:
        return "pass"
    if chance < 0.22 and "JO" not in hand:
        return "JO"
    suits = [name[0] for name in sorted(hand) if name != "JO"] or ["S"]
    for _ in range(20):
        kind, size = rng.choice(FIELDS)
        suit = rng.choice(suits) if kind == "sequence" else ""
        text = rng.choice(FIELD_PLAYS[kind, size, suit])
        if not shape(text).cards & hand:
            return text
    return "pass"


def random_position(rng: random.Random) -> Position:
    """A hand and what may lie before it; suits can be locked where it is neither empty nor JO."""
    hand = random_hand(rng)
    field = random_field(rng, hand)
    lock = field not in ("pass", "JO") and rng.random() < 0.4
    return Position(hand, field, rng.random() < 0.5, lock)


@pytest.mark.parametrize("n", [20_000, pytest.param(1_000_000, marks=pytest.mark.exhaustive)])
def test_legal_plays_of_random_positions_equal_the_oracle(n: int) -> None:
    rng = random.Random(n)
    out = np.empty(plays.N_PLAYS, np.int64)
    seen: Counter[tuple[str, str, bool, bool]] = Counter()
    for _ in range(n):
        position = random_position(rng)
        hand, field, revolution, lock = position
        expected = oracle.legal(*position)
        found = plays.legal_plays(word(hand), NUMBERS[field], revolution, lock, True, out)
        assert sorted(TEXTS[play] for play in out[:found]) == sorted(expected), position
        s, kinds = shape(field), {shape(text).kind for text in expected}
        seen.update((s.kind, kind, lock, revolution) for kind in kinds or {"none"})
    # Every kind of play on every kind of field, with and without lock and revolution
    for lock in (False, True):
        for revolution in (False, True):
            for kind in ("single", "group", "sequence"):
                assert seen[kind, kind, lock, revolution] > n / 1_000, seen
                assert seen[kind, "none", lock, revolution] > n / 500, seen
            assert seen["single", "joker single", lock, revolution] > n / 500, seen
    for revolution in (False, True):
        assert seen["joker single", "single", False, revolution] > n / 2_000, seen
        assert seen["joker single", "none", False, revolution] > n / 500, seen
        for kind in ("single", "group", "sequence", "joker single"):
            assert seen["pass", kind, False, revolution] > n / 200, seen


@pytest.mark.parametrize("n", [100, pytest.param(2_000, marks=pytest.mark.exhaustive)])
def test_every_play_of_the_table_is_legal_exactly_where_the_oracle_says(n: int) -> None:
    rng = random.Random(n)
    game = new_match()
    game["turn"] = 2
    for _ in range(n):
        position = random_position(rng)
        hand, field, revolution, lock = position
        game["hands"][2], game["field"] = word(hand), NUMBERS[field]
        game["revolution"], game["lock"] = revolution, lock
        for play, text in enumerate(TEXTS):
            legal = play == plays.PASS or oracle.is_legal(text, *position)
            assert is_legal(game, play) == legal, (position, text)
            if play != plays.PASS:
                follows = plays.follows(play, NUMBERS[field], revolution, lock)
                assert follows == oracle.may_follow(text, field, revolution, lock), (position, text)


def test_the_oracle_lists_what_it_finds_legal_one_by_one() -> None:
    """Its list is built from the hand, its judgement from the cells of a submission."""
    rng = random.Random(5)
    for _ in range(200):
        position = random_position(rng)
        one_by_one = [text for text in TEXTS if oracle.is_legal(text, *position)]
        assert sorted(oracle.legal(*position)) == sorted(one_by_one), position


def test_without_sequences_they_are_neither_listed_nor_legal() -> None:
    rng = random.Random(6)
    game = new_match()
    game["turn"], game["sequences"] = 0, 0
    out = np.empty(plays.N_PLAYS, np.int64)
    for _ in range(2_000):
        position = random_position(rng)
        hand, field, revolution, lock = position
        if shape(field).kind == "sequence":
            continue
        expected = oracle.legal(*position, sequences=False)
        found = plays.legal_plays(word(hand), NUMBERS[field], revolution, lock, False, out)
        assert sorted(TEXTS[play] for play in out[:found]) == sorted(expected), position
        game["hands"][0], game["field"] = word(hand), NUMBERS[field]
        game["revolution"], game["lock"] = revolution, lock
        assert sorted([TEXTS[play] for play in out[: list_legal(game, out)]]) == sorted(expected)
        for text in oracle.plays_of(hand):
            assert is_legal(game, NUMBERS[text]) == (text in expected), (position, text)


def test_leads_of_a_long_sequence_and_of_five_of_a_rank_are_as_many_as_counted_by_hand() -> None:
    out = np.empty(plays.N_PLAYS, np.int64)
    hand = cards.parse("S3 S4 S5 S6 S7 S8 S9 ST SJ SQ SK")
    singles, sequences = 11, 9 + 8 + 7 + 6 + 5 + 4 + 3 + 2 + 1
    assert plays.legal_plays(hand, plays.PASS, False, False, True, out) == singles + sequences
    for rank in oracle.RANKS:
        hand = cards.parse(f"S{rank} H{rank} D{rank} C{rank} JO")
        assert plays.legal_plays(hand, plays.PASS, False, False, True, out) == 5 + 40

"""The table of plays and the search for legal plays equal a slow version on names of cards."""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match
from afterstate.envs.daihinmin.rules import is_legal, write_legal
from tests.oracles import daihinmin as oracle
from tests.support.daihinmin.hands import NUMBERS, TEXTS, word

KINDS = {
    "pass": plays.NO_PLAY,
    "single": plays.SINGLE,
    "group": plays.GROUP,
    "sequence": plays.SEQUENCE,
    "joker single": plays.JOKER_SINGLE,
}


def shape(text: str) -> oracle.Shape:
    """Return the oracle's analysis of a play."""
    analyzed = oracle.analyze(text)
    assert analyzed is not None, text
    return analyzed


def test_the_table_has_every_play_of_the_pack_once() -> None:
    assert plays.N_PLAYS == 2_422 == 1 + 53 + 520 + 252 + 1_596
    assert TEXTS[plays.PASS] == "pass"
    assert sorted(TEXTS[1:]) == sorted(oracle.plays_of(set(oracle.PACK)))
    assert len(set(TEXTS)) == plays.N_PLAYS
    assert [TEXTS[plays.single(card)] for card in range(cards.N_CARDS)] == oracle.PACK


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


def test_a_rank_has_11_groups_without_the_joker_and_29_with_it() -> None:
    for column in range(1, 14):
        first = 54 + 40 * (column - 1)
        shapes = [shape(text) for text in TEXTS[first : first + 40]]
        assert {s.low for s in shapes} == {column}
        assert ["JO" in s.cards for s in shapes] == [False] * 11 + [True] * 29
        assert Counter(s.size for s in shapes) == {2: 6 + 12, 3: 4 + 12, 4: 1 + 4, 5: 1}


def test_sequences_are_numbered_by_size_and_the_place_of_the_joker() -> None:
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


def test_the_table_equals_the_oracle() -> None:
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


def test_the_cells_of_a_play_are_those_of_its_text() -> None:
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
    plays.cells(54)[0].clear()  # a new list
    assert plays.cells(54) == ([(0, 1), (1, 1)], None)
    assert plays.cells(plays.PASS) == ([], None)
    assert plays.JOKER_CELL[plays.PASS] == -1
    naturals, joker = plays.cells(plays.LONE_JOKER)
    assert naturals == [] and joker is not None and joker[0] < 4


def test_a_joker_added_to_four_of_a_rank_is_in_row_4() -> None:
    play = plays.parse("S8 H8 D8 C8 JO=X8")
    assert plays.cells(play)[1] == (4, 6)
    assert plays.ROWS[play] == 31
    assert plays.SIZE[play] == 5


def test_every_play_is_parsed_from_its_text_in_any_order() -> None:
    rng = random.Random(1)
    for play, text in enumerate(TEXTS):
        names = text.split()
        assert plays.parse(text) == play
        rng.shuffle(names)
        assert plays.parse("  ".join(names)) == play


def test_texts_are_sorted_by_column_then_suit() -> None:
    def place(name: str) -> tuple[int, int]:
        cell = name.removeprefix("JO=")
        return oracle.COLUMNS.index(cell[1]), "SHDCX".index(cell[0])

    for text in TEXTS[1:]:
        names = text.split()
        if names != ["JO"]:
            assert names == sorted(names, key=place)


NOT_PLAYS = [
    *("", "PASS", "pass pass", "pass S3", "S1", "S3 S3", "?0,0=1"),
    *("S3 S4", "S3 S4 S6", "S3 S4 H5", "S3 H4"),  # neither groups nor sequences
    *("JO JO", "JO S3", "JO=S3", "S3 JO=S3", "S3 JO=H4", "S3 JO=S4"),
    *("S3 JO=X3", "S3 H3 D3 JO=X3", "S3 H3 D3 C3 JO=S3"),  # row X needs four natural cards
    *("S- S3 S4", "JO=S- JO=S4 S3", "JO=S- S4 S5", "JO=S- S3", "JO=H- S3 S4"),
    *("SK SA JO=S+", "S2 JO=S+", "SA S2 JO=S+ S3"),
    "S3 S4 S5 S6 S7 S8 S9 ST SJ SQ SK SA",  # more cards than a hand has
]


@pytest.mark.parametrize("text", NOT_PLAYS)
def test_a_text_that_is_not_a_play_raises_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="play"):
        plays.parse(text)


@pytest.mark.slow
def test_random_texts_are_parsed_like_the_oracle() -> None:
    """The cells are close to each other, so that most kinds of malformed plays occur."""
    rng = random.Random(2)
    kinds: Counter[str] = Counter()
    for _ in range(20_000):
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
        kinds[s.kind if s else "malformed"] += 1
        if s is None:
            with pytest.raises(ValueError, match="play"):
                plays.parse(text)
        else:
            play = plays.parse(text)
            assert set(TEXTS[play].split()) == set(names)
    assert min(kinds[kind] for kind in ("single", "group", "sequence", "malformed")) > 500, kinds


class Position(NamedTuple):
    """The facts that decide which plays are legal."""

    hand: set[str]
    field: str
    revolution: bool
    lock: bool


def field_plays() -> dict[tuple[str, int, str], list[str]]:
    """Return the plays that may be on the field, by kind and size; sequences also by suit."""
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
    """Return 1 to 11 cards of all cards, of a few ranks or of a few suits; half with the joker."""
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
    """Return the pass, a lone joker, or a play of other cards; sequences of a suit of the hand."""
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
    """Return a hand and a field; suits may be locked unless the field is empty or a joker."""
    hand = random_hand(rng)
    field = random_field(rng, hand)
    lock = field not in ("pass", "JO") and rng.random() < 0.4
    return Position(hand, field, rng.random() < 0.5, lock)


@pytest.mark.parametrize("n", [10_000, pytest.param(1_000_000, marks=pytest.mark.exhaustive)])
def test_legal_plays_of_random_positions_equal_the_oracle(n: int) -> None:
    rng = random.Random(n)
    out = np.empty(plays.N_PLAYS, np.int64)
    seen: Counter[tuple[str, str, bool, bool]] = Counter()
    for _ in range(n):
        position = random_position(rng)
        hand, field, revolution, lock = position
        expected = oracle.legal(*position)
        n_legal = plays.write_plays(word(hand), NUMBERS[field], revolution, lock, True, out)
        assert sorted(TEXTS[play] for play in out[:n_legal]) == sorted(expected), position
        s, kinds = shape(field), {shape(text).kind for text in expected}
        seen.update((s.kind, kind, lock, revolution) for kind in kinds or {"none"})
    # every kind of play occurs on every kind of field, with and without lock and revolution
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


@pytest.mark.parametrize("n", [50, pytest.param(2_000, marks=pytest.mark.exhaustive)])
def test_legality_of_every_play_equals_the_oracle(n: int) -> None:
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


def test_both_forms_of_the_oracle_agree() -> None:
    """One lists the legal plays of a hand, the other tests the cells of a submission."""
    rng = random.Random(5)
    for _ in range(50):
        position = random_position(rng)
        one_by_one = [text for text in TEXTS if oracle.is_legal(text, *position)]
        assert sorted(oracle.legal(*position)) == sorted(one_by_one), position


def test_sequences_are_illegal_if_the_rules_have_none() -> None:
    rng = random.Random(6)
    game = new_match()
    game["turn"], game["sequences"] = 0, 0
    out = np.empty(plays.N_PLAYS, np.int64)
    for _ in range(1_000):
        position = random_position(rng)
        hand, field, revolution, lock = position
        if shape(field).kind == "sequence":
            continue
        expected = oracle.legal(*position, sequences=False)
        n_legal = plays.write_plays(word(hand), NUMBERS[field], revolution, lock, False, out)
        assert sorted(TEXTS[play] for play in out[:n_legal]) == sorted(expected), position
        game["hands"][0], game["field"] = word(hand), NUMBERS[field]
        game["revolution"], game["lock"] = revolution, lock
        assert sorted([TEXTS[play] for play in out[: write_legal(game, out)]]) == sorted(expected)
        for text in oracle.plays_of(hand):
            assert is_legal(game, NUMBERS[text]) == (text in expected), (position, text)


def test_numbers_of_leads_equal_counts_by_hand() -> None:
    out = np.empty(plays.N_PLAYS, np.int64)
    hand = cards.parse("S3 S4 S5 S6 S7 S8 S9 ST SJ SQ SK")
    singles, sequences = 11, 9 + 8 + 7 + 6 + 5 + 4 + 3 + 2 + 1
    assert plays.write_plays(hand, plays.PASS, False, False, True, out) == singles + sequences
    for rank in oracle.RANKS:
        hand = cards.parse(f"S{rank} H{rank} D{rank} C{rank} JO")
        assert plays.write_plays(hand, plays.PASS, False, False, True, out) == 5 + 40

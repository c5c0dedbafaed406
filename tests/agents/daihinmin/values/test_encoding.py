"""Afterstates as planes and units, against a drawing with lists; and in other suits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations

import numpy as np
import pytest

from afterstate.agents.daihinmin.afterstates.chains import AFTERSTATE, Afterstates, afterstates
from afterstate.agents.daihinmin.afterstates.symmetry import N_SYMMETRIES, permuted
from afterstate.agents.daihinmin.values.encoding import N_PLANES, N_UNITS, planes, units
from afterstate.envs.daihinmin import cards
from afterstate.envs.daihinmin import plays as plays_
from afterstate.envs.daihinmin.rules import Rules
from afterstate.envs.daihinmin.views import view
from tests.oracles import chains as chains_oracle
from tests.oracles.chains import position
from tests.oracles.encoding import planes_of, units_of

SECTIONS = {
    "constants": (0, 13),
    "hand": (13, 5),
    "unseen": (18, 5),
    "strength": (23, 1),
    "sequence": (24, 5),
    "lock": (29, 1),
    "revolution": (30, 1),
    "group": (31, 5),
    "field": (36, 5),
    "played": (41, 25),
    "left": (66, 60),
    "out": (126, 5),
    "known": (131, 20),
}


def some_afterstates(seed: int, n: int) -> Iterator[Afterstates]:
    """Yield afterstates of games and endings, on all kinds of fields."""
    rng = random.Random(seed)
    for game in chains_oracle.in_games(seed, n, 11):
        yield afterstates(view(game, int(game["turn"])))[::5].copy()
    for _ in range(20 * n):
        rules = Rules(eight_cuts=rng.random() < 0.5)
        game = chains_oracle.ending(rng, rng.randint(2, 5), 11 if rng.random() < 0.2 else 5, rules)
        yield afterstates(view(game, int(game["turn"])))[:10]


def on_fields() -> Afterstates:
    """Return one position with every play on the field, each in both orders of ranks."""
    out = np.zeros(2 * plays_.N_PLAYS, AFTERSTATE)
    out["left"] = [3, 11, 0, 2, 14]
    out["field"] = np.arange(len(out)) // 2
    out["revolution"] = np.arange(len(out)) % 2
    return out


def section(drawn: np.ndarray, name: str) -> np.ndarray:
    """Return some of the planes of one position."""
    first, n = SECTIONS[name]
    return drawn[first : first + n]


# Planes


def test_there_are_151_planes_of_15_columns() -> None:
    first, n = list(SECTIONS.values())[-1]
    assert first + n == N_PLANES == 151
    assert planes(on_fields()[:3]).shape == (3, 151, 15)
    assert planes(on_fields()[:3]).dtype == np.float32


def test_planes_of_random_positions_are_as_drawn_with_lists() -> None:
    n = 0
    for afters in some_afterstates(1, 4):
        for after, drawn in zip(afters, planes(afters), strict=True):
            assert drawn.tolist() == planes_of(chains_oracle.record_of(after))
            n += 1
    assert n > 300


def test_planes_of_every_field_in_both_orders_are_as_drawn_with_lists() -> None:
    afters = on_fields()
    drawn = planes(afters)
    for i in [*range(0, 110), *range(110, len(afters), 7)]:
        assert drawn[i].tolist() == planes_of(chains_oracle.record_of(afters[i]))


def test_the_planes_of_a_position_worked_out_by_hand() -> None:
    """Player 0 has laid the spade K on the locked spade J; seats 0 4 3 2 1."""
    game = position("SK HT C2 JO", "D4 DQ", "", "SA CK H3", "C9", field="SJ", last=4, passed="3")
    game["seats"] = [1, 0, 4, 3, 2]
    game["classes"] = [4, 1, 2, 3, 0]
    game["given"][0] = cards.parse("C9 CA")
    game["lock"] = 1
    result = afterstates(view(game, 0))
    drawn = planes(result[result["field"] == plays_.parse("SK")])[0]
    assert section(drawn, "constants")[:, 1:14].tolist() == np.eye(13).tolist()
    assert not section(drawn, "constants")[:, [0, 14]].any()
    hand = np.zeros((5, 15))
    hand[1, 8] = hand[3, 13] = 1  # HT, C2
    hand[4] = 1
    assert section(drawn, "hand").tolist() == hand.tolist()
    unseen = np.zeros((5, 15))
    unseen[2, [2, 10]] = unseen[0, 12] = unseen[3, [11, 7]] = unseen[1, 1] = 1
    assert section(drawn, "unseen").tolist() == unseen.tolist()
    assert section(drawn, "strength")[0].tolist() == [float(i == 11) for i in range(15)]
    assert not section(drawn, "sequence").any()
    assert section(drawn, "lock").all()
    assert not section(drawn, "revolution").any()
    assert section(drawn, "group").mean(1).tolist() == [1, 0, 0, 0, 0]
    assert np.argwhere(section(drawn, "field")).tolist() == [[0, 11]]
    played = section(drawn, "played").reshape(5, 5, 15)
    assert not played[:, 4].any()  # the joker
    assert (played[0, 0, 11], played[1, 0, 9]) == (
        1,
        1,
    )  # the K by the player itself, the J by the next
    assert played.sum() == 53 - 3 - 6  # all that is in no hand
    left = section(drawn, "left").reshape(5, 12, 15)
    assert left.all(2).argmax(1).tolist() == [3, 1, 3, 0, 2]
    assert left.sum() == 5 * 15
    assert section(drawn, "out").mean(1).tolist() == [0, 0, 1, 1, 0]
    known = np.zeros((20, 15))
    known[3, 7] = 1  # the C9 with the next in seat order; the CA has been played
    assert section(drawn, "known").tolist() == known.tolist()


def test_a_locked_single_shows_lock_and_strength() -> None:
    game = position("SQ HT C2", "D4 SA", field="SJ", last=1)
    game["lock"] = 1
    drawn = planes(afterstates(view(game, 0)))
    after = afterstates(view(game, 0))
    at = after["play"].tolist().index(plays_.parse("pass"))
    assert section(drawn[at], "lock").all()
    assert np.flatnonzero(section(drawn[at], "strength")).tolist() == [9]


def test_under_a_revolution_strength_still_grows_to_the_right() -> None:
    """Mirrored: 3 in column 13, 2 in column 1; the joker's places above and below change sides."""
    after = np.zeros(1, AFTERSTATE)
    after["revolution"], after["hand"] = 1, cards.parse("S3 H2 D8")
    after["field"] = plays_.parse("C9 CT CJ")
    drawn = planes(after)[0]
    assert np.argwhere(section(drawn, "hand")).tolist() == [[0, 13], [1, 1], [2, 8]]
    assert np.flatnonzero(section(drawn, "strength")).tolist() == [7]  # the 9, to be beaten
    assert np.argwhere(section(drawn, "field")).tolist() == [[3, 5], [3, 6], [3, 7]]
    assert section(drawn, "revolution").all()
    assert section(drawn, "sequence").all(1).tolist() == [True, False, False, False, False]
    after["field"] = plays_.parse("JO=S- S3 S4")
    assert np.flatnonzero(section(planes(after)[0], "strength")).tolist() == [14]


@pytest.mark.parametrize(
    ("field", "sequence", "group", "strength"),
    [
        ("pass", -1, -1, -1),
        ("S5", -1, 0, 3),
        ("JO", -1, 0, 14),
        ("S5 JO=H5", -1, 1, 3),
        ("S2 H2 D2 C2 JO=X2", -1, 4, 13),
        ("S3 S4 S5", 0, -1, 3),
        ("SA S2 JO=S+", 0, -1, 14),
        ("S3 S4 S5 S6 S7 S9 JO=S8", 4, -1, 7),
        ("S3 S4 S5 S6 S7 S8 S9 ST", 4, -1, 8),  # the last plane also for longer ones
        ("S3 S4 S5 S6 S7 S8 S9 ST SJ SQ SK", 4, -1, 11),
    ],
)
def test_a_field_shows_its_kind_its_size_and_its_strength(
    field: str, sequence: int, group: int, strength: int
) -> None:
    after = np.zeros(1, AFTERSTATE)
    after["field"] = plays_.parse(field)
    drawn = planes(after)[0]
    for name, at in [("sequence", sequence), ("group", group)]:
        assert section(drawn, name).mean(1).tolist() == [float(i == at) for i in range(5)]
    assert np.flatnonzero(section(drawn, "strength")).tolist() == [strength] * (strength >= 0)


def test_more_than_eleven_cards_are_shown_as_eleven() -> None:
    after = np.zeros(1, AFTERSTATE)
    after["left"] = [0, 10, 11, 12, 13]
    left = section(planes(after)[0], "left").reshape(5, 12, 15)
    assert left.all(2).argmax(1).tolist() == [0, 10, 11, 11, 11]


# Units


def test_units_of_random_positions_are_as_listed() -> None:
    for afters in some_afterstates(2, 4):
        for after, listed in zip(afters, units(afters), strict=True):
            assert listed.tolist() == units_of(chains_oracle.record_of(after))


@pytest.mark.slow
def test_units_of_every_field_in_both_orders_are_as_listed() -> None:
    afters = on_fields()
    for after, listed in zip(afters, units(afters), strict=True):
        assert listed.tolist() == units_of(chains_oracle.record_of(after))


def test_there_are_750_units_in_their_sections() -> None:
    """12 sets of 53 cards, 60 and 5 of players, 2 flags, 47 of the field, in that order."""
    assert 12 * 53 + 60 + 5 + 2 + (15 + 15 + 5 + 5 + 5 + 2) == N_UNITS == 750
    after = np.zeros(1, AFTERSTATE)
    assert units(after).shape == (1, 750)
    # All hold nothing, and the field is empty
    assert np.flatnonzero(units(after)).tolist() == [636, 648, 660, 672, 684, 748]
    after["left"], after["out"], after["revolution"], after["lock"] = 1, 31, 1, 1
    expected = [637, 649, 661, 673, 685, 696, 697, 698, 699, 700, 701, 702, 748]
    assert np.flatnonzero(units(after)).tolist() == expected
    after["field"] = plays_.LONE_JOKER
    assert set(np.flatnonzero(units(after))) - set(expected) == {2 * 53 + 52, 749}


# Other suits


def test_in_other_suits_a_position_has_the_same_actions() -> None:
    """The afterstates of a game in which H, D and C are permuted are those of the game, too."""
    assert N_SYMMETRIES == 6
    rng = random.Random(3)
    for _ in range(20):
        game = chains_oracle.ending(rng, rng.randint(2, 5), 6)
        result = afterstates(view(game, int(game["turn"])))
        seen = set()
        for symmetry, order in enumerate(permutations("HDC")):
            other, table = game.copy(), str.maketrans("HDC", "".join(order))

            def renamed(word: int, table: dict[int, int] = table) -> int:
                names = {
                    name if name == "JO" else name[0].translate(table) + name[1]
                    for name in chains_oracle.names(word)
                }
                return chains_oracle.word(frozenset(names))

            for player in range(5):
                for name in ("hands", "played", "given"):
                    other[name][player] = renamed(game[name][player])
            on_field = plays_.text(int(game["field"]))
            if on_field not in ("pass", "JO"):
                suited = [
                    cell[:-2] + cell[-2].translate(table) + cell[-1] for cell in on_field.split()
                ]
                other["field"] = plays_.parse(" ".join(suited))
            turned = afterstates(view(other, int(other["turn"])))
            ours = permuted(result, np.full(len(result), symmetry))
            records = {tuple(chains_oracle.record_of(after).items()) for after in ours}
            if not (turned["hand"] == 0).all():
                assert records == {tuple(chains_oracle.record_of(a).items()) for a in turned}
            seen.add(frozenset(records))
        assert len(seen) > 1


def test_each_afterstate_is_permuted_by_its_own_symmetry() -> None:
    afters = np.concatenate(list(some_afterstates(4, 1)))
    symmetries = np.arange(len(afters)) % 6
    turned = permuted(afters, symmetries)
    for i in range(len(afters)):
        alone = permuted(afters[i : i + 1], symmetries[i : i + 1])
        assert chains_oracle.record_of(turned[i]) == chains_oracle.record_of(alone[0])
        same = permuted(afters[i : i + 1], np.zeros(1, np.int64))
        assert chains_oracle.record_of(same[0]) == chains_oracle.record_of(afters[i])

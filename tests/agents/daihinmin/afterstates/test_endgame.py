"""Forced wins: games of two players against plain recursion, mates against all hidden cards."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from afterstate.agents.daihinmin.afterstates.endgame import (
    DUEL_POSITIONS,
    NOT_WON,
    UNKNOWN,
    WON,
    duel,
    forced_win,
    mate,
)
from afterstate.envs.daihinmin import plays
from afterstate.envs.daihinmin.rules import Game, Rules, play, write_legal
from afterstate.envs.daihinmin.views import determinise, view
from tests.oracles import chains as oracle
from tests.oracles.chains import FINISHED, position

RULES = {
    "all": Rules(idle_limit=9),
    "no 8 cuts": Rules(eight_cuts=False, idle_limit=9),
    "no locks": Rules(locks=False, idle_limit=9),
    "no revolutions": Rules(revolutions=False, idle_limit=9),
    "no sequences": Rules(sequences=False, idle_limit=9),
}
"""Rules with a low limit of passes, since the recursion tries all passes."""


# The last two


def legal(game: Game) -> list[int]:
    """The legal plays of the player in turn and the pass."""
    out = np.empty(plays.N_PLAYS, np.int64)
    return [*map(int, out[: write_legal(game, out)]), plays.PASS]


def after(game: Game, move: int) -> Game:
    """A copy of the game after a move."""
    child = game.copy()
    play(child, move)
    return child


FIELDS = "hands field revolution lock passed last idle turn".split()


def wins(game: Game, me: int, known: dict[bytes, bool]) -> bool:
    """Return True if one of two players can force going out first, by trying all plays.

    Places that are drawn at the limit of passes do not count as forced.
    """
    if game["turn"] < 0 or game["n_out"] > 3:
        return bool(game["left"][me] == 0)
    key = b"".join(game[name].tobytes() for name in FIELDS)
    if key not in known:
        result = (wins(after(game, move), me, known) for move in legal(game))
        known[key] = any(result) if game["turn"] == me else all(result)
    return known[key]


def compare(game: Game) -> int:
    """Check the solution of a game of two players; return the result."""
    me = int(game["turn"])
    rival = next(player for player in range(5) if player != me and game["left"][player])
    known: dict[bytes, bool] = {}
    expected = wins(game, me, known)
    result, move = duel(view(game, me), game["hands"][rival], DUEL_POSITIONS)
    assert result == (WON if expected else NOT_WON), oracle.seen(game)
    if expected:
        assert move in legal(game)
        assert wins(after(game, move), me, known)
    else:
        assert move == -1
    return result


@pytest.mark.parametrize("rules", RULES)
def test_the_game_of_two_is_solved_as_by_recursion(rules: str) -> None:
    rng, results = random.Random(1), Counter[int]()
    for _ in range(150):
        results[compare(oracle.ending(rng, 2, 4, RULES[rules]))] += 1
    assert min(results[WON], results[NOT_WON]) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES)
def test_many_games_of_two_are_solved_as_by_recursion(rules: str) -> None:
    rng = random.Random(2)
    for _ in range(200):
        compare(oracle.ending(rng, 2, 5, RULES[rules]))


@pytest.mark.parametrize(
    ("mine", "other", "field", "passed", "winning"),
    [
        ("S4", "S3", "pass", "", "S4"),
        ("S4 D5", "S6 D7", "pass", "", None),
        ("S4 SA", "S6 D7 H9", "pass", "", "S4, SA"),  # the A is not answered, now or later
        ("S4 SA", "S2 S3", "pass", "", None),
        ("S4 S8", "S2 JO", "pass", "", "S8"),
        ("S4 H4 D9", "ST HT C3", "pass", "", None),
        ("S4 H4 D9", "ST HJ C3", "pass", "", "S4 H4"),  # the other has no pair
        ("S4 H9", "S5 H5 D5", "pass", "", "S4, H9"),
        ("S4 DK", "S5 H2", "SQ", "1", "DK"),  # the other has passed
        ("S4 DK", "S5 H2", "SQ", "", None),
        ("S3 D4", "S5 H2", "JO", "", "S3"),
        ("H3 D4", "S5 H2", "JO", "", None),
        (
            "S4 H4 DJ",
            "S5 SA",
            "SQ",
            "1",
            "pass",
        ),  # the other has passed: the trick ends, then the pair
    ],
)
def test_endings_solved_by_hand(
    mine: str, other: str, field: str, passed: str, winning: str | None
) -> None:
    game = position(mine, other, field=field, last=0 if passed else 1, passed=passed)
    result, move = duel(view(game, 0), game["hands"][1], DUEL_POSITIONS)
    if winning is None:
        assert (result, move) == (NOT_WON, -1)
    else:
        assert result == WON
        assert plays.text(move) in winning.split(", ")


@pytest.mark.parametrize(
    ("seats", "result"),
    [
        ([2, 0, 1, 3, 4], WON),  # 2 is out; after both pass, 0 leads its pair
        ([2, 1, 0, 3, 4], NOT_WON),
    ],
)
def test_the_seat_after_a_finished_player_leads(seats: list[int], result: int) -> None:
    """1 has passed on the 2; if 0 leads next, nothing answers its 5s."""
    game = position("S5 H5 DQ", "S6 SA", field="S2", last=2, passed="1")
    game["seats"] = seats
    assert duel(view(game, 0), game["hands"][1], DUEL_POSITIONS)[0] == result


def test_a_limit_makes_it_unknown_but_never_wrong() -> None:
    rng, results = random.Random(3), Counter[tuple[int, int]]()
    for _ in range(80):
        game = oracle.ending(rng, 2, 6)
        me = int(game["turn"])
        rival = next(player for player in range(5) if player != me and game["left"][player])
        exact, _ = duel(game, game["hands"][rival], DUEL_POSITIONS)
        assert exact in (WON, NOT_WON)
        for limit in (0, 1, 5, 20, 100):
            result, move = duel(game, game["hands"][rival], limit)
            assert result in (UNKNOWN, exact)
            assert (move >= 0) == (result == WON)
            results[limit, result] += 1
    assert results[1, UNKNOWN] > results[100, UNKNOWN] > 0
    assert min(results[5, WON], results[100, NOT_WON]) > 0


def test_it_is_unknown_unless_two_are_left() -> None:
    for n_left in (3, 4, 5):
        game = oracle.ending(random.Random(n_left), n_left, 3)
        assert duel(game, np.uint64(1), DUEL_POSITIONS) == (UNKNOWN, -1)


def test_it_is_unknown_where_places_may_be_drawn() -> None:
    game = position("S4 SA", "S6 D7 H9")
    for idle, result in [(10, WON), (19, UNKNOWN)]:
        game["idle"] = idle
        assert duel(game, game["hands"][1], DUEL_POSITIONS)[0] == result


def test_near_the_limit_of_passes_no_result_is_wrong() -> None:
    rng, n = random.Random(4), 0
    for _ in range(150):
        game = oracle.ending(rng, 2, 3, Rules(idle_limit=6))
        game["idle"] = rng.randrange(max(int(game["idle"]), 1), 6)
        me = int(game["turn"])
        rival = next(player for player in range(5) if player != me and game["left"][player])
        result, _ = duel(game, game["hands"][rival], DUEL_POSITIONS)
        if result != UNKNOWN:
            assert result == (WON if wins(game, me, {}) else NOT_WON)
            n += 1
    assert n > 50


# Mates


def goes_out_by_force(game: Game, seen_: Game, generator: np.random.Generator) -> None:
    """Deal the hidden cards and check that the player goes out before others can play."""
    whole, me = determinise(seen_, generator), int(game["turn"])
    n_out = int(whole["n_out"])
    while whole["left"][me]:
        if whole["turn"] == me:
            move = mate(view(whole, me))
            assert move >= 0
            assert move in legal(whole)
            play(whole, move)
        else:
            assert whole["turn"] >= 0
            assert legal(whole) == [plays.PASS]
            play(whole, plays.PASS)
    assert whole["places"][me] == n_out


@pytest.mark.parametrize("most", [4, 7])
def test_a_mate_wins_for_all_hidden_cards(most: int) -> None:
    rng, generator, n = random.Random(5), np.random.default_rng(5), 0
    for _ in range(200):
        game = oracle.ending(rng, rng.randint(2, 5), most, Rules(idle_limit=rng.choice([6, 20])))
        seen_ = view(game, int(game["turn"]))
        if mate(seen_) >= 0:
            n += 1
            for _ in range(5):
                goes_out_by_force(game, seen_, generator)
    assert n > 20


def test_mates_in_whole_games_win_for_all_hidden_cards() -> None:
    generator, n = np.random.default_rng(6), 0
    for game in oracle.in_games(6, 40, 2):
        seen_ = view(game, int(game["turn"]))
        if mate(seen_) >= 0:
            n += 1
            goes_out_by_force(game, seen_, generator)
    assert n > 50


@pytest.mark.parametrize("rules", [*RULES, "one pass"])
def test_a_mate_exists_exactly_if_an_action_empties_the_hand(rules: str) -> None:
    rng, counts = random.Random(7), Counter[bool]()
    for _ in range(150):
        some = RULES.get(rules, Rules(idle_limit=1))
        game = oracle.ending(rng, rng.randint(2, 5), 6, some)
        ends = oracle.ends(oracle.seen(game))
        move = mate(view(game, int(game["turn"])))
        assert (move >= 0) == (FINISHED in ends), oracle.seen(game)
        if move >= 0:
            assert plays.text(move) in ends[FINISHED]
        counts[move >= 0] += 1
    assert min(counts.values()) > 10


WEAK = ["SK HK DK CK", "SQ HQ DQ CQ", "SJ HJ DJ CJ", "ST HT DT CT"]


@pytest.mark.parametrize(
    ("hand", "move"),
    [
        ("C4", "C4"),
        ("D4 C4", "D4 C4"),
        ("C4 D4 D5", None),
        ("S8 C4", "S8"),
        ("SA C4", "SA"),
        ("S8 D8 C4", "S8 D8"),
        ("S8 H7 C4", None),
        ("SA H2 C4", "SA"),  # alone, then the other on it or after it
        ("SA HA DA C4 C5 C6", "SA HA DA"),
        ("S8 SA H4 H5 H6 D7", None),
        ("S8 SA H4 H5 H6", "S8"),
        ("JO S8 C4", "S8 JO=H8"),
        ("SA C4 D5", None),
    ],
)
def test_mates_by_hand(hand: str, move: str | None) -> None:
    """Others hold 10s to Ks."""
    game = position(hand, *WEAK)
    result = mate(view(game, 0))
    assert (result >= 0) == (move is not None)
    if move is not None:
        assert FINISHED in (ends := oracle.ends(oracle.seen(game)))
        assert {move, plays.text(result)} <= ends[FINISHED]


def test_a_mate_can_begin_with_a_pass() -> None:
    """On its own 9, when all others have passed, the player passes and leads its pair."""
    game = position("C4 D4", *WEAK, field="H9", last=0, passed="1234")
    assert mate(view(game, 0)) == plays.PASS
    assert mate(view(position("C4 D4", *WEAK, field="H9", last=1, passed="234"), 0)) == -1


# Either


def test_a_forced_win_is_a_mate_or_wins_the_game_of_two() -> None:
    rng, n = random.Random(8), Counter[bool]()
    for _ in range(100):
        game = oracle.ending(rng, 2, 4, RULES["all"])
        me = int(game["turn"])
        known: dict[bytes, bool] = {}
        move, expected = forced_win(view(game, me)), wins(game, me, known)
        assert (move >= 0) == expected
        n[expected] += 1
        if expected:
            assert wins(after(game, move), me, known)
    assert min(n.values()) > 10


def test_with_more_players_only_a_mate_is_forced() -> None:
    rng = random.Random(9)
    for _ in range(100):
        game = view(oracle_game := oracle.ending(rng, rng.randint(3, 5), 5), oracle_game["turn"])
        assert forced_win(game) == mate(game)

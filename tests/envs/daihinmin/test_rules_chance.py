"""Seats, the deal, drawn numbers and random play."""

from __future__ import annotations

from collections import Counter

import numpy as np

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match
from afterstate.envs.daihinmin.rules import (
    MAX_ACTIONS,
    deal,
    draw,
    draw_play,
    holder,
    lay,
    play_out,
    start,
)
from tests.support.daihinmin.positions import hands, on_field, table


def test_draws_are_uniform() -> None:
    """Each of 7 numbers in 70,000 draws is within 5 standard deviations of 10,000."""
    game = new_match(5)
    counts = Counter(draw(game, 7) for _ in range(70_000))
    assert sorted(counts) == list(range(7))
    assert max(abs(n - 10_000) for n in counts.values()) < 5 * (70_000 / 7 * 6 / 7) ** 0.5
    assert holder(game, cards.D3) == -1


def test_random_plays_are_legal_and_uniform_and_leaders_never_pass() -> None:
    """Each of 5 choices in 20,000 draws is within 5 standard deviations of 4,000."""
    out = np.empty(plays.N_PLAYS, np.int64)
    leading = table("S4 S5 S6 C9")
    following = table("S4 S5 S6 C9")
    following["field"] = plays.parse("H3")
    for game, choices in ((leading, {"S4 S5 S6"}), (following, {"pass"})):
        choices = choices | {"S4", "S5", "S6", "C9"}
        counts = Counter(plays.text(draw_play(game, out)) for _ in range(20_000))
        assert set(counts) == choices
        assert max(abs(n - 4_000) for n in counts.values()) < 5 * (20_000 / 5 * 4 / 5) ** 0.5


def test_random_games_end() -> None:
    out = np.empty(plays.N_PLAYS, np.int64)
    for seed in range(100):
        game = new_match(seed)
        game["places"], game["rng"] = -1, seed
        deal(game, 0)
        start(game)
        n = play_out(game, out)
        assert n == game["n_actions"] <= MAX_ACTIONS
        assert game["turn"] == -1
        assert sorted(game["places"].tolist()) == [0, 1, 2, 3, 4]
        for player in range(5):
            assert game["hands"][player] & game["played"][player] == 0
            assert cards.count(game["hands"][player]) == game["left"][player]


def test_lay_does_not_check_legality() -> None:
    game = table("S4 C9")
    game["field"] = plays.parse("S9")
    lay(game, plays.parse("S4"))
    assert (on_field(game), hands(game)[0]) == ("S4", "C9")

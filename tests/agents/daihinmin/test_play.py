"""Matches in one process: views that players get, and effects of their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from afterstate.agents.daihinmin.play import play_match, points_per_cycle
from afterstate.agents.daihinmin.rule_based.players import HeuristicAgent, RandomAgent, SampleAgent
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.rules import Game, Rules
from afterstate.envs.daihinmin.views import known_cards, legal_plays


class Observed:
    """A player that passes every view to a function and plays like another player."""

    def __init__(self, seen: Callable[[Game], None], player: Player) -> None:
        self._seen, self._player = seen, player

    def choose(self, view: Game) -> int:
        """Return the other player's play."""
        self._seen(view)
        return self._player.choose(view)

    def give(self, view: Game, n: int) -> int:
        """Return the other player's gift."""
        self._seen(view)
        assert n == view["to_give"]
        return self._player.give(view, n)


class Answering:
    """A player that always gives the same answer."""

    def __init__(self, play: int, gift: int = 0) -> None:
        self._play, self._gift = play, gift
        self.n_calls = 0

    def choose(self, view: Game) -> int:
        """Return the play."""
        self.n_calls += 1
        return self._play

    def give(self, view: Game, n: int) -> int:
        """Return the gift."""
        return self._gift


def table(seed: int = 0) -> list[Player]:
    """Return five players of all kinds."""
    rivals: list[Player] = [RandomAgent(seed), HeuristicAgent(), SampleAgent()]
    return [*rivals, RandomAgent(seed + 1), SampleAgent()]


def played(players: list[Player], n_games: int, **settings: Any) -> list[bytes]:
    """Return the match after each game."""
    return [match.tobytes() for match in play_match(players, n_games, **settings)]


def test_the_same_seed_is_the_same_match() -> None:
    assert played(table(), 20, seed=5) == played(table(), 20, seed=5)
    assert played(table(), 20, seed=5) != played(table(), 20, seed=6)
    assert played(table(), 3) == played(table(), 3, seed=0)


def test_a_longer_match_begins_with_the_shorter() -> None:
    assert played(table(), 12, seed=5)[:4] == played(table(), 4, seed=5)


def test_each_game_gives_15_points() -> None:
    before = np.zeros(5, np.int64)
    for number, match in enumerate(play_match(table(), 30, seed=2), 1):
        assert sorted(match["places"]) == [0, 1, 2, 3, 4]
        assert (match["points"] - before == 5 - match["places"]).all()
        assert match["points"].sum() == 15 * number
        assert match["number"] == number
        before = match["points"].copy()


def test_the_match_is_one_record_after_each_game() -> None:
    games = list(play_match(table(), 3, seed=2))
    assert all(np.shares_memory(game, games[0]) for game in games)
    assert games[0]["turn"] == -1
    assert games[0]["n_actions"] > 20
    assert games[0]["viewer"] == -1


def test_a_match_of_no_games_is_empty() -> None:
    assert list(play_match(table(), 0)) == []


def test_classes_are_the_places_of_the_game_before_until_a_reset() -> None:
    rules = Rules(class_reset_every=3)
    places = None
    for match in play_match(table(), 7, seed=3, rules=rules):
        if match["number"] % 3 == 1:
            assert match["classes"].tolist() == [-1] * 5
            assert not match["given"].any()
        else:
            assert match["classes"].tolist() == places
            assert sorted(cards.count(given) for given in match["given"]) == [0, 1, 1, 2, 2]
        places = match["places"].tolist()


def test_views_hide_the_cards_of_other_players() -> None:
    views: list[Game] = []
    *_, match = play_match([Observed(views.append, player) for player in table()], 8, seed=4)
    assert {int(view["viewer"]) for view in views} == {0, 1, 2, 3, 4}
    for view in views:
        viewer, others = int(view["viewer"]), [p for p in range(5) if p != view["viewer"]]
        assert view["turn"] == viewer
        assert cards.count(view["hands"][viewer]) == view["left"][viewer] > 0
        assert not view["hands"][others].any()
        assert not view["given"][others].any()
        assert view["seed"] == view["rng"] == 0
        assert not np.shares_memory(view, match)
        assert all(cards.count(known_cards(view, p)) <= view["left"][p] for p in others)


def test_a_player_may_change_its_view() -> None:
    def spoil(view: Game) -> None:
        view["hands"] = cards.DECK
        view["left"] = view["points"] = 99

    class Spoiling(Observed):
        def choose(self, view: Game) -> int:
            play = self._player.choose(view)
            self._seen(view)
            return play

        def give(self, view: Game, n: int) -> int:
            gift = self._player.give(view, n)
            self._seen(view)
            return gift

    spoiling: list[Player] = [Spoiling(spoil, player) for player in table()]
    assert played(spoiling, 10, seed=5) == played(table(), 10, seed=5)


@pytest.mark.parametrize("play", [-1, plays.N_PLAYS, 10**12, -(2**40)])
def test_a_number_that_is_no_play_is_a_pass(play: int) -> None:
    wrong, passing = Answering(play), Answering(plays.PASS)
    rest: list[Player] = [SampleAgent() for _ in range(4)]
    assert played([wrong, *rest], 4, seed=6) == played([passing, *rest], 4, seed=6)
    assert wrong.n_calls == passing.n_calls > 10


def test_an_illegal_play_is_a_pass() -> None:
    class Illegal(Answering):
        def choose(self, view: Game) -> int:
            self.n_calls += 1
            legal = legal_plays(view)
            return next(play for play in range(1, plays.N_PLAYS) if play not in legal)

    wrong, passing = Illegal(0), Answering(plays.PASS)
    rest: list[Player] = [SampleAgent() for _ in range(4)]
    assert played([wrong, *rest], 4, seed=6) == played([passing, *rest], 4, seed=6)
    assert wrong.n_calls > 10
    for match in play_match([wrong, *rest], 4, seed=6):
        assert match["places"][0] == 4
        assert match["played"][0] == 0


def test_five_players_that_pass_have_places_drawn_after_20_passes() -> None:
    passing: list[Player] = [Answering(plays.PASS) for _ in range(5)]
    orders = set()
    for match in play_match(passing, 6, seed=1):
        assert match["n_actions"] == 20
        assert sorted(match["places"]) == [0, 1, 2, 3, 4]
        orders.add(tuple(match["places"]))
    assert len(orders) > 1


def test_a_wrong_gift_costs_the_strongest_cards() -> None:
    views: list[Game] = []
    wrong: list[Player] = [Observed(views.append, Answering(plays.PASS)) for _ in range(5)]
    given = []
    for match in play_match(wrong, 2, seed=1):
        given = match["given"].tolist()
    exchanges = [view for view in views if view["to_give"]]
    assert [int(view["to_give"]) for view in exchanges] == [2, 1]
    for view in exchanges:
        hand, n = view["hands"][view["viewer"]], int(view["to_give"])
        assert given[view["viewer"]] == cards.strongest(hand, n)


def test_players_play_by_the_given_rules() -> None:
    for match in play_match(table(), 12, seed=7, rules=Rules(sequences=False)):
        shown = match["actions"][: match["n_actions"]] % plays.N_PLAYS
        assert not (plays.KIND[shown] == plays.SEQUENCE).any()


@pytest.mark.parametrize("n", [0, 1, 4, 6])
def test_another_number_of_players_is_refused(n: int) -> None:
    with pytest.raises(ValueError, match="players"):
        next(play_match([SampleAgent() for _ in range(n)], 1))


@pytest.mark.parametrize(
    "settings",
    [
        *({"seed": seed} for seed in (1.5, "x", None, -1)),
        {"rules": Rules(idle_limit=0)},
    ],
    ids=str,
)
def test_wrong_seeds_and_rules_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        next(play_match(table(), 1, **settings))


@pytest.mark.parametrize("wrong", [-1, 1.5, "2", None, True, [1], float("nan")])
def test_wrong_numbers_of_games_and_cycles_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"n_games must be an integer in 0..2\*\*62, got "):
        play_match(table(), wrong)
    with pytest.raises(ValueError, match=r"n_cycles must be an integer in 0..2\*\*62, got "):
        points_per_cycle(SampleAgent(), ["sample"] * 4, wrong)
    with pytest.raises(ValueError, match="seed must be an integer >= 0, got "):
        points_per_cycle(SampleAgent(), ["sample"] * 4, 1, wrong)


@pytest.mark.parametrize("play", [-1, 2422, 2**63, -(2**64)])
@pytest.mark.parametrize("gift", [-1, 2**53, 2**64])
def test_numbers_that_are_no_plays_pass(play: int, gift: int) -> None:
    class Seat:
        def choose(self, view: Game) -> int:
            return play

        def give(self, view: Game, n: int) -> int:
            return gift

    class Passing(Seat):
        def choose(self, view: Game) -> int:
            return 0

        def give(self, view: Game, n: int) -> int:
            return 0

    others = [HeuristicAgent() for _ in range(4)]
    first, second = (
        [match.tobytes() for match in play_match([seat, *others], 3, seed=1)]
        for seat in (Seat(), Passing())
    )
    assert first == second

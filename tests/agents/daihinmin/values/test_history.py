"""Decisions of finished games and the inputs of HistoryCNN, against games recorded live."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pytest

from afterstate.agents.daihinmin.afterstates.chains import AFTERSTATE, Afterstates, afterstates
from afterstate.agents.daihinmin.afterstates.exchange import gift_afterstates
from afterstate.agents.daihinmin.values.history import Moments, decisions, histories
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.rules import GAME, Game, Rules, draw_play, give, play
from afterstate.envs.daihinmin.views import view
from tests.oracles import chains as chains_oracle
from tests.oracles import daihinmin as oracle
from tests.oracles.encoding import card_image, everywhere, nothing, one_hot, planes_of, position_of

Record = dict[str, object]


class Played(NamedTuple):
    """A finished game with the views of its players."""

    game: Game
    gifts: list[tuple[int, Record]]  # the player and its position after the gift
    before: list[list[Game]]  # before each action, the view of each player
    moves: list[tuple[int, int]]  # the player and the play


def live(seed: int, n_games: int, rules: Rules | None = None) -> list[Played]:
    """Play games of a match with random gifts, plays and passes."""
    rng, out = random.Random(seed), np.empty(plays.N_PLAYS, np.int64)
    match, games = new_match(seed, rules), []
    for _ in range(n_games):
        next_game(match)
        gifts, before, moves = [], [], []
        while (turn := int(match["turn"])) >= 0:
            if match["to_give"]:
                afters, choices = gift_afterstates(view(match, turn))
                i = rng.randrange(len(choices))
                gifts.append((turn, chains_oracle.record_of(afters[i])))
                give(match, choices[i])
                continue
            move = plays.PASS if rng.random() < 0.15 else int(draw_play(match, out))
            before.append([view(match, player) for player in range(5)])
            moves.append((turn, move))
            play(match, move)
        games.append(Played(match.copy(), gifts, before, moves))
    return games


def all_decisions(
    games: list[Played], first: list[int] | None = None, gifts_too: bool = False
) -> tuple[Afterstates, list[tuple[int, ...]]]:
    """Return the afterstates of decisions, and the player, action and game of each."""
    records = np.array([played.game for played in games], GAME)
    begin = np.array(first or [-1] * len(games), np.int64)
    afters, facts = decisions(records, begin, gifts_too)
    return afters, [tuple(map(int, fact)) for fact in facts]


def chosen(played: Played) -> dict[int, Record]:
    """Return the chosen afterstates by the number of the action, by the oracle's conditions."""
    result = {}
    for k, (player, move) in enumerate(played.moves):
        seen = played.before[k][player]
        at = chains_oracle.seen(seen)
        steps = chains_oracle.steps(at, chains_oracle.root(at))
        only_pass = [step.text for step in steps] == ["pass"]
        passes_on_lead = move == plays.PASS and at.field == "pass"
        if seen["n_out"] >= 3 or only_pass or passes_on_lead:
            continue
        step = next(step for step in steps if plays.parse(step.text) == move)
        if step.condition == 0 and step.node.hand:
            result[k] = chains_oracle.fields_of(at, step.node)
    return result


# Decisions


@pytest.mark.parametrize(
    "rules",
    [Rules(), Rules(eight_cuts=False, locks=False), Rules(idle_limit=6, sequences=False)],
)
def test_decisions_of_finished_games_are_those_made_live(rules: Rules) -> None:
    games = live(1, 8, rules)
    afters, facts = all_decisions(games)
    expected = [
        (player_of(games[i], k), k, i, record)
        for i in range(len(games))
        for k, record in chosen(games[i]).items()
    ]
    assert facts == [row[:3] for row in expected]
    assert [chains_oracle.record_of(after) for after in afters] == [row[3] for row in expected]
    assert len(facts) > 100


def player_of(played: Played, k: int) -> int:
    """Return the player of an action."""
    return played.moves[k][0]


def test_a_decision_is_one_of_the_afterstates_that_the_player_had() -> None:
    games, n = live(2, 6), 0
    for after, (player, k, i) in zip(*all_decisions(games), strict=True):
        seen = games[i].before[k][player]
        assert seen["turn"] == player
        choices = [chains_oracle.record_of(choice) for choice in afterstates(seen)]
        if any(choice["hand"] == 0 for choice in choices):
            continue  # the player could have gone out: then that is the only afterstate
        assert chains_oracle.record_of(after) in choices
        assert after["play"] == games[i].moves[k][1]
        n += 1
    assert n > 100


def test_with_two_players_left_there_are_no_decisions() -> None:
    games = live(3, 10)
    _, facts = all_decisions(games)
    last = {i: max(k for _, k, game in facts if game == i) for i in range(10)}
    for i, played in enumerate(games):
        ends = [k for k, views in enumerate(played.before) if views[0]["n_out"] >= 3]
        assert not ends or last[i] < min(ends)


def test_decisions_before_the_first_move_considered_are_left_out() -> None:
    games = live(4, 5)
    first = [0, 7, 20, 1, 10_000]
    afters, facts = all_decisions(games)
    kept = [row for row, (_, k, i) in enumerate(facts) if k >= first[i]]
    some, some_facts = all_decisions(games, first)
    assert some_facts == [facts[row] for row in kept]
    records = [chains_oracle.record_of(after) for after in some]
    assert records == [chains_oracle.record_of(afters[row]) for row in kept]


def test_gifts_come_first_if_they_are_included() -> None:
    """Their positions are those that the givers saw, after the exchange."""
    games = live(5, 6)
    assert not games[0].gifts
    assert all(len(played.gifts) == 2 for played in games[1:])
    for i, played in enumerate(games):
        afters, facts = all_decisions([played], gifts_too=True)
        n = len(played.gifts)
        without, facts_without = all_decisions([played])
        assert facts[n:] == facts_without
        assert len(afters) == n + len(without)
        result = {
            fact[0]: chains_oracle.record_of(after)
            for fact, after in zip(facts[:n], afters[:n], strict=True)
        }
        assert result == dict(played.gifts)
        assert all(fact[1:] == (0, 0) for fact in facts[:n]), i


def test_gifts_are_left_out_unless_the_whole_game_counts() -> None:
    """A first move 0 leaves out the exchange before it."""
    played = live(5, 2)[1]
    whole, facts = all_decisions([played], gifts_too=True)
    for first in (0, 3):
        _, late = all_decisions([played], [first], gifts_too=True)
        assert late == [fact for fact in facts[len(played.gifts) :] if fact[1] >= first]
    assert len(whole) == len(facts)


def test_the_records_are_not_changed() -> None:
    records = np.array([played.game for played in live(6, 3)], GAME)
    before = records.tobytes()
    afters, facts = decisions(records, np.full(3, -1), True)
    histories(afters, Moments(records, facts[:, 2].copy(), facts[:, 0].copy(), facts[:, 1].copy()))
    assert records.tobytes() == before


# The inputs of HistoryCNN

Row = list[list[float]]


def rows_of(played: Played, viewer: int, actions: int) -> list[Row]:
    """Return the moves that a player has seen as rows, the last move first."""
    rows = []
    for k in range(actions):
        player, move = played.moves[k]
        seen = played.before[k][viewer]
        at = position_of(seen, viewer)
        if move == plays.PASS and not may_play(seen, viewer, player, at):
            continue
        seats = seen["seats"].tolist()
        seat = (seats.index(player) - seats.index(viewer)) % 5
        laid = oracle.analyze(plays.text(move))
        assert laid is not None
        row = one_hot(seat, 5) + card_image(laid.cards, int(seen["revolution"])) + planes_of(at)
        rows.append(row)
    return rows[::-1]


def may_play(seen: Game, viewer: int, player: int, at: dict[str, Any]) -> bool:
    """Return True if a player may have had a legal play, as far as the viewer knows."""
    field, revolution = plays.text(at["field"]), bool(at["revolution"])
    own = player == viewer
    held = set(chains_oracle.names(at["hand"] if own else at["unseen"]))
    listed = oracle.legal(held, field, revolution, bool(at["lock"]), bool(seen["sequences"]))
    if own or field == "pass":
        return bool(listed)
    return bool(listed) and seen["left"][player] >= len(field.split())


def compare(games: list[Played], rows: list[int], afters: Afterstates, moments: Moments) -> None:
    """Check the inputs of some decisions."""
    drawn = histories(afters[rows], moments.part(rows))
    assert drawn.shape == (len(rows), 161, 64, 15)
    assert drawn.dtype == np.float32
    for picture, row in zip(drawn, rows, strict=True):
        game = games[moments.origins[row]]
        past = rows_of(game, int(moments.players[row]), int(moments.actions[row]))
        now = [nothing() for _ in range(10)] + planes_of(chains_oracle.record_of(afters[row]))
        none = [nothing() for _ in range(161)]
        expected = np.array(([now, *past, *([none] * 64)])[:64])
        assert np.array_equal(picture, expected.transpose(1, 0, 2))


def moments_of(games: list[Played], gifts_too: bool = False) -> tuple[Afterstates, Moments]:
    """Return the decisions of some games with their moments."""
    afters, facts = all_decisions(games, gifts_too=gifts_too)
    players, actions, origins = np.array(facts).T.copy()
    return afters, Moments(np.array([g.game for g in games], GAME), origins, players, actions)


@pytest.mark.parametrize("rules", [Rules(), Rules(revolutions=False, idle_limit=8)])
def test_rows_are_the_afterstate_and_the_latest_moves_as_seen(
    rules: Rules,
) -> None:
    games = live(7, 4, rules)
    afters, moments = moments_of(games, gifts_too=True)
    compare(games, list(range(0, len(afters), 9)), afters, moments)


def test_no_more_than_63_moves_are_shown() -> None:
    games = live(8, 12)
    afters, moments = moments_of(games)
    row = int(moments.actions.argmax())
    game, player = games[moments.origins[row]], int(moments.players[row])
    assert len(rows_of(game, player, int(moments.actions[row]))) > 64
    compare(games, [row], afters, moments)
    assert histories(afters[[row]], moments.part([row]))[0, :, 63].any()


def test_views_at_the_decisions_give_the_same_inputs() -> None:
    games = live(9, 3)
    afters, moments = moments_of(games)
    rows = list(range(0, len(afters), 12))
    seen = [
        games[moments.origins[row]].before[moments.actions[row]][moments.players[row]]
        for row in rows
    ]
    then = Moments(
        np.array(seen, GAME),
        np.arange(len(rows)),
        moments.players[rows],
        moments.actions[rows],
    )
    assert np.array_equal(
        histories(afters[rows], then), histories(afters[rows], moments.part(rows))
    )


def test_a_forced_pass_is_left_out_and_another_one_is_shown() -> None:
    """Player 0 leads a 2, which only the joker beats; player 1 holds it, and only player 1 knows.

    For the others, 1, 2 and 3 may hold it. Each player knows that its own pass was forced.
    """
    games = np.empty(1, GAME)
    games[0] = new_match(1)
    game = games[0]
    hands = ["D3 S2 S3", "JO H4 H5", "C4 C5 C6", "D5 D6 D8", "H9 HT HJ"]
    game["hands"] = [cards.parse(hand) for hand in hands]
    game["left"], game["seats"], game["turn"] = 3, range(5), 0
    game["starter"] = game["last"] = 0
    game["places"] = -1
    for text in ["S2", "pass", "pass", "pass", "pass"]:
        play(game, plays.parse(text))
    shown = {}
    for viewer in range(5):
        after = np.zeros(1, AFTERSTATE)
        moments = Moments(games, np.zeros(1, np.int64), np.array([viewer]), np.array([5]))
        drawn = histories(after, moments)[0]
        shown[viewer] = [
            int(drawn[:5, row, 0].argmax()) for row in range(1, 64) if drawn[:5, row].any()
        ]
    # The seat of the mover counted from the viewer, the last move first.
    assert shown[4] == [4, 3, 2, 1]  # not its own pass
    assert shown[1] == [0, 4]  # its own pass and the 2: no other can hold the joker
    assert shown[0] == [4, 3, 2, 1, 0]


def test_inputs_of_several_games_are_those_of_each_alone() -> None:
    games = live(10, 3)
    afters, moments = moments_of(games)
    rows = [0, len(afters) - 1, len(afters) // 2]
    together = histories(afters[rows], moments.part(rows))
    for picture, row in zip(together, rows, strict=True):
        alone = histories(afters[[row]], moments.part([row]))[0]
        assert np.array_equal(picture, alone)


def test_planes_of_seats_are_everywhere() -> None:
    games = live(11, 2)
    afters, moments = moments_of(games)
    drawn = histories(afters[20:21], moments.part(slice(20, 21)))[0]
    counts = Counter(tuple(drawn[:5, row, :].sum(1).astype(int)) for row in range(64))
    assert set(counts) <= {tuple(15 * int(i == j) for j in range(5)) for i in range(6)}
    assert everywhere(True) in drawn[:5, 1].tolist()

"""Actions as chains of plays and their afterstates, against sets and recursion."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from afterstate.agents.daihinmin.afterstates.chains import (
    AFTERSTATE,
    MAX_POSITIONS,
    afterstates,
    search,
)
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.rules import Game, Rules, play, write_legal
from afterstate.envs.daihinmin.views import determinise, view
from tests.oracles import chains as oracle
from tests.oracles.chains import FINISHED, Node, Seen, position

RULES = {
    "all": Rules(),
    "no 8 cuts": Rules(eight_cuts=False),
    "no locks": Rules(locks=False),
    "no revolutions": Rules(revolutions=False),
    "no sequences": Rules(sequences=False),
    "no exchanges": Rules(exchanges=False),
    "seven passes": Rules(idle_limit=7),
    "six passes": Rules(idle_limit=6),
    "two passes": Rules(idle_limit=2),
    "one pass": Rules(idle_limit=1),
}


def compare(game: Game) -> tuple[int, bool]:
    """Check the afterstates of a position; return their number and True if one empties the hand."""
    turn = int(game["turn"])
    at = oracle.seen(view(game, turn))
    expected, result = oracle.ends(at), afterstates(view(game, turn))
    hidden_too = afterstates(game)  # must be ignored
    assert all(np.array_equal(result[name], hidden_too[name]) for name in AFTERSTATE.names or ())
    if FINISHED in expected:
        assert len(result) == 1
        assert result[0]["hand"] == 0
        assert plays.text(result[0]["play"]) in expected[FINISHED]
        return 1, True
    records = [tuple(oracle.record_of(after).items()) for after in result]
    assert len(set(records)) == len(records)
    firsts = {tuple(oracle.fields_of(at, end).items()): first for end, first in expected.items()}
    assert set(records) == set(firsts)
    for record, after in zip(records, result, strict=True):
        assert plays.text(after["play"]) in firsts[record]
    return len(result), False


# Random positions


@pytest.mark.parametrize("rules", RULES)
def test_afterstates_of_random_games_are_those_of_all_actions(rules: str) -> None:
    n, short = 0, RULES[rules].idle_limit < 6
    for game in oracle.in_games(1, 40 if short else 2, 2 if short else 9, RULES[rules]):
        n += compare(game)[0]
    assert n > 50


@pytest.mark.parametrize("rules", RULES)
def test_afterstates_late_in_games_are_those_of_all_actions(rules: str) -> None:
    rng, counts = random.Random(2), Counter[bool]()
    for _ in range(60):
        game = oracle.ending(rng, rng.randint(2, 5), 6, RULES[rules])
        counts[compare(game)[1]] += 1
    assert min(counts[True], counts[False]) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES)
def test_afterstates_of_many_positions_are_those_of_all_actions(rules: str) -> None:
    rng = random.Random(3)
    for _ in range(300):
        compare(oracle.ending(rng, rng.randint(2, 5), 7, RULES[rules]))
    for game in oracle.in_games(4, 20, 5, RULES[rules]):
        compare(game)


def test_cards_known_to_be_with_the_exchange_partner_are_written() -> None:
    n = 0
    for game in oracle.in_games(5, 12, 30):
        afters = afterstates(view(game, int(game["turn"])))
        n += bool(afters["known"].any())
        compare(game)
    assert n > 10


def test_a_position_that_is_reached_twice_is_searched_once() -> None:
    """Eight lone winners can be laid in 8! orders, and leave 2**8 hands."""
    game = position("S8 H8 D8 C8 S2 H2 D2 C2 S3 C5 D6", "H9", unseen="ST HT DT CT")
    _, n, _ = search(view(game, 0), True, MAX_POSITIONS)
    assert n < 20_000
    compare(game)


def test_with_less_capacity_a_part_of_the_positions_is_reached() -> None:
    rng, n_cut = random.Random(9), 0
    for _ in range(100):
        game = oracle.ending(rng, rng.randint(2, 5), 8)
        finish, n, result = search(view(game, int(game["turn"])), True, MAX_POSITIONS)
        for capacity in (2, 8, 32):
            first, n_some, some = search(view(game, int(game["turn"])), True, capacity)
            assert n_some <= capacity
            assert first == -1 or plays.text(first) in oracle.ends(oracle.seen(game))[FINISHED]
            if finish >= 0:
                continue
            all_ = {(int(result.hands[i]), int(result.rests[i])) for i in range(n)}
            kept = {(int(some.hands[i]), int(some.rests[i])) for i in range(n_some)}
            assert len(kept) == n_some
            assert kept <= all_
            n_cut += n_some < n
    assert n_cut > 30


# The conditions one by one


def condition_after(game: Game, text: str) -> int:
    """Return the condition by which player 0 moves again after a play, 0 if it does not."""
    at = oracle.seen(view(game, 0))
    step = next(step for step in oracle.steps(at, oracle.root(at)) if step.text == text)
    after = oracle.fields_of(at, step.node)
    ends = [oracle.record_of(end) for end in afterstates(view(game, 0))]
    assert all(end["hand"] for end in ends), "an action empties the hand: choose another position"
    assert (after in ends) == (step.condition == 0), text
    return step.condition


def chain(game: Game, *texts: str) -> tuple[int, ...]:
    """Return the conditions by which player 0 moves again after each of some plays."""
    at = oracle.seen(view(game, 0))
    node, conditions = oracle.root(at), []
    for text in texts:
        step = next(step for step in oracle.steps(at, node) if step.text == text)
        conditions.append(step.condition)
        node = step.node
    expected = oracle.fields_of(at, node)
    result = [a for a in afterstates(view(game, 0)) if oracle.record_of(a) == expected]
    assert len(result) == 1
    return tuple(conditions)


REST = "S5 H5 D5 C5 S6 H6 D6 C6 S7 H7 D7 C7 S9 H9"
"""Cards that lose to 10s and above."""


def others(text: str, *, each: str = "") -> list[str]:
    """Deal some cards to four hands."""
    held = text.split()
    return [" ".join(held[i::4]) for i in range(4)]


STRONG = others("SK HK DK CK SA HA DA CA S2 H2 D2 C2")


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("S8", 1),
        ("S8 D8", 1),
        ("H6 H7 JO=H8", 1),
        ("H6 H7", None),
        ("JO", 0),  # the spade 3 is out
        ("C4", 0),
        ("S8 JO=H8", 1),
    ],
)
def test_a_play_with_an_8_or_a_joker_in_its_place_ends_the_trick(text: str, condition: int) -> None:
    if condition is None:
        with pytest.raises(StopIteration):
            condition_after(position("S8 D8 H6 H7 JO C4 C5", *STRONG[:3], "S3 C2"), text)
        return
    assert (
        condition_after(position("S8 D8 H6 H7 JO C4 C5", *STRONG[:3], "S3 C2"), text) == condition
    )


def test_without_8_cuts_an_8_can_be_answered() -> None:
    rules = Rules(eight_cuts=False)
    assert condition_after(position("S8 D8 C4", *STRONG, rules=rules), "S8") == 0


def test_the_example_of_two_8s_and_a_3_is_one_action() -> None:
    game = position("S8 D8 S3 C4", *STRONG)
    assert chain(game, "S8 D8", "S3") == (1, 0)


def test_the_example_of_two_2s_an_8_and_a_4_is_one_action() -> None:
    """Once two 2s are laid, no pair is above them: the joker needs a card of its rank."""
    game = position("S2 D2 S8 S4 C5", *others("SK HK DK CK SA HA DA JO"))
    assert chain(game, "S2 D2", "pass", "S8", "S4") == (3, 4, 1, 0)
    assert condition_after(game, "S2") == 0  # the joker is unseen


def test_the_spade_3_cuts_on_a_lone_joker_alone() -> None:
    game = position("S3 S8 C4 D5", *STRONG, field="JO", last=4)
    assert condition_after(game, "S3") == 2
    assert condition_after(game, "pass") == 0
    assert chain(game, "S3", "C4") == (2, 0)
    assert condition_after(position("S3 C4", *STRONG), "S3") == 0  # a lead


def test_a_lone_joker_can_be_answered_by_an_unseen_spade_3_alone() -> None:
    for unseen, condition in [("S3", 0), ("H3", 3)]:
        game = position("JO C4 D5", "HK HA", "DK DA", "CK", "CA", unseen=unseen)
        assert condition_after(game, "JO") == condition


@pytest.mark.parametrize(
    ("text", "unseen", "condition"),
    [
        ("SA", "HA DA SK HK", 3),  # no 2 and no joker remain
        ("SA", "HA DA SK H2", 0),
        ("SA", "HA DA SK JO", 0),
        ("SA CA", "HK DK S2 SK", 3),  # a single 2 answers no pair
        ("SA CA", "HK DK S2 JO", 0),  # but with the joker it does
        ("SA CA", "HK DK S2 H2", 0),
        ("HT HJ HQ", "DK DA D2 SK", 0),
        ("HT HJ HQ", "DK DA C2 SK", 3),
        ("HT HJ HQ", "DK DA JO SK", 0),  # D K A and the joker above or as a 2
        ("C4", "HA DA SK HK", 0),
    ],
)
def test_a_play_that_no_unseen_cards_answer_brings_the_turn_back(
    text: str, unseen: str, condition: int
) -> None:
    held = others(unseen + " S4 H4 D4 S5 H5 D5 S6 H6 D6 S7 H7")
    assert condition_after(position("SA CA HT HJ HQ C4 C5 C7", *held), text) == condition


def test_under_a_revolution_nobody_beats_a_3() -> None:
    game = position("S3 SA C4 D5 H6", *others("HA DA SK HK S5 H5 D5 C5"))
    game["revolution"] = 1
    assert condition_after(game, "S3") == 3
    assert condition_after(game, "SA") == 0
    assert condition_after(game, "C4") == 3  # no 3 is unseen


def test_a_lock_leaves_fewer_answers() -> None:
    """On a heart, a heart locks: then the spade A cannot answer any more."""
    game = position("HQ DQ C4", *others("SA SK DK S4 D4 S5 D5 S6"), field="HJ", last=4)
    assert condition_after(game, "HQ") == 3
    assert condition_after(game, "DQ") == 0
    free = position(
        *("HQ DQ C4", *others("SA SK DK S4 D4 S5 D5 S6")),
        field="HJ",
        last=4,
        rules=Rules(locks=False),
    )
    assert condition_after(free, "HQ") == 0


def test_a_revolution_is_in_force_for_those_who_answer_it() -> None:
    """Four 4s turn the ranks around: only four 3s would beat them, and four As do not."""
    held = others("SA HA DA CA SK HK DK CK S9 H9 D9 C9 ST HT DT CT")
    hand, fours = "S4 H4 D4 C4 CQ DJ", "S4 H4 D4 C4"
    assert condition_after(position(hand, *held), fours) == 3
    assert condition_after(position(hand, *held, rules=Rules(revolutions=False)), fours) == 0


FOURS = "H4 D4 C4 S4 C5 H6 D7"


@pytest.mark.parametrize(
    ("hands", "passed", "condition"),
    [
        (["S3 H3 D3", "C3 SK HK", "DK", "CK"], "", 3),  # all hold at most 3
        (["S3 H3 D3 C3", "SK HK", "DK", "CK"], "", 0),
        (["S3 H3 D3 SA", "C3 SK HK", "DK", "CK"], "", 0),  # the cards might be together
        (["S3 H3 D3 C3", "SK HK", "DK", "CK"], "1", 3),  # the one that could answer has passed
        (["S3 H3 D3 C3", "SK HK", "DK", "CK"], "2", 0),
    ],
)
def test_four_cards_cannot_be_answered_if_all_who_have_not_passed_hold_at_most_three(
    hands: list[str], passed: str, condition: int
) -> None:
    """After the revolution, 3s are strong."""
    assert condition_after(position(FOURS, *hands, passed=passed), "S4 H4 D4 C4") == condition


def test_after_a_cut_those_who_had_passed_can_answer_again() -> None:
    hands = ["SK HK DK CK", "SA", "HA", "DA"]
    game = position("S8 ST HT DT C4 D5", *hands, field="S7", last=4, passed="1")
    assert chain(game, "S8", "ST HT DT") == (1, 0)
    short = position("S8 ST HT DT C4 D5", "SK HK", "DK CK", "HA", "DA", field="S7", last=4)
    assert chain(short, "S8", "ST HT DT", "pass", "C4") == (1, 3, 4, 0)


def test_a_player_may_follow_on_its_own_unanswered_play() -> None:
    game = position("SA H2 C4 D5 H6", *others("SK HK DK CK SQ HQ DQ CQ"))
    assert chain(game, "SA", "H2", "pass", "C4") == (3, 3, 4, 0)
    assert chain(game, "SA", "pass", "C4") == (3, 4, 0)


def test_a_pass_after_all_others_have_passed_brings_the_lead() -> None:
    game = position("SA C4 D5 H6", "SK", "HK", "DK", "CK CQ", field="SQ", last=0, passed="1234")
    assert condition_after(game, "pass") == 4
    assert chain(game, "pass", "C4") == (4, 0)
    assert condition_after(position("SA C4 D5 H6", *STRONG, field="SQ", last=4), "pass") == 0


def test_players_that_have_passed_cannot_answer() -> None:
    game = position("SK C4 D5 H6", "S2", "H2", "D2", "C2 CQ", field="SQ", last=0, passed="1234")
    assert condition_after(game, "SK") == 3
    assert chain(game, "SK", "pass", "C4") == (3, 4, 0)


@pytest.mark.parametrize(
    ("last", "hands", "condition"),
    [
        (4, ["H2", "D2", "C2", ""], 4),  # 4 is out: the next seat is that of 0
        (3, ["H2", "D2", "", ""], 4),  # so are 3 and 4
        (3, ["H2", "D2", "", "C2"], 0),  # 4 leads
        (1, ["", "D2", "C2", ""], 0),  # 2 leads
        (2, ["H2", "D2", "C2", ""], 0),  # 2 leads
    ],
)
def test_if_all_have_passed_and_the_last_is_out_the_next_seat_leads(
    last: int, hands: list[str], condition: int
) -> None:
    passed = "".join(str(i + 1) for i, hand in enumerate(hands) if hand)
    game = position("SA C4 D5 H6", *hands, field="SQ", last=last, passed=passed)
    game["idle"] = 2
    assert condition_after(game, "pass") == condition
    for end in afterstates(view(game, 0)):
        if end["play"] == plays.PASS and condition == 0:
            assert end["field"] == plays.PASS  # the trick is over
            assert end["out"] == sum(1 << i for i, hand in enumerate(["x", *hands]) if not hand)


def test_at_the_limit_of_passes_the_game_ends_before_a_pass_brings_the_lead() -> None:
    for idle, condition in [(18, 4), (19, 0)]:
        game = position("SA C4 D5 H6", "SK", "HK", "DK", "CK", field="SQ", last=0, passed="1234")
        game["idle"] = idle
        assert condition_after(game, "pass") == condition


def test_the_turn_returns_after_all_others_have_passed_at_any_limit_of_passes() -> None:
    rules = Rules(idle_limit=1)
    game = position(
        "SK C4 D5 H6", "S2", "H2", "D2", "C2", field="SQ", last=0, passed="1234", rules=rules
    )
    assert condition_after(game, "SK") == 3
    assert chain(game, "SK", "pass") == (3, 0)  # which ends the game


def test_a_pass_on_the_lead_is_no_action() -> None:
    for seed in range(20):
        game = oracle.ending(random.Random(seed), 4, 6)
        game["field"] = game["passed"] = game["lock"] = 0
        game["last"] = game["turn"]
        assert plays.PASS not in afterstates(view(game, int(game["turn"])))["play"]


def test_a_pass_is_an_action_in_any_trick() -> None:
    game = position("SA C4", *others("SK HK DK CK S2 H2 D2 C2"), field="D5", last=3)
    after = next(a for a in afterstates(view(game, 0)) if a["play"] == plays.PASS)
    assert after["out"] == 1
    assert after["field"] == plays.parse("D5")
    assert after["hand"] == cards.parse("SA C4")


# Records


def test_a_record_is_the_position_as_the_player_sees_it() -> None:
    """By hand: seats 2 0 4 1 3, player 0 in turn, player 1 is out, player 3 has passed."""
    game = position("S4 C9 DA", "", "H9 DK", "HT", "C2 CK", field="H3", last=2, passed="3")
    game["seats"] = [2, 0, 4, 1, 3]
    game["classes"] = [0, 2, 1, 3, 4]
    game["given"][0] = cards.parse("C2 C7")
    after = next(a for a in afterstates(view(game, 0)) if a["play"] == plays.parse("S4"))
    played = [game["played"][p] | np.uint64(p == 0 and cards.parse("S4")) for p in (0, 4, 1, 3, 2)]
    assert after["hand"] == cards.parse("C9 DA")
    assert after["unseen"] == cards.parse("H9 DK HT C2 CK")
    assert after["played"].tolist() == [int(cards_) for cards_ in played]
    assert after["known"].tolist() == [cards.parse("C2"), 0, 0, 0]  # the C7 has been played
    assert after["left"].tolist() == [2, 2, 0, 1, 2]
    assert after["out"] == 0b01100
    assert (after["revolution"], after["lock"], after["field"]) == (0, 0, plays.parse("S4"))


def test_an_empty_hand_is_the_only_afterstate() -> None:
    game = position("S8 H8 C4", *STRONG)
    result = afterstates(view(game, 0))
    assert len(result) == 1
    assert result.dtype == AFTERSTATE
    assert result[0]["hand"] == 0
    assert result[0]["left"][0] == 0
    assert plays.text(result[0]["play"]) in ("S8", "H8", "S8 H8")


# Played out


def played_out(game: Game, steps: Iterator[oracle.Step]) -> Node | None:
    """Play an action, check when the turn returns, and return the node at its end."""
    me, out = int(game["turn"]), np.empty(plays.N_PLAYS, np.int64)
    for step in steps:
        assert game["turn"] == me
        play(game, plays.parse(step.text))
        if not step.node.hand:
            assert game["left"][me] == 0
            return None
        if not step.condition:
            return step.node
        while game["turn"] != me:
            assert game["turn"] >= 0
            assert write_legal(game, out) == 0
            play(game, plays.PASS)
        assert plays.text(int(game["field"])) == step.node.field
        assert (game["field"] == 0) == (step.condition in (1, 2, 4))
    raise AssertionError("an action has an end")


def end_as_played(at: Seen, game: Game, node: Node) -> None:
    """Check that a game right after an action agrees with the afterstate."""
    me = at.me
    assert game["turn"] != me or game["n_out"] >= 4
    assert game["hands"][me] == oracle.word(node.hand)
    if game["turn"] >= 0:
        actual = (plays.text(int(game["field"])), bool(game["revolution"]), bool(game["lock"]))
        assert actual == (node.field, node.revolution, node.lock)
        passed = sum(1 << player for player in node.passed)
        held = sum(1 << player for player in range(5) if game["left"][player])
        assert passed & held == game["passed"] & held


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES)
def test_the_turn_returns_within_an_action_for_all_hidden_cards(rules: str) -> None:
    rng, generator = random.Random(7), np.random.default_rng(7)
    conditions, ends = Counter[int](), 0
    positions = [oracle.ending(rng, rng.randint(2, 5), 6, RULES[rules]) for _ in range(60)]
    for game in positions + [game.copy() for game in oracle.in_games(7, 3, 7, RULES[rules])]:
        seen_ = view(game, int(game["turn"]))
        at = oracle.seen(seen_)
        for _ in range(6):
            steps = list(oracle.random_action(rng, at))
            whole = determinise(seen_, generator)
            conditions.update(step.condition for step in steps)
            node = played_out(whole, iter(steps))
            if node is not None:
                end_as_played(at, whole, node)
                ends += 1
    expected = {0, 3, 4} if rules not in ("two passes", "one pass") else {0}
    assert expected <= conditions.keys()
    assert ends > 100

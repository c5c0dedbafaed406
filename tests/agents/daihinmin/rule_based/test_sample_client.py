"""The sample client: examples of its description, an oracle, and recorded games."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from afterstate.agents.daihinmin.rule_based.players import SampleAgent
from afterstate.agents.daihinmin.rule_based.sample_client import sample_play
from afterstate.envs.daihinmin import cards, plays, rules
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.records.replay import dealt, parse_submission, read
from afterstate.envs.daihinmin.rules import Game, Rules
from afterstate.envs.daihinmin.views import legal_plays, view
from tests.oracles import sample_client as oracle
from tests.support.daihinmin.hands import NAMES, TEXTS

ROOT = Path(__file__).parents[4]
GAMES = Path(os.environ.get("AFTERSTATE_GAMES", ROOT.parent / "shared" / "uecda" / "games"))
"""The folder of all recorded games, which may be missing."""

Action = tuple[int, str]  # player and play


def laid(*actions: Action, revolution: bool = False) -> Game:
    """Return a game in which players have made these plays; nobody is in turn yet.

    Args:
        actions: player and play; the player gets the cards for it. `flow` instead of a play empties
            the field as after a trick.
        revolution: True if ranks are reversed before them.
    """
    game = new_match()
    game["revolution"] = revolution
    for player, text in actions:
        if text == "flow":
            game["field"] = game["lock"] = game["cut"] = game["passed"] = 0
            continue
        game["turn"] = player
        play = plays.parse(text)
        game["hands"][player] |= plays.CARDS[play]
        game["left"][player] += plays.SIZE[play] + 5
        if play == plays.PASS:
            rules.skip(game)
        else:
            rules.lay(game, play)
    game["cut"] = 0
    return game


def sample_answer(game: Game, hand: str) -> str:
    """Return the submission of the sample client as player 0 with this hand."""
    game["turn"] = 0
    game["hands"][0] = cards.parse(hand)
    game["left"][0] = len(hand.split())
    return plays.text(SampleAgent().choose(view(game, 0)))


def is_legal(game: Game, text: str) -> bool:
    """Return True if player 0 may make a play."""
    return bool(rules.is_legal(game, plays.parse(text)))


# Examples of the description


EXAMPLES = """
    D5 D6 D7 H9 JO    | empty    | 0 | 0 | JO=D4 D5 D6 D7
    D5 D6 D7 H9 JO    | empty    | 1 | 0 | JO=D4 D5 D6 D7
    D5 D6 D8 D9 SK JO | empty    | 0 | 0 | D5 D6 JO=D7 D8 D9
    SA S2 H4 H7 JO    | empty    | 0 | 0 | JO=SK SA S2
    SA S2 H4 H7 JO    | empty    | 1 | 0 | JO=SK SA S2
    H3 H4 SJ JO       | empty    | 0 | 0 | JO=H- H3 H4
    S4 H4 D9 JO       | empty    | 0 | 0 | S4 H4 JO=D4
    S4 H7 D9 JO       | empty    | 1 | 0 | JO=S9 D9
    S4 S5 S6 C4 C5 C6 | empty    | 0 | 0 | S4 S5 S6
    S4 S5 S6 C4 C5 C6 | empty    | 1 | 0 | C4 C5 C6
    S3 H3 D3 C3 JO    | empty    | 0 | 0 | S3 H3 D3 C3
    S9 H9 D9 C9 JO    | empty    | 0 | 0 | S9 H9 D9 C9 JO=X9
    S9 H9 CJ C2 JO    | D8       | 0 | 0 | CJ
    S9 H9 CJ C2 JO    | D8       | 0 | 1 | JO
    SJ HJ DK          | C8       | 0 | 0 | DK
    S3 S9             | JO       | 0 | 0 | pass
    SJ HJ DJ SK HK    | D8 C8    | 0 | 0 | SK HK
    S9 CJ HQ JO       | D8 C8    | 0 | 0 | S9 JO=H9
    D9 CJ HQ JO       | D8 C8    | 0 | 1 | D9 JO=C9
    S4 H4 S7 H7       | D8 C8    | 1 | 0 | S7 H7
    D8 D9 DT DJ       | C5 C6 C7 | 0 | 0 | D9 DT DJ
    D8 D9 CK JO       | C5 C6 C7 | 0 | 0 | JO=D7 D8 D9
    D7 D8 D9 JO       | C5 C6 C7 | 0 | 0 | D7 D8 D9
    D9 DT CK JO       | C5 C6 C7 | 0 | 0 | JO=D8 D9 DT
"""


@pytest.mark.parametrize("row", EXAMPLES.strip().splitlines())
def test_worked_examples_of_the_description(row: str) -> None:
    hand, field, rev, lock, expected = (cell.strip() for cell in row.split("|"))
    game = laid(*[] if field == "empty" else [(4, field)], revolution=rev == "1")
    game["lock"] = int(lock)
    assert sample_answer(game, hand) == expected
    names = hand.split()
    position = oracle.Question(
        [name for name in names if name != "JO"],
        "JO" in names,
        "" if field == "empty" else field,
        rev == "1",
        lock == "1",
        rev == "1",
    )
    assert oracle.submission(position) == expected


@pytest.mark.parametrize(
    ("field", "hand", "submitted"),
    [
        ("C5 C6 C7", "D8 D9 CK JO", "JO=D7 D8 D9"),  # the lowest block starts in the field's end
        ("C5 C6 C7", "D7 D8 D9 JO", "D7 D8 D9"),  # the joker would stand for a held card
        ("C5 C6 C7", "D8 DT CK JO", "D8 JO=D9 DT"),
        ("C5 C6 C7 C8", "H9 HT HJ JO", "JO=H8 H9 HT HJ"),
    ],
)
def test_a_joker_run_may_touch_the_field(field: str, hand: str, submitted: str) -> None:
    game = laid((4, field))
    assert sample_answer(game, hand) == submitted
    assert is_legal(game, submitted) == (submitted == "D8 JO=D9 DT")


@pytest.mark.parametrize(
    ("field", "hand", "submitted"),
    [
        ("C7 C8 C9", "D5 D6 CK JO", "JO=D4 D5 D6"),  # on top it would touch the field
        ("C5 C6 C7", "D3 D4 CK JO", "JO=D- D3 D4"),
        ("C7 C8 C9", "D5 D6 D7 JO", "JO=D4 D5 D6"),
        ("C7 C8 C9", "D4 D6 CK JO", "D4 JO=D5 D6"),
    ],
)
def test_under_a_revolution_the_joker_goes_below_a_run(
    field: str, hand: str, submitted: str
) -> None:
    game = laid((4, field), revolution=True)
    assert sample_answer(game, hand) == submitted
    assert is_legal(game, submitted)


@pytest.mark.parametrize(
    ("before", "field", "hand", "overlapping"),
    [
        (False, "C5 C6 C7 C8 C9", "H4 H5 H6 H7 H8", "H4 H5 H6 H7 H8"),  # reads 9, must go under 5
        (True, "C5 C6 C7 C8 C9", "H6 H7 H8 H9 HT", "H6 H7 H8 H9 HT"),  # reads 5, must go over 9
        (False, "C6 C7 JO=C8 C9 CT", "SQ D4 D5 D6 D7 D8 D9", "D5 D6 D7 D8 D9"),
    ],
)
def test_after_a_run_that_reverses_the_order_the_wrong_end_is_read(
    before: bool, field: str, hand: str, overlapping: str
) -> None:
    game = laid((4, field), revolution=before)
    assert bool(game["revolution"]) is not before
    assert sample_answer(game, hand) == overlapping
    assert not is_legal(game, overlapping)
    later = laid((3, field), (4, "pass"), revolution=before)  # a pass, and it is read again
    assert sample_answer(later, hand) == "pass"


def test_a_group_that_reverses_the_order_is_read_right() -> None:
    for before, hand, answer in (
        (False, "S5 H5 D5 C5 S7 H7 D7 C7", "S5 H5 D5 C5"),
        (True, "S5 H5 D5 C5 S9 H9 D9 C9", "S9 H9 D9 C9"),
    ):
        game = laid((4, "S6 H6 D6 C6"), revolution=before)
        assert sample_answer(game, hand) == answer
        assert is_legal(game, answer)


@pytest.mark.parametrize("revolution", [False, True])
def test_with_four_3s_the_joker_is_forgotten(revolution: bool) -> None:
    game = laid(revolution=revolution)
    assert sample_answer(game, "S3 H3 D3 C3 JO H9 CQ") == "S3 H3 D3 C3"
    assert is_legal(game, "S3 H3 D3 C3")
    assert sample_answer(game, "S4 H4 D4 C4 JO H9 CQ") == "S4 H4 D4 C4 JO=X4"
    assert sample_answer(game, "S3 H3 D3 C3 C5 JO") == "C3 JO=C4 C5"  # a run comes first


RUN: list[Action] = [(1, "C9 CT CJ"), (1, "flow")]


@pytest.mark.parametrize(
    ("actions", "column", "revolution", "misread"),
    [
        ([*RUN, (4, "JO")], 14, True, True),
        ([*RUN, (3, "pass"), (4, "JO"), (2, "pass")], 14, True, True),
        ([(1, "C9 CT JO=CJ"), (1, "flow"), (4, "S9")], 14, True, False),  # no joker
        ([*RUN, (4, "JO")], 0, True, False),  # where the client puts it
        ([*RUN, (4, "JO")], 13, True, False),
        ([*RUN, (4, "JO")], 14, False, False),
        ([*RUN, (3, "S9 H9"), (3, "flow"), (4, "JO")], 14, True, False),
        ([*RUN, (3, "H6"), (4, "JO")], 14, True, False),  # not led
        ([(3, "S9 H9"), (3, "flow"), (4, "JO")], 14, True, False),
    ],
)
def test_a_lone_joker_led_after_a_run_under_a_revolution_is_misread(
    actions: list[Action], column: int, revolution: bool, misread: bool
) -> None:
    game = laid(*actions, revolution=revolution)
    game["joker_column"] = column
    highest = "DK" if misread else "pass"
    if game["field"] == plays.LONE_JOKER:
        assert sample_answer(game, "H5 D7 DK SA HA") == highest  # the highest loose single
        assert not misread or not is_legal(game, "DK")
        assert sample_answer(game, "S3 H4 D4") == ("S3" if misread else "pass")
        assert is_legal(game, "S3")
        assert sample_answer(game, "S3 H3 D4 H4") == "pass"
    else:
        assert sample_answer(game, "H5 D7 DK SA HA") == "D7"


def test_no_run_is_led_where_the_rules_have_none() -> None:
    game = laid(revolution=False)
    assert sample_answer(game, "S3 S4 S5 D7 H7") == "S3 S4 S5"
    game["sequences"] = 0
    assert sample_answer(game, "S3 S4 S5 D7 H7") == "H7 D7"
    assert sample_answer(game, "S3 S4 S5") == "S3"


def test_a_led_joker_is_written_to_the_strongest_column() -> None:
    for revolution in (False, True):
        game = laid(revolution=revolution)
        assert sample_answer(game, "JO") == "JO"
        rules.lay(game, plays.LONE_JOKER)
        assert (0, game["joker_column"]) == oracle.own_joker_cell(revolution)


# The oracle


def clumped_deal(rng: random.Random) -> list[int]:
    """Return five hands in which cards of a suit or a rank lie together."""
    by_suit, noise = rng.random() < 0.5, rng.choice([2, 5, 20])
    place = {card: (13 * (card % 4) if by_suit else 3 * (card // 4)) for card in range(52)}
    order = sorted(
        range(52),
        key=lambda card: place[card] + (card // 4 if by_suit else card % 4) + noise * rng.random(),
    )
    order.insert(rng.randrange(53), cards.JOKER)
    ends = [0, 11, 22, 33, 43, 53]
    hands = [sum(1 << card for card in order[i:j]) for i, j in pairwise(ends)]
    return rng.sample(hands, 5)


def hand_near(field: str, rng: random.Random) -> int:
    """Return a hand of 1 to 11 cards, many of them close to those on the field."""
    if field == "JO" and rng.random() < 0.2:
        return cards.S3 | 0b0011 << 4 * rng.randint(1, 12)  # the spade 3 loose, and a pair
    naturals = [name for name in field.split() if not name.startswith("JO")]
    row, column = oracle.cell_of(rng.choice(naturals or ["S3", rng.choice(NAMES[:52])]))
    close = [4 * (c - 1) + row for c in range(max(1, column - 6), min(13, column + 6) + 1)]
    close += [4 * (c - 1) + r for c in (column - 1, column + 1) if 1 <= c <= 13 for r in range(4)]
    free = [card for card in range(52) if NAMES[card] not in naturals]
    size = rng.randint(1, 9)
    hand = set(rng.sample(close, min(len(close), rng.randint(0, size)))) & set(free)
    if rng.random() < 0.1:
        hand = set(range(4 * column - 4, 4 * column)) & set(free)
    hand |= set(rng.sample(free, max(size - len(hand), not hand)))
    joker = rng.random() < 0.5 and "JO" not in field
    return sum(1 << card for card in hand) | joker << cards.JOKER


def on_table(game: Game) -> str:
    """Return the cards on the field in notation; empty for none."""
    return TEXTS[game["field"]] if game["field"] else ""


def question(game: Game, oldrev: bool, mark: bool) -> oracle.Question:
    """Return the oracle's question for the player in turn."""
    hand = int(game["hands"][game["turn"]])
    return oracle.Question(
        [NAMES[card] for card in range(52) if hand >> card & 1],
        bool(hand >> cards.JOKER),
        on_table(game),
        bool(game["revolution"]),
        bool(game["lock"]),
        oldrev,
        (0, int(game["joker_column"])),
        mark,
    )


def drawn_play(game: Game, mark: bool, rng: random.Random) -> int:
    """Return a play, often a long run, a quad or a lone joker; on a lead the turn may move."""
    holder = rules.holder(game, np.uint64(1 << cards.JOKER))
    if not game["field"] and game["revolution"] and mark and holder >= 0 and rng.random() < 0.5:
        game["turn"] = holder
        return plays.LONE_JOKER
    legal = legal_plays(game)
    if not legal or rng.random() < 0.3:
        return plays.PASS
    joker_runs = [p for p in legal if plays.KIND[p] == plays.SEQUENCE and "=" in TEXTS[p]]
    if joker_runs and rng.random() < 0.3:
        return rng.choice(joker_runs)
    if rng.random() < 0.5:
        return max(legal, key=lambda play: (int(plays.SIZE[play]), rng.random()))
    return rng.choice(legal)


def positions(seed: int) -> Iterator[tuple[Game, oracle.Question]]:
    """Yield positions of random games and the oracle's question for each.

    The client's memory follows the oracle's reading of the field. In each position all players are
    asked, and some again with another hand and perhaps a lock.
    """
    rng = random.Random(seed)
    game = new_match(seed, Rules(class_reset_every=1))
    mark = oldrev = False
    while True:
        next_game(game)
        if rng.random() < 0.7:
            game["hands"] = clumped_deal(rng)
            game["left"] = [cards.count(hand) for hand in game["hands"]]
        game["turn"] = rng.randrange(5)
        while game["turn"] >= 0:
            turn = int(game["turn"])
            for player in range(5):
                game["turn"] = player
                held, lock = int(game["hands"][player]), int(game["lock"])
                if held:
                    yield game, question(game, oldrev, mark)
                if rng.random() < 0.4:
                    game["hands"][player] = hand_near(on_table(game), rng)
                    if game["field"] not in (plays.PASS, plays.LONE_JOKER):
                        game["lock"] = lock or rng.random() < 0.3
                    yield game, question(game, oldrev, mark)
                game["hands"][player], game["lock"] = held, lock
            game["turn"] = turn
            play, oldrev = drawn_play(game, mark, rng), bool(game["revolution"])
            rules.submit(game, play)
            if play == plays.LONE_JOKER:
                game["joker_column"] = rng.choice([0, 14, 14, rng.randrange(15)])
            mark = oracle.reread_mark(on_table(game), (0, int(game["joker_column"])), mark)
            rules.advance(game)


def kinds(game: Game, asked: oracle.Question, answer: str) -> Iterator[str]:
    """Yield the kinds of a position."""
    field, legal = int(game["field"]), rules.is_legal(game, plays.parse(answer))
    name = {0: "lead", 1: "single", 2: "group", 3: "run", 4: "lone joker"}[int(plays.KIND[field])]
    order = "in a revolution" if asked.rev else "in order"
    size = min(int(plays.SIZE[field]), 6)
    yield f"{name} of {size}" + (" with joker" if "=" in asked.field else "")
    yield f"{name} {order}" + (", locked" if asked.lock else "")
    yield f"hand of {len(asked.hand) + asked.joker}"
    if name == "run" and asked.rev != asked.oldrev:
        yield f"run that toggled, {order}"
        yield f"{'' if legal else 'il'}legal after a run that toggled"
    elif name == "run" and not legal:
        yield "run that touches"
    if name == "lone joker" and asked.run_mark and asked.joker_cell[1] == 14:
        yield f"misread joker {order}"
        yield f"misread joker, {'S3' if answer == 'S3' else 'illegal' if not legal else 'pass'}"
    if not asked.field and asked.joker and answer == "S3 H3 D3 C3":
        yield f"four 3s {order}"
    if "JO=X" in answer:
        yield "fifth card of a rank"


KINDS = {
    *("lead of 0", "single of 1", "lone joker of 1", "group of 5 with joker"),
    *(f"group of {n}{joker}" for n in (2, 3, 4) for joker in ("", " with joker")),
    *(f"run of {n}{joker}" for n in (3, 4, 5, 6) for joker in ("", " with joker")),
    *(
        f"{name} {order}{lock}"
        for name in ("single", "group", "run")
        for order in ("in order", "in a revolution")
        for lock in ("", ", locked")
    ),
    *("lead in order", "lead in a revolution"),
    *("lone joker in order", "lone joker in a revolution"),
    *(f"hand of {n}" for n in range(1, 12)),
    *("run that toggled, in order", "run that toggled, in a revolution", "run that touches"),
    *("legal after a run that toggled", "illegal after a run that toggled"),
    *("misread joker in a revolution", "misread joker, S3"),
    *("misread joker, illegal", "misread joker, pass"),
    *("four 3s in order", "four 3s in a revolution", "fifth card of a rank"),
}


def check_positions(n: int, seed: int) -> Counter[str]:
    """Compare the kernel with the oracle in `n` positions; return the count of each kind."""
    seen: Counter[str] = Counter()
    for number, (game, asked) in enumerate(positions(seed)):
        if number == n:
            return seen
        expected = oracle.submission(asked)
        assert TEXTS[sample_play(game)] == expected, asked
        seen.update(kinds(game, asked, expected))
    raise AssertionError("there are always more positions")


@pytest.mark.slow
def test_sample_play_equals_the_oracle_in_positions_of_random_games() -> None:
    seen = check_positions(60_000, seed=1)
    assert set(KINDS) - set(seen) == set()


@pytest.mark.exhaustive
def test_sample_play_equals_the_oracle_in_a_million_positions() -> None:
    seen = check_positions(1_000_000, seed=2)
    assert min(seen[kind] for kind in KINDS) >= 10


# Recorded games


class Compared(NamedTuple):
    """The numbers of compared answers of seats named `default`, and those that differ."""

    plays: int
    gifts: int
    wrong: list[str]


def compared(file: Path) -> Compared:
    """Replay the games of a file and ask the sample client wherever the recorded one was asked."""
    client, n_plays, n_gifts, wrong = SampleAgent(), 0, 0, []
    for entry in read(file):
        is_default = [name == "default" for name in entry.get("names", ())]
        if not any(is_default):
            continue
        game = dealt(entry)
        for gift in entry["exchange"]:
            giver = gift["from"]
            if gift["how"] == "auto":
                continue
            given = cards.parse(gift["cards"]) if gift["how"] == "chosen" else 0
            if is_default[giver]:
                n_gifts += 1
                if client.give(view(game, giver), int(game["to_give"])) != given:
                    wrong.append(f"{entry['match']} {entry['game']}: gift of {giver}")
            rules.give(game, given)
        for number, action in enumerate(entry["actions"], 1):
            player = action["p"]
            if is_default[player]:
                n_plays += 1
                if TEXTS[client.choose(view(game, player))] != action["m"]:
                    wrong.append(f"{entry['match']} {entry['game']}: action {number}")
            rules.play(game, parse_submission(action["m"]))
    return Compared(n_plays, n_gifts, wrong)


def test_recorded_sample_clients_of_this_repository_are_reproduced() -> None:
    results = [
        compared(file)
        for file in sorted((ROOT / "tests" / "data" / "daihinmin").glob("*.jsonl.gz"))
    ]
    assert sum(result.plays for result in results) > 500
    assert sum(result.gifts for result in results) > 10
    assert [wrong for result in results for wrong in result.wrong] == []


@pytest.mark.slow
@pytest.mark.skipif(not GAMES.is_dir(), reason="the folder of recorded games is missing")
def test_all_recorded_sample_clients_are_reproduced() -> None:
    results = {file.name.removesuffix(".jsonl.gz"): compared(file) for file in GAMES.glob("*.gz")}
    assert [wrong for result in results.values() for wrong in result.wrong] == []
    with_samples = {name for name, result in results.items() if result.plays}
    known = "full1 blau1def4 blaupol1def4 coldtoufu default5 ganesa1def4 mixtnd mixweak"
    if with_samples == set(known.split()):
        assert sum(result.plays for result in results.values()) == 89_371
        assert sum(result.gifts for result in results.values()) == 1_646
    assert with_samples

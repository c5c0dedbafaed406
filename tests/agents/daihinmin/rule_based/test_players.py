"""Players by rules: the sample client by its description, the heuristic by brute force."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from afterstate import agents
from afterstate.agents.daihinmin.play import find_player, play_match
from afterstate.agents.daihinmin.rule_based.heuristic import (
    Weights,
    _can_be_beaten,
    _hand_cost,
    _sequence_cost,
    _surely_out,
    heuristic_gift,
    heuristic_play,
)
from afterstate.agents.daihinmin.rule_based.players import HeuristicAgent, RandomAgent, SampleAgent
from afterstate.agents.daihinmin.rule_based.sample_client import sample_play
from afterstate.agents.daihinmin.values.softmax_policy import PRETRAINED, PolicyAgent
from afterstate.envs.daihinmin import cards, players, plays, rules
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.records.recording import legal_list
from afterstate.envs.daihinmin.records.replay import dealt, read, submission
from afterstate.envs.daihinmin.rules import Game, Options
from afterstate.envs.daihinmin.views import all_played, view
from tests.oracles import sample_client as oracle

ROOT = Path(__file__).parents[4]
GAMES = Path(os.environ.get("AFTERSTATE_GAMES", ROOT.parent / "shared" / "uecda" / "games"))
"""Where all recorded games are, if they are at hand."""
TEXTS = [plays.text(play) for play in range(plays.N_PLAYS)]
NAMES = [cards.card_text(card) for card in range(cards.N_CARDS)]

Action = tuple[int, str]  # player and play


def laid(*actions: Action, revolution: bool = False) -> Game:
    """A record in which players have made these plays one after another; nobody's turn yet.

    Args:
        actions: whoever plays is handed the cards for it. `pass` is one, and `flow` empties the
            field as after a trick.
        revolution: whether ranks are turned around before them.
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


def dealt_to(*hands: str, revolution: bool = False) -> Game:
    """A game in which player 0 is to lead and all hold just these cards; the rest is played."""
    game = new_match()
    held = [cards.parse(hand) for hand in hands] + [0] * (5 - len(hands))
    game["hands"] = held
    game["left"] = [cards.count(hand) for hand in held]
    game["played"][4] = cards.DECK & ~sum(held)
    game["places"] = -1
    game["turn"] = game["last"] = 0
    game["revolution"] = revolution
    return game


def on_field(game: Game, text: str) -> Game:
    """The game after player 4 has laid a play that he had beside his hand: player 0 is to move."""
    play = plays.parse(text)
    game["turn"] = 4
    game["hands"][4] |= plays.CARDS[play]
    game["left"][4] += plays.SIZE[play]
    game["played"][4] &= ~plays.CARDS[play]
    rules.lay(game, play)
    game["turn"] = 0
    return game


def sample_answer(game: Game, hand: str) -> str:
    """What the sample client, as player 0 with this hand, submits."""
    game["turn"] = 0
    game["hands"][0] = cards.parse(hand)
    return plays.text(SampleAgent().choose(view(game, 0)))


def is_legal(game: Game, text: str) -> bool:
    """Whether player 0 may make a play."""
    return bool(rules.is_legal(game, plays.parse(text)))


# The sample client: its description


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
    question = oracle.Question(
        [name for name in names if name != "JO"],
        "JO" in names,
        "" if field == "empty" else field,
        rev == "1",
        lock == "1",
        rev == "1",
    )
    assert oracle.submission(question) == expected


@pytest.mark.parametrize(
    ("field", "hand", "submitted"),
    [
        ("C5 C6 C7", "D8 D9 CK JO", "JO=D7 D8 D9"),  # the lowest block starts in the field's end
        ("C5 C6 C7", "D7 D8 D9 JO", "D7 D8 D9"),  # the card that is written for the joker, too
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
def test_in_a_revolution_the_joker_goes_below_a_run(field: str, hand: str, submitted: str) -> None:
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
def test_the_player_after_a_run_that_toggles_the_order_reads_its_wrong_end(
    before: bool, field: str, hand: str, overlapping: str
) -> None:
    game = laid((4, field), revolution=before)
    assert bool(game["revolution"]) is not before
    assert sample_answer(game, hand) == overlapping
    assert not is_legal(game, overlapping)
    later = laid((3, field), (4, "pass"), revolution=before)  # a pass, and it is read again
    assert sample_answer(later, hand) == "pass"


def test_a_group_that_toggles_the_order_has_one_column() -> None:
    for before, hand, answer in (
        (False, "S5 H5 D5 C5 S7 H7 D7 C7", "S5 H5 D5 C5"),
        (True, "S5 H5 D5 C5 S9 H9 D9 C9", "S9 H9 D9 C9"),
    ):
        game = laid((4, "S6 H6 D6 C6"), revolution=before)
        assert sample_answer(game, hand) == answer
        assert is_legal(game, answer)


@pytest.mark.parametrize("revolution", [False, True])
def test_beside_four_3s_the_joker_is_forgotten(revolution: bool) -> None:
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
def test_a_lone_joker_in_column_14_is_misread_when_led_after_a_run_in_a_revolution(
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


def test_the_joker_is_led_where_nothing_beats_it_in_the_order_of_the_day() -> None:
    for revolution in (False, True):
        game = laid(revolution=revolution)
        assert sample_answer(game, "JO") == "JO"
        rules.lay(game, plays.LONE_JOKER)
        assert (0, game["joker_column"]) == oracle.own_joker_cell(revolution)


# The sample client: the oracle


def clumped_deal(rng: random.Random) -> list[int]:
    """Five hands in which suits or ranks lie together, as they seldom do."""
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
    """A hand of 1 to 11 cards, many of them close to those on the field or to any."""
    if field == "JO" and rng.random() < 0.2:
        return cards.S3 | 0b0011 << 4 * rng.randint(1, 12)  # the spade 3 loose, and a pair
    naturals = [name for name in field.split() if not name.startswith("JO")]
    row, column = oracle.cell_of(rng.choice(naturals or ["S3", rng.choice(NAMES[:52])]))
    close = [4 * (c - 1) + row for c in range(max(1, column - 6), min(13, column + 6) + 1)]
    close += [4 * (c - 1) + r for c in (column - 1, column + 1) if 1 <= c <= 13 for r in range(4)]
    free = [card for card in range(52) if NAMES[card] not in naturals]
    size = rng.randint(1, 9)
    chosen = set(rng.sample(close, min(len(close), rng.randint(0, size)))) & set(free)
    if rng.random() < 0.1:
        chosen = set(range(4 * column - 4, 4 * column)) & set(free)
    chosen |= set(rng.sample(free, max(size - len(chosen), not chosen)))
    joker = rng.random() < 0.5 and "JO" not in field
    return sum(1 << card for card in chosen) | joker << cards.JOKER


def on_table(game: Game) -> str:
    """The cards on the field in notation; empty for none."""
    return TEXTS[game["field"]] if game["field"] else ""


def question(game: Game, oldrev: bool, mark: bool) -> oracle.Question:
    """What the oracle is told of the player in turn."""
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
    """A play that makes long runs, quads and lone jokers often; on a lead the turn may move."""
    holder = rules.holder(game, np.uint64(1 << cards.JOKER))
    if not game["field"] and game["revolution"] and mark and holder >= 0 and rng.random() < 0.5:
        game["turn"] = holder
        return plays.LONE_JOKER
    legal = legal_list(game)
    if not legal or rng.random() < 0.3:
        return plays.PASS
    joker_runs = [p for p in legal if plays.KIND[p] == plays.SEQUENCE and "=" in TEXTS[p]]
    if joker_runs and rng.random() < 0.3:
        return rng.choice(joker_runs)
    if rng.random() < 0.5:
        return max(legal, key=lambda play: (int(plays.SIZE[play]), rng.random()))
    return rng.choice(legal)


def positions(seed: int) -> Iterator[tuple[Game, oracle.Question]]:
    """Positions of random games: the record, and what the oracle is told.

    What the client remembers is followed here by the oracle's reading of the field. In each
    position all players are asked, and some with another hand, as if the suits were locked.
    """
    rng = random.Random(seed)
    game = new_match(seed, Options(class_reset_every=1))
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
    """The kinds of positions that this is one of."""
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
    """Compares the kernel with the oracle in n positions; returns how often each kind occurred."""
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


# The sample client: recorded games


class Compared(NamedTuple):
    """How many answers of seats named `default` were compared, and which differ."""

    plays: int
    gifts: int
    wrong: list[str]


def compared(file: Path) -> Compared:
    """Replays the games of a file and asks the sample client wherever the recorded one was."""
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
            chosen = cards.parse(gift["cards"]) if gift["how"] == "chosen" else 0
            if is_default[giver]:
                n_gifts += 1
                if client.give(view(game, giver), int(game["to_give"])) != chosen:
                    wrong.append(f"{entry['match']} {entry['game']}: gift of {giver}")
            rules.give(game, chosen)
        for number, action in enumerate(entry["actions"], 1):
            player = action["p"]
            if is_default[player]:
                n_plays += 1
                if TEXTS[client.choose(view(game, player))] != action["m"]:
                    wrong.append(f"{entry['match']} {entry['game']}: action {number}")
            rules.play(game, submission(action["m"]))
    return Compared(n_plays, n_gifts, wrong)


def test_recorded_sample_clients_of_this_repository_are_reproduced() -> None:
    found = [
        compared(file)
        for file in sorted((ROOT / "tests" / "data" / "daihinmin").glob("*.jsonl.gz"))
    ]
    assert sum(file.plays for file in found) > 500
    assert sum(file.gifts for file in found) > 10
    assert [wrong for file in found for wrong in file.wrong] == []


@pytest.mark.skipif(not GAMES.is_dir(), reason="the recorded games are not at hand")
def test_all_recorded_sample_clients_are_reproduced() -> None:
    found = {file.name.removesuffix(".jsonl.gz"): compared(file) for file in GAMES.glob("*.gz")}
    assert [wrong for file in found.values() for wrong in file.wrong] == []
    with_samples = {name for name, file in found.items() if file.plays}
    known = "full1 blau1def4 blaupol1def4 coldtoufu default5 ganesa1def4 mixtnd mixweak"
    if with_samples == set(known.split()):
        assert sum(file.plays for file in found.values()) == 89_371
        assert sum(file.gifts for file in found.values()) == 1_646
    assert with_samples


# The random player


def is_uniform(counts: Sequence[int]) -> bool:
    """Whether counts are as alike as draws with the same chance make them, but once in a million.

    The statistic of Pearson's test has the mean k - 1 and the variance 2 (k - 1).
    """
    mean, k = sum(counts) / len(counts), len(counts)
    statistic = sum((n - mean) ** 2 / mean for n in counts)
    return bool(abs(statistic - (k - 1)) < 6 * (2 * (k - 1)) ** 0.5)


@pytest.mark.parametrize("field", ["", "C4", "S6 H6"])
def test_the_random_player_takes_every_legal_play_alike_and_passes_only_where_it_follows(
    field: str,
) -> None:
    game = dealt_to("S3 D7 H7 S8 S9 ST JO CA", "C5 D9", "C3", "H8 C9", "DT")
    if field:
        on_field(game, field)
    agent, seen = RandomAgent(seed=1), view(game, 0)
    expected = {*legal_list(game), *([plays.PASS] if field else [])}
    drawn = Counter(agent.choose(seen) for _ in range(200 * len(expected)))
    assert set(drawn) == expected
    assert is_uniform(list(drawn.values()))


def test_the_random_player_gives_any_cards_that_it_holds() -> None:
    game = dealt_to("S3 D7 JO C2", "C5")
    agent, seen = RandomAgent(seed=1), view(game, 0)
    for n, pairs in ((1, 4), (2, 6)):
        drawn = Counter(agent.give(seen, n) for _ in range(200 * pairs))
        assert len(drawn) == pairs
        assert is_uniform(list(drawn.values()))
        for gift in drawn:
            assert cards.count(gift) == n
            assert gift & ~int(game["hands"][0]) == 0


def test_random_players_of_one_seed_play_alike() -> None:
    def played(seed: int) -> list[list[int]]:
        table = [RandomAgent(seed + i) for i in range(5)]
        return [match["actions"].tolist() for match in play_match(table, 3, seed=1)]

    assert played(7) == played(7)
    assert played(7) != played(8)


# The heuristic player


class Watched:
    """The heuristic player, with what must be true of every choice."""

    def __init__(self) -> None:
        self._agent = HeuristicAgent()
        self.finished = self.gifts = 0

    def choose(self, view: Game) -> int:
        """Its play: legal, no pass on a lead, and the whole hand if that is one play."""
        play, hand = self._agent.choose(view), view["hands"][view["turn"]]
        legal = legal_list(view)
        assert play in legal or (play == plays.PASS and view["field"] != plays.PASS)
        if any(plays.CARDS[other] == hand for other in legal):
            assert plays.CARDS[play] == hand
            self.finished += 1
        return play

    def give(self, view: Game, n: int) -> int:
        """Its gift: as many cards as asked for, of its hand, without the joker."""
        gift = self._agent.give(view, n)
        assert cards.count(gift) == n
        assert gift & ~int(view["hands"][view["turn"]]) == 0
        assert gift >> cards.JOKER == 0
        self.gifts += 1
        return gift


def points(table: Sequence[players.Player], n_games: int, seed: int) -> float:
    """The points a game of the first player."""
    *_, match = play_match(table, n_games, seed)
    return float(match["points"][0]) / n_games


@pytest.mark.slow
def test_the_heuristic_player_makes_4_points_a_game_against_sample_clients() -> None:
    watched = Watched()
    assert points([watched, *(SampleAgent() for _ in range(4))], 3_000, seed=3) >= 4.0
    assert watched.gifts > 2_000
    assert watched.finished > 1_000


def test_the_heuristic_player_beats_random_ones_clearly() -> None:
    table: list[players.Player] = [Watched(), *(RandomAgent(seed) for seed in range(4))]
    assert points(table, 600, seed=2) > 4.7


def test_heuristic_players_among_themselves_play_by_the_rules() -> None:
    watched = [Watched() for _ in range(5)]
    points(watched, 300, seed=4)
    assert all(player.finished for player in watched)


def test_the_heuristic_player_sees_no_more_of_a_game_than_its_view() -> None:
    agent, weights, asked = HeuristicAgent(), Weights(), Counter[bool]()
    match = new_match(5)
    for _ in range(100):
        next_game(match)
        while (turn := int(match["turn"])) >= 0:
            seen, n = view(match, turn), int(match["to_give"])
            asked[n > 0] += 1
            if n:
                gift = heuristic_gift(match, weights)
                assert agent.give(seen, n) == gift
                rules.give(match, gift)
            else:
                play = heuristic_play(match, weights)
                assert agent.choose(seen) == play
                rules.play(match, play)
    assert asked[True] == 2 * 99
    assert asked[False] > 3_000


@pytest.mark.parametrize("play", range(1, plays.N_PLAYS, 7))
def test_a_hand_that_is_one_play_is_played_at_once(play: int) -> None:
    hand = cards.text(plays.CARDS[play])
    others = [name for name in NAMES if name not in hand.split()]
    game = dealt_to(hand, *(" ".join(others[i::4]) for i in range(4)))
    assert plays.CARDS[HeuristicAgent().choose(view(game, 0))] == plays.CARDS[play]


def is_played_out(game: Game) -> bool:
    """Whether the heuristic player goes out before anyone lays a card, though all lay if they can.

    Args:
        game: player 0 is to move; it is played on.
    """
    agent = HeuristicAgent()
    while game["left"][0]:
        if game["turn"] == 0:
            rules.play(game, agent.choose(view(game, 0)))
        elif legal_list(game):
            return False
        else:
            rules.play(game, plays.PASS)
    return True


LOW_HANDS = ("H4 D4 D5 S7 H7 DJ DQ", "C4 D7 CK", "S5 D8", "H5 C5 C7 C8 D9 CT SJ CQ")
"""Hands of opponents without a joker, 3, ace or 2, three of a rank above T, or four of one."""


@pytest.mark.parametrize(
    ("hand", "field", "revolution", "first"),
    [
        ("H8 SA S4", "", False, {"H8", "SA"}),  # the 8 ends the trick, the ace is the highest
        ("H8 S8 S4", "", False, {"H8", "S8", "H8 S8"}),
        ("S6 H6 H8", "C3", False, {"H8"}),
        ("SA S4 H4", "CJ", False, {"SA"}),
        ("JO S6 H6", "H2", False, {"JO"}),  # the spade 3 is gone
        ("S3 S6 H6", "JO", False, {"S3"}),
        ("S6 H6 D6 C6 H3 S9", "", False, {"S6 H6 D6 C6"}),  # then the 3 is the highest
        ("H3 HT", "", True, {"H3"}),
        ("S3 HT ST", "C6", True, {"S3"}),
        ("C8 C9 CJ CQ JO S4", "", False, {"C8", "C8 C9 JO=CT", "C8 C9 JO=CT CJ CQ"}),
    ],
)
def test_certain_wins_are_played_out(
    hand: str, field: str, revolution: bool, first: set[str]
) -> None:
    mine = {*hand.split(), *field.split()}
    held = [" ".join(name for name in other.split() if name not in mine) for other in LOW_HANDS]
    game = dealt_to(hand, *held, revolution=revolution)
    if field:
        on_field(game, field)
    assert TEXTS[HeuristicAgent().choose(view(game, 0))] in first
    assert is_played_out(game)


def is_certain(game: Game) -> bool:
    """Whether player 0 leads and nobody can hinder him."""
    if game["turn"] != 0 or game["field"] != plays.PASS:
        return False
    hand = game["hands"][0]
    unseen = np.uint64(cards.DECK) & ~(hand | all_played(game))
    largest = int(game["left"][1:].max())
    return bool(_surely_out(hand, unseen, game["revolution"], largest, 3))


@pytest.mark.parametrize("field", ["", "CK"])
def test_a_certain_win_is_not_thrown_away_when_it_is_asked_on_its_own_cards(field: str) -> None:
    """After the ace, which nobody beats: three Ts, which nobody beats, and the last pair."""
    game = dealt_to("CA S6 H6 ST DT JO", *LOW_HANDS)
    if field:
        on_field(game, "DK")
    assert TEXTS[HeuristicAgent().choose(view(game, 0))] == "CA"
    assert is_played_out(game)


@pytest.mark.slow
def test_certain_wins_of_random_games_are_played_out() -> None:
    rng, agent, certain = random.Random(6), HeuristicAgent(), 0
    match = new_match(6, Options(class_reset_every=1))
    for _ in range(2_500):
        next_game(match)
        while match["turn"] >= 0 and match["left"][0]:
            if is_certain(match):
                certain += 1
                assert is_played_out(match)
                break
            legal = legal_list(match)
            if match["turn"] == 0:
                rules.play(match, agent.choose(view(match, 0)))
            else:
                rules.play(match, rng.choice(legal) if legal else plays.PASS)
    assert certain > 2_000


@pytest.mark.parametrize(
    ("hand", "field", "loose"),
    [
        ("S9 D9 CJ H3 D3", "H5", "CJ"),
        ("S6 H6 D9 ST C4", "D5", "D9"),
        ("SK HK CQ H6", "DT", "CQ"),
        ("S7 D7 C9 HJ SA DA", "C6", "C9"),
        ("ST HT SQ C4 D4 H6 SK", "C9", "SQ"),
    ],
)
def test_a_loose_card_follows_rather_than_one_of_a_pair(hand: str, field: str, loose: str) -> None:
    rng = random.Random(hand)
    others = [name for name in NAMES if name not in (*hand.split(), field)]
    for _ in range(20):
        rng.shuffle(others)
        game = dealt_to(hand, *(" ".join(others[10 * i : 10 * i + 9]) for i in range(4)))
        assert TEXTS[HeuristicAgent().choose(view(on_field(game, field), 0))] == loose


def test_the_heuristic_player_follows_its_weights() -> None:
    game = on_field(dealt_to("S9 D9 CJ H3 D3", *LOW_HANDS), "H6")
    passive = agents.make("daihinmin-heuristic", weights=Weights(lead=-100.0, danger=0.0))
    eager = agents.make("daihinmin-heuristic", weights=Weights(lead=100.0))
    assert passive.choose(view(game, 0)) == plays.PASS
    assert TEXTS[eager.choose(view(game, 0))] == "CJ"


# The heuristic player: its kernels against brute force


def legal_for(hand: int, field: int, revolution: bool) -> list[int]:
    """The legal plays of a hand on a field, with the suits free."""
    out = np.empty(plays.N_PLAYS, np.int64)
    n = plays.legal_plays(hand, field, revolution, False, True, out)
    return [int(play) for play in out[:n]]


def random_cards(rng: random.Random, n: int, among: int = cards.DECK) -> int:
    """Some cards of a set, or all; half of the time of neighbouring ranks."""
    free = [card for card in range(cards.N_CARDS) if among >> card & 1]
    if rng.random() < 0.5:
        start = rng.randrange(53)
        near = [card for card in free if card == cards.JOKER or abs(card - start) < 10]
        free = near if len(near) >= n else free
    return sum(1 << card for card in rng.sample(free, min(n, len(free))))


def answers(unseen: int, play: int, revolution: bool, largest: int = 53) -> list[int]:
    """What one player could lay on a play if he held any of the unseen cards."""
    if plays.CUTS_AS_8[play]:
        return []
    return [other for other in legal_for(unseen, play, revolution) if plays.SIZE[other] <= largest]


def test_a_play_can_be_beaten_if_the_unseen_cards_together_have_a_legal_one() -> None:
    rng, found = random.Random(1), Counter[tuple[int, bool]]()
    for number in range(30_000):
        play = number % (plays.N_PLAYS - 1) + 1
        unseen = random_cards(rng, rng.randint(1, 30), cards.DECK & ~int(plays.CARDS[play]))
        revolution, largest = rng.random() < 0.5, rng.choice([53, rng.randint(0, 11)])
        expected = bool(answers(unseen, play, revolution, largest))
        asked = (cards.text(unseen), TEXTS[play], revolution, largest)
        assert _can_be_beaten(unseen, play, revolution, largest) == expected, asked
        found[int(plays.KIND[play]), expected] += 1
    assert min(found[kind, expected] for kind in (1, 2, 3, 4) for expected in (False, True)) >= 3


def meld_cost(meld: Sequence[oracle.Cell], revolution: int, prices: Any, w: Weights) -> float:
    """The cost of cards as one part of a hand; infinite if they are none."""
    rows, columns = {row for row, _ in meld}, sorted(column for _, column in meld)
    if len(set(columns)) == 1:
        return float(prices[len(meld), columns[0]])
    if len(rows) == 1 and len(meld) >= 3 and columns[-1] - columns[0] == len(meld) - 1:
        return float(_sequence_cost(columns[0], len(meld), revolution, w))
    return float("inf")


def least_cost(hand: list[oracle.Cell], revolution: int, prices: Any, w: Weights) -> float:
    """The least cost of all divisions of a hand: its first card with any of the others."""
    if not hand:
        return 0.0
    costs = []
    for chosen in range(1, 2 ** len(hand), 2):
        meld = [cell for i, cell in enumerate(hand) if chosen >> i & 1]
        cost = meld_cost(meld, revolution, prices, w)
        if cost < float("inf"):
            rest = [cell for cell in hand if cell not in meld]
            costs.append(cost + least_cost(rest, revolution, prices, w))
    return min(costs)


def test_the_cost_of_a_hand_is_that_of_its_cheapest_division() -> None:
    """Of three or four of a rank not every pair is tried, so the cost may be above the least."""
    rng, w, exact = random.Random(3), Weights(), 0
    for number in range(2_000):
        prices = np.array([[rng.uniform(-1, 1) for _ in range(15)] for _ in range(5)])
        first, revolution = rng.randint(1, 9), number % 2
        near = [(row, column) for column in range(first, first + 5) for row in range(4)]
        cells = sorted(rng.sample(near, rng.randint(1, 7)), key=lambda cell: (cell[1], cell[0]))
        hand = sum(1 << 4 * (column - 1) + row for row, column in cells)
        least = least_cost(cells, revolution, prices, w)
        cost = _hand_cost(hand, revolution, prices, w)
        ranks = Counter(column for _, column in cells)
        if max(ranks.values()) <= 2:
            assert cost == pytest.approx(least), cards.text(hand)
            exact += 1
        else:
            assert cost >= least - 1e-9, cards.text(hand)
        with_joker = _hand_cost(hand | 1 << cards.JOKER, revolution, prices, w)
        assert with_joker <= cost - w.joker + 1e-9, cards.text(hand)
    assert exact > 500


def surely_out(hand: int, unseen: int, revolution: bool, largest: int) -> bool:
    """Whether a leader goes out, if any answer of the pooled opponents stops him."""
    for play in legal_for(hand, plays.PASS, revolution):
        rest = hand & ~int(plays.CARDS[play])
        order = revolution ^ bool(plays.REVOLVES[play])
        if not rest:
            return True
        if not answers(unseen, play, order, largest) and surely_out(rest, unseen, order, largest):
            return True
    return False


def test_a_hand_is_surely_out_if_no_answer_of_pooled_opponents_stops_it() -> None:
    rng, found = random.Random(4), Counter[tuple[bool, bool]]()
    for number in range(5_000):
        hand = random_cards(rng, rng.randint(1, 5))
        unseen = random_cards(rng, rng.randint(1, 12), cards.DECK & ~hand)
        revolution, largest = number % 2 == 1, rng.choice([53, rng.randint(1, 6)])
        expected = surely_out(hand, unseen, revolution, largest)
        asked = (cards.text(hand), cards.text(unseen), revolution, largest)
        assert _surely_out(hand, unseen, revolution, largest, 5) == expected, asked
        assert not _surely_out(hand, unseen, revolution, largest, 2) or expected, asked
        at_once = any(plays.CARDS[play] == hand for play in legal_for(hand, plays.PASS, False))
        found[at_once, expected] += 1
    assert found[False, True] > 100
    assert found[False, False] > 100


# By name


NAMED = {
    "daihinmin-random": RandomAgent,
    "daihinmin-sample": SampleAgent,
    "daihinmin-heuristic": HeuristicAgent,
}


def test_players_of_daihinmin_are_made_by_name() -> None:
    assert set(NAMED) <= set(agents.names())
    made = [agents.make(name) for name in NAMED]
    assert [type(player) for player in made] == list(NAMED.values())
    found = [find_player(name.removeprefix("daihinmin-")) for name in NAMED]
    assert [type(player) for player in found] == list(NAMED.values())
    assert [type(find_player(name)) for name in NAMED] == list(NAMED.values())
    for match in play_match([*made, *found[:2]], 4, seed=1):
        assert sorted(match["places"]) == [0, 1, 2, 3, 4]


def test_a_seed_reaches_every_player_who_plays_by_chance() -> None:
    """Whoever has no use for it is found, too."""
    game = dealt_to("S3 D7 H7 S8 S9 ST JO CA", "C5 D9", "C3", "H8 C9", "DT")
    for name in ("random", "mc", "policy", "daihinmin-mc", "sample", "heuristic"):
        drawn = []
        for seed in (5, 5, 6):
            player: Any = find_player(name, seed)
            if name.endswith("mc"):
                drawn.append(player.values(view(game, 0)).values.tolist())
            else:
                drawn.append([player.choose(view(game, 0)) for _ in range(30)])
        assert drawn[0] == drawn[1]
        assert name not in ("random", "mc", "daihinmin-mc") or drawn[1] != drawn[2]


def test_a_player_is_found_by_its_file() -> None:
    found: Any = find_player(str(PRETRAINED))
    assert isinstance(found, PolicyAgent)
    assert isinstance(agents.load(PRETRAINED), PolicyAgent)
    pytest.importorskip("torch")
    assert type(find_player(str(PRETRAINED.parent / "rank.safetensors"))).__name__ == "RankAgent"
    with pytest.raises(FileNotFoundError):
        find_player("nobody.npz")


def test_settings_reach_the_player_that_is_made() -> None:
    game = dealt_to("S3 D7 H7 S8 S9 ST JO CA", "C5 D9", "C3", "H8 C9", "DT")
    seeded = [agents.make("daihinmin-random", seed=5), RandomAgent(5), RandomAgent(6)]
    drawn = [[player.choose(view(game, 0)) for _ in range(50)] for player in seeded]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("daihinmin-random", {"sead": 1}, "daihinmin-random.*sead"),
        ("daihinmin-random", {"seed": "x"}, "seed.*x"),
        ("daihinmin-sample", {"seed": 1}, "daihinmin-sample"),
        ("daihinmin-heuristic", {"seed": 1}, "daihinmin-heuristic.*seed"),
        ("daihinmin-heuristic", {"weight": Weights()}, "daihinmin-heuristic.*weight"),
        ("daihinmin-nobody", {}, "daihinmin-nobody.*daihinmin-sample"),
    ],
)
def test_wrong_names_and_settings_are_refused(
    name: str, settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        agents.make(name, **settings)


@pytest.mark.parametrize("player", ["nobody", "expectimax", "", None, 3, Weights()])
def test_what_is_no_player_is_not_found(player: Any) -> None:
    with pytest.raises(ValueError, match="player"):
        find_player(player)


def test_any_object_with_the_two_methods_is_a_player() -> None:
    watched = Watched()
    assert find_player(watched) is watched

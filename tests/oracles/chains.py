"""Actions and afterstates once more, with sets, names and recursion; and positions to try them on.

An action is a list of plays. After all of them but the last the player is asked again, by one of
the four conditions of Kuwabara and Hoki (2018, section 5). Names and the rules of single plays are
those of `daihinmin_oracle.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from afterstate.envs.daihinmin import plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.rules import Game, Rules, draw_play, give, play
from tests.oracles import daihinmin as oracle

Cards = frozenset[str]
NOBODY: frozenset[int] = frozenset()


def names(word: int) -> Cards:
    """A card set as names."""
    return frozenset(name for bit, name in enumerate(oracle.PACK) if int(word) >> bit & 1)


def word(held: Cards) -> int:
    """Names as a card set."""
    return sum(1 << bit for bit, name in enumerate(oracle.PACK) if name in held)


# What a player sees


class Seen(NamedTuple):
    """The knowledge of the player in turn, with players by number."""

    me: int
    hand: Cards
    unseen: Cards
    field: str
    revolution: bool
    lock: bool
    left: tuple[int, ...]
    passed: frozenset[int]
    last: int
    idle: int
    seats: tuple[int, ...]
    played: tuple[Cards, ...]
    known: tuple[Cards, ...]
    sequences: bool
    locks: bool
    revolutions: bool
    eight_cuts: bool
    idle_limit: int


def seen(view: Game) -> Seen:
    """Return the knowledge of the player in turn, from a record."""
    me = int(view["turn"])
    hand, played = names(view["hands"][me]), tuple(names(cards_) for cards_ in view["played"])
    unseen = frozenset(oracle.PACK) - hand - frozenset().union(*played)
    known = [frozenset[str]()] * 5
    classes = view["classes"].tolist()
    if view["exchanges"] and classes[me] in (0, 1, 3, 4):
        known[classes.index(4 - classes[me])] = names(view["given"][me]) & unseen
    return Seen(
        me,
        hand,
        unseen,
        plays.text(int(view["field"])),
        bool(view["revolution"]),
        bool(view["lock"]),
        tuple(view["left"].tolist()),
        frozenset(player for player in range(5) if int(view["passed"]) >> player & 1),
        int(view["last"]),
        int(view["idle"]),
        tuple(view["seats"].tolist()),
        played,
        tuple(known),
        bool(view["sequences"]),
        bool(view["locks"]),
        bool(view["revolutions"]),
        bool(view["eight_cuts"]),
        int(view["idle_limit"]),
    )


class Node(NamedTuple):
    """A position within a decision; `passed` and `last` are players."""

    hand: Cards
    field: str
    revolution: bool
    lock: bool
    passed: frozenset[int]
    last: int
    idle: int


def root(at: Seen) -> Node:
    """Return the state at the start of the decision."""
    return Node(at.hand, at.field, at.revolution, at.lock, at.passed, at.last, at.idle)


# Actions


class Step(NamedTuple):
    """A play, why the player is asked again (0: he is not), and the position after it."""

    text: str
    condition: int
    node: Node


@cache
def all_plays(unseen: Cards, sequences: bool) -> list[str]:
    """Everything well-formed that can be laid with these cards."""
    return oracle.plays_of(set(unseen), sequences)


def waiting(at: Seen, node: Node) -> list[int]:
    """The others who hold cards and have not passed."""
    return [p for p in range(5) if p != at.me and at.left[p] > 0 and p not in node.passed]


def answerable(at: Seen, node: Node) -> bool:
    """Return True if another player may be able to answer the play on the field."""
    others = waiting(at, node)
    if not others:
        return False
    if at.idle_limit <= 5:
        return True  # as we read it: the game may end before all have passed
    size = len(node.field.split())
    if max(at.left[p] for p in others) < size:
        return False
    listed = all_plays(at.unseen, at.sequences)
    return any(oracle.may_follow(t, node.field, node.revolution, node.lock) for t in listed)


def leads_next(at: Seen, node: Node) -> bool:
    """Return True if the player leads when the trick ends now."""
    seat = at.seats.index(node.last)
    for player in at.seats[seat:] + at.seats[:seat]:
        if at.left[player] > 0:
            return player == at.me
    raise AssertionError("nobody holds cards")


def pass_step(at: Seen, node: Node) -> Step:
    """The pass, with condition 4."""
    if waiting(at, node):
        return Step("pass", 0, node._replace(passed=node.passed | {at.me}))
    flowed = Node(node.hand, "pass", node.revolution, False, NOBODY, at.me, node.idle + 1)
    goes_on = node.idle + 1 < at.idle_limit
    return Step("pass", 4 if goes_on and leads_next(at, node) else 0, flowed)


def play_step(at: Seen, node: Node, text: str) -> Step:
    """A play, with conditions 1 to 3."""
    laid, before = oracle.analyze(text), oracle.analyze(node.field)
    assert laid is not None and before is not None
    hand = node.hand - laid.cards
    large = (laid.kind == "group" and laid.size >= 4) or (
        laid.kind == "sequence" and laid.size >= 5
    )
    revolution = node.revolution ^ (at.revolutions and large)
    if before.kind == "joker single":
        return Step(text, 2, Node(hand, "pass", revolution, False, NOBODY, at.me, 0))
    if at.eight_cuts and laid.kind != "joker single" and laid.low <= 6 <= laid.high:
        return Step(text, 1, Node(hand, "pass", revolution, False, NOBODY, at.me, 0))
    lock = node.lock or (at.locks and before.kind != "pass" and laid.suits == before.suits)
    lock = lock and laid.kind != "joker single"
    after = Node(hand, text, revolution, lock, node.passed, at.me, 0)
    if answerable(at, after):
        return Step(text, 0, after)
    others = waiting(at, after)
    return Step(text, 3, after._replace(passed=node.passed | set(others), idle=len(others)))


def steps(at: Seen, node: Node) -> list[Step]:
    """All that the player can do; to pass on an empty field is no action."""
    listed = oracle.legal(set(node.hand), node.field, node.revolution, node.lock, at.sequences)
    steps = [play_step(at, node, text) for text in listed]
    return steps if node.field == "pass" else [pass_step(at, node), *steps]


FINISHED = Node(frozenset(), "pass", False, False, NOBODY, -1, 0)
"""For all that empties the hand."""


def ends(at: Seen) -> dict[Node, set[str]]:
    """Return the possible ends of the turn, each with the first plays that lead there."""

    @cache
    def below(node: Node) -> frozenset[Node]:
        nodes: set[Node] = set()
        for step in steps(at, node):
            nodes |= leaves(step)
        return frozenset(nodes)

    def leaves(step: Step) -> frozenset[Node]:
        if not step.node.hand:
            return frozenset([FINISHED])
        return below(step.node) if step.condition else frozenset([step.node])

    firsts: dict[Node, set[str]] = {}
    for step in steps(at, root(at)):
        for leaf in leaves(step):
            firsts.setdefault(leaf, set()).add(step.text)
    return firsts


def random_action(rng: random.Random, at: Seen) -> Iterator[Step]:
    """The steps of some action."""
    node = root(at)
    while True:
        step = rng.choice(steps(at, node))
        yield step
        if not step.node.hand or not step.condition:
            return
        node = step.node


# Afterstates

FIELDS = "hand unseen played known left out revolution lock field".split()
"""The fields of a record of `chains.AFTERSTATE` but the play that leads there."""


def fields_of(at: Seen, node: Node) -> dict[str, object]:
    """An afterstate field by field, as the record has it."""
    seat = at.seats.index(at.me)
    order = at.seats[seat:] + at.seats[:seat]
    played = list(at.played)
    played[at.me] |= at.hand - node.hand
    left = list(at.left)
    left[at.me] = len(node.hand)
    out = [p in node.passed or left[p] == 0 for p in order]
    return {
        "hand": word(node.hand),
        "unseen": word(at.unseen),
        "played": tuple(word(played[p]) for p in order),
        "known": tuple(word(at.known[p]) for p in order[1:]),
        "left": tuple(left[p] for p in order),
        "out": sum(bit << i for i, bit in enumerate(out)),
        "revolution": int(node.revolution),
        "lock": int(node.lock),
        "field": plays.parse(node.field),
    }


def record_of(after: np.void) -> dict[str, object]:
    """A record of `chains.AFTERSTATE` in the same way."""
    return {
        name: tuple(after[name].tolist()) if after[name].shape else int(after[name])
        for name in FIELDS
    }


# Positions


def in_games(seed: int, n_games: int, every: int, rules: Rules | None = None) -> Iterator[Game]:
    """Every so many-th turn of a random match. It is the game itself, which goes on."""
    rng, out = random.Random(seed), np.empty(plays.N_PLAYS, np.int64)
    match = new_match(seed, rules)
    for _ in range(n_games):
        next_game(match)
        n = rng.randrange(every)
        while match["turn"] >= 0:
            if match["to_give"]:
                hand = sorted(names(match["hands"][match["turn"]]))
                give(match, word(frozenset(rng.sample(hand, int(match["to_give"])))))
                continue
            if n % every == 0:
                yield match
            n += 1
            play(match, draw_play(match, out) if rng.random() < 0.8 else plays.PASS)


def _set(game: Game, hands: list[Cards], on_field: Cards, last: int, rng: random.Random) -> None:
    """Deals hands, gives what lies on the field to who laid it, and the rest to anybody."""
    played = [set[str]() for _ in range(5)]
    played[last] |= on_field
    for name in set(oracle.PACK) - on_field - frozenset().union(*hands):
        played[rng.randrange(5)].add(name)
    for player in range(5):
        game["hands"][player] = word(hands[player])
        game["played"][player] = word(frozenset(played[player]))
        game["left"][player] = len(hands[player])
        if "D3" in hands[player] | played[player]:
            game["starter"] = player
    out = [player for player in range(5) if not hands[player]]
    game["places"] = -1
    for place, player in enumerate(rng.sample(out, len(out))):
        game["places"][player] = place
    game["n_out"] = len(out)


def ending(rng: random.Random, n_left: int, most: int, rules: Rules | None = None) -> Game:
    """A position with few cards left that the rules allow.

    Args:
        rng: draws it.
        n_left: how many players hold cards.
        most: how many cards they hold at most.
        rules: the rules.
    """
    game = new_match(rng.getrandbits(64), rules)
    game["number"] = 1
    seats = rng.sample(range(5), 5)
    game["seats"] = seats
    pack = list(oracle.PACK)
    rng.shuffle(pack)
    if rng.random() < 0.5:  # strong cards make chains
        pack.sort(key=lambda name: name[1] not in "8A2O" and rng.random() < 0.6)
    hands = [frozenset[str]()] * 5
    for player in rng.sample(range(5), n_left):
        n = rng.randint(1, most)
        hands[player], pack = frozenset(pack[:n]), pack[n:]
    playing = [player for player in range(5) if hands[player]]
    last, text = rng.choice(range(5)), "pass"
    if rng.random() < 0.75:
        text = rng.choice(_fields(rng, set(rng.sample(pack, min(12, len(pack)))), game))
    elif last not in playing:
        last = rng.choice(playing)
    field = oracle.analyze(text)
    assert field is not None
    turn = rng.choice(playing)
    circle = [seats[(seats.index(last) + i) % 5] for i in range(6)]
    before = circle[1 if text != "pass" else 0 : circle.index(turn, text != "pass")]
    between = {player for player in before if player in playing} - {turn}
    passed = set(between)
    for player in playing:
        if text != "pass" and player not in (turn, last) and rng.random() < 0.4:
            passed.add(player)
    _set(game, hands, field.cards, last, rng)
    game["turn"], game["last"], game["field"] = turn, last, plays.parse(text)
    game["passed"] = sum(1 << player for player in passed)
    game["idle"] = min(len(between), int(game["idle_limit"]) - 1)
    game["revolution"] = rng.random() < 0.3 and bool(game["revolutions"])
    game["lock"] = text not in ("pass", "JO") and rng.random() < 0.3 and bool(game["locks"])
    return game


def _fields(rng: random.Random, held: set[str], game: Game) -> list[str]:
    """Plays of some size that can lie on the field."""
    answers = []
    for text in oracle.plays_of(held, bool(game["sequences"])):
        shape = oracle.analyze(text)
        assert shape is not None
        cuts = shape.kind != "joker single" and shape.low <= 6 <= shape.high
        if not (cuts and game["eight_cuts"]):
            answers.append(text)
    sizes = sorted({len(text.split()) for text in answers})
    size = rng.choice(sizes[:3])
    return [text for text in answers if len(text.split()) == size]


def position(
    *hands: str,
    field: str = "pass",
    last: int = 0,
    passed: str = "",
    unseen: str = "",
    rules: Rules | None = None,
) -> Game:
    """A position with player 0 in turn, seats in the order of numbers; what is not told is played.

    Args:
        hands: by player; nobody else holds cards.
        field: what player `last` has laid.
        last: who leads next if nobody plays.
        passed: the numbers of those who have passed.
        unseen: more cards that the others hold: they are added to the last hand.
        rules: the rules.
    """
    assert not unseen or len(hands) > 1
    held = [frozenset(hand.split()) for hand in hands] + [frozenset[str]()] * (5 - len(hands))
    held[len(hands) - 1] |= frozenset(unseen.split())
    game = new_match(1, rules)
    game["number"] = 1
    shape = oracle.analyze(field)
    assert shape is not None
    _set(game, held, shape.cards, last, random.Random(1))
    game["turn"], game["last"], game["field"] = 0, last, plays.parse(field)
    game["passed"] = sum(1 << int(player) for player in passed)
    return game

"""Daihinmin on the page: matches, hints and recorded games follow the rules."""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from afterstate.envs.daihinmin import cards, plays, rules
from afterstate.envs.daihinmin.records import replay
from afterstate.envs.daihinmin.views import legal_plays
from afterstate.web import choices, game_daihinmin
from tests.web.conftest import Server, Visitor

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data" / "daihinmin"
FOUR: list[dict[str, Any]] = [{"name": "daihinmin-heuristic"}] * 2 + [
    {"name": "daihinmin-sample"}
] * 2
SPECS = [choices.player_spec("daihinmin", each["name"], {}) for each in FOUR]
FIVE = [*FOUR, {"name": "daihinmin-policy"}]


def play_on(visitor: Visitor, state: Any) -> Any:
    """Play a game to its end, by hints where it is the visitor's turn."""
    while not state["over"]:
        turn = state["turn"]
        if not state["is_mine"]:
            state = visitor.post("daihinmin/advance", turn=turn)
            continue
        hint = visitor.post("daihinmin/hint", player={"name": "daihinmin-heuristic"})
        if state["to_give"]:
            assert len(hint["cards"]) == state["to_give"]
            state = visitor.post("daihinmin/give", cards=hint["cards"], turn=turn)
        else:
            legal = [0, *(play["play"] for play in state["legal"])]
            assert hint["play"] in legal
            state = visitor.post("daihinmin/play", play=hint["play"], turn=turn)
    return state


def test_a_match_with_exchange_is_played_to_its_end(visitor: Visitor) -> None:
    state = visitor.post("daihinmin/new", players=FOUR, seed=4, n_games=4)
    gave = False
    for number in range(1, 5):
        assert state["number"] == number and len(state["hands"][0]) in range(8, 14)
        assert state["hands"][1:] == [None] * 4
        gave |= bool(state["is_mine"] and state["to_give"])
        state = play_on(visitor, state)
        assert sorted(state["results"][-1]) == [0, 1, 2, 3, 4]
        assert sum(state["points"]) == 15 * number
        if number < 4:
            state = visitor.post("daihinmin/next", turn=state["turn"])
    assert state["match_over"]
    assert visitor.refused("daihinmin/next", turn=state["turn"]) == (409, "the match is over")
    steps = visitor.get("daihinmin/steps")["steps"]
    assert steps[-1]["left"] == state["left"] and steps[-1]["in_turn"] == -1


def test_all_that_happened_is_kept(visitor: Visitor) -> None:
    state = visitor.post("daihinmin/new", players=FIVE, seed=4, n_games=2)
    events = list(state["events"])
    for _ in range(2):
        while not state["over"]:
            state = visitor.post("daihinmin/advance", turn=state["turn"])
            events += state["events"]
        if not state["match_over"]:
            state = visitor.post("daihinmin/next", turn=state["turn"])
            events += state["events"]
    assert visitor.get("daihinmin")["history"] == events
    assert [each for each in events if "is dealt" in each] == [
        "Game 1 is dealt.",
        "Game 2 is dealt.",
    ]
    assert sum(each.startswith("Exchange, ") for each in events) == 4
    assert "An 8 ends the trick." in events


def test_only_the_last_events_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(game_daihinmin, "MAX_EVENTS", 5)
    match = game_daihinmin.new([None, *SPECS], 1, 2)
    _finish(match)
    assert len(match.events) == 5 and match.events[-1] == "The game is over."


def test_the_daifugo_chooses_its_gift() -> None:
    match = game_daihinmin.new([None, *SPECS], 1, 2)
    game = game_daihinmin.decode(match.record)
    assert not game["to_give"]
    for seed in range(20):
        match = game_daihinmin.new([None, *SPECS], seed, 2)
        _finish(match)
        game_daihinmin.begin_next(match)
        state = game_daihinmin.state(match, False)
        if state["is_mine"] and state["to_give"]:
            break
    n, hand = state["to_give"], state["hands"][0]
    with pytest.raises(ValueError, match=f"a gift must be {n} of the player's cards"):
        game_daihinmin.apply(match, {"gift": 0})
    with pytest.raises(ValueError, match="cards must be given first"):
        game_daihinmin.apply(match, {"play": 0})
    gift = sum(1 << card for card in hand[:n])
    events = game_daihinmin.apply(match, {"gift": gift})
    assert re.fullmatch(r"Exchange, \{0\} to \{[1-4]\}: \S\S( \S\S)?\.", events[0]), events
    assert set(cards.text(gift).split()) == set(events[0][:-1].split()[4:])
    assert not set(hand[:n]) & set(game_daihinmin.state(match, False)["hands"][0])


def _finish(match: game_daihinmin.Match) -> None:
    """Play a game to its end with the first legal plays."""
    while game_daihinmin.in_turn(match)[0] >= 0:
        game = game_daihinmin.decode(match.record)
        legal = game_daihinmin._legal(game)
        game_daihinmin.apply(match, {"play": legal[0]["play"] if legal else 0})


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("play", {"play": 2422, "turn": 0}, 422),
        ("play", {"play": -1, "turn": 0}, 422),
        ("play", {"play": 0, "turn": 9}, 409),
        ("give", {"cards": [0], "turn": 0}, 409),
        ("give", {"cards": [53], "turn": 0}, 422),
        ("give", {"cards": [], "turn": 0}, 422),
        ("advance", {"turn": 7}, 409),
        ("next", {"turn": 0}, 409),
        ("hint", {"player": {"name": "expectimax"}}, 422),
        ("hint", {"player": {"name": "daihinmin-mc", "settings": {"playouts": 10**9}}}, 422),
        ("new", {"players": FOUR[:3]}, 422),
        ("new", {"players": FOUR, "n_games": 101}, 422),
        ("new", {"players": [{"name": "os:system"}] * 4}, 422),
        ("recorded", {"game": {}}, 422),
        ("recorded", {"game": {"deal": ["S3"] * 5}}, 422),
    ],
)
def test_bad_requests_change_nothing(
    visitor: Visitor, path: str, body: dict[str, Any], status: int
) -> None:
    visitor.post("daihinmin/new", players=FOUR, seed=1)
    before = visitor.get("daihinmin")
    assert visitor.refused(f"daihinmin/{path}", **body)[0] == status
    assert visitor.get("daihinmin") == before


def test_illegal_plays_are_refused(visitor: Visitor) -> None:
    state = visitor.post("daihinmin/new", players=FOUR, seed=1)
    while not state["is_mine"]:
        state = visitor.post("daihinmin/advance", turn=state["turn"])
    legal = {play["play"] for play in state["legal"]}
    wrong = next(number for number in range(1, 54) if number not in legal)
    status, text = visitor.refused("daihinmin/play", play=wrong, turn=state["turn"])
    assert status == 409 and "is not legal here" in text
    assert visitor.refused("daihinmin/steps", turn=0)[0] == 405


def test_all_hands_are_shown_only_if_asked(visitor: Visitor) -> None:
    visitor.post("daihinmin/new", players=FOUR, seed=1)
    assert visitor.get("daihinmin")["hands"][1:] == [None] * 4
    hands = visitor.get("daihinmin?reveal=true")["hands"]
    assert sorted(card for hand in hands for card in hand) == list(range(cards.N_CARDS))


def test_five_players_are_watched(visitor: Visitor) -> None:
    state = visitor.post("daihinmin/new", players=FIVE, seed=2, n_games=1)
    assert state["visitor"] is None and all(state["hands"])
    assert play_on(visitor, state)["match_over"]


@pytest.mark.parametrize("name", ["daihinmin-mc", "daihinmin-policy"])
def test_players_give_hints_with_what_they_think(visitor: Visitor, name: str) -> None:
    state = visitor.post("daihinmin/new", players=FOUR, seed=1)
    while not state["is_mine"]:
        state = visitor.post("daihinmin/advance", turn=state["turn"])
    hint = visitor.post("daihinmin/hint", player={"name": name})
    assert hint["play"] in [0, *(play["play"] for play in state["legal"])]
    assert bool(hint["listed"]) == (name == "daihinmin-mc")


def test_recorded_games_are_stepped_through(visitor: Visitor) -> None:
    with gzip.open(DATA / "mixstrong.jsonl.gz", "rt") as file:
        games = [json.loads(next(file)) for _ in range(3)]
    for game in games:
        result = visitor.post("daihinmin/recorded", game=game)
        assert result["mismatches"] == [] and result["names"] == game["names"]
        gifts = [each for each in result["steps"][0]["events"] if each.startswith("Exchange")]
        assert len(gifts) == len(game["exchange"])
        assert len(result["steps"]) == len(game["actions"]) + 1
        for action, step in zip(game["actions"], result["steps"][1:], strict=True):
            lock = bool(action["lock"]) and not action["flow"]  # it ends with the trick
            assert (step["left"], step["lock"]) == (action["left"], lock)
    games[0]["actions"][3]["nl"] += 1
    assert "nl" in visitor.post("daihinmin/recorded", game=games[0])["mismatches"][0]
    games[0]["names"][0] = "\ud800"
    body = json.dumps({"game": games[0]})
    headers = {"Content-Type": "application/json"}
    answer = visitor.client.post("/api/daihinmin/recorded", content=body, headers=headers)
    assert answer.status_code == 422 and "surrogates" in answer.json()["detail"]


def longest_game() -> Any:
    """Return a recorded game with as many passes as the rules allow."""
    with gzip.open(DATA / "mixstrong.jsonl.gz", "rt") as file:
        entry = json.loads(next(file))
    game, actions = replay.dealt(entry), list[str]()
    while game["turn"] >= 0:
        legal = legal_plays(game)
        number = legal[0] if legal and len(actions) % 20 == 19 else plays.PASS
        actions.append(plays.text(number))
        rules.play(game, number)
    return entry | {"actions": [{"m": text, "p": 0} for text in actions]}


def test_recorded_games_block_nobody(server: Server) -> None:
    game, other = longest_game(), server.visitor()
    visitors = [server.visitor() for _ in range(4)]
    statuses: list[int] = []

    def send(visitor: Visitor) -> None:
        statuses.append(visitor.send("daihinmin/recorded", json={"game": game}).status_code)

    for visitor in visitors:
        visitor.post("2048/new")
    threads = [threading.Thread(target=send, args=(visitor,)) for visitor in visitors]
    for thread in threads:
        thread.start()
    longest = 0.0
    while any(thread.is_alive() for thread in threads):
        start = time.monotonic()
        other.get("me")
        longest = max(longest, time.monotonic() - start)
        time.sleep(0.02)
    assert longest < 1.5 and {*statuses} <= {200, 503}  # 503 on a busy machine


def test_players_of_one_name_are_numbered() -> None:
    with gzip.open(DATA / "default5.jsonl.gz", "rt") as file:
        game = json.loads(next(file))
    assert game_daihinmin.recorded_steps(game)["names"] == [f"default {i}" for i in range(5)]


def test_places_of_one_play_are_listed_in_their_order() -> None:
    """The last play of a game gives two players their places."""
    with gzip.open(DATA / "default5.jsonl.gz", "rt") as file:
        games = [game_daihinmin.recorded_steps(json.loads(line)) for line in islice(file, 9)]
    ends = [game["steps"][-1]["events"][1:3] for game in games]
    places = [[text.split(": ")[1] for text in each] for each in ends]
    assert places == [["4th place.", "5th place."]] * 9


def test_nested_records_are_refused(visitor: Visitor) -> None:
    """Values nested almost as deep as Python reads them are not written by it."""
    headers = {"Content-Type": "application/json"}
    for depth in [*range(10, 900, 89), *range(900, 1000), 5000]:
        body = '{"game":{"a":' + "[" * depth + "]" * depth + "}}"
        answer = visitor.send("daihinmin/recorded", content=body, headers=headers)
        assert answer.status_code in (400, 422), (depth, answer.text)


def test_a_play_for_an_earlier_match_is_not_made(server: Server) -> None:
    watcher, second = server.visitor(), server.visitor()
    slow = {"name": "daihinmin-mc", "settings": {"playouts": 1500}}
    seats = [slow] * 5
    watcher.post("daihinmin/new", players=seats, seed=1)
    second.client.cookies = watcher.client.cookies
    second.post("2048/new", seed=1)
    results: list[tuple[int, str]] = []
    advance = partial(watcher.refused, "daihinmin/advance", turn=0)
    thread = threading.Thread(target=lambda: results.append(advance()))
    thread.start()
    second.wait_until_thinking()
    refused = second.refused("2048/undo", turn=0)  # a refusal changes no game
    before = second.post("daihinmin/new", players=seats, seed=1001)
    thread.join(60)
    assert refused == (409, "no move can be taken back")
    assert results == [(409, "the game has changed while the player was thinking")]
    status, text = watcher.refused("daihinmin/advance", turn=0)
    assert status == 409 and text.startswith("the game was continued in another window")
    now = second.get("daihinmin")
    assert now.pop("history") == before.pop("events") and now == before


def test_what_a_recorded_game_lacks_is_named(visitor: Visitor) -> None:
    status, text = visitor.refused("daihinmin/recorded", game={"deal": [], "names": []})
    assert status == 422 and text.startswith("a recorded game must have names, seats, ")
    assert text.endswith("missing: seats, class_reset, classes, exchange, actions")


def test_damaged_records_are_refused() -> None:
    match = game_daihinmin.new([None, *SPECS], 1, 2)
    data = match.model_dump()
    for record in ("", "%%", match.record[:-8], "A" * len(match.record)):
        with pytest.raises(ValueError):
            game_daihinmin.Match(**{**data, "record": record})

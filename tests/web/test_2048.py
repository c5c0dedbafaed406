"""2048 on the page: its games are those of the environment, and bad requests change nothing."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from afterstate import agents
from afterstate.agents.game2048.play import play
from afterstate.web import game_2048
from afterstate.web.thinking import analysis
from tests.web.conftest import Server, Visitor

pytestmark = pytest.mark.slow

FAST = {"name": "expectimax", "settings": {"depth": 2}}
SLOW = {"name": "expectimax", "settings": {"depth": 5}}
BOARD = [1, 2, 3, 4, 8, 7, 6, 5, 9, 10, 3, 2, 0, 1, 0, 0]


def test_moves_and_tiles_are_those_of_the_environment(visitor: Visitor) -> None:
    env = gym.make("afterstate:Game2048-v0")
    board, info = env.reset(seed=7)
    state = visitor.post("2048/new", seed=7)
    for turn in range(60):
        assert state["board"] == board.reshape(-1).tolist()
        assert state["legal"] == info["action_mask"].astype(bool).tolist()
        assert (state["score"], state["turn"]) == (info["score"], turn)
        action = int(np.flatnonzero(info["action_mask"])[turn % 2 - 1])
        board, reward, _, _, info = env.step(action)
        state = visitor.post("2048/move", action=action, turn=turn)
        assert state["after"] == info["afterstate"].reshape(-1).tolist()
        assert state["reward"] == reward


def test_moves_are_taken_back_with_their_chance(visitor: Visitor) -> None:
    start = visitor.post("2048/new", seed=7)
    action = start["legal"].index(True)
    moved = visitor.post("2048/move", action=action, turn=0)
    back = visitor.post("2048/undo", turn=1)
    assert back["board"] == start["board"] and back["can_undo"] == 0
    again = visitor.post("2048/move", action=action, turn=2)
    assert again["board"] == moved["board"]
    assert visitor.post("2048/undo", turn=3)["n_moves"] == 0
    assert visitor.refused("2048/undo", turn=4) == (409, "no move can be taken back")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("2048/move", {"action": 4, "turn": 0}, 422),
        ("2048/move", {"action": True, "turn": 0}, 422),
        ("2048/move", {"action": 0.5, "turn": 0}, 422),
        ("2048/move", {"action": 0, "turn": 5}, 409),
        ("2048/move", {"action": 3, "turn": 0}, 409),
        ("2048/move", {"turn": 0}, 422),
        ("2048/move", {"action": 0, "turn": 0, "more": 1}, 422),
        ("2048/undo", {"turn": 0}, 409),
        ("2048/new", {"seed": -1}, 422),
        ("2048/new", {"seed": 1 << 60}, 422),
        ("2048/new", {"board": [0] * 16}, 422),
        ("2048/new", {"board": [1] * 15}, 422),
        ("2048/new", {"board": [18] * 16}, 422),
        ("2048/hint", {"player": {"name": "nobody"}}, 422),
        ("2048/hint", {"player": {"name": "expectimax", "settings": {"depth": 6}}}, 422),
        ("2048/hint", {"player": {"name": "expectimax", "settings": {"network": "/x"}}}, 422),
        ("2048/hint", {"player": {"name": "daihinmin-mc"}}, 422),
        ("2048/run", {"player": FAST, "turn": 0, "moves": 10**6}, 422),
        ("2048/run", {"player": FAST, "turn": 0, "until": 100}, 422),
        ("2048/run", {"player": FAST, "turn": 1}, 409),
    ],
)
def test_bad_requests_change_nothing(
    visitor: Visitor, path: str, body: dict[str, Any], status: int
) -> None:
    before = visitor.post("2048/new", seed=5)
    code, text = visitor.refused(path, **body)
    assert (code, bool(text)) == (status, True)
    assert visitor.get("me")["game_2048"] == before


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("move", '{"action": 1,', "body must be JSON: Expecting property name enclosed in double"),
        ("move", '{"action": 1, "turn": 9}', "turn must be 0, got 9"),
        (
            "hint",
            '{"player": {"name": "expectimax", "settings": {"depth": true}}}',
            "depth must be an integer in 1..5, got True",
        ),
        (
            "hint",
            '{"player": {"name": "alphabeta", "settings": {"tiles": ["chance"]}}}',
            "tiles must be one of annoying, chance, got ['chance']",
        ),
    ],
)
def test_a_refusal_says_what_was_expected(
    visitor: Visitor, path: str, body: str, expected: str
) -> None:
    visitor.post("2048/new", seed=5)
    kind = {"Content-Type": "application/json"}
    answer = visitor.send(f"2048/{path}", content=body, headers=kind)
    assert answer.json()["detail"].startswith(expected)


def test_a_hint_is_the_move_of_the_player_with_all_values(visitor: Visitor) -> None:
    visitor.post("2048/new", board=BOARD)
    player: Any = agents.make("expectimax", depth=2)
    word = game_2048.word_batch(BOARD)
    hint = visitor.post("2048/hint", player=FAST, detail=True)
    assert hint["action"] == player.act(word)[0]
    values = [-np.inf if each is None else each for each in hint["values"]]
    assert values == player.evaluate(word)[0].tolist()
    assert sum(each["probability"] for each in hint["outcomes"]) == pytest.approx(1)
    assert hint["line"][0]["action"] == hint["action"]
    assert hint["by"] == "expectimax of depth 1"
    mean = sum(each["probability"] * each["value"] for each in hint["outcomes"])
    after, reward, _ = (each[hint["action"]] for each in game_2048.afterstates(BOARD))
    assert hint["line"][0]["after"] == after
    assert reward + mean == pytest.approx(max(values), rel=1e-3)


def test_the_tree_of_a_hint_has_the_visits_of_the_search(visitor: Visitor) -> None:
    visitor.post("2048/new", board=BOARD)
    hint = visitor.post("2048/hint", player={"name": "mc-softmax"}, detail=True)
    visits = {move["action"]: move["visits"] for move in hint["tree"]}
    assert [visits.get(action, 0) for action in range(4)] == hint["visits"]
    assert sum(hint["visits"]) == 199 and hint["counts"]["simulations"] == 200
    for move in hint["tree"]:
        assert hint["values"][move["action"]] == pytest.approx(move["value"])
        assert sum(each["visits"] for each in move["outcomes"]) <= move["visits"]


@pytest.fixture(scope="module")
def played() -> list[list[int]]:
    """Boards of ten games after 0 to 360 moves."""
    player, games = agents.make("ntuple"), [game_2048.new(seed) for seed in range(10)]
    for seed, game in enumerate(games):
        game_2048.let_play(player, game, 40 * seed)
    return [game.position.board for game in games]


@pytest.mark.parametrize(
    ("name", "settings"),
    [("alphabeta", {"depth": 3}), ("expectimax", {"depth": 3}), ("ntuple", {}), ("value-net", {})],
)
def test_hints_are_the_moves_of_the_player(
    name: str, settings: dict[str, int], played: list[list[int]]
) -> None:
    player = agents.make(name, **settings)
    for board in played:
        hint = analysis.hint(player, board, detail=False)
        assert hint["action"] == int(player.act(game_2048.word_batch(board))[0])
        values = [-np.inf if each is None else each for each in hint["values"]]
        assert hint["action"] == int(np.argmax(values))


def test_only_legal_moves_have_probabilities() -> None:
    board = [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]
    odds: Any = SimpleNamespace(
        act=lambda _: np.array([1]), probabilities=lambda _: np.array([[0.4, 0.1, 0.4, 0.1]])
    )
    hint = analysis.hint(odds, board, detail=False)
    assert hint["probabilities"] == [None, 1.0, None, None]


def test_a_policy_network_has_no_values_of_outcomes() -> None:
    player: Any = SimpleNamespace(act=lambda _: np.array([1]), network=object())
    assert "outcomes" not in analysis.hint(player, [1, *[0] * 15], detail=True)


def test_networks_see_tiles_beyond_32768_downgraded() -> None:
    hint = analysis.hint(agents.make("reward"), [16, 15, *[1] * 14], detail=False)
    assert max(hint["seen"]) == 15


@pytest.mark.parametrize("name", ["ntuple", "alphabeta", "reward", "random"])
def test_other_players_give_hints(visitor: Visitor, name: str) -> None:
    visitor.post("2048/new", board=BOARD)
    hint = visitor.post("2048/hint", player={"name": name}, detail=True)
    assert hint["action"] in range(4)
    assert ("values" in hint) == (name != "random")


def test_a_run_plays_the_game_of_the_player(visitor: Visitor) -> None:
    """The same score as in the leaderboard, whose games are those of `play`."""
    games = play(agents.make("reward", seed=3), 1, seed=3)
    visitor.post("2048/new", seed=3)
    played: list[Any] = []
    while not played or not played[-1]["over"]:
        body = {"player": {"name": "reward"}, "moves": 2000, "turn": len(played)}
        played += visitor.post("2048/run", **body)["played"]
    assert (played[-1]["score"], len(played)) == (games.scores[0], games.n_moves[0])


def test_the_moves_of_a_run_are_taken_back_one_by_one(visitor: Visitor) -> None:
    start = visitor.post("2048/new", seed=1)
    first = visitor.post("2048/move", action=start["legal"].index(True), turn=0)
    body = {"player": {"name": "ntuple"}, "moves": 210, "turn": 1}
    played = visitor.post("2048/run", **body)["played"]
    assert [each["can_undo"] for each in played[:3]] == [2, 3, 4]
    assert [each["turn"] for each in played] == list(range(2, 212))
    assert [each["can_undo"] for each in played][-1] == game_2048.MAX_UNDO
    boards = [first["board"], *(each["board"] for each in played)]
    for back in range(1, game_2048.MAX_UNDO + 1):
        state = visitor.post("2048/undo", turn=211 + back - 1)
        assert (state["board"], state["n_moves"]) == (boards[-1 - back], 211 - back)
    assert visitor.refused("2048/undo", turn=411)[0] == 409


def test_a_run_stops_at_a_tile(visitor: Visitor) -> None:
    visitor.post("2048/new", seed=1)
    body = {"player": {"name": "ntuple"}, "moves": 500, "turn": 0, "until": 256}
    played = visitor.post("2048/run", **body)["played"]
    assert played[-1]["max_tile"] == 256 and played[-2]["max_tile"] == 128


def test_a_slow_player_blocks_nobody_and_can_be_stopped(server: Server) -> None:
    slow, other = server.visitor(), server.visitor()
    slow.post("2048/new", seed=1)
    other.post("2048/new", board=BOARD)
    other.post("2048/hint", player=FAST)
    results: list[tuple[int, str]] = []
    body = {"player": SLOW, "moves": 2000, "turn": 0}
    thread = threading.Thread(target=lambda: results.append(slow.refused("2048/run", **body)))
    thread.start()
    time.sleep(0.8)
    assert server.visitor().post("stop") == {"stopped": False}
    start = time.monotonic()
    for _ in range(5):
        other.post("2048/hint", player=FAST)
    assert time.monotonic() - start < 3
    second = server.visitor()
    second.client.cookies = slow.client.cookies
    assert second.refused("2048/hint", player=FAST)[0] == 429
    assert second.post("stop") == {"stopped": True}
    thread.join(60)
    assert results == [(499, "the search was stopped")]
    assert slow.get("me")["game_2048"]["turn"] == 0


def test_moves_for_an_earlier_game_are_not_made(server: Server) -> None:
    player, second = server.visitor(), server.visitor()
    player.post("2048/new", seed=5)
    second.client.cookies = player.client.cookies
    results: list[tuple[int, str]] = []
    body = {"player": {"name": "expectimax", "settings": {"depth": 4}}, "moves": 30, "turn": 0}
    thread = threading.Thread(target=lambda: results.append(player.refused("2048/run", **body)))
    thread.start()
    second.wait_until_thinking()
    before = second.post("2048/new", seed=6)
    thread.join(60)
    assert results == [(409, "the game has changed while the player was thinking")]
    text = "the game was continued in another window"
    assert player.refused("2048/move", action=before["legal"].index(True), turn=0) == (409, text)
    assert second.get("me")["game_2048"] == before


def test_a_refused_change_leaves_a_running_search(server: Server) -> None:
    player, second = server.visitor(), server.visitor()
    player.post("2048/new", seed=5)
    player.post("daihinmin/new", players=[{"name": "daihinmin-sample"}] * 5, seed=1)
    second.client.cookies = player.client.cookies
    results: list[Any] = []
    body = {"player": {"name": "expectimax", "settings": {"depth": 4}}, "moves": 30, "turn": 0}
    thread = threading.Thread(target=lambda: results.append(player.post("2048/run", **body)))
    thread.start()
    second.wait_until_thinking()
    assert second.refused("2048/undo", turn=0) == (409, "no move can be taken back")
    assert second.refused("daihinmin/next", turn=0)[0] == 409
    thread.join(60)
    assert len(results[0]["played"]) == 30


def test_a_search_ends_at_its_time_limit(visitor: Visitor) -> None:
    visitor.post("2048/new", seed=1)
    body = {"player": SLOW, "moves": 2000, "turn": 0}
    start = time.monotonic()
    status, text = visitor.refused("2048/run", **body)
    assert status == 503 and "stopped after 8 s" in text
    assert time.monotonic() - start < 10


def test_searches_end_with_the_server(new_server: Callable[..., Server]) -> None:
    server = new_server()
    server.load()
    player, second = server.visitor(), server.visitor()
    player.post("2048/new", seed=5)
    second.client.cookies = player.client.cookies
    results: list[tuple[int, str]] = []
    body = {"player": SLOW, "moves": 2000, "turn": 0}
    thread = threading.Thread(target=lambda: results.append(player.refused("2048/run", **body)))
    thread.start()
    second.wait_until_thinking()
    start = time.monotonic()
    assert server.stop(signal.SIGINT) == 130
    assert time.monotonic() - start < 4  # nobody waits for the search
    thread.join(60)
    assert results == [(499, "the search was stopped")]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_games_survive_a_restart(new_server: Callable[..., Server], how: int) -> None:
    server = new_server()
    visitor = server.visitor()
    visitor.post("2048/new", seed=5)
    before = visitor.post("2048/move", action=1, turn=0)
    server.stop(how)
    server.restart()
    again = server.visitor()
    again.client.cookies = visitor.client.cookies
    game = again.get("me")["game_2048"]
    assert game["board"] == before["board"] and game["can_undo"] == 1
    assert server.visitor().get("me")["game_2048"] is None

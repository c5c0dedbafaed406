"""The client follows a match by the tables of the server, and its command reports errors."""

from __future__ import annotations

import logging
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate import agents
from afterstate.__main__ import main
from afterstate.envs.daihinmin import cards, players, plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.records import recording
from afterstate.envs.daihinmin.records.replay import dealt, parse_submission
from afterstate.envs.daihinmin.rules import ACCEPTED, REFUSED, Game, Rules, give
from afterstate.envs.daihinmin.uecda import client, tables
from afterstate.envs.daihinmin.uecda.client_view import ClientView
from afterstate.envs.daihinmin.uecda.guarded_player import GuardedPlayer, PlayerError
from afterstate.envs.daihinmin.uecda.tables import ProtocolError
from afterstate.envs.daihinmin.views import view
from tests.support.daihinmin.uecda_peers import SOON, RandomPlayer, Recorder, serving

SAME = """viewer hands played given left classes to_give gift turn field joker_column revolution
lock cut passed idle starter places n_out n_actions number seats""".split()
"""The fields of a view that a player may use; others are rules, seeds or compared separately."""


def difference(ours: Game, theirs: Game) -> dict[str, Any]:
    """Return the values of two views that differ."""
    names = SAME if theirs["to_give"] else [*SAME, "last"]
    result = {
        name: (ours[name].tolist(), theirs[name].tolist())
        for name in names
        if not np.array_equal(ours[name], theirs[name])
    }
    n = int(theirs["n_actions"])
    if not np.array_equal(ours["actions"][:n], theirs["actions"][:n]):
        result["actions"] = (ours["actions"][:n].tolist(), theirs["actions"][:n].tolist())
    return result


class Watched:
    """A match in this process, and five views of clients that read its tables."""

    def __init__(self, seed: int) -> None:
        self.match = new_match(seed, Rules(class_reset_every=5))
        self.client_views = [ClientView(player) for player in range(5)]
        self.field = tables.NOTHING

    def next_game(self, player: RandomPlayer) -> None:
        """Start the next game with the player's gifts for the rich."""
        match = self.match
        next_game(match)
        self.field = tables.NOTHING
        for client_view, table in zip(self.client_views, tables.start_tables(match), strict=True):
            client_view.read_start(table)
        while match["to_give"]:
            self.compare()
            give(match, player.give(view(match, int(match["turn"])), int(match["to_give"])))
        self.show_turn()

    def compare(self) -> None:
        """Check that the player in turn has the view of the same process."""
        turn = int(self.match["turn"])
        assert difference(self.client_views[turn].view, view(self.match, turn)) == {}
        assert self.client_views[turn].view["last"] == self.match["last"]

    def show_turn(self) -> None:
        """Send the turn tables."""
        for player, table in enumerate(tables.turn_tables(self.match)):
            assert self.client_views[player].read_turn(table) == (player == self.match["turn"])

    def act(self, play: int, joker: tuple[int, int] | None = None) -> None:
        """Play an action; send the field table and, unless the game is over, the turn tables."""
        read = (
            tables.read_submission(tables.play_table(play, joker)) if play >= 0 else tables.NOTHING
        )
        action = recording.play_and_record(self.match, play)
        if action["ack"] == ACCEPTED and play != plays.PASS:
            self.field = read
        state = tables.state_of(self.match)._replace(
            player=action["p"], lock=bool(action["lock"]), is_empty=self.field.play == plays.PASS
        )
        for client_view in self.client_views:
            client_view.read_field(tables.field_table(state, self.field.play, self.field.joker))
        self.field = tables.NOTHING if action["flow"] else self.field
        if self.match["turn"] >= 0:
            self.show_turn()


@pytest.mark.slow
def test_client_views_have_the_views_of_players_in_the_same_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched, player = Watched(seed=5), RandomPlayer(5)
    for number in range(1, 21):
        watched.next_game(player)
        while watched.match["turn"] >= 0:
            watched.compare()
            seen = view(watched.match, int(watched.match["turn"]))
            cell = 0, 0 if seen["revolution"] else 14
            # A play that is not legal counts as a pass.
            watched.act(7 if player.random.random() < 0.05 else player.choose(seen), cell)
        points = watched.match["points"].tolist()
        assert [client_view.points for client_view in watched.client_views] == [points] * 5
        assert points[0] <= 5 * number
    assert caplog.records == []


def test_drawn_places_are_known_from_the_next_classes() -> None:
    watched, player = Watched(seed=2), RandomPlayer(2)
    for _ in range(3):
        watched.next_game(player)
        while watched.match["turn"] >= 0:
            watched.act(plays.PASS)
    watched.next_game(player)
    for client_view in watched.client_views:
        assert client_view.points == watched.match["points"].tolist()


def test_client_views_see_the_cell_of_a_lone_joker() -> None:
    watched, player = Watched(seed=3), RandomPlayer(3)
    while True:
        watched.next_game(player)
        if watched.match["hands"][watched.match["turn"]] >> np.uint64(cards.JOKER):
            break
        while watched.match["turn"] >= 0:
            watched.act(player.choose(view(watched.match, int(watched.match["turn"]))))
    watched.act(plays.LONE_JOKER, (3, 4))
    for client_view in watched.client_views:
        assert (client_view.view["field"], client_view.view["joker_column"]) == (
            plays.LONE_JOKER,
            4,
        )


def first_turn() -> tuple[Game, ClientView]:
    """Return a match after its first deal, and the view of the player in turn."""
    match = new_match(1)
    next_game(match)
    client_view = ClientView(int(match["turn"]))
    client_view.read_start(tables.start_tables(match)[client_view.viewer])
    return match, client_view


def field_of(match: Game, play: int, n_cards: int) -> tables.Table:
    """Return the field table after a play by which the player in turn loses some cards."""
    state = tables.state_of(match)
    left = [n - n_cards * (player == state.player) for player, n in enumerate(state.left)]
    return tables.field_table(state._replace(left=left, is_empty=False), play)


@pytest.mark.parametrize(
    ("cell", "value", "message"),
    [
        ((5, 3), 4, "diamond 3"),
        ((5, 4), 0, "an empty field"),
        ((5, 6), 1, "revolution"),
        ((6, 0), 12, "dealt"),
        ((6, 10), 9, "impossible rows"),
        ((0, 1), 0, "the hand became"),
        ((5, 2), 0, "the viewer's turn"),
    ],
)
def test_a_turn_against_the_rules_is_an_error(
    cell: tuple[int, int], value: int, message: str
) -> None:
    match, client_view = first_turn()
    table = tables.turn_tables(match)[client_view.viewer]
    hand = int(match["hands"][client_view.viewer])
    card = next(card for card in range(52) if hand >> card & 1)
    where = (card % 4, card // 4 + 1) if cell == (0, 1) else cell
    assert table[where] != value
    table[where] = value
    with pytest.raises(ProtocolError, match=message):
        client_view.read_turn(table)


def test_a_play_against_the_rules_is_an_error() -> None:
    match, client_view = first_turn()
    client_view.read_turn(tables.turn_tables(match)[client_view.viewer])
    hand = int(match["hands"][client_view.viewer])
    held = next(card for card in range(52) if hand >> card & 1)
    missing = next(card for card in range(52) if not hand >> card & 1)
    for play, n_cards, submitted, message in [
        (plays.single(missing), 1, None, "elsewhere"),
        (plays.single(held), 2, None, "left"),
        (plays.PASS, 1, None, "illegal"),
        (plays.single(held), 1, plays.PASS, "the viewer's play"),
    ]:
        with pytest.raises(ProtocolError, match=message):
            client_view.read_field(field_of(match, play, n_cards), submitted)
    client_view.read_field(field_of(match, plays.single(held), 1), plays.single(held))
    with pytest.raises(ProtocolError, match="the end of the game"):
        client_view.check_end(True)


def test_the_lock_of_the_server_counts(caplog: pytest.LogCaptureFixture) -> None:
    """The server tests plays by the lock that it sends, also those of the other players."""
    watched, player = Watched(seed=3), RandomPlayer(3)
    watched.next_game(player)
    hand = int(watched.match["hands"][watched.match["turn"]])
    watched.act(next(plays.single(card) for card in range(8) if hand >> card & 1))
    for lock in (1, 0):
        watched.match["lock"] = lock
        watched.show_turn()
        assert [client_view.view["lock"] for client_view in watched.client_views] == [lock] * 5
    watched.compare()
    expected = [f"the server sent lock {lock}, by the rules it is {1 - lock}" for lock in (1, 0)]
    assert caplog.messages[::5] == expected


@pytest.mark.parametrize("play", [None, plays.LONE_JOKER])
def test_a_lock_without_a_suit_is_ignored(
    caplog: pytest.LogCaptureFixture, play: int | None
) -> None:
    match, client_view = first_turn()
    client_view.read_turn(tables.turn_tables(match)[client_view.viewer])
    for game in (match, client_view.view):
        game["field"] = play or plays.PASS
    match["lock"] = 1
    assert client_view.read_turn(tables.turn_tables(match)[client_view.viewer])
    assert client_view.view["lock"] == 0
    assert "lock 1" in caplog.text


def test_classes_of_a_client_in_a_turn_table_are_ignored() -> None:
    match, client_view = first_turn()
    table = tables.turn_tables(match)[client_view.viewer]
    table[6, 5:10] = 2**31 - 1
    assert client_view.read_turn(table)


def recorded_views(entry: dict[str, Any]) -> Iterator[tuple[int, Game]]:
    """Yield the players in turn in a logged game, and their views in the same process."""
    game = dealt(entry)
    game["starter"], game["joker_column"] = -1, 14  # as after `match.set_up`
    if not entry["exchange"]:
        game["starter"] = entry["start"]
    for gift in entry["exchange"]:
        if gift["how"] != "auto":
            yield gift["from"], view(game, gift["from"])
            give(game, cards.parse(gift["cards"]))
    for action in entry["actions"]:
        yield action["p"], view(game, action["p"])
        recording.play_and_record(game, parse_submission(action["m"]))


def test_views_over_the_network_equal_those_in_the_same_process(tmp_path: Path) -> None:
    recorders = [Recorder(seed) for seed in range(5)]
    with serving(tmp_path, games=8) as server:
        joined = [server.join(seed, recorders[seed]) for seed in range(5)]
        results = [future.result(timeout=SOON) for future in joined]
        standings = server.result()
    views = {result.player: iter(recorders[seed].seen) for seed, result in enumerate(results)}
    n_gifts = 0
    for entry in server.games():
        for player, expected in recorded_views(entry):
            assert difference(next(views[player]), expected) == {}
            n_gifts += expected["to_give"] > 0
    assert n_gifts == 14
    assert all(next(rest, None) is None for rest in views.values())
    points = [score.points for score in standings]
    assert [result[1:] for result in results] == [(8, points)] * 5
    assert [standings[result.player].name for result in results] == ["c0", "c1", "c2", "c3", "c4"]


@contextmanager
def answering(data: bytes) -> Iterator[int]:
    """Run a server that sends some bytes to a client, reads until it closes, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(SOON)

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(SOON)
                peer.sendall(data)
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(4096):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield int(listener.getsockname()[1])
        thread.join(SOON)


def start_table() -> bytes:
    """Return the first table of player 1 in a match."""
    match = new_match(1)
    next_game(match)
    return tables.to_bytes(tables.start_tables(match)[1])


ONE, SEVEN = tables.int_to_bytes(1), tables.int_to_bytes(7)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"", ConnectionError, "protocol 20070"),
        (ONE[:2], ConnectionError, "before it gave a number"),
        (SEVEN, ProtocolError, "number of a player"),
        (tables.int_to_bytes(-6), ProtocolError, "number of a player"),
        (tables.int_to_bytes(-1), ConnectionError, "refused the client: all seats are taken"),
        (ONE, ConnectionError, "the server hung up"),
        (ONE + start_table()[:100], ConnectionError, "the server hung up"),
        (ONE + bytes(480), ProtocolError, "impossible rows 5 and 6"),
        (ONE + b"garbage!" * 60, ProtocolError, "impossible rows 5 and 6"),
        (ONE + start_table() * 2, ProtocolError, "started a game"),
    ],
    ids="nothing half_a_number 7 -6 refusal number half_a_table zeros garbage twice".split(),
)
def test_a_server_that_violates_the_protocol_is_an_error(
    data: bytes, error: type[Exception], message: str
) -> None:
    with answering(data) as port, pytest.raises(error, match=message):
        client.play_match(("127.0.0.1", port), RandomPlayer(0), "test", SOON)


def test_a_silent_server_is_an_error_after_a_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = ("127.0.0.1", int(listener.getsockname()[1]))
        with pytest.raises(TimeoutError, match="nothing"):
            client.play_match(address, RandomPlayer(0), "test", 0.2)


def test_who_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue of one connection is full with two of them."""
    monkeypatch.setattr(client, "CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = ("127.0.0.1", int(listener.getsockname()[1]))
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        with pytest.raises(TimeoutError, match=f"no answer from 127.0.0.1:{address[1]} within 0.2"):
            client.play_match(address, RandomPlayer(0), "test")
        for each in waiting:
            each.close()


def test_a_connection_that_is_reset_is_a_server_that_hung_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = ("127.0.0.1", int(listener.getsockname()[1]))

        def reset() -> None:
            peer, _ = listener.accept()
            peer.sendall(ONE)
            peer.recv(4096)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()

        thread = threading.Thread(target=reset)
        thread.start()
        with pytest.raises(ConnectionError, match=r"the server hung up"):
            client.play_match(address, RandomPlayer(0), "test")
        thread.join(SOON)


def run(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """Run the command with a random player; return exit code, stdout and stderr."""
    monkeypatch.setattr(players, "resolve", lambda name, seed=None: RandomPlayer(1))
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    code = main(["join", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_command_plays_a_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path, built_in=4, games=2) as server:
        port = str(server.port)
        code, out, err = run(["--port", port, "--name", "commander-9"], monkeypatch, capsys)
        standings = server.result()
    assert standings[4].name == "commander"
    points = [score.points for score in standings]
    assert (code, out, err) == (0, f"player 4: 2 games, points {points}\n", "")


def test_the_command_reports_a_missing_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    code, out, err = run(["--port", str(port)], monkeypatch, capsys)
    assert (code, out) == (1, "")
    assert err == f"error: no server listens on 127.0.0.1:{port}\n"


def test_the_command_reports_a_server_that_hangs_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(ONE) as port:
        code, _, err = run(["--port", str(port)], monkeypatch, capsys)
    assert (code, err.startswith("error: the server hung up")) == (1, True)


def test_the_command_reports_another_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\n") as port:
        code, _, err = run(["--port", str(port)], monkeypatch, capsys)
    assert (code, err.startswith("error: no server of Daihinmin answers there")) == (1, True)


def test_an_error_of_the_player_is_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The server is not blamed for it, and the log has the traceback."""

    class Broken(RandomPlayer):
        def choose(self, view: Game) -> int:
            return int("not a number")

    with serving(tmp_path, built_in=4, games=1) as server:
        with pytest.raises(PlayerError, match=r"the player 'test' raised ValueError\(.*") as error:
            client.play_match(("127.0.0.1", server.port), Broken(1), "test", SOON)
        server.result()
    assert isinstance(error.value.__cause__, ValueError)
    failed = [record.message for record in caplog.records if record.exc_info]
    assert failed == ["the player 'test' failed"]


def test_an_answer_that_is_no_integer_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Wordy(RandomPlayer):
        def choose(self, view: Game) -> Any:
            return "pass"

    match = new_match(1)
    next_game(match)
    with pytest.raises(PlayerError, match=r"^the player 'test': .*'pass'"):
        GuardedPlayer(Wordy(1), "test").choose(view(match, match["turn"]))
    assert not caplog.records


@pytest.mark.parametrize("error", [ValueError("own bug"), KeyError("own bug")])
def test_the_command_reports_an_error_of_the_player(
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: Any) -> int:
        raise error

    monkeypatch.setattr(RandomPlayer, "choose", fail)
    with serving(tmp_path, built_in=[agents.make("daihinmin-sample")] * 4, games=1) as server:
        code, out, err = run(["--port", str(server.port), "--name", "mine"], monkeypatch, capsys)
        server.result()
    assert (code, out, err) == (1, "", f"error: the player 'mine' raised {error!r}\n")


def test_an_impossible_answer_is_logged_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong(RandomPlayer):
        def choose(self, view: Game) -> int:
            return 999_999

        def give(self, view: Game, n: int) -> int:
            return -7

    with serving(tmp_path, built_in=4, games=4) as server:
        result = client.play_match(("127.0.0.1", server.port), Wrong(1), "test", SOON)
        server.result()
    actions = [a for game in server.games() for a in game["actions"] if a["p"] == result.player]
    assert {action["ack"] for action in actions} == {REFUSED}
    illegal = sum(event["illegal"][result.player] for event in server.events("game"))
    assert illegal == len(actions) > 0
    chose = caplog.messages.count("the player 'test' chose 999999, which is no play")
    assert chose == len(actions)
    assert server.replayed().mismatches == 0


@pytest.mark.parametrize(
    ("n", "is_logged"),
    [(2, False), (1, True), (3, True), (0, True)],
    ids="right few many none".split(),
)
def test_a_wrong_gift_is_logged(caplog: pytest.LogCaptureFixture, n: int, is_logged: bool) -> None:
    match, client_view = first_turn()
    hand = int(match["hands"][client_view.viewer])

    class Giver(RandomPlayer):
        def give(self, view: Game, _: int) -> int:
            return int(cards.weakest(hand, n))

    given = GuardedPlayer(Giver(1), "test").give(view(match, client_view.viewer), 2)
    assert cards.count(given) == n
    text = f"the player 'test' gave {given}, which is no set of 2 cards of its hand"
    assert caplog.messages == [text] * is_logged


@pytest.mark.parametrize("is_held", [True, False])
def test_a_gift_of_other_cards_is_logged(caplog: pytest.LogCaptureFixture, is_held: bool) -> None:
    match, client_view = first_turn()
    hand = int(match["hands"][client_view.viewer])
    gift = int(cards.weakest(hand if is_held else cards.DECK & ~hand, 1))

    class Giver(RandomPlayer):
        def give(self, view: Game, n: int) -> int:
            view["hands"] = 0  # the view is the player's own
            return gift

    assert GuardedPlayer(Giver(1), "test").give(view(match, client_view.viewer), 1) == gift
    assert len(caplog.messages) == (not is_held)


def test_an_impossible_gift_is_logged_with_its_value(caplog: pytest.LogCaptureFixture) -> None:
    class Giver(RandomPlayer):
        def give(self, view: Game, n: int) -> int:
            return 1 << 60

    match, client_view = first_turn()
    assert GuardedPlayer(Giver(1), "test").give(view(match, client_view.viewer), 1) == 0
    assert str(1 << 60) in caplog.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "0"], "port"),
        (["--silence-seconds", "-1"], "--silence-seconds"),
        (["--player", "nobody-of-that-name"], "nobody-of-that-name"),
    ],
)
def test_errors_name_the_wrong_option(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["join", *arguments])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err

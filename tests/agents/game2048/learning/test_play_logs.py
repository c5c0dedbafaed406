"""Logs of moves: which moves, their order, going on after a break or a kill, reading them."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import afterstate.envs  # noqa: F401
from afterstate import agents
from afterstate.agents import files
from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.learning.play_logs import (
    MOVE,
    N_BUCKETS,
    Buckets,
    Moves,
    Round,
    Sampling,
    main,
    play_round,
    read,
)
from afterstate.agents.game2048.values.ntuple import network, save
from afterstate.envs.game2048.rules import words

pytest.importorskip("joblib")
pytest.importorskip("tqdm")

Move = tuple[int, int]
FAST = ("--batch", "4")


@pytest.fixture(scope="module")
def players(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The files of two greedy players of whims, who always play the same game of a seed."""
    names = []
    for seed in (1, 2):
        net = network([[0, 1, 4], [5, 6]])
        net.weights[:] = np.random.default_rng(seed).normal(0, 50, net.weights.size)
        names.append(str(tmp_path_factory.getbasetemp() / f"player{seed}.npz"))
        save(net, names[-1])
    return names


@pytest.fixture
def player(players: list[str]) -> str:
    """The first of them."""
    return players[0]


@cache
def game(player: str, seed: int) -> tuple[list[Move], int]:
    """The moves that a player makes in the environment, and the score."""
    agent, moves = agents.load(player), []
    env = gym.make("Game2048-v0", illegal="raise")
    (observation, info), over = env.reset(seed=seed), False
    while not over:
        action, _ = agent.predict(observation)
        moves.append((int(words(observation)), int(action)))
        observation, _, over, _, info = env.step(int(action))
    env.close()
    return moves, int(info["score"])


def games(player: str, seeds: range, skip: int = 0) -> Counter[Move]:
    """The moves of games, without the first ones of each, and how often each is made."""
    return Counter(move for seed in seeds for move in game(player, seed)[0][skip:])


def counted(moves: Moves) -> Counter[Move]:
    """How often each move is there."""
    return Counter((int(board), int(action)) for board, action in moves.tolist())


def log_file(folder: Path, player: str | list[str], *arguments: str) -> Path:
    """Runs the command line, and returns the file of the log."""
    log = folder / "log.npy"
    named = [player] if isinstance(player, str) else player
    main([str(log), "--player", *named, *FAST, *arguments])
    return log


def refusal(folder: Path, player: str | list[str], *arguments: str) -> str:
    """Return the last message of a run that does not write its log."""
    with pytest.raises(SystemExit) as caught:
        log_file(folder, player, *arguments)
    assert isinstance(caught.value.code, str)
    return caught.value.code


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder by name."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def about(log: Path) -> Any:
    """Return the JSON file next to a log, which must have neither NaN nor infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(log.with_suffix(".json").read_text(), parse_constant=refuse)


# Which moves


def test_a_round_has_the_moves_of_the_environments_games(player: str) -> None:
    """The round number 2 of three games each, from the seed 5 on, has those of 11, 12 and 13."""
    played = play_round(Sampling((player,), batch=3, seed=5), 2)
    assert played.moves.dtype == MOVE
    assert counted(played.moves) == games(player, range(11, 14))
    assert played.scores == [game(player, seed)[1] for seed in range(11, 14)]
    assert played.n_played == len(played.moves)
    assert played.player == 0


def test_no_two_rounds_play_the_same_game(player: str) -> None:
    sampling = Sampling((player,), batch=2, seed=3)
    found: Counter[Move] = Counter()
    for number in range(4):
        found += counted(play_round(sampling, number).moves)
    assert found == games(player, range(3, 11))


def test_players_play_in_turn(players: list[str]) -> None:
    sampling = Sampling(tuple(players), batch=1, seed=0)
    for number in range(4):
        played = play_round(sampling, number)
        assert played.player == number % 2
        assert counted(played.moves) == games(players[number % 2], range(number, number + 1))


@pytest.mark.parametrize("skip", [1, 20, 100])
def test_the_first_moves_of_each_game_are_skipped(player: str, skip: int) -> None:
    """Also all of a game that has no more; they count as played."""
    played = play_round(Sampling((player,), batch=5, skip=skip, seed=40), 0)
    assert counted(played.moves) == games(player, range(40, 45), skip)
    assert played.n_played == games(player, range(40, 45)).total()
    lengths = [len(game(player, seed)[0]) for seed in range(40, 45)]
    assert len(played.moves) == sum(max(0, length - skip) for length in lengths)


def test_a_share_of_the_moves_is_kept_by_chance(player: str) -> None:
    """It is that of the moves not skipped, each the same part of its game."""
    sampling = Sampling((player,), batch=32, skip=30, share=0.25, seed=0)
    played, whole = play_round(sampling, 0), games(player, range(32), 30)
    kept, n = counted(played.moves), whole.total()
    assert kept <= whole
    assert abs(kept.total() - n / 4) < 4 * (n * 3 / 16) ** 0.5
    early: Counter[Move] = Counter()
    for seed in range(32):
        early.update(game(player, seed)[0][30:60])
    n = early.total()
    assert abs((kept & early).total() - n / 4) < 4 * (n * 3 / 16) ** 0.5
    assert counted(play_round(sampling, 0).moves) == kept
    assert counted(play_round(sampling._replace(share=0.3), 0).moves) != kept
    assert played.n_played == games(player, range(32)).total()


def test_chance_keeps_other_moves_in_other_rounds(player: str) -> None:
    """Here of one game, that of the seed 4."""
    samplings = [Sampling((player,), batch=1, share=0.5, seed=seed) for seed in range(1, 5)]
    kept = [counted(play_round(each, 4 - each.seed).moves) for each in samplings]
    assert all(moves <= games(player, range(4, 5)) for moves in kept)
    assert all(one != other for one, other in combinations(kept, 2))


@pytest.mark.parametrize("name", ["random", "reward", "reward,seed=3"])
def test_players_that_draw_play_a_round_the_same_again(name: str) -> None:
    """Whatever they have played before, since any process may play any round."""
    sampling = Sampling((name,), batch=2)
    rounds = [play_round(sampling, number).moves.tolist() for number in (0, 1, 0)]
    assert rounds[0] == rounds[2]
    assert rounds[0] != rounds[1]


# Their order


def numbered(n_rounds: int, n: int) -> list[Round]:
    """Rounds whose boards are the numbers of their moves, from 0 on through all rounds."""
    moves = np.zeros((n_rounds, n), MOVE)
    moves["board"] = np.arange(moves.size).reshape(moves.shape)
    moves["action"] = moves["board"] % 4
    return [Round(part, 0, [n], n) for part in moves]


def shuffled(folder: Path, rounds: list[Round], seed: int = 1, n: int | None = None) -> Moves:
    """The log of rounds."""
    buckets = Buckets(folder / "log.parts", Sampling(("someone",), seed=seed))
    for each in rounds:
        buckets.add(each)
    buckets.write(folder / "log.npy", n)
    return np.load(folder / "log.npy")  # type: ignore[no-any-return]


def assert_even(places: Any, n_places: int) -> None:
    """Ten by ten fields of numbers in the order of their places have about as many entries.

    The statistic is that of chi squared, of 81 degrees of freedom: 150 is passed once in 200,000.
    """
    rows, columns = 10 * np.arange(len(places)) // len(places), 10 * places // n_places
    table = np.histogram2d(rows, columns, bins=np.arange(11))[0]
    expected = len(places) / 100
    assert ((table - expected) ** 2 / expected).sum() < 150


def test_a_log_has_each_move_once_in_random_order(tmp_path: Path) -> None:
    log = shuffled(tmp_path, numbered(20, 1000))
    boards = log["board"].astype(np.int64)
    assert np.array_equal(log["action"], boards % 4)
    assert sorted(boards.tolist()) == list(range(20_000))
    assert_even(boards, 20_000)
    assert_even(boards[:2000], 20_000)  # so are those of a few buckets
    steps = np.diff(boards)
    assert (abs(steps) == 1).sum() < 12  # of 2 on average
    assert abs((steps > 0).mean() - 0.5) < 0.02
    places = np.argsort(boards).reshape(20, 1000)  # of the moves of each round
    correlations = np.asarray(np.corrcoef(places))[np.triu_indices(20, 1)]
    assert abs(correlations).max() < 0.16  # 5 standard deviations


def test_another_seed_is_another_order(tmp_path: Path) -> None:
    logs = [shuffled(tmp_path / str(n), numbered(2, 1000), seed=n) for n in (1, 2)]
    assert (logs[0]["board"] == logs[1]["board"]).sum() < 12
    again = shuffled(tmp_path / "again", numbered(2, 1000), seed=2)
    assert np.array_equal(again, logs[1])


def test_a_part_of_the_moves_is_drawn_from_all_of_them(tmp_path: Path) -> None:
    log = shuffled(tmp_path, numbered(20, 1000), n=4000)
    boards = log["board"].astype(np.int64)
    assert len(set(boards.tolist())) == len(boards) == 4000
    assert_even(boards, 20_000)


def test_every_heap_has_its_moves(tmp_path: Path) -> None:
    buckets = Buckets(tmp_path / "log.parts", Sampling(("someone",)))
    for each in numbered(4, 3000):
        buckets.add(each)
    sizes = [path.stat().st_size / 9 for path in (tmp_path / "log.parts").glob("*.moves")]
    assert len(sizes) == N_BUCKETS == 256
    assert sum(sizes) == buckets.n_moves == 12_000
    assert min(sizes) > 10
    assert max(sizes) < 100


def test_a_log_is_not_in_memory_while_it_is_written_or_read(tmp_path: Path) -> None:
    """Of 4.5 MB, a tenth is."""
    buckets = Buckets(tmp_path / "log.parts", Sampling(("someone",)))
    for each in numbered(10, 50_000):
        buckets.add(each)
    tracemalloc.start()
    try:
        buckets.write(tmp_path / "log.npy")
        log = read(tmp_path / "log.npy")
        assert log[-1]["board"] < 500_000
        assert tracemalloc.get_traced_memory()[1] < 450_000
    finally:
        tracemalloc.stop()


# The command line


def test_a_log_has_the_moves_of_all_games_in_another_order(tmp_path: Path, player: str) -> None:
    log = read(log_file(tmp_path, player, "--games", "12", "--seed", "7"))
    assert counted(log) == games(player, range(7, 19))
    first = [move for seed in range(7, 11) for move in game(player, seed)[0]]
    place = {move: i for i, move in enumerate(log.tolist())}
    assert_even(np.array([place[move] for move in first]), len(log))


def test_games_are_those_of_each_player_in_whole_rounds(tmp_path: Path, players: list[str]) -> None:
    """Five are two rounds of four."""
    log = read(log_file(tmp_path, players, "--games", "5", "--seed", "0"))
    first = games(players[0], range(4)) + games(players[0], range(8, 12))
    second = games(players[1], range(4, 8)) + games(players[1], range(12, 16))
    assert counted(log) == first + second


@pytest.mark.parametrize("n_moves", ["1", "1000", "1.5e3"])
def test_moves_are_exactly_as_many_as_asked_for(tmp_path: Path, player: str, n_moves: str) -> None:
    log = read(log_file(tmp_path, player, "--moves", n_moves))
    assert len(log) == int(float(n_moves))
    assert counted(log) <= games(player, range(1, 33))


def test_a_move_takes_9_bytes_and_numpy_reads_it(tmp_path: Path, player: str) -> None:
    path = log_file(tmp_path, player, "--moves", "1000")
    log = np.load(path, mmap_mode="r")
    assert log.dtype == [("board", "<u8"), ("action", "u1")]
    assert log.shape == (1000,)
    assert path.stat().st_size == log.offset + 9 * 1000
    assert log.offset < 1000


def test_only_a_log_and_what_it_is_of_are_left(tmp_path: Path, players: list[str]) -> None:
    sampled = ("--skip", "10", "--share", "0.5", "--seed", "3")
    log = log_file(tmp_path / "new" / "folder", players, "--games", "8", *sampled)
    assert set(contents(tmp_path)) == {"new/folder/log.json", "new/folder/log.npy"}
    assert not log.with_suffix(".parts").exists()
    seeds = [[*range(3, 7), *range(11, 15)], [*range(7, 11), *range(15, 19)]]
    played = [
        [game(*each) for each in zip([name] * 8, seeds[i], strict=True)]
        for i, name in enumerate(players)
    ]
    assert about(log) == {
        **{
            "moves": len(read(log)),
            "of_moves": sum(len(one[0]) for part in played for one in part),
        },
        "players": [
            {"player": name, "games": 8, "mean_score": np.mean([score for _, score in part])}
            for name, part in zip(players, played, strict=True)
        ],
        **{"skip": 10, "share": 0.5, "batch": 4, "seed": 3},
    }


def test_a_player_whose_turn_never_came_has_no_mean_score(
    tmp_path: Path, players: list[str]
) -> None:
    told = about(log_file(tmp_path, players, "--moves", "10"))
    assert told["moves"] == 10
    assert [each["games"] for each in told["players"]] == [4, 0]
    assert told["players"][1]["mean_score"] is None


def test_the_log_of_a_cut_number_of_moves_says_so(tmp_path: Path, player: str) -> None:
    told = about(log_file(tmp_path, player, "--moves", "100"))
    assert (told["moves"], told["of_moves"]) == (100, games(player, range(1, 5)).total())


@pytest.mark.slow
def test_processes_that_play_change_nothing(tmp_path: Path, player: str) -> None:
    """As a program, which sends them functions; of rounds without need none is written."""
    arguments = ("--moves", "2500", "--share", "0.9", *FAST)
    program = ("-m", "afterstate.agents.game2048.learning.play_logs", str(tmp_path / "two.npy"))
    command = [sys.executable, *program, "--player", player, *arguments, "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    log = log_file(tmp_path, player, *arguments)
    assert log.read_bytes() == (tmp_path / "two.npy").read_bytes()
    assert log.with_suffix(".json").read_bytes() == (tmp_path / "two.json").read_bytes()


# Going on


N_ROUNDS = 5
ROUNDS = ("--games", str(4 * N_ROUNDS), "--share", "0.7")


@pytest.fixture(scope="module")
def straight(players: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run of five rounds without a break leaves."""
    folder = tmp_path_factory.mktemp("straight")
    log_file(folder, players[0], *ROUNDS)
    return contents(folder)


def nth_call(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, n: int, happens: Callable[[], Any]
) -> None:
    """Lets something happen before a function is called for the n-th time, from 1."""
    function, calls = getattr(owner, name), iter(range(1, 1_000_000))

    def called(*arguments: Any, **named: Any) -> Any:
        if next(calls) == n:
            happens()
        return function(*arguments, **named)

    monkeypatch.setattr(owner, name, called)


def interrupt() -> None:
    """What Ctrl-C does."""
    raise KeyboardInterrupt


def disk_full() -> None:
    """What writing does on a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


PLACES = {
    "first round": (play_logs, "play_round", 1),
    "third round": (play_logs, "play_round", 3),
    "before its buckets": (Buckets, "add", 2),
    "after the first buckets": (files, "write_bytes", 2),
    "after the third buckets": (files, "write_bytes", 4),
    "before the log": (Buckets, "write", 1),
    "in the log": (np, "fromfile", 100),
    "after the log": (files, "write_bytes", N_ROUNDS + 2),
}
"""Where a run may end, each a function that is called so often by then."""


@pytest.mark.parametrize("happens", [interrupt, disk_full])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_an_interrupted_run_goes_on_to_the_same_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    player: str,
    straight: dict[str, bytes],
    place: tuple[Any, str, int],
    happens: Callable[[], Any],
) -> None:
    with monkeypatch.context() as patched:
        nth_call(patched, *place, happens)
        message = refusal(tmp_path, player, *ROUNDS)
    assert message.endswith("--resume")
    assert happens is interrupt or os.strerror(errno.ENOSPC) in message
    assert not list(tmp_path.rglob("*.part"))
    log_file(tmp_path, player, *ROUNDS, "--resume")
    assert contents(tmp_path) == straight


def test_any_number_of_interruptions_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, player: str, straight: dict[str, bytes]
) -> None:
    """The message says how many moves are kept: those of the rounds so far."""
    kept: list[str] = []
    for n in range(N_ROUNDS):
        with monkeypatch.context() as patched:
            nth_call(patched, play_logs, "play_round", 2, interrupt)
            if n == N_ROUNDS - 1:
                nth_call(patched, Buckets, "write", 1, interrupt)
            kept.append(refusal(tmp_path, player, *ROUNDS, *["--resume"][:n]))
    log = read(log_file(tmp_path, player, *ROUNDS, "--resume"))
    assert contents(tmp_path) == straight
    sampling = Sampling((player,), batch=4, share=0.7)
    sizes = np.cumsum([len(play_round(sampling, n).moves) for n in range(N_ROUNDS)])
    assert kept == [f"interrupted: {n:,} moves are kept, continue with --resume" for n in sizes]
    assert len(log) == sizes[-1]


def test_sigterm_interrupts_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, player: str, straight: dict[str, bytes]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patched:
        stop = lambda: os.kill(os.getpid(), signal.SIGTERM)  # noqa: E731
        nth_call(patched, play_logs, "play_round", 3, stop)
        assert "--resume" in refusal(tmp_path, player, *ROUNDS)
    assert signal.getsignal(signal.SIGTERM) is before
    log_file(tmp_path, player, *ROUNDS, "--resume")
    assert contents(tmp_path) == straight


def test_an_interruption_before_moves_are_counted_tells_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, player: str, straight: dict[str, bytes]
) -> None:
    """And what can be resumed only if there is something."""
    with monkeypatch.context() as patched:
        nth_call(patched, play_logs, "_player", 1, interrupt)
        assert refusal(tmp_path, player, *ROUNDS) == "interrupted: nothing was written"
    assert not list(tmp_path.iterdir())
    with monkeypatch.context() as patched:
        nth_call(patched, play_logs, "play_round", 3, interrupt)
        refusal(tmp_path, player, *ROUNDS)
    places: list[tuple[Any, str]] = [
        *((play_logs, "_player"), (Buckets, "_resume"), (Buckets, "_file")),
    ]
    for owner, name in places:
        with monkeypatch.context() as patched:
            nth_call(patched, owner, name, 1, interrupt)
            message = refusal(tmp_path, player, *ROUNDS, "--resume")
        assert message == "interrupted: continue with --resume"
    log_file(tmp_path, player, *ROUNDS, "--resume")
    assert contents(tmp_path) == straight


@pytest.fixture
def half_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, player: str) -> Path:
    """A folder with a log and what is left of its buckets after a kill; some are gone already."""
    with monkeypatch.context() as patched:
        nth_call(patched, Path, "unlink", 102, interrupt)  # 1: `check_writable`
        message = refusal(tmp_path, player, *ROUNDS)
    assert message.endswith("--resume")
    assert len(list((tmp_path / "log.parts").glob("*.moves"))) == N_BUCKETS - 100
    return tmp_path


def test_heaps_that_a_kill_left_beside_a_whole_log_are_removed(
    half_removed: Path,
    player: str,
    straight: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = contents(half_removed)
    assert "parts exists: continue with --resume" in refusal(half_removed, player, *ROUNDS)
    other = refusal(half_removed, player, *ROUNDS, "--seed", "2", "--resume")
    assert "log.parts has moves of" in other
    assert contents(half_removed) == before
    log = log_file(half_removed, player, *ROUNDS, "--resume")
    assert f"{log} is complete" in capsys.readouterr().out
    assert contents(half_removed) == straight
    assert not (half_removed / "log.parts").exists()


@pytest.mark.parametrize("is_told", [True, False])
def test_heaps_stay_beside_a_log_of_other_moves(
    broken: Path, player: str, straight: dict[str, bytes], is_told: bool
) -> None:
    """One that was put there by hand, as the buckets have not become a log yet."""
    for name in ("log.npy", "log.json"):
        (broken / name).write_bytes(straight[name])
    if not is_told:
        (broken / "log.json").unlink()
    before = contents(broken)
    message = refusal(broken, player, *ROUNDS, "--resume")
    assert message == f"{broken / 'log.npy'} exists and has other moves: use another file"
    assert contents(broken) == before


@pytest.mark.parametrize("n_whole", [0, 2])
def test_what_a_kill_left_of_a_round_is_dropped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    player: str,
    straight: dict[str, bytes],
    n_whole: int,
) -> None:
    """Moves in some of the buckets, the last one cut off; also those of the very first round."""
    with monkeypatch.context() as patched:
        nth_call(patched, play_logs, "play_round", n_whole + 1, interrupt)
        refusal(tmp_path, player, *ROUNDS)
    for bucket in range(100):
        with open(tmp_path / "log.parts" / f"{bucket:03}.moves", "ab") as file:
            file.write(b"half a round"[: 9 if bucket < 99 else 4])
    (tmp_path / "log.parts" / "state.json.999.part").write_bytes(b'{"sampling"')
    log_file(tmp_path, player, *ROUNDS, "--resume")
    assert contents(tmp_path) == straight


@pytest.mark.parametrize("asked", [("--games", "13"), ("--moves", "1e3")])
def test_a_run_may_go_on_to_another_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, player: str, asked: tuple[str, str]
) -> None:
    with monkeypatch.context() as patched:
        nth_call(patched, play_logs, "play_round", 2, interrupt)
        refusal(tmp_path / "broken", player, "--moves", "1e9")
    log_file(tmp_path / "broken", player, *asked, "--resume")
    log_file(tmp_path / "straight", player, *asked)
    assert contents(tmp_path / "broken") == contents(tmp_path / "straight")


def test_a_run_that_has_enough_plays_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, player: str
) -> None:
    with monkeypatch.context() as patched:
        nth_call(patched, play_logs, "play_round", 3, interrupt)
        refusal(tmp_path, player, "--moves", "1e9")
        nth_call(patched, play_logs, "play_round", 1, interrupt)
        log = log_file(tmp_path, player, "--moves", "500", "--resume")
    assert len(read(log)) == 500
    assert about(log)["players"][0]["games"] == 8


def test_what_is_asked_for_is_shown_from_where_a_run_goes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    player: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patched:
        nth_call(patched, play_logs, "play_round", 3, interrupt)
        refusal(tmp_path, player, *ROUNDS)
    capsys.readouterr()
    log_file(tmp_path, player, *ROUNDS, "--resume")
    bars = capsys.readouterr().err
    assert " 8.00/20.0 " in bars
    assert " 20.0/20.0 " in bars
    assert "games/s" in bars


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, player: str) -> Path:
    """A folder with a run that was interrupted after two rounds."""
    with monkeypatch.context() as patched:
        nth_call(patched, play_logs, "play_round", 3, interrupt)
        refusal(tmp_path, player, *ROUNDS)
    return tmp_path


@pytest.mark.parametrize(
    "other",
    [
        ("--seed", "2"),
        ("--skip", "1"),
        ("--share", "0.8"),
        ("--batch", "5"),
        ("--player", "random"),
    ],
    ids=str,
)
def test_a_run_does_not_go_on_with_other_settings(
    broken: Path, player: str, other: tuple[str, str]
) -> None:
    before = contents(broken)
    message = refusal(broken, player, *ROUNDS, *other, "--resume")
    assert "log.parts has moves of" in message
    assert "use another file" in message
    assert contents(broken) == before


def test_a_run_that_can_go_on_is_not_begun_anew(broken: Path, player: str) -> None:
    before = contents(broken)
    assert "--resume" in refusal(broken, player, *ROUNDS)
    assert contents(broken) == before


def test_where_there_is_no_run_none_is_resumed(tmp_path: Path, player: str) -> None:
    assert "there is nothing to resume" in refusal(tmp_path, player, *ROUNDS, "--resume")
    assert not list(tmp_path.iterdir())


def test_heaps_that_have_lost_moves_are_refused(broken: Path, player: str) -> None:
    """As after a power cut; moves are not made up in their place."""
    bucket = max((broken / "log.parts").glob("*.moves"), key=lambda path: path.stat().st_size)
    bucket.write_bytes(bucket.read_bytes()[:-10])
    assert bucket.name in refusal(broken, player, *ROUNDS, "--resume")
    assert not (broken / "log.npy").exists()


@pytest.mark.parametrize("arguments", [(), ("--resume",)])
def test_a_log_is_not_overwritten(tmp_path: Path, player: str, arguments: tuple[str, ...]) -> None:
    log_file(tmp_path, player, "--moves", "10")
    before = contents(tmp_path)
    message = refusal(tmp_path, player, "--moves", "20", *arguments)
    assert message == f"{tmp_path / 'log.npy'} exists: use another file"
    assert contents(tmp_path) == before


# Wrong options


@pytest.mark.parametrize(
    "wrong",
    [
        *(("--games", value) for value in ("0", "-1", "1.5", "x", "nan")),
        *(("--moves", value) for value in ("0", "-5", "1e-3", "many", "inf")),
        ("--games", "1", "--moves", "1"),
        (),
        *(("--moves", "1", "--share", value) for value in ("0", "-0.1", "1.1", "nan", "half")),
        *(("--moves", "1", "--skip", value) for value in ("-1", "1.5", "x")),
        *(("--moves", "1", "--seed", value) for value in ("-1", "1.5", "one")),
        *(("--moves", "1", "--batch", value) for value in ("0", "-1", "two")),
        *(("--moves", "1", "--jobs", value) for value in ("0", "-1", "two")),
        ("--moves", "1", "--player"),
        ("--moves", "1", "--speed", "3"),
    ],
    ids=" ".join,
)
def test_wrong_options_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(tmp_path / "log.npy"), *wrong])
    assert caught.value.code == 2
    option = next((each[2:] for each in reversed(wrong) if each[:2] == "--"), "games or moves")
    assert option in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["log", "log.npz", "log.npy.gz", ".npy"])
def test_a_log_ends_in_npy(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(tmp_path / name), "--moves", "1"])
    assert caught.value.code == 2
    assert ".npy" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_options_have_defaults() -> None:
    args = play_logs.Args(Path("a.npy"), moves=1e7)
    assert (args.player, args.moves, args.games) == (["expectimax"], 10_000_000, None)
    assert (args.skip, args.share, args.jobs, args.resume) == (0, 1.0, 1, False)
    assert (args.batch, args.seed) == Sampling(("a",))[1::3]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("alphazero", "no player 'alphazero'"),
        ("missing.npz", "missing.npz"),
        ("random,speed=3", "speed"),
        ("random,seed", "name=value"),
        ("expectimax,depth=9,tuples=4x6", "depth"),
    ],
)
def test_a_wrong_player_is_refused_before_anything_is_written(
    tmp_path: Path, player: str, name: str, message: str
) -> None:
    assert message in refusal(tmp_path, [player, name], "--moves", "1")
    assert not list(tmp_path.iterdir())


def test_a_player_of_smaller_boards_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    save(network([[0, 1]], (2, 2)), tmp_path / "small.npz")
    message = refusal(tmp_path, str(tmp_path / "small.npz"), "--moves", "1")
    assert "small.npz" in message or "(2, 2)" in message
    assert "resume" not in message
    assert set(contents(tmp_path)) == {"small.npz"}
    assert not (tmp_path / "log.parts").exists()


def test_a_player_of_another_game_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "find", lambda text: object())
    assert "cards" in refusal(tmp_path, "cards", "--moves", "1")
    assert not list(tmp_path.iterdir())


def test_an_illegal_move_ends_a_run_that_may_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agents.make("reward", seed=1)
    monkeypatch.setattr(agents, "find", lambda text: agent)
    with monkeypatch.context() as patched:
        patched.setattr(agent, "_act", lambda boards: np.full(len(boards), 5, np.int8))
        message = refusal(tmp_path, "stubborn", "--moves", "10")
    assert "illegal action" in message
    assert len(read(log_file(tmp_path, "stubborn", "--moves", "10", "--resume"))) == 10


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, player: str) -> None:
    (tmp_path / "file").write_text("no folder")
    assert "file" in refusal(tmp_path / "file", player, "--moves", "1")


# Reading


def test_a_log_is_read_where_it_is_looked_at(tmp_path: Path, player: str) -> None:
    path = log_file(tmp_path, player, "--moves", "500")
    for name in (path, str(path)):
        log = read(name)
        assert isinstance(log, np.memmap)
        assert not log.flags.writeable
        assert np.array_equal(log, np.load(path))


def saved(array: Any) -> bytes:
    """The file of an array, or of several by name."""
    file = io.BytesIO()
    if isinstance(array, dict):
        np.savez(file, **array)
    else:
        np.save(file, array, allow_pickle=True)
    return file.getvalue()


LOG = np.zeros(20, MOVE)
WRONG = {
    "nothing": b"",
    "text": b"2048\n" * 50,
    "a pickle": pickle.dumps(list(range(20))),
    "a pickled array": saved(np.array([{}, {}], object)),
    "arrays": saved({"log": LOG}),
    "arrays cut off": saved({"log": LOG})[:100],
    "numbers": saved(np.arange(20)),
    "other records": saved(np.zeros(20, [("board", "<u8"), ("reward", "u1")])),
    "records with gaps": saved(np.zeros(20, np.dtype(MOVE.descr, align=True))),
    "a table": saved(LOG.reshape(4, 5)),
    "no moves": saved(LOG[:0]),
    "cut off": saved(LOG)[:-1],
    "a header cut off": saved(LOG)[:50],
    "a damaged header": saved(LOG).replace(b"}", b"{"),
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG)
def test_what_is_no_log_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "wrong.npy").write_bytes(data)
    with pytest.raises(ValueError, match=r"wrong\.npy is not a play log"):
        read(tmp_path / "wrong.npy")


def test_pickled_objects_are_not_made(tmp_path: Path) -> None:
    """They could run anything."""

    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "run",)

    for data in (pickle.dumps(Bomb()), saved(np.array([Bomb()], object))):
        (tmp_path / "bomb.npy").write_bytes(data)
        with pytest.raises(ValueError, match="not a play log"):
            read(tmp_path / "bomb.npy")
    assert not (tmp_path / "run").exists()


def test_a_log_that_is_missing_or_a_folder_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "missing.npy")
    with pytest.raises(OSError):
        read(tmp_path)


def test_what_is_not_of_a_log_is_left_as_it_is(tmp_path: Path, player: str) -> None:
    folder, beside = tmp_path / "log.parts", tmp_path / "log.json"
    folder.mkdir()
    (folder / "000.moves").write_bytes(b"mine")
    for more in ([], ["--resume"]):
        assert "not of a log" in refusal(tmp_path, player, *ROUNDS, *more)
    assert (folder / "000.moves").read_bytes() == b"mine"
    (folder / "000.moves").rename(folder / "thesis.txt")
    assert "not of a log" in refusal(tmp_path, player, *ROUNDS, "--resume")
    (folder / "thesis.txt").rename(tmp_path / "thesis.txt")
    folder.rmdir()
    beside.write_text("{}")
    assert "log.json exists" in refusal(tmp_path, player, *ROUNDS)
    assert beside.read_text() == "{}"

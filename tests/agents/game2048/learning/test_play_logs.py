"""Play logs: the moves of a round, their random order, and files that are not logs."""

from __future__ import annotations

import io
import json
import pickle
import tracemalloc
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.learning.play_logs import (
    MOVE,
    N_BUCKETS,
    Buckets,
    Moves,
    Round,
    Sampling,
    play_round,
    read,
)
from tests.support.game2048.play_log_games import (
    Move,
    assert_even,
    counted,
    game,
    games,
    save_players,
)
from tests.support.training_runs import lock_of_another_process

SAMPLING = Sampling(("someone",))


@pytest.fixture(scope="module")
def players(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The files of two players."""
    return save_players(tmp_path_factory.mktemp("players"))


@pytest.fixture
def player(players: list[str]) -> str:
    """The file of the first player."""
    return players[0]


def test_rounds_have_the_moves_of_the_environments_games(player: str) -> None:
    """Round n of 3 games each, with seeds from 5 on, has games 5 + 3n, 6 + 3n and 7 + 3n."""
    sampling, moves = Sampling((player,), batch=3, seed=5), Counter[Move]()
    for number in range(3):
        seeds = range(5 + 3 * number, 8 + 3 * number)
        result = play_round(sampling, number)
        assert result.moves.dtype == MOVE
        assert counted(result.moves) == games(player, seeds)
        assert result.scores == [game(player, seed)[1] for seed in seeds]
        assert result.n_played == len(result.moves)
        assert result.player == 0
        moves += counted(result.moves)
    assert moves == games(player, range(5, 14))


def test_players_take_turns(players: list[str]) -> None:
    sampling = Sampling(tuple(players), batch=1, seed=0)
    for number in range(4):
        result = play_round(sampling, number)
        assert result.player == number % 2
        assert counted(result.moves) == games(players[number % 2], range(number, number + 1))


@pytest.mark.parametrize("skip", [1, 20, 100])
def test_the_first_moves_of_each_game_are_skipped(player: str, skip: int) -> None:
    """A game with fewer moves is skipped; skipped moves count as played."""
    result = play_round(Sampling((player,), batch=5, skip=skip, seed=40), 0)
    assert counted(result.moves) == games(player, range(40, 45), skip)
    assert result.n_played == games(player, range(40, 45)).total()
    lengths = [len(game(player, seed)[0]) for seed in range(40, 45)]
    assert len(result.moves) == sum(max(0, length - skip) for length in lengths)


def test_a_share_of_the_moves_is_logged_at_random(player: str) -> None:
    """The share is the same in every part of a game after the skipped moves."""
    sampling = Sampling((player,), batch=32, skip=30, share=0.25, seed=0)
    result, whole = play_round(sampling, 0), games(player, range(32), 30)
    moves, n = counted(result.moves), whole.total()
    assert moves <= whole
    assert abs(moves.total() - n / 4) < 4 * (n * 3 / 16) ** 0.5
    early: Counter[Move] = Counter()
    for seed in range(32):
        early.update(game(player, seed)[0][30:60])
    n = early.total()
    assert abs((moves & early).total() - n / 4) < 4 * (n * 3 / 16) ** 0.5
    assert counted(play_round(sampling, 0).moves) == moves
    assert counted(play_round(sampling._replace(share=0.3), 0).moves) != moves
    assert result.n_played == games(player, range(32)).total()


def test_the_random_share_differs_between_rounds(player: str) -> None:
    """Each of these rounds is the game of seed 4."""
    samplings = [Sampling((player,), batch=1, share=0.5, seed=seed) for seed in range(1, 5)]
    moves = [counted(play_round(each, 4 - each.seed).moves) for each in samplings]
    assert all(each <= games(player, range(4, 5)) for each in moves)
    assert all(one != other for one, other in combinations(moves, 2))


@pytest.mark.parametrize("name", ["random", "reward", "reward,seed=3"])
def test_rounds_of_random_players_are_repeatable_in_any_order(name: str) -> None:
    sampling = Sampling((name,), batch=2)
    rounds = [play_round(sampling, number).moves.tolist() for number in (0, 1, 0)]
    assert rounds[0] == rounds[2]
    assert rounds[0] != rounds[1]


def numbered(n_rounds: int, n: int) -> list[Round]:
    """Return rounds whose boards are the numbers of their moves, from 0 on through all rounds."""
    moves = np.zeros((n_rounds, n), MOVE)
    moves["board"] = np.arange(moves.size).reshape(moves.shape)
    moves["action"] = moves["board"] % 4
    return [Round(part, 0, [n], n) for part in moves]


def filled(folder: Path, rounds: list[Round], seed: int = 1) -> Buckets:
    """Return buckets with the moves of rounds."""
    buckets = Buckets(folder / "log.parts", SAMPLING._replace(seed=seed))
    for each in rounds:
        buckets.add(each)
    return buckets


def shuffled(folder: Path, rounds: list[Round], seed: int = 1, n: int | None = None) -> Moves:
    """Return the log of rounds."""
    filled(folder, rounds, seed).write(folder / "log.npy", n)
    return np.load(folder / "log.npy")  # type: ignore[no-any-return]


def test_a_log_has_each_move_once_in_random_order(tmp_path: Path) -> None:
    log = shuffled(tmp_path, numbered(20, 1000))
    boards = log["board"].astype(np.int64)
    assert np.array_equal(log["action"], boards % 4)
    assert sorted(boards.tolist()) == list(range(20_000))
    assert_even(boards, 20_000)
    assert_even(boards[:2000], 20_000)  # of a few buckets
    steps = np.diff(boards)
    assert (abs(steps) == 1).sum() < 12  # the mean is 2
    assert abs((steps > 0).mean() - 0.5) < 0.02
    places = np.argsort(boards).reshape(20, 1000)  # of the moves of each round
    correlations = np.asarray(np.corrcoef(places))[np.triu_indices(20, 1)]
    assert abs(correlations).max() < 0.16  # 5 standard deviations


def test_the_order_depends_on_the_seed(tmp_path: Path) -> None:
    logs = [
        shuffled(tmp_path / str(i), numbered(2, 1000), seed) for i, seed in enumerate((1, 2, 2))
    ]
    assert (logs[0]["board"] == logs[1]["board"]).sum() < 12
    assert np.array_equal(logs[1], logs[2])


def test_a_sample_is_drawn_from_all_moves(tmp_path: Path) -> None:
    log = shuffled(tmp_path, numbered(20, 1000), n=4000)
    boards = log["board"].astype(np.int64)
    assert len(set(boards.tolist())) == len(boards) == 4000
    assert_even(boards, 20_000)


def test_buckets_are_of_similar_size(tmp_path: Path) -> None:
    buckets = filled(tmp_path, numbered(4, 3000))
    sizes = [path.stat().st_size / 9 for path in (tmp_path / "log.parts").glob("*.moves")]
    assert len(sizes) == N_BUCKETS == 256
    assert sum(sizes) == buckets.n_moves == 12_000
    assert min(sizes) > 10
    assert max(sizes) < 100


def test_writing_and_reading_take_a_tenth_of_the_logs_size_in_memory(tmp_path: Path) -> None:
    """The log has 4.5 MB."""
    buckets = filled(tmp_path, numbered(10, 50_000))
    tracemalloc.start()
    try:
        buckets.write(tmp_path / "log.npy")
        log = read(tmp_path / "log.npy")
        assert log[-1]["board"] < 500_000
        assert tracemalloc.get_traced_memory()[1] < 450_000
    finally:
        tracemalloc.stop()


def test_a_log_is_memory_mapped_and_has_9_bytes_a_move(tmp_path: Path) -> None:
    path = tmp_path / "log.npy"
    expected = shuffled(tmp_path, numbered(1, 500))
    for name in (path, str(path)):
        log = read(name)
        assert isinstance(log, np.memmap)
        assert not log.flags.writeable
        assert np.array_equal(log, expected)
        assert log.dtype == [("board", "<u8"), ("action", "u1")]
        assert path.stat().st_size == log.offset + 9 * 500
        assert log.offset < 1000


def saved(array: Any) -> bytes:
    """Return the file of an array, or of several by name."""
    file = io.BytesIO()
    if isinstance(array, dict):
        np.savez(file, **array)
    else:
        np.save(file, array, allow_pickle=True)
    return file.getvalue()


LOG = np.zeros(20, MOVE)


def with_shape(shape: str) -> bytes:
    """Return the file of a log with another shape in its header."""
    text = f"{{'descr': {MOVE.descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + LOG.tobytes()


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
    "a huge shape": with_shape("(" + "9" * 400 + ",)"),
    "a negative shape": with_shape("(-20,)"),
    "a deep header": with_shape("(" * 5_000),
    "too many moves": saved(LOG).replace(b"(20,)", b"(21,)"),
    "moves of Python 2": saved(LOG).replace(b"(20,)", b"(20L)"),
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG)
def test_a_file_that_is_not_a_log_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "wrong.npy").write_bytes(data)
    with pytest.raises(ValueError, match=r"wrong\.npy"):
        read(tmp_path / "wrong.npy")


def test_pickled_objects_are_not_loaded(tmp_path: Path) -> None:
    """Loading them could run any code."""

    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "run",)

    for data in (pickle.dumps(Bomb()), saved(np.array([Bomb()], object))):
        (tmp_path / "bomb.npy").write_bytes(data)
        with pytest.raises(ValueError, match="not a play log"):
            read(tmp_path / "bomb.npy")
    assert not (tmp_path / "run").exists()


def test_a_missing_log_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "missing.npy")
    with pytest.raises(OSError):
        read(tmp_path)


STATES: dict[str, list[Any]] = {
    "sizes": [None, [], [0] * 255, [-1] * 256, [10**400] * 256, "x"],
    "games": [None, [], [1, 2], ["x"], [[]]],
    "n_played": [None, [], 1e999],
    "sampling": [None, [], [[]] * 9, "random"],
    "crc32": [None, [], [0], ["a"] * 256, 5],
}


@pytest.mark.parametrize(
    "changes", [{name: value} for name, values in STATES.items() for value in values]
)
def test_a_damaged_state_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    sampling = Sampling(("random",))
    Buckets(tmp_path / "parts", sampling)
    path = tmp_path / "parts" / "state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps(state))
    Buckets(tmp_path / "parts", sampling)
    del state["checksum"]
    changed = state | changes
    path.write_text(json.dumps(changed | {"checksum": play_logs._checksum(changed)}))
    with pytest.raises(ValueError, match="parts"):
        Buckets(tmp_path / "parts", sampling)
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"state\.json is damaged"):
        Buckets(tmp_path / "parts", sampling)


@pytest.mark.parametrize("name", ["n_rounds", "n_played", "checksum"])
def test_a_changed_number_of_a_state_is_found(tmp_path: Path, name: str) -> None:
    sampling = Sampling(("random",))
    Buckets(tmp_path / "parts", sampling)
    path = tmp_path / "parts" / "state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps(state | {name: state[name] + 1}))
    with pytest.raises(ValueError, match=r"state\.json is damaged"):
        Buckets(tmp_path / "parts", sampling)


def test_a_changed_bit_of_a_log_is_found_by_its_description(tmp_path: Path) -> None:
    buckets = Buckets(tmp_path / "log.parts", SAMPLING)
    for each in numbered(2, 50):
        buckets.add(each)
    path = tmp_path / "log.npy"
    buckets.write(path)
    assert len(play_logs.read_whole(path)) == 100
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(data)
    assert len(play_logs.read(path)) == 100
    with pytest.raises(ValueError, match=r"log\.npy is damaged: its checksum"):
        play_logs.read_whole(path)
    path.with_suffix(".json").unlink()
    assert len(play_logs.read_whole(path)) == 100


def test_a_changed_bit_of_a_bucket_is_found_before_a_log_is_written(tmp_path: Path) -> None:
    folder, path = tmp_path / "log.parts", tmp_path / "log.npy"
    buckets = Buckets(folder, SAMPLING)
    for each in numbered(2, 50):
        buckets.add(each)
    buckets.save()
    file = max(folder.glob("*.moves"), key=lambda each: each.stat().st_size)
    data = bytearray(file.read_bytes())
    data[3] ^= 4
    file.write_bytes(data)
    with pytest.raises(ValueError, match=rf"{file.name} is damaged: start over"):
        buckets.write(path)
    assert not path.exists()
    data[3] ^= 4
    file.write_bytes(data)
    buckets.write(path)
    assert len(play_logs.read_whole(path)) == 100


def test_another_process_cannot_write_to_the_buckets(tmp_path: Path) -> None:
    Buckets(tmp_path, SAMPLING)
    with lock_of_another_process(tmp_path), pytest.raises(ValueError, match="another process"):
        Buckets(tmp_path, SAMPLING)

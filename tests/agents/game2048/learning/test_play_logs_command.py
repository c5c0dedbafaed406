"""The command that writes play logs: the log of all games, interrupts, and wrong arguments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from signal import SIGINT, raise_signal
from typing import Any

import numpy as np
import pytest

from afterstate import agents
from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.learning.options import LogOptions
from afterstate.agents.game2048.learning.play_logs import (
    N_BUCKETS,
    Buckets,
    Sampling,
    play_round,
    read,
)
from afterstate.agents.game2048.values.ntuple_file import save
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.envs import durable_files
from tests.support.game2048.commands import run_log
from tests.support.game2048.play_log_games import assert_even, counted, game, games, save_players
from tests.support.training_runs import ENDS, contents, disk_full, interrupt, load_json

pytest.importorskip("joblib")
pytest.importorskip("tqdm")


@pytest.fixture(autouse=True)
def saved_after_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run save its buckets after every round."""
    monkeypatch.setattr(play_logs, "SAVE_SECONDS", -1.0)


@pytest.fixture(scope="module")
def players(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The files of two players."""
    return save_players(tmp_path_factory.mktemp("players"))


@pytest.fixture
def player(players: list[str]) -> str:
    """The file of the first player."""
    return players[0]


def write_log(folder: Path, player: str | list[str], *arguments: str) -> Path:
    """Run the command, and return the file of the log."""
    log, names = folder / "log.npy", [player] if isinstance(player, str) else player
    run_log(str(log), "--player", *names, "--batch", "4", *arguments)
    return log


def error_of(folder: Path, player: str | list[str], *arguments: str) -> str:
    """Run the command, and return the message with which it fails."""
    with pytest.raises(ENDS) as caught:
        write_log(folder, player, *arguments)
    return str(caught.value)


@pytest.mark.parametrize("options", [["--skip", "1000000"], ["--share", "1e-12"]])
def test_nothing_is_left_of_a_run_that_logs_no_move(
    options: list[str], tmp_path: Path, player: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error_of(tmp_path, player, "--games", "8", *options).startswith("no move is logged")
    assert not [*tmp_path.iterdir()] and "--resume" not in capsys.readouterr().err


def description(log: Path) -> Any:
    """Return the JSON file next to a log."""
    return load_json(log.with_suffix(".json").read_text())


def test_a_log_has_the_moves_of_all_games_in_another_order(tmp_path: Path, player: str) -> None:
    log = read(write_log(tmp_path, player, "--games", "12", "--seed", "7"))
    assert counted(log) == games(player, range(7, 19))
    first = [move for seed in range(7, 11) for move in game(player, seed)[0]]
    place = {move: i for i, move in enumerate(log.tolist())}
    assert_even(np.array([place[move] for move in first]), len(log))


def test_rounds_are_complete(tmp_path: Path, players: list[str]) -> None:
    """5 games of each player are 2 rounds of 4."""
    log = read(write_log(tmp_path, players, "--games", "5", "--seed", "0"))
    first = games(players[0], range(4)) + games(players[0], range(8, 12))
    second = games(players[1], range(4, 8)) + games(players[1], range(12, 16))
    assert counted(log) == first + second


@pytest.mark.parametrize("n_moves", ["1", "1000", "1.5e3"])
def test_a_log_has_exactly_the_given_number_of_moves(
    tmp_path: Path, player: str, n_moves: str
) -> None:
    path = write_log(tmp_path, player, "--moves", n_moves)
    assert len(read(path)) == description(path)["moves"] == int(float(n_moves))
    assert counted(read(path)) <= games(player, range(1, 33))


def test_only_the_log_and_its_description_remain(tmp_path: Path, players: list[str]) -> None:
    sampling = ("--skip", "10", "--share", "0.5", "--seed", "3")
    log = write_log(tmp_path / "new" / "folder", players, "--games", "8", *sampling)
    assert set(contents(tmp_path)) == {"new/folder/log.json", "new/folder/log.npy"}
    assert not log.with_suffix(".parts").exists()
    seeds = [[*range(3, 7), *range(11, 15)], [*range(7, 11), *range(15, 19)]]
    played = [[game(name, seed) for seed in seeds[i]] for i, name in enumerate(players)]
    assert description(log) == {
        "moves": len(read(log)),
        "of_moves": sum(len(moves) for part in played for moves, _ in part),
        "players": [
            {"player": name, "games": 8, "mean_score": np.mean([score for _, score in part])}
            for name, part in zip(players, played, strict=True)
        ],
        **{"skip": 10, "share": 0.5, "batch": 4, "seed": 3},
        "crc32": zlib.crc32(read(log).tobytes()),
    }


def test_a_player_without_games_has_no_mean_score(tmp_path: Path, players: list[str]) -> None:
    result = description(write_log(tmp_path, players, "--moves", "10"))
    assert (result["moves"], result["of_moves"]) == (10, games(players[0], range(1, 5)).total())
    assert [each["games"] for each in result["players"]] == [4, 0]
    assert result["players"][1]["mean_score"] is None


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing(tmp_path: Path, player: str) -> None:
    """The program sends functions to its processes; it writes no superfluous round."""
    arguments = ("--moves", "2500", "--share", "0.9", "--batch", "4")
    program = ("-m", "afterstate", "log", str(tmp_path / "two.npy"))
    command = [sys.executable, *program, "--player", player, *arguments, "--jobs", "2"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stderr
    assert "Warning" not in result.stderr
    log = write_log(tmp_path, player, *arguments)
    assert log.read_bytes() == (tmp_path / "two.npy").read_bytes()
    assert log.with_suffix(".json").read_bytes() == (tmp_path / "two.json").read_bytes()


N_ROUNDS = 5
ROUNDS = ("--games", str(4 * N_ROUNDS), "--share", "0.7")


@pytest.fixture(scope="module")
def straight(players: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of an uninterrupted run of five rounds."""
    folder = tmp_path_factory.mktemp("straight")
    write_log(folder, players[0], *ROUNDS)
    return contents(folder)


def before_call(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, n: int, event: Callable[[], Any]
) -> None:
    """Call `event` before the n-th call of a function, counted from 1."""
    function, calls = getattr(owner, name), iter(range(1, 1_000_000))

    def called(*arguments: Any, **named: Any) -> Any:
        if next(calls) == n:
            event()
        return function(*arguments, **named)

    monkeypatch.setattr(owner, name, called)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, player: str) -> Callable[..., str]:
    """Return a function that runs the command until a call and returns its message.

    By default in `tmp_path`, with `ROUNDS`, until Ctrl-C.
    """

    def run(
        owner: Any,
        name: str,
        n: int,
        *more: str,
        event: Callable[[], Any] = interrupt,
        arguments: tuple[str, ...] = ROUNDS,
    ) -> str:
        with monkeypatch.context() as patched:
            before_call(patched, owner, name, n, event)
            return error_of(tmp_path, player, *arguments, *more)

    return run


@pytest.fixture
def broken(interrupted: Callable[..., str], tmp_path: Path) -> Path:
    """A folder with a run that was interrupted after two rounds."""
    interrupted(play_logs, "play_round", 3)
    return tmp_path


PLACES = {
    "first round": (play_logs, "play_round", 1),
    "third round": (play_logs, "play_round", 3),
    "before its buckets": (Buckets, "add", 2),
    "after the first buckets": (durable_files, "write", 2),
    "after the third buckets": (durable_files, "write", 4),
    "before the log": (Buckets, "write", 1),
    "in the log": (np, "fromfile", 100),
    "after the log": (durable_files, "write", N_ROUNDS + 3),
}
"""Places where a run may end: calls of functions."""


@pytest.mark.slow
@pytest.mark.parametrize("event", [interrupt, disk_full])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_an_interrupted_run_can_be_resumed_to_the_same_files(
    interrupted: Callable[..., str],
    tmp_path: Path,
    player: str,
    straight: dict[str, bytes],
    place: tuple[Any, str, int],
    event: Callable[[], Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = interrupted(*place, event=event)
    assert event is interrupt or "No space left" in message
    hint = message if event is interrupt else capsys.readouterr().err.strip()
    assert hint.endswith("--resume")
    assert not list(tmp_path.rglob("*.part"))
    write_log(tmp_path, player, *ROUNDS, "--resume")
    assert contents(tmp_path) == straight


@pytest.mark.slow
def test_an_interrupt_in_the_last_save_loses_nothing(
    tmp_path: Path, player: str, straight: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that comes while the buckets are synced waits until the state is saved, too."""
    with monkeypatch.context() as patched:
        before_call(patched, durable_files, "write", N_ROUNDS + 2, lambda: raise_signal(SIGINT))
        message = error_of(tmp_path, player, *ROUNDS)
    state = load_json((tmp_path / "log.parts" / "state.json").read_text())
    assert f"{sum(state['sizes']):,} moves are kept" in message
    write_log(tmp_path, player, *ROUNDS, "--resume")
    assert contents(tmp_path) == straight


@pytest.mark.slow
def test_a_run_can_be_interrupted_after_every_round(
    interrupted: Callable[..., str], tmp_path: Path, player: str, straight: dict[str, bytes]
) -> None:
    """The messages have the number of moves so far."""
    messages = [interrupted(play_logs, "play_round", 2)]
    messages += [interrupted(play_logs, "play_round", 2, "--resume") for _ in range(N_ROUNDS - 2)]
    messages.append(interrupted(Buckets, "write", 1, "--resume"))
    log = read(write_log(tmp_path, player, *ROUNDS, "--resume"))
    assert contents(tmp_path) == straight
    sampling = Sampling((player,), batch=4, share=0.7)
    sizes = np.cumsum([len(play_round(sampling, n).moves) for n in range(N_ROUNDS)])
    assert [f"{n:,} moves" in message for n, message in zip(sizes, messages, strict=True)]
    assert len(log) == sizes[-1]


def test_sigterm_interrupts_a_run(
    interrupted: Callable[..., str], tmp_path: Path, player: str, straight: dict[str, bytes]
) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def stop() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    assert "--resume" in interrupted(play_logs, "play_round", 3, event=stop)
    assert signal.getsignal(signal.SIGTERM) is before
    write_log(tmp_path, player, *ROUNDS, "--resume")
    assert contents(tmp_path) == straight


def test_an_early_interrupt_says_whether_there_is_something_to_resume(
    interrupted: Callable[..., str], tmp_path: Path, player: str, straight: dict[str, bytes]
) -> None:
    message = interrupted(play_logs, "_player", 1)
    assert message == "interrupted: nothing was written"
    assert not list(tmp_path.iterdir())
    interrupted(play_logs, "play_round", 3)
    for owner, name in ((play_logs, "_player"), (Buckets, "_resume"), (Buckets, "_file")):
        message = interrupted(owner, name, 1, "--resume")
        assert message == "interrupted: continue with --resume"
    write_log(tmp_path, player, *ROUNDS, "--resume")
    assert contents(tmp_path) == straight


def test_buckets_that_remain_next_to_their_log_are_removed(
    interrupted: Callable[..., str],
    tmp_path: Path,
    player: str,
    straight: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The run was killed while it removed them."""
    interrupted(Path, "unlink", 102)  # the first call is that of `check_writable`
    assert len(list((tmp_path / "log.parts").glob("*.moves"))) == N_BUCKETS - 100
    before = contents(tmp_path)
    assert "parts exists: continue with --resume" in error_of(tmp_path, player, *ROUNDS)
    other = error_of(tmp_path, player, *ROUNDS, "--seed", "2", "--resume")
    assert "log.parts has moves of" in other
    assert contents(tmp_path) == before
    log = write_log(tmp_path, player, *ROUNDS, "--resume")
    assert f"{log} is complete" in capsys.readouterr().out
    assert contents(tmp_path) == straight
    assert not (tmp_path / "log.parts").exists()


@pytest.mark.parametrize("has_description", [True, False])
def test_buckets_next_to_a_log_of_other_moves_are_not_removed(
    broken: Path, player: str, straight: dict[str, bytes], has_description: bool
) -> None:
    for name in ("log.npy", "log.json"):
        (broken / name).write_bytes(straight[name])
    if not has_description:
        (broken / "log.json").unlink()
    before = contents(broken)
    message = error_of(broken, player, *ROUNDS, "--resume")
    assert "log.npy exists and has other moves" in message
    assert contents(broken) == before


def test_temporary_files_of_killed_runs_do_not_accumulate(
    broken: Path, interrupted: Callable[..., str], player: str
) -> None:
    names = ["log.npy.999.part", "log.json.999.part", "log.parts/state.json.999.part"]
    for name in names:
        (broken / name).write_bytes(b"cut off")
    other = broken / "other.npy.999.part"
    other.write_bytes(b"of another log")
    interrupted(play_logs, "play_round", 1, "--resume")
    assert [*broken.rglob("*.part")] == [other]


@pytest.mark.parametrize("n_rounds", [0, 2])
def test_the_moves_of_an_incomplete_round_are_deleted(
    interrupted: Callable[..., str],
    tmp_path: Path,
    player: str,
    straight: dict[str, bytes],
    n_rounds: int,
) -> None:
    """Some of the buckets have moves of a round that was killed; the last one is cut off."""
    interrupted(play_logs, "play_round", n_rounds + 1)
    for bucket in range(100):
        with open(tmp_path / "log.parts" / f"{bucket:03}.moves", "ab") as file:
            file.write(b"half a round"[: 9 if bucket < 99 else 4])
    (tmp_path / "log.parts" / "state.json.999.part").write_bytes(b'{"sampling"')
    write_log(tmp_path, player, *ROUNDS, "--resume")
    assert contents(tmp_path) == straight


@pytest.mark.parametrize("end", [("--games", "13"), ("--moves", "1e3")])
def test_a_run_may_be_resumed_to_another_end(
    interrupted: Callable[..., str],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    player: str,
    end: tuple[str, str],
) -> None:
    interrupted(play_logs, "play_round", 2, arguments=("--moves", "1e9"))
    write_log(tmp_path, player, *end, "--resume")
    folder = tmp_path_factory.mktemp("straight")
    write_log(folder, player, *end)
    assert contents(tmp_path) == contents(folder)


def test_a_resumed_run_with_enough_moves_plays_no_more(
    interrupted: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, player: str
) -> None:
    interrupted(play_logs, "play_round", 3, arguments=("--moves", "1e9"))
    monkeypatch.setattr(play_logs, "play_round", interrupt)
    log = write_log(tmp_path, player, "--moves", "500", "--resume")
    assert len(read(log)) == 500
    assert description(log)["players"][0]["games"] == 8


def test_the_progress_bar_of_a_resumed_run_begins_at_its_games(
    broken: Path, player: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    write_log(broken, player, *ROUNDS, "--resume")
    bars = capsys.readouterr().err
    assert " 8.00/20.0 " in bars
    assert " 20.0/20.0 " in bars
    assert "games/s" in bars


@pytest.mark.parametrize(
    "option",
    ["--seed 2", "--skip 1", "--share 0.8", "--batch 5", "--player random"],
)
def test_a_run_is_not_resumed_with_other_settings(broken: Path, player: str, option: str) -> None:
    before = contents(broken)
    message = error_of(broken, player, *ROUNDS, *option.split(), "--resume")
    assert "log.parts has moves of" in message
    assert contents(broken) == before


def test_a_run_that_can_be_resumed_is_not_overwritten(broken: Path, player: str) -> None:
    before = contents(broken)
    assert "--resume" in error_of(broken, player, *ROUNDS)
    assert contents(broken) == before


def test_an_empty_folder_cannot_be_resumed(tmp_path: Path, player: str) -> None:
    assert "nothing to resume" in error_of(tmp_path, player, *ROUNDS, "--resume")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_no_run_waits_for_a_pipe(broken: Path, player: str) -> None:
    bucket = max((broken / "log.parts").glob("*.moves"), key=lambda path: path.stat().st_size)
    bucket.unlink()
    os.mkfifo(bucket)
    assert f"{bucket.name} must be a file, got a pipe" in error_of(
        broken, player, *ROUNDS, "--resume"
    )


def test_buckets_that_lost_moves_are_refused(broken: Path, player: str) -> None:
    """For example after a power cut; the moves are not played again."""
    bucket = max((broken / "log.parts").glob("*.moves"), key=lambda path: path.stat().st_size)
    bucket.write_bytes(bucket.read_bytes()[:-10])
    assert bucket.name in error_of(broken, player, *ROUNDS, "--resume")
    assert not (broken / "log.npy").exists()


@pytest.mark.parametrize("arguments", [(), ("--resume",)])
def test_a_log_is_not_overwritten(tmp_path: Path, player: str, arguments: tuple[str, ...]) -> None:
    write_log(tmp_path, player, "--moves", "10")
    before = contents(tmp_path)
    assert "log.npy exists" in error_of(tmp_path, player, "--moves", "20", *arguments)
    assert contents(tmp_path) == before


def test_other_files_are_not_changed(tmp_path: Path, player: str) -> None:
    folder, metadata = tmp_path / "log.parts", tmp_path / "log.json"
    folder.mkdir()
    (folder / "000.moves").write_bytes(b"mine")
    for more in ([], ["--resume"]):
        assert "no buckets" in error_of(tmp_path, player, *ROUNDS, *more)
    assert (folder / "000.moves").read_bytes() == b"mine"
    (folder / "000.moves").rename(folder / "thesis.txt")
    assert "no buckets" in error_of(tmp_path, player, *ROUNDS, "--resume")
    (folder / "thesis.txt").rename(tmp_path / "thesis.txt")
    folder.rmdir()
    metadata.write_text("{}")
    assert "log.json exists" in error_of(tmp_path, player, *ROUNDS)
    assert metadata.read_text() == "{}"


@pytest.mark.parametrize(
    "wrong",
    [
        *(f"--games {value}" for value in ("0", "-1", "1.5", "x", "nan")),
        *(f"--moves {value}" for value in ("0", "-5", "1e-3", "many", "inf")),
        *(f"--moves 1 --share {value}" for value in ("0", "-0.1", "1.1", "nan", "half")),
        *(f"--moves 1 --skip {value}" for value in ("-1", "1.5", "x")),
        *(f"--moves 1 --seed {value}" for value in ("-1", "1.5", "one")),
        *(f"--moves 1 --batch {value}" for value in ("0", "-1", "two")),
        *(f"--moves 1 --jobs {value}" for value in ("0", "-1", "two")),
        "--moves 1 --player",
        "--moves 1 --speed 3",
    ],
)
def test_wrong_options_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        run_log(str(tmp_path / "log.npy"), *wrong.split())
    assert caught.value.code == 2
    options = [word[2:] for word in wrong.split() if word.startswith("--")]
    assert options[-1] in capsys.readouterr().err


@pytest.mark.parametrize(("words", "given"), [("", "neither"), ("--games 1 --moves 1", "both")])
def test_one_end_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, given: str
) -> None:
    with pytest.raises(SystemExit):
        run_log(str(tmp_path / "log.npy"), "--player", "nobody", *words.split())
    assert f"one of --games and --moves must be given, got {given};" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["log", "log.npz", "log.npy.gz", ".npy"])
def test_the_name_of_a_log_must_end_in_npy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        run_log(str(tmp_path / name), "--moves", "1")
    assert caught.value.code == 2
    assert ".npy" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_options_have_defaults() -> None:
    args = LogOptions(Path("a.npy"), moves=10_000_000)
    assert (args.player, args.moves, args.games) == (["expectimax"], 10_000_000, None)
    assert (args.skip, args.share, args.jobs, args.resume) == (0, 1.0, 1, False)
    assert (args.batch, args.seed) == Sampling(("a",))[1::3]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("alphazero", "'alphazero'"),
        ("missing.npz", "missing.npz"),
        ("random,speed=3", "speed"),
        ("random,seed", "name=value"),
        ("expectimax,depth=99,tuples=4x6", "depth"),
    ],
)
def test_a_wrong_player_is_refused_before_anything_is_written(
    tmp_path: Path, player: str, name: str, message: str
) -> None:
    assert message in error_of(tmp_path, [player, name], "--moves", "1")
    assert not list(tmp_path.iterdir())


def test_a_player_of_smaller_boards_or_of_another_game_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(network([[0, 1]], (2, 2)), tmp_path / "small.npz")
    assert "4x4" in error_of(tmp_path, str(tmp_path / "small.npz"), "--moves", "1")
    monkeypatch.setattr(agents, "find", lambda text, seed=None: object())
    assert "cards" in error_of(tmp_path, "cards", "--moves", "1")
    assert [path.name for path in tmp_path.iterdir()] == ["small.npz"]


def test_an_illegal_move_ends_a_run_that_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agents.make("reward", seed=1)
    monkeypatch.setattr(agents, "find", lambda text, seed=None: agent)
    with monkeypatch.context() as patched:
        patched.setattr(agent, "choose_actions", lambda boards: np.full(len(boards), 5, np.int8))
        message = error_of(tmp_path, "stubborn", "--moves", "10")
    assert "illegal action" in message
    assert len(read(write_log(tmp_path, "stubborn", "--moves", "10", "--resume"))) == 10


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, player: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert "file" in error_of(tmp_path / "file", player, "--moves", "1")

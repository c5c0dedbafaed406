"""The command `afterstate`: help, errors, exit codes and completion of all commands."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from numba import njit

from afterstate import agents
from afterstate.__main__ import COMMANDS, main
from afterstate.envs.commands import exit_code
from afterstate.envs.messages import missing

GAMES = Path(__file__).parents[1] / "data" / "daihinmin"


def error_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a wrong command line prints, which must exit with 2."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    return "".join(capsys.readouterr())


@pytest.fixture
def working_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The working directory, whose modules can be imported during the test and not after it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield tmp_path
    for file in tmp_path.glob("*.py"):
        sys.modules.pop(file.stem, None)


def test_the_usage_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(re.search(rf"^  {name} +\w", out, re.MULTILINE) for name in COMMANDS)
    assert main([]) == 2
    assert capsys.readouterr().out == out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_function_of_a_command_exists(name: str) -> None:
    module, _, function = COMMANDS[name].run.partition(":")
    assert callable(getattr(import_module(module), function))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("prune missing.npz small.npz", "NETWORK: missing.npz: No such file or directory"),
        ("play 2048 --hints missing.npz", "--hints: missing.npz: No such file or directory"),
        ("web --folder file", "--folder must be a folder, got the file file"),
        ("log moves.npy --player nobody --games 1", "'nobody'"),
        ("train ntupel --out run --moves 1", "got 'ntupel', did you mean ntuple?; see"),
        ("train --out run", "must be followed by one of ntuple, value, policy, search, rank"),
        ("train ntuple settings.json --out run --moves 1", "settings.json"),
        ("train ntuple --out run", "--moves or --hours must be given, got neither"),
        ("train rank --out run", "--generations or --hours must be given, got neither"),
        ("train ntuple --out file --moves 1", "--out must be a folder, got the file file"),
        ("eval file", "no player 'file': files of networks must end in .npz, .safetensors, .w"),
        ("leaderboard report --rows empty", "empty has no rows of these entries"),
        ("train policy --out run --moves 1", "log must be given: the file of a play log"),
        ("train rank --out run --generations 1 --teacher a", "error: --teacher: player must be a"),
        ("train value --out run --moves 1 --device gpu", "must be a name that torch knows, such"),
        (
            "leaderboard play --only rndom",
            "--only must match entries, got 'rndom', did you mean 'rando",
        ),
        ("watch sample --until 2048", "until must be left out for Daihinmin"),
        ("watch reward --to folder.gif", "folder.gif is not a file"),
        ("watch reward --to file/game.gif", "file: must be a folder, got a file"),
        ("join --host nosuch.invalid", "host must be a known address, got 'nosuch.invalid'"),
        ("leaderboard play --entries missing.yaml", "missing.yaml"),
    ],
)
def test_wrong_files_and_settings_end_with_2(
    words: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "folder.gif").mkdir()
    error = error_of(words.split(), capsys)
    assert error.startswith("error: ") and message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("watch reward --seed 1.5", "--seed must be an integer, got '1.5'; see afterstate watch"),
        ("eval random --gamez 2", "there is no option '--gamez', did you mean --games?; see"),
        ("train ntuple", "--out must be given; see afterstate train ntuple --help"),
        ("train ntuple --out a --learner.rte 1", "'--learner.rte', did you mean --learner.rate?"),
        ("train value --out a --learner.rule tcc", "there is no option '--learner.rule'"),
        ("train ntuple --out a --learner.rule tcc", "--learner.rule must be one of tc, td, got"),
        ("train ntuple --out a --network.stages x", "--network.stages must be an integer, got 'x'"),
        ("train ntuple --out a --network.tuples [[0", "--network.tuples must be a text or a list"),
        ("list all a=b", "there is no argument 'a=b'; see afterstate list --help"),
        ("list player", "WHAT must be one of all, environments, players, networks, got 'player'"),
        ("play", "afterstate play must be followed by one of 2048, daihinmin, got nothing; see"),
        ("prune a", "OUTPUT must be given; see afterstate prune --help"),
        (
            "play 2048 --hint a",
            "no option '--hint', did you mean --hints?; see afterstate play 2048",
        ),
        ("log a.txt --games 1", "LOG must end in .npy, got 'a.txt'; see afterstate log --help"),
        ("leaderboard play --jobs 0", "jobs must be >= 1, got 0; see afterstate leaderboard play"),
        ("eval random --games", "--games must have a value; see afterstate eval --help"),
        ("train ntuple --out=", "--out must be a path, got ''; see afterstate train ntuple --help"),
        ("web --folder=", "--folder must be a path, got ''; see afterstate web --help"),
    ],
)
def test_wrong_options_are_named_in_one_line(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = error_of(words.split(), capsys)
    assert error.startswith("error: ") and message in error
    assert error.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("words", ["warmup nobody", "eval random,reward", "eval nobody"])
def test_wrong_players_are_refused_before_kernels_are_compiled(words: str) -> None:
    code = "import sys; from afterstate.__main__ import main\n"
    code += f"try: main({words.split()})\nexcept SystemExit: print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = [name for name in run.stdout.split() if name.startswith("afterstate.")]
    assert "afterstate.commands.players" in loaded
    assert not [name for name in loaded if name.endswith((".rules", ".play", ".plays"))]


def test_an_interrupt_within_a_text_that_is_evaluated_ends_with_130(tmp_path: Path) -> None:
    """CPython would end by SIGINT: a shell shows the same, other programs do not."""
    code = "def run(): exec('raise KeyboardInterrupt')\n"
    code += "import sys; from afterstate.envs.commands import exit_code; sys.exit(exit_code(run))"
    (tmp_path / "interrupted.py").write_text(code)
    command = [sys.executable, "-m", "interrupted"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 130


def test_a_cache_that_cannot_be_written_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    caching = pytest.importorskip("numba.core.caching")

    def compile_() -> None:
        njit("int64(int64)", cache=True)(lambda number: number)

    with monkeypatch.context() as patch:
        cache = getattr(caching, "CacheImpl", None) or caching._CacheImpl  # of older versions
        patch.setattr(cache, "_locator_classes", [])
        with pytest.raises(SystemExit, match="2"):
            exit_code(compile_)
    assert "NUMBA_CACHE_DIR) cannot be written anywhere" in capsys.readouterr().err

    def fill(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", fill)
    with pytest.raises(SystemExit, match="1"):
        exit_code(compile_)
    assert "(NUMBA_CACHE_DIR): No space left on device" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="descriptors are closed by a shell")
@pytest.mark.parametrize("game", ["2048", "daihinmin"])
def test_closed_input_ends_a_game(game: str) -> None:
    command = f"exec {sys.executable} -m afterstate play {game} --seed 1 <&-"
    played = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert played.returncode == 0 and "Traceback" not in played.stderr


@pytest.mark.skipif(find_spec("ray") is not None, reason="ray is installed")
@pytest.mark.parametrize(
    "words",
    [
        "log moves.npy --player reward --moves 1000",
        "train rank --out run --generations 1",
        "train daihinmin-policy --out run --games 1",
        "leaderboard play --only random",
        "leaderboard tournament " + 5 * "daihinmin-random ",
    ],
)
def test_a_missing_backend_is_named_before_anything_is_written(
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    error = error_of([*words.split(), "--backend", "ray"], capsys)
    assert 'a Ray cluster needs ray: pip install "afterstate[ray]"' in error
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
def test_an_interrupt_after_the_end_does_not_change_the_exit_code(tmp_path: Path) -> None:
    code = "import atexit, os, signal, sys; from afterstate import __main__ as command;"
    code += "atexit.register(os.kill, os.getpid(), signal.SIGINT);"
    code += "command._run_words = lambda _: sys.exit(143); sys.exit(command.main())"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == 143


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
def test_ctrl_c_ends_the_command_while_modules_are_imported_and_interrupts_it_then(
    tmp_path: Path,
) -> None:
    code = "import signal, sys; sys.argv = [sys.argv[1], 'list'];"
    code += "signal.signal(signal.SIGINT, signal.default_int_handler);"
    code += (
        "from afterstate import __main__ as command; print(repr(signal.getsignal(signal.SIGINT)));"
    )
    code += "command._run_words = lambda _: signal.raise_signal(signal.SIGINT);"
    code += "sys.exit(command.main())"
    for program, handler in (("afterstate", "SIG_DFL"), ("mine.py", "default_int_handler")):
        words = [sys.executable, "-c", code, program]
        result = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert (result.returncode, result.stderr.strip()) == (130, "")
        assert handler in result.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_messages_that_cannot_be_written_end_no_work() -> None:
    command = [sys.executable, "-m", "afterstate", "eval", "random", "--games", "2"]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, text=True)
    assert result.returncode == 0 and "mean score" in result.stdout


def test_an_interrupted_command_ends_with_130_and_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("afterstate.agents.training.run._RunState.advance", interrupt)
    run = str(tmp_path / "run")
    assert main(["train", "ntuple", "--out", run, "--moves", "1", "--network.tuples", "5x4"]) == 130
    assert capsys.readouterr().err.endswith(f"saved in {run}: continue with --resume\n")


@pytest.mark.slow
def test_names_and_settings_are_listed_without_kernels(tmp_path: Path) -> None:
    """Nothing is compiled: the cache stays empty."""
    command = [sys.executable, "-m", "afterstate", "list", "--json"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    players = {each["name"]: each["settings"] for each in json.loads(run.stdout)["players"]}
    assert players["random"] == ["seed", "size"] and "depth" in players["expectimax"]
    assert not list(tmp_path.iterdir()) and run.stderr == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("plya", "afterstate must be followed by one of play, watch, web, eval, train, leaderb"),
        ("plya", "completion, --help, --version, got 'plya', did you mean play?; see afterstate -"),
        (
            "play 2084",
            "one of 2048, daihinmin, got '2084', did you mean 2048?; see afterstate play",
        ),
        (
            "leaderboard verif",
            "got 'verif', did you mean verify?; see afterstate leaderboard --help",
        ),
        ("watch expectimax,dpth=3", "'expectimax' has no setting 'dpth', did you mean 'depth'?"),
        ("watch ntupel", "there is no player 'ntupel', did you mean 'ntuple'?"),
        ("watch random --to a.avi", "to must be terminal, window or a .gif or .mp4 file"),
        ("watch random --until 5", "until must be a power of two from 4 to 131072, got 5"),
        ("watch random --speed -1", "speed must be 0 or in 0.01..1000"),
        ("watch random --speed nan", "speed must be 0 or in 0.01..1000"),
        ("watch random --speed 1e-3 --to a.gif", "speed must be 0 or in 0.01..1000"),
        ("watch random --to a.gif --last 0", "last must be in 1..1000, got 0"),
        ("watch random --moves -1", "moves must be >= 0"),
        ("watch random --moves \u0661\u0662", "moves must be an integer, got '\u0661\u0662'"),
        ("watch random --moves 1__0", "--moves must be an integer, got '1__0'"),
        (
            "log a.npy --player random --games 1 --batch 4294967296",
            "batch must be <= 1000000, got 4294967296",
        ),
        (
            "leaderboard tournament a b c d e --cycles 4294967296",
            "cycles must be <= 1000000, got 4294967296",
        ),
        ("join --silence-seconds 4294967.296", "--silence-seconds must be > 0 and <= 1e+06, got 4"),
        ("watch missing\033[2J.npz", "error: missing [2J.npz: No such file or directory\n"),
        (
            "watch random reward",
            "players must be one player of 2048, or 1 to 5 of Daihinmin, got random reward",
        ),
        ("watch expectimax,depth=2,depth=3", "settings of a player must differ, got 'depth' twice"),
        ("play daihinmin --seed -5", "error: --seed must be none or an integer >= 0, got -5"),
        ("watch missing.npz", "error: missing.npz: No such file or directory\n"),
        ("eval random --games 0", "--games must be in 1..10,000,000, got 0"),
        ("eval random --seed -1", "--seed must be an integer >= 0, got -1"),
        ("watch random --seed -1", "--seed must be an integer >= 0, got -1"),
        ("prune a.npz b.npz --step nan", "--step must be a number, got nan"),
        (
            "eval reward daihinmin-sample",
            "players must be of one game, got reward (2048), daihinmin",
        ),
        ("eval", "PLAYER must be given; see afterstate eval --help"),
        ("eval sample --games 150", "--games must be a multiple of 100 in Daihinmin, got 150"),
        ("eval reward --opponents sample", "opponents must be left out for players of 2048"),
        ("eval random --games 20000000", "games must be in 1..10,000,000, got 20,000,000"),
        (
            "eval sample --opponents a",
            "opponents: player must be a name or a player's file, got 'a'",
        ),
        ("eval sample --opponents policyy", "got 'policyy', did you mean 'policy'?"),
        ("play daihinmin --opponents mc-rnk,playouts=5", "did you mean 'mc-rank'?"),
        ("play 2048 --seed -1", "error: --seed must be none or an integer >= 0"),
        ("play daihinmin --games -1", "games must be an integer in 1..2**62, got -1"),
        ("play daihinmin --opponents daihinmin-mx", "did you mean 'daihinmin-mc'?"),
        ("play daihinmin --opponents expectimax", "opponents: a player must be one of Daihinmin"),
        ("play daihinmin --hints expectimax", "hints: a player must be one of Daihinmin, got 'exp"),
        ("play 2048 --rows 9", "error: --rows must be in 1..4, got 9\n"),
        (
            "play daihinmin --opponents sample sample sample sample sample",
            "error: --opponents: players must be 1 to 4, got 5",
        ),
        ("train ntuple --out a --rate 2", "'--rate', did you mean --learner.rate?; see"),
        (
            "train ntuple --out a --moves 1 --network.tuples 9x9",
            "--network.tuples must be lists of",
        ),
        ("train value --out a --moves 1 --network CNN", "--network must be one of CNN22, got"),
        ("train value --out a --moves 1 --network CNN22,outputs=relu", "did you mean 'output'?"),
        ("train search --out a --threads 0", "--threads must be >= 1, got 0; see afterstate train"),
        ("train ntuple --out a --moves 1 --generations 3", "no option '--generations'; see"),
        ("warmup random nobody", "there is no player 'nobody'"),
        ("play 2048 --hints daihinmin-mc", "one of 2048, got 'daihinmin-mc', a player of Daihin"),
        ("play 2048 --hints expectimx", "did you mean 'expectimax'?"),
        ("serve --seats daihinmin-mc-rnk", "did you mean 'daihinmin-mc-rank'?"),
        ("serve --seats mc-rnk", "did you mean 'mc-rank'?"),
        ("join --name averyverylongname", "name must have at most 14 characters"),
        ("watch model.zip", "docs/tutorials/ppo_dqn.md shows how to make a player of a model"),
        ("watch tests", "it is a folder, files of players in it: none"),
        ("warmup nobody", "there is no player 'nobody'"),
        ("eval random,reward", "settings of a player must be name=value"),
        ("eval mc,playouts=0", "playouts must be"),
        (
            "warmup expectimax,depth=0",
            "error: expectimax: depth must be >= 1, got 0",
        ),
        ("completion fish", "SHELL must be one of bash, zsh, tcsh, got 'fish'"),
        ("replay", "FILE must be given; see afterstate replay --help"),
        ("replay missing.jsonl", "error: missing.jsonl: No such file or directory"),
        ("replay tests", "error: tests: Is a directory"),
        (
            "leaderboard verify --rows missing",
            "rows must be a folder with rows of these entries, got missing",
        ),
        ("serve --games 1000000000000", "games must be in 1..1,000,000"),
        ("serve --seats nobody", "seats: player must be a name or a player's file, got 'nobody'"),
        ("serve --replacement nobody", "replacement: player must be a name or a player's file"),
        (
            "serve --seats heuristic heuristic heuristic heuristic heuristic --replacement nobody",
            "replacement: player must be a name",
        ),
        ("serve --matches -1", "matches must be in 0..1,000,000,000"),
        ("serve --reply-seconds inf", "--reply-seconds must be in 0.001..1,000,000"),
        ("serve --reply-seconds nan", "--reply-seconds must be in 0.001..1,000,000"),
        ("serve --wait-seconds inf", "--wait-seconds must be in 0..1,000,000"),
        (f"serve --match {'x' * 201}", "match must have 1 to 200 characters, got 201"),
    ],
)
def test_errors_say_what_is_wrong(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in error_of(words.split(), capsys)


def test_results_of_replay_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    games, damaged = GAMES / "lazymix.jsonl.gz", tmp_path / "damaged.jsonl"
    damaged.write_text("{")
    assert main(["replay", str(games), str(damaged), "--json"]) == 1
    whole, cut = json.loads(capsys.readouterr().out)
    assert whole["file"] == str(games) and whole["ok"] and whole["games"] > 0
    assert (whole["mismatches"], whole["first"], whole["damaged"]) == (0, "", 0)
    assert cut["damaged"] == 1 and "is not JSON" in cut["damage"] and not cut["ok"]
    assert main(["replay", str(games), "--json"]) == 0


@pytest.mark.parametrize(
    "words", ["watch random --sped 3", "play", "play chess", "list everything"]
)
def test_unknown_options_and_words_are_errors(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error_of(words.split(), capsys)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pipe of a shell")
@pytest.mark.parametrize(
    "module",
    [
        *("afterstate completion bash", "afterstate --help", "afterstate watch --help"),
        *("afterstate list", "afterstate.agents.training ntuple --help"),
        *("afterstate.leaderboard --help", "afterstate.leaderboard report --help"),
        *("afterstate log --help", "afterstate prune --help"),
    ],
)
def test_a_reader_that_ends_early_is_no_error(module: str, tmp_path: Path) -> None:
    """Also of the forms `python -m`; the reader here ends before anything is written."""
    command = f'{{ {sys.executable} -m {module}; echo "code $?" >&2; }} | true'
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    words = ["sh", "-c", command]
    run = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert (run.stdout, run.stderr) == ("", "code 141\n")


@pytest.mark.skipif(sys.platform == "win32", reason="a folder that is in use is not removed there")
@pytest.mark.parametrize("words", ["list", "serve", "train ntuple --out run --moves 1"])
def test_a_working_folder_that_was_removed_is_named(words: str, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    command = f'rmdir "{folder}" && exec {sys.executable} -m afterstate {words}'
    run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=folder)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "error: the working directory was removed: change to another one\n"


def test_a_long_text_is_not_repeated_whole(capsys: pytest.CaptureFixture[str]) -> None:
    error = error_of(["watch", f"{'a' * 10_000}.npz"], capsys)
    assert len(error) < 5000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_closed_streams_and_other_encodings_are_no_error(tmp_path: Path) -> None:
    """Results are printed even where the terminal does not know their characters."""
    play = f"{sys.executable} -m afterstate eval random --games 3"
    for streams in ("2>&-", ">&- 2>&-"):
        assert subprocess.run(["sh", "-c", f"{play} {streams}"], cwd=tmp_path).returncode == 0
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    words = [*play.split()]
    out = subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert b"\\xb1" in out.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("watch mine:Mover", "must return one integer action for each of 1 boards, got None"),
        ("eval mine:Mover --games 1", "must return one integer action for each of 1 boards"),
        ("eval mine:Ragged --games 1", "action for each of 1 boards, got [[1], [1, 2]]"),
        ("watch mine:Ragged", "action for each of 1 boards, got [[1], [1, 2]]"),
        ("eval mine:Line --games 1", "size must be [rows, cols], got 4"),
        ("watch mine:Line", "size must be [rows, cols], got 4"),
        ("watch mine:Stuck", "the player returned the illegal action 0, legal are "),
        ("eval syntax:Mine", "syntax:Mine: invalid syntax (syntax.py, line 1)"),
        ("eval importing:Mine", "importing:Mine: No module named 'nothere'"),
        ("eval mine:Finisher --games 1", "finish of the player must return its number of moves"),
        ("watch mine:Seat", "choose of a player must return an integer, got None"),
        ("eval mine:Mover reward --games 1", "mine:Mover: "),
        ("eval sample heuristic --games 150", "error: --games must be a multiple"),
        ("eval sample heuristic --games 100 --opponents nobody", "error: --opponents: player must"),
        ("eval sample mine:Seat --games 100", "mine:Seat: choose of a player must return"),
        ("eval mine:Seat --games 100", "choose of a player must return an integer, got None"),
    ],
)
def test_a_player_that_returns_something_else_is_named(
    words: str, message: str, capsys: pytest.CaptureFixture[str], working_folder: Path
) -> None:
    code = "class Mover:\n    def act(self, boards): pass\n"
    code += "class Ragged:\n    def act(self, boards): return [[1], [1, 2]]\n"
    code += "class Stuck:\n    def act(self, boards): return [0] * len(boards)\n"
    code += "class Line(Ragged):\n    size = 4\n"
    code += "class Finisher(Ragged):\n    def finish(self, games): return 'x'\n"
    code += "class Seat:\n    def choose(self, view): pass\n    def give(self, view, n): pass\n"
    (working_folder / "mine.py").write_text(code)
    (working_folder / "syntax.py").write_text("class (")
    (working_folder / "importing.py").write_text("import nothere")
    assert message in error_of(words.split(), capsys)


@pytest.mark.parametrize("words", [["--seed", "3"], ["--help=1"], ["-x"]])
def test_an_option_before_the_word_that_must_come_first_is_an_error(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = f"got {words[0]!r}, options come after it; see"
    expected = f"afterstate play must be followed by one of 2048, daihinmin, {given}"
    error = error_of(["play", *words], capsys)
    assert error.startswith(f"error: {expected}") and error.count("\n") == 1


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ('{"network": {"tuples": "4x6"}, "learner": {"rule": "td"}}', "it is one of ntuple\n"),
        ('{"unknown": 1}', ""),
    ],
)
def test_the_folder_of_another_learner_is_not_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: str, reason: str
) -> None:
    (tmp_path / "settings.json").write_text(settings)
    (tmp_path / "learner.npz").touch()
    with pytest.raises(SystemExit, match="2"):
        main(["train", "rank", "--out", str(tmp_path), "--resume", "--generations", "1"])
    expected = f"error: {tmp_path} must be the folder of a run of rank: {reason}"
    assert capsys.readouterr().err.startswith(expected)


def test_a_long_number_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    error = error_of(["play", "2048", "--seed", "9" * 5_000], capsys)
    assert "--seed must be an integer" in error and len(error) < 400


def test_a_name_of_both_games_is_that_of_the_other_players(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["watch", "random", "heuristic", "--moves", "1", "--seed", "1"]) == 0
    assert "random" in capsys.readouterr().out


@pytest.mark.slow
def test_your_own_player_is_named_by_module_and_factory(
    capsys: pytest.CaptureFixture[str], working_folder: Path
) -> None:
    """The module may be in the working directory."""
    source = """
from afterstate.agents.game2048.simple import RewardAgent
def lucky(seed=0, size=(4, 4)):
    return RewardAgent(seed=seed, size=size)
def takes_any(**settings):
    return lucky(**settings)
def needs(what):
    return what
nothing = 3
"""
    (working_folder / "own.py").write_text(source)
    words = [sys.executable, "-P" if sys.version_info >= (3, 11) else "-B", "-m", "afterstate"]
    words += ["eval", "own:lucky", "reward", "--games", "3", "--json"]
    own, ours = json.loads(subprocess.check_output(words))
    assert own["mean"] == ours["mean"]
    words[words.index("own:lucky")] = "own:takes_any,seed=5"
    assert len(json.loads(subprocess.check_output(words))) == 2
    for player, message in {
        "own:nothing": "own has no function or class 'nothing'",
        "own:missing": "own has no function or class 'missing'",
        "own.py:lucky": "own.py:lucky: a module has no .py, write own:lucky",
        "own:needs": "own:needs: missing a required argument: 'what'",
        "own:lucky,sead=1": "own:lucky has no setting 'sead', did you mean 'seed'?",
        "os:getcwd": "os:getcwd must return a player (act, or choose and give), got str",
        "missing_module:x": "missing_module:x: there is no module 'missing_module'",
        "own:lucky,seed": "settings of a player must be name=value",
    }.items():
        assert message in error_of(["eval", player, "--games", "3"], capsys)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "other"),
    [("play_2048", "daihinmin"), ("play_daihinmin", "game2048"), ("watch", "daihinmin")],
)
def test_commands_of_a_game_import_no_rules_of_the_other(module: str, other: str) -> None:
    code = (
        f"import sys; import afterstate.commands.{module}\n"
        f"print('afterstate.envs.{other}.rules' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("torch", "torch", "neural"),
        ("filelock", "filelock", "train"),
        ("PIL", "pillow", "render"),
        ("yaml", "pyyaml", "examples"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    module: str, package: str, extra: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    with pytest.raises(SystemExit) as stop:
        exit_code(fails)
    assert stop.value.code == 2
    expected = f'error: this needs {package}: pip install "afterstate[{extra}]"\n'
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    "words",
    [
        "warmup value-net",
        "play 2048 --hints value-net",
        "play daihinmin --opponents rank",
        "eval daihinmin-mc-rank --games 100",
        "watch policy-net,layers=5",
    ],
)
def test_players_need_their_extra_before_anything_is_compiled(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("afterstate.agents.find_spec", lambda name: None)
    assert 'needs torch and safetensors: pip install "afterstate[neural]"' in error_of(
        words.split(), capsys
    )


def test_all_players_are_those_whose_extra_is_installed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr("afterstate.agents.find_spec", lambda name: None)
    monkeypatch.setattr("afterstate.commands.warmup._move", made.append)
    assert main(["warmup", "random", "all"]) == 0
    assert made == [name for name in agents.names() if not agents.needs_torch(name)]
    expected = f"left out: {', '.join(name for name in agents.names() if name not in made)}: pip"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("to", ["game.gif", "game.mp4", "window"])
def test_pictures_need_their_extra_before_a_game_is_played(
    to: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("PIL", "pygame"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(tmp_path)
    error = error_of(["watch", "reward", "--to", to], capsys)
    assert 'pip install "afterstate[render]"' in error


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, 1), (errno.EFBIG, 1), (2, 2)])
def test_a_full_disk_is_a_failed_run(
    number: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise OSError(number, "no", "some/file")

    with pytest.raises(SystemExit) as stop:
        exit_code(fails)
    assert stop.value.code == code
    assert capsys.readouterr().err == "error: some/file: no\n"


@pytest.mark.slow
def test_a_file_may_have_the_name_of_an_option(tmp_path: Path) -> None:
    shutil.copy(GAMES / "default5.jsonl.gz", tmp_path / "-h.gz")
    (tmp_path / "-h").write_bytes(gzip.decompress((tmp_path / "-h.gz").read_bytes())[:100_000])
    command = [sys.executable, "-m", "afterstate", "replay", "--", "-h"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert " 0 mismatches" in run.stdout and "AttributeError" not in run.stdout + run.stderr


def test_other_missing_packages_are_named_alone() -> None:
    assert missing(ModuleNotFoundError("No module named 'mine'", name="mine")) == ""
    assert missing(ModuleNotFoundError("No module named 'torch.hpu'", name="torch.hpu")) == ""
    assert missing(ImportError("needs more", name="torch")) == ""
    assert missing(ValueError("No module named 'torch'")) == ""

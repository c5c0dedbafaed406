"""Commands of people who play and watch: what is shown, and what keys and words do."""

from __future__ import annotations

import io
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import gymnasium as gym
import pytest

from afterstate.__main__ import main
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.simple import RewardAgent
from afterstate.agents.game2048.values import ntuple_file
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.envs import pictures

Captured = pytest.CaptureFixture[str]


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let a text be typed."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def boards(out: str) -> list[list[list[int]]]:
    """Return the boards that were printed, as tiles."""
    rows = [
        [int(cell.replace(".", "0")) for cell in line.strip("│").split("│")]
        for line in out.splitlines()
        if line.startswith("│")
    ]
    return [rows[i : i + 4] for i in range(0, len(rows), 4)]


@pytest.mark.parametrize("keys", ["wdsa", "\x1b[A\x1b[C\x1b[B\x1bOD"])
def test_keys_play_the_game_of_the_seed(
    keys: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    typed(monkeypatch, keys)
    assert main(["play", "2048", "--seed", "5"]) == 0
    shown = boards(capsys.readouterr().out)
    env = gym.make("afterstate:Game2048-v0")
    expected = [env.reset(seed=5)[0], *(env.step(action)[0] for action in (0, 1, 2, 3))]
    assert shown == [[[int(2**e) if e else 0 for e in row] for row in board] for board in expected]


@pytest.mark.slow
def test_keys_in_a_terminal_wait_for_a_hint_and_are_not_echoed() -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "afterstate", "play", "2048", "--seed", "5"]
    arguments = [*command, "--hints", "reward"]
    with subprocess.Popen(arguments, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        try:
            out, start = read_until(ours, "\x1b"), time.monotonic()  # a query, not answered
            if "Q quit" not in out:
                out += read_until(ours, "Q quit")
            assert time.monotonic() - start < 4
            os.write(ours, b"\xe9x")  # of another encoding
            time.sleep(0.3)
            os.write(ours, b"w?\x1b[C\x1bOB" + b"a\x04")
            out += read_until(ours, None)
            assert process.wait(10) == 0
        finally:
            process.kill()
            os.close(ours)
    actions = re.findall(r"(up|right|down|left), \+", out)
    assert actions == ["up", "right", "down", "left"]
    assert re.search(r"hint of reward: \w+", out)
    assert "w?" not in out and "^[" not in out


def read_until(terminal: int, text: str | None) -> str:
    """Return what a program writes until a text, or until it ends."""
    out = ""
    while text is None or text not in out:
        assert select.select([terminal], [], [], 60)[0], f"no more after {out!r}"
        try:
            out += os.read(terminal, 65536).decode()
        except OSError:  # Linux's answer at the end
            break
    return out


def test_a_move_is_taken_back_with_its_chance(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    typed(monkeypatch, "wuuw")
    main(["play", "2048", "--seed", "5"])
    out = capsys.readouterr().out
    first, moved, back, still, again = boards(out)
    assert first == back == still
    assert moved == again
    assert "this is the start of the game" in out


@pytest.mark.slow
def test_a_hint_is_the_move_of_the_player(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    typed(monkeypatch, "?")
    main(["play", "2048", "--seed", "5", "--hints", "ntuple"])
    out = capsys.readouterr().out
    assert re.search(r"hint of ntuple: (up|right|down|left)", out)
    typed(monkeypatch, "?")
    main(["play", "2048", "--rows", "2", "--hints", "ntuple"])
    assert "there is no hint: " in capsys.readouterr().out


def test_a_new_game_has_the_next_seed(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    typed(monkeypatch, "n")
    main(["play", "2048", "--seed", "5"])
    out = capsys.readouterr().out
    typed(monkeypatch, "")
    main(["play", "2048", "--seed", "6"])
    assert boards(out)[1:] == boards(capsys.readouterr().out)
    assert "game of seed 6" in out


def test_the_end_of_a_game_is_told(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    typed(monkeypatch, "wdsa" * 2000)
    main(["play", "2048", "--seed", "5", "--rows", "2", "--cols", "2"])
    assert re.search(r"no move is left, the largest tile is \d+: U undo", capsys.readouterr().out)


def test_a_person_plays_daihinmin(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """Always the first legal play: the match ends and its points are those of five places."""
    typed(monkeypatch, "?\nL\nnonsense\nJO JO\n0\n" + "1\n" * 60)
    words = "play daihinmin --seed 3 --hints sample --opponents sample random"
    assert main(words.split()) == 0
    out = capsys.readouterr().out
    assert re.search(r"hint of sample: (pass|\w\w)", out)
    assert re.search(r"1: \w\w", out)
    assert "a play must be 'pass', a card" in out
    assert re.search(r"a number in the list must be in 1\.\.\d+, got 0", out)
    points = re.search(r"^points: (.*)$", out, re.MULTILINE)
    assert points
    assert sorted(int(word) for word in re.findall(r" (\d+)(?:,|$)", points[1])) == [1, 2, 3, 4, 5]


def test_cards_are_given_in_the_exchange(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """A person who is fugo or daifugo is asked for cards; wrong ones are refused, with the hint."""
    asked = "cards to give away> "
    for seed in range(40):
        typed(monkeypatch, "1\n" * 40)
        main(["play", "daihinmin", "--seed", str(seed), "--games", "2", "--opponents", "random"])
        out = capsys.readouterr().out
        if asked in out:
            break
    assert "game 1: " in out
    assert out.count("points: ") > 1, "after the game, and at each turn of the next one"
    before = out[: out.index(asked)].count("> ")
    typed(monkeypatch, "1\n" * before + "S3\n?\nq\n")
    words = "--games 2 --opponents random --hints sample".split()
    main(["play", "daihinmin", "--seed", str(seed), *words])
    out = capsys.readouterr().out
    assert re.search(r"a gift must be 2 of your cards, got 'S3'", out)
    assert re.search(r"hint of sample: \w\w \w\w", out)


def test_q_ends_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("q\n", "Q\n", ""):
        typed(monkeypatch, text)
        assert main(["play", "daihinmin", "--seed", "3", "--opponents", "random"]) == 0


def test_the_last_position_is_printed_where_no_terminal_is(capsys: Captured) -> None:
    main("watch reward --seed 3".split())
    out = capsys.readouterr().out
    games = play(RewardAgent(seed=3), 1, seed=3)
    assert out.startswith(f"score {games.scores[0]}\n")
    assert len(boards(out)) == 1


def test_a_player_of_your_own_needs_act_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    source = """
from afterstate.agents.game2048.simple import RewardAgent
class Mine:
    def __init__(self):
        self.player = RewardAgent(seed=3)
    def act(self, boards):
        return self.player.act(boards)
"""
    (tmp_path / "only_act.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    main("watch only_act:Mine --seed 3".split())
    own = capsys.readouterr().out
    main("watch reward --seed 3".split())
    assert own == capsys.readouterr().out
    typed(monkeypatch, "?")
    main("play 2048 --hints only_act:Mine".split())
    assert re.search(r"hint of only_act:Mine: (up|right|down|left)", capsys.readouterr().out)


@pytest.mark.parametrize("value", ["-1", "4", "2**63", "None", "[[1], [2, 3]]"])
def test_wrong_hints_of_your_own_player_are_none(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    name = f"hinting{abs(hash(value))}"
    source = f"class Mine:\n    def act(self, boards): return {value} and [{value}]\n"
    source += f"class Seat:\n    def choose(self, view): return {value}\n    give = None\n"
    source += "    def give(self, view, n): return self.choose(view)\n"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    typed(monkeypatch, "?")
    main(["play", "2048", "--hints", f"{name}:Mine"])
    assert "there is no hint: the player must return" in capsys.readouterr().out
    typed(monkeypatch, "?\nQ\n")
    main(["play", "daihinmin", "--seed", "3", "--hints", f"{name}:Seat"])
    expected = f"hint of {name}:Seat: " if value[-1].isdigit() else "there is no hint: choose of"
    assert expected in capsys.readouterr().out


def test_a_game_is_left_at_a_tile_or_after_moves(capsys: Captured) -> None:
    main("watch reward --seed 3 --until 64".split())
    assert max(max(row) for row in boards(capsys.readouterr().out)[0]) == 64
    main("watch reward --seed 3 --moves 0".split())
    env = gym.make("afterstate:Game2048-v0")
    start = env.reset(seed=3)[0]
    assert boards(capsys.readouterr().out)[0] == [
        [int(2**e) if e else 0 for e in row] for row in start
    ]


@pytest.mark.parametrize("names", ["reward", "sample random"])
def test_a_gif_has_the_last_positions(names: str, tmp_path: Path, capsys: Captured) -> None:
    image = pytest.importorskip("PIL.Image")
    file = tmp_path / "new" / "game.gif"
    options = ["--moves", "12", "--last", "5", "--seed", "1", "--to", str(file)]
    main(["watch", *names.split(), *options])
    assert capsys.readouterr().out == f"{file}\n"
    with image.open(file) as shown:
        assert shown.n_frames in (4, 5)  # equal positions are one frame


def test_an_mp4_is_written(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    file = tmp_path / "game.mp4"
    main(["watch", "reward", "--moves", "3", "--to", str(file)])
    assert b"ftyp" in file.read_bytes()[:32]


@pytest.mark.parametrize("n_missing", [1, 100, 10_000_000])
def test_a_film_that_is_not_whole_replaces_no_file(
    n_missing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """As ffmpeg leaves it on a full disk, without an error."""
    pytest.importorskip("moviepy")
    file = tmp_path / "game.mp4"
    main(["watch", "reward", "--moves", "3", "--to", str(file)])
    film = file.read_bytes()

    class Writer:
        def __init__(self, frames: object, fps: float) -> None: ...

        def write_videofile(self, path: str, logger: None) -> None:
            Path(path).write_bytes(film[: max(0, len(film) - n_missing)])

    monkeypatch.setattr(pictures, "film_writer", lambda: Writer)
    with pytest.raises(SystemExit, match="1"):
        main(["watch", "reward", "--moves", "3", "--to", str(file)])
    assert "ffmpeg has not written a whole film" in capsys.readouterr().err
    assert file.read_bytes() == film and os.listdir(tmp_path) == ["game.mp4"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
def test_sigterm_leaves_no_part_of_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pytest.importorskip("PIL.Image")

    def save(_: object, file: IO[bytes], *args: object, **options: object) -> None:
        file.write(b"part")
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(image.Image, "save", save)
    with pytest.raises(SystemExit, match="143"):
        main(["watch", "reward", "--moves", "3", "--to", str(tmp_path / "game.gif")])
    assert os.listdir(tmp_path) == []


def test_scores_are_those_of_play(capsys: Captured) -> None:
    main("eval reward random --games 20 --seed 7 --json".split())
    results = json.loads(capsys.readouterr().out)
    games = play(RewardAgent(seed=7), 20, seed=7)
    assert [each["player"] for each in results] == ["reward", "random"]
    assert results[0]["mean"] == round(float(games.scores.mean()), 1)
    assert results[0]["n_moves"] == games.n_moves.sum()
    main("eval reward random --games 20 --seed 7".split())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["reward", "random"]
    assert f"{games.scores.mean():,.0f} ± " in lines[2]


def test_players_of_small_boards_are_evaluated(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "small.npz"
    ntuple_file.save(network([[0, 1], [4, 5]], (2, 2)), file)
    main(["eval", f"expectimax,depth=2,network={file}", "--games", "5", "--json"])
    (result,) = json.loads(capsys.readouterr().out)
    assert result["n_games"] == 5 and result["mean"] > 0


@pytest.mark.slow
def test_points_of_five_equal_players_sum_up(capsys: Captured) -> None:
    main("eval sample --opponents sample --games 1000 --json".split())
    (result,) = json.loads(capsys.readouterr().out)
    assert result["opponents"] == ["sample"] * 4
    assert abs(result["points_per_100_games"] - 300) < 2 * result["interval"] + 1
    main("eval sample --games 200".split())
    assert "±" in capsys.readouterr().out.splitlines()[2]
    main("eval sample --games 100".split())  # of one cycle no interval is known
    assert "±" not in capsys.readouterr().out.splitlines()[2]


@pytest.mark.slow
def test_illegal_moves_of_your_own_player_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """They are illegal plays that are no pass, and wrong gifts."""
    code = """
import numpy as np
from afterstate.agents.daihinmin.rule_based.players import SampleAgent
class Guessing:
    n = 0
    def choose(self, view):
        self.n += 1
        view["turn"] = 10**9
        return np.int64(self.n if self.n % 2 else -self.n)
    def give(self, view, n): return 0
class Miser(SampleAgent):
    def choose_gift(self, view, n): return 0
"""
    (tmp_path / "guessing.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    assert main("eval guessing:Guessing guessing:Miser heuristic --games 200 --json".split()) == 0
    guessing, miser, heuristic = json.loads(capsys.readouterr().out)
    assert guessing["n_illegal"] > miser["n_illegal"] > heuristic["n_illegal"] == 0
    main("eval guessing:Guessing --games 100".split())
    assert "Illegal moves, which pass or are punished: " in capsys.readouterr().out


def test_warmup_compiles_environments_and_players(capsys: Captured) -> None:
    assert main("warmup reward daihinmin-sample".split()) == 0
    out = capsys.readouterr().out
    assert "Game2048-v0" in out and out.rstrip().endswith("reward, daihinmin-sample")

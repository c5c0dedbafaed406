"""The ablation of alpha-beta's evaluation, and the speed of its search: tiny runs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib")
pytest.importorskip("matplotlib")
pytest.importorskip("safetensors")
pytest.importorskip("scipy")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

from scipy.stats import t

from afterstate import agents
from afterstate.agents.config import from_dict, read
from afterstate.agents.game2048.play import Games, play
from afterstate.agents.game2048.search.alphabeta import (
    TILES,
    AlphaBetaAgent,
    AlphaBetaSettings,
)
from afterstate.agents.training.evaluation import EVALUATION_SEED, summary
from afterstate.envs import json_files
from afterstate.envs.game2048.rules import afterstates, from_text, largest, table
from afterstate.envs.json_files import Row
from benchmarks.experiments import entries
from benchmarks.experiments.alphabeta import report, run
from benchmarks.experiments.alphabeta.settings import SEARCHES, SETTINGS, Experiment
from benchmarks.experiments.entries import entry_id
from benchmarks.experiments.harness import ExperimentFolder
from benchmarks.speed import alphabeta as speed_alphabeta
from benchmarks.speed.alphabeta import Answer, Pass, Program

# Settings


EXPERIMENT = read(SETTINGS, Experiment)


def test_all_players_can_be_made() -> None:
    assert tuple(SEARCHES) == TILES
    for entry in EXPERIMENT.entries():
        assert entry["player"] == "alphabeta" and entry["games"] > 1  # one game has no interval
        assert AlphaBetaSettings(**entry["settings"]).depth


def test_no_player_plays_twice() -> None:
    names = [entry_id(entry) for entry in EXPERIMENT.entries()]
    parts = [*map(EXPERIMENT.by_evaluation, TILES), EXPERIMENT.by_depth()]
    assert len(set(names)) == len(names) < sum(map(len, parts))
    assert set(names) == {entry_id(entry) for part in parts for entry in part.values()}


# A tiny experiment


class Tiny:
    """An experiment with few players, in a folder."""

    def __init__(self, folder: Path, settings: Row) -> None:
        self.results, self.settings = folder / "results", settings

    def main(self, *arguments: str) -> None:
        """Run the command with these settings, and its results in this folder."""
        file = self.results.with_name("settings.json")
        file.write_text(json.dumps(self.settings))
        run.main([*arguments, "--settings", str(file), "--out", str(self.results)])

    @property
    def experiment(self) -> Experiment:
        """Return the settings as they are read."""
        return from_dict(self.settings, Experiment)

    @property
    def folder(self) -> ExperimentFolder[Experiment]:
        """Return the settings and the folder of the results."""
        return ExperimentFolder(self.experiment, self.results)

    def rows(self) -> list[Row]:
        """Return the rows of the players."""
        return json_files.rows(self.results / "games.jsonl")

    def write(self, players: Mapping[str, Row], rates: Sequence[float]) -> None:
        """Write a row for each player, with these rates of 2048."""
        self.results.mkdir(exist_ok=True)
        with (self.results / "games.jsonl").open("a", encoding="utf-8") as file:
            for entry, rate in zip(players.values(), rates, strict=True):
                reached = {"512": 1.0, "1024": (1 + rate) / 2, "2048": rate, "4096": rate / 2}
                row = {**entry, "n_games": 100, "mean": 1e4 * rate, "interval": 1e3 * rate}
                row |= {"reached": reached, "moves": 123_456, "cpu_us_per_move": 78.4}
                file.write(json.dumps(row) + "\n")


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    """Players with two games at depth 1, and one of them at depth 2."""
    settings = json_files.read(SETTINGS)
    settings["terms"] = {tiles: {"depth": 1, "games": 2} for tiles in TILES}
    settings["evaluations"] = {"all": {}, "without monotonicity": {"monotonicity": 0}}
    settings["depths"] = {"annoying": {"1": 2, "2": 3}, "any": {}, "chance": {"1": 2}}
    settings["reach"] = {"seconds": 0.01, "settings": {}, "tile": 64, "games": 3}
    return Tiny(tmp_path, settings)


def test_rows_are_the_summaries_of_the_players_games(tiny: Tiny) -> None:
    tiny.main("play")
    rows = tiny.rows()
    assert len(rows) == len(tiny.experiment.entries()) == 7
    for row, entry in zip(rows, tiny.experiment.entries(), strict=True):
        games = play(agents.make("alphabeta", **entry["settings"]), entry["games"], EVALUATION_SEED)
        expected = {**entry, **summary(games), "moves": int(games.n_moves.sum())}
        low = {"512": (games.max_tiles >= 512).mean(), "1024": (games.max_tiles >= 1024).mean()}
        expected["reached"] = {**low, **expected["reached"]}
        assert {key: row[key] for key in expected} == expected
        assert row["cpu_us_per_move"] > 0 and row["machine"]["numba"]
    assert rows[0]["mean"] != rows[1]["mean"]


def test_loading_kernels_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, boards = [0.0], []

    def act(player: AlphaBetaAgent, board: int) -> None:
        boards.append(board)
        clock[0] += 100

    def fake(player: AlphaBetaAgent, n: int, seed: int) -> Games:
        clock[0] += 1
        return Games(*np.full((3, n), 512, np.int64))

    monkeypatch.setattr(AlphaBetaAgent, "act", act)
    monkeypatch.setattr(entries, "play", fake)
    monkeypatch.setattr("time.process_time", lambda: clock[0])
    entry = EXPERIMENT.entry("any", depth=1, games=2)
    row = entries.row_of(
        [run.play_entry(entry, seeds) for seeds in entries.chunks(entry)], report.TILES
    )
    assert len(boards) == 1 and row["cpu_us_per_move"] == pytest.approx(1e6 / 1024, abs=0.06)
    assert row["reached"]["512"] == 1 and row["reached"]["1024"] == row["reached"]["2048"] == 0


def test_only_players_without_a_row_play(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    players: list[Any] = []

    def fake(player: Any, n: int, seed: int) -> Games:
        players.append(player)
        return Games(*np.full((3, n), 64, np.int64))

    monkeypatch.setattr(entries, "play", fake)
    tiny.main("play")
    tiny.main("play", "--jobs", "1")
    assert len(players) == len(tiny.rows()) == 7
    tiny.settings["terms"]["any"]["games"] = 4  # another sample, so both play again
    tiny.main("play")
    assert len(players) == 9 and tiny.rows()[-1]["n_games"] == 4
    assert (
        "{'tiles': 'annoying', 'depth': 1, 'cutoffs': 'equal'}: 64 ± 0" in capsys.readouterr().out
    )


def moves_to_64(seed: int) -> int:
    """Return the moves of a game by alpha-beta search of depth 1 until it has a 64 tile."""
    boards: list[int] = []

    def watch(games: Any, words: Any, actions: Any) -> None:
        boards.append(int(words[0]))

    play(AlphaBetaAgent(AlphaBetaSettings(depth=1)), 1, seed, watch=watch)
    return next(i for i, board in enumerate(boards) if largest(board) == 6)


def test_games_with_a_limit_of_time_end_with_the_tile(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[Any]()

    def make(player: str, **settings: Any) -> AlphaBetaAgent:
        made.append((player, settings))
        return AlphaBetaAgent(AlphaBetaSettings(depth=1))  # its moves do not depend on the machine

    monkeypatch.setattr(agents, "make", make)
    tiny.main("reach")
    rows = json_files.rows(tiny.results / "reached.jsonl")
    assert made == [("alphabeta", {"seconds": 0.01})] * 3
    assert [row["seed"] for row in rows] == [EVALUATION_SEED + i for i in range(3)]
    assert [row["moves"] for row in rows] == [moves_to_64(row["seed"]) for row in rows]
    assert {(row["max_tile"], row["seconds"]) for row in rows} == {(64, 0.01)}
    tiny.settings["reach"]["games"] = 4
    tiny.main("reach")
    assert len(made) == 4
    tiny.settings["reach"]["seconds"] = 0.02  # other games
    tiny.main("reach")
    assert len(made) == 8
    tiny.settings["reach"]["tile"] = 32
    tiny.main("reach")
    assert len(made) == 12


def test_games_with_a_limit_of_time_do_not_share_processors(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with pytest.raises(ValueError, match="jobs must be <= 2, the processors here, got 3"):
        tiny.main("reach", "--jobs", "3")


def test_lost_games_are_counted_as_such(tiny: Tiny) -> None:
    assert report.reached_section(tiny.folder) == ["## With 10 ms a move", "No games yet."]
    tiny.results.mkdir()
    row = {
        "seconds": 0.01,
        "tile": 64,
        "ms_per_move": 21.0,
        "cpu_ms_per_move": 20.0,
        "machine": {"cpu": "One"},
    }
    tiny.settings["reach"]["games"] = 4
    seeds = range(EVALUATION_SEED, EVALUATION_SEED + 4)
    games = [{**row, "seed": n, "max_tile": 32 << (n > seeds[0]), "moves": 900} for n in seeds]
    games += [{**games[0], "seconds": 0.1}, {**games[1], "tile": 32}]  # of other settings
    games += [{**games[0], "cutoffs": "equal"}, {**games[0], "seed": seeds[-1] + 1}]
    json_files.append(tiny.results / "reached.jsonl", games)
    table = report.reached_section(tiny.folder)[1]
    assert table.splitlines()[-1] == "| 4 | 3 | 75 (30 to 95) | 900 | 21 | 20 | 0.0 | One |"


# Report


@pytest.mark.parametrize("freedom", [1, 4, 10, 11, 19, 199])
def test_intervals_are_students(freedom: int) -> None:
    row = {"n_games": freedom + 1, "interval": 1.96}
    assert entries.half_interval_of(row) == pytest.approx(t.ppf(0.975, freedom), rel=1e-3)


HEAD = (
    "|  | games | mean score | 512, % | 1024, % | 2048, % | 4096, % | moves per game "
    "| CPU time per move (µs) |\n| --- | --: | --: | --: | --: | --: | --: | --: | --: |\n"
)


def test_tables_have_rates_with_their_intervals(tiny: Tiny) -> None:
    tiny.write(tiny.experiment.by_evaluation("any"), [0.9, 0.9])
    tiny.write(tiny.experiment.by_evaluation("any"), [0.5, 0.0])  # the latest rows count
    assert report.table(tiny.folder, tiny.experiment.by_evaluation("any")) == HEAD + (
        "| all | 100 | 5,000 ± 506 | 100.0 | 75.0 | 50.0 (40 to 60) | 25.0 | 1,235 | 78 |\n"
        "| without monotonicity | 100 | 0 ± 0 | 100.0 | 50.0 | 0.0 (0 to 4) | 0.0 | 1,235 | 78 |"
    )
    assert report.table(tiny.folder, tiny.experiment.by_evaluation("chance")) + "\n" == HEAD


def test_rates_are_drawn_with_their_intervals(tiny: Tiny, figures: dict[str, Any]) -> None:
    tiny.write(tiny.experiment.by_evaluation("annoying"), [0.5, 0.0])
    tiny.write(dict([*tiny.experiment.by_evaluation("chance").items()][1:]), [1.0])
    report.draw_rates(tiny.folder)
    (axes,) = figures["rate_2048.svg"].axes
    drawn = {line.get_label(): line for line in axes.containers}
    points = {label: line[0].get_xydata().tolist() for label, line in drawn.items()}
    assert points == {
        "minimax over the heuristic's worst tiles, depth 1": [[50, -0.2], [0, 0.8]],
        "minimax over all tiles, depth 1": [],
        "expectimax, depth 1": [[100, 1.2]],
    }
    (bars,) = drawn["minimax over the heuristic's worst tiles, depth 1"][2]
    ends = [segment[:, 0].tolist() for segment in bars.get_segments()]
    assert ends == [pytest.approx([40.38, 59.62], abs=0.01), pytest.approx([0, 3.70], abs=0.01)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["all", "without monotonicity"]


@pytest.mark.slow
def test_a_report_is_the_same_for_the_same_rows(
    tiny: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.main("report")  # without rows
    assert "core hours" not in (tiny.results / "README.md").read_text(encoding="utf-8")
    tiny.write(tiny.experiment.by_evaluation("annoying"), [0.5, 0.25])
    tiny.write(tiny.experiment.by_depth(), [0.5, 0.75, 0.25])
    texts = []
    for _ in range(2):
        tiny.main("report")
        paths = sorted(path for path in tiny.results.iterdir() if path.suffix != ".jsonl")
        assert [path.name for path in paths] == ["README.md", "rate_2048.svg"]
        texts.append([path.read_text(encoding="utf-8") for path in paths])
    assert texts[0] == texts[1]
    text = texts[0][0]
    assert capsys.readouterr().out.endswith(f"written: {tiny.results / 'README.md'}\n")
    assert re.findall("^#+ (.*)", text, re.MULTILINE) == [
        tiny.settings["title"],
        "With 10 ms a move",
        "What each term contributes",
        "Minimax over the heuristic's worst tiles, depth 1",
        "Minimax over all tiles, depth 1",
        "Expectimax, depth 1",
        "All four terms, by depth",
        "Readings",
    ]
    assert "![](rate_2048.svg)" in text
    assert report.table(tiny.folder, tiny.experiment.by_depth()) in text
    assert "| minimax over the heuristic's worst tiles, depth 2 |" in text


@pytest.mark.parametrize("words", [[], ["play", "--jobs", "0"], ["tables"]], ids=" ".join)
def test_wrong_arguments_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run.main(words)
    assert caught.value.code == 2


# Speed

BOARDS = [from_text("8 2 2 _ / _ 4 4 _ / _ 2 2 2 / 2 2 _ _"), from_text("512 2 _ _ / 4 _ _ _")]

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")


def test_boards_have_a_move_and_no_2048() -> None:
    words = speed_alphabeta.boards()
    assert 25 <= len(words) <= 30 and len(set(words)) == len(words)
    for board in words:
        assert largest(np.uint64(board)) < 11
        assert any(after != board for after in afterstates(np.uint64(board), table())[0])
    assert speed_alphabeta.boards() == words


def test_our_program_has_the_moves_values_and_counts_of_the_player() -> None:
    answers, seconds = speed_alphabeta.ours(BOARDS)(3)
    expected = [AlphaBetaAgent(AlphaBetaSettings(depth=3)).search(board) for board in BOARDS]
    assert answers == [Answer(one.action, one.value, one.n_searched) for one in expected]
    assert answers[0].value == pytest.approx(9.974317236555601, abs=1e-12)
    assert (answers[0].action, answers[0].positions) == (3, 513) and seconds > 0


def program(answers: Sequence[Answer], seconds: float) -> Program:
    """Return a program that always has the same answers in the same time."""
    return lambda depth: Pass([each._replace(action=depth) for each in answers], seconds)


@pytest.mark.parametrize(
    "wrong", [Answer(0, 1.0, 8), Answer(0, 1.000001, 7), Answer(0, float("nan"), 7)], ids=str
)
def test_programs_with_different_answers_are_not_timed(wrong: Answer) -> None:
    right, rounded = Answer(0, 1.0, 7), Answer(0, 1.0 + 1e-12, 7)
    one, other = program([right, right], 1.0), program([rounded, rounded], 1.0)
    assert speed_alphabeta.check(BOARDS, {"a": one, "b": other}) == dict.fromkeys((3, 4, 5, 6), 7)
    with pytest.raises(ValueError, match=rf"{BOARDS[1]:#018x}, depth 3: a found .* b Answer"):
        speed_alphabeta.check(BOARDS, {"a": one, "b": program([right, wrong], 1.0)})
    moved: Program = lambda depth: Pass([right, right], 1.0)  # noqa: E731
    with pytest.raises(ValueError, match="depth 3"):
        speed_alphabeta.check(BOARDS, {"a": one, "b": moved})


def test_programs_take_turns_and_are_compared_by_round() -> None:
    """Both search 14 positions per pass; one takes 0.4 s, the other 2 s."""
    turns: list[str] = []

    def timed(of: str, seconds: float) -> Program:
        def search(depth: int) -> Pass:
            turns.append(f"{of}{depth}")
            return Pass([Answer(0, 1.0, 7)] * 2, seconds)

        return search

    figures = speed_alphabeta.measure(BOARDS, {"a": timed("a", 0.4), "b": timed("b", 2.0)}, 2)
    a_round = [f"{of}{d}" for d in (3, 4, 5, 6) for of in "aaab"]
    assert turns == [f"{of}{d}" for d in (3, 4, 5, 6) for of in "ab"] + 2 * a_round
    speeds = {of: (unit, values) for of, unit, values in figures}
    names = [f"depth {d}, 7 positions a search, {of}" for d in (3, 4, 5, 6) for of in "ab"]
    assert list(speeds) == [*names, *(f"depth {d}, a : b" for d in (3, 4, 5, 6))]
    for of, (unit, values) in speeds.items():
        compared = of.endswith("a : b")
        assert unit == ("times" if compared else "positions/CPU s")
        assert values == pytest.approx(2 * [5 if compared else 35 if of.endswith("a") else 7])


def test_searches_are_timed_by_what_they_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """One takes 2 s for both boards and searches 8 positions of each, the other 4 s and 9."""
    moves = [1]

    def ours(boards: Sequence[int], cutoffs: str) -> Program:
        slow, move = cutoffs == "worse", moves[-1] if cutoffs == "worse" else 1
        answers = [Answer(move, 0.5, 8 + slow) for _ in boards]
        return lambda depth: Pass(answers, 2.0 + 2 * slow)

    monkeypatch.setattr(speed_alphabeta, "ours", ours)
    figures = {name: (unit, times) for name, unit, times in speed_alphabeta.searches(BOARDS, 3)}
    for depth in (5, 6, 7, 8):
        for of, n, took in (("worse", 9, 2e6), ("equal", 8, 1e6)):
            figure = figures.pop(f"depth {depth}, cutoffs '{of}', {n} positions")
            assert figure == ("CPU us a search", [took] * 3)
    assert not figures
    moves.append(2)
    with pytest.raises(ValueError, match="cutoffs"):
        speed_alphabeta.searches(BOARDS, 1)


def scripts(folder: Path, search: str) -> Path:
    """Return the folder of a program whose search is this JavaScript."""
    (folder / "js").mkdir()
    for of, text in {
        "tile": "function Tile(at, value) { this.at = at; this.value = value; }",
        "grid": "function Grid(size) { this.tiles = []; }"
        "Grid.prototype.insertTile = function (tile) { this.tiles.push(tile); };",
        "ai": "function AI(grid) { this.grid = grid; }"
        f"AI.prototype.search = function (depth, alpha, beta) {{ {search} }};",
    }.items():
        (folder / "js" / f"{of}.js").write_text(text, encoding="utf-8")
    return folder


@needs_node
def test_the_original_program_searches_all_boards_in_one_process(tmp_path: Path) -> None:
    """It answers with the depth, a sum over tiles and their cells, and its number of calls."""
    sums = "const n = this.grid.tiles.map((t) => t.value * (1 + t.at.x + 10 * t.at.y));"
    count = "globalThis.calls = (globalThis.calls || 0) + 1; const sum = n.reduce((a, b) => a + b);"
    answer = "{ move: String(depth), score: sum + beta + alpha / 2, positions: globalThis.calls }"
    folder = scripts(tmp_path, f"{sums} {count} return {answer};")
    totals = [float(8 + 4 + 6 + 48 + 52 + 44 + 46 + 48 + 62 + 64), 512 + 4 + 44.0]
    with speed_alphabeta.original(folder, BOARDS) as search:
        for i, depth in enumerate((3, 5)):
            answers, seconds = search(depth)
            values = [5_000 + total for total in totals]
            assert answers == [Answer(depth - 1, v, 2 * i + j + 1) for j, v in enumerate(values)]
            assert seconds >= 0


@needs_node
def test_a_missing_or_failing_original_program_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed_alphabeta, "boards", lambda: BOARDS)
    monkeypatch.setattr(speed_alphabeta, "searches", lambda words, rounds: [])
    with pytest.raises(OSError, match=r"tile\.js"):
        speed_alphabeta.main(["--original", str(tmp_path)])
    folder = scripts(tmp_path, "process.exit(3);")
    with pytest.raises((OSError, ValueError), match="node stopped"):
        speed_alphabeta.main(["--original", str(folder)])


def test_figures_are_printed_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(speed_alphabeta, "boards", lambda: BOARDS)
    monkeypatch.setattr(speed_alphabeta, "SECONDS", 1e-6)
    monkeypatch.setattr(speed_alphabeta, "DEEPER", (2,))
    out = tmp_path / "speed.txt"
    speed_alphabeta.main(["--rounds", "2", "--out", str(out)])
    printed = capsys.readouterr().out
    assert out.read_text(encoding="utf-8") == printed
    head, *rows = printed.splitlines()
    assert head.startswith("cpu ") and ", numba " in head and "node" not in head
    depths = [3, 4, 5, 6, 2, 2]
    assert [row.split(",")[0] for row in rows] == [f"depth {depth}" for depth in depths]
    units = [" positions/CPU s "] * 4 + [" CPU us a search "] * 2
    assert all(u in row and row.endswith("n = 2)") for u, row in zip(units, rows, strict=True))

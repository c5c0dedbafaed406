"""What the terms of the hand-made evaluation are worth, and how fast its search is: tiny runs."""

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
pytest.importorskip("torch")
pytest.importorskip("tqdm")

from afterstate import agents
from afterstate.agents.game2048.play import Games, play
from afterstate.agents.game2048.search.alphabeta import (
    COMPARED,
    TILES,
    AlphaBetaAgent,
    Settings,
    Weights,
)
from afterstate.agents.training.run import EVALUATION_SEED, summary
from afterstate.envs.game2048.rules import afterstates, from_text, largest, table
from benchmarks.experiments import cells
from benchmarks.experiments.alphabeta import run
from benchmarks.experiments.cells import name
from benchmarks.experiments.quasi_greedy import rows
from benchmarks.speed import alphabeta as speed_alphabeta
from benchmarks.speed.alphabeta import Answer, Pass, Program

Row = dict[str, Any]

TERMS = tuple(vars(Weights()))


# What it is made of


def test_each_term_is_left_out_and_stands_alone_in_each_search() -> None:
    found = {}
    for tiles in TILES:
        for of, cell in run.by_evaluation(tiles).items():
            how = Settings(**cell["settings"])
            assert cell["player"] == "alphabeta" and how.tiles == tiles and how.depth
            weights = {term: getattr(how, term) for term in TERMS}
            assert all(weights[term] in (0, getattr(Weights(), term)) for term in TERMS)
            found[of, tiles] = ({term for term in TERMS if weights[term]}, how.compared)
    whole, each = set(TERMS), {"empty": "empty cells", "largest": "the largest tile"}
    expected = {
        "all four terms": (whole, COMPARED[0]),
        "neighbours compared": (whole, COMPARED[1]),
        **{f"without {each.get(t, t)}": (whole - {t}, COMPARED[0]) for t in TERMS},
        **{f"{each.get(t, t)} alone": ({t}, COMPARED[0]) for t in TERMS},
        "no term": (set(), COMPARED[0]),
    }
    assert found == {(of, tiles): how for of, how in expected.items() for tiles in TILES}


def test_the_whole_evaluation_searches_ever_deeper() -> None:
    plans = run.study()["depths"]
    assert list(plans) == list(TILES) == list(run.EXPECTED)
    for cell in run.by_depth().values():
        assert Settings(**cell["settings"]) == Settings(
            tiles=cell["settings"]["tiles"], depth=cell["settings"]["depth"], cutoffs="equal"
        )
    for plan in plans.values():
        assert list(map(int, plan)) == list(range(1, len(plan) + 1))
    assert next(iter(run.by_depth())) == "the most annoying tiles, depth 1"


def test_no_player_plays_twice() -> None:
    names = [name(cell) for cell in run.cells()]
    parts = [*map(run.by_evaluation, TILES), run.by_depth()]
    assert len(set(names)) == len(names) < sum(map(len, parts))
    assert set(names) == {name(cell) for part in parts for cell in part.values()}
    assert all(cell["games"] > 1 for cell in run.cells())  # one has no interval


# A tiny study


class Study:
    """A study of few players, in a folder."""

    def __init__(self, folder: Path, told: Row) -> None:
        self.results, self.told = folder / "results", told

    def rows(self) -> list[Row]:
        """The rows of the players."""
        return rows.read(self.results / "games.jsonl")

    def write(self, made: Mapping[str, Row], rates: Sequence[float]) -> None:
        """Writes a row for each player, with these rates of 2048 and some more."""
        self.results.mkdir(exist_ok=True)
        with (self.results / "games.jsonl").open("a", encoding="utf-8") as file:
            for cell, rate in zip(made.values(), rates, strict=True):
                reached = {"512": 1.0, "1024": (1 + rate) / 2, "2048": rate, "4096": rate / 2}
                row = {**cell, "n_games": 100, "mean": 1e4 * rate, "interval": 1e3 * rate}
                row |= {"reached": reached, "moves": 123_456, "cpu_us_per_move": 78.4}
                file.write(json.dumps(row) + "\n")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """Two games a player, one move deep, and two moves for one of them."""
    told = run.study()
    told["terms"] = {tiles: {"depth": 1, "games": 2} for tiles in TILES}
    told["evaluations"] = {"all": {}, "without monotonicity": {"monotonicity": 0}}
    told["depths"] = {"annoying": {"1": 2, "2": 3}, "any": {}, "chance": {"1": 2}}
    monkeypatch.setattr(run, "study", lambda: told)
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results")
    return Study(tmp_path, told)


def test_games_are_those_of_the_player_and_counted_as_everywhere(tiny: Study) -> None:
    run.main(["play"])
    found = tiny.rows()
    assert len(found) == len(run.cells()) == 7
    for row, cell in zip(found, run.cells(), strict=True):
        games = play(agents.make("alphabeta", **cell["settings"]), cell["games"], EVALUATION_SEED)
        expected = {**cell, **summary(games), "moves": int(games.n_moves.sum())}
        low = {"512": (games.max_tiles >= 512).mean(), "1024": (games.max_tiles >= 1024).mean()}
        expected["reached"] = {**low, **expected["reached"]}
        assert {key: row[key] for key in expected} == expected
        assert row["cpu_us_per_move"] > 0 and row["machine"]["numba"]
    assert found[0]["mean"] != found[1]["mean"]


def test_what_is_loaded_for_the_first_move_does_not_count(
    tiny: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, boards = [0.0], []

    def act(player: AlphaBetaAgent, board: int) -> None:
        boards.append(board)
        clock[0] += 100

    def fake(player: AlphaBetaAgent, n: int, seed: int) -> Games:
        clock[0] += 1
        return Games(*np.full((3, n), 512, np.int64))

    monkeypatch.setattr(AlphaBetaAgent, "act", act)
    monkeypatch.setattr(cells, "play", fake)
    monkeypatch.setattr("time.process_time", lambda: clock[0])
    row = run.play_cell(run.cells()[0])
    assert len(boards) == 1 and row["cpu_us_per_move"] == pytest.approx(1e6 / 1024, abs=0.06)
    assert row["reached"]["512"] == 1 and row["reached"]["1024"] == row["reached"]["2048"] == 0


def test_only_what_has_not_been_played_is_played(
    tiny: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Any] = []

    def fake(player: Any, n: int, seed: int) -> Games:
        made.append(player)
        return Games(*np.full((3, n), 64, np.int64))

    monkeypatch.setattr(cells, "play", fake)
    run.main(["play"])
    run.main(["play", "--jobs", "1"])
    assert len(made) == len(tiny.rows()) == 7
    tiny.told["terms"]["any"]["games"] = 4  # another sample, so both are played again
    run.main(["play"])
    assert len(made) == 9 and tiny.rows()[-1]["n_games"] == 4
    assert (
        "{'tiles': 'annoying', 'depth': 1, 'cutoffs': 'equal'}: 64 ± 0" in capsys.readouterr().out
    )


# The report


def test_intervals_of_rates_are_wilsons() -> None:
    assert run.interval(0.5, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert run.interval(0.0, 20) == pytest.approx((0, 0.1611), abs=1e-4)
    assert run.interval(1.0, 20) == pytest.approx((0.8389, 1), abs=1e-4)


HEAD = (
    "|  | games | mean score | 512, % | 1024, % | 2048, % | 4096, % | moves a game "
    "| µs of CPU a move |\n| --- | --: | --: | --: | --: | --: | --: | --: | --: |\n"
)


def test_tables_tell_rates_with_their_intervals(tiny: Study) -> None:
    tiny.write(run.by_evaluation("any"), [0.9, 0.9])
    tiny.write(run.by_evaluation("any"), [0.5, 0.0])  # the latest rows count
    assert run.table(run.by_evaluation("any")) == HEAD + (
        "| all | 100 | 5,000 ± 506 | 100.0 | 75.0 | 50.0 (40 to 60) | 25.0 | 1,235 | 78 |\n"
        "| without monotonicity | 100 | 0 ± 0 | 100.0 | 50.0 | 0.0 (0 to 4) | 0.0 | 1,235 | 78 |"
    )
    assert run.table(run.by_evaluation("chance")) + "\n" == HEAD
    tiny.write(run.by_depth(), [0.1, 0.2, 0.3])
    names = [line.split(" | ")[0] for line in run.table(run.by_depth()).split("\n")[2:]]
    annoying = [f"| the most annoying tiles, depth {depth}" for depth in (1, 2)]
    assert names == [*annoying, "| tiles by chance, depth 1"]


def test_rates_are_drawn_with_their_intervals(tiny: Study, figures: dict[str, Any]) -> None:
    tiny.results.mkdir()
    tiny.write(run.by_evaluation("annoying"), [0.5, 0.0])
    tiny.write(dict([*run.by_evaluation("chance").items()][1:]), [1.0])
    run.draw_rates()
    (axes,) = figures["rate_2048.svg"].axes
    drawn = {line.get_label(): line for line in axes.containers}
    points = {label: line[0].get_xydata().tolist() for label, line in drawn.items()}
    assert points == {
        "the most annoying tiles, depth 1": [[50, -0.2], [0, 0.8]],
        "the worst tiles, depth 1": [],
        "tiles by chance, depth 1": [[100, 1.2]],
    }
    (bars,) = drawn["the most annoying tiles, depth 1"][2]
    ends = [segment[:, 0].tolist() for segment in bars.get_segments()]
    assert ends == [pytest.approx([40.38, 59.62], abs=0.01), pytest.approx([0, 3.70], abs=0.01)]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["all", "without monotonicity"]


def test_a_report_is_the_same_for_the_same_rows(
    tiny: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    run.main(["report"])  # of nothing
    tiny.write(run.by_evaluation("annoying"), [0.5, 0.25])
    tiny.write(run.by_depth(), [0.5, 0.75, 0.25])
    texts = []
    for _ in range(2):
        run.main(["report"])
        paths = sorted(path for path in tiny.results.iterdir() if path.suffix != ".jsonl")
        assert [path.name for path in paths] == ["README.md", "rate_2048.svg"]
        texts.append([path.read_text(encoding="utf-8") for path in paths])
    assert texts[0] == texts[1]
    text = texts[0][0]
    assert capsys.readouterr().out.endswith(f"written: {tiny.results / 'README.md'}\n")
    assert re.findall("^#+ (.*)", text, re.MULTILINE) == [
        tiny.told["title"],
        "Expecting the most annoying tiles, depth 1",
        "Expecting the worst tiles, depth 1",
        "Expecting tiles by chance, depth 1",
        "All four terms, by depth",
    ]
    assert "![](rate_2048.svg)" in text and run.table(run.by_depth()) in text


@pytest.mark.parametrize("words", [[], ["play", "--jobs", "0"], ["tables"]], ids=" ".join)
def test_wrong_words_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run.main(words)
    assert caught.value.code == 2


# Speed

BOARDS = [from_text("8 2 2 _ / _ 4 4 _ / _ 2 2 2 / 2 2 _ _"), from_text("512 2 _ _ / 4 _ _ _")]

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")


def test_boards_are_those_of_games_that_go_on_and_have_no_2048() -> None:
    found = speed_alphabeta.boards()
    assert 25 <= len(found) <= 30 and len(set(found)) == len(found)
    for board in found:
        assert largest(np.uint64(board)) < 11
        assert any(after != board for after in afterstates(np.uint64(board), table())[0])
    assert speed_alphabeta.boards() == found


def test_our_program_finds_and_counts_what_the_player_does() -> None:
    answers, seconds = speed_alphabeta.ours(BOARDS)(3)
    expected = [AlphaBetaAgent(Settings(depth=3)).search(board) for board in BOARDS]
    assert answers == [Answer(one.action, one.value, one.positions) for one in expected]
    assert answers[0].value == pytest.approx(9.974317236555601, abs=1e-12)
    assert (answers[0].action, answers[0].positions) == (3, 513) and seconds > 0


def program(answers: Sequence[Answer], seconds: float) -> Program:
    """A program that always finds the same in the same time."""
    return lambda depth: Pass([each._replace(action=depth) for each in answers], seconds)


@pytest.mark.parametrize(
    "wrong", [Answer(0, 1.0, 8), Answer(0, 1.000001, 7), Answer(0, float("nan"), 7)], ids=str
)
def test_programs_that_do_not_find_the_same_are_not_timed(wrong: Answer) -> None:
    right, rounded = Answer(0, 1.0, 7), Answer(0, 1.0 + 1e-12, 7)
    one, other = program([right, right], 1.0), program([rounded, rounded], 1.0)
    assert speed_alphabeta.check(BOARDS, {"a": one, "b": other}) == dict.fromkeys((3, 4, 5, 6), 7)
    with pytest.raises(ValueError, match=rf"{BOARDS[1]:#018x}, depth 3: a found .* b Answer"):
        speed_alphabeta.check(BOARDS, {"a": one, "b": program([right, wrong], 1.0)})
    moved: Program = lambda depth: Pass([right, right], 1.0)  # noqa: E731
    with pytest.raises(ValueError, match="depth 3"):
        speed_alphabeta.check(BOARDS, {"a": one, "b": moved})


def test_programs_take_turns_and_are_compared_by_round() -> None:
    """Both look at 14 positions a pass; one takes 0.4 s, the other 2 s."""
    turns: list[str] = []

    def timed(of: str, seconds: float) -> Program:
        def search(depth: int) -> Pass:
            turns.append(f"{of}{depth}")
            return Pass([Answer(0, 1.0, 7)] * 2, seconds)

        return search

    found = speed_alphabeta.measure(BOARDS, {"a": timed("a", 0.4), "b": timed("b", 2.0)}, 2)
    a_round = [f"{of}{d}" for d in (3, 4, 5, 6) for of in "aaab"]
    assert turns == [f"{of}{d}" for d in (3, 4, 5, 6) for of in "ab"] + 2 * a_round
    speeds = {of: (unit, values) for of, unit, values in found}
    names = [f"depth {d}, 7 positions a search, {of}" for d in (3, 4, 5, 6) for of in "ab"]
    assert list(speeds) == [*names, *(f"depth {d}, a : b" for d in (3, 4, 5, 6))]
    for of, (unit, values) in speeds.items():
        compared = of.endswith("a : b")
        assert unit == ("times" if compared else "positions/CPU s")
        assert values == pytest.approx(2 * [5 if compared else 35 if of.endswith("a") else 7])


def test_searches_are_timed_by_what_they_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them takes 2 s for both boards and sees 8 positions of each, the other 4 s and 9."""
    moves = [1]

    def ours(boards: Sequence[int], cutoffs: str) -> Program:
        slow, move = cutoffs == "worse", moves[-1] if cutoffs == "worse" else 1
        answers = [Answer(move, 0.5, 8 + slow) for _ in boards]
        return lambda depth: Pass(answers, 2.0 + 2 * slow)

    monkeypatch.setattr(speed_alphabeta, "ours", ours)
    found = {name: (unit, times) for name, unit, times in speed_alphabeta.searches(BOARDS, 3)}
    for depth in (5, 6, 7, 8):
        for of, n, took in (("worse", 9, 2e6), ("equal", 8, 1e6)):
            told = found.pop(f"depth {depth}, cutoffs '{of}', {n} positions")
            assert told == ("CPU us a search", [took] * 3)
    assert not found
    moves.append(2)
    with pytest.raises(ValueError, match="depth 5: what is found depends"):
        speed_alphabeta.searches(BOARDS, 1)


def scripts(folder: Path, search: str) -> Path:
    """The folder of a program whose search is this JavaScript."""
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
def test_another_program_is_asked_for_all_boards_in_one_process(tmp_path: Path) -> None:
    """It answers with the depth, a sum over tiles and their places, and how often it was asked."""
    told = "const n = this.grid.tiles.map((t) => t.value * (1 + t.at.x + 10 * t.at.y));"
    said = "globalThis.asked = (globalThis.asked || 0) + 1; const sum = n.reduce((a, b) => a + b);"
    found = "{ move: String(depth), score: sum + beta + alpha / 2, positions: globalThis.asked }"
    folder = scripts(tmp_path, f"{told} {said} return {found};")
    sums = [float(8 + 4 + 6 + 48 + 52 + 44 + 46 + 48 + 62 + 64), 512 + 4 + 44.0]
    with speed_alphabeta.original(folder, BOARDS) as search:
        for i, depth in enumerate((3, 5)):
            answers, seconds = search(depth)
            values = [5_000 + total for total in sums]
            assert answers == [Answer(depth - 1, v, 2 * i + j + 1) for j, v in enumerate(values)]
            assert seconds >= 0


@needs_node
def test_a_program_that_breaks_off_or_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed_alphabeta, "boards", lambda: BOARDS)
    with pytest.raises(SystemExit, match=r"tile\.js"):
        speed_alphabeta.main(["--original", str(tmp_path)])
    folder = scripts(tmp_path, "process.exit(3);")
    with pytest.raises(SystemExit, match="node broke off"):
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
    head, *found = printed.splitlines()
    assert head.startswith("cpu ") and ", numba " in head and "node" not in head
    depths = [3, 4, 5, 6, 2, 2]
    assert [row.split(",")[0] for row in found] == [f"depth {depth}" for depth in depths]
    units = [" positions/CPU s "] * 4 + [" CPU us a search "] * 2
    assert all(u in row and row.endswith("n = 2)") for u, row in zip(units, found, strict=True))

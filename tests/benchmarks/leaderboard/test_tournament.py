"""Tests of the tournament of Daihinmin players: draws, rows, tables and the command."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE
from afterstate.agents.daihinmin.rule_based.players import HeuristicAgent, SampleAgent
from afterstate.agents.training.workers import ALONE
from afterstate.commands.players import player_daihinmin
from afterstate.envs import durable_files
from afterstate.envs.commands import exit_code
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.rules import Game
from afterstate.envs.json_files import Row
from afterstate.leaderboard import tournament
from afterstate.leaderboard.__main__ import main
from afterstate.leaderboard.options import Tournament
from afterstate.leaderboard.tournament import Cycle

ROOT = Path(__file__).parents[3]
FIVE = ["heuristic", "sample", "sample", "heuristic", "sample"]
"""Players without chance, so that a cycle can be repeated."""


def row(players: str, places: list[int], cycle: int = 0, rotation: int = 0) -> Row:
    """Return a game between players with names of one letter."""
    head = {"cycle": cycle, "rotation": rotation, "game": 1, "seed": 1}
    return head | {"players": list(players), "places": places}


def started(cycle: Cycle) -> Game:
    """Return the first game of a cycle, dealt."""
    match = new_match(cycle.seed)
    next_game(match)
    return match


@pytest.fixture
def bots(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a user's module `bots`."""
    module = ModuleType("bots")
    monkeypatch.setitem(sys.modules, "bots", module)
    return module


# Draws


def test_five_different_entries_are_drawn_for_each_cycle() -> None:
    pool = list("ABCDEFG")
    cycles = tournament.draw_cycles(pool, 400, seed=1, duplicate=False)
    assert [cycle.number for cycle in cycles] == list(range(400))
    assert {cycle.rotation for cycle in cycles} == {0}
    assert len({cycle.seed for cycle in cycles}) == 400
    assert all(len(set(cycle.players)) == 5 for cycle in cycles)
    for number in range(5):  # every player comes to every number about 400 / 7 times
        drawn = Counter(cycle.players[number] for cycle in cycles)
        assert set(drawn) == set(pool)
        assert all(30 < n < 90 for n in drawn.values())


def test_a_repeated_player_has_several_seats() -> None:
    for cycle in tournament.draw_cycles(FIVE, 20, seed=1, duplicate=False):
        assert sorted(cycle.players) == sorted(FIVE)


def test_the_seed_determines_draws_and_deals() -> None:
    first, again = (tournament.draw_cycles("ABCDEF", 10, 7, False) for _ in range(2))
    assert first == again != tournament.draw_cycles("ABCDEF", 10, 8, False)
    assert tournament.draw_cycles("ABCDEF", 4, 7, False) == first[:4]


def test_duplicates_have_the_same_deals_with_the_players_moved_on() -> None:
    cycles = tournament.draw_cycles("ABCDEF", 3, seed=2, duplicate=True)
    assert [(cycle.number, cycle.rotation) for cycle in cycles] == [
        (number, rotation) for number in range(3) for rotation in range(5)
    ]
    for number in range(3):
        five = cycles[5 * number : 5 * number + 5]
        assert len({cycle.seed for cycle in five}) == 1
        for player in range(5):
            assert {cycle.players[player] for cycle in five} == set(five[0].players)
        assert five[1].players == [*five[0].players[1:], five[0].players[0]]


@pytest.mark.parametrize("n", [1, 4])
def test_fewer_than_five_players_are_rejected(n: int) -> None:
    with pytest.raises(ValueError, match=f"players.*got {n}"):
        tournament.draw_cycles("ABCDE"[:n], 1, 0, False)


# Cycles


def test_a_cycle_has_a_row_for_each_game() -> None:
    cycle = Cycle(3, 1, 77, FIVE)
    rows = tournament.play_cycle(cycle, 6)
    assert [row["game"] for row in rows] == [1, 2, 3, 4, 5, 6]
    for played in rows:
        assert set(played) == {"cycle", "rotation", "game", "seed", "players", "places"}
        assert (played["cycle"], played["rotation"], played["seed"]) == (3, 1, 77)
        assert played["players"] == FIVE
        assert sorted(played["places"]) == [0, 1, 2, 3, 4]
        assert json.loads(json.dumps(played)) == played


def test_a_cycle_is_from_one_class_reset_to_the_next() -> None:
    assert GAMES_PER_CYCLE == new_match()["class_reset_every"]


def test_in_game_1_a_number_has_the_same_hand_in_all_rotations(bots: ModuleType) -> None:
    hands: dict[tuple[str, int], int] = {}

    def recorder(name: str) -> type[SampleAgent]:
        class Recorder(SampleAgent):
            def choose(self, view: Game) -> int:
                viewer = int(view["viewer"])
                hand = int(view["hands"][viewer] | view["played"][viewer])
                assert hands.setdefault((name, viewer), hand) == hand
                return super().choose(view)

        return Recorder

    for name in "ABCDE":
        setattr(bots, name, recorder(name))
    pool = [f"bots:{name}" for name in "ABCDE"]
    cycles = tournament.draw_cycles(pool, 1, seed=5, duplicate=True)
    for cycle in cycles:
        tournament.play_cycle(cycle, 1)
    dealt = [int(hand) for hand in started(cycles[0])["hands"]]
    assert len(hands) == 25  # each player has had each hand once
    assert all(hand == dealt[number] for (_, number), hand in hands.items())


def test_cycles_are_played_in_order() -> None:
    cycles = tournament.draw_cycles(FIVE, 3, seed=1, duplicate=False)
    played = list(tournament.play_cycles(cycles, 2, ALONE))
    assert played == [tournament.play_cycle(cycle, 2) for cycle in cycles]


def test_players_are_made_by_name_or_by_module_and_name(bots: ModuleType) -> None:
    class Own(HeuristicAgent):
        pass

    vars(bots)["Own"] = Own
    vars(bots)["ready"] = lambda: Own()
    assert type(player_daihinmin("sample")) is SampleAgent
    assert type(player_daihinmin("daihinmin-sample")) is SampleAgent
    assert type(player_daihinmin("bots:Own")) is Own
    assert type(player_daihinmin("bots:ready")) is Own

    class Seeded(Own):
        def __init__(self, seed: int, kind: str) -> None:
            self.settings = (seed, kind)

    vars(bots)["Seeded"] = Seeded
    made: Any = player_daihinmin("bots:Seeded,kind=x", 7)
    assert made.settings == (7, "x")
    assert player_daihinmin("bots:Own") is not player_daihinmin("bots:Own")


# Tables


TWO_CYCLES = [
    row("ABCDE", [0, 1, 2, 3, 4], cycle=0),  # A has 5 and 4 points: 450 per 100 games
    row("ABCDE", [1, 0, 2, 3, 4], cycle=0),
    row("BACDE", [0, 1, 2, 4, 3], cycle=1),  # and 4 and 2: 300
    row("ABCDE", [3, 0, 1, 2, 4], cycle=1),
]


def test_results_equal_those_worked_by_hand() -> None:
    results = tournament.player_results(TWO_CYCLES)
    assert [each.name for each in results] == ["B", "A", "C", "D", "E"]
    best, second = results[:2]
    # B: 450 and 500 per 100 games; the standard error of two cycles is half of their distance.
    assert (best.games, best.points) == (4, 475.0)
    assert best.half_interval == pytest.approx(12.7062 * 25, rel=1e-5)  # Student's t, 1 degree
    assert best.places == [0.75, 0.25, 0, 0, 0]
    assert second.points == 375.0
    assert second.half_interval == pytest.approx(12.7062 * 75, rel=1e-5)
    assert second.places == [0.25, 0.5, 0, 0.25, 0]
    assert sum(each.points for each in results) / 5 == tournament.POOL_MEAN


def test_intervals_are_over_cycles_and_not_over_games() -> None:
    """Twenty games of one cycle are one unit, which has no deviation."""
    one = [row("ABCDE", [i % 5, *[p for p in range(5) if p != i % 5]]) for i in range(20)]
    assert all(math.isnan(each.half_interval) for each in tournament.player_results(one))
    three = [row("ABCDE", [c, *[p for p in range(5) if p != c]], c) for c in range(3)]
    by_name = {each.name: each for each in tournament.player_results(three * 10)}
    # A has 500, 400 and 300: the deviation of three cycles is 100, of thirty games less.
    assert by_name["A"].half_interval == pytest.approx(4.30265 * 100 / math.sqrt(3), rel=1e-5)


def test_cycles_count_by_their_games() -> None:
    """One game of 500 and three of 200: 275, from which both cycles are 225 points away."""
    half = tournament.cycles_half_interval([500.0, 600.0], [1, 3])
    assert half == pytest.approx(12.7062 * math.sqrt(2 * 2 * 225**2) / 4, rel=1e-5)


def test_rotations_of_one_draw_are_one_unit() -> None:
    rotations = [row("ABCDE", [i, *[p for p in range(5) if p != i]], 0, i) for i in range(5)]
    assert all(math.isnan(each.half_interval) for each in tournament.player_results(rotations))


def test_seats_of_one_player_are_counted_together() -> None:
    by_name = {
        each.name: each for each in tournament.player_results([row("AAABB", [0, 1, 3, 2, 4])])
    }
    assert by_name["A"].games == 3
    assert by_name["A"].points == pytest.approx(100 * (5 + 4 + 2) / 3)
    assert by_name["B"].points == pytest.approx(100 * (3 + 1) / 2)


@pytest.mark.parametrize(
    "wrong",
    [
        row("ABCDE", [0, 1, 2, 3, 3]),
        row("ABCDE", [1, 2, 3, 4, 5]),
        row("ABCDE", [0, 1, 2, 3]),
        row("ABCDE", [0, 1, 2, 3, -1]),
        row("ABCD", [0, 1, 2, 3, 4]),
        row("ABCDEF", [0, 1, 2, 3, 4]),
    ],
    ids=lambda wrong: f"{len(wrong['players'])} players, {wrong['places']}",
)
def test_rows_with_wrong_places_are_rejected(wrong: Row) -> None:
    tournament.check(TWO_CYCLES)
    for rejects in (tournament.check, tournament.player_results, tournament.report):
        with pytest.raises(ValueError, match="0 to 4"):
            rejects([*TWO_CYCLES, wrong])


def test_of_two_players_one_finishes_first() -> None:
    wins = tournament.head_to_head(TWO_CYCLES)
    assert wins["A", "B"] == 0.25
    assert wins["A", "C"] == 0.75
    assert wins["D", "E"] == 0.75
    assert len(wins) == 20
    for a, b in wins:
        assert wins[a, b] + wins[b, a] == 1


def test_a_player_does_not_meet_itself() -> None:
    wins = tournament.head_to_head([row("AAABB", [0, 1, 4, 2, 3])])
    assert wins == {("A", "B"): 4 / 6, ("B", "A"): 2 / 6}


def test_players_that_never_met_have_no_entry() -> None:
    rows = [row("ABCDE", [0, 1, 2, 3, 4]), row("BCDEF", [0, 1, 2, 3, 4])]
    assert ("A", "F") not in tournament.head_to_head(rows)
    line = next(line for line in tournament.report(rows).splitlines() if line.startswith("| F |"))
    assert line.startswith("| F | 1 | 100.0")


def test_the_report_has_both_tables() -> None:
    lines = tournament.report(TWO_CYCLES).splitlines()
    assert lines[0] == "4 games in 2 cycles; mean of all players 300.0 (must be 300.0)"
    assert "| B | 4 | 475.0 ± 317.7 | 75.0% | 25.0% | 0.0% | 0.0% | 0.0% |" in lines
    assert "| finishes before | B | A | C | D | E |" in lines
    assert "| A | 25.0% |  | 75.0% | 75.0% | 100.0% |" in lines
    for line in lines[2:]:
        assert not line or line.startswith("|")


def test_the_report_of_a_single_name_has_one_table() -> None:
    report = tournament.report([row("AAAAA", [0, 1, 2, 3, 4])])
    assert "| A | 5 | 300.0" in report
    assert "finishes before" not in report


# The command


def command(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in a process."""
    return subprocess.run(
        [sys.executable, "-m", "afterstate.leaderboard", "tournament", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        **settings,
    )


def read(file: Path) -> list[Row]:
    """Return the rows of a file."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_the_command_prints_the_report_and_writes_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.jsonl"
    assert main(["tournament", *FIVE, "--cycles=3", "--games=4", "--seed=9", f"--rows={file}"]) == 0
    cycles = tournament.draw_cycles(FIVE, 3, 9, False)
    rows = [row for cycle in cycles for row in tournament.play_cycle(cycle, 4)]
    assert read(file) == rows
    assert capsys.readouterr().out == tournament.report(rows) + "\n"


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tournament", *FIVE, "--cycles=1", "--games=4", "--seed=9", "--json"]) == 0
    (cycle,) = tournament.draw_cycles(FIVE, 1, 9, False)
    best, other = json.loads(capsys.readouterr().out)
    assert best["points_per_100_games"] >= other["points_per_100_games"]
    assert best["interval"] is None
    assert {each["player"]: each["n_games"] for each in (best, other)} == {
        name: 4 * FIVE.count(name) for name in set(FIVE)
    }
    (expected, _) = tournament.player_results(tournament.play_cycle(cycle, 4))
    assert best["places"] == expected.places


def test_a_file_of_rows_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("mine\n")
    with pytest.raises(SystemExit) as stopped:
        exit_code(main, ["tournament", *FIVE, "--cycles=1", "--games=1", f"--rows={file}"])
    assert stopped.value.code == 2
    assert str(file) in capsys.readouterr().err
    assert file.read_text() == "mine\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (FIVE[:4], "at least 5"),
        ([*FIVE, "nobody"], "nobody"),
        ([*FIVE, "no_such_module:Bot"], "no_such_module"),
        ([*FIVE, "json:Bot"], "Bot"),
        ([*FIVE, "json:dumps_all"], "dumps_all"),
        ([*FIVE, "types:SimpleNamespace"], "player"),
        ([*FIVE, "--rows=no/such/folder/rows"], "no/such/folder"),
        ([*FIVE, "--cycles=x"], "cycles"),
        ([*FIVE, "--seed=-1"], "seed|non-negative"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors_have_no_traceback(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        exit_code(main, ["tournament", *arguments])
    assert stopped.value.code == 2
    shown = capsys.readouterr()
    assert "error" in shown.err and "Traceback" not in shown.err
    assert re.search(message, shown.err)
    assert "Traceback" not in shown.err
    assert shown.out == ""


@pytest.mark.slow
def test_two_processes_make_the_same_rows_as_one(tmp_path: Path) -> None:
    for jobs in ("1", "2"):
        run = command(
            *(*FIVE, "--cycles=1", "--games=5", "--duplicate"),
            *("--jobs", jobs, "--rows", str(tmp_path / jobs)),
        )
        assert run.returncode == 0, run.stderr
        assert run.stdout.startswith("25 games in 5 cycles; mean of all players 300.0")
    assert read(tmp_path / "1") == read(tmp_path / "2")


def interrupted(cycles: Iterable[list[Row]], total: int) -> Iterator[list[Row]]:
    """The progress bar, with Ctrl-C after the first cycle."""
    for number, played in enumerate(cycles):
        if number == 1:
            os.kill(os.getpid(), signal.SIGINT)
        yield played


def test_an_interrupted_tournament_reports_what_was_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tournament, "tqdm", interrupted)
    file = tmp_path / "rows.jsonl"
    assert main(["tournament", *FIVE, "--cycles=50", "--games=2", f"--rows={file}"]) == 130
    rows = tournament.play_cycle(tournament.draw_cycles(FIVE, 50, 0, False)[0], 2)
    shown = capsys.readouterr()
    assert read(file) == rows
    assert shown.out == tournament.report(rows) + "\n"
    assert "interrupted" in shown.err


def test_a_full_disk_leaves_whole_rows_and_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, calls, append = tmp_path / "rows.jsonl", iter(range(9)), durable_files.append_to

    def appended(opened: Any, data: bytes) -> None:
        if next(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device", opened.name)
        append(opened, data)

    monkeypatch.setattr(durable_files, "append_to", appended)
    assert main(["tournament", *FIVE, "--cycles=9", "--games=2", f"--rows={file}"]) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("2 games in 1 cycle;") and len(read(file)) == 2
    assert shown.err.endswith(f"error: {file}: No space left on device\n")


@pytest.mark.parametrize("cycle", [0, 1])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_rows_are_not_written_to_another_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cycle: int,
    is_replaced: bool,
) -> None:
    """Another tournament with the same rows does not start, and a removed file is no new one."""
    file, play_cycles = tmp_path / "rows.jsonl", tournament.play_cycles

    def played(*arguments: Any) -> Iterator[list[Row]]:
        for i, each in enumerate(play_cycles(*arguments)):
            if i == cycle:
                with pytest.raises(SystemExit, match="2"):
                    exit_code(main, ["tournament", *FIVE, "--cycles=1", f"--rows={file}"])
                file.rename(tmp_path / "moved")
                if is_replaced:
                    file.write_text("mine\n")
            yield each

    monkeypatch.setattr(tournament, "play_cycles", played)
    assert main(["tournament", *FIVE, "--cycles=3", "--games=2", f"--rows={file}"]) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("2 games in 1 cycle;") == (cycle == 1)
    assert file.exists() == is_replaced and (not is_replaced or file.read_text() == "mine\n")
    assert len(read(tmp_path / "moved")) == 2 * cycle
    assert f"error: {file}: the file was removed or replaced during the" in shown.err


def test_a_player_that_fails_leaves_no_file(tmp_path: Path, bots: ModuleType) -> None:
    class Fails(HeuristicAgent):
        def choose(self, view: Any) -> int:
            raise ZeroDivisionError

    vars(bots)["Fails"] = Fails
    file = tmp_path / "rows.jsonl"
    with pytest.raises(ZeroDivisionError):
        main(["tournament", *FIVE[:4], "bots:Fails", "--cycles=1", f"--rows={file}"])
    assert not file.exists()


@pytest.mark.parametrize("kind", [ZeroDivisionError, ValueError])
def test_a_player_that_fails_later_leaves_rows_and_report(
    tmp_path: Path, bots: ModuleType, capsys: pytest.CaptureFixture[str], kind: type[Exception]
) -> None:
    class Fails(HeuristicAgent):
        made = 0

        def __init__(self) -> None:
            super().__init__()
            Fails.made += 1  # the first is made by the check of names

        def choose_play(self, view: Any) -> int:
            if Fails.made == 4:
                raise kind("no move")
            return super().choose_play(view)

    vars(bots)["Fails"] = Fails
    file = tmp_path / "rows.jsonl"
    names = [*FIVE[:4], "bots:Fails"]
    message = "no move" if kind is ZeroDivisionError else r"cycle of .*bots:Fails.*: no move"
    with pytest.raises(kind, match=message):
        tournament.run(Tournament(tuple(names), cycles=5, games=2, rows=file))
    assert capsys.readouterr().out.startswith("4 games in 2 cycles") and len(read(file)) == 4


BOT = """
import os, signal
from afterstate.agents.daihinmin.rule_based.players import SampleAgent

class Bot(SampleAgent):
    made = 0

    def __init__(self):
        Bot.made += 1
        if Bot.made == 3:  # the first is made by the check of names, the second for cycle 1
            os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.slow
def test_rows_are_on_disk_when_their_cycle_ends(tmp_path: Path) -> None:
    (tmp_path / "bots.py").write_text(BOT)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    players = ["sample"] * 4 + ["bots:Bot"]
    file = tmp_path / "rows.jsonl"
    run = command(
        *(*players, "--cycles=50", "--games=3", "--rows", str(file)),
        env=os.environ | {"PYTHONPATH": path},
    )
    assert run.returncode == 130
    assert "interrupted" in run.stderr
    assert "Traceback" not in run.stderr
    assert run.stdout.startswith("3 games in 1 cycle;")
    assert len(read(file)) == 3

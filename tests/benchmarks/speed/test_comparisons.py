"""Tests of the comparisons with other programs, most with programs that stand in for them."""

from __future__ import annotations

import inspect
import json
import os
import stat
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy")

import gymnasium as gym
import numpy as np
from tqdm import tqdm

from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.learning.run_settings import NTupleSettings
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.envs import daihinmin_v0
from afterstate.envs.commands import exit_code
from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.vector_env import Game2048VectorEnv
from benchmarks.speed import comparisons, peers, timing
from benchmarks.speed.__main__ import main
from benchmarks.speed.comparisons import Comparison, Peers, moves_of_tdl2048, subject, text_of
from benchmarks.speed.timing import Program, Section, Span, section

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="comparisons need Linux")

BUSY_SECONDS = timing.busy_seconds
DATA = Path(__file__).parents[2] / "data" / "game2048" / "tdl2048"

STAND_IN = f"""#!{sys.executable} -IS
import pathlib, sys
words = sys.argv[1:]
with open(__file__ + ".log", "a") as log:
    print(*words, file=log)
if "--version" in words:
    sys.exit(print("TDL2048+ Rev. (GCC 12)"))
if "-o" in words:
    sys.exit(pathlib.Path(words[words.index("-o") + 1]).touch())
if "-i" in words and not pathlib.Path(words[words.index("-i") + 1]).exists():
    sys.exit("cannot load")
print("TDL2048+ by Hung Guei\\nalpha = 0.1\\n")
while True:
    print("001/100 20ms 50000.00ops\\nlocal: avg=1 max=2\\nsummary 20ms 50000.00ops", flush=True)
"""


def python(code: str) -> Program:
    """Return a program that runs some code in a fresh interpreter."""
    return Program([sys.executable, "-IS", "-c", "import os, sys, time\n" + code])


def endless(n: int) -> Program:
    """Return a program that prints n steps again and again."""
    return python(f"while True: print({n}, flush=True)")


@pytest.fixture
def tdl2048(tmp_path: Path) -> Path:
    """Return a program that prints what TDL2048 prints, 1,000 moves at a time."""
    file = tmp_path / "tdl2048"
    file.write_text(STAND_IN)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ours be a program of 3 steps a line, on a quiet machine."""
    comparisons.version.cache_clear()
    monkeypatch.setattr(comparisons, "ours", lambda start, **settings: endless(3))
    monkeypatch.setattr(timing, "busy_seconds", lambda: 0.0)
    monkeypatch.setattr(timing, "SHORTEST", 1e-6)


@pytest.fixture
def by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """End sections by their steps alone."""
    monkeypatch.setattr(timing, "SHORTEST", 0.0)


def run(tmp_path: Path, *words: object) -> tuple[int, list[dict[str, Any]]]:
    """Run the command for one turn; return its exit status and the rows of its result."""
    result = tmp_path / "results" / "peers.json"
    fixed = ["--peers", "--turns", "1", "--length", "1e-4", "--result", result]
    status = main([str(word) for word in (*fixed, *words)])
    return status, json.loads(result.read_text())["rows"] if result.exists() else []


@pytest.mark.parametrize(
    ("line", "moves"),
    [
        ("003/100 250ms 2000000.00ops", 500_000),
        ("000003/100000 7ms 142857.14ops [1]", 1_000),
        ("001/100 0ms infops", 0),
        ("local:  avg=1234 max=5678 tile=512 win=0.00%", 0),
        ("summary 250ms 2000000.00ops", 0),
        ("optimize: loop=3 unit=100", 0),
    ],
)
def test_moves_are_those_of_blocks_of_games(line: str, moves: int) -> None:
    assert moves_of_tdl2048(line) == moves


@pytest.mark.usefixtures("by_steps")
def test_a_section_begins_and_ends_with_lines() -> None:
    part = section(endless(10), Span(after=25, steps=45), seed=1)
    assert part.steps == 50  # from 30 to 80


def test_a_section_lasts_its_cpu_seconds_without_the_start() -> None:
    burn = "t = time.process_time()\nwhile time.process_time() < t + {}: pass\n"
    code = burn.format(0.4) + "while True:\n" + "    print(1, flush=True)\n"
    code += "".join("    " + line + "\n" for line in burn.format(0.01).splitlines())
    part = section(python(code), Span(seconds=0.1), seed=1)
    assert 0.1 <= part.cpu_seconds < 0.3
    assert part.wall_seconds >= part.cpu_seconds * 0.9
    assert part.steps == pytest.approx(part.cpu_seconds / 0.01, rel=0.3)


@pytest.mark.usefixtures("by_steps")
def test_the_seed_is_the_last_word() -> None:
    assert section(python("while True: print(sys.argv[-1], flush=True)"), Span(), 7).steps == 7


@pytest.mark.usefixtures("by_steps")
@pytest.mark.parametrize(("huge_pages", "steps"), [(True, 3), (False, 5), (None, 1)])
def test_huge_pages_are_asked_for_or_refused(
    huge_pages: bool | None, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.delenv("NUMPY_MADVISE_HUGEPAGE", raising=False)
    asked = "2 * (os.environ.get('GLIBC_TUNABLES') == 'glibc.malloc.hugetlb=1')"
    refused = "4 * ctypes.CDLL(None).prctl(42, 0, 0, 0, 0)"  # PR_GET_THP_DISABLE
    code = f"import ctypes\nwhile True: print(1 + {asked} + {refused}, flush=True)"
    part = section(python(code), Span(), 1, huge_pages)
    assert part.steps == steps


@pytest.mark.skipif(comparisons.huge_pages() == "never", reason="the system grants none")
@pytest.mark.parametrize("huge_pages", [True, False])
def test_memory_in_huge_pages_is_measured(huge_pages: bool) -> None:
    code = "import numpy\narray = numpy.ones(1 << 23)\nwhile True: print(1, flush=True)"
    part = section(Program([sys.executable, "-c", code]), Span(), 1, huge_pages)
    assert (part.huge_mib >= 32) == huge_pages  # of 64 MiB


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print(5); sys.exit('no such table')", "ended after 5 steps: no such table"),
        ("print(5); print('bad alloc')", "ended after 5 steps: bad alloc"),
    ],
)
def test_a_program_that_ends_early_is_an_error(code: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        section(python(code), Span(steps=100), seed=1)


@pytest.mark.parametrize("interrupted", [False, True])
def test_programs_are_terminated(
    interrupted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(pid: int) -> float:
        raise KeyboardInterrupt

    file = tmp_path / "pid"
    code = f"print(os.getpid(), file=open({str(file)!r}, 'w'), flush=True)\n"
    program = python(code + "while True: print(1, flush=True)")
    if interrupted:
        monkeypatch.setattr(timing, "_huge_mib", interrupt)
        with pytest.raises(KeyboardInterrupt):
            section(program, Span(), 1)
    else:
        section(program, Span(), 1)
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


def test_programs_take_turns_with_one_seed_each(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([2.0, 4.0, 2.0, 6.0, 2.0, 3.0])
    calls = []

    def timed(program: Program, span: Span, seed: int, huge_pages: bool | None) -> Section:
        calls.append((program.command[0], seed))
        now = next(seconds)
        return Section(12, now, 2 * now, 1.0, 0.0)

    monkeypatch.setattr(comparisons, "section", timed)
    each = Comparison("x", "moves", "peer", Program(["a"]), Program(["b"]), Span())
    with tqdm(disable=True) as bar:
        row = comparisons.compare(each, 3, bar)
    assert calls == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3)]
    assert (row["ours"], row["theirs"]) == ([6, 6, 6], [3, 2, 4])
    assert (row["ratios"], row["ratio"], row["clock"]) == ([2, 3, 1.5], 2, "CPU")
    facts = {"name": "x", "peer": "peer", "huge_pages": None, "threads": 1}
    assert text_of({**facts, **row}).endswith(" 2.00 (1.50 to 3.00)")


def test_two_threads_are_timed_by_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = iter([Section(12, 4.0, 2.0, 0.0, 0.0), Section(12, 4.0, 3.0, 0.0, 0.05)])
    monkeypatch.setattr(comparisons, "section", lambda *_: next(parts))
    each = Comparison("x", "moves", "peer", Program([]), Program([]), Span(), threads=2)
    with tqdm(disable=True) as bar:
        row = comparisons.compare(each, 1, bar)
    assert (row["clock"], row["ours"], row["theirs"]) == ("wall", [6], [4])


@pytest.mark.slow
def test_all_comparisons_with_tdl2048(
    tdl2048: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    status, rows = run(tmp_path, "--tdl2048", tdl2048, "--only", "learning", "play ")
    assert status == 0
    assert len(rows) == 18 + 10
    assert all(row["version"].startswith("TDL2048+") and row["ratio"] > 0 for row in rows)
    assert {row["clock"] for row in rows if row["threads"] == 2} == {"wall"}
    assert {row["clock"] for row in rows if row["threads"] == 1} == {"CPU"}
    pages = [row["huge_pages"] for row in rows if row["name"] == "play greedy"]
    assert pages == [True, False]
    printed = capsys.readouterr().out
    assert all(row["name"] in printed for row in rows)
    calls = Path(f"{tdl2048}.log").read_text().splitlines()
    assert any(call.startswith("-n 4x6patt -a 1.0 -t 3x1 -s 1 -o") for call in calls)
    assert "-n 8x6patt -a 1.0 -l 0.5 -t 100000x100 -p 2 noshm -s 1" in calls
    assert sum(call.endswith("-e 100000x1 -d 3p -c 1M -s 1") for call in calls) == 2


def test_a_given_network_is_played_with(tdl2048: Path, tmp_path: Path) -> None:
    file = DATA / "2x4td.w"
    status, rows = run(
        tmp_path, "--tdl2048", tdl2048, "--network", file, "--only", "greedy", "--turns", "2"
    )
    assert status == 0
    assert [len(row["ratios"]) for row in rows] == [2, 2]
    calls = Path(f"{tdl2048}.log").read_text().splitlines()
    seeds = [f"-i {file} -e 100000x10 -s {seed}" for seed in (1, 2, 1, 2)]
    assert [call for call in calls if "-i" in call] == seeds


def test_what_cannot_be_compared_is_skipped_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, rows = run(tmp_path, "--only", "greedy")
    assert (status, {row["skipped"] for row in rows}) == (0, {"no --tdl2048"})
    monkeypatch.setattr(comparisons, "version", lambda peers, peer: None)
    _, rows = run(tmp_path, "--only", "B = 64")
    assert {row["skipped"] for row in rows} == {"not installed"}


@pytest.mark.parametrize(("busy", "clock"), [(0.0, "wall"), (1.5, "CPU")])
def test_two_threads_are_timed_by_the_clock_on_a_quiet_machine(
    tdl2048: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: float, clock: str
) -> None:
    def timed(*words: Any) -> Section:
        return section(*words)._replace(others=busy)

    monkeypatch.setattr(comparisons, "section", timed)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    _, rows = run(tmp_path, "--tdl2048", tdl2048, "--only", "learning TD 4x6")
    assert [(row["threads"], row["clock"]) for row in rows] == [(1, "CPU"), (1, "CPU"), (2, clock)]
    assert {row["busy_cores"] for row in rows} == {busy}


def test_the_load_of_other_processes_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "busy_seconds", lambda: 5 * time.perf_counter())
    part = section(endless(3), Span(seconds=0.05), seed=1)
    assert part.others == pytest.approx(5 - part.cpu_seconds / part.wall_seconds, abs=0.1)


def test_a_program_that_fails_does_not_stop_the_others(
    tdl2048: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tdl2048.write_text(
        STAND_IN.replace('if "-i" in', 'if "2p" in words: sys.exit("no")\nif "-i" in')
    )
    status, rows = run(
        tmp_path, "--tdl2048", tdl2048, "--network", DATA / "2x4td.w", "--only", "plain"
    )
    assert status == 1
    failed = ["TDL2048: it ended after 0 steps: no", None] * 2
    assert [row.get("failed") for row in rows] == failed
    assert "failed: TDL2048: it ended" in capsys.readouterr().out


def test_an_interruption_keeps_the_rows_that_ended(
    tdl2048: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls = []

    def interrupted(*args: Any) -> Section:
        calls.append(args)
        if len(calls) == 6:  # the peer in the third comparison
            raise KeyboardInterrupt
        return section(*args)

    monkeypatch.setattr(comparisons, "section", interrupted)
    status, rows = run(tmp_path, "--tdl2048", tdl2048, "--only", "learning")
    assert (status, len(rows)) == (130, 2)
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["missing", "not executable", "another program"])
def test_a_wrong_tdl2048_is_an_error(
    kind: str, tdl2048: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if kind == "missing":
        tdl2048.unlink()
    elif kind == "not executable":
        tdl2048.chmod(0o600)
    else:
        tdl2048.write_text(STAND_IN.replace("TDL2048+ Rev.", "2048 Rev."))
    with pytest.raises(SystemExit) as caught:
        run(tmp_path, "--tdl2048", tdl2048)
    assert caught.value.code == 2
    assert f"tdl2048 must be a built TDL2048 that can be run, got {tdl2048}" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "3-plies"], "only must be part of a comparison's name"),
        (["--network", "missing.w"], "network must be a .w file of TDL2048"),
        (["--python", "missing"], "python must be a Python interpreter"),
    ],
)
def test_wrong_arguments_are_errors(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run(tmp_path, *words)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--turns 3", "--turns has no effect without --peers"),
        ("--peers --rounds 3", "--rounds has no effect with --peers"),
        ("daihinmin --peers", "games has no effect with --peers, got daihinmin"),
    ],
)
def test_options_without_effect_are_refused(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        exit_code(main, words.split())
    assert caught.value.code == 2 and message in capsys.readouterr().err


def test_the_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "--tdl2048" in capsys.readouterr().out


def test_every_subject_exists_with_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    known = comparisons.comparisons(Peers(tdl2048=Path("x"), network=Path("x.w")), ())
    commands = [program.command for each in known for program in (each.ours, each.theirs)]
    starts = {tuple(command[-2:]) for command in commands if "benchmarks.speed.timing" in command}
    assert len(starts) > 25
    for start, settings in starts:
        module, function = start.split(":")
        inspect.signature(getattr(import_module(module), function)).bind(
            **json.loads(settings), seed=1
        )


@pytest.mark.slow
def test_subjects_of_ours_make_the_steps_they_count() -> None:
    from benchmarks.speed import daihinmin, game2048

    network = str(DATA / "2x4td.w")
    for steps in (
        game2048.start_env(seed=1),
        game2048.start_vector_env(8, "onehot", seed=1),
        game2048.start_play(network, seed=1),
        game2048.start_play(network, seed=1, depth=2, cutoff=0, table_bits=0),
        game2048.start_learner("5x4", seed=1, rule="td", order="forward"),
        daihinmin.start_env(seed=1),
        daihinmin.start_playouts(seed=1),
    ):
        assert steps(20) >= 20


def test_steps_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    n_steps = 0

    def count(env: Any, actions: Any) -> Any:
        nonlocal n_steps
        n_steps += np.size(actions)
        return step(env, actions)

    for kind, steps in (
        (Game2048Env, peers.step_gymnasium(gym.make("Game2048-v0"), 1)),
        (Game2048VectorEnv, peers.step_vector(gym.make_vec("Game2048-v0", 8), 1)),
        (daihinmin_v0.raw_env, peers.step_pettingzoo(daihinmin_v0.env(), 1)),
    ):
        step, n_steps = kind.__dict__["step"], 0
        monkeypatch.setattr(kind, "step", count)
        assert steps(500) == n_steps >= 500


def test_a_learner_counts_its_moves() -> None:
    from benchmarks.speed import game2048

    steps = game2048.start_learner("5x4", seed=1, rule="td", order="forward")
    learner = NTupleLearner(network("5x4"), NTupleSettings("td", order="forward"), seed=1)
    for n in (20, 700):
        before = learner.n_moves
        learner.learn(n)
        assert steps(n) == learner.n_moves - before


def test_busy_seconds_include_those_of_this_process() -> None:
    before, start = BUSY_SECONDS(), time.process_time()
    while time.process_time() - start < 0.2:
        pass
    assert BUSY_SECONDS() - before >= 0.2 - 2 / os.sysconf("SC_CLK_TCK")


def test_a_subject_runs_in_a_process_of_its_own() -> None:
    pytest.importorskip("pygame")
    program = subject(Path(sys.executable), "peers:start_pettingzoo", game="connect_four_v3")
    start = time.perf_counter()
    part = section(program, Span(), seed=1)
    assert part.steps >= 1
    assert part.cpu_seconds < time.perf_counter() - start

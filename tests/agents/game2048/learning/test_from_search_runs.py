"""Checkpoints of learners from searches, interrupts, values that diverge, and runs of the command.

Tests with `settings` are made with an N-tuple network and with a neural one.
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("tqdm")
pytest.importorskip("torch")

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.config import from_dict, read
from afterstate.agents.game2048.learning import ntuple_learner
from afterstate.agents.game2048.learning.from_search import SearchValueLearner, score_limit
from afterstate.agents.game2048.learning.net_model import NetModel
from afterstate.agents.game2048.learning.run_settings import SearchValueRun
from afterstate.agents.game2048.learning.table_model import TableModel
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values import ntuple_file, value_net
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.agents.training.evaluation import EVALUATION_SEED, summary
from afterstate.agents.training.run import Diverged
from tests.support.game2048.search_learners import SCALE, TUPLES, Boards, Tiny, random_boards
from tests.support.training_runs import (
    TrainingCommand,
    contents,
    fill_disk,
    read_rows,
)

pytestmark = pytest.mark.usefixtures("one_thread")

TABLES: dict[str, Any] = {
    "network": {"tuples": TUPLES[2, 3], "size": [2, 3]},
    **{"search": {"simulations": 4}, "learner": {"games": 8}, "seed": 1},
}
NEURAL: dict[str, Any] = {
    **{"network": {"name": "Tiny"}, "fitting": {"unit": SCALE, "batch": 16, "average": 0.5}},
    **{"search": {"simulations": 3}, "learner": {"games": 8}, "seed": 1},
}


@pytest.fixture(autouse=True)
def _networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files and settings have the network of these tests."""
    monkeypatch.setitem(value_net.NETWORKS, "Tiny", Tiny)


@pytest.fixture(params=[TABLES, NEURAL], ids=["tables", "neural"])
def settings(request: pytest.FixtureRequest) -> Any:
    """Settings of a run."""
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a learner."""
    return tmp_path / "learner.file"


@pytest.fixture
def command(tmp_path: Path) -> TrainingCommand:
    fast = ("--evaluate-every", "200", "--evaluate", "1:3")
    return TrainingCommand("search", tmp_path, TABLES, *fast)


def new(settings: dict[str, Any], place: Path | None = None, **others: Any) -> SearchValueLearner:
    """Return a learner with these settings, or that of a run."""
    run_settings = from_dict({**settings, **others}, SearchValueRun)
    learner = run_settings.new()
    if place is not None:
        learner.resume(place / run_settings.checkpoints[0])
    return learner


def state(learner: SearchValueLearner) -> dict[str, Any]:
    """Return the whole state of a learner, to be compared."""
    names = ("n_moves", "n_games", "_rng", "_games", "_afters", "_lengths")
    values: dict[str, Any] = {name: getattr(learner, name) for name in names}
    if isinstance(learner.model, TableModel):
        values |= {"weights": learner.model.network.weights, "sums": learner.model._update.sums}
    elif isinstance(learner.model, NetModel):
        fitter = learner.model._fitter
        values |= {**fitter.tensors(), **fitter.played.state_dict()}
    return {name: np.asarray(value).tolist() for name, value in values.items()}


@pytest.mark.parametrize("own", [{}, {"learn": "nodes", "clip": 50}, {"learn": "paths"}], ids=str)
def test_learning_from_a_checkpoint_equals_uninterrupted_learning(
    settings: dict[str, Any], own: dict[str, Any], path: Path
) -> None:
    learner, resumed = (new(settings, learner={"games": 5, **own}, seed=seed) for seed in (1, 2))
    learner.learn(200)
    learner.save(path)
    resumed.resume(path)
    assert state(resumed) == state(learner)
    assert resumed.seconds == pytest.approx(learner.seconds, abs=0.06)
    assert learner.learn(200).scores.tolist() == resumed.learn(200).scores.tolist()
    assert state(resumed) == state(learner)


@pytest.mark.parametrize("function", ["fit", "_step"])
@pytest.mark.parametrize("own", [{}, {"learn": "nodes", "clip": 50}], ids=str)
def test_an_interrupted_move_is_completed(
    settings: dict[str, Any], own: dict[str, Any], function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C arrives before it learns, or before it makes the moves."""
    learner, other = (new(settings, learner={"games": 5, **own}) for _ in range(2))
    before = learner.learn(60).scores.tolist()
    owner: Any = learner.model if function == "fit" else learner
    original = getattr(owner, function)

    def signalled(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return original(*arguments)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(owner, function, signalled)
        learner.learn(60)
    ended = learner.ended().scores.tolist()
    assert sorted(before + ended) == sorted(other.learn(learner.n_moves).scores.tolist())
    assert 60 < learner.n_moves == other.n_moves < 120
    assert state(learner) == state(other)


def test_a_full_disk_and_diverged_values_leave_the_old_file(
    settings: dict[str, Any], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = new(settings)
    learner.learn(30)
    learner.save(path)
    before = contents(path.parent)
    learner.learn(30)
    with monkeypatch.context() as patched:
        fill_disk(patched)
        with pytest.raises(OSError, match="No space left"):
            learner.save(path)
    assert contents(path.parent) == before
    monkeypatch.setattr(learner.model, "fit", lambda *arguments: math.inf)
    with pytest.raises(Diverged):
        learner.learn(30)
    learner.save(path)
    learner.save(path.with_name("other.file"))
    assert contents(path.parent) == before


def spoil(model: Any) -> None:
    """Make a number infinite that no board of a game depends on."""
    if isinstance(model, TableModel):
        full = np.array([0xFFF_0FFF], np.uint64)  # of tiles of 32768
        assert math.isfinite(model.fit(full, np.array([1e39]), 0))
    else:
        (state, *_) = model._fitter.optimizer.state.values()
        state["exp_avg_sq"].view(-1)[0] = math.inf


@pytest.mark.parametrize("name", ["weights", "sums"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_nan_and_inf_of_tables_are_not_saved(wrong: float, name: str, path: Path) -> None:
    learner = new(TABLES)
    model: Any = learner.model
    array = model.network.weights if name == "weights" else model._update.sums
    array[-1] = wrong
    with pytest.raises(Diverged):
        learner.save(path)
    assert contents(path.parent) == {}


def test_damaged_and_other_files_are_refused(settings: dict[str, Any], path: Path) -> None:
    net = network(TUPLES[2, 3], (2, 3))
    new(settings).save(path)
    whole = path.read_bytes()
    others: list[bytes | Callable[[Path], Any]] = [whole[:-1], whole[: len(whole) // 2], b"", b"?"]
    others += [new(TABLES if settings is NEURAL else NEURAL).save, partial(nets.save, Tiny())]
    others += [partial(ntuple_file.save, net), ntuple_learner.NTupleLearner(net, seed=1).save]
    for other in others:
        _ = path.write_bytes(other) if isinstance(other, bytes) else other(path)
        with pytest.raises(ValueError, match=r"learner\.file"):
            new(settings).resume(path)


def test_a_run_ends_when_its_checkpoint_would_have_inf(
    settings: dict[str, Any],
    command: TrainingCommand,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kind: Any = TableModel if settings is TABLES else NetModel
    fit = kind.fit

    def spoiling(model: Any, afters: Boards, targets: npt.NDArray[Any], n_moves: int) -> float:
        loss = float(fit(model, afters, targets, n_moves))
        if n_moves > 300:
            monkeypatch.setattr(kind, "fit", fit)
            spoil(model)
        return loss

    monkeypatch.setattr(kind, "fit", spoiling)
    with pytest.raises(SystemExit, match=r"^1$"):
        command("--moves", "1e4", settings=settings)
    message = capsys.readouterr().err
    assert re.search(r"^error: values diverged after 4\d\d moves: some are NaN", message, re.M)
    place = command.folder / "run"
    *others, last = read_rows(place)
    assert [row["n_moves"] // 200 for row in others] == [1]
    assert set(last["diverged"]) == {"searched", "valued", "largest"}
    assert new(settings, place).n_moves == others[0]["n_moves"]


@pytest.mark.slow
def test_a_run_writes_its_learner_and_its_rows(
    settings: dict[str, Any], command: TrainingCommand
) -> None:
    place = command("--moves", "500", settings=settings)
    player = "learner.npz" if settings is TABLES else "net.safetensors"
    names = {"lock", "rows.jsonl", "settings.json", player, player.replace("net.", "learner.")}
    assert set(contents(place)) - {"recent.json"} == names  # which is there if a game has ended
    assert read(place / "settings.json", SearchValueRun) == from_dict(settings, SearchValueRun)
    expected, rows = new(settings), read_rows(place)
    assert [row["n_moves"] // 200 for row in rows] == [1, 2, 2]
    for row in rows:
        while expected.n_moves < row["n_moves"]:
            expected.learn(1)
        values = {"error": expected.loss(), **expected.latest, "n_games": expected.n_games}
        assert {name: row[name] for name in values} == pytest.approx(values, abs=0.2)
        assert set(expected.latest) == {"searched", "valued", "largest"}
    assert state(new(settings, place)) == state(expected)
    loaded = agents.load(place / player)
    assert rows[-1]["1-ply"] == summary(play(loaded, 3, EVALUATION_SEED))
    boards = random_boards(9, loaded.size)
    assert loaded.act(boards).tolist() == expected.model.player().act(boards).tolist()
    if settings is NEURAL:
        metadata = nets.metadata(place / player)
        assert (metadata["value_scale"], metadata["learner"]) == (SCALE, asdict(expected.settings))


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_one(
    settings: dict[str, Any], command: TrainingCommand
) -> None:
    straight = command("--moves", "650", "--evaluate", "1:1", settings=settings, out="straight")
    command("--moves", "450", "--evaluate", "none", settings=settings)
    place = command("--moves", "650", "--evaluate", "1:1", "--resume", settings=settings)
    assert state(new(settings, place)) == state(new(settings, straight))
    rows = read_rows(place)
    assert [row["n_moves"] // 200 for row in rows] == [1, 2, 2, 3, 3]
    assert rows[-1]["1-ply"] == read_rows(straight)[-1]["1-ply"]


DIVERGING: dict[str, Any] = {
    **{"network": {"tuples": [[0]]}, "fitting": {"rule": "td", "rate": 0.05}},
    "search": {"simulations": 10, "select": "L-max", "unseen": "outcomes"},
    **{"learner": {"games": 32}, "seed": 1},
}
"""Settings with which the values of one corner diverge soon."""


def test_a_run_whose_values_diverge_ends_with_a_row_and_its_last_checkpoint(
    command: TrainingCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    often, limit = ("--evaluate-every", "2e3"), score_limit((4, 4))
    with pytest.raises(SystemExit, match=r"^1$"):
        command("--moves", "1e6", *often, settings=DIVERGING)
    message = capsys.readouterr().err
    assert re.search(r"^error: values diverged after [\d,]+ moves: .*last saved", message, re.M)
    *others, last = read_rows(command.folder / "run")
    assert set(last) == {"n_games", "n_moves", "seconds", "diverged"}
    assert set(last["diverged"]) == {"searched", "valued", "largest"}
    assert limit < last["diverged"]["searched"] < 3 * limit
    searched = [row["searched"] for row in others]
    assert searched == sorted(searched) and searched[-1] > 10 * searched[0]
    assert len(others) > 2 and all("1-ply" in row and "diverged" not in row for row in others)
    learner = new(DIVERGING, command.folder / "run")
    assert learner.n_moves == others[-1]["n_moves"] < last["n_moves"]
    without_learning = {**DIVERGING, "learner": {"games": 32, "learn": "nothing"}}
    rows = read_rows(command("--moves", "1e4", "--resume", *often, settings=without_learning))
    assert rows[: len(others)] == others
    assert not any("diverged" in row for row in rows)


WRONG: list[tuple[dict[str, Any], Any, str]] = [
    (TABLES, {"learner": {"paths": 2}}, "paths"),
    (TABLES, {"fitting": {"batch": 16}}, "batch"),
    *((TABLES, {"fitting": {"rate": value}}, "rate") for value in (0, 2, "1", True)),
    (TABLES, {"fitting": {"rule": "sgd"}}, "rule"),
    (TABLES, {"network": {"colour": 1}}, "colour"),
    (TABLES, {"network": [1]}, "network"),
    (TABLES, {"search": {"depth": 0}}, "depth"),
    (TABLES, {"search": {"playouts": 1}}, "playouts"),
    (TABLES, {"seed": -1}, "seed"),
    (TABLES, {"start": "net.npz"}, "start"),
    (NEURAL, {"start": "net.safetensors"}, "start"),
    ({}, {"start": 5}, "start"),
    ({}, {"start": "nowhere.npz"}, r"nowhere\.npz"),
    ({}, {"start": "nowhere.safetensors"}, r"nowhere\.safetensors"),
    (NEURAL, {"network": {"name": "Tiny", "depth": 3}}, "Tiny .*depth"),
    (NEURAL, {"fitting": {"rule": "tc"}}, "rule"),
    (NEURAL, {"fitting": {"unit": 0}}, "value_scale"),
    *((each, "--evaluate 1:5,2:5", "evaluate") for each in (TABLES, NEURAL)),
    (TABLES, "--threads 2", "threads"),
    (NEURAL, "--device abacus", "got 'abacus'"),
]


@pytest.mark.parametrize(("run_settings", "wrong", "message"), WRONG)
def test_wrong_settings_and_options_are_refused(
    run_settings: dict[str, Any], wrong: Any, message: str, command: TrainingCommand
) -> None:
    options, others = (wrong.split(), {}) if isinstance(wrong, str) else ([], wrong)
    error = command.error("--moves", "100", *options, settings={**run_settings, **others})
    assert re.search(message, error)
    assert not (command.folder / "run").exists()


@pytest.mark.parametrize(
    ("run_settings", "other", "message"),
    [
        (TABLES, {"learner": {"games": 9}}, "games, not 9"),
        (TABLES, {"fitting": {"rule": "td"}}, "must hold the sums of the rule"),
        (
            TABLES,
            {"network": {"tuples": [[0]], "size": [2, 3]}},
            "network of the settings: tuples .*, got",
        ),
        (NEURAL, {"learner": {"games": 9}}, "games, not 9"),
        (NEURAL, {"fitting": {"unit": 5}}, "value_scale"),
        (NEURAL, {"network": {"name": "Tiny", "hidden": 9}}, "must hold the network"),
    ],
)
def test_the_checkpoint_of_another_learner_is_refused(
    run_settings: dict[str, Any], other: dict[str, Any], message: str, path: Path
) -> None:
    new(run_settings).save(path)
    with pytest.raises(ValueError, match=f"learner.file .*{message}"):
        new({**run_settings, **other}).resume(path)


def test_a_run_is_not_overwritten_by_one_with_another_kind_of_network(
    settings: dict[str, Any], command: TrainingCommand
) -> None:
    place = command("--moves", "50", "--evaluate", "none", settings=settings)
    assert not any(name.endswith("ply") for name in read_rows(place)[0])
    before = contents(place)
    for other in (TABLES, NEURAL):
        assert "--resume" in command.error("--moves", "50", settings=other)
        assert contents(place) == before


def test_a_run_starts_from_a_network(settings: dict[str, Any], command: TrainingCommand) -> None:
    """From that of a player or of a run, with the value scale of its file or of the settings."""
    once = ("--moves", "50", "--evaluate", "none")
    first = command(*once, settings=settings, out="first")
    source = first / ("learner.npz" if settings is TABLES else "net.safetensors")
    own = {name: settings[name] for name in ("search", "learner")} | {"start": str(source)}
    player, learner = agents.load(source), new(own)
    boards = random_boards(9, player.size)
    values = new(settings, first).model.estimate(boards)
    assert learner.model.estimate(boards).tolist() == values.tolist()
    assert (learner.n_moves, np.abs(values).max() > 1) == (0, True)
    place = command(*once, settings=own)
    assert new(own, place).model.estimate(boards).tolist() != values.tolist()
    if settings is TABLES:
        file = command.folder / "net.npz"
        ntuple_file.save(player.network, file)
        other = new({**own, "start": str(file)})
        assert other.model.estimate(boards).tolist() == values.tolist()
    else:
        scaled = new({**own, "fitting": {"unit": 5}}).model.estimate(boards)
        assert scaled == pytest.approx(values / SCALE * 5, rel=1e-5)

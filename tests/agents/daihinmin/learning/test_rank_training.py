"""Tests of runs that train rank networks: games, learning, and the files they write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib")
pytest.importorskip("safetensors")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

import torch
import tqdm

from afterstate.agents import nets
from afterstate.agents.config import from_dict, read
from afterstate.agents.daihinmin.afterstates.class_values import place_values
from afterstate.agents.daihinmin.learning import rank_learner, rank_training
from afterstate.agents.daihinmin.learning.game_records import load_log, read_log
from afterstate.agents.daihinmin.learning.rank_learner import bootstrap, samples_of
from afterstate.agents.daihinmin.learning.rank_settings import RankRun
from afterstate.agents.daihinmin.learning.rank_training import (
    generate,
    points_against_sample,
)
from afterstate.agents.daihinmin.play import find_player
from afterstate.agents.daihinmin.values import rank_net
from afterstate.agents.daihinmin.values.rank_net import load
from afterstate.agents.daihinmin.values.softmax_policy import PolicyAgent
from afterstate.agents.training.workers import ALONE
from afterstate.envs.daihinmin.match import CLASS_VALUES, POINTS
from tests.support.daihinmin.rank_runs import (
    RECORDED,
    TINY,
    files_in,
    learned,
    rejected,
    rows_of,
    run,
    same_weights,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_run_writes_its_folder(tmp_path: Path) -> None:
    out = run(tmp_path, 2)
    assert files_in(out) == [
        *("games", "learner.safetensors", "lock", "net.safetensors", "pool", "rows.jsonl"),
        "settings.json",
    ]
    metadata = nets.metadata(out / "net.safetensors")
    assert (metadata["network"], metadata["settings"]) == ("FCNN", {"hidden": 4})
    assert (metadata["generation"], metadata["iterations"]) == (2, 6)
    assert read(out / "settings.json", RankRun) == from_dict(TINY, RankRun)
    rows = learned(out)
    assert [row["generation"] for row in rows] == [1, 2]
    assert [row["iterations"] for row in rows] == [3, 6]
    assert all(np.isfinite([row["loss"], row["rmse"]]).all() for row in rows)
    measured = rows_of(out)[2]
    assert 100 <= measured.pop("against_sample") <= 500
    assert measured == {"generation": 2, "error": None}  # of one match there is none
    assert "NaN" not in (out / "rows.jsonl").read_text()
    games = load_log(out / "games" / "00002.npz")
    assert len(games.games) == 10


@pytest.mark.slow
def test_only_the_latest_generations_and_games_are_stored(tmp_path: Path) -> None:
    """A window of 25 games needs three generations of 10; the pool has three networks."""
    out = run(tmp_path, 5)
    assert files_in(out / "pool") == [f"0000{n}.safetensors" for n in (3, 4, 5)]
    assert files_in(out / "games") == [f"0000{n}.npz" for n in (3, 4, 5)]
    n = [row["samples"] for row in learned(out)]
    assert n[0] < n[1] < n[2]
    assert abs(n[4] / n[2] - 1) < 0.3
    last = load(out / "pool" / "00005.safetensors").state_dict()
    plays = load(out / "net.safetensors").state_dict()
    assert all(torch.equal(last[name], plays[name]) for name in last)


def test_the_new_network_plays_the_first_generation(tmp_path: Path) -> None:
    out = run(tmp_path, 1)
    assert files_in(out / "pool") == ["00000.safetensors", "00001.safetensors"]
    torch.manual_seed(5)
    first = rank_net.network("FCNN", hidden=4).state_dict()
    first_weights = load(out / "pool" / "00000.safetensors").state_dict()
    assert all(torch.equal(first[name], first_weights[name]) for name in first)


@pytest.mark.slow
def test_the_seed_decides_a_run(tmp_path: Path) -> None:
    outs = [run(tmp_path / name, 2, seed=seed) for name, seed in [("a", 1), ("b", 1), ("c", 2)]]
    assert same_weights(outs[0], outs[1])
    assert rows_of(outs[0]) == rows_of(outs[1])
    assert not same_weights(outs[0], outs[2])


def test_players_are_drawn_again_for_each_table(tmp_path: Path) -> None:
    """Players are drawn with replacement; tables of one game have different players."""
    paths = []
    for k in range(3):
        torch.manual_seed(k)
        paths.append(tmp_path / f"{k}.safetensors")
        nets.save(rank_net.network("FCNN", hidden=2), paths[-1])
    loaded: list[str] = []
    original = rank_net.load

    def watched(path: Any, device: str = "cpu") -> Any:
        loaded.append(Path(path).stem)
        return original(path, device)

    settings = from_dict({**TINY, "games": 12, "table": 3, "pool": 2}, RankRun)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_net, "load", watched)
        log = generate(settings, paths, [1, 1], ALONE, "cpu")
    assert len(log.games) == 12
    assert set(loaded) == {"1", "2"}  # the latest two
    again = generate(settings, paths, [1, 1], ALONE, "cpu")
    assert np.array_equal(log.games["actions"], again.games["actions"])


def test_guests_sit_at_the_tables_and_are_not_learned_from() -> None:
    run = RankRun(teacher=["heuristic"], guests=["sample"], guest_share=0.5, games=40, table=4)
    log = generate(run, [], [3], ALONE, "cpu")
    students = [(mask >> np.arange(5) & 1).sum() for mask in log.students]
    assert min(students) >= 1 and {2, 3} <= set(students)
    for mask in np.unique(log.students):
        of = samples_of(log).moments
        here = np.isin(of.origins, np.flatnonzero(log.students == mask))
        assert ((mask >> of.players[here]) & 1).all()
    alone = generate(RankRun(teacher=["heuristic"], games=4, table=4), [], [3], ALONE, "cpu")
    assert (alone.students == 0b11111).all()


def test_teachers_play_the_games_that_are_learned_from(tmp_path: Path) -> None:
    sample = generate(from_dict({**TINY, "teacher": ["sample"]}, RankRun), [], [1, 1], ALONE, "cpu")
    for game in sample.games:
        assert (game["left"] == 0).sum() >= 4
    random = generate(
        from_dict({**TINY, "teacher": ["sample"], "epsilon": 0.3}, RankRun),
        [],
        [1, 1],
        ALONE,
        "cpu",
    )
    assert (sample.last_random == -1).all()
    assert (random.last_random >= 0).any()
    out = run(tmp_path, 1, teacher=["sample", "heuristic"], epsilon=0.03)
    assert rows_of(out)[0]["samples"] > 10


@pytest.mark.slow
def test_logs_of_others_are_learned_from_in_every_generation(tmp_path: Path) -> None:
    alone, both = run(tmp_path / "a", 2), run(tmp_path / "b", 2, logs=[RECORDED])
    more = [b["samples"] - a["samples"] for a, b in zip(learned(alone), learned(both), strict=True)]
    assert more[0] > 100
    only = run(tmp_path / "c", 2, logs=[RECORDED], games=0)
    assert [row["samples"] for row in learned(only)] == [more[0]] * 2
    assert files_in(only / "games") == []


@pytest.mark.slow
def test_targets_come_from_the_network_as_it_is_before_it_learns(tmp_path: Path) -> None:
    """Targets of all games, also of earlier ones."""
    targets: list[Any] = []
    original = rank_learner.RankLearner.fit

    def watched(learner: Any, of: Any, *rest: Any) -> float:
        targets.append(of.targets)
        return original(learner, of, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_learner.RankLearner, "fit", watched)
        out = run(tmp_path, 2, logs=[RECORDED], lam=0.5, learner={"batch": 32, "rate": 0.05})
    recorded = samples_of(read_log(RECORDED))
    for generation in range(2):
        net = load(out / "pool" / f"0000{generation}.safetensors")
        expected = bootstrap(net, recorded, 0.5).targets
        np.testing.assert_allclose(targets[generation][: len(expected)], expected, atol=1e-6)
    assert not np.allclose(targets[0][: len(expected)], expected, atol=1e-3)


@pytest.mark.parametrize(
    "settings", [{"network": {"name": "FCNN", "hidden": 0}}, {"learner": {"foo": 1}}]
)
def test_wrong_settings_are_rejected_in_python(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"hidden|foo"):
        from_dict(settings, RankRun).new_network()


def test_teachers_of_a_table_have_their_own_seeds_and_the_temperature() -> None:
    seeds: list[int] = []
    temperatures: list[float] = []

    def spy_find_player(name: str, seed: int) -> Any:
        seeds.append(seed)
        return find_player(name, seed)

    def new_policy(temperature: float, seed: int) -> Any:
        seeds.append(seed)
        temperatures.append(temperature)
        return PolicyAgent(temperature=temperature, seed=seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_training, "find_player", spy_find_player)
        patch.setattr(rank_training, "PolicyAgent", new_policy)
        run = RankRun(teacher=["random", "policy"], temperature=0.7, games=3, table=1)
        generate(run, [], [1, 1], ALONE, "cpu")
    assert len(seeds) == len(set(seeds)) == 15
    assert 0 < len(temperatures) < 15 and set(temperatures) == {0.7}


def test_generate_reports_the_games_of_each_table(tmp_path: Path) -> None:
    chunks: list[int] = []
    generate(
        from_dict({**TINY, "teacher": ["sample"]}, RankRun), [], [1, 1], ALONE, "cpu", chunks.append
    )
    assert chunks == [4, 4, 2]


def test_bars_show_games_and_iterations_of_each_generation(tmp_path: Path) -> None:
    shown: list[tuple[str, int]] = []

    class Bar(tqdm.tqdm):  # type: ignore[type-arg]
        """A bar that records its updates."""

        def update(self, n: float | None = 1) -> bool | None:
            if self.unit != " generations":
                shown.append((self.unit.strip(), int(n or 0)))
            return bool(super().update(n))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tqdm, "tqdm", Bar)
        run(tmp_path, 2)
    games = [("games", 4), ("games", 4), ("games", 2)]
    assert shown == [*games, *[("iterations", 1)] * 3] * 2


def test_a_run_can_begin_with_a_network(tmp_path: Path) -> None:
    torch.manual_seed(9)
    net = rank_net.network("FCNN", hidden=4)
    nets.save(net, tmp_path / "start.safetensors")
    out = run(tmp_path, 1, start=str(tmp_path / "start.safetensors"))
    first_weights = load(out / "pool" / "00000.safetensors").state_dict()
    assert all(
        torch.equal(first_weights[name], weights) for name, weights in net.state_dict().items()
    )


@pytest.mark.parametrize(
    "network", [{"name": "FCNN", "hidden": 5}, {"name": "BaseCNN", "channels": 4}]
)
def test_a_start_file_with_another_network_is_rejected(
    network: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = tmp_path / "start.safetensors"
    nets.save(rank_net.network("FCNN", hidden=4), start)
    error = rejected(capsys, tmp_path, start=str(start), network=network)
    assert "start.safetensors has FCNN,hidden=4, not" in error
    assert not (tmp_path / "run").exists()


def test_points_against_sample_clients_are_by_100_games() -> None:
    """Five sample clients have 300 on the average; the error is that of the mean of matches."""
    points, error = points_against_sample("sample", 4_000, 1, RankRun())
    assert 2 < error < 30
    assert abs(points - 300) < 4 * error
    assert np.isnan(points_against_sample("sample", 50, 1, RankRun())[1])


def test_points_have_names() -> None:
    assert place_values(RankRun().points) == POINTS
    assert place_values("classes") == CLASS_VALUES
    assert place_values([1, 2, 3, 4, 5]) == (1, 2, 3, 4, 5)

"""Tests of the results of stable-baselines3: tables, curves and published players."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")
pytest.importorskip("yaml")

from afterstate.agents.daihinmin.values import actor_net
from afterstate.agents.game2048.values import policy_net
from benchmarks.pretrained import sb3 as sb3_baselines

pytestmark = pytest.mark.usefixtures("one_thread")

ENV, DAIHINMIN = "Game2048-v0", "Daihinmin-v0"


def write_run(folder: Path, env: str, means: list[float], end: bool, **more: Any) -> None:
    """Write a run with evaluations of these means."""
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps({"env": env, **more}))
    rows: list[dict[str, Any]] = [
        {"moves": 1000 * i, "mean": mean, "interval": 10.5, "games": 50, "end": False}
        | {"seconds": 1800.0 * i}
        for i, mean in enumerate(means, 1)
    ]
    rows[-1]["end"] = end
    rows[0]["interval"] = None
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.slow
def test_curves_and_tables_have_the_evaluations_and_other_players(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sb3_baselines, "N_CYCLES", 2)
    monkeypatch.setattr(sb3_baselines, "N_POINTS", 3)
    for env, game in sb3_baselines.GAMES.items():
        changed = game._replace(earlier=(1_010, 2_000))
        monkeypatch.setitem(sb3_baselines.GAMES, env, changed)
    runs, out = tmp_path / "runs", tmp_path / "out"
    write_run(runs / "ppo", ENV, [200, 7_000], True)
    write_run(runs / "dqn", ENV, [60, 100, 150], False)
    write_run(runs / "smoke-ppo", ENV, [9e9, 9e9], True)
    for name in ("self", "sample"):
        write_run(runs / name, DAIHINMIN, [150.5, 250.25], True, against=["sample"] * 4)
    sb3_baselines.main(["--runs", str(runs), str(tmp_path / "none"), "--out", str(out)])
    rows = [json.loads(line) for line in (out / "2048.jsonl").read_text().splitlines()]
    ppo = [row for row in rows if row["player"] == "ppo"]
    assert [(row["moves"], row["mean"]) for row in ppo] == [(1000, 200), (2000, 7000)]
    table = [row for row in rows if row["player"] == sb3_baselines.TABLE]
    assert len(table) == 3
    assert table[-1]["moves"] >= 3000
    assert {row["player"] for row in rows} == {"ppo", "dqn", sb3_baselines.TABLE}
    text = (out / "README.md").read_text()
    assert "| player | moves | hours | after 1,010 moves | after 2,000 moves | mean score |" in text
    assert "| ppo | 2,000 | 1 | 200 |  | 7,000 ± 10 | 50 |" in text
    assert "| dqn | 3,000 so far | 1.5 | 60 | 100 ± 10 | 150 ± 10 | 50 |" in text
    for name in ("self", "sample"):  # and the sample client itself is another player
        taught = f"maskable-ppo, taught by {name}"
        assert f"| {taught} against sample | 2,000 | 1 | 150.5 |  | 250.2 ± 10.5 | 50 |" in text
    assert "| sample against sample |  |  |  |  | " in text
    assert "| heuristic against sample |  |  |  |  | " in text
    rows = [json.loads(line) for line in (out / "daihinmin.jsonl").read_text().splitlines()]
    points = {row["player"]: row["mean"] for row in rows}
    assert points["heuristic"] > 350
    assert 250 < points["sample"] < 350
    assert (out / "2048.svg").exists()
    assert (out / "daihinmin.svg").exists()
    with pytest.raises(ValueError, match="no evaluations in"):
        sb3_baselines.main(["--runs", str(out), "--out", str(tmp_path / "empty")])
    for name in ("self", "sample"):
        shutil.rmtree(runs / name)
    sb3_baselines.main(["--runs", str(runs), "--out", str(out)])
    again = (out / "README.md").read_text()
    assert again.partition("## Daihinmin")[2] == text.partition("## Daihinmin")[2] != ""
    assert [json.loads(line) for line in (out / "daihinmin.jsonl").read_text().splitlines()] == rows


def test_players_of_finished_runs_are_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, runs = tmp_path / "package", tmp_path / "runs"
    package.mkdir()
    monkeypatch.setitem(policy_net.BASELINES, "ppo", package / "ppo")
    monkeypatch.setitem(policy_net.BASELINES, "dqn", package / "dqn")
    monkeypatch.setattr(actor_net, "PRETRAINED", package / "actor")
    for name, env, mean, end in (
        ("ppo", ENV, 900.0, True),
        ("smoke-ppo", ENV, 999.0, True),
        ("dqn", ENV, 500.0, False),
        ("self", DAIHINMIN, 300.0, True),
        ("sample", DAIHINMIN, 250.0, True),
    ):
        algorithm = {"ppo": "ppo", "dqn": "dqn"}.get(name, "maskable-ppo")
        write_run(runs / name, env, [mean, mean], end, algorithm=algorithm)
        (runs / name / "actor.safetensors").write_text(name)
    sb3_baselines.publish([runs])
    written = {path.name: path.read_text() for path in package.iterdir()}
    assert written == {"ppo": "ppo", "actor": "self"}


def test_incomparable_or_incomplete_runs_are_rejected(tmp_path: Path) -> None:
    met = {"sample": ["sample"] * 4, "self": ["heuristic"] * 4}
    for name, against in met.items():
        write_run(tmp_path / name, DAIHINMIN, [150.5], True, against=against)
    with pytest.raises(ValueError, match="cannot be compared"):
        sb3_baselines.publish([tmp_path])
    rows = tmp_path / "self" / "rows.jsonl"
    rows.write_text(rows.read_text() + '{"moves": 2000, "me')  # a run that is writing
    assert [row["moves"] for row in sb3_baselines.read([tmp_path])[DAIHINMIN]] == [1000, 1000]
    (tmp_path / "self" / "settings.json").unlink()
    with pytest.raises(ValueError, match=r"settings\.json"):
        sb3_baselines.read([tmp_path])

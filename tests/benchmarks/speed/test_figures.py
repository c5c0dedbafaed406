"""A run of the speed benchmarks of both games, with little of everything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.speed import daihinmin, game2048, timing
from benchmarks.speed.__main__ import main

pytestmark = pytest.mark.exhaustive  # most of the time compiles networks


def test_all_figures_are_measured_and_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(game2048, "PLAYING_MOVES", 10_000)
    monkeypatch.setattr(game2048, "N_COMPARED", 50)
    monkeypatch.setattr(game2048, "GAMES_COMPARED", 1)
    monkeypatch.setattr(daihinmin, "SOCKET_GAMES", 3)
    monkeypatch.setattr(timing, "ROUND_SECONDS", 0.05)
    first = (game2048.MAKE_PLAYER.format("random"), game2048.FIRST_MOVE)  # others compile for long
    monkeypatch.setattr(game2048, "FIRSTS", {"move of random": first})
    main(["--rounds", "1", "--out", str(tmp_path)])
    for game, n_figures in (("2048", 20), ("daihinmin", 5)):
        figures = json.loads((tmp_path / f"throughput_{game}.json").read_text())["figures"]
        assert len(figures) >= n_figures
        assert all(0 < figure["median"] < 1e9 for figure in figures)
        lines = (tmp_path / f"throughput_{game}.txt").read_text().splitlines()
        assert all(any(figure["name"] in line for line in lines) for figure in figures)

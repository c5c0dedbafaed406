"""Files of networks: what is saved is loaded, also from the order of entries of older versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate.agents import files
from afterstate.agents.game2048.learning.pruning import save_pruned
from afterstate.agents.game2048.values.ntuple import estimate, network
from afterstate.agents.game2048.values.ntuple_file import load, save
from tests.support.game2048.learning_checks import memory
from tests.support.game2048.tuple_networks import (
    by_nibbles,
    by_options,
    drawn_boards,
    filled,
    words,
)


@by_options
def test_a_file_of_an_older_version_has_entries_in_the_order_of_nibbles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    net = filled(**options)
    save(net, tmp_path / "network.npz")
    header, arrays = files.read(tmp_path / "network.npz")
    monkeypatch.setattr(files, "VERSION", 1)
    older = {"weights": arrays["weights"][by_nibbles(net)]}
    files.write(tmp_path / "older.npz", "ntuple", header, older)
    assert (memory(load(tmp_path / "older.npz")) == memory(net)).all()


@pytest.mark.parametrize("stages", [(), (8, 16)])
def test_a_pruned_file_of_an_older_version_has_entries_in_the_order_of_nibbles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stages: tuple[int, ...]
) -> None:
    net = network([[0, 1, 4], [5], [2, 3]], stages=stages)
    kept = np.sort(np.random.default_rng(1).choice(net.weights.size, 500, replace=False))
    older = net._replace(weights=np.zeros_like(net.weights))
    older.weights[kept] = 1 + np.arange(500)
    save_pruned(older, tmp_path / "pruned.npz", kept, step=1.0)
    header, arrays = files.read(tmp_path / "pruned.npz")
    monkeypatch.setattr(files, "VERSION", 1)
    files.write(tmp_path / "older.npz", "ntuple", header, arrays)
    net.weights[by_nibbles(net)] = older.weights
    assert (load(tmp_path / "older.npz").weights == net.weights).all()


@by_options
@pytest.mark.parametrize("size", [(4, 4), (2, 3)])
def test_save_and_load_give_the_same_network(
    tmp_path: Path, size: tuple[int, int], options: dict[str, Any]
) -> None:
    net = filled(size=size, **options)
    save(net, tmp_path / "network.npz")
    loaded = load(tmp_path / "network.npz")
    assert loaded.weights.dtype == net.weights.dtype
    assert memory(loaded).dtype == memory(net).dtype
    assert (memory(loaded) == memory(net)).all()
    assert np.shares_memory(loaded.weights, memory(loaded))
    for name in ("tuples", "stage_tiles", "stage_size", "n_entries"):
        assert getattr(loaded, name) == getattr(net, name)
    for name in ("size", "symmetric", "promote", "downgrade"):
        assert getattr(loaded, name) == getattr(net, name)
        assert type(getattr(loaded, name)) is type(getattr(net, name))
    boards = words(drawn_boards(100, size))
    assert estimate(loaded, boards).tolist() == estimate(net, boards).tolist()

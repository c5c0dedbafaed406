"""Files of networks: what is saved is loaded, also from the order of entries of older versions."""

from __future__ import annotations

import lzma
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate import agents
from afterstate.agents import files
from afterstate.agents.game2048.learning.pruning import save_pruned
from afterstate.agents.game2048.values.ntuple import estimate
from afterstate.agents.game2048.values.ntuple_file import load, save
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.agents.game2048.values.pruned import expand
from tests.support.game2048.learning_checks import memory
from tests.support.game2048.tuple_networks import (
    by_nibbles,
    by_options,
    drawn_boards,
    filled,
    words,
)
from tests.support.memory import at_most


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
    gaps, levels = (np.frombuffer(lzma.decompress(arrays[name].tobytes()), "u1") for name in arrays)
    lists = {"gaps": gaps, "levels": np.stack([levels[::2], levels[1::2]])}
    header["pruned"] = {"step": 1.0}
    monkeypatch.setattr(files, "VERSION", 1)
    files.write(tmp_path / "older.npz", "ntuple", header, lists)
    net.weights[by_nibbles(net)] = older.weights
    assert (expand(load(tmp_path / "older.npz")).weights == net.weights).all()


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


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    net = filled()
    net.weights[100] = value
    save(net, tmp_path / "network.npz")
    for read in (load, agents.load):
        with pytest.raises(ValueError, match=r"network\.npz is damaged: .* NaN or infinite"):
            read(tmp_path / "network.npz")


@pytest.mark.parametrize("step", [math.nan, math.inf, -1.0, 0, 1e300, "1.0", True, 10**400])
def test_a_pruned_file_with_an_impossible_step_is_refused(tmp_path: Path, step: Any) -> None:
    net = network([[0, 1], [5]])
    net.weights[:] = 1
    save_pruned(net, tmp_path / "pruned.npz", np.arange(0, 200, 7))
    header, arrays = files.read(tmp_path / "pruned.npz")
    files.write(tmp_path / "pruned.npz", "ntuple", header, arrays)
    load(tmp_path / "pruned.npz")
    header["pruned"]["step"] = step
    files.write(tmp_path / "pruned.npz", "ntuple", header, arrays)
    with pytest.raises(ValueError, match=r"pruned\.npz"):
        load(tmp_path / "pruned.npz")


@pytest.mark.parametrize("value", [None, 5, 1.5, "a", [1]])
def test_a_pruned_file_whose_header_has_no_steps_is_refused(tmp_path: Path, value: Any) -> None:
    net = network([[0, 1], [5]])
    net.weights[:] = 1
    save_pruned(net, tmp_path / "pruned.npz", np.arange(0, 200, 7))
    header, arrays = files.read(tmp_path / "pruned.npz")
    header["pruned"] = value
    files.write(tmp_path / "pruned.npz", "ntuple", header, arrays)
    for read in (load, agents.load):
        with pytest.raises(ValueError, match=r"pruned\.npz is damaged: .*pruned = "):
            read(tmp_path / "pruned.npz")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gaps", lambda packed: packed[:-1]),
        ("gaps", lambda packed: packed[:20]),
        ("gaps", lambda packed: packed[:0]),
        ("levels", lambda packed: packed ^ 1),
        ("levels", lambda packed: np.frombuffer(lzma.compress(bytes(60)), np.uint8)),
        ("levels", lambda packed: np.frombuffer(lzma.compress(bytes(10**8)), np.uint8)),
        ("levels", lambda packed: packed.astype(np.int32)),
        ("gaps", lambda packed: packed.reshape(1, -1)),
        ("gaps", lambda packed: np.append(packed, packed)),
        ("levels", lambda packed: np.append(packed, np.uint8(0))),
        ("weights", lambda _: np.full(272, np.nan)),
    ],
)
def test_a_pruned_file_with_damaged_or_further_lists_is_refused(
    tmp_path: Path, name: str, change: Callable[[Any], Any]
) -> None:
    net = network([[0, 1], [5]])
    net.weights[:] = 9
    save_pruned(net, tmp_path / "pruned.npz", np.arange(0, 200, 7))
    header, arrays = files.read(tmp_path / "pruned.npz")
    changed = {name: change(arrays.get(name))}
    files.write(tmp_path / "pruned.npz", "ntuple", header, arrays | changed)
    with at_most(1 << 24), pytest.raises(ValueError, match=r"pruned\.npz is damaged"):
        load(tmp_path / "pruned.npz")


@pytest.mark.parametrize("n_gaps", [28, 30, 0, -1, 10**9, 10**30, "29", 29.0, True, [29]])
def test_a_pruned_file_with_another_number_of_gaps_is_refused(tmp_path: Path, n_gaps: Any) -> None:
    net = network([[0, 1], [5]])
    net.weights[:] = 9
    save_pruned(net, tmp_path / "pruned.npz", np.arange(0, 200, 7))
    header, arrays = files.read(tmp_path / "pruned.npz")
    assert header["pruned"] == {"step": 8.0, "gaps": 29}
    header["pruned"]["gaps"] = n_gaps
    files.write(tmp_path / "pruned.npz", "ntuple", header, arrays)
    with at_most(1 << 24), pytest.raises(ValueError, match=r"pruned\.npz is damaged"):
        load(tmp_path / "pruned.npz")


@pytest.mark.slow
def test_a_small_pruned_file_takes_no_gigabytes(tmp_path: Path) -> None:
    """Lists of equal numbers are compressed to some kilobytes, and these once more."""
    n = 16**6
    packed = (lzma.compress(bytes(n)), lzma.compress(bytes([1, 0]) * n))
    lists = dict(
        zip(("gaps", "levels"), (np.frombuffer(each, "u1") for each in packed), strict=True)
    )
    header = {"tuples": [list(range(6))], "size": [4, 4], "pruned": {"step": 1.0, "gaps": n}}
    files.write(tmp_path / "pruned.npz", "ntuple", header, lists, level=9)
    assert (tmp_path / "pruned.npz").stat().st_size < 10_000
    with (
        at_most(1 << 24),
        pytest.raises(ValueError, match=r"pruned\.npz is damaged: it cannot have"),
    ):
        load(tmp_path / "pruned.npz")


@pytest.mark.parametrize(
    "changes",
    [
        {"tuples": [[0.0, 1.0], [5]]},
        {"tuples": [[False, True], [5]]},
        {"tuples": [[0]] * 65},
        {"tuples": [list(range(7))] * 1_000},
        {"tuples": "+".join(["8x6"] * 1_000)},
        {"tuples": [list(range(7))] * 9, "stages": [8, 16, 32, 64, 128]},
        {"tuples": [[10**400]]},
        {"tuples": {"0": 1}},
        {"size": [10**400, 4]},
        {"size": 4},
        {"size": ["4", None]},
        {"downgrade": 1e999},
    ],
)
@pytest.mark.parametrize("pruned", [False, True])
def test_a_network_larger_than_its_file_is_refused_before_allocation(
    tmp_path: Path, pruned: bool, changes: dict[str, Any]
) -> None:
    net = network([[0, 1], [5]])
    if pruned:
        save_pruned(net, tmp_path / "network.npz", np.arange(5))
    else:
        save(net, tmp_path / "network.npz")
    header, arrays = files.read(tmp_path / "network.npz")
    files.write(tmp_path / "network.npz", "ntuple", header | changes, arrays)
    with at_most(1 << 22), pytest.raises(ValueError, match=r"network\.npz is damaged"):
        load(tmp_path / "network.npz")

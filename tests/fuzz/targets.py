"""Targets of fuzzing: readers with their files and the facts of results, and the protocol."""

from __future__ import annotations

import gzip
import json
import random
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import mse_loss

from afterstate import agents
from afterstate.agents import config, files, nets
from afterstate.agents.daihinmin.learning import game_records
from afterstate.agents.daihinmin.learning.policy_gradient import choices_in
from afterstate.agents.daihinmin.learning.policy_learner import new_ascent
from afterstate.agents.daihinmin.learning.policy_settings import DaihinminPolicyRun, PolicyOptions
from afterstate.agents.daihinmin.rule_based.players import RandomAgent
from afterstate.agents.daihinmin.values import actor_net, rank_net, softmax_policy
from afterstate.agents.daihinmin.values.history import decisions
from afterstate.agents.game2048.learning import play_logs, pruning
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.learning.run_settings import NTupleSettings
from afterstate.agents.game2048.learning.table_model import TableModel
from afterstate.agents.game2048.values import ntuple_file, policy_net, value_net
from afterstate.agents.game2048.values.ntuple_network import Network, network
from afterstate.agents.training.fitter import Fitter
from afterstate.agents.training.folder import RunFolder
from afterstate.agents.training.learners import LEARNERS, run_settings
from afterstate.envs import json_files
from afterstate.envs.daihinmin.records import replay
from afterstate.envs.game2048.rules import afterstates, table
from afterstate.leaderboard import games as leaderboard
from afterstate.leaderboard import gzip_rows
from afterstate.leaderboard import rows as leaderboard_rows
from afterstate.web import choices, game_2048, game_daihinmin
from afterstate.web.settings import Limits
from afterstate.web.visitors import Games, Visitors
from tests.fuzz import protocol
from tests.fuzz.driver import Target
from tests.fuzz.mutations import GZIP, SAFETENSORS, ZIP

DATA = Path(__file__).parents[1] / "data"
BOARDS = np.array([0x1, 0x1234_0021_0000_1111, 0x1234_5678_9ABC_DEF0], np.uint64)
TUPLES = [[0, 1], [4, 5], [10]]
RANDOM = leaderboard.Entry("2048", "random", "random", {}, 6, 3)
STATE = play_logs.Sampling(("random", "reward"))


def _assert_legal(player: Any) -> None:
    """Assert that a player of 2048 makes legal moves."""
    boards = BOARDS if player.size == (4, 4) else BOARDS[:1]
    for board, action in zip(boards, player.act(boards), strict=True):
        after, _ = afterstates(board, table(*player.size))
        assert 0 <= action < 4 and after[action] != board, (hex(board), action)


def _written(folder: Path, write: Callable[[Path], Any], name: str = "sample") -> bytes:
    """Return the bytes that a function writes to a file."""
    write(folder / name)
    return (folder / name).read_bytes()


# N-tuple networks


def _filled(**options: Any) -> Network:
    """Return a small network with random weights."""
    net = network(TUPLES, **options)
    drawn = np.random.default_rng(1).normal(0, 50, net.weights.size)
    if net.fixed.size:
        net.fixed[:] = drawn
    else:
        net.weights[:] = drawn
    return net


def _networks(folder: Path) -> list[bytes]:
    nets = [_filled(), _filled(stages=[64], promote=True, fixed_point=True)]
    saved = [_written(folder, partial(ntuple_file.save, net)) for net in nets]
    staged = _filled(stages=[64, 256], promote=True)
    for net in (nets[0], staged):
        kept = np.arange(0, net.weights.size, 3)
        saved.append(_written(folder, partial(pruning.save_pruned, net, selected=kept)))
    even = network([range(5)])
    even.weights[:] = 8  # a million weights in some hundred bytes
    kept = np.arange(even.weights.size)
    return [*saved, _written(folder, partial(pruning.save_pruned, even, selected=kept))]


def _read_network(path: Path) -> None:
    player = agents.load(path)
    assert np.isfinite(player.network.values).all()
    _assert_legal(player)


def _tables(_: Path) -> list[bytes]:
    tables = b""
    for cells, sums in (("01", True), ("5", False), ("a2", True)):
        weights = np.random.default_rng(1).random(16 ** len(cells), np.float32)
        tables += struct.pack("<BIIHQ", 4, int(cells, 16), len(cells), 4, len(weights))
        tables += weights.tobytes()
        if sums:
            tables += struct.pack("<HQ", 4, 2 * len(weights)) + 2 * weights.tobytes()
        tables += struct.pack("<H", 0)
    return [struct.pack("<BI", 0, 3) + tables]


def _learners(folder: Path) -> list[bytes]:
    carousel = NTupleLearner(_filled(stages=[64]), NTupleSettings(carousel=True), 1)
    searching = NTupleLearner(_filled(), NTupleSettings(search_share=1), 1)
    learners = [NTupleLearner(_filled(), NTupleSettings(rule="td"), 1), carousel, searching]
    for learner in learners:
        learner.learn(300)
    return [_written(folder, learner.save) for learner in learners]


def _read_learner(path: Path) -> None:
    learner = NTupleLearner.load(path)
    assert np.isfinite(learner.network.values).all()
    learner.threads = 1
    learner.learn(10)


def _models(folder: Path) -> list[bytes]:
    arrays: files.Arrays = {"games": np.zeros((2, 3), np.uint64)}
    return [_written(folder, lambda path: TableModel(_filled()).save(path, arrays, {"n_moves": 1}))]


def _read_model(path: Path) -> None:
    model = TableModel(network(TUPLES))
    model.load(path)
    assert np.isfinite(model.estimate(BOARDS)).all()


# Neural networks


def _actors(folder: Path) -> list[bytes]:
    net = policy_net.network("ActorCNN", channels=3, hidden=4)
    return [_written(folder, partial(nets.save, net, bits=bits, note="x")) for bits in (16, 32)]


def _read_actor(path: Path) -> None:
    player = agents.load(path)
    assert nets.all_finite(player.network.state_dict())
    _assert_legal(player)


def _value_nets(folder: Path) -> list[bytes]:
    net = value_net.network("CNN22")
    return [_written(folder, partial(nets.save, net, bits=16, value_scale=100.0))]


def _read_value_net(path: Path) -> None:
    player = agents.load(path)
    assert nets.all_finite(player.network.state_dict()) and player.value_scale > 0
    _assert_legal(player)


def _actor_nets(folder: Path) -> list[bytes]:
    net = actor_net.network("ActorMLP", hidden=2)
    return [_written(folder, partial(nets.save, net, bits=16))]


def _rank_nets(folder: Path) -> list[bytes]:
    net = rank_net.network("FCNN", hidden=2)
    save = partial(nets.save, net, points=[5, 4, 3, 2, 1], exchange="net")
    return [_written(folder, save)]


def _read_rank_net(path: Path) -> None:
    assert nets.all_finite(agents.load(path).network.state_dict())


def _new_fitter() -> Fitter:
    """Return a fitter of a tiny network that has made a step."""
    torch.manual_seed(1)
    fitter = Fitter(nn.Linear(3, 2), mse_loss, average=0.9)
    fitter.step(torch.ones(1, 3), torch.zeros(1, 2), 0.1)
    return fitter


def _checkpoints(folder: Path) -> list[bytes]:
    others = {"games": torch.arange(6)}
    return [_written(folder, lambda path: _new_fitter().save(path, others, n_moves=3))]


def _read_checkpoint(path: Path) -> None:
    fitter = _new_fitter()
    fitter.load(path)
    assert nets.all_finite(fitter.tensors())
    fitter.step(torch.ones(1, 3), torch.zeros(1, 2), 0.1)


# Daihinmin


def _policies(folder: Path) -> list[bytes]:
    policy = softmax_policy.new_policy()
    return [_written(folder, lambda path: softmax_policy.save(policy, path, note=[1]))]


def _read_policy(path: Path) -> None:
    assert np.isfinite(agents.load(path).policy.weights).all()


def _game_logs(folder: Path) -> list[bytes]:
    log = game_records.play_log([RandomAgent(seed) for seed in range(5)], 3, 1)
    return [_written(folder, lambda path: game_records.save_log(log, path))]


def _read_game_log(path: Path) -> None:
    log = game_records.load_log(path)
    decisions(log.games, log.last_random, True)
    choices_in(log.games, softmax_policy.new_workspace())


def _runs(folder: Path) -> list[bytes]:
    (folder / "run").mkdir(exist_ok=True)
    training = DaihinminPolicyRun().begin(
        PolicyOptions(out=folder), RunFolder(folder / "run", False, ())
    )
    training.ascent = new_ascent()._replace(n=3)
    training.save()
    return [(folder / "run" / "ascent.npz").read_bytes()]


def _read_run(path: Path) -> None:
    folder = RunFolder(path.parent, True, (path.name,))
    ascent = DaihinminPolicyRun().begin(PolicyOptions(out=path.parent), folder).ascent
    assert np.isfinite(ascent.weights).all()


def _recorded(_: Path) -> list[bytes]:
    names = ("default5", "chaos5", "legal_positions")
    packed = [(DATA / "daihinmin" / f"{name}.jsonl.gz").read_bytes() for name in names]
    return [b"".join(gzip.decompress(data).splitlines(keepends=True)[:3]) for data in packed]


def _read_recorded(path: Path) -> None:
    report = replay.replay(path)
    assert report.damaged <= replay.MAX_DAMAGED
    str(report)
    if not report.positions:
        game_records.read_log(path)


def _packed(_: Path) -> list[bytes]:
    return [gzip.compress(text) for text in _recorded(_)]


# Text


def _log() -> play_logs.Moves:
    """Return a log of equal moves."""
    log = np.zeros(50, play_logs.MOVE)
    log["board"], log["action"] = 0x1100, 3
    return log


def _play_logs(folder: Path) -> list[bytes]:
    return [_written(folder, lambda path: np.save(path, _log()), "log.npy")]


def _read_play_log(path: Path) -> None:
    log = play_logs.read(path)
    assert len(log) == (path.stat().st_size - 128) // 9
    log["board"].sum()


def _descriptions(_: Path) -> list[bytes]:
    about = {"players": ["random"], "moves": 50, "crc32": zlib.crc32(_log().data)}
    return [json.dumps(about).encode()]


def _read_description(path: Path) -> None:
    np.save(path.with_suffix(".npy"), _log())
    log = play_logs.read_whole(path.with_suffix(".npy"))
    assert (log == _log()).all()


def _states(folder: Path) -> list[bytes]:
    play_logs.Buckets(folder / "parts", STATE)
    return [(folder / "parts" / "state.json").read_bytes()]


def _read_state(path: Path) -> None:
    buckets = play_logs.Buckets(path.parent, STATE)
    assert buckets.n_moves >= 0 and len(buckets.games) == 2


def _settings(learner: str) -> Target:
    """Return the target of the settings of a learner's runs."""
    kind = run_settings(learner)

    def samples(_: Path) -> list[bytes]:
        return [json.dumps(asdict(kind())).encode(), b'{"seed": 5}']

    def read(path: Path) -> None:
        settings = config.read(path, kind)
        kept = json.dumps(asdict(settings), default=str)
        assert config.from_dict(json.loads(kept), kind) == settings

    return Target(f"{learner}-settings", "run.json", samples, read)


def _rows(_: Path) -> list[bytes]:
    texts = ("game", "name", "player", "env", "afterstate", "weights", "commit")
    row: dict[str, Any] = {**dict.fromkeys(texts, "2048"), "code": None, "settings": {}}
    row |= {"at_once": 3, "machine": {"cpu": "x"}, "cpu_seconds": 1.5}
    row |= {"score": 1234, "max_tile": 128, "moves": 99}
    lines = [json.dumps({**row, "seed": seed}).encode() + b"\n" for seed in range(6)]
    return [gzip.compress(b"".join(lines[:3])) + gzip.compress(b"".join(lines[3:]))]


def _read_rows(path: Path) -> None:
    for row in leaderboard_rows.read(path.parents[1], RANDOM):
        float(row["score"] + row["cpu_seconds"])
    gzip_rows.repair(path)
    leaderboard_rows.read(path.parents[1], RANDOM)


def _entries(_: Path) -> list[bytes]:
    entry = {"player": "expectimax", "settings": {"depth": 2}, "games": 100, "chunk": 10}
    cycles = {"player": "daihinmin-mc", "settings": {"playouts": 200}, "games": 100}
    return [json.dumps({"2048": {"mine": entry}, "daihinmin": {"its": cycles}}).encode()]


def _run_rows(_: Path) -> list[bytes]:
    rows = [{"n_moves": n, "seconds": 0.5, "1-ply": {"mean": 1.5}} for n in range(10)]
    return [b"".join(json.dumps(row).encode() + b"\n" for row in rows)]


def _read_run_rows(path: Path) -> None:
    json_files.rows(path)
    kept = json_files.truncate(path, "n_moves", 7)
    rows = RunFolder(path.parent, False, ()).rows()
    assert all(int(row["n_moves"]) <= 7 for row in rows)
    assert not rows or int(rows[-1]["n_moves"]) == kept


def _visitors(_: Path) -> list[bytes]:
    game, player = game_2048.new(1), choices.player_spec("daihinmin", "daihinmin-mc", {})
    game_2048.let_play(agents.make("reward"), game, 5)
    match = game_daihinmin.new([None, player, player, player, player], 1, 3)
    records = [Games(game_2048=game), Games(game_2048=game, match=match)]
    return [each.model_dump_json().encode() for each in records]


def _read_visitor(path: Path) -> None:
    visitors = Visitors(path.parent, Limits())
    for visitor in visitors:
        if visitor.games.game_2048:
            game_2048.state(visitor.game)
        if visitor.games.match:
            game_daihinmin.state(visitor.match, True)


def _attack(name: str, attack: Callable[[random.Random], None]) -> Target:
    """Return the target of an attack by the protocol; its file seeds the attack."""

    def make(path: Path) -> None:
        try:
            attack(random.Random(path.read_bytes()))
        except (OSError, ValueError) as error:
            raise AssertionError(f"the attack failed: {error!r}") from error

    return Target(name, "seed", lambda _: [bytes(range(64))], make)


_READERS: Sequence[Target] = [
    Target("ntuple", "net.npz", _networks, _read_network, ZIP),
    Target("tdl2048", "net.w", _tables, _read_network),
    Target("ntuple-learner", "learner.npz", _learners, _read_learner, ZIP),
    Target("search-learner", "learner.npz", _models, _read_model, ZIP),
    Target("policy-net", "net.safetensors", _actors, _read_actor, SAFETENSORS),
    Target("value-net", "net.safetensors", _value_nets, _read_value_net, SAFETENSORS),
    Target("actor-net", "net.safetensors", _actor_nets, _read_rank_net, SAFETENSORS),
    Target("rank-net", "net.safetensors", _rank_nets, _read_rank_net, SAFETENSORS),
    Target("checkpoint", "learner.safetensors", _checkpoints, _read_checkpoint, SAFETENSORS),
    Target("daihinmin-policy", "policy.npz", _policies, _read_policy, ZIP),
    Target("daihinmin-log", "log.npz", _game_logs, _read_game_log, ZIP),
    Target("daihinmin-ascent", "ascent.npz", _runs, _read_run, ZIP),
    Target("games", "games.jsonl", _recorded, _read_recorded),
    Target("packed-games", "games.jsonl.gz", _packed, _read_recorded, GZIP),
    Target("play-log", "log.npy", _play_logs, _read_play_log),
    Target("play-log-description", "log.json", _descriptions, _read_description),
    Target("play-log-state", "state.json", _states, _read_state),
    *map(_settings, LEARNERS),
    Target("rows", "2048/random.jsonl.gz", _rows, _read_rows, GZIP),
    Target("entries", "entries.json", _entries, leaderboard.entries),
    Target("run-rows", "rows.jsonl", _run_rows, _read_run_rows),
    Target("visitor", "visitor.json", _visitors, _read_visitor),
]
_ATTACKS: Sequence[Target] = [
    _attack("hostile-client", protocol.hostile_client),
    _attack("hostile-server", protocol.hostile_server),
    _attack("damaged-tables", protocol.damaged_tables),
]
TARGETS = {target.name: target for target in [*_READERS, *_ATTACKS]}
READERS = [target.name for target in _READERS]
ATTACKS = [target.name for target in _ATTACKS]

"""The examples of stable-baselines3: what they learn is what the package's players play."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")
pytest.importorskip("yaml")

import sb3_2048
import sb3_baselines
import sb3_daihinmin
import sb3_runs
import torch
from sb3_runs import ALGORITHMS, Run, copy_actor, linear, settings
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecMonitor

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.daihinmin import actor_net
from afterstate.agents.daihinmin.actor_net import ActorAgent
from afterstate.agents.game2048 import policy_net
from afterstate.agents.game2048.encoding import N_PLANES, planes
from afterstate.agents.game2048.policy_net import PolicyNetAgent
from afterstate.envs.daihinmin import plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.observation import CHANNELS, view_mask, view_planes
from afterstate.envs.daihinmin.rules import give, play
from afterstate.envs.daihinmin.views import view
from afterstate.envs.game2048 import torch_rules

pytestmark = pytest.mark.usefixtures("one_thread")


def small(algorithm: str) -> dict[str, Any]:
    """Settings that take no time."""
    told = settings(algorithm, "Game2048-v0") | {"n_envs": 4, "channels": 8, "hidden": 16}
    shorter = {"n_steps": 16, "batch_size": 32, "buffer_size": 500, "learning_starts": 50}
    return told | {name: value for name, value in shorter.items() if name in told}


def chosen(out: Path, **more: Any) -> argparse.Namespace:
    told = {"out": out, "steps": 256, "seed": 1, "threads": 1, "resume": False, "smoke": False}
    return argparse.Namespace(**{**told, "evaluate_every": 100, **more})


def run_of(algorithm: str, out: Path, **more: Any) -> Run:
    actor = partial(policy_net.network, "ActorCNN", channels=8, hidden=16)
    return Run(algorithm, small(algorithm), actor, N_PLANES, chosen(out, **more))


def trained(run: Run) -> tuple[Any, Any]:
    """The algorithm of a run, and its actor."""
    model = run.model(sb3_2048.games(4, 1, run.told))
    callbacks = run.callbacks(sb3_2048.games(2, 2, run.told), 2)
    return model, run.learn(model, callbacks)


# Settings


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_every_algorithm_has_settings(algorithm: str) -> None:
    told = settings(algorithm, "Game2048-v0")
    assert told["n_timesteps"] >= 1e6
    assert told["reward"] == "log"
    schedule = linear(told["learning_rate"])
    assert schedule(1.0) == 2 * schedule(0.5) > schedule(0.0) == 0
    assert linear(0.25) == 0.25


def test_unknown_settings_are_told(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no settings of dqn on Daihinmin-v0"):
        settings("dqn", "Daihinmin-v0")
    (tmp_path / "mine.yml").write_text("ppo: {Game2048-v0: {n_timesteps: 5}}")
    assert settings("ppo", "Game2048-v0", tmp_path / "mine.yml") == {"n_timesteps": 5}


def test_rewards_are_logarithms_and_monitors_see_scores() -> None:
    envs = sb3_2048.games(3, 5, {"reward": "log", "env_kwargs": {"max_episode_steps": 60}})
    plain = sb3_2048.games(3, 5, {"env_kwargs": {"max_episode_steps": 60}})
    assert isinstance(plain, VecMonitor)
    boards: list[Any] = [envs.reset(), plain.reset()]
    assert np.array_equal(*boards)
    rng, ended = np.random.default_rng(1), 0
    for _ in range(60):
        actions = rng.integers(4, size=3)
        _, rewards, dones, infos = envs.step(actions)
        _, scores, _, _ = plain.step(actions)
        assert rewards == pytest.approx(np.log2(1 + scores))
        for info, done in zip(infos, dones, strict=True):
            ended += done
            assert not done or info["episode"]["r"] > 50
    assert ended >= 3


# What is learned


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_a_run_leaves_a_player_that_is_what_was_learned(algorithm: str, tmp_path: Path) -> None:
    run = run_of(algorithm, tmp_path)
    model, actor = trained(run)
    assert model.num_timesteps >= 256
    boards = torch_rules.start((50,), torch.Generator().manual_seed(1))
    seen = torch.cat([planes(boards), torch.zeros(50, 2, 4, 4)], 1)
    with torch.no_grad():
        found = actor(planes(boards))
        if algorithm in ("ppo", "maskable-ppo"):
            expected = model.policy.get_distribution(seen).distribution.logits
            found = torch.log_softmax(found, 1)
        elif algorithm == "dqn":
            expected = model.q_net(seen)
        else:
            expected = model.policy.quantile_net(seen).mean(1)
    assert found.numpy() == pytest.approx(expected.numpy(), abs=1e-5)
    player: Any = agents.load(run.folder / "actor.safetensors")
    assert isinstance(player, PolicyNetAgent)
    words = boards.numpy().astype(np.uint64)
    same = player.act(words) == PolicyNetAgent(actor).act(words)
    assert same.mean() > 0.9  # weights of the file have 16 bits
    for name in ("evaluations.npz", "best_model.zip", "tensorboard"):
        assert (run.folder / name).exists()
    assert (np.load(run.folder / "evaluations.npz")["results"] > 0).any()


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    trained(run_of("maskable-ppo", tmp_path))
    with pytest.raises(SystemExit, match="has checkpoints: --resume"):
        trained(run_of("maskable-ppo", tmp_path))
    model, _ = trained(run_of("maskable-ppo", tmp_path, steps=512, resume=True))
    assert model.num_timesteps == 512
    steps = [sb3_runs._steps(path) for path in (tmp_path / "maskable-ppo").glob("checkpoints/*")]
    assert {256, 512} <= set(steps)
    with pytest.raises(SystemExit, match="has no checkpoint"):
        trained(run_of("ppo", tmp_path, resume=True))


def test_an_interrupted_run_leaves_a_checkpoint(tmp_path: Path) -> None:
    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps >= 100:
                raise KeyboardInterrupt
            return True

    run = run_of("ppo", tmp_path)
    model = run.model(sb3_2048.games(4, 1, run.told))
    with pytest.raises(SystemExit, match="--resume goes on"):
        run.learn(model, [Stop()])
    model, _ = trained(run_of("ppo", tmp_path, resume=True))
    assert model.num_timesteps >= 256


@pytest.mark.slow
def test_it_learns(tmp_path: Path) -> None:
    """Half a minute of MaskablePPO, against what the network plays before."""
    told = settings("maskable-ppo", "Game2048-v0") | {"n_envs": 32, "channels": 32, "hidden": 64}
    actor = partial(policy_net.network, "ActorCNN", channels=32, hidden=64)
    how = chosen(tmp_path, steps=80_000, evaluate_every=10**9)
    run = Run("maskable-ppo", told, actor, N_PLANES, how)
    model = run.model(sb3_2048.games(32, 1, told))
    from afterstate.agents.game2048.play import play as play_games

    before = play_games(PolicyNetAgent(copy_actor(model, actor())), 100).scores.mean()
    after = play_games(PolicyNetAgent(run.learn(model, [])), 100).scores.mean()
    assert after > 1.7 * before


# Daihinmin


def test_actors_play_what_is_legal_and_best() -> None:
    net: Any = actor_net.network("ActorMLP", hidden=8)
    player, drawn = ActorAgent(net), ActorAgent(net, temperature=1.0, seed=3)
    match, n_gifts = new_match(5), 0
    for _ in range(6):
        next_game(match)
        while (turn := int(match["turn"])) >= 0:
            seen, n = view(match, turn), int(match["to_give"])
            legal = view_mask(seen) == 1
            if n:
                gift, n_gifts = player.give(seen, n), n_gifts + 1
                assert gift.bit_count() == n
                assert gift & ~int(seen["hands"][turn]) == 0
                assert give(match, gift)
                continue
            with torch.no_grad():
                logits = net(torch.as_tensor(view_planes(seen)[None]).float())[0].numpy()
            chosen_play = player.choose(seen)
            assert legal[chosen_play]
            assert logits[chosen_play] == logits[legal].max()
            assert legal[drawn.choose(seen)]
            play(match, drawn.choose(seen))
    assert n_gifts == 2 * 5


def test_actions_are_drawn_by_their_probabilities() -> None:
    net: Any = actor_net.network("ActorMLP", hidden=8)
    match = new_match(1)
    next_game(match)
    seen = view(match, int(match["turn"]))
    legal = np.flatnonzero(view_mask(seen))
    with torch.no_grad():
        logits = net(torch.as_tensor(view_planes(seen)[None]).float())[0].double().numpy()
    odds = np.exp(logits[legal] / 0.5)
    odds /= odds.sum()
    player = ActorAgent(net, temperature=0.5, seed=1)
    found = np.bincount([player.choose(seen) for _ in range(4_000)], minlength=plays.N_PLAYS)
    assert found[legal] / 4_000 == pytest.approx(odds, abs=0.03)
    assert found.sum() == found[legal].sum()


def test_actors_are_made_by_name_and_of_files(tmp_path: Path) -> None:
    net, file = actor_net.network("ActorMLP", hidden=4), tmp_path / "actor.safetensors"
    nets.save(net, file)
    for made in (agents.load(file), agents.make("daihinmin-actor", net=net, temperature=0.5)):
        assert isinstance(made, ActorAgent)
    with pytest.raises(ValueError, match="temperature is from 0 on"):
        agents.make("daihinmin-actor", net=net, temperature=-1)


def test_opponents_that_play_as_we_do_are_renewed(tmp_path: Path) -> None:
    told = settings("maskable-ppo", "Daihinmin-v0") | {"n_envs": 2, "hidden": 8, "n_steps": 16}
    told["batch_size"] = 32
    actor = partial(actor_net.network, "ActorMLP", hidden=8)
    run = Run("maskable-ppo", told, actor, len(CHANNELS), chosen(tmp_path, steps=96))
    ourselves: Any = actor()
    opponents = [ActorAgent(ourselves, 1.0, 1), "heuristic", "sample", "random"]
    model = run.model(sb3_daihinmin.tables(2, opponents, 1, told))
    before = ourselves.head.weight.clone()
    last = run.learn(model, [sb3_daihinmin.Renewed(ourselves)])
    assert not torch.equal(ourselves.head.weight, before)
    assert torch.allclose(ourselves.head.weight, last.head.weight, atol=0.1)


# What was reached


def test_curves_are_those_of_the_evaluations_beside_the_table_player(tmp_path: Path) -> None:
    for name, scores in (("ppo", [[100, 300], [500, 900]]), ("dqn", [[50, 70]])):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        moves = 1000 * np.arange(1, len(scores) + 1)
        np.savez(folder / "evaluations.npz", timesteps=moves, results=np.array(scores, float))
    out = tmp_path / "out"
    sb3_baselines.main(["--runs", str(tmp_path / "runs"), "--out", str(out)])
    rows = [json.loads(line) for line in (out / "curves.jsonl").read_text().splitlines()]
    ppo = [row for row in rows if row["player"] == "ppo"]
    assert [(row["moves"], row["mean"]) for row in ppo] == [(1000, 200), (2000, 700)]
    assert ppo[0]["interval"] == pytest.approx(1.96 * 100, abs=0.1)
    table = [row for row in rows if row["player"] == sb3_baselines.TABLE]
    assert len(table) == sb3_baselines.N_POINTS
    assert table[-1]["moves"] >= 2000
    text = (out / "README.md").read_text()
    assert "| ppo | 2,000 | 700 ± 392 | 2 |" in text
    assert (out / "curves.svg").exists()
    with pytest.raises(SystemExit, match="has no evaluations"):
        sb3_baselines.main(["--runs", str(out)])


# The commands


def test_the_command_for_2048(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sb3_2048.main(["maskable-ppo", "--smoke", "--steps", "100", "--out", str(tmp_path)])
    assert "points in 10 games" in capsys.readouterr().out
    assert (tmp_path / "maskable-ppo" / "game.gif").read_bytes()[:3] == b"GIF"


def test_the_command_for_daihinmin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sb3_daihinmin.main(["--smoke", "--opponents", "self", "--out", str(tmp_path)])
    out = capsys.readouterr().out
    assert out.count("points a game") == 5
    assert (tmp_path / "maskable-ppo" / "game.gif").read_bytes()[:3] == b"GIF"

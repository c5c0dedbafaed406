"""The examples of stable-baselines3: what they learn is what the package's players play."""

from __future__ import annotations

import argparse
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")
pytest.importorskip("yaml")

import sb3_2048
import sb3_daihinmin
import torch
import yaml
from sb3_runs import (
    ALGORITHMS,
    N_CHECKPOINTS,
    Checkpoints,
    Evaluation,
    Run,
    copy_actor,
    linear,
    n_steps,
    parser,
    settings,
)
from stable_baselines3.common.callbacks import BaseCallback
from torch import nn

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.daihinmin.rule_based.players import HeuristicAgent
from afterstate.agents.daihinmin.values import actor_net
from afterstate.agents.daihinmin.values.actor_net import ActorAgent
from afterstate.agents.game2048.play import play as play_games
from afterstate.agents.game2048.values import policy_net
from afterstate.agents.game2048.values.planes import planes
from afterstate.agents.game2048.values.policy_net import PolicyNetAgent
from afterstate.agents.training.run import EVALUATION_SEED
from afterstate.envs.daihinmin import plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.observation import view_mask, view_planes
from afterstate.envs.daihinmin.rules import give, play
from afterstate.envs.daihinmin.views import view
from afterstate.envs.game2048 import torch_rules
from benchmarks.leaderboard import tournament

pytestmark = pytest.mark.usefixtures("one_thread")

ENV, DAIHINMIN = "Game2048-v0", "Daihinmin-v0"
SHORTER = {"n_envs": 4, "n_steps": 16, "batch_size": 32, "buffer_size": 500, "learning_starts": 50}


def small(algorithm: str, env: str = ENV) -> dict[str, Any]:
    """Settings that take no time."""
    told = settings(algorithm, env, needed=sb3_2048.NEEDED if env == ENV else ())
    sizes = {"channels": 8, "hidden": 16, "exploration_fraction": 0.5}
    return told | {name: n for name, n in {**SHORTER, **sizes}.items() if name in told}


def chosen(out: Path, *arguments: str, **more: Any) -> argparse.Namespace:
    """The command line, without what is the example's own."""
    told = vars(parser("", str(out)).parse_args(["--steps", "256", *arguments]))
    return argparse.Namespace(**{**told, "evaluate_every": 100, "checkpoint_every": 100, **more})


def film(player: Any, path: Path) -> None:
    """In place of an animation, which takes seconds."""
    assert hasattr(player, "net")
    path.touch()


def run_of(algorithm: str, out: Path, *arguments: str, **more: Any) -> Run:
    told = small(algorithm)
    game = sb3_2048.game(told, 1, (2, 4))._replace(film=film)
    return Run(algorithm, game, algorithm, told, chosen(out, *arguments, **more))


def envs_of(run: Run) -> Any:
    return sb3_2048.games(4, 1, run.told)


def trained(run: Run) -> Any:
    """The algorithm of a run that has come to its end."""
    model = run.model(envs_of(run))
    run.learn(model, [Checkpoints(run), Evaluation(run)])
    return model


def rows_of(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.folder / "rows.jsonl").read_text().splitlines()]


class At(BaseCallback):
    """Does something when a number of steps has been made."""

    def __init__(self, steps: int, what: Any) -> None:
        super().__init__()
        self.steps, self.what = steps, what

    def _on_step(self) -> bool:
        if self.num_timesteps >= self.steps:
            self.what()
        return True


def interrupt() -> None:
    raise KeyboardInterrupt


# Settings


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_every_algorithm_has_settings(algorithm: str) -> None:
    told = settings(algorithm, ENV, needed=sb3_2048.NEEDED)
    assert told["n_timesteps"] >= 1e6
    assert isinstance(told["n_timesteps"], int)
    assert told["reward"] == "log"
    assert 0 < told["reward_scale"] < 1
    assert told["policy"] == "MlpPolicy"
    schedule = linear(told["learning_rate"])
    assert schedule(1.0) == 2 * schedule(0.5) > schedule(0.0) == 0
    assert schedule(-0.01) == 0  # the last rollout may end behind the last step
    assert linear(0.25) == 0.25


WHOLE = {"policy": "MlpPolicy", "n_timesteps": 5, "n_envs": 2, "hidden": 4}


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (None, "No such file"),
        ("ppo: {Game2048-v0: [1", "mine.yml: .*expected"),
        ("", "has no settings of ppo on Game2048-v0"),
        ("ppo: 5", "has no settings of ppo on Game2048-v0"),
        ("dqn: {Game2048-v0: {}}", "has no settings of ppo on Game2048-v0"),
        (WHOLE, r"missing settings of ppo on Game2048-v0: \['reward'\]"),
        ({**WHOLE, "reward": 1, "lerning_rate": 1}, r"unknown settings .*: \['lerning_rate'\]"),
        ({**WHOLE, "reward": 1, "seed": 1}, r"unknown settings .*: \['seed'\]"),
        ({**WHOLE, "reward": 1, "n_envs": 0}, "n_envs of ppo on Game2048-v0: it is a number above"),
        ({**WHOLE, "reward": 1, "hidden": "big"}, "hidden of ppo .*: it is a number above 0"),
        ({**WHOLE, "reward": 1, "n_epochs": 0}, "n_epochs of ppo .*: it is a number above 0"),
        ({**WHOLE, "reward": 1, "n_steps": "lin_3"}, "n_steps of ppo .*: it is a number above 0"),
        (
            {**WHOLE, "reward": 1, "ent_coef": "big"},
            "ent_coef of ppo .*: it is a number, not 'big'",
        ),
        ({**WHOLE, "reward": 1, "gamma": "lin_0.9"}, "gamma of ppo .*: it is a number, not 'lin_0"),
        (
            {**WHOLE, "reward": 1, "clip_range": "lin_big"},
            "clip_range of ppo .*: it is a number, or lin_ before a number, not 'lin_big'",
        ),
    ],
)
def test_wrong_settings_are_told_in_a_line(told: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yml"
    if told is not None:
        text = told if isinstance(told, str) else yaml.safe_dump({"ppo": {ENV: told}})
        file.write_text(text)
    with pytest.raises(SystemExit, match=message) as raised:
        settings("ppo", ENV, file, ["reward"])
    assert "\n" not in str(raised.value)
    right = {**WHOLE, "reward": "log", "learning_rate": "lin_3e-4", "device": "cpu"}
    file.write_text(yaml.safe_dump({"ppo": {ENV: {**right, "ent_coef": "1e-2"}}}))
    assert settings("ppo", ENV, file, ["reward"]) == {**right, "ent_coef": 0.01}


@pytest.mark.parametrize(
    ("name", "told", "message"),
    [
        ("reward", "lgo", "reward is score or log, got 'lgo'"),
        ("reward_scale", 0, "reward_scale is above 0, got 0"),
        ("reward_scale", "big", "not supported between"),
        ("policy", "MlpPolice", "MlpPolice"),
        ("learning_rate", "fast", "fast"),
        ("batch_size", 1, "batch"),
        ("env_kwargs", {"max_steps": 5}, "max_steps"),
        ("device", "gpu9", "gpu9"),
        ("policy_kwargs", {"net_arch": [16]}, "without .*'net_arch'"),
        ("policy_kwargs", 5, "int"),
    ],
)
def test_what_cannot_be_made_of_settings_is_told_in_a_line(
    name: str, told: Any, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yml"
    file.write_text(yaml.safe_dump({"ppo": {ENV: {**small("ppo"), name: told}}}))
    with pytest.raises(SystemExit, match=f"ppo on Game2048-v0: .*{message}") as raised:
        sb3_2048.main(["ppo", "--settings", str(file), "--out", str(tmp_path)])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "wrong",
    [
        *("--threads 0", "--seed -1", "--seed 1.5", "--seed 4294967296"),
        *("--steps nan", "--steps 0", "--steps -5", "--steps 1.5", "--steps all"),
        *("--evaluate-every 0", "--checkpoint-every -1", "--smoke --resume"),
    ],
)
def test_wrong_options_are_told_in_a_line(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    for main, arguments in ((sb3_2048.main, ["ppo"]), (sb3_daihinmin.main, [])):
        with pytest.raises(SystemExit, match="2"):
            main([*arguments, *wrong.split()])
        last = capsys.readouterr().err.splitlines()[-1]
        assert "error: argument --" in last
        assert wrong.split()[0] in last


def test_rewards_are_logarithms_and_monitors_see_scores() -> None:
    how = {"env_kwargs": {"max_episode_steps": 60}}
    envs = sb3_2048.games(3, 5, {"reward": "log", "reward_scale": 0.5, **how})
    plain = sb3_2048.games(3, 5, {"reward": "score", "reward_scale": 1, **how})
    boards: list[Any] = [envs.reset(), plain.reset()]
    assert np.array_equal(*boards)
    rng, ended = np.random.default_rng(1), 0
    for _ in range(60):
        actions = rng.integers(4, size=3)
        _, rewards, dones, infos = envs.step(actions)
        _, scores, _, _ = plain.step(actions)
        assert rewards == pytest.approx(np.log2(1 + scores) / 2)
        for info, done in zip(infos, dones, strict=True):
            ended += done
            assert not done or info["episode"]["r"] > 50
    assert ended >= 3


# What is learned


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_a_run_leaves_a_player_that_is_what_was_learned(algorithm: str, tmp_path: Path) -> None:
    run = run_of(algorithm, tmp_path)
    model = trained(run)
    assert model.num_timesteps >= 256
    actor = run.player(model).net
    boards = torch_rules.start((50,), torch.Generator().manual_seed(1))
    seen = torch.cat([planes(boards), torch.zeros(50, 2, 4, 4)], 1)
    with torch.no_grad():
        logits = actor(planes(boards))
        if algorithm in ("ppo", "maskable-ppo"):
            expected = model.policy.get_distribution(seen).distribution.logits
            logits = torch.log_softmax(logits, 1)
        elif algorithm == "dqn":
            expected = model.q_net(seen)
        else:
            expected = model.policy.quantile_net(seen).mean(1)
    assert logits.numpy() == pytest.approx(expected.numpy(), abs=1e-5)
    player: Any = agents.load(run.folder / "actor.safetensors")
    assert isinstance(player, PolicyNetAgent)
    words = boards.numpy().astype(np.uint64)
    same = player.act(words) == PolicyNetAgent(actor).act(words)
    assert same.mean() > 0.9  # weights of the file have 16 bits
    last = rows_of(run)[-1]
    assert last["end"]
    assert last["moves"] == model.num_timesteps
    found = sb3_2048.evaluate(player, 4)
    assert found == {name: last[name] for name in found}


def test_evaluations_are_rows_and_the_best_is_kept(tmp_path: Path) -> None:
    run = run_of("dqn", tmp_path)
    trained(run)
    rows = rows_of(run)
    assert [row["moves"] // 100 for row in rows] == [1, 2, 2]
    assert [row["games"] for row in rows] == [2, 2, 4]
    assert [row["end"] for row in rows] == [False, False, True]
    assert 0 < rows[0]["seconds"] <= rows[1]["seconds"] <= rows[2]["seconds"]
    best = max(rows, key=lambda row: row["mean"])
    told = nets.metadata(run.folder / "best.safetensors")
    assert {name: told[name] for name in ("moves", "mean", "algorithm")} == {
        **{name: best[name] for name in ("moves", "mean")},
        "algorithm": "dqn",
    }


def test_evaluations_are_in_tensorboard_those_with_masks_too(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = run_of("maskable-ppo", tmp_path, steps=128)
    run.go(envs_of(run), lambda: sb3_2048.games(10, 2, run.told))
    told = events.EventAccumulator(run.log + "/MaskablePPO_1").Reload()
    assert [event.step for event in told.Scalars("eval/mean")] == [100, 128]
    assert told.Scalars("eval/mean")[-1].value == pytest.approx(rows_of(run)[-1]["mean"])
    assert [event.step for event in told.Scalars("eval/mean_reward")] == [100]
    assert told.Scalars("eval/mean_reward")[0].value > 50


def test_a_run_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of("maskable-ppo", tmp_path)
    trained(run)
    before, rows = rows_of(run), run.folder / "rows.jsonl"
    with pytest.raises(SystemExit, match="has checkpoints: --resume"):
        trained(run_of("maskable-ppo", tmp_path))
    lost = {**before[-1], "moves": 257, "mean": 1.0}
    rows.write_text(rows.read_text() + json.dumps(lost) + '\n{"moves": 2')
    nets.save(policy_net.network("ActorCNN"), run.folder / "best.safetensors", mean=1e9)
    more = run_of("maskable-ppo", tmp_path, "--resume", steps=512)
    model = trained(more)
    assert model.num_timesteps == 512
    assert "goes on from" in capsys.readouterr().out
    after = rows_of(more)
    assert after[: len(before)] == before
    assert [row["moves"] for row in after[len(before) :]] == [300, 400, 500, 512]
    assert after[-1]["seconds"] > before[-1]["seconds"]
    assert nets.metadata(run.folder / "best.safetensors")["mean"] == 1e9
    with pytest.raises(SystemExit, match="has no checkpoint"):
        trained(run_of("ppo", tmp_path, "--resume"))


def test_a_run_at_its_end_is_only_measured_again(tmp_path: Path) -> None:
    run = run_of("ppo", tmp_path)
    trained(run)
    before = rows_of(run)
    assert trained(run_of("ppo", tmp_path, "--resume")).num_timesteps == 256
    after = rows_of(run)
    assert [{**row, "seconds": 0} for row in after] == [{**row, "seconds": 0} for row in before]


def test_a_run_is_resumed_as_it_began_but_longer(tmp_path: Path) -> None:
    run = run_of("ppo", tmp_path)
    run.save(run.model(envs_of(run)))
    told = json.loads((run.folder / "settings.json").read_text())
    assert told == {"env": ENV, "algorithm": "ppo", "seed": 1, **small("ppo"), "n_timesteps": 256}
    with pytest.raises(SystemExit, match="it began with seed 1, not 2: choose another --out"):
        again = run_of("ppo", tmp_path, "--resume", "--seed", "2")
        again.model(envs_of(again))
    again = run_of("ppo", tmp_path, "--resume")
    again.about["gamma"] = 0.5
    with pytest.raises(SystemExit, match=r"cannot be resumed: it began with gamma 0.99, not 0.5"):
        again.model(envs_of(again))
    again.about = {**told, "n_timesteps": 10**9}
    again.model(envs_of(again))
    (run.folder / "settings.json").write_text("[]")
    with pytest.raises(SystemExit, match=r"cannot be resumed: settings.json is none of ours"):
        again.model(envs_of(again))
    (run.folder / "settings.json").unlink()
    with pytest.raises(SystemExit, match=r"cannot be resumed: .*settings.json"):
        again.model(envs_of(again))


@pytest.mark.parametrize("algorithm", ["dqn", "qrdqn"])
def test_what_was_played_is_learned_from_when_a_run_goes_on(algorithm: str, tmp_path: Path) -> None:
    run = run_of(algorithm, tmp_path, steps=64)
    model: Any = run.model(envs_of(run))
    run.learn(model, [])
    run.save(model)
    again: Any = run_of(algorithm, tmp_path, "--resume")
    resumed = again.model(envs_of(again))
    before, after = model.replay_buffer, resumed.replay_buffer
    assert after.pos == before.pos == 16
    for name in ("observations", "actions", "rewards", "dones"):
        assert np.array_equal(getattr(after, name), getattr(before, name))
    resumed.set_env(envs_of(again))
    again.learn(resumed, [])
    assert resumed.replay_buffer.pos == 64
    for n_bytes in (1000, 0):
        again.replay.write_bytes(again.replay.read_bytes()[:n_bytes])
        with pytest.raises(SystemExit, match=r"cannot be resumed: .*(truncated|input)"):
            again.model(envs_of(again))
    again.replay.unlink()
    with pytest.raises(SystemExit, match=r"cannot be resumed: .*replay.pkl"):
        again.model(envs_of(again))


def test_a_resumed_run_plays_other_games_than_at_its_beginning(tmp_path: Path) -> None:
    run = run_of("ppo", tmp_path, steps=64)
    model = run.model(envs_of(run))
    run.learn(model, [])
    run.save(model)
    again = run_of("ppo", tmp_path, "--resume")
    envs = envs_of(again)
    first = envs_of(again).reset()
    again.model(envs)
    assert not np.array_equal(envs.reset(), first)


@pytest.mark.parametrize(
    "what", [interrupt, lambda: os.kill(os.getpid(), signal.SIGTERM)], ids=["Ctrl-C", "SIGTERM"]
)
def test_an_interrupted_run_leaves_a_checkpoint(what: Any, tmp_path: Path) -> None:
    run = run_of("ppo", tmp_path)
    model = run.model(envs_of(run))
    with pytest.raises(SystemExit, match="--resume goes on"):
        run.learn(model, [At(100, what)])
    assert [n_steps(path) for path in run.checkpoints()] == [100]
    assert trained(run_of("ppo", tmp_path, "--resume")).num_timesteps >= 256


def test_the_last_checkpoints_are_kept_and_a_game_is_drawn_at_each(tmp_path: Path) -> None:
    run = run_of("ppo", tmp_path)
    run.checkpoint_every = 50
    trained(run)
    made = [52, 100, 152, 200, 252, 256]
    assert [n_steps(path) for path in run.checkpoints()] == made[-N_CHECKPOINTS:]
    videos = {path.name for path in (run.folder / "videos").iterdir()}
    assert videos == {f"{steps}_steps.gif" for steps in made}


@pytest.mark.parametrize("algorithm", ["dqn", "maskable-ppo"])
def test_smoke_learns_something_and_is_in_nobodys_way(algorithm: str, tmp_path: Path) -> None:
    for _ in range(2):
        run = run_of(algorithm, tmp_path, "--smoke", steps=None)
        assert run.folder == tmp_path / f"smoke-{algorithm}"
        assert not run.folder.exists()
        model: Any = trained(run)
        assert model.num_timesteps == run.n_steps == 256
        assert [row["end"] for row in rows_of(run)] == [False, True]
        assert len(run.checkpoints()) == 2
        learned = nn.utils.parameters_to_vector(model.policy.parameters())
        new = run_of(algorithm, tmp_path / "new").model(envs_of(run))
        assert not learned.allclose(nn.utils.parameters_to_vector(new.policy.parameters()))
    shorter = run_of(algorithm, tmp_path, "--smoke", steps=70)
    assert shorter.n_steps == (72 if algorithm == "dqn" else 128)  # whole rollouts
    assert run_of(algorithm, tmp_path).checkpoint() is None


@pytest.mark.slow
def test_it_learns(tmp_path: Path) -> None:
    """Half a minute of MaskablePPO, against what the network plays before."""
    told = {**small("maskable-ppo"), "n_envs": 32, "channels": 32, "hidden": 64}
    told |= {"n_steps": 64, "batch_size": 512}
    game = sb3_2048.game(told, 1)
    how = chosen(tmp_path, steps=80_000)
    run = Run("learns", game, "maskable-ppo", told, how)
    model = run.model(sb3_2048.games(32, 1, told))
    before = play_games(PolicyNetAgent(copy_actor(model, game.actor())), 100).scores.mean()
    run.learn(model, [])
    after = play_games(run.player(model), 100).scores.mean()
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
    assert nets.metadata(actor_net.PRETRAINED)["network"] == "ActorMLP"
    assert isinstance(agents.make("daihinmin-actor"), ActorAgent)
    with pytest.raises(ValueError, match="temperature is from 0 on"):
        agents.make("daihinmin-actor", net=net, temperature=-1)


def test_opponents_that_play_as_we_do_are_renewed(tmp_path: Path) -> None:
    told = {**small("maskable-ppo", DAIHINMIN), "n_envs": 2}
    game = sb3_daihinmin.game(told, 1, ["sample"] * 4)
    run = Run("self", game, "maskable-ppo", told, chosen(tmp_path, steps=96))
    ourselves: Any = game.actor()
    opponents = [ActorAgent(ourselves, 1.0, 1), "heuristic", "sample", "random"]
    model = run.model(sb3_daihinmin.tables(2, opponents, 1, told))
    before = ourselves.head.weight.clone()
    run.learn(model, [sb3_daihinmin.Renewed(ourselves)])
    last = run.player(model).net
    assert not torch.equal(ourselves.head.weight, before)
    assert torch.allclose(ourselves.head.weight, last.head.weight, atol=0.1)


def test_opponents_are_one_or_four_players() -> None:
    four = sb3_daihinmin.four
    assert four(["sample"], "--opponents") == ["sample"] * 4
    mixed = ["self", "self", "heuristic", "sample"]
    assert four(mixed, "--opponents", ["self"]) == mixed
    assert sb3_daihinmin.called(mixed) == "self-self-heuristic-sample"
    assert sb3_daihinmin.called(["sample"] * 4) == "sample"
    assert sb3_daihinmin.called(["runs/mine.safetensors"]) == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--opponents", "nobody"], "--opponents: there is no player 'nobody'"),
        (["--opponents", "none.npz"], "--opponents: .*none.npz"),
        (["--opponents", "sample", "self"], "--opponents: one name for all .* got 2"),
        (["--against", "nobody"], "--against: there is no player 'nobody'"),
        (["--against", "self"], "--against: evaluations need players that stay as they are"),
    ],
)
def test_wrong_opponents_are_told_in_a_line(arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match=message) as raised:
        sb3_daihinmin.main(arguments)
    assert "\n" not in str(raised.value)


def test_points_are_those_of_cycles_as_in_tournaments() -> None:
    alike, mixed = ["sample"] * 4, ["sample", "sample", "random", "random"]
    cycles = [
        tournament.Cycle(number, 0, EVALUATION_SEED + number, ["heuristic", *alike])
        for number in range(3)
    ]
    rows = [row for cycle in cycles for row in tournament.play_cycle(cycle)]
    told = {standing.name: standing for standing in tournament.standings(rows)}["heuristic"]
    found = sb3_daihinmin.evaluate(HeuristicAgent(), 300, alike)
    assert found["games"] == told.games == 300
    assert found["mean"] == pytest.approx(told.points, abs=0.05)
    assert found["interval"] == pytest.approx(told.interval, abs=0.05)
    once = sb3_daihinmin.evaluate(HeuristicAgent(), 100, mixed)
    assert once["interval"] is None
    assert once == sb3_daihinmin.evaluate(HeuristicAgent(), 100, mixed)


# The commands


def settings_file(folder: Path, algorithm: str, env: str) -> str:
    file = folder / "small.yml"
    file.write_text(yaml.safe_dump({algorithm: {env: small(algorithm, env)}}))
    return str(file)


def test_a_file_in_the_place_of_the_folder_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = run_of("ppo", tmp_path / "file")
    with pytest.raises(SystemExit, match=r"file/ppo: .*Not a directory"):
        run.model(envs_of(run))


def test_the_command_for_2048(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    how = ["--settings", settings_file(tmp_path, "qrdqn", ENV), "--out", str(tmp_path)]
    sb3_2048.main(["qrdqn", "--smoke", "--steps", "100", *how])
    out = capsys.readouterr().out
    assert out.count("points in 5 games") == 1
    assert out.count("points in 10 games") == 1
    folder = tmp_path / "smoke-qrdqn"
    assert out.endswith(f"written: {folder}\n")
    for video in (folder / "videos").iterdir():
        assert video.read_bytes()[:3] == b"GIF"


@pytest.mark.slow
def test_the_command_for_daihinmin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    how = ["--settings", settings_file(tmp_path, "maskable-ppo", DAIHINMIN), "--out", str(tmp_path)]
    four = ["self", "self", "heuristic", "sample"]
    sb3_daihinmin.main(["--smoke", "--opponents", *four, *how])
    out = capsys.readouterr().out
    assert out.count("points per 100 games in") == 2
    folder = tmp_path / "smoke-self-self-heuristic-sample"
    told = json.loads((folder / "settings.json").read_text())
    assert (told["opponents"], told["against"]) == (four, ["sample"] * 4)
    assert isinstance(agents.load(folder / "actor.safetensors"), ActorAgent)
    for video in (folder / "videos").iterdir():
        assert video.read_bytes()[:3] == b"GIF"

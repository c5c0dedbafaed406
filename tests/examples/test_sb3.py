"""Examples of stable-baselines3: runs of a tiny budget, resuming, exported actors, self-play."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import zlib
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")
pytest.importorskip("tyro")
pytest.importorskip("yaml")

import sb3_2048
import sb3_daihinmin
import sb3_training
import torch
import yaml
from stable_baselines3.common.callbacks import BaseCallback

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.daihinmin.values.actor_net import ActorAgent
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values import policy_net
from afterstate.agents.game2048.values.planes import planes
from afterstate.agents.game2048.values.policy_net import PolicyNetAgent
from afterstate.agents.training.sb3 import ActorFeatures, actor_from_sb3
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.game2048.sb3_vec_env import Game2048VecEnv

pytestmark = pytest.mark.usefixtures("one_thread")

ALGORITHMS = ["ppo", "maskable-ppo", "dqn", "qrdqn"]
ENV, DAIHINMIN = "Game2048-v0", "Daihinmin-v0"
TINY = {"n_envs": 4, "n_steps": 16, "batch_size": 32, "buffer_size": 500, "learning_starts": 50}
TINY |= {"channels": 8, "hidden": 16}


@pytest.fixture(autouse=True)
def no_animation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip animations, which take seconds."""
    monkeypatch.setattr(sb3_2048, "animate", lambda *_: None)
    monkeypatch.setattr(sb3_daihinmin, "watch", lambda *_: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)


def tiny(folder: Path, algorithm: str, env: str = ENV, **more: Any) -> Path:
    """Write settings of a run of seconds, and return their file."""
    settings = yaml.safe_load(sb3_training.SETTINGS.read_text())[algorithm][env]
    settings |= {name: value for name, value in TINY.items() if name in settings}
    file = folder / "tiny.yml"
    file.write_text(yaml.safe_dump({algorithm: {env: {**settings, **more}}}))
    return file


def run_2048(folder: Path, algorithm: str, steps: int = 256, **more: Any) -> Path:
    """Run the example of 2048, and return the run's folder."""
    file = more.pop("settings", None) or tiny(folder, algorithm)
    every = {"evaluate_every": 128, "checkpoint_every": 128}
    args = sb3_2048.Args(**{"settings": file, "out": folder, **every, **more})
    args.algorithm, args.steps = algorithm, steps  # type: ignore[assignment]
    sb3_2048.main(args)
    return folder / algorithm


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


@pytest.fixture(autouse=True)
def few_games(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate by few games."""
    evaluate = partial(sb3_2048.evaluate, n_games=2, n_last=4)
    monkeypatch.setattr(sb3_2048, "evaluate", lambda net, is_last, **_: evaluate(net, is_last))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_actor_plays_as_the_policy_does(algorithm: str, tmp_path: Path) -> None:
    folder = run_2048(tmp_path, algorithm)
    checkpoint = sb3_training.find_checkpoints(folder)[-1]
    policy = sb3_training.ALGORITHMS[algorithm].load(checkpoint).policy
    player: Any = agents.load(folder / "actor.safetensors")
    assert isinstance(player, PolicyNetAgent)
    boards = torch_rules.start((50,), torch.Generator().manual_seed(1))
    seen = torch.cat([planes(boards), torch.zeros(50, 2, 4, 4)], 1)
    actor: Any = policy_net.network("ActorCNN", channels=8, hidden=16)
    with torch.no_grad():
        logits = actor_from_sb3(policy, actor)(planes(boards))
        if "ppo" in algorithm:
            expected = policy.get_distribution(seen).distribution.logits
            logits = torch.log_softmax(logits, 1)
        else:
            net = policy.q_net if algorithm == "dqn" else policy.quantile_net
            expected = net(seen) if algorithm == "dqn" else net(seen).mean(1)
    assert logits.numpy() == pytest.approx(expected.numpy(), abs=1e-5)
    words = boards.numpy().astype(np.uint64)
    same = player.act(words) == PolicyNetAgent(actor).act(words)
    assert same.mean() > 0.9  # weights of the file have 16 bits
    rows = rows_of(folder)
    assert [row["moves"] for row in rows] == [128, 256]
    assert [row["games"] for row in rows] == [2, 4]
    assert [row["end"] for row in rows] == [False, True]
    assert (folder / "evaluations.npz").exists()
    assert list((folder / "tensorboard").rglob("events*"))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["maskable-ppo", "dqn"])
def test_resume_continues_from_the_checkpoint(
    algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_2048(tmp_path, algorithm)
    before = rows_of(folder)
    with pytest.raises(ValueError, match="resume"):
        run_2048(tmp_path, algorithm)
    with pytest.raises(ValueError, match="settings"):
        run_2048(tmp_path, algorithm, resume=True, seed=2)
    (folder / "checkpoints" / "model_999_steps.zip").write_bytes(b"PK")  # killed while writing
    run_2048(tmp_path, algorithm, steps=512, resume=True)
    assert "model_256_steps" in capsys.readouterr().out
    after = rows_of(folder)
    assert after[: len(before)] == before
    assert [row["moves"] for row in after[len(before) :]] == [384, 512]
    assert after[-1]["seconds"] > before[-1]["seconds"]
    model = sb3_training.ALGORITHMS[algorithm].load(sb3_training.find_checkpoints(folder)[-1])
    assert model.num_timesteps == 512
    if algorithm == "dqn":
        model.load_replay_buffer(folder / "checkpoints" / "model_replay_buffer_512_steps.pkl")
        assert model.replay_buffer.pos == 512 // 4 % 125


def test_interrupted_run_leaves_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(SystemExit, match="resume"):
        patch.setattr(sb3_training.Evaluation, "_on_step", interrupt)
        run_2048(tmp_path, "ppo")
    assert rows_of(run_2048(tmp_path, "ppo", resume=True))[-1]["end"]


@pytest.mark.slow
def test_smoke_learns_something(tmp_path: Path) -> None:
    run_2048(tmp_path, "maskable-ppo", smoke=True)
    policies = [
        sb3_training.ALGORITHMS["maskable-ppo"].load(path).policy
        for path in sb3_training.find_checkpoints(tmp_path / "smoke-maskable-ppo")
    ]
    weights = [torch.nn.utils.parameters_to_vector(policy.parameters()) for policy in policies]
    assert len(weights) == 2
    assert not weights[0].allclose(weights[1])


@pytest.mark.parametrize(
    ("setting", "value"),
    [("reward", "lgo"), ("reward_scale", 0), ("lerning_rate", 1), ("batch_size", 1)],
)
def test_wrong_setting_is_refused(setting: str, value: Any, tmp_path: Path) -> None:
    file = tiny(tmp_path, "ppo", **{setting: value})
    with pytest.raises((TypeError, ValueError, AssertionError), match=setting.split("_")[0]):
        run_2048(tmp_path, "ppo", settings=file)


def test_settings_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no settings of dqn"):
        run_2048(tmp_path, "dqn", settings=tiny(tmp_path, "ppo"))


@pytest.mark.slow
def test_a_nested_settings_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "deep.yml"
    file.write_text("[" * 5_000)
    with pytest.raises(ValueError, match=r"deep\.yml: no settings of ppo"):
        sb3_training.read_settings(sb3_training.RunArgs(file), "ppo", ENV)


@pytest.mark.parametrize("text", ["", '{"algorithm"', "[1]", "[" * 100_000, "{}", None])
def test_a_run_with_damaged_settings_is_not_resumed(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValueError, match=r"cannot resume: .*settings\.json"):
        sb3_training.resume(None, [], tmp_path, {"seed": 1}, None)


@pytest.mark.parametrize(
    "error", [AssertionError("No data found"), NotImplementedError(), zlib.error(), RuntimeError()]
)
def test_checkpoints_that_cannot_be_read_are_passed_over(error: Exception, tmp_path: Path) -> None:
    """Cut off or with changed bits, they raise errors of all kinds."""
    whole = SimpleNamespace(num_timesteps=3, set_random_seed=lambda _: None)

    def load(checkpoint: Path, _: Any) -> Any:
        if checkpoint.name == "damaged":
            raise error
        return whole

    (tmp_path / "settings.json").write_text('{"seed": 1, "n_timesteps": 5}')
    kind, paths = SimpleNamespace(load=load), [Path("whole"), Path("damaged")]
    config = {"seed": 1, "n_timesteps": 9}
    assert sb3_training.resume(kind, paths, tmp_path, config, None) is whole
    with pytest.raises(ValueError, match="no checkpoint is complete"):
        sb3_training.resume(kind, paths[1:], tmp_path, config, None)


def test_learning_rate_falls_to_zero_and_no_further() -> None:
    rate = sb3_training.schedule("lin_3e-4")
    assert rate(1.0) == pytest.approx(2 * rate(0.5))
    assert rate(0.0) == rate(-0.01) == 0
    assert sb3_training.schedule(0.25) == 0.25


def test_rewards_are_logarithms_and_monitors_see_scores() -> None:
    limit = {"env_kwargs": {"max_episode_steps": 60}}
    envs = sb3_2048.make_envs(3, 5, {"reward": "log", "reward_scale": 0.5, **limit})
    plain = sb3_2048.make_envs(3, 5, {"reward": "score", "reward_scale": 1, **limit})
    boards: list[Any] = [envs.reset(), plain.reset()]
    assert np.array_equal(*boards)
    rng, n_ended = np.random.default_rng(1), 0
    for _ in range(60):
        actions = rng.integers(4, size=3)
        _, rewards, dones, infos = envs.step(actions)
        _, scores, _, _ = plain.step(actions)
        assert rewards == pytest.approx(np.log2(1 + scores) / 2)
        for info, done in zip(infos, dones, strict=True):
            n_ended += done
            assert not done or info["episode"]["r"] > 50
    assert n_ended >= 3


def test_self_play_swaps_opponents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[Any] = []
    rollout_start = sb3_training.SelfPlay._on_rollout_start

    def record(self: BaseCallback) -> None:
        rollout_start(self)  # type: ignore[arg-type]
        heads.append(self.actor.head.weight.detach().clone())  # type: ignore[attr-defined]

    monkeypatch.setattr(sb3_training.SelfPlay, "_on_rollout_start", record)
    result = {"games": 1, "mean": 0.0, "interval": None}
    monkeypatch.setattr(sb3_daihinmin, "evaluate", lambda *_: result)
    args = sb3_daihinmin.Args(tiny(tmp_path, "maskable-ppo", DAIHINMIN), tmp_path, 128)
    args.opponents = ("self", "self", "heuristic", "sample")
    sb3_daihinmin.main(args)
    assert len(heads) == 2
    assert not torch.equal(*heads)
    folder = tmp_path / "self-self-heuristic-sample"
    assert isinstance(agents.load(folder / "actor.safetensors"), ActorAgent)
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["against"] == ["sample"] * 4


@pytest.mark.parametrize(
    ("opponents", "message"),
    [(["nobody"], "nobody"), (["none.npz"], "none.npz"), (["sample"] * 2, "--against: .*got 2")],
)
def test_wrong_opponents_are_refused(opponents: list[str], message: str) -> None:
    with pytest.raises((OSError, ValueError), match=message):
        sb3_daihinmin.four(opponents, "--against")


@pytest.mark.slow
def test_points_have_an_interval_over_cycles() -> None:
    result = sb3_daihinmin.evaluate(agents.make("daihinmin-heuristic"), 300, ["sample"] * 4)
    assert result["games"] == 300
    assert result["mean"] > 350
    assert result["interval"] > 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_policy_with_further_layers_is_no_actor(algorithm: str) -> None:
    """Its layers would be left out, though all sizes fit."""

    def actor() -> Any:
        return policy_net.network("ActorCNN", channels=8, hidden=64)

    kwargs: dict[str, Any] = {
        "features_extractor_class": ActorFeatures,
        "features_extractor_kwargs": {"actor": actor, "n_planes": 16},
        "normalize_images": False,
    }
    envs, kind = Game2048VecEnv(2, observation="onehot"), sb3_training.ALGORITHMS[algorithm]
    model = kind("MlpPolicy", envs, policy_kwargs=kwargs, seed=1)
    with pytest.raises(ValueError, match=r"net_arch of the policy must be \[\], got layers"):
        actor_from_sb3(model.policy, actor())
    model = kind("MlpPolicy", envs, policy_kwargs={**kwargs, "net_arch": []}, seed=1)
    actor_from_sb3(model.policy, actor())


@pytest.mark.slow
def test_missing_extra_is_named() -> None:
    code = "import sys; sys.modules['yaml'] = None; import sb3_2048"
    folder = Path(sb3_2048.__file__).parent
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert run.returncode
    assert 'pip install "afterstate[' in run.stderr.splitlines()[-1]


@pytest.mark.slow
def test_maskable_ppo_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, start = [], sb3_training.start

    def play_untrained(*args: Any, **more: Any) -> Any:
        model = start(*args, **more)
        with nets.seeded(None):
            actor = policy_net.network("ActorCNN", channels=32, hidden=64)
        player = PolicyNetAgent(actor_from_sb3(model.policy, actor))
        scores.append(play(player, 100).scores.mean())
        return model

    monkeypatch.setattr(sb3_training, "start", play_untrained)
    sizes: dict[str, Any] = {"n_envs": 32, "channels": 32, "hidden": 64}
    sizes |= {"n_steps": 64, "batch_size": 512}
    file = tiny(tmp_path, "maskable-ppo", **sizes)
    rarely = {"evaluate_every": 80_000, "checkpoint_every": 80_000}
    folder = run_2048(tmp_path, "maskable-ppo", 80_000, settings=file, **rarely)
    player: Any = agents.load(folder / "actor.safetensors")
    assert play(player, 100).scores.mean() > 1.7 * scores[0]

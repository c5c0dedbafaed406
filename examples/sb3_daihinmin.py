"""Train MaskablePPO on Daihinmin, against chosen players or earlier versions of itself.

    python examples/sb3_daihinmin.py --opponents sample
    python examples/sb3_daihinmin.py --opponents self self heuristic sample
    tensorboard --logdir runs

An opponent is a player's name or file, or `self`: the policy of the latest rollout, which draws
its actions. One name stands for all four seats. Hyperparameters are in `sb3.yml`. Evaluations are
matches against `--against`: points per 100 games, of which five equal players get 300 each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sb3_training import RunArgs, SelfPlay, read_settings, train

# isort: split
import gymnasium as gym
import numpy as np
import tyro
from daihinmin import watch
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor

import afterstate.envs  # noqa: F401 - registers the environment
from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE, find_player, points_per_cycle
from afterstate.agents.daihinmin.values import actor_net
from afterstate.agents.daihinmin.values.actor_net import ActorAgent
from afterstate.agents.training.evaluation import EVALUATION_SEED, half_interval, of_student
from afterstate.envs.daihinmin.observation import CHANNELS
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.messages import named

ENV = "Daihinmin-v0"


@dataclass
class Args(RunArgs):
    """Train MaskablePPO on Daihinmin."""

    out: Path = Path("runs/sb3_daihinmin")
    """Folder that holds the run's folder."""
    opponents: tuple[str, ...] = ("sample",)
    """Opponents in training: one name or four, `self` among them."""
    against: tuple[str, ...] = ("sample",)
    """Opponents in evaluations: one name or four."""


def four(names: Sequence[str], option: str, allowed: Sequence[str] = ()) -> list[str]:
    """Return the names of four opponents; one name stands for all."""
    with named(option):
        if len(names) not in (1, 4):
            raise ValueError(f"expected one name or four, got {len(names)}")
        for name in {*names} - {*allowed}:
            find_player(name)
    return [*names] * (4 // len(names))


def make_envs(n_envs: int, opponents: Sequence[Any], seed: int, settings: dict[str, Any]) -> VecEnv:
    """Return tables with four opponents each."""
    kwargs = settings.get("env_kwargs", {})
    make = partial(gym.make, ENV, opponents=list(opponents), **kwargs)
    envs = VecMonitor(DummyVecEnv([make] * n_envs))
    envs.seed(seed)
    return envs


def evaluate(player: Player, n_games: int, against: Sequence[str]) -> dict[str, Any]:
    """Return the mean of points per 100 games and its 95% interval over cycles.

    The interval is Student's for up to 31 cycles, and normal for more.
    """
    n = n_games // GAMES_PER_CYCLE
    points = points_per_cycle(player, against, n, EVALUATION_SEED)
    half = round(of_student(half_interval(points), n), 1) if n > 1 else None
    mean = round(float(np.mean(points)), 1)
    return {"games": n * GAMES_PER_CYCLE, "mean": mean, "interval": half}


def main(args: Args) -> None:
    """Train, then write an animation of one game."""
    opponents = four(args.opponents, "--opponents", allowed=["self"])
    against = four(args.against, "--against")
    settings = read_settings(args, "maskable-ppo", ENV)
    make_actor = partial(actor_net.network, "ActorMLP", hidden=settings["hidden"])
    earlier = make_actor()
    agent = ActorAgent(earlier, temperature=1.0, seed=args.seed)
    seats = [agent if name == "self" else name for name in opponents]
    n_games, n_last = (100, 200) if args.smoke else (1_000, 10_000)
    config = {"env": ENV, "algorithm": "maskable-ppo", "seed": args.seed, **settings}
    names = opponents if len({*opponents}) > 1 else opponents[:1]
    folder = args.out / ("smoke-" * args.smoke + "-".join(Path(name).stem for name in names))
    train(
        args,
        folder,
        {**config, "opponents": opponents, "against": against},
        envs=make_envs(settings["n_envs"], seats, args.seed, settings),
        eval_envs=make_envs(1, against, args.seed + 1, settings),
        make_actor=make_actor,
        n_planes=len(CHANNELS),
        evaluate=lambda actor, is_last: evaluate(
            ActorAgent(actor), n_last if is_last else n_games, against
        ),
        extra=SelfPlay(earlier),
    )
    players = [
        find_player(str(folder / "actor.safetensors")),
        *(find_player(name) for name in against),
    ]
    watch(players, ["learned", *against], args.seed, folder / "game.gif")


if __name__ == "__main__":
    try:
        main(tyro.cli(Args))
    except (OSError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error

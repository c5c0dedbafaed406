"""Train MaskablePPO on Daihinmin, against players of your choice or against itself.

    python examples/sb3_daihinmin.py --opponents sample
    python examples/sb3_daihinmin.py --opponents self self heuristic sample
    tensorboard --logdir runs/sb3_daihinmin

An opponent is a name of `afterstate.envs.daihinmin.players.find`, or `self`: what has been learned
so far, drawn by its probabilities and renewed with every rollout. One name is for all four seats.
Settings are in `sb3.yml`; `sb3_runs.py` tells what a run writes. At the end the network takes the
best actions in a match with four sample clients, and one game of it is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
from daihinmin import compete, watch
from sb3_runs import Run, copy_actor, parser, settings
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor

import afterstate.envs  # noqa: F401 - registers the environment
from afterstate.agents.daihinmin import actor_net
from afterstate.agents.daihinmin.actor_net import ActorAgent
from afterstate.envs.daihinmin.observation import CHANNELS
from afterstate.envs.daihinmin.players import find

ENV = "Daihinmin-v0"


class Renewed(BaseCallback):
    """Gives what has been learned to the opponents that play as we do, before each rollout."""

    def __init__(self, actor: Any) -> None:
        super().__init__()
        self.actor = actor

    def _on_rollout_start(self) -> None:
        copy_actor(self.model, self.actor)

    def _on_step(self) -> bool:
        return True


def tables(n_envs: int, opponents: Sequence[Any], seed: int, told: dict[str, Any]) -> VecEnv:
    """Tables side by side, at which four opponents sit, or four times the only one."""
    four = list(opponents) * (4 if len(opponents) == 1 else 1)
    make = partial(gym.make, ENV, opponents=four, **told.get("env_kwargs", {}))
    envs = VecMonitor(DummyVecEnv([make] * n_envs))
    envs.seed(seed)
    return envs


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the example."""
    of = parser("Train MaskablePPO on Daihinmin.")
    of.add_argument("--opponents", nargs="+", default=["sample"], help="one, or four (sample)")
    of.add_argument("--against", default="sample", help="opponents of evaluations (%(default)s)")
    of.add_argument("--out", type=Path, default=Path("runs/sb3_daihinmin"), help="(%(default)s)")
    chosen = of.parse_args(arguments)
    told = settings("maskable-ppo", ENV, chosen.settings)
    actor = partial(actor_net.network, "ActorMLP", hidden=told["hidden"])
    run = Run("maskable-ppo", told, actor, len(CHANNELS), chosen)
    ourselves = actor()
    drawn = ActorAgent(ourselves, temperature=1.0, seed=chosen.seed)
    opponents = [drawn if name == "self" else name for name in chosen.opponents]
    model = run.model(tables(told["n_envs"], opponents, chosen.seed, told))
    evaluation = tables(1, [chosen.against], chosen.seed + 1, told)
    callbacks = [*run.callbacks(evaluation, 5 if chosen.smoke else 200), Renewed(ourselves)]
    player = ActorAgent(run.learn(model, callbacks))
    names = ["learned", *["sample"] * 4]
    players = [player, *(find(name) for name in names[1:])]
    watch(players, names, chosen.seed, run.folder / "game.gif")
    compete(players, names, 50 if chosen.smoke else 2_000, chosen.seed)
    print(f"written: {run.folder}")


if __name__ == "__main__":
    main()

"""Train MaskablePPO on Daihinmin, against players of your choice or against itself.

    python examples/sb3_daihinmin.py --opponents sample
    python examples/sb3_daihinmin.py --opponents self self heuristic sample
    tensorboard --logdir runs/sb3_daihinmin

An opponent is a name of `afterstate.envs.daihinmin.players.find`, or `self`: what has been learned
so far, drawn by its probabilities and renewed with every rollout. One name is for all four seats.
Settings are in `sb3.yml`; `sb3_runs.py` tells what a run writes, in a folder that is called by the
opponents. Evaluations are matches with the players of `--against`, in which the network takes the
best actions: points per 100 games, of which five players who are alike get 300 each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

# First, for it tells what is to be installed.
from sb3_runs import Game, Run, copy_actor, one_line, parser, settings

# isort: split
import gymnasium as gym
from daihinmin import watch
from scipy.stats import t
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor

import afterstate.envs  # noqa: F401 - registers the environment
from afterstate.agents.daihinmin.play import play_match
from afterstate.agents.daihinmin.values import actor_net
from afterstate.agents.daihinmin.values.actor_net import ActorAgent
from afterstate.agents.training.run import EVALUATION_SEED
from afterstate.envs.daihinmin.observation import CHANNELS
from afterstate.envs.daihinmin.players import Player, find

ENV = "Daihinmin-v0"
GAMES = 100
"""Of a cycle, from one class reset to the next."""


class Renewed(BaseCallback):
    """Gives what has been learned to the opponents that play as we do, before each rollout."""

    def __init__(self, actor: Any) -> None:
        super().__init__()
        self.actor = actor

    def _on_rollout_start(self) -> None:
        copy_actor(self.model, self.actor)

    def _on_step(self) -> bool:
        return True


def four(names: Sequence[str], option: str, changing: Sequence[str] = ()) -> list[str]:
    """The names of four opponents, of four or of one, checked.

    Args:
        names: four or one.
        option: of the command line, that they come from.
        changing: names that are no players.

    Raises:
        SystemExit: another number of names, or an unknown one.
    """
    if len(names) not in (1, 4):
        raise SystemExit(f"{option}: one name for all opponents, or four names; got {len(names)}")
    for name in {*names} - {*changing}:
        with one_line(option):
            find(name)
    return [*names] * (4 // len(names))


def called(names: Sequence[str]) -> str:
    """Opponents in one word; a single name if they are alike."""
    told = names if len({*names}) > 1 else names[:1]
    return "-".join(Path(name).stem for name in told)


def tables(n_envs: int, opponents: Sequence[Any], seed: int, told: dict[str, Any]) -> VecEnv:
    """Tables side by side, at which four opponents sit."""
    make = partial(gym.make, ENV, opponents=list(opponents), **told.get("env_kwargs", {}))
    envs = VecMonitor(DummyVecEnv([make] * n_envs))
    envs.seed(seed)
    return envs


def evaluate(player: Player, n_games: int, against: Sequence[str]) -> dict[str, Any]:
    """What a player reaches in matches that are the same in every evaluation.

    Args:
        player: it.
        n_games: in whole cycles.
        against: the names of four opponents.

    Returns:
        The number of games, and the mean of points per 100 games with half of its 95% interval,
        by Student's t over cycles: classes carry from game to game, but not from cycle to cycle.
    """
    points = []
    for seed in range(EVALUATION_SEED, EVALUATION_SEED + n_games // GAMES):
        players = [player, *(find(name, seed) for name in against)]
        *_, match = play_match(players, GAMES, seed)
        points.append(int(match["points"][0]))
    n, half = len(points), None
    if n > 1:
        half = round(float(t.ppf(0.975, n - 1)) * stdev(points) / n**0.5, 1)
    return {"games": n * GAMES, "mean": round(float(mean(points)), 1), "interval": half}


def game(
    told: dict[str, Any],
    seed: int,
    against: Sequence[str],
    n_games: tuple[int, int] = (1_000, 10_000),
) -> Game:
    """What a run is to know."""

    def film(player: Any, path: Path) -> None:
        players = [player, *(find(name, seed) for name in against)]
        watch(players, ["learned", *against], seed, path)

    actor = partial(actor_net.network, "ActorMLP", hidden=told["hidden"])
    judge = partial(evaluate, against=against)
    unit = f"points per {GAMES} games"
    return Game(ENV, unit, actor, len(CHANNELS), ActorAgent, judge, film, n_games)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the example."""
    of = parser("Train MaskablePPO on Daihinmin.", "runs/sb3_daihinmin")
    for option, about in (("--opponents", "who it learns from"), ("--against", "in evaluations")):
        of.add_argument(option, nargs="+", default=["sample"], help=f"{about}: one, or four names")
    chosen = of.parse_args(arguments)
    if "self" in chosen.against:
        raise SystemExit("--against: evaluations need players that stay as they are, not self")
    opponents = four(chosen.opponents, "--opponents", changing=["self"])
    against = four(chosen.against, "--against")
    told = settings("maskable-ppo", ENV, chosen.settings)
    what = game(told, chosen.seed, against, *([(100, 200)] if chosen.smoke else []))
    ourselves = what.actor()
    drawn = ActorAgent(ourselves, temperature=1.0, seed=chosen.seed)
    seated = [drawn if name == "self" else name for name in opponents]
    with one_line(f"{chosen.settings}: maskable-ppo on {ENV}"):
        envs = tables(told["n_envs"], seated, chosen.seed, told)
    asked = {"opponents": opponents, "against": against}
    run = Run(called(opponents), what, "maskable-ppo", told, chosen, **asked)
    run.go(envs, partial(tables, 1, against, chosen.seed + 1, told), Renewed(ourselves))
    print(f"written: {run.folder}")


if __name__ == "__main__":
    main()

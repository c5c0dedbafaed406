"""Watch a game of Daihinmin, then the points of a match.

    python examples/daihinmin.py

The heuristic player meets four of the competition's sample clients: one game in the PettingZoo
environment, printed and drawn action by action, then a match in cycles of 100 games.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from tqdm import tqdm

from afterstate import agents
from afterstate.agents.daihinmin.play import play_match
from afterstate.envs import daihinmin_v0, pictures
from afterstate.envs.daihinmin.players import Player, actions_of

NAMES = ("heuristic", "sample", "sample", "sample", "sample")


@dataclass
class Args:
    """Watch a game of Daihinmin and a match."""

    out: Path = Path("out")
    """Folder of the animation."""
    seed: int = 1
    """Random seed."""
    games: int = 2_000
    """Games of the match."""
    smoke: bool = False
    """Run for a few seconds only."""


def watch(players: list[Player], names: Sequence[str], seed: int, file: Path) -> None:
    """Play one game in the environment, print its actions and write an animation."""
    env = daihinmin_v0.env(render_mode="rgb_array")
    env.reset(seed=seed)
    frames = [env.render()]
    for agent in env.agent_iter():
        _, reward, terminated, _, _ = env.last()
        if terminated:
            print(f"{agent} has {reward:g} points")
            env.step(None)
            continue
        seat = env.possible_agents.index(agent)
        for action in actions_of(players[seat], env.view(agent)):
            env.step(action)
        print(f"{agent} {names[seat]}: {env.infos[agent]['play']}")
        frames.append(env.render())
    pictures.gif(frames, file, fps=1.5)


def compete(players: list[Player], names: Sequence[str], n_games: int, seed: int) -> None:
    """Play a match and print the points per game."""
    points = [0] * len(players)
    for match in tqdm(play_match(players, n_games, seed), total=n_games, unit=" games"):
        points = match["points"].tolist()
    for name, total in zip(names, points, strict=True):
        print(f"{name:10} {total / n_games:.2f} points a game")


def main(args: Args) -> None:
    """Watch a game, then play a match."""
    args.out.mkdir(parents=True, exist_ok=True)
    print("The first start compiles for about half a minute.", flush=True)
    players = [agents.make(f"daihinmin-{name}") for name in NAMES]
    watch(players, NAMES, args.seed, args.out / "daihinmin.gif")
    compete(players, NAMES, 50 if args.smoke else args.games, args.seed)
    print(f"written: {args.out / 'daihinmin.gif'}")


if __name__ == "__main__":
    main(tyro.cli(Args))

"""Watch a game of Daihinmin, then see what its players reach in many.

The heuristic player meets four of the competition's sample clients: one game through the PettingZoo
environment, drawn action by action, and a match of some cycles of 100 games:

    python examples/daihinmin.py
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from afterstate import agents
from afterstate.agents.daihinmin.play import play_match
from afterstate.envs import daihinmin_v0, pictures
from afterstate.envs.daihinmin.players import Player, actions_of

NAMES = ("heuristic", "sample", "sample", "sample", "sample")


def watch(players: list[Player], names: Sequence[str], seed: int, file: Path) -> None:
    """Plays one game in the environment, prints its actions and writes an animation."""
    env = daihinmin_v0.env(render_mode="rgb_array")
    env.reset(seed=seed)
    frames = [env.render()]
    for agent in env.agent_iter():
        _, reward, terminated, _, _ = env.last()
        if terminated:
            print(f"{agent} has {reward:g} points")
            env.step(None)
            continue
        number = env.possible_agents.index(agent)
        for action in actions_of(players[number], env.view(agent)):
            env.step(action)
        print(f"{agent} {names[number]}: {env.infos[agent]['play']}")
        frames.append(env.render())
    pictures.gif(frames, file, fps=1.5)


def compete(players: list[Player], names: Sequence[str], n_games: int, seed: int) -> None:
    """Plays a match and prints the points per game."""
    points = [0] * len(players)
    for match in tqdm(play_match(players, n_games, seed), total=n_games, unit=" games"):
        points = match["points"].tolist()
    for name, total in zip(names, points, strict=True):
        print(f"{name:10} {total / n_games:.2f} points a game")


def main() -> None:
    """Runs the example."""
    parser = argparse.ArgumentParser(description="Watch a game of Daihinmin and a match.")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--games", type=int, default=2_000, help="(%(default)s)")
    parser.add_argument("--smoke", action="store_true", help="only some seconds")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    print("The first start compiles, for about half a minute.", flush=True)
    players = [agents.make(f"daihinmin-{name}") for name in NAMES]
    watch(players, NAMES, options.seed, options.out / "daihinmin.gif")
    compete(players, NAMES, 50 if options.smoke else options.games, options.seed)
    print(f"written: {options.out / 'daihinmin.gif'}")


if __name__ == "__main__":
    main()

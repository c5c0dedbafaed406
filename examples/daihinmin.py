"""Watch a game of Daihinmin, then the points of a match.

    python examples/daihinmin.py

The heuristic player meets four of the competition's sample clients: some games in the PettingZoo
environment, whose actions are printed and of which the last is drawn, with its classes, exchange
and points; then a match in cycles of 100 games. `docs/daihinmin.gif` is the animation of
`python examples/daihinmin.py --smoke --out docs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tyro
from tqdm import tqdm

from afterstate import agents
from afterstate.agents.config import Count, Whole, settings
from afterstate.agents.daihinmin.play import play_match
from afterstate.envs import daihinmin_v0, pictures
from afterstate.envs.daihinmin.players import Player, actions_of

NAMES = ("heuristic", "sample", "sample", "sample", "sample")
GAMES = 3
"""Games in the environment."""


@settings
class Args:
    """Watch a game of Daihinmin and a match."""

    out: Path = Path("out")
    """Folder of the animation."""
    seed: Whole = 1
    """Random seed."""
    games: Count = 2_000
    """Games of the match."""
    smoke: bool = False
    """Run for a few seconds only."""


def watch(players: list[Player], names: Sequence[str], seed: int, file: Path) -> None:
    """Play games in the environment, print all actions and write the last game as animation."""
    env = daihinmin_v0.env(games=GAMES, render_mode="rgb_array")
    env.reset(seed=seed)
    frames = []
    for agent in env.agent_iter():
        seat, view = env.possible_agents.index(agent), env.view(agent)
        if env.terminations[agent]:
            print(f"{agent} has {view['points'][seat]} points")
            env.step(None)
            continue
        for action in actions_of(players[seat], view):
            env.step(action)
        print(f"{agent} {names[seat]}: {env.infos[agent]['play']}")
        if env.view(agent)["number"] == GAMES:
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
    players = [agents.make(f"daihinmin-{name}") for name in NAMES]
    watch(players, NAMES, args.seed, args.out / "daihinmin.gif")
    compete(players, NAMES, 50 if args.smoke else args.games, args.seed)
    print(f"written: {args.out / 'daihinmin.gif'}")


if __name__ == "__main__":
    main(tyro.cli(Args))

"""Learn 2048 in a minute, then watch what was learned.

Trains an N-tuple network by temporal coherence on games against itself, plays greedily and with
3-ply expectimax search, prints what both reach, and writes a learning curve, an animation of one
game's last moves and the network:

    python examples/quickstart.py
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import matplotlib
import numpy as np
from tqdm import tqdm

import afterstate.envs
from afterstate import agents
from afterstate.agents.game2048.learning.ntuple_learner import Learner
from afterstate.agents.game2048.play import Games, play
from afterstate.agents.game2048.values import ntuple
from afterstate.agents.training.run import Progress, train
from afterstate.envs import pictures
from afterstate.envs.game2048 import render

matplotlib.use("Agg")
from matplotlib import pyplot as plt

TILES = (2048, 4096, 8192, 16384)


class Result(NamedTuple):
    """What a player reached in how much time."""

    player: str
    games: Games
    seconds: float


def main() -> None:
    """Runs the example."""
    options = parse()
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    show_environment(options.seed)
    learner = Learner(seed=options.seed)
    try:
        run(learner, options, out)
    except KeyboardInterrupt:
        ntuple.save(learner.network, out / "network.npz")
        raise SystemExit(f"\ninterrupted: the network so far is in {out / 'network.npz'}") from None


def run(learner: Learner, options: argparse.Namespace, out: Path) -> None:
    """Learns, plays and writes what came of it."""
    curve = learn(learner, options.seconds)
    ntuple.save(learner.network, out / "network.npz")
    draw_curve(curve, out / "learning_curve.png")
    greedy = agents.load(out / "network.npz")
    search = agents.make("expectimax", depth=3, network=learner.network)
    first = options.seed + 1_000_000  # other games than those of training
    results = [
        compete("greedy", greedy, options.greedy_games, first),
        compete("3-ply expectimax", search, options.search_games, first),
    ]
    print_table(results)
    animate(search, first, out / "last_moves.gif", max_moves=50 if options.smoke else None)
    print("\nWritten:")
    for name in ("learning_curve.png", "last_moves.gif", "network.npz"):
        print(f"  {out / name}")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Learn 2048 in a minute and watch it play.")
    parser.add_argument("--seconds", type=float, default=60, help="of training (60)")
    parser.add_argument("--greedy-games", type=int, default=500)
    parser.add_argument("--search-games", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1, help="from 0 on (1)")
    parser.add_argument("--out", default="out", help="folder for the files written (out)")
    parser.add_argument("--smoke", action="store_true", help="a few seconds, to see that it runs")
    options = parser.parse_args()
    if options.smoke:
        options.seconds, options.greedy_games, options.search_games = 1, 20, 2
    return options


def show_environment(seed: int) -> None:
    """Makes the environment and prints a board with its four afterstates' rewards."""
    env: gym.Env[Any, Any] = gym.make("Game2048-v0", render_mode="ansi")
    _, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    for _ in range(40):
        _, _, _, _, info = env.step(env.action_space.sample(info["action_mask"]))
    print("Game2048-v0 after 40 random moves, and what the four next ones would give:\n")
    print(env.render())
    game = env.unwrapped
    assert isinstance(game, afterstate.envs.Game2048Env)
    _, rewards, legal = game.afterstates()
    for name, reward, is_legal in zip(("up", "right", "down", "left"), rewards, legal, strict=True):
        print(f"  {name:5} {f'reward {reward:.0f}' if is_legal else 'illegal'}")
    print()


def learn(learner: Learner, seconds: float) -> list[Progress]:
    """Trains with a live line of progress."""
    layout = "{l_bar}{bar}| {n:.0f}/{total:.0f} s {postfix}"
    with tqdm(total=seconds, desc="learning", bar_format=layout) as bar:

        def report(progress: Progress) -> None:
            bar.n = min(progress.seconds, seconds)
            bar.set_postfix_str(
                f"{progress.n_games:,} games, {progress.moves_per_second / 1e6:.2f}M moves/s, "
                f"mean score {progress.mean_score:,.0f}, 2048 in {progress.rate_2048:.0%}"
            )

        return train(learner, seconds=seconds, report=report)


def compete(name: str, player: agents.Agent, n_games: int, seed: int) -> Result:
    """Plays games with a bar of progress."""
    start = time.monotonic()
    layout = "{l_bar}{bar}| {n}/{total} games{postfix}"
    with tqdm(total=n_games, desc=name, bar_format=layout) as bar:

        def report(n_ended: int, n_moves: int) -> None:
            bar.set_postfix_str(f"{n_moves:,} moves", refresh=False)
            bar.update(n_ended - bar.n)

        games = play(player, n_games, seed, report=report)
    return Result(name, games, time.monotonic() - start)


def print_table(results: list[Result]) -> None:
    """Prints mean score with its 95% interval, rates of tiles and speed."""
    tiles = "".join(f"{tile:>8}" for tile in TILES)
    print(f"\n{'player':18}{'games':>6}{'mean score':>20}{tiles}{'moves/s':>12}")
    for name, games, seconds in results:
        scores = games.scores
        spread = 1.96 * scores.std(ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else np.nan
        rates = "".join(f"{(games.max_tiles >= tile).mean():8.0%}" for tile in TILES)
        mean = f"{scores.mean():,.0f} ± {spread:,.0f}"
        speed = games.n_moves.sum() / seconds
        print(f"{name:18}{len(scores):6}{mean:>20}{rates}{speed:12,.0f}")


def draw_curve(curve: list[Progress], path: Path) -> None:
    """Draws the mean score of the last 1,000 games against the moves learned from."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    moves = [progress.n_moves / 1e6 for progress in curve]
    scores = [progress.mean_score for progress in curve]
    axes.plot(moves, scores, color="#c0392b", marker=".", markersize=3)
    axes.set_title("Learning 2048 by temporal coherence from zero weights")
    axes.set_xlabel("million moves")
    axes.set_ylabel("mean score of the last 1,000 games")
    axes.yaxis.set_major_formatter(lambda score, _: f"{score:,.0f}")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def animate(player: agents.Agent, seed: int, path: Path, max_moves: int | None = None) -> None:
    """Plays one game through the environment and writes its last 60 boards as an animation."""
    env: gym.Env[Any, Any] = gym.make("Game2048-v0", max_episode_steps=max_moves)
    observation, info = env.reset(seed=seed)
    boards = deque([(observation, info["score"])], maxlen=60)
    over = False
    with tqdm(desc="one game to watch", unit=" moves") as bar:
        while not over:
            action, _ = player.predict(observation)
            observation, _, terminated, truncated, info = env.step(action)
            boards.append((observation, info["score"]))
            over = terminated or truncated
            bar.update()
    pictures.gif([render.rgb_array(board, score, tile=64) for board, score in boards], path)


if __name__ == "__main__":
    main()

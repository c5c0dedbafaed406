"""Learn 2048 in a minute, then watch what was learned.

    python examples/quickstart.py

An N-tuple network learns by temporal coherence from its own games, then plays with and without
search. Writes the network, its learning curve and an animation of one game's last moves.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import tyro
from matplotlib.figure import Figure
from tqdm import tqdm

from afterstate import agents
from afterstate.agents.config import Count, Positive, Whole, settings
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values import ntuple_file
from afterstate.agents.training.evaluation import half_interval, of_student
from afterstate.agents.training.run import Progress, train
from afterstate.envs import pictures
from afterstate.envs.compiling import clock
from afterstate.envs.game2048 import render

TILES = (2048, 4096, 8192, 16384)


@settings
class Args:
    """Learn 2048 in a minute and watch it play."""

    seconds: Positive = 60
    """Training time in seconds."""
    greedy_games: Count = 500
    """Games played greedily."""
    search_games: Count = 12
    """Games played with search."""
    seed: Whole = 1
    """Random seed, 0 or more."""
    out: Path = Path("out")
    """Folder of the files written."""
    smoke: bool = False
    """Run for a few seconds only."""


def learn(learner: NTupleLearner, seconds: float) -> list[Progress]:
    """Train with a progress bar, and return the learning curve."""
    layout = "{l_bar}{bar}| {n:.0f}/{total:.0f} s{postfix}"
    with tqdm(total=seconds, desc="learning", bar_format=layout) as bar:

        def report(progress: Progress) -> None:
            bar.n = min(progress.seconds, seconds)
            speed = f"{progress.moves_per_second / 1e6:.2f}M moves/s"
            bar.set_postfix_str(f"{speed}, mean score {progress.mean_score:,.0f}")

        return train(learner, seconds=seconds, report=report)


def compete(name: str, player: agents.Agent, n_games: int, seed: int) -> None:
    """Play games, and print the mean score with its 95% interval, shares of tiles and speed."""
    start = clock()
    games = play(player, n_games, seed)
    speed, scores = games.n_moves.sum() / (clock() - start), games.scores
    shares = "".join(f"{(games.max_tiles >= tile).mean():8.0%}" for tile in TILES)
    half = f" ± {of_student(half_interval(scores), n_games):,.0f}" if n_games > 1 else ""
    mean = f"{scores.mean():,.0f}{half}"
    print(f"{name:18}{n_games:6}{mean:>20}{shares}{speed:12,.0f}", flush=True)


def draw_curve(curve: list[Progress], path: Path) -> None:
    """Draw the mean score of the last 1,000 games against the moves learned from."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot([point.n_moves / 1e6 for point in curve], [point.mean_score for point in curve])
    axes.set(xlabel="million moves", ylabel="mean score of the last 1,000 games")
    figure.savefig(path, dpi=120)


def animate(player: agents.Agent, seed: int, path: Path, max_moves: int | None = None) -> None:
    """Play one game in the environment, and write its last 60 boards as an animation."""
    env = gym.make("Game2048-v0", max_episode_steps=max_moves)
    board, info = env.reset(seed=seed)
    boards, over = deque([(board, info["score"])], maxlen=60), False
    while not over:
        action, _ = player.predict(board)
        board, _, terminated, truncated, info = env.step(action)
        boards.append((board, info["score"]))
        over = terminated or truncated
    pictures.gif([render.rgb_array(board, score, tile=64) for board, score in boards], path)


def main(args: Args) -> None:
    """Learn, play and write the files."""
    if args.smoke:
        args = replace(args, seconds=1, greedy_games=20, search_games=2)
    args.out.mkdir(parents=True, exist_ok=True)
    learner, file = NTupleLearner(seed=args.seed), args.out / "network.npz"
    try:
        draw_curve(learn(learner, args.seconds), args.out / "learning_curve.png")
    except KeyboardInterrupt:
        raise SystemExit(f"interrupted: the network so far is in {file}") from None
    finally:
        ntuple_file.save(learner.network, file)
    greedy, search = agents.load(file), agents.make("expectimax", depth=3, network=learner.network)
    seed = args.seed + 1_000_000  # other games than those of training
    tiles = "".join(f"{tile:>8}" for tile in TILES)
    print(f"\n{'player':18}{'games':>6}{'mean score':>20}{tiles}{'moves/s':>12}")
    compete("greedy", greedy, args.greedy_games, seed)
    compete("3-ply expectimax", search, args.search_games, seed)
    animate(search, seed, args.out / "last_moves.gif", 50 if args.smoke else None)
    names = ("learning_curve.png", "last_moves.gif", "network.npz")
    print("\nWritten:", *(args.out / name for name in names), sep="\n  ")


if __name__ == "__main__":
    main(tyro.cli(Args))

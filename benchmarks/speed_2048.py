"""How fast everything is, per CPU second of this process, on one core.

    python benchmarks/throughput.py             # this package
    python benchmarks/throughput.py --peers     # and the other programs that are installed

Environments and other programs take turns, round after round, so that a change in the machine's
speed meets them alike; a round of each lasts about one CPU second. So do the players, among
themselves, with a network that has learned from 50 million moves. The trainings take turns too,
`--training-rounds` times their first 20 million moves from zero weights, and so do one thread and
two, which are timed by the clock on the wall. The figures are medians with their range, printed and
kept as printed in `results/throughput.txt`, with all values in `results/throughput.json`. How well
the player learns is measured by `learning_curve.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import fresh_kernels  # noqa: F401 - first of all that uses numba
import gymnasium as gym
import numpy as np
import numpy.typing as npt
import peers
from machine import machine
from peers import Steps

import afterstate.envs
from afterstate import agents
from afterstate.agents.game2048.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.learning import Learner, Settings
from afterstate.agents.game2048.ntuple import Network, load, network
from afterstate.agents.game2048.play import play

N_BOARDS = 4096
TRAINING_MOVES = 20_000_000
PLAYING_MOVES = 50_000_000
N_COMPARED = 5_000
TRAININGS = {
    "4x6 TD forward": ("4x6", Settings("td", "forward")),
    "4x6 TC forward": ("4x6", Settings(order="forward")),
    "4x6 TC(0.5) backward": ("4x6", Settings()),
    "8x6 TD forward": ("8x6", Settings("td", "forward")),
    "8x6 TC forward": ("8x6", Settings(order="forward")),
    "8x6 TC(0.5) backward": ("8x6", Settings()),
}
RESULT = Path(__file__).parent / "results" / "throughput.json"


class Subject(NamedTuple):
    """One thing to time: `start` returns `steps(n)`, which makes about n steps and counts them."""

    name: str
    start: Callable[[], Steps]


class Figure(NamedTuple):
    """One line of the table."""

    name: str
    unit: str
    values: list[float]


def start_env() -> Steps:
    """`Game2048-v0` behind `gym.make`, a random legal action chosen from the mask in Python."""
    env: gym.Env[Any, Any] = gym.make("Game2048-v0")
    draw = random.Random(0).random
    _, info = env.reset(seed=0)

    def steps(n: int) -> int:
        nonlocal info
        for _ in range(n):
            legal = info["action_mask"].nonzero()[0]
            _, _, terminated, _, info = env.step(legal[int(draw() * len(legal))])
            if terminated:
                _, info = env.reset()
        return n

    return steps


def start_vector_env() -> Steps:
    """4,096 boards, random legal actions, with observations, masks and all infos."""
    envs = gym.make_vec("Game2048-v0", num_envs=N_BOARDS)
    assert isinstance(envs, afterstate.envs.Game2048VectorEnv)
    envs.reset(seed=0)

    def steps(n: int) -> int:
        rounds = -(-n // N_BOARDS)
        for _ in range(rounds):
            envs.step(envs.sample_legal())
        return rounds * N_BOARDS

    return steps


def start_afterstates() -> Steps:
    """The four afterstates of each of 4,096 boards of random games, counted in boards."""
    envs = gym.make_vec("Game2048-v0", num_envs=N_BOARDS)
    assert isinstance(envs, afterstate.envs.Game2048VectorEnv)
    envs.reset(seed=0)
    for _ in range(50):
        envs.step(envs.sample_legal())

    def steps(n: int) -> int:
        rounds = -(-n // N_BOARDS)
        for _ in range(rounds):
            envs.afterstates()
        return rounds * N_BOARDS

    return steps


def start_player(name: str, n_games: int, learner: Learner, **settings: Any) -> Callable[[], Steps]:
    """Whole games by a player of the learner's network, counted in moves."""

    def start() -> Steps:
        player = agents.make(name, network=learner.network, **settings)
        seeds = iter(range(0, 10**9, n_games))
        return lambda n: int(play(player, n_games, next(seeds)).n_moves.sum())

    return start


def training(tuples: str, settings: Settings) -> float:
    """Moves per CPU second over the first 20 million moves from zero weights."""
    learner = Learner(network(tuples), settings, seed=1)
    start = time.process_time()
    while learner.n_moves < TRAINING_MOVES:
        learner.play(1_000_000)
    return learner.n_moves / (time.process_time() - start)


def trainings(rounds: int) -> list[Figure]:
    """The speed of each way to learn, in turn."""
    rates: dict[str, list[float]] = {name: [] for name in TRAININGS}
    for _ in range(rounds):
        for name, (tuples, settings) in TRAININGS.items():
            rates[name].append(training(tuples, settings))
    return [
        Figure(f"training, {name}, first 2e7 moves", "moves/CPU s", values)
        for name, values in rates.items()
    ]


def two_threads(rounds: int) -> list[Figure]:
    """How many times as fast two threads learn as one, in pairs, by the clock on the wall."""
    ratios = []
    for _ in range(rounds):
        speed = []
        for threads in (1, 2):
            learner = Learner(settings=Settings(order="forward"), seed=1, threads=threads)
            learner.play(2_000_000)
            before, start = learner.n_moves, time.perf_counter()
            learner.play(TRAINING_MOVES)
            speed.append((learner.n_moves - before) / (time.perf_counter() - start))
        ratios.append(speed[1] / speed[0])
    return [Figure("training, 4x6 TC forward, 2 threads to 1", "times", ratios)]


def agreement(of: str, net: Network, depth: int) -> Figure:
    """How often a search with its cut-off chooses as it does without, on boards of its games."""
    player, whole = ExpectimaxAgent(net, depth), ExpectimaxAgent(net, depth, cutoff=0)
    shown: list[npt.NDArray[np.uint64]] = []

    class Recorder:
        """Plays as the player does and keeps the boards."""

        size = (4, 4)

        def act(self, boards: npt.NDArray[np.uint64]) -> npt.NDArray[np.int8]:
            shown.append(boards)
            return player.act(boards)

    play(Recorder(), 8, seed=10**6)
    boards = np.random.default_rng(1).choice(np.concatenate(shown), N_COMPARED)
    same = float((player.act(boards) == whole.act(boards)).mean())
    return Figure(f"{depth}-ply choices as without cut-off, {of}", "%", [100 * same])


def fresh_process(code: str, cache: str | None = None) -> float:
    """Seconds that the code reports in a new Python process, with its own kernel cache if named."""
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    timed = f"import time; t = time.perf_counter()\n{code}\nprint(time.perf_counter() - t)"
    command = [sys.executable, "-c", timed]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(run.stdout)


IMPORT = "import afterstate.envs"
FIRST_STEP = """
import gymnasium, afterstate.envs
env = gymnasium.make("Game2048-v0")
env.reset(seed=0)
env.step(0)
"""


def in_turn(subjects: list[Subject], rounds: int) -> list[Figure]:
    """Times the subjects in turn, after a first call of each that is not counted."""
    running = [(subject.name, subject.start()) for subject in subjects]
    sizes = []
    for _, steps in running:
        steps(1)
        start = time.process_time()
        done = steps(2_000)
        sizes.append(max(2_000, int(done / (time.process_time() - start + 1e-9))))
    values: list[list[float]] = [[] for _ in running]
    for _ in range(rounds):
        for i, (_, steps) in enumerate(running):
            start = time.process_time()
            done = steps(sizes[i])
            values[i].append(done / (time.process_time() - start))
    named = zip(running, values, strict=True)
    return [Figure(name, "steps/CPU s", rates) for (name, _), rates in named]


def start_up(repeats: int) -> list[Figure]:
    """Import, and the first step with and without compiled kernels, each in a new process."""
    fresh_process(FIRST_STEP)
    with tempfile.TemporaryDirectory() as cache:
        first = fresh_process(FIRST_STEP, cache)
        later = [fresh_process(FIRST_STEP, cache) for _ in range(repeats)]
    return [
        Figure("import afterstate.envs", "s", [fresh_process(IMPORT) for _ in range(repeats)]),
        Figure("first step after installation", "s", [first]),
        Figure("first step of a later process", "s", later),
    ]


def measure(options: argparse.Namespace) -> list[Figure]:
    """All figures."""
    figures = start_up(options.rounds)
    subjects = [
        Subject("env, gym.make, random legal steps", start_env),
        Subject(f"vector env, B = {N_BOARDS}, random legal steps", start_vector_env),
        Subject(f"afterstates of a vector env, B = {N_BOARDS}", start_afterstates),
    ]
    if options.peers:
        subjects = [*(Subject(_peer_name(p), p.start) for p in peers.installed()), *subjects]
    figures += in_turn(subjects, options.rounds)
    trained = Learner(seed=1)
    trained.play(PLAYING_MOVES)
    players = [
        Subject("greedy play, 4x6", start_player("ntuple", 100, trained)),
        Subject("2-ply play, 4x6", start_player("expectimax", 2, trained, depth=2)),
        Subject(
            "2-ply play, 4x6, without cut-off",
            start_player("expectimax", 2, trained, depth=2, cutoff=0),
        ),
        Subject("3-ply play, 4x6", start_player("expectimax", 1, trained, depth=3)),
        Subject(
            "3-ply play, 4x6, without cut-off",
            start_player("expectimax", 1, trained, depth=3, cutoff=0),
        ),
    ]
    figures += in_turn(players, options.rounds)
    shipped = load(agents.SHIPPED)
    figures += [agreement("4x6", trained.network, depth) for depth in (2, 3)]
    figures += [agreement("shipped", shipped, depth) for depth in (2, 3)]
    figures += trainings(options.training_rounds)
    return figures + two_threads(options.training_rounds)


def _peer_name(peer: peers.Peer) -> str:
    """A peer's name and version."""
    return f"{peer.name} {peers.version(peer)} ({peer.kind})"


def lines(figures: list[Figure]) -> list[str]:
    """A line a figure: median, unit, range and number of values."""
    result = []
    for name, unit, values in figures:
        digits = 0 if "/" in unit else 2
        middle, low, high = (f"{v:,.{digits}f}" for v in (median(values), min(values), max(values)))
        spread = f"({low} to {high}, n = {len(values)})"
        result.append(f"{name:48}{middle:>14} {unit:12} {spread}")
    return result


def ratios(figures: list[Figure]) -> dict[str, float]:
    """How many times as fast our environments are as each peer: the median over the rounds."""
    named = {figure.name: figure for figure in figures}
    ours = {
        "single": next(f for f in figures if f.name.startswith("env,")),
        "vector": next(f for f in figures if f.name.startswith("vector env")),
    }
    result = {}
    for peer in peers.installed():
        if _peer_name(peer) in named:
            ratio = zip(ours[peer.kind].values, named[_peer_name(peer)].values, strict=True)
            name = f"{ours[peer.kind].name} : {_peer_name(peer)}"
            result[name] = median(a / b for a, b in ratio)
    return result


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Measures how fast everything is.")
    parser.add_argument("--peers", action="store_true", help="also the other programs installed")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--training-rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULT, help=f"({RESULT.name})")
    options = parser.parse_args()
    here = machine()
    figures = measure(options)
    times_faster = ratios(figures)
    printed = [
        ", ".join(f"{name} {value}" for name, value in here.items()),
        *lines(figures),
        *(f"{name} = {ratio:.1f}" for name, ratio in times_faster.items()),
    ]
    print("\n".join(printed))
    rows = [{**f._asdict(), "median": median(f.values)} for f in figures]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    result = {"machine": here, "figures": rows, "ratios": times_faster}
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    options.out.with_suffix(".txt").write_text("\n".join(printed) + "\n")


if __name__ == "__main__":
    main()

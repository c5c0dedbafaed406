"""Speed of 2048: environments, values of boards, and players.

A round lasts about one CPU second. The players take turns with a network that has learned from 50
million moves. The speed of learning is compared with that of TDL2048 in `comparisons.py`, and
`benchmarks.pretrained.learning_curve` measures how well a network learns.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

import afterstate.envs
from afterstate import agents
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.kernels import kernel
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.learning.run_settings import NTupleSettings
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.players import PRETRAINED
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent, value_of
from afterstate.agents.game2048.values.ntuple_file import load
from afterstate.agents.game2048.values.ntuple_network import Network, network
from afterstate.envs.words import Words
from benchmarks.speed.peers import step_gymnasium, step_vector
from benchmarks.speed.timing import Figure, Steps, Subject, fresh_process, in_turn

N_BOARDS = 4096
GPU_BOARDS = 1 << 20
SHORTEST = 14
"""Moves of the shortest game, which fills its board without merging."""

PLAYING_MOVES = 50_000_000
N_COMPARED, GAMES_COMPARED = 5_000, 8
"""Boards on which searches with and without a cutoff are compared, and games that they are of."""


def start_env(seed: int = 0) -> Steps:
    """Start `Game2048-v0` of `gym.make`; Python draws a random legal action from the mask."""
    return step_gymnasium(gym.make("Game2048-v0"), seed)


def start_vector_env(
    n_boards: int = N_BOARDS,
    observation: str = "exponents",
    autoreset_mode: str = "NextStep",
    seed: int = 0,
) -> Steps:
    """Start many boards with random legal actions, observations, masks and all infos."""
    settings: Any = {"observation": observation, "autoreset_mode": autoreset_mode}
    return step_vector(gym.make_vec("Game2048-v0", num_envs=n_boards, **settings), seed)


def start_afterstates() -> Steps:
    """Start the four afterstates of each of 4,096 boards of random games, counted in boards."""
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


def start_torch_rules(device: str, n_boards: int) -> Steps:
    """Start boards on tensors with random legal actions; the start of a new game is not a step.

    Each place has a first board in reserve, a new one before it can be needed again.
    """
    import torch

    from afterstate.envs.game2048 import torch_rules

    torch.set_num_threads(1)
    generator = torch.Generator(device).manual_seed(1)
    new = partial(torch_rules.start, (n_boards,), generator)
    boards = new()

    def steps(n: int) -> int:
        nonlocal boards
        done = torch.zeros((), dtype=torch.int64, device=device)
        for number in range(-(-n // n_boards)):
            if number % SHORTEST == 0:
                starts = new()
            afters, _ = torch_rules.afterstates(boards)
            legal = afters != boards[:, None]
            actions = torch_rules.random_legal(legal, generator)
            moved = afters.gather(1, actions[:, None])[:, 0]
            bits = torch_rules.draw_bits((n_boards,), generator)
            is_running = legal.any(1)
            done += is_running.sum()
            boards = torch.where(is_running, torch_rules.spawn(moved, bits), starts)
        return int(done)

    return steps


def on_gpu(rounds: int) -> list[Figure]:
    """Time the rules on a GPU in wall time, if there is one."""
    import torch

    if not torch.cuda.is_available():
        return []
    steps, rates = start_torch_rules("cuda", GPU_BOARDS), []
    steps(20 * GPU_BOARDS)
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        done = steps(200 * GPU_BOARDS)
        torch.cuda.synchronize()
        rates.append(done / (time.perf_counter() - start))
    name = f"torch rules, B = {GPU_BOARDS:,}, {torch.cuda.get_device_name()}"
    return [Figure(name, "steps/s", rates)]


def start_player(
    name: str, n_games: int, learner: NTupleLearner, **settings: Any
) -> Callable[[], Steps]:
    """Return the start of whole games by a player of the learner's network, counted in moves."""

    def start() -> Steps:
        player = agents.make(name, network=learner.network, **settings)
        seeds = iter(range(0, 10**9, n_games))
        return lambda n: int(play(player, n_games, next(seeds)).n_moves.sum())

    return start


def start_search(simulations: int, learner: NTupleLearner) -> Callable[[], Steps]:
    """Return the start of searches of boards of its games, counted in simulations."""

    def start() -> Steps:
        player = agents.make("mc-softmax", network=learner.network, simulations=simulations)
        boards = boards_of(agents.make("ntuple", network=learner.network), 8)
        rng = np.random.default_rng(1)

        def steps(n: int) -> int:
            some = rng.choice(boards, -(-n // simulations))
            player.act(some)
            return len(some) * simulations

        return steps

    return start


def start_play(network: str, seed: int, n_games: int = 1, **search: Any) -> Steps:
    """Start whole games with a network's file, by expectimax if it has settings, else greedily."""
    net = load(network)
    player = ExpectimaxAgent(net, **search) if search else NTupleAgent(net)
    seeds = iter(range(10**6 * seed, 10**9, n_games))
    return lambda n: int(play(player, n_games, next(seeds)).n_moves.sum())


def start_learner(tuples: str, seed: int, threads: int = 1, **settings: Any) -> Steps:
    """Start learning from zero weights, counted in moves."""
    learner = NTupleLearner(network(tuples), NTupleSettings(**settings), seed, threads=threads)

    def steps(n: int) -> int:
        before = learner.n_moves
        learner.learn(n)
        return learner.n_moves - before

    return steps


def boards_of(player: Agent, n_games: int) -> Words:
    """Return the boards of a player's games."""
    boards: list[Words] = []
    play(player, n_games, seed=10**6, watch=lambda running, words, actions: boards.append(words))
    return np.concatenate(boards)


@kernel
def _sum_values(net: Network, boards: Words) -> float:
    """Return the sum of the values of boards."""
    total = 0.0
    for i in range(boards.size):
        total += float(value_of(net, boards[i]))
    return total


def values(rounds: int, net: Network) -> list[Figure]:
    """Time the values of boards: in the order of games, in random order, and of a few boards.

    The table entries of the few boards stay in the caches, so they show what the others wait for.
    """
    ordered = boards_of(NTupleAgent(net), 1)
    orders = {
        "in the order of a game": ordered,
        "in random order": np.random.default_rng(1).permutation(ordered),
        "64 boards again and again": np.tile(ordered[:64], 1 + ordered.size // 64),
    }

    def start(boards: Words) -> Callable[[], Steps]:
        def steps(n: int) -> int:
            n_passes = -(-n // boards.size)
            for _ in range(n_passes):
                _sum_values(net, boards)
            return n_passes * boards.size

        return lambda: steps

    subjects = [
        Subject(f"values by 4x6, {name}", start(boards), "boards/CPU s")
        for name, boards in orders.items()
    ]
    return in_turn(subjects, rounds)


def agreement(name: str, net: Network, depth: int) -> Figure:
    """Return how often a search makes the same move with its cutoff and without, on its boards."""
    player, whole = ExpectimaxAgent(net, depth), ExpectimaxAgent(net, depth, cutoff=0)
    boards = np.random.default_rng(1).choice(boards_of(player, GAMES_COMPARED), N_COMPARED)
    same = float((player.act(boards) == whole.act(boards)).mean())
    return Figure(f"{depth}-ply choices as without cutoff, {name}", "%", [100 * same])


IMPORT = "import afterstate.envs"
FIRST_STEP = """
import gymnasium, afterstate.envs
env = gymnasium.make("Game2048-v0")
env.reset(seed=0)
env.step(0)
"""
MAKE_PLAYER = """
from afterstate import agents
player = agents.make({!r})
"""
FIRST_MOVE = "player.act([0x1001])"
MAKE_LEARNER = """
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
learner = NTupleLearner(seed=1)
"""
FIRST_GAME = "learner.learn(1)"

FIRSTS: dict[str, tuple[str, str]] = {
    "step of gym.make": ("", FIRST_STEP),
    **{
        f"move of {name}": (MAKE_PLAYER.format(name), FIRST_MOVE)
        for name in ("ntuple", "expectimax", "mc-softmax")
    },
    "game that a 4x6 network learns from": (MAKE_LEARNER, FIRST_GAME),
}
"""First tasks of a process: code that prepares each of them, and the code itself."""


def start_up(repeats: int) -> list[Figure]:
    """Time imports, and first steps, moves and games, each in a new process.

    After installation they compile, in later processes they load kernels from the cache; then the
    loading is timed without imports and networks, too.
    """
    fresh_process(IMPORT)
    figures = [Figure("import afterstate.envs", "CPU s", _timed(repeats, IMPORT))]
    for name, (before, code) in FIRSTS.items():
        with tempfile.TemporaryDirectory() as cache:
            first = _timed(1, before + code, cache)
            later = _timed(repeats, before + code, cache)
            figures.append(Figure(f"first {name} after installation", "CPU s", first))
            figures.append(Figure(f"first {name} in a later process", "CPU s", later))
            if before:
                loading = _timed(repeats, code, cache, before)
                figures.append(Figure(f"first {name}, imports and network ready", "CPU s", loading))
    return figures


def _timed(repeats: int, code: str, cache: str | None = None, before: str = "") -> list[float]:
    """Return the CPU seconds of code in some new processes, one after the other."""
    return [fresh_process(code, cache, before) for _ in range(repeats)]


def environments(rounds: int) -> list[Figure]:
    """Time the environments."""
    subjects = [
        Subject("env, gym.make, random legal steps", start_env),
        Subject(f"vector env, B = {N_BOARDS}, random legal steps", start_vector_env),
        Subject(f"afterstates of a vector env, B = {N_BOARDS}", start_afterstates, "boards/CPU s"),
        Subject(
            f"torch rules, B = {N_BOARDS}, random legal steps",
            lambda: start_torch_rules("cpu", N_BOARDS),
        ),
    ]
    return in_turn(subjects, rounds) + on_gpu(rounds)


def players(rounds: int, trained: NTupleLearner) -> list[Figure]:
    """Time the players."""
    subjects = [
        Subject("greedy play, 4x6", start_player("ntuple", 100, trained)),
        Subject("2-ply play, 4x6", start_player("expectimax", 2, trained, depth=2)),
        Subject(
            "2-ply play, 4x6, without cutoff",
            start_player("expectimax", 2, trained, depth=2, cutoff=0),
        ),
        Subject("3-ply play, 4x6", start_player("expectimax", 1, trained, depth=3)),
        Subject(
            "3-ply play, 4x6, without cutoff",
            start_player("expectimax", 1, trained, depth=3, cutoff=0),
        ),
        *(
            Subject(f"MC Softmax, 4x6, {n:,} simulations", start_search(n, trained), "sims/CPU s")
            for n in (100, 1_000)
        ),
    ]
    return in_turn(subjects, rounds)


def measure(rounds: int) -> list[Figure]:
    """Return all figures."""
    figures = start_up(rounds)
    figures += environments(rounds)
    trained = NTupleLearner(seed=1)
    trained.learn(PLAYING_MOVES)
    figures += values(rounds, trained.network)
    figures += players(rounds, trained)
    pretrained = load(PRETRAINED)
    figures += [agreement("4x6", trained.network, depth) for depth in (2, 3)]
    figures += [agreement("pretrained", pretrained, depth) for depth in (2, 3)]
    return figures

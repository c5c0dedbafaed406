"""The other programs that Python can call, each as something to time.

Every program plays uniformly random legal actions and starts a new game when one is over, in the
form of it that costs the least. A step is a player's action; what chance does is part of it. A
start imports its program, so any of them may be missing; nothing here imports afterstate, so that
they may be installed elsewhere. `benchmarks.speed.comparisons` runs each in a process of its own.

Time is that of the process with all of its threads, so a second core buys nothing; XLA is held to
one core all the same, because more threads cost it more CPU time. The setting for that is read
once, when jax makes its first array.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from importlib import import_module
from statistics import fmean
from typing import Any

from benchmarks.speed.timing import Steps

N_COMPILED = 1 << 17
"""Steps of all boards in one compiled call: fewer are slower, more are hardly faster."""

N_COUNTED = 1000
"""Games whose actions are counted, where counting them all would cost time."""


def start_pgx(n_boards: int, seed: int) -> Steps:
    """Start pgx, vectorised by jax; the observation is one-hot, `[B, 4, 4, 31]`."""
    jax = _one_core_jax()
    env = import_module("pgx").make("2048")
    step = jax.vmap(import_module("pgx.experimental").auto_reset(env.step, env.init))
    return _scan(
        jax,
        n_boards,
        seed,
        reset=jax.vmap(env.init),
        step=lambda state, action, key: step(state, action, jax.random.split(key, n_boards)),
        mask=lambda state: state.legal_action_mask,
    )


def start_jumanji(n_boards: int, seed: int) -> Steps:
    """Start jumanji, vectorised by jax; the observation is the board, `[B, 4, 4]`.

    Its games start from one tile, not two. The state holds the key of the next tile.
    """
    jax = _one_core_jax()
    wrappers = import_module("jumanji.wrappers")
    game = import_module("jumanji.environments").Game2048()
    env = wrappers.VmapWrapper(wrappers.AutoResetWrapper(game))
    return _scan(
        jax,
        n_boards,
        seed,
        reset=env.reset,
        step=lambda pair, action, _: env.step(pair[0], action),
        mask=lambda pair: pair[1].observation.action_mask,
    )


def start_gymnasium_2048(seed: int) -> Steps:
    """Start gymnasium-2048, one environment behind `gym.make`.

    It reports an illegal move only after the fact and offers no mask. Of three ways to a legal
    action the cheapest is taken: draw until `_changes` agrees, over the program's own
    `apply_action` and over stepping with whatever was drawn.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    import_module("gymnasium_2048")
    gym = import_module("gymnasium")
    env = gym.make("gymnasium_2048/TwentyFortyEight-v0", disable_env_checker=True)
    board = env.reset(seed=seed)[1]["board"]
    draw = random.Random(seed).random

    def steps(n: int) -> int:
        nonlocal board
        done = 0
        while done < n:
            lines, action = board.tolist(), int(4 * draw())
            while not _changes(lines, action):
                action = int(4 * draw())
            _, _, terminated, _, info = env.step(action)
            done += info["is_legal"]
            board = (env.reset()[1] if terminated else info)["board"]
        return done

    return steps


def start_open_spiel(seed: int) -> Steps:
    """Start 2048 of open_spiel, a C++ game that Python calls through pyspiel.

    The tensor and the rewards of each step are fetched. A game with no legal action is taken as
    over, which spares the call that asks. Every action it lists is legal, but it leaves out a merge
    with a tile that the last move made, so its games are not quite uniformly random.
    """
    game = import_module("pyspiel").load_game("2048")
    draw = random.Random(seed).random
    state = _deal(game, draw)

    def steps(n: int) -> int:
        nonlocal state
        done = 0
        while done < n:
            if actions := state.legal_actions():
                state.apply_action(actions[int(draw() * len(actions))])
                _spawn(state, draw)
                state.observation_tensor(0)
                state.rewards()
                done += 1
            else:
                state = _deal(game, draw)
        return done

    return steps


def start_open_spiel_bots(game: str, seed: int) -> Steps:
    """Start whole games of open_spiel's own random bots, all in C++ (`evaluate_bots`).

    Python only starts each game. Actions are counted by the mean of a thousand games before.
    """
    pyspiel = import_module("pyspiel")
    rules = pyspiel.load_game(game)
    bots = [pyspiel.make_uniform_random_bot(i, seed) for i in range(rules.num_players())]
    n_games = 0

    def play() -> Any:
        nonlocal n_games
        state, n_games = rules.new_initial_state(), n_games + 1
        pyspiel.evaluate_bots(state, bots, N_COUNTED * seed + n_games)
        return state

    def n_actions(state: Any) -> int:
        return sum(step.player >= 0 for step in state.full_history())

    length = fmean(n_actions(play()) for _ in range(N_COUNTED))

    def steps(n: int) -> int:
        wanted = -(-n // int(length))
        for _ in range(wanted):
            play()
        return round(wanted * length)

    return steps


def start_rlcard(game: str, seed: int) -> Steps:
    """Start a game of RLCard, with its observations."""
    env = import_module("rlcard").make(game, config={"seed": seed})
    draw = random.Random(seed).random
    state, _ = env.reset()

    def steps(n: int) -> int:
        nonlocal state
        for _ in range(n):
            actions = list(state["legal_actions"])
            state, _ = env.step(actions[int(draw() * len(actions))])
            if env.is_over():
                state, _ = env.reset()
        return n

    return steps


def step_gymnasium(env: Any, seed: int) -> Steps:
    """Return random legal steps of an environment of Gymnasium whose infos have an action mask."""
    draw = random.Random(seed).random
    _, info = env.reset(seed=seed)

    def steps(n: int) -> int:
        nonlocal info
        for _ in range(n):
            legal = info["action_mask"].nonzero()[0]
            _, _, terminated, _, info = env.step(legal[int(draw() * len(legal))])
            if terminated:
                _, info = env.reset()
        return n

    return steps


def step_vector(envs: Any, seed: int) -> Steps:
    """Return random legal steps of a vector environment that draws them itself."""
    n_envs: int = envs.num_envs
    envs.reset(seed=seed)

    def steps(n: int) -> int:
        rounds = -(-n // n_envs)
        for _ in range(rounds):
            envs.step(envs.sample_legal())
        return rounds * n_envs

    return steps


def step_pettingzoo(env: Any, seed: int) -> Steps:
    """Return random legal steps of an AEC environment whose observations have an action mask."""
    draw = random.Random(seed).random
    env.reset(seed=seed)

    def steps(n: int) -> int:
        done = 0
        while done < n:
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                env.reset()
                continue
            legal = observation["action_mask"].nonzero()[0]
            env.step(legal[int(draw() * len(legal))])
            done += 1
        return done

    return steps


def start_pettingzoo(game: str, seed: int) -> Steps:
    """Start a classic game of PettingZoo, with its wrappers and observations."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    return step_pettingzoo(import_module(f"pettingzoo.classic.{game}").env(), seed)


def _one_core_jax() -> Any:
    """Import jax for the CPU, with `NPROC=1`: its flags for threads do not keep XLA to one core."""
    os.environ["NPROC"] = "1"
    jax = import_module("jax")
    jax.config.update("jax_platforms", "cpu")
    return jax


def _scan(
    jax: Any,
    n_boards: int,
    seed: int,
    reset: Callable[[Any], Any],
    step: Callable[[Any, Any, Any], Any],
    mask: Callable[[Any], Any],
) -> Steps:
    """Compile random steps of boards that restart themselves.

    The whole state is carried from step to step: XLA can drop no observation, reward or mask.

    Args:
        jax: the module.
        n_boards: the number of boards, `B`.
        seed: the seed of all games.
        reset: from keys `[B]` to the states of new games.
        step: from states, actions `[B]` and one key to the next states.
        mask: from states to the legal actions, `[B, 4]`.
    """

    def move(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        state, key = carry
        key, for_action, for_tile = jax.random.split(key, 3)
        action = _random_legal(jax, for_action, mask(state))
        return (step(state, action, for_tile), key), None

    length = max(8, min(4096, N_COMPILED // n_boards))
    run = jax.jit(lambda carry: jax.lax.scan(move, carry, None, length)[0], donate_argnums=0)
    for_games, for_moves = jax.random.split(jax.random.key(seed))
    carry = jax.jit(reset)(jax.random.split(for_games, n_boards)), for_moves

    def steps(n: int) -> int:
        nonlocal carry
        n_calls = -(-n // (length * n_boards))
        for _ in range(n_calls):
            carry = run(carry)
        jax.block_until_ready(carry)
        return n_calls * length * n_boards

    return steps


def _random_legal(jax: Any, key: Any, mask: Any) -> Any:
    """Draw a legal action `[B]` for each board from a mask `[B, 4]`."""
    return jax.random.categorical(key, jax.numpy.where(mask, 0.0, -jax.numpy.inf))


def _changes(board: Sequence[Sequence[int]], action: int) -> bool:
    """Return True if an action, 0 up, 1 right, 2 down or 3 left, changes a board.

    >>> board = [[1, 0, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    >>> [_changes(board, action) for action in range(4)]
    [False, True, True, False]
    """
    for line in board if action % 2 else zip(*board, strict=True):
        a, b, c, d = line if action in (0, 3) else reversed(line)
        if (b and a in (0, b)) or (c and b in (0, c)) or (d and c in (0, d)):
            return True
    return False


def _deal(game: Any, draw: Callable[[], float]) -> Any:
    """Start a game of open_spiel and let chance put both tiles."""
    state = game.new_initial_state()
    _spawn(state, draw)
    _spawn(state, draw)
    return state


def _spawn(state: Any, draw: Callable[[], float]) -> None:
    """Let chance put a tile, at the least cost.

    The outcomes lie in pairs, a 2 (0.9) and a 4 (0.1) for each empty cell: two draws find one
    without a walk along the probabilities.
    """
    outcomes = state.chance_outcomes()
    cell = int(draw() * (len(outcomes) // 2))
    state.apply_action(outcomes[2 * cell + (draw() < 0.1)][0])

"""The other 2048 programs that Python can call, each as something to time.

Every program plays uniformly random legal actions and starts a new game when one is over, in the
form of it that costs the least: two run many boards in one compiled call, two are single games.
No program is imported before it is started, so any of them may be missing.

Run as a script, optionally with names, it prints steps per CPU second:

    python -m benchmarks.speed.peers_2048 pgx jumanji

Time is that of the process with all of its threads, so a second core buys nothing; XLA is held to
one core all the same, because more threads cost it more CPU time. The setting for that is read
once, when jax makes its first array: start a peer before anything else uses jax.
"""

import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from statistics import median
from typing import Any

from benchmarks.speed.timing import Peer, Steps, full_name, installed

SEED = 0
N_BOARDS = 4096
N_SCAN = 32  # vector steps in one compiled call: one at a time is slower, more is hardly faster


def start_pgx() -> Steps:
    """Start pgx, vectorised by jax; the observation is one-hot, `[B, 4, 4, 31]`."""
    jax = _one_core_jax()
    env = import_module("pgx").make("2048")
    step = jax.vmap(import_module("pgx.experimental").auto_reset(env.step, env.init))
    return _scan(
        jax,
        reset=jax.vmap(env.init),
        step=lambda state, action, key: step(state, action, jax.random.split(key, N_BOARDS)),
        mask=lambda state: state.legal_action_mask,
    )


def start_jumanji() -> Steps:
    """Start jumanji, vectorised by jax; the observation is the board, `[B, 4, 4]`.

    Its games start from one tile, not two. The state holds the key of the next tile.
    """
    jax = _one_core_jax()
    wrappers = import_module("jumanji.wrappers")
    game = import_module("jumanji.environments").Game2048()
    env = wrappers.VmapWrapper(wrappers.AutoResetWrapper(game))
    return _scan(
        jax,
        reset=env.reset,
        step=lambda pair, action, _: env.step(pair[0], action),
        mask=lambda pair: pair[1].observation.action_mask,
    )


def start_gymnasium_2048() -> Steps:
    """Start gymnasium-2048, one environment behind `gym.make`.

    It reports an illegal move only after the fact and offers no mask. Of three ways to a legal
    action the cheapest is taken: draw until `_changes` agrees, over the program's own
    `apply_action` and over stepping with whatever was drawn.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    import_module("gymnasium_2048")
    gym = import_module("gymnasium")
    env = gym.make("gymnasium_2048/TwentyFortyEight-v0", disable_env_checker=True)
    board = env.reset(seed=SEED)[1]["board"]
    draw = random.Random(SEED).random

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


def start_open_spiel() -> Steps:
    """Start the C++ game of open_spiel, called from Python through pyspiel.

    A game with no legal action is taken as over, which spares the call that asks. Neither the
    reward nor the observation is fetched. Every action it lists is legal, but it leaves out a
    merge with a tile that the last move made, so its games are not quite uniformly random.
    """
    game = import_module("pyspiel").load_game("2048")
    draw = random.Random(SEED).random
    state = _deal(game, draw)

    def steps(n: int) -> int:
        nonlocal state
        done = 0
        while done < n:
            if actions := state.legal_actions():
                state.apply_action(actions[int(draw() * len(actions))])
                _spawn(state, draw)
                done += 1
            else:
                state = _deal(game, draw)
        return done

    return steps


PEERS: list[Peer] = [
    Peer("pgx", "vector", start_pgx, "pgx"),
    Peer("jumanji", "vector", start_jumanji, "jumanji"),
    Peer("gymnasium-2048", "single", start_gymnasium_2048, "gymnasium_2048"),
    Peer("open_spiel", "single", start_open_spiel, "pyspiel"),
]


def rates(steps: Steps, n_repeats: int = 5, seconds: float = 1.0) -> list[float]:
    """Return steps per CPU second of each repeat, after one call to warm up.

    A repeat ends with the first call that finds `seconds` of CPU time spent.
    """
    steps(1)
    measured = []
    for _ in range(n_repeats):
        start, done, spent = time.process_time(), 0, 0.0
        while spent < seconds:
            done += steps(1000)
            spent = time.process_time() - start
        measured.append(done / spent)
    return measured


def _one_core_jax() -> Any:
    """Import jax for the CPU, with `NPROC=1`: its flags for threads do not keep XLA to one core."""
    os.environ["NPROC"] = "1"
    jax = import_module("jax")
    jax.config.update("jax_platforms", "cpu")
    return jax


def _scan(
    jax: Any,
    reset: Callable[[Any], Any],
    step: Callable[[Any, Any, Any], Any],
    mask: Callable[[Any], Any],
) -> Steps:
    """Compile `N_SCAN` random steps of `N_BOARDS` boards that restart themselves.

    The whole state is carried from step to step: XLA can drop no observation, reward or mask.

    Args:
        jax: the module.
        reset: from keys `[B]` to the states of new games.
        step: from states, actions `[B]` and one key to the next states.
        mask: from states to the legal actions, `[B, 4]`.
    """

    def move(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        state, key = carry
        key, for_action, for_tile = jax.random.split(key, 3)
        action = _random_legal(jax, for_action, mask(state))
        return (step(state, action, for_tile), key), None

    run = jax.jit(lambda carry: jax.lax.scan(move, carry, None, N_SCAN)[0], donate_argnums=0)
    for_games, for_moves = jax.random.split(jax.random.key(SEED))
    carry = jax.jit(reset)(jax.random.split(for_games, N_BOARDS)), for_moves

    def steps(n: int) -> int:
        nonlocal carry
        n_calls = -(-n // (N_SCAN * N_BOARDS))
        for _ in range(n_calls):
            carry = run(carry)
        jax.block_until_ready(carry)
        return n_calls * N_SCAN * N_BOARDS

    return steps


def _random_legal(jax: Any, key: Any, mask: Any) -> Any:
    """Draw a legal action `[B]` for each board from a mask `[B, 4]`."""
    return jax.random.categorical(key, jax.numpy.where(mask, 0.0, -jax.numpy.inf))


def _changes(board: Sequence[Sequence[int]], action: int) -> bool:
    """Return whether an action, 0 up, 1 right, 2 down or 3 left, changes a board.

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


def main() -> None:
    """Print the speed of the named peers, or of all that are installed."""
    names = sys.argv[1:]
    for peer in installed(PEERS):
        if not names or peer.name in names:
            measured = rates(peer.start())
            low, high = min(measured), max(measured)
            print(
                f"{full_name(peer)}: "
                f"{median(measured):,.0f} steps per CPU second, {low:,.0f} to {high:,.0f}"
            )


if __name__ == "__main__":
    main()

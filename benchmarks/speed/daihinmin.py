"""Speed of Daihinmin: playouts, environments, players, and matches over sockets.

A round in this process lasts about one CPU second. A match over sockets is a server and five
clients, each in a process of its own on this machine, in wall time from the end of the first game
to that of the last.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from numba import int64, njit

from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE, play_match
from afterstate.agents.daihinmin.rule_based.players import HeuristicAgent, SampleAgent
from afterstate.envs import daihinmin_v0
from afterstate.envs.daihinmin.cards import weakest
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.plays import N_PLAYS
from afterstate.envs.daihinmin.rules import GameType, give, play_out
from benchmarks.speed.peers import step_gymnasium, step_pettingzoo, step_vector
from benchmarks.speed.timing import Figure, Steps, Subject, in_turn

SOCKET_GAMES = 300
N_SEATS = 1_024


@njit(int64(GameType, int64, int64[::1]))
def _games(match: Any, n: int, out: npt.NDArray[np.int64]) -> int:
    """Play about n random actions in whole games of a match; return their number."""
    done = 0
    while done < n:
        next_game(match)
        while match.to_give > 0:
            give(match, weakest(match.hands[match.turn], match.to_give))
        done += play_out(match, out)
    return done


def start_playouts(seed: int = 0) -> Steps:
    """Start whole random games of one match with deals and exchanges, counted in actions."""
    match, out = new_match(seed), np.empty(N_PLAYS, np.int64)
    return lambda n: int(_games(match, n, out))


def start_env(seed: int = 0) -> Steps:
    """Start the environment with its wrappers, observation and mask, in a match of many games."""
    return step_pettingzoo(daihinmin_v0.env(games=100), seed)


def start_seat() -> Steps:
    """Start `Daihinmin-v0` against sample players; Python draws a random legal action."""
    return step_gymnasium(gym.make("Daihinmin-v0", opponents="sample"), seed=0)


def start_seats(opponents: str) -> Steps:
    """Start 1,024 seats against four such players, with random legal actions."""
    envs = gym.make_vec("Daihinmin-v0", num_envs=N_SEATS, opponents=opponents)
    return step_vector(envs, seed=0)


def start_match(player: type[Player]) -> Steps:
    """Start matches of five such players, counted in games."""
    seeds = count()

    def steps(n: int) -> int:
        n_matches = -(-n // GAMES_PER_CYCLE)
        for _ in range(n_matches):
            for _ in play_match([player() for _ in range(5)], GAMES_PER_CYCLE, next(seeds)):
                pass
        return n_matches * GAMES_PER_CYCLE

    return steps


def _command(name: str, *arguments: Any) -> list[str]:
    """Return the command line of the server, `serve`, or of a client, `join`."""
    return [sys.executable, "-m", "afterstate", name, *map(str, arguments)]


def _wait_for_port(server: subprocess.Popen[bytes], events: Path) -> str:
    """Return the port that the server listens on."""
    while True:
        text = events.read_text() if events.exists() else ""
        if match := re.search(r"listening on .*?:(\d+)", text):
            return match[1]
        assert server.poll() is None, "the server ended"
        time.sleep(0.1)


def _socket_match(seed: int, events: Path) -> float:
    """Return games per second of a match, from the end of its first game to that of the last."""
    options = {"--port": 0, "--games": SOCKET_GAMES, "--seed": seed, "--wait-seconds": 60}
    arguments = [word for option in options.items() for word in option]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = _command("serve", *arguments, "--log", "none", "--events", events)
    processes = [subprocess.Popen(command, **quiet)]
    try:
        port = _wait_for_port(processes[0], events)
        client = _command("join", "--port", port, "--player", "sample")
        processes += [subprocess.Popen(client, **quiet) for _ in range(5)]
        for process in processes:
            process.wait(timeout=300)
    finally:
        for process in processes:
            process.kill()
    entries = map(json.loads, events.read_text().splitlines())
    ends = [entry["time"] for entry in entries if entry["event"] == "game"]
    return float((len(ends) - 1) / (ends[-1] - ends[0]))


def over_sockets(rounds: int) -> Figure:
    """Time whole matches of five sample clients over sockets."""
    with tempfile.TemporaryDirectory() as folder:
        rates = [_socket_match(i, Path(folder) / f"events{i}.jsonl") for i in range(rounds)]
    return Figure("match over sockets, five sample clients", "games/s", rates)


def measure(rounds: int) -> list[Figure]:
    """Return all figures."""
    subjects = [
        Subject("random playouts inside the rules kernel", start_playouts, "actions/CPU s"),
        Subject("daihinmin_v0.env(), random legal steps", start_env),
        Subject("Daihinmin-v0, four sample players", start_seat),
        *(
            Subject(f"the same, B = {N_SEATS}, four {name} players", partial(start_seats, name))
            for name in ("sample", "heuristic")
        ),
    ]
    figures = in_turn(subjects, rounds)
    matches = [
        Subject("five sample players in process", lambda: start_match(SampleAgent), "games/CPU s"),
        Subject("five heuristic players", lambda: start_match(HeuristicAgent), "games/CPU s"),
    ]
    figures += in_turn(matches, rounds, least=100)
    figures.append(over_sockets(rounds))
    return figures

"""Load of the web page: 50 visitors play, ask for hints and let a slow player think.

    python -m benchmarks.speed.web

The command starts a server of its own on loopback. Visitors play 10 moves a second together and ask
for two hints by 2-ply expectimax a second; two more keep a slow player running. Then the same again
with two visitors who let the N-tuple network play as many moves at once as a request may ask for.
The latencies, the errors and the memory are printed and kept in `results/speed_web.txt`.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from afterstate.agents.config import Count, Positive, Whole, settings
from afterstate.envs.commands import parse, run_process
from afterstate.leaderboard.machine import machine
from afterstate.web.requests import MAX_MOVES

RESULT = Path(__file__).parents[1] / "results" / "speed_web.txt"
FAST: dict[str, Any] = {"name": "expectimax", "settings": {"depth": 2}}
SLOW: dict[str, Any] = {"name": "expectimax", "settings": {"depth": 5}}
GREEDY: dict[str, Any] = {"name": "ntuple", "settings": {}}
N_SLOW = 2
Latencies = dict[str, list[float]]


@settings
class Args:
    """Measure the latencies of the web page under load."""

    visitors: Count = 50
    """Visitors who play."""
    seconds: Positive = 30.0
    """Length of the load, in seconds."""
    moves: Positive = 10.0
    """Moves a second, of all visitors together."""
    hints: Positive = 2.0
    """Hints a second, of all visitors together."""
    runs: Whole = 2
    """Visitors who let the N-tuple network play many moves at once, in a second load."""
    run_moves: Count = MAX_MOVES
    """Moves at once of the N-tuple network."""
    out: Path = RESULT
    """File of the result."""


class Visitor:
    """A visitor with a game."""

    def __init__(self, address: str, latencies: Latencies) -> None:
        self.client = httpx.AsyncClient(base_url=address, timeout=60)
        self._latencies = latencies
        self.turn, self.legal = 0, [True] * 4

    async def post(self, kind: str, path: str, **body: Any) -> Any:
        """Return the answer to a request; its latency or its error is kept."""
        start = time.perf_counter()
        answer = await self.client.post(f"/api/{path}", json=body)
        name = kind if answer.status_code == 200 else f"{kind}: status {answer.status_code}"
        self._latencies[name].append(time.perf_counter() - start)
        return answer.json()

    async def begin(self, seed: int) -> None:
        """Start a game."""
        self._keep(await self.post("new game", "2048/new", seed=seed))

    async def move(self) -> None:
        """Play a legal move, or start a new game at the end."""
        if not any(self.legal):
            await self.begin(1)
        action = self.legal.index(True)
        self._keep(await self.post("move", "2048/move", action=action, turn=self.turn))

    async def hint(self) -> None:
        """Ask for a hint."""
        if any(self.legal):
            await self.post("hint by 2-ply", "2048/hint", player=FAST)

    async def run(self, player: dict[str, Any], moves: int) -> None:
        """Let a player play many moves, in a new game if the last one is over."""
        if not any(self.legal):
            await self.begin(1)
        body = {"player": player, "moves": moves, "turn": self.turn}
        answer = await self.post("many moves", "2048/run", **body)
        if "played" in answer:
            self._keep(answer["played"][-1])

    def _keep(self, state: Any) -> None:
        """Keep turn and legal moves of a position."""
        self.turn, self.legal = state["turn"], state["legal"]


async def load(address: str, args: Args) -> Latencies:
    """Return the latencies of all kinds of requests under the load."""
    latencies: Latencies = defaultdict(list)
    visitors = [Visitor(address, latencies) for _ in range(args.visitors)]
    slow = [Visitor(address, defaultdict(list)) for _ in range(N_SLOW)]
    long = [Visitor(address, latencies) for _ in range(args.runs)]
    for seed, visitor in enumerate([*visitors, *slow, *long]):
        await visitor.begin(seed)
    latencies.clear()
    end = time.monotonic() + args.seconds
    tasks = [asyncio.create_task(_keep_thinking(each, end)) for each in slow]
    tasks += [asyncio.create_task(_keep_running(each, args.run_moves, end)) for each in long]
    for each, visitor in enumerate(visitors):
        offset = each / args.visitors
        tasks.append(asyncio.create_task(_play(visitor, args, end, offset)))
    await asyncio.gather(*tasks)
    for visitor in [*visitors, *slow, *long]:
        await visitor.client.aclose()
    return latencies


async def _play(visitor: Visitor, args: Args, end: float, offset: float) -> None:
    """Move and ask for hints at a visitor's share of the rates, until the end."""
    every = args.visitors / args.moves
    per_move = args.hints / args.moves
    await asyncio.sleep(every * offset)
    owed = offset
    while time.monotonic() < end:
        start = time.monotonic()
        await visitor.move()
        owed += per_move
        if owed >= 1:
            owed -= 1
            await visitor.hint()
        await asyncio.sleep(max(0.0, every - (time.monotonic() - start)))


async def _keep_thinking(visitor: Visitor, end: float) -> None:
    """Let a slow player run, each time up to the limit of a search."""
    while time.monotonic() < end:
        await visitor.post("slow", "2048/run", player=SLOW, moves=MAX_MOVES, turn=visitor.turn)


async def _keep_running(visitor: Visitor, moves: int, end: float) -> None:
    """Let the N-tuple network play games, as many moves at once as a request may ask for."""
    while time.monotonic() < end:
        await visitor.run(GREEDY, moves)


def report(latencies: Latencies, args: Args) -> str:
    """Return the latencies as text."""
    lines = [
        f"{args.visitors} visitors for {args.seconds:g} s, besides {N_SLOW} slow players and "
        f"{args.runs} visitors who let {args.run_moves:,} moves be played at once",
    ]
    for kind, values in sorted(latencies.items()):
        p50, p95, p99 = (1000 * float(each) for each in np.quantile(values, (0.5, 0.95, 0.99)))
        lines.append(
            f"{kind:16}{len(values):6,} requests, ms: median {p50:6.1f}, 95% {p95:6.1f}, "
            f"99% {p99:6.1f}, most {1000 * max(values):6.1f}"
        )
    return "\n".join(lines)


def memory_of(server: int) -> str:
    """Return the memory of a server and its processes, with shared pages counted once."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()[1:]]
    family = {server}
    while more := {pid for pid, parent in pairs if parent in family} - family:
        family |= more
    total = 0
    for pid in family:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        match = re.search(r"^Pss: +(\d+)", text, re.MULTILINE)
        total += int(match[1]) if match else 0
    return f"memory of {len(family)} processes: {total / 1024:,.0f} MiB"


def open_other_views(address: str) -> None:
    """Watch a game of Daihinmin, and open the leaderboard and the rows of a player."""
    seats = ["sample", "heuristic", "policy", "mc", "sample"]
    with httpx.Client(base_url=f"{address}api/", timeout=60) as client:
        body = {"players": [{"name": f"daihinmin-{name}"} for name in seats], "seed": 1}
        state = client.post("daihinmin/new", json=body).raise_for_status().json()
        while not state["over"]:
            answer = client.post("daihinmin/advance", json={"turn": state["turn"]})
            state = answer.raise_for_status().json()
        for game in ("2048", "daihinmin"):
            results = client.get(f"leaderboard/{game}").raise_for_status().json()["results"]
            name = {"name": results[0]["name"]}
            client.get(f"leaderboard/{game}/rows", params=name).raise_for_status()


def main(args: Args) -> None:
    """Start a server, put the load on it, and write the result."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "afterstate", "web", "--port", "0", "--no-open"]
        command += ["--folder", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = server.stdout.readline().split()[0]
                while not httpx.get(f"{address}api/me", timeout=60).json()["ready"]:
                    time.sleep(0.2)
                parts = [", ".join(f"{name} {value}" for name, value in machine().items())]
                for each in (replace(args, runs=0), args):
                    parts.append(report(asyncio.run(load(address, each)), each))
                parts.append(f"after games of 2048: {memory_of(server.pid)}")
                open_other_views(address)
                parts.append(f"after all views: {memory_of(server.pid)}")
            finally:
                server.terminate()
    text = "\n".join(parts) + "\n"
    args.out.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    sys.exit(run_process(lambda: main(parse(Args, "python -m benchmarks.speed.web"))))

"""Speed of alpha-beta search, compared with the original program in JavaScript.

    python -m benchmarks.speed.alphabeta
    python -m benchmarks.speed.alphabeta --original 2048-AI --out speed_alphabeta.txt

Boards are from games of our own player. Programs search all of them to each depth in turn, for
about one CPU second a turn. The first pass of each is not counted: it checks that the programs find
the same moves and values and visit the same number of positions. Our program gets all boards in one
call, as when it plays games. Then it is timed with each of its settings of `cutoffs`.

The original is 2048-AI by Matt Overlan, under the MIT license, as it is at
https://github.com/ovolve/2048-AI. Its folder needs `js/ai.js`, `js/grid.js` and `js/tile.js`
only; node runs them. Its time is that of the whole process, with the threads that compile and
collect garbage.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from afterstate.agents.config import Count, settings
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.alphabeta import (
    CUTOFFS,
    AlphaBetaAgent,
    AlphaBetaSettings,
    Cutoffs,
    SearchResult,
)
from afterstate.agents.progress import progress_bar
from afterstate.envs.commands import parse, run_process
from afterstate.envs.game2048.rules import cells
from benchmarks.speed.timing import Figure, show

DEPTHS = (3, 4, 5, 6)
"""Depths in moves; the original calls them 2 to 5."""

DEEPER = (5, 6, 7, 8)
"""Depths at which the settings of `cutoffs` are compared."""

N_GAMES, MOVES = 6, (100, 300, 500, 700, 900)
"""Number of games, and the moves before which boards are taken, all without a 2048 tile."""

SECONDS = 1.0

ORIGINAL = ("tile", "grid", "ai")
"""Files of the original, in the order in which they are loaded."""

DRIVER = """
const fs = require("fs"), vm = require("vm");
const read = (file) => vm.runInThisContext(fs.readFileSync(file, "utf8"), file);
process.argv.slice(1).forEach(read);
function gridOf(rows) {
  const grid = new Grid(4);
  rows.forEach((row, y) => row.forEach((value, x) => {
    if (value) grid.insertTile(new Tile({ x, y }, value));
  }));
  return grid;
}
let grids;
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const task = JSON.parse(line);
  grids = grids || task.boards.map(gridOf);
  const before = process.cpuUsage();
  const results = grids.map((grid) => new AI(grid).search(task.depth - 1, -10000, 10000, 0, 0));
  const used = process.cpuUsage(before);
  const answers = results.map((one) => [Number(one.move), one.score, one.positions]);
  console.log(JSON.stringify({ answers, seconds: (used.user + used.system) / 1e6 }));
});
"""
"""Program for node: search all boards to the depth of each line of its input."""


class Answer(NamedTuple):
    """Result of a search."""

    action: int
    value: float
    positions: int


class Pass(NamedTuple):
    """One search of each board."""

    answers: list[Answer]
    seconds: float  # of CPU time


Program = Callable[[int], Pass]
"""Search all boards to a depth."""


def boards() -> list[int]:
    """Return the board words to search."""
    result: list[int] = []
    moves = count(1)

    def watch(_: Any, words: Any, __: Any) -> None:
        if next(moves) in MOVES:
            result.extend(words.tolist())

    play(AlphaBetaAgent(AlphaBetaSettings(depth=2)), N_GAMES, watch=watch)
    return result


def ours(words: Sequence[int], cutoffs: Cutoffs = "worse") -> Program:
    """Return our program; its time is that of the moves alone, without values and counts."""
    array = np.array(words, np.uint64)

    def agent(depth: int) -> AlphaBetaAgent:
        return AlphaBetaAgent(AlphaBetaSettings(depth=depth, cutoffs=cutoffs))

    @cache
    def results(depth: int) -> list[SearchResult]:
        player = agent(depth)
        return [player.search(word) for word in words]

    def search(depth: int) -> Pass:
        player, searched = agent(depth), results(depth)
        start = time.process_time()
        actions = player.act(array)
        seconds = time.process_time() - start
        both = zip(actions.tolist(), searched, strict=True)
        return Pass([Answer(action, one.value, one.n_searched) for action, one in both], seconds)

    return search


@contextmanager
def original(folder: Path, words: Sequence[int]) -> Iterator[Program]:
    """Run the original program until the context is left.

    Raises:
        OSError: it is not in the folder, node is missing, or it stops.
    """
    paths = [folder / "js" / f"{name}.js" for name in ORIGINAL]
    for path in paths:
        path.open().close()
    exponents = [cells(np.uint64(word)).tolist() for word in words]
    tiles = [[[1 << e if e else 0 for e in row] for row in board] for board in exponents]
    command = ["node", "-e", DRIVER, *map(str, paths)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as node:
        assert node.stdin is not None and node.stdout is not None
        to_node, from_node = node.stdin, node.stdout

        def search(depth: int) -> Pass:
            print(json.dumps({"boards": tiles, "depth": depth}), file=to_node)
            to_node.flush()
            line = from_node.readline()
            if not line:
                raise OSError(f"node stopped while it ran the program in {folder}")
            reply = json.loads(line)
            return Pass([Answer(*one) for one in reply["answers"]], reply["seconds"])

        yield search


def check(words: Sequence[int], programs: Mapping[str, Program]) -> dict[int, int]:
    """Let all programs search once to each depth, and compare their results.

    Returns:
        The mean number of positions of a search, by depth.

    Raises:
        ValueError: the results differ.
    """
    sizes = {}
    for depth in DEPTHS:
        answers = {name: program(depth).answers for name, program in programs.items()}
        (name, first), *others = answers.items()
        for other, theirs in others:
            for word, one, two in zip(words, first, theirs, strict=True):
                if not same(one, two):
                    board = f"board {word:#018x}, depth {depth}"
                    raise ValueError(f"{board}: {name} found {one}, {other} {two}")
        sizes[depth] = size(first)
    return sizes


def same(one: Answer, other: Answer) -> bool:
    """Return True if results are the same up to the rounding of values."""
    return abs(one.value - other.value) < 1e-9 and one._replace(value=other.value) == other


def speed(program: Program, depth: int) -> float:
    """Return positions per CPU second, over passes of at least `SECONDS`."""
    positions, seconds = 0, 0.0
    while seconds < SECONDS:
        answers, took = program(depth)
        positions += sum(answer.positions for answer in answers)
        seconds += took
    return positions / seconds


def measure(words: Sequence[int], programs: Mapping[str, Program], rounds: int) -> list[Figure]:
    """Time the programs in turn."""
    sizes = check(words, programs)
    turns = [(depth, name) for depth in DEPTHS for name in programs]
    speeds: dict[tuple[int, str], list[float]] = {turn: [] for turn in turns}
    for _ in progress_bar(range(rounds), unit="rounds", leave=False):
        for depth, name in turns:
            speeds[depth, name].append(speed(programs[name], depth))
    result = [
        Figure(f"depth {d}, {sizes[d]:,} positions a search, {name}", "positions/CPU s", values)
        for (d, name), values in speeds.items()
    ]
    for depth in DEPTHS if len(programs) > 1 else ():
        pairs = zip(*(speeds[depth, name] for name in programs), strict=True)
        name = f"depth {depth}, {' : '.join(programs)}"
        result.append(Figure(name, "times", [one / other for one, other in pairs]))
    return result


def searches(words: Sequence[int], rounds: int) -> list[Figure]:
    """Time our search with each setting of `cutoffs`.

    Raises:
        ValueError: the results differ.
    """
    programs = {cutoffs: ours(words, cutoffs) for cutoffs in CUTOFFS}
    turns = [(depth, cutoffs) for depth in DEEPER for cutoffs in CUTOFFS]
    results = {turn: programs[turn[1]](turn[0]).answers for turn in turns}
    for depth in DEEPER:
        one, other = ([answer[:2] for answer in results[depth, cutoffs]] for cutoffs in CUTOFFS)
        if one != other:
            raise ValueError(f"depth {depth}: results depend on cutoffs")
    took: dict[tuple[int, Cutoffs], list[float]] = {turn: [] for turn in turns}
    for _ in progress_bar(range(rounds), unit="rounds", leave=False):
        for depth, cutoffs in turns:
            took[depth, cutoffs].append(1e6 * programs[cutoffs](depth).seconds / len(words))
    return [
        Figure(
            f"depth {turn[0]}, cutoffs {turn[1]!r}, {size(results[turn]):,} positions",
            "CPU us a search",
            values,
        )
        for turn, values in took.items()
    ]


def size(answers: Sequence[Answer]) -> int:
    """Return the mean number of positions of a search."""
    return round(sum(answer.positions for answer in answers) / len(answers))


def figures(folder: Path | None, rounds: int) -> list[Figure]:
    """Time our program, and the original if its folder is given."""
    words = boards()
    us, times = ours(words), searches(words, rounds)
    if folder is None:
        return [*measure(words, {"ours": us}, rounds), *times]
    with original(folder, words) as them:
        return [*measure(words, {"ours": us, "the original": them}, rounds), *times]


@settings
class Args:
    """Time alpha-beta search for 2048."""

    original: Path | None = None
    """Folder of the original program."""
    rounds: Count = 5
    """Rounds."""
    out: Path | None = None
    """File for the figures."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args, facts = parse(Args, "python -m benchmarks.speed.alphabeta", arguments), dict[str, str]()
    if args.original:
        command = ["node", "-p", "process.versions.node"]
        facts["node"] = subprocess.check_output(command, text=True).strip()
    show(figures(args.original, args.rounds), args.out, **facts)


if __name__ == "__main__":
    sys.exit(run_process(main))

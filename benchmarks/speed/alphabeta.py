"""How fast alpha-beta search is, also beside the original program, which is written in JavaScript.

    python -m benchmarks.speed.alphabeta
    python -m benchmarks.speed.alphabeta --original 2048-AI --out speed_alphabeta.txt

Boards are of games of our own player. Programs search all of them to each depth in turn, round
after round, for about a second of CPU time a turn. A first pass of each is not counted: in it the
programs have to find the same moves and values and to look at as many positions. Ours is asked for
the moves of all boards in one call, as where it plays games. At last ours is timed by what it cuts
off: `cutoffs` of its settings.

The original is 2048-AI by Matt Overlan, under the MIT licence, as it is at
https://github.com/ovolve/2048-AI. Its folder needs no more than `js/ai.js`, `js/grid.js` and
`js/tile.js`; node runs them. Its time is that of its whole process, with the threads that compile
and collect garbage.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.alphabeta import (
    CUTOFFS,
    AlphaBetaAgent,
    Cutoffs,
    SearchResult,
    Settings,
)
from afterstate.agents.training.commands import whole_above_0
from afterstate.envs.game2048.rules import cells
from benchmarks.machine import machine
from benchmarks.speed.timing import Figure, lines

DEPTHS = (3, 4, 5, 6)
"""In moves; the original calls them 2 to 5."""

DEEPER = (5, 6, 7, 8)
"""For searches that cut off lines that are as good, too, beside those that do not."""

N_GAMES, MOVES = 6, (100, 300, 500, 700, 900)
"""How many games boards are of, and before which of their moves, none with a tile of 2048 yet."""

SECONDS = 1.0

ORIGINAL = ("tile", "grid", "ai")
"""Its files, in the order in which they are loaded."""

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
  const asked = JSON.parse(line);
  grids = grids || asked.boards.map(gridOf);
  const before = process.cpuUsage();
  const found = grids.map((grid) => new AI(grid).search(asked.depth - 1, -10000, 10000, 0, 0));
  const used = process.cpuUsage(before);
  const answers = found.map((one) => [Number(one.move), one.score, one.positions]);
  console.log(JSON.stringify({ answers, seconds: (used.user + used.system) / 1e6 }));
});
"""
"""What node is told: to search all boards to the depth of each line of its input."""


class Answer(NamedTuple):
    """What a search found."""

    action: int
    value: float
    positions: int


class Pass(NamedTuple):
    """One search of each board."""

    answers: list[Answer]
    seconds: float  # of CPU time


Program = Callable[[int], Pass]
"""Searches all boards to a depth."""


def boards() -> list[int]:
    """The board words that are searched."""
    found: list[int] = []
    moves = count(1)

    def watch(_: Any, words: Any, __: Any) -> None:
        if next(moves) in MOVES:
            found.extend(words.tolist())

    play(AlphaBetaAgent(Settings(depth=2)), N_GAMES, watch=watch)
    return found


def ours(words: Sequence[int], cutoffs: Cutoffs = "worse") -> Program:
    """Our program, timed where it is asked for moves; values and counts are asked for apart."""
    array = np.array(words, np.uint64)

    def agent(depth: int) -> AlphaBetaAgent:
        return AlphaBetaAgent(Settings(depth=depth, cutoffs=cutoffs))

    @cache
    def found(depth: int) -> list[SearchResult]:
        player = agent(depth)
        return [player.search(word) for word in words]

    def search(depth: int) -> Pass:
        player, told = agent(depth), found(depth)
        began = time.process_time()
        actions = player.act(array)
        seconds = time.process_time() - began
        both = zip(actions.tolist(), told, strict=True)
        return Pass([Answer(action, one.value, one.positions) for action, one in both], seconds)

    return search


@contextmanager
def original(folder: Path, words: Sequence[int]) -> Iterator[Program]:
    """The original program, which runs until the context is left.

    Raises:
        OSError: it is not in the folder, there is no node, or it breaks off.
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
                raise OSError(f"node broke off with the program in {folder}")
            found = json.loads(line)
            return Pass([Answer(*one) for one in found["answers"]], found["seconds"])

        yield search


def check(words: Sequence[int], programs: Mapping[str, Program]) -> dict[int, int]:
    """Lets all programs search once to each depth.

    Returns:
        How many positions a search has on average, by depth.

    Raises:
        ValueError: they do not find the same.
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
    """Whether searches found the same; values may be rounded otherwise."""
    return abs(one.value - other.value) < 1e-9 and one._replace(value=other.value) == other


def speed(program: Program, depth: int) -> float:
    """Positions per CPU second in as many passes as take the time."""
    positions, seconds = 0, 0.0
    while seconds < SECONDS:
        answers, took = program(depth)
        positions += sum(answer.positions for answer in answers)
        seconds += took
    return positions / seconds


def measure(words: Sequence[int], programs: Mapping[str, Program], rounds: int) -> list[Figure]:
    """Times the programs in turn."""
    sizes = check(words, programs)
    turns = [(depth, name) for depth in DEPTHS for name in programs]
    speeds: dict[tuple[int, str], list[float]] = {turn: [] for turn in turns}
    for _ in tqdm(range(rounds), unit=" rounds", leave=False):
        for depth, name in turns:
            speeds[depth, name].append(speed(programs[name], depth))
    found = [
        Figure(f"depth {d}, {sizes[d]:,} positions a search, {name}", "positions/CPU s", values)
        for (d, name), values in speeds.items()
    ]
    for depth in DEPTHS if len(programs) > 1 else ():
        pairs = zip(*(speeds[depth, name] for name in programs), strict=True)
        told = f"depth {depth}, {' : '.join(programs)}"
        found.append(Figure(told, "times", [one / other for one, other in pairs]))
    return found


def searches(words: Sequence[int], rounds: int) -> list[Figure]:
    """Times our searches by what they cut off.

    Raises:
        ValueError: they do not find the same.
    """
    programs = {cutoffs: ours(words, cutoffs) for cutoffs in CUTOFFS}
    turns = [(depth, cutoffs) for depth in DEEPER for cutoffs in CUTOFFS]
    found = {turn: programs[turn[1]](turn[0]).answers for turn in turns}
    for depth in DEEPER:
        one, other = ([answer[:2] for answer in found[depth, cutoffs]] for cutoffs in CUTOFFS)
        if one != other:
            raise ValueError(f"depth {depth}: what is found depends on what is cut off")
    took: dict[tuple[int, Cutoffs], list[float]] = {turn: [] for turn in turns}
    for _ in tqdm(range(rounds), unit=" rounds", leave=False):
        for depth, cutoffs in turns:
            took[depth, cutoffs].append(1e6 * programs[cutoffs](depth).seconds / len(words))
    return [
        Figure(
            f"depth {turn[0]}, cutoffs {turn[1]!r}, {size(found[turn]):,} positions",
            "CPU us a search",
            values,
        )
        for turn, values in took.items()
    ]


def size(answers: Sequence[Answer]) -> int:
    """How many positions a search has on average."""
    return round(sum(answer.positions for answer in answers) / len(answers))


def figures(folder: Path | None, rounds: int) -> list[Figure]:
    """Times our program, and the original in a folder if there is one."""
    words = boards()
    us, times = ours(words), searches(words, rounds)
    if folder is None:
        return [*measure(words, {"ours": us}, rounds), *times]
    with original(folder, words) as them:
        return [*measure(words, {"ours": us, "the original": them}, rounds), *times]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Times alpha-beta search for 2048.")
    add = parser.add_argument
    add("--original", type=Path, metavar="DIR", help="folder of the original program")
    add("--rounds", type=whole_above_0, default=5, help="(%(default)s)")
    add("--out", type=Path, help="file for the figures")
    chosen = parser.parse_args(arguments)
    here = machine()
    try:
        if chosen.original:
            asked = ["node", "-p", "process.versions.node"]
            here["node"] = subprocess.check_output(asked, text=True).strip()
        found = lines(figures(chosen.original, chosen.rounds))
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error
    head = ", ".join(f"{name} {value}" for name, value in here.items())
    printed = "\n".join([head, *found])
    print(printed)
    if chosen.out:
        chosen.out.write_text(printed + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

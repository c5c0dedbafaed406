"""Time that the papers' full experiments take on 16, 64 and 1,024 cores, by measured rates.

    python -m benchmarks.experiments.full_scale

Prints the table of `docs/cluster.md`. Rates are those of one core in the committed results, of the
processor in its column; work is divided evenly, but no call is shorter than it is on one core.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from afterstate.agents.training.tables import markdown
from afterstate.envs import json_files
from benchmarks.experiments.daihinmin import settings as daihinmin_settings
from benchmarks.experiments.quasi_greedy import settings as quasi_greedy_settings

RESULTS = Path(__file__).parents[1] / "results"
CORES = (16, 64, 1024)

BATCH = 25
"""Samples of an iteration of the paper on Daihinmin."""
ACTIONS = 80
"""Decisions of a game of Daihinmin, of all five players."""
MOVES = 19_000
"""Moves of a game of 2048 with 530,000 points, the paper's score with 2,000 simulations."""
EPYC, XEON = "EPYC", "Xeon"
"""Processors of the rates."""


class Work(NamedTuple):
    """A part of a paper: how much of it there is, and how fast one core is.

    Attributes:
        name: what is done.
        amount: how often.
        unit: of what.
        rate: of one core, a second.
        cpu: processor of the rate.
        longest: share of the longest part that cannot be divided.
    """

    name: str
    amount: float
    unit: str
    rate: float
    cpu: str
    longest: float

    def hours(self, cores: int) -> float:
        """Return the hours on a number of cores."""
        return self.amount / self.rate * max(1 / cores, self.longest) / 3600


class Rate(NamedTuple):
    """A rate of one core, and its processor."""

    a_second: float
    cpu: str


def rates(experiment: str) -> dict[str, Rate]:
    """Return the moves a second of the runs of quasi-greedy learning, each at its largest scale.

    Of several seeds it is the slowest, since they may have run on different processors.
    """
    rows = json_files.rows(RESULTS / "experiments" / "quasi_greedy" / f"{experiment}.jsonl")
    largest = {row["run"]: row["scale"] for row in sorted(rows, key=lambda row: row["moves"])}
    by_run: dict[str, list[Rate]] = {}
    for row in rows:
        if row["share"] == 1 and row["scale"] == largest[row["run"]]:
            rate = Rate(row["moves"] / row["seconds"], processor(row["machine"]["cpu"]))
            by_run.setdefault(row["run"], []).append(rate)
    return {run: min(each) for run, each in by_run.items()}


def processor(cpu: str) -> str:
    """Return the short name of a processor, with its generation if the row has one."""
    name = XEON if XEON in cpu else EPYC
    return f"{name} (Zen 5)" if "family 26" in cpu else name


def seconds_each(game: str, player: str) -> float:
    """Return the CPU time per move of a player of the leaderboard."""
    with (RESULTS / "leaderboard" / f"{game}.csv").open(encoding="utf-8", newline="") as file:
        return next(
            float(row["cpu_seconds_each"])
            for row in csv.DictReader(file)
            if row["player"] == player
        )


def per_core(file: str, line: str, cores: int = 2) -> float:
    """Return the rate of a line of a table of speeds, divided by the cores that it had."""
    return number_of(file, line, r" +([\d,.]+)") / cores


def mean_time(line: str) -> float:
    """Return the mean time of a line of the table of speeds of rank networks."""
    return number_of("speed_rank_nets.txt", line, r" .* mean ([\d.]+)")


def number_of(file: str, line: str, pattern: str) -> float:
    """Return the number that a pattern finds after the beginning of a line of a file.

    Raises:
        ValueError: there is no such line.
    """
    text = (RESULTS / file).read_text(encoding="utf-8")
    match = re.search(rf"^{re.escape(line)}{pattern}", text, re.MULTILINE)
    if match is None:
        raise ValueError(f"{file} must have a line {line!r}")
    return float(match[1].replace(",", ""))


def simulated(simulations: int) -> float:
    """Return the moves a second of CNN22 with that many simulations, as measured last."""
    rows = json_files.rows(RESULTS / "experiments" / "mc_softmax" / "games.jsonl")
    times = [
        row["cpu_us_per_move"]
        for row in rows
        if row["group"] == "simulations"
        and row["settings"]["simulations"] == simulations
        and row["settings"]["network"] == "value-net"
    ]
    return 1e6 / float(times[-1])


LEARNED = {
    "BaseCNN16": "BaseCNN16",
    "BaseCNN128": "BaseCNN128",
    "HistoryCNN": "HistoryCNN",
    "Self": "BaseCNN128",
}
"""Networks of Daihinmin that learn from a log, and the one of self-play, with their shapes."""


def searched() -> dict[str, float]:
    """Return the moves of the runs with search in self-play, in the paper."""
    runs = quasi_greedy_settings.read("search").runs
    moves = {run.name: run.published[-1].learned for run in runs}
    return {name: n for name, n in moves.items() if n is not None}


def works() -> Iterator[Work]:
    """Yield what the papers did, without their evaluation games."""
    yield from quasi_greedy()
    yield from policy_nets()
    name = "MC Softmax: 100 games of CNN22 with 2,000 simulations"
    yield Work(name, 100 * MOVES, "moves", simulated(2000), EPYC, 1 / 100)
    yield from daihinmin()
    yield until_2048()


def until_2048() -> Work:
    """Return the games with a limit of 100 ms a move, as long as those that were played."""
    rows = json_files.rows(RESULTS / "experiments" / "alphabeta" / "reached.jsonl")
    moves = sum(row["moves"] for row in rows)
    seconds = sum(row["moves"] * row["ms_per_move"] / 1e3 for row in rows)
    name, cpu = "2048-AI: 100 games at 100 ms", processor(rows[-1]["machine"]["cpu"])
    return Work(name, 100 * moves / len(rows), "moves", moves / seconds, cpu, 1 / 100)


def quasi_greedy() -> Iterator[Work]:
    """Yield the runs of the paper on quasi-greedy learning, five of a setting, one of restart."""
    restart, epsilon, good = rates("restart"), rates("epsilon"), rates("good_plays")
    slowest = min(restart["restart"], restart["no restart"])
    yield Work("quasi-greedy: with and without restart", 8e10, "moves", *slowest, 1 / 2)
    rate = min(each for run, each in good.items() if run.startswith("P ="))
    yield Work("quasi-greedy: good plays, 6 settings", 1.5e12, "moves", *rate, 1 / 30)
    rate = min(epsilon.values())
    yield Work("quasi-greedy: random moves, 4 settings", 1e12, "moves", *rate, 1 / 20)
    rate_of, moves = rates("search"), searched()
    seconds = [n / rate_of[run].a_second for run, n in moves.items()]
    total, longest = 5 * sum(moves.values()), max(seconds) / (5 * sum(seconds))
    name, cpu = "quasi-greedy: search in self-play, 6 settings", rate_of["greedy only"].cpu
    yield Work(name, total, "moves", total / (5 * sum(seconds)), cpu, longest)


def policy_nets() -> Iterator[Work]:
    """Yield the log and the learning of the paper on policy networks."""
    log = 1 / seconds_each("2048", "expectimax, 3-ply")
    yield Work("policy networks: log by 3-ply search", 6e8, "moves", log, EPYC, 1 / 45_000)
    for k in (2, 5):
        learned = per_core("speed_neural.txt", f"policy, k = {k}, learns, batch 512, 16 bits", 1)
        yield Work(f"policy networks: k = {k} learns", 6e8, "moves", learned, XEON, 1)


def daihinmin() -> Iterator[Work]:
    """Yield the games and the learning of the paper on Daihinmin."""
    decision = seconds_each("daihinmin", "Monte Carlo, 500 playouts")
    name = "Daihinmin: two logs of 500 playouts a decision"
    yield Work(name, 2e7, "games", 1 / (ACTIONS * decision), EPYC, 1 / 100_000)
    played = per_core("speed_rank_nets.txt", "self-play, BaseCNN32, 16-bit, two processes")
    narrow, wide = (mean_time(f"decision, BaseCNN{channels}") for channels in (32, 128))
    name = "Daihinmin: self-play of 256 generations, BaseCNN128"
    yield Work(name, 1e8, "games", played * narrow / wide, EPYC, 1 / 100_000)
    players = daihinmin_settings.read("logs").players
    for name, what in LEARNED.items():
        published = players[name].published
        assert published is not None and published.iterations is not None
        line = f"learns, {what}, batches of 25"
        rate = number_of("speed_rank_learning.txt", line, r" +([\d,.]+)")
        amount = BATCH * published.iterations
        yield Work(f"Daihinmin: {name} learns", amount, "samples", rate, EPYC, 1)


def table() -> str:
    """Return the hours on each number of cores, in Markdown."""
    head = ["work", "amount", "per second on one core", "processor", "core-hours"]
    head += [f"hours on {n:,} cores" for n in CORES]
    body = [
        [
            *(each.name, f"{each.amount:,.0f} {each.unit}", _short(each.rate), each.cpu),
            *(_short(each.hours(cores)) for cores in (1, *CORES)),
        ]
        for each in works()
    ]
    return markdown(head, body)


def _short(number: float) -> str:
    """Return a number with two digits, or without decimals."""
    return f"{number:.2g}" if number < 10 else f"{number:,.0f}"


if __name__ == "__main__":
    print(table())

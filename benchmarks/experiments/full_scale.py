"""Time that the papers' full experiments take on 16, 64 and 1,024 cores, by measured rates.

    python -m benchmarks.experiments.full_scale

Prints the table of `docs/cluster.md`. Rates are those of one core in the committed results, of the
processor in its column. Each core makes one call after the other, the longest calls first.
"""

from __future__ import annotations

import csv
import heapq
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from afterstate.envs import json_files
from afterstate.text_tables import markdown
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
    """A part of a paper: how much of it there is, and the calls that it is divided into.

    Attributes:
        name: what is done.
        amount: how often.
        unit: of what.
        calls: seconds of each call on one core.
        cpu: processor of the rates.
    """

    name: str
    amount: float
    unit: str
    calls: Sequence[float]
    cpu: str

    @property
    def rate(self) -> float:
        """The amount that one core does in a second."""
        return self.amount / sum(self.calls)

    def hours(self, cores: int) -> float:
        """Return the hours on a number of cores, each of which takes the longest call that is left.

        >>> work = Work("runs", 7_200, "moves", [3_600, 1_800, 1_800], "any")
        >>> work.hours(1), work.hours(2), work.hours(64)
        (2.0, 1.0, 1.0)
        """
        ends = [0.0] * min(cores, len(self.calls))
        for call in sorted(self.calls, reverse=True):
            heapq.heapreplace(ends, ends[0] + call)
        return max(ends) / 3600


def divided(name: str, amount: float, unit: str, rate: float, cpu: str, n_calls: int = 1) -> Work:
    """Return work of equal calls, at the rate of one core."""
    return Work(name, amount, unit, [amount / rate / n_calls] * n_calls, cpu)


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
    zen = {"family 26": " (Zen 5)", "family 25, model 17": " (Zen 4)"}
    return name + next((text for model, text in zen.items() if model in cpu), "")


def leaderboard_rate(game: str, player: str) -> Rate:
    """Return the moves or decisions a second of a player of the leaderboard."""
    with (RESULTS / "leaderboard" / f"{game}.csv").open(encoding="utf-8", newline="") as file:
        row = next(row for row in csv.DictReader(file) if row["player"] == player)
    return Rate(1 / float(row["cpu_seconds_each"]), processor(row["machine"]))


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
    **{name: name for name in ("BaseCNN16", "BaseCNN32", "BaseCNN64", "BaseCNN128")},
    "BaseCNN128eps": "BaseCNN128",
    "HistoryCNN": "HistoryCNN",
    "HistoryCNNeps": "HistoryCNN",
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
    yield divided(name, 100 * MOVES, "moves", simulated(2000), EPYC, 100)
    yield from daihinmin()
    yield until_2048()


def until_2048() -> Work:
    """Return the games with a limit of 100 ms a move, as long as those that were played."""
    rows = json_files.rows(RESULTS / "experiments" / "alphabeta" / "reached.jsonl")
    moves = sum(row["moves"] for row in rows)
    seconds = sum(row["moves"] * row["ms_per_move"] / 1e3 for row in rows)
    name, cpu = "2048-AI: 100 games at 100 ms", processor(rows[-1]["machine"]["cpu"])
    return divided(name, 100 * moves / len(rows), "moves", moves / seconds, cpu, 100)


def quasi_greedy() -> Iterator[Work]:
    """Yield the runs of the paper on quasi-greedy learning, five of a setting, one of restart."""
    restart, epsilon, good = rates("restart"), rates("epsilon"), rates("good_plays")
    own = [run.name for run in quasi_greedy_settings.read("epsilon").runs if run.published]
    baselines = {run: restart[run] for run in ("restart", "no restart")}
    yield _runs("with and without restart", baselines, dict.fromkeys(baselines, 4e10), 1)
    good = {run: rate for run, rate in good.items() if run.startswith("P =")}
    yield _runs("good plays, 6 settings", good, dict.fromkeys(good, 5e10))
    yield _runs("random moves, 4 settings", epsilon, dict.fromkeys(own, 5e10))
    yield _runs("search in self-play, 6 settings", rates("search"), searched())


def _runs(name: str, rate: dict[str, Rate], moves: dict[str, float], repeats: int = 5) -> Work:
    """Return runs of learning, each as a call, with the moves and the rate of their settings."""
    calls = [n / rate[run].a_second for run, n in moves.items()] * repeats
    cpus = " and ".join(sorted({rate[run].cpu for run in moves}))
    return Work(f"quasi-greedy: {name}", repeats * sum(moves.values()), "moves", calls, cpus)


def policy_nets() -> Iterator[Work]:
    """Yield the log and the learning of the paper on policy networks."""
    log = leaderboard_rate("2048", "expectimax, 3-ply")
    name = "policy networks: log by 3-ply search"
    yield divided(name, 6e8, "moves", log.a_second, log.cpu, 45_000)
    for k in (2, 5):
        learned = per_core("speed_neural.txt", f"policy, k = {k}, learns, batch 512, 16 bits", 1)
        yield divided(f"policy networks: k = {k} learns", 6e8, "moves", learned, XEON)


def daihinmin() -> Iterator[Work]:
    """Yield the games and the learning of the paper on Daihinmin."""
    decisions = leaderboard_rate("daihinmin", "Monte Carlo, 500 playouts")
    name, rate = "Daihinmin: two logs of 500 playouts a decision", decisions.a_second / ACTIONS
    yield divided(name, 2e7, "games", rate, decisions.cpu, 100_000)
    played = per_core("speed_rank_nets.txt", "self-play, BaseCNN32, 16-bit, two processes")
    narrow, wide = (mean_time(f"decision, BaseCNN{channels}") for channels in (32, 128))
    name = "Daihinmin: self-play of 256 generations, BaseCNN128"
    yield divided(name, 1e8, "games", played * narrow / wide, EPYC, 100_000)
    players = daihinmin_settings.read("logs").players
    for name, what in LEARNED.items():
        published = players[name].published
        assert published is not None and published.iterations is not None
        line = f"learns, {what}, batches of 25"
        rate = number_of("speed_rank_learning.txt", line, r" +([\d,.]+)")
        amount = BATCH * published.iterations
        yield divided(f"Daihinmin: {name} learns", amount, "samples", rate, EPYC)


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

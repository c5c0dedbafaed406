"""Comparisons of speed with other programs on the same machine, in turns.

Each turn runs ours and then the other program, each in a process of its own, with the same seed and
for the same span: learners from the same move to the same move, players and environments for the
same CPU seconds. `timing.section` reads the clocks of both, from outside. A ratio above 1 means
that ours is faster; it is the median over the turns, with its range.

Speed on one thread is by CPU seconds, which differ from wall time only by what other processes
take. Learning with two threads is by wall time on a quiet machine, else by CPU seconds, too. Huge
pages are asked for, or refused, for both programs alike.

- TDL2048 learns and plays with the same tuples, methods and `.w` file; it is a binary that the user
  has built.
- pgx and jumanji run many boards in one compiled call; pgx's observations are one-hot, so it is
  compared with our one-hot as well as with our native ones. Both restart games in the step that
  ends them, ours in the next step unless "same step" says otherwise.
- open_spiel plays card games with its own random bots, wholly in C++. Its 2048 is stepped from
  Python, with tensor and rewards fetched.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tqdm import tqdm

from afterstate.agents.progress import progress_bar
from afterstate.envs import durable_files
from afterstate.envs.json_files import Row
from afterstate.leaderboard.machine import machine
from benchmarks.speed.timing import Program, Section, Span, section

QUIET = 0.1
"""The most cores that other processes may keep busy on a quiet machine."""

TDL2048 = "TDL2048"
LEARNED_GAMES = 30_000
"""Games from which TDL2048 learns the network that both programs play with."""

LEARNING = Span(after=5_000_000, steps=15_000_000)
GREEDY, TWO_PLY, THREE_PLY = Span(seconds=2), Span(seconds=5), Span(seconds=10)
STEPPING = Span(seconds=1.5)
"""Learning is timed over moves, after enough of them to fill the tables; all else over seconds."""

FACTS = ("name", "unit", "peer", "threads", "huge_pages")
PAGES = {True: "on", False: "off", None: "default"}
HEAD = (
    f"{'comparison':40} {'peer':14} {'huge pages':10} {'threads':7} {'clock':5} {'ours /s':>12} "
    f"{'peer /s':>12} {'ratio':>6} (range)"
)


class Comparison(NamedTuple):
    """A comparison of a program of ours with a peer, the distribution of another program."""

    name: str
    unit: str
    peer: str
    ours: Program
    theirs: Program
    span: Span
    huge_pages: bool | None = None
    threads: int = 1


class Peers(NamedTuple):
    """Paths of the other programs, and of the network that they and ours play with."""

    python: Path = Path(sys.executable)
    """The interpreter of the programs in Python."""
    tdl2048: Path | None = None
    """A built TDL2048."""
    network: Path | None = None
    """A `.w` file, by default one that TDL2048 learns."""


def subject(python: Path, start: str, **settings: Any) -> Program:
    """Return the program that makes the steps of `module:function` of this folder."""
    entry = ["-m", "benchmarks.speed.timing", f"benchmarks.speed.{start}", json.dumps(settings)]
    return Program([str(python), *entry])


def ours(start: str, **settings: Any) -> Program:
    """Return a program of this package."""
    return subject(Path(sys.executable), start, **settings)


def tdl2048(binary: Path | None, *options: str) -> Program:
    """Return a run of TDL2048, whose steps are the moves of its games."""
    return Program([str(binary), *options, "-s"], moves_of_tdl2048)


def moves_of_tdl2048(line: str) -> int:
    """Return the moves that a line of TDL2048 reports for a block of games, 0 for other lines.

    >>> moves_of_tdl2048("003/100 250ms 2000000.00ops")
    500000
    """
    match = re.match(r"\d+/\d+ (\d+)ms ([\d.]+)ops", line)
    return round(int(match[1]) * float(match[2]) / 1000) if match else 0


METHODS: dict[str, tuple[dict[str, str], list[str]]] = {
    "TD": ({"rule": "td", "order": "forward"}, ["-a", "0.1"]),
    "TC": ({"rule": "tc", "order": "forward"}, ["-a", "1.0"]),
    "TC(0.5) backward": ({"rule": "tc", "order": "backward"}, ["-a", "1.0", "-l", "0.5"]),
}
"""Settings of our learner and options of TDL2048."""


def learning(peers: Peers) -> Iterator[Comparison]:
    """Return the comparisons of learning from zero weights, with one thread and with two."""
    for threads, huge_pages in ((1, True), (1, False), (2, True)):
        for tuples in ("4x6", "8x6"):
            for name, (settings, options) in METHODS.items():
                several = ["-p", str(threads), "noshm"] if threads > 1 else []
                words = ["-n", f"{tuples}patt", *options, "-t", "100000x100", *several]
                yield Comparison(
                    f"learning {name} {tuples}",
                    "moves",
                    TDL2048,
                    ours("game2048:start_learner", tuples=tuples, threads=threads, **settings),
                    tdl2048(peers.tdl2048, *words),
                    LEARNING,
                    huge_pages,
                    threads,
                )


def playing(peers: Peers) -> Iterator[Comparison]:
    """Return the comparisons of play with the same file.

    Plain search has no table and no cutoff. Our defaults are compared with a table of TDL2048 at
    3-ply, and with none at 2-ply.
    """
    plain, file = {"cutoff": 0, "table_bits": 0}, str(peers.network)
    for huge_pages in (True, False):
        for name, settings, options, games, span in (
            ("greedy", {}, [], 10, GREEDY),
            ("2-ply plain", {"depth": 2, **plain}, ["-d", "2p"], 1, TWO_PLY),
            ("2-ply defaults", {"depth": 2}, ["-d", "2p"], 1, TWO_PLY),
            ("3-ply plain", {"depth": 3, **plain}, ["-d", "3p"], 1, THREE_PLY),
            ("3-ply defaults", {"depth": 3}, ["-d", "3p", "-c", "1M"], 1, THREE_PLY),
        ):
            yield Comparison(
                f"play {name}",
                "moves",
                TDL2048,
                ours("game2048:start_play", network=file, n_games=games, **settings),
                tdl2048(peers.tdl2048, "-i", file, "-e", f"100000x{games}", *options),
                span,
                huge_pages,
            )


def stepping(peers: Peers) -> Iterator[Comparison]:
    """Return the comparisons of environments and playouts, with random legal actions."""

    def against(peer: str, start: str, name: str, mine: Program, **settings: Any) -> Comparison:
        theirs = subject(peers.python, f"peers:start_{start}", **settings)
        return Comparison(name, "steps", peer, mine, theirs, STEPPING)

    for n in (1, 64, 4096, 16384):
        for kind, observation in (("native", "exponents"), ("one-hot", "onehot")):
            boards = ours("game2048:start_vector_env", n_boards=n, observation=observation)
            yield against("pgx", "pgx", f"vector env, B = {n:,}, {kind}", boards, n_boards=n)
    for n in (64, 4096):
        boards = ours("game2048:start_vector_env", n_boards=n, autoreset_mode="SameStep")
        yield against("pgx", "pgx", f"vector env, B = {n:,}, same step", boards, n_boards=n)
    boards = ours("game2048:start_vector_env", n_boards=4096)
    yield against("jumanji", "jumanji", "vector env, B = 4,096, native", boards, n_boards=4096)
    env = ours("game2048:start_env")
    yield against("open_spiel", "open_spiel", "gym.make", env)
    yield against("gymnasium-2048", "gymnasium_2048", "gym.make", env)
    env = ours("daihinmin:start_env")
    for peer, game in (
        ("pettingzoo", "connect_four_v3"),
        ("pettingzoo", "texas_holdem_v4"),
        ("rlcard", "doudizhu"),
    ):
        yield against(peer, peer, f"daihinmin_v0.env(), {game}", env, game=game)
    playouts = ours("daihinmin:start_playouts")
    for game in ("hearts", "dou_dizhu", "tarok"):
        name = f"random games of Daihinmin, {game}"
        yield against("open_spiel", "open_spiel_bots", name, playouts, game=game)


@functools.cache
def version(peers: Peers, peer: str) -> str | None:
    """Return the version of a peer, None if it is not there."""
    if peer == TDL2048:
        command = [str(peers.tdl2048), "--version"]
    else:
        code = f"from importlib.metadata import version; print(version({peer!r}))"
        command = [str(peers.python), "-c", code]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return run.stdout.strip()


def huge_pages() -> str:
    """Return the system's setting of transparent huge pages: always, madvise or never."""
    file = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    words = file.read_text() if file.exists() else "[unknown]"
    return words.split("[")[1].split("]")[0]


def check(peers: Peers) -> None:
    """Raise ValueError if a file is missing or wrong, or the system is not Linux."""
    if sys.platform != "linux":
        raise ValueError("comparisons need Linux, where the clocks of other processes can be read")
    if peers.network is not None and not (peers.network.suffix == ".w" and peers.network.is_file()):
        raise ValueError(f"network must be a .w file of TDL2048, got {peers.network}")
    if peers.tdl2048 is not None and not (version(peers, TDL2048) or "").startswith(TDL2048):
        raise ValueError(f"tdl2048 must be a built TDL2048 that can be run, got {peers.tdl2048}")
    if not os.access(peers.python, os.X_OK):
        raise ValueError(f"python must be a Python interpreter, got {peers.python}")


def with_network(peers: Peers, folder: Path, n_games: int) -> Peers:
    """Return the peers with a network that TDL2048 learns by temporal coherence."""
    file = folder / "4x6.w"
    words = ["-n", "4x6patt", "-a", "1.0", "-t", f"{n_games}x1", "-s", "1", "-o", str(file)]
    tqdm.write(f"TDL2048 learns a 4x6 network from {n_games:,} games")
    subprocess.run([str(peers.tdl2048), *words], check=True, stdout=subprocess.DEVNULL)
    return peers._replace(network=file)


def obstacle(peers: Peers, comparison: Comparison) -> str | None:
    """Return the reason why a comparison cannot be made, None if it can."""
    if comparison.peer == TDL2048 and peers.tdl2048 is None:
        return "no --tdl2048"
    if not version(peers, comparison.peer):
        return "not installed"
    if comparison.threads > (os.cpu_count() or 1):
        return f"fewer than {comparison.threads} cores"
    return None


def compare(comparison: Comparison, turns: int, bar: tqdm[Any]) -> Row:
    """Run both programs in turns and return their rates and ratios.

    Raises:
        RuntimeError: a program ended before its span did.
    """

    def timed(name: str, program: Program, seed: int) -> Section:
        try:
            return section(program, comparison.span, seed, comparison.huge_pages)
        except RuntimeError as error:
            raise RuntimeError(f"{name}: {error}") from error

    parts: list[tuple[Section, Section]] = []
    bar.set_description(comparison.name)
    for seed in range(1, turns + 1):
        mine = timed("ours", comparison.ours, seed)
        parts.append((mine, timed(comparison.peer, comparison.theirs, seed)))
        bar.update()
    busy = max(part.others for side in parts for part in side)
    by_cpu = comparison.threads == 1 or busy > QUIET

    def rate(part: Section) -> float:
        return part.steps / (part.cpu_seconds if by_cpu else part.wall_seconds)

    ratios = [rate(mine) / rate(theirs) for mine, theirs in parts]
    return {
        "clock": "CPU" if by_cpu else "wall",
        "busy_cores": busy,
        "ours": [rate(mine) for mine, _ in parts],
        "theirs": [rate(theirs) for _, theirs in parts],
        "ratios": ratios,
        "ratio": median(ratios),
        "huge_mib": [max(part.huge_mib for part in side) for side in zip(*parts, strict=True)],
    }


def rows(peers: Peers, comparisons: Sequence[Comparison], turns: int) -> Iterator[Row]:
    """Make the comparisons and return a row for each as it ends, also if it was not made."""
    with progress_bar(total=turns * len(comparisons), unit="turns") as bar:
        for number, each in enumerate(comparisons, 1):
            facts = {name: getattr(each, name) for name in FACTS}
            facts["version"] = version(peers, each.peer)
            try:
                reason = obstacle(peers, each)
                result = {"skipped": reason} if reason else compare(each, turns, bar)
            except RuntimeError as error:
                result = {"failed": str(error)}
            bar.update(turns * number - bar.n)
            yield {**facts, **result}


def text_of(row: Row) -> str:
    """Return a row as a line of the table."""
    pages = PAGES[row["huge_pages"]]
    start = f"{row['name']:40} {row['peer']:14} {pages:10} {row['threads']:7} "
    for reason in {"skipped", "failed"} & set(row):
        return f"{start}{reason}: {row[reason]}"
    mine, theirs = median(row["ours"]), median(row["theirs"])
    low, high = min(row["ratios"]), max(row["ratios"])
    spread = f"{row['ratio']:6.2f} ({low:.2f} to {high:.2f})"
    return f"{start}{row['clock']:5} {mine:12,.0f} {theirs:12,.0f} {spread}"


def comparisons(peers: Peers, only: Sequence[str]) -> list[Comparison]:
    """Return the comparisons with one of some words in their names, all without any word.

    Raises:
        ValueError: a word is in no name.
    """
    known = [*learning(peers), *playing(peers), *stepping(peers)]
    for word in only:
        if not any(word.lower() in each.name.lower() for each in known):
            names = "; ".join(dict.fromkeys(each.name for each in known))
            raise ValueError(f"only must be part of a comparison's name ({names}), got {word!r}")
    words = [word.lower() for word in only or [""]]
    return [each for each in known if any(word in each.name.lower() for word in words)]


def run(peers: Peers, only: Sequence[str], turns: int, length: float, result: Path) -> list[Row]:
    """Make the comparisons, print each as it ends, and write those that ended to a file.

    Args:
        peers: the paths of the other programs.
        only: words, of which one is in the name of each comparison; all without any.
        turns: how often each program runs.
        length: the share of each span, and of the games TDL2048 learns from.
        result: the file, JSON.

    Raises:
        ValueError: a program that was given is not there, or a word is in no name.
    """
    check(peers)
    here = {**machine(), "huge_pages": huge_pages(), "load": f"{os.getloadavg()[0]:.2f}"}
    print(", ".join(f"{name} {value}" for name, value in here.items()))
    result.parent.mkdir(parents=True, exist_ok=True)
    done: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        todo = comparisons(peers, only)
        plays = any(each.name.startswith("play") for each in todo)
        if plays and peers.tdl2048 and peers.network is None:
            n_games = max(1, round(LEARNED_GAMES * length))
            todo = comparisons(with_network(peers, Path(folder), n_games), only)
        todo = [each._replace(span=each.span.scaled(length)) for each in todo]
        print(HEAD)
        for row in rows(peers, todo, turns):
            done.append(row)
            tqdm.write(text_of(row))
            report = {"machine": here, "turns": turns, "length": length, "rows": done}
            durable_files.write(result, json.dumps(report, indent=1).encode() + b"\n")
    return done

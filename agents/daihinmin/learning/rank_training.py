"""Training of rank networks: from logs of other players, or in self-play, generation by generation.

    python -m afterstate.agents.daihinmin.learning.rank_training SETTINGS.json --out RUN --hours 2
    python -m afterstate.agents.daihinmin.learning.rank_training SETTINGS.json --out RUN --resume

A settings file is a JSON object with the fields of `Run`, all optional:

    {"network": {"name": "BaseCNN", "channels": 32}, "teacher": ["heuristic"], "games": 10000}

Each generation new games are played, by the teachers (approach 1 of Kuwabara and Hoki 2018) or by
networks of earlier generations (approach 2), and the network is fitted to the latest games. In the
folder of a run are

- `net.safetensors`: the network that plays, and `learner.safetensors`, which learns;
- `pool/`: the networks of the generations that still play, and `games/`: the games that are still
  learned from;
- `rows.jsonl`: one JSON object a generation, with the loss and the error of its values on games
  that it had not seen, and from time to time one with its points against four sample clients;
- `settings.json`: what was asked for, and `lock`, which is held by the process that learns.

A run that is interrupted (Ctrl-C, SIGTERM) or killed goes on from the last generation that was
whole. Of the next one the games are kept if all were played; its learning begins anew.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

if sys.platform != "win32":
    import fcntl

try:
    import safetensors.torch
    import torch
    from joblib import Parallel, delayed
except ImportError as error:
    message = 'rank networks are trained with more: pip install "afterstate[neural,train]"'
    raise (SystemExit if __name__ == "__main__" else ImportError)(message) from error

from afterstate.agents import files, nets
from afterstate.agents.config import check_fields
from afterstate.agents.daihinmin.afterstates.class_values import POINTS
from afterstate.agents.daihinmin.learning.game_records import (
    ALL,
    GAMES,
    Log,
    load_log,
    new_log,
    play_log,
    read_log,
    save_log,
)
from afterstate.agents.daihinmin.learning.rank_learner import (
    Learner,
    Samples,
    Settings,
    bootstrap,
    join,
    rmse,
    samples,
    without_games,
)
from afterstate.agents.daihinmin.learning.self_play import RULE_PLAYERS, play_games
from afterstate.agents.daihinmin.values import rank_net
from afterstate.agents.daihinmin.values.softmax_policy import PolicyAgent
from afterstate.agents.training.commands import above_0, progress_bar, sigterm_raises
from afterstate.envs.daihinmin.match import CLASS_VALUES
from afterstate.envs.daihinmin.players import Player, find
from afterstate.envs.daihinmin.rules import GAME, N_PLAYERS

Report: TypeAlias = "Callable[[int], Any]"
"""Is told how many more are done."""

_RANGES = {
    "guest_share": "from 0 to 1",
    "temperature": "above 0",
    "epsilon": "from 0 on and below 1",
    "games": "from 0 on",
    "table": "from 1 on",
    "window": "from 1 on",
    "pool": "from 1 on",
    "iterations": "from 1 on",
    "lam": "from 0 to 1",
    "final_rate": "above 0 and below 1",
    "seed": "from 0 on",
}


@dataclass(frozen=True)
class Run:
    """What is asked of a run.

    Raises:
        ValueError: a wrong setting.
    """

    network: dict[str, Any] = field(default_factory=lambda: {"name": "BaseCNN", "channels": 32})
    """The name of a network of `rank_nets` and its arguments."""
    learner: dict[str, Any] = field(default_factory=dict)
    """Fields of `learning.Settings`."""
    teacher: list[str] = field(default_factory=list)
    """Names of players whose games are learned from; none: networks play themselves."""
    logs: list[str] = field(default_factory=list)
    """Files of recorded games that are learned from in every generation, too."""
    guests: list[str] = field(default_factory=list)
    """Names of players without networks who sit at the tables, too, and are not learned from."""
    guest_share: float = 0.5
    """The chance of each seat that a guest has it, if there are any. One is left for the others."""
    temperature: float = 1.0
    """Of the softmax policy, where `"policy"` is a teacher or a guest. It tries everything at
    times."""
    epsilon: float = 0.0
    """The chance of a random move. What was before the last one in its game is not learned from."""
    points: str | list[float] = "game"
    """What places are worth to networks that play: five numbers, or `"game"` for the points of the
    game, or `"classes"` for those that the class brings, too. Here these are always `CLASS_VALUES`,
    as if classes were never reset; `RankAgent` counts the games that are left."""
    learned_gifts: bool = False
    """Whether networks judge what to give in the exchange, and learn from what was left."""
    games: int = 10_000
    """Played in each generation; 0, where there are logs: only these are learned from."""
    table: int = 1_000
    """Games after which five players are drawn again, from teachers or generations. Networks and
    `RULE_PLAYERS` play a table as 64 matches side by side, or as many as 100 games each need: of
    1,000 games one in 16 is the first of its match, without classes, and none comes after the 16th,
    where a cycle has 100. Tables from 6,400 games on have whole cycles. Other teachers play matches
    of 100."""
    window: int = 100_000
    """The latest games, which are learned from."""
    pool: int = 200
    """The latest generations, which play."""
    iterations: int = 1_000
    """Batches that are learned in each generation."""
    lam: float = 1.0
    """Lambda of the targets: see `learning.bootstrap`. The study has 1. Below 1 all targets of a
    generation come from the network that plays when its fit begins."""
    final_rate: float | None = None
    """To which the rate goes down within each generation; by default it stays."""
    start: str | None = None
    """A file of a network to begin with, one like `network`."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self, _RANGES)
        names = [name.removeprefix("daihinmin-") for name in self.teacher]
        object.__setattr__(self, "teacher", names)
        if not isinstance(self.network.get("name"), str):
            raise ValueError(f"network has a name and its arguments, got {self.network}")
        known = [each.name for each in fields(Settings)]
        if not set(self.learner) <= set(known):
            raise ValueError(f"learner has some of {known}, got {self.learner}")
        if self.games == 0 and not self.logs:
            raise ValueError("games is from 1 on where there are no logs, got 0")
        if not set(self.guests) <= set(RULE_PLAYERS):
            raise ValueError(f"guests are some of {RULE_PLAYERS}, got {self.guests}")
        self.worth()
        self.resolved()

    def resolved(self) -> dict[str, Any]:
        """All settings by name, those of the network and the learner with what they leave out."""
        with torch.device("meta"):  # takes no memory, whatever is asked for
            net = rank_net.network(**self.network)
        learner = asdict(Settings(**self.learner))
        return {**asdict(self), "network": _kind(net), "learner": learner}

    def worth(self) -> tuple[float, ...]:
        """What places are worth to networks that play."""
        named = {"game": POINTS, "classes": CLASS_VALUES}
        if isinstance(self.points, str):
            if self.points not in named:
                raise ValueError(f"points are {list(named)} or five numbers, got {self.points!r}")
            return named[self.points]
        if len(self.points) != N_PLAYERS:
            raise ValueError(f"points are five numbers, got {self.points}")
        return tuple(map(float, self.points))


def read_run(path: str | Path) -> Run:
    """The settings of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: not such settings.
    """
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
        known = [each.name for each in fields(Run)]
        if not isinstance(told, dict) or not set(told) <= set(known):
            raise ValueError(f"it is a JSON object with some of {known}")
        return Run(**told)
    except RecursionError as error:
        raise ValueError(f"{path}: it is nested too deeply") from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


# Games


def _teacher(name: str, temperature: float, seed: int) -> Player:
    """A player by his name; the policy plays as it does where it teaches alone."""
    if name == "policy":
        return PolicyAgent(temperature=temperature, seed=seed)
    return find(name, seed)


def _play_share(run: Run, players: list[str], n_games: int, seed: int, device: str) -> Log:
    """Plays games between five networks, by their files, or between teachers."""
    if run.teacher and not set(players) <= set(RULE_PLAYERS):
        seeds = range(seed + 1, seed + 1 + N_PLAYERS)  # `seed` is that of the deals
        named = zip(players, seeds, strict=True)
        seated = [_teacher(name, run.temperature, of) for name, of in named]
        return play_log(seated, n_games, seed, run.epsilon)
    loaded = {name: rank_net.load(name, device) for name in players if name not in RULE_PLAYERS}
    mixed = bool(run.learner.get("mixed", False))
    with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=mixed):
        return play_games(
            [loaded.get(name, name) for name in players],
            n_games,
            seed,
            run.epsilon,
            points=run.worth(),
            learned_gifts=run.learned_gifts,
            n_matches=max(64, math.ceil(n_games / GAMES)),
            temperature=run.temperature,
        )


def generate(
    run: Run,
    pool: Sequence[Path],
    seed: Sequence[int],
    jobs: int,
    device: str,
    report: Report | None = None,
) -> Log:
    """Plays the games of a generation, in processes side by side.

    Args:
        run: how.
        pool: files of the networks that may play.
        seed: of players, deals and random moves.
        jobs: how many processes.
        device: where the networks calculate.
        report: called with the number of games of each table when they are over.
    """
    rng = np.random.default_rng(seed)
    names = run.teacher or [str(path) for path in pool[-run.pool :]]
    shares: list[tuple[Any, ...]] = []
    for begin in range(0, run.games, run.table):
        players = [names[i] for i in rng.integers(len(names), size=N_PLAYERS)]
        students = ALL
        for seat in range(1, N_PLAYERS):
            if run.guests and rng.random() < run.guest_share:
                players[seat] = run.guests[rng.integers(len(run.guests))]
                students &= ~(1 << seat)
        n_games = min(run.table, run.games - begin)
        shares.append((run, players, students, n_games, int(rng.integers(2**62)), device))
    play, begin = Parallel(n_jobs=jobs, return_as="generator"), 0
    found = new_log(np.empty(run.games, GAME))  # joining the shares would take their memory twice
    for log in play(delayed(_in_one_thread)(*share) for share in shares):
        for column, share in zip(found, log, strict=True):
            column[begin : begin + len(share)] = share
        begin += len(log.games)
        if report is not None:
            report(len(log.games))
    return found


def _in_one_thread(
    run: Run, players: list[str], students: int, n_games: int, seed: int, device: str
) -> Log:
    """Plays games in one thread, for other processes have the other cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        log = _play_share(run, players, n_games, seed, device)
        return log._replace(students=np.full(n_games, students))
    finally:
        torch.set_num_threads(before)


def points_against_sample(net: Any, n_games: int, seed: int, run: Run) -> tuple[float, float]:
    """Points per 100 games against four sample clients, and their standard error over matches."""
    n_matches = max(1, n_games // 100)
    players = [net, *["sample"] * 4]
    log = play_games(players, n_games, seed, 0.0, run.worth(), run.learned_gifts, n_matches)
    points = N_PLAYERS - log.games["places"][:, 0]
    means = [points[log.games["seed"] == match].mean() for match in np.unique(log.games["seed"])]
    error = np.std(means, ddof=1) / math.sqrt(len(means)) if len(means) > 1 else math.nan
    return 100 * float(np.mean(means)), 100 * float(error)


def play_alone(file: str, n_games: int, seed: int) -> Log:
    """Plays games between five copies of a network, as its file says that it is to be played."""
    told = nets.metadata(file)
    worth = Run(points=told.get("points", "game")).worth()
    gifts, net = told.get("exchange") == "net", rank_net.load(file)
    return play_games([net] * N_PLAYERS, n_games, seed, 0.0, worth, gifts, -(-n_games // GAMES))


# A run in its folder

_MAY_CHANGE = {"pool", "start"}
"""Settings that may be others where a run is resumed."""


def _kind(net: torch.nn.Module) -> list[Any]:
    """The name and the settings of a network."""
    return [type(net).__name__, net.settings]


def _generation_of(path: Path) -> str | None:
    """The generation that a file of a learner says it is of; None if it is missing or damaged."""
    try:
        with safetensors.safe_open(str(path), "pt") as file:
            return (file.metadata() or {}).get("generation")
    except (FileNotFoundError, safetensors.SafetensorError):
        return None


class Standing:
    """A run, as it is in its folder, which no other process can have at the same time.

    Args:
        out: the folder.
        run: what is asked for. A run that is resumed goes on with the settings that it began with:
            only `pool` may be another (networks that were dropped do not come back), and `start`,
            which is not read again.
        device: where the network learns and plays.
        resume: whether to go on with what is there.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: wrong settings, a folder that does not fit what is asked for or has a damaged
            file, or another process learns in it.
    """

    def __init__(self, out: Path, run: Run, device: str, resume: bool) -> None:
        self.out, self.run, self.device = out, run, device
        self.generation, self.seconds = 0, 0.0
        self._next = out / "next.safetensors"
        self._left: Log | None = None  # games of the next generation, if they have been played
        nets.check_device(device)
        if torch.device(device).type not in ("cpu", "cuda"):
            raise ValueError(f"networks learn on cpu or cuda, not on {device!r}")
        for name in run.teacher:
            find(name)
        if (out / "net.safetensors").exists() != resume:
            there = "is there: go on with --resume, or choose another --out"
            missing = "is not there: there is nothing to resume"
            raise ValueError(f"{out / 'net.safetensors'} {missing if resume else there}")
        if resume:
            self._check_settings()
        net = self._new_net(None if resume else run.start)
        self.learner = Learner(net, Settings(**run.learner), run.seed)
        self.recorded = [self._samples(read_log(path)) for path in run.logs]
        self.window: list[Samples] = []
        for folder in (out / "pool", out / "games"):
            folder.mkdir(parents=True, exist_ok=True)
        self._lock()
        if resume:
            self._go_on()
        else:
            self._begin()

    def _check_settings(self) -> None:
        """Raises a ValueError unless the run in the folder began with the settings asked for."""
        path = self.out / "settings.json"
        before, now = read_run(path).resolved(), self.run.resolved()
        others = [name for name in now if now[name] != before[name] and name not in _MAY_CHANGE]
        if others:
            told = "; ".join(f"{name} was {before[name]} and is {now[name]}" for name in others)
            raise ValueError(
                f"{self.out} has a run with other settings: {told}. Resume it with {path}, or "
                "begin a new one in another --out, where start may be its net.safetensors"
            )

    def _lock(self) -> None:
        """Locks the folder for this process as long as the run lives; on Windows it does not."""
        if sys.platform == "win32":
            return
        file = os.open(self.out / "lock", os.O_RDWR | os.O_CREAT)
        weakref.finalize(self, os.close, file)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(
                f"another process learns in {self.out}: let it end, or choose another --out"
            ) from error

    def _new_net(self, start: str | None) -> torch.nn.Module:
        """The network that a run begins with, from a file if there is one."""
        torch.manual_seed(self.run.seed)
        net = rank_net.network(**self.run.network).to(self.device)
        if start is None:
            return net
        begun = rank_net.load(start, self.device)
        if _kind(begun) != _kind(net):
            raise ValueError(f"{start} has {_kind(begun)}, and network asks for {_kind(net)}")
        return begun

    def _begin(self) -> None:
        """Writes the network as it is at first; what another run has left is dropped."""
        for path in (self.out / "games").glob("*.npz"):
            path.unlink()
        files.truncate_rows(self.out / "rows.jsonl", "generation", -1)
        told = json.dumps(asdict(self.run), indent=1) + "\n"
        files.write_bytes(self.out / "settings.json", told.encode())
        self.save()

    def _go_on(self) -> None:
        """Takes up what is in the folder, and drops what came after the last whole generation.

        The games of the next generation are kept if all of them were played.
        """
        path = self.out / "net.safetensors"
        told = nets.metadata(path)
        if [told["network"], told["settings"]] != _kind(self.learner.net):
            raise ValueError(f"{path} has another network than the settings ask for")
        facts: list[Any] = [told.get(name) for name in ("generation", "iterations", "seconds")]
        if [type(fact) for fact in facts] != [int, int, float]:
            raise ValueError(f"{path} does not say of which generation of a run it is")
        self.generation, iterations, self.seconds = facts
        self._resume_learner(rank_net.load(path), iterations)
        for at in range(self.generation):
            if (games := self._games(at + 1)).exists():
                self.window.append(self._samples(load_log(games)))
        if (games := self._games(self.generation + 1)).exists():
            self._left = load_log(games)
        files.truncate_rows(self.out / "rows.jsonl", "generation", self.generation)

    def _resume_learner(self, played: torch.nn.Module, iterations: int) -> None:
        """Takes up the learner of the last whole generation."""
        path = self.out / "learner.safetensors"
        if _generation_of(self._next) == str(self.generation):  # killed before it was renamed
            os.replace(self._next, path)
        if _generation_of(path) != str(self.generation):
            raise ValueError(
                f"{path} is missing or damaged, or not of generation {self.generation}, which "
                "net.safetensors is of"
            )
        try:
            self.learner.resume(played, safetensors.torch.load_file(path), iterations)
        except (ValueError, safetensors.SafetensorError) as error:
            raise ValueError(f"{path}: {error}") from error

    def _games(self, generation: int) -> Path:
        """The file of the games of a generation."""
        return self.out / "games" / f"{generation:05}.npz"

    def pool(self) -> list[Path]:
        """The files of the generations that may play and are there, the latest last."""
        latest = range(max(0, self.generation + 1 - self.run.pool), self.generation)
        paths = [self._pooled(n) for n in latest]
        return [*(path for path in paths if path.exists()), self._pooled(self.generation)]

    def _pooled(self, generation: int) -> Path:
        """The file of a generation that may play."""
        return self.out / "pool" / f"{generation:05}.safetensors"

    def save(self) -> None:
        """Writes the network, which makes the generation whole, and drops what is not needed."""
        facts: dict[str, Any] = {
            "generation": self.generation,
            "iterations": self.learner.iterations,
            "seconds": round(self.seconds, 1),
            "points": self.run.points,
            "exchange": "net" if self.run.learned_gifts else "hand",
        }
        of = {"generation": str(self.generation)}
        files.write_bytes(self._next, safetensors.torch.save(self.learner.tensors(), of))
        nets.save(self.learner.played, self.pool()[-1], **facts)
        nets.save(self.learner.played, self.out / "net.safetensors", **facts)
        os.replace(self._next, self.out / "learner.safetensors")
        for path in set((self.out / "pool").glob("*.safetensors")) - set(self.pool()):
            path.unlink()

    def told(self) -> str:
        """What is saved, for whoever interrupts the run."""
        whole = nets.metadata(self.out / "net.safetensors")["generation"]
        after = "what came after it is lost"
        if self._games(whole + 1).exists():
            after = "the games of the next one are kept, its learning begins anew"
        return f"generation {whole} is saved in {self.out}, {after}: go on with --resume"

    def advance(self, jobs: int, report: Report, games: Report | None = None) -> dict[str, Any]:
        """Plays, learns and saves a generation; returns its row, which is added to the others.

        Args:
            jobs: processes that play.
            report: called with 1 after each iteration.
            games: called with the number of games when so many more have been played.

        Raises:
            OSError: a file cannot be read or written.
            ValueError: there is nothing to learn from.
        """
        row = self._learn(jobs, report, games)
        self._add_row(row)  # a kill before `save` has it dropped, one after it does not
        self.save()
        return row

    def measure(self, n_games: int) -> None:
        """Adds a row with the points of this generation against sample clients, if none has."""
        path = self.out / "rows.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        rows = (row for row in map(json.loads, lines) if row["generation"] == self.generation)
        if self.generation == 0 or any("against_sample" in row for row in rows):
            return
        points, error = points_against_sample(self.learner.played, n_games, 1 << 40, self.run)
        measured = {"against_sample": round(points, 1), "error": round(error, 1)}
        self._add_row({"generation": self.generation, **measured})

    def _add_row(self, row: dict[str, Any]) -> None:
        """Adds a row; a number that is none is null, for JSON has no word for it."""
        told = {key: None if value != value else value for key, value in row.items()}
        with (self.out / "rows.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")

    def _learn(self, jobs: int, report: Report, games: Report | None) -> dict[str, Any]:
        """Plays and learns a generation, which is not whole until it is saved; returns its row."""
        began, next_ = time.monotonic(), self.generation + 1
        played = self._play(next_, jobs, games) if self.run.games else {}
        # Targets of earlier generations would be lost where a run is resumed.
        kept = join([*self.recorded, *self.window])
        if not len(kept.places):
            raise ValueError(
                f"generation {next_} has nothing to learn from: no choice comes after the last "
                f"random move of its game. Lower epsilon, {self.run.epsilon}, or play more games"
            )
        of = bootstrap(self.learner.played, kept, self.run.lam)
        loss = self.learner.fit(of, self.run.iterations, self.run.final_rate, report)
        self.generation, self.seconds = next_, self.seconds + time.monotonic() - began
        return {
            "generation": next_,
            "iterations": self.learner.iterations,
            "seconds": round(self.seconds, 1),
            "samples": len(of.places),
            "loss": round(loss, 4),
            **played,
        }

    def _play(self, generation: int, jobs: int, report: Report | None) -> dict[str, Any]:
        """Plays the games of a generation into the window; returns what its row says of them.

        Games that were played before a kill are taken up, and the row does not tell their speed.
        """
        began, told = time.monotonic(), {}
        games, self._left = self._left, None
        if games is None:
            seed = [self.run.seed, generation]
            games = generate(self.run, self.pool(), seed, jobs, self.device, report)
            told["games_per_second"] = round(len(games.games) / (time.monotonic() - began), 1)
            save_log(games, self._games(generation))
        elif report is not None:
            report(len(games.games))
        new = self._samples(games)
        some = np.arange(0, len(new.places), max(1, len(new.places) // 20_000))
        error = rmse(self.learner.played, new.part(some))
        self._slide(new)
        return {**told, "rmse": round(error, 4)}

    def _samples(self, log: Log) -> Samples:
        """The samples of games, and the games if the network looks back."""
        of = samples(log, self.run.learned_gifts)
        return of if self.learner.net.encode == "history" else without_games(of)

    def _slide(self, new: Samples) -> None:
        """Adds samples to the window and drops those before it."""
        self.window.append(new)
        while sum(len(of.moments.games) for of in self.window[1:]) >= self.run.window:
            del self.window[0]
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._games(self.generation + 1 - len(self.window)))


# The command line


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m afterstate.agents.daihinmin.learning.rank_training",
        description="Trains a rank network for Daihinmin.",
    )
    add = parser.add_argument
    add("settings", type=Path, help="JSON file with the network and how to learn")
    add("--out", type=Path, required=True, help="folder of the run")
    add("--generations", type=int, help="stop when so many are there")
    add("--hours", type=above_0, help="stop after so long, counted from this start")
    add("--jobs", type=int, default=1, help="processes that play (%(default)s)")
    add("--threads", type=int, default=1, help="threads that learn (%(default)s)")
    add("--device", default="cpu", help="where networks learn and play: cpu or cuda (%(default)s)")
    add("--resume", action="store_true", help="go on with the run in the folder")
    add("--measure-every", type=int, default=10, help="generations (%(default)s)")
    add("--measure", type=int, default=2_000, help="games against sample clients (%(default)s)")
    return parser


def _begin(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> Standing:
    """The run that is asked for.

    Raises:
        SystemExit: what is asked for is wrong; nothing has been written then.
    """
    if chosen.generations is None and chosen.hours is None:
        parser.error("say where to stop: --generations or --hours")
    counts = (chosen.jobs, chosen.threads, chosen.measure_every, chosen.measure)
    if min(*counts, 1 if chosen.generations is None else chosen.generations) < 1:
        parser.error("generations, jobs, threads, measure-every and measure are from 1 on")
    torch.set_num_threads(chosen.threads)
    try:
        return Standing(chosen.out, read_run(chosen.settings), chosen.device, chosen.resume)
    except (OSError, ValueError) as error:
        parser.error(str(error))


def _rows(
    chosen: argparse.Namespace, standing: Standing, iterations: Any, games: Any
) -> Iterator[dict[str, Any]]:
    """Advances a run until its end, with two bars; yields the row of each generation."""
    began = time.monotonic()
    seconds = math.inf if chosen.hours is None else 3600 * chosen.hours
    last = math.inf if chosen.generations is None else chosen.generations
    while True:
        if standing.generation % chosen.measure_every == 0 or standing.generation == last:
            iterations.set_description("measures itself against sample clients")
            standing.measure(chosen.measure)
            iterations.set_description(f"generation {standing.generation}")
        if standing.generation >= last or time.monotonic() - began >= seconds:
            return
        games.reset(standing.run.games)
        yield standing.advance(chosen.jobs, iterations.update, games.update)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser, tqdm = options(), progress_bar()
    chosen = parser.parse_args(arguments)
    standing = _begin(parser, chosen)
    done = standing.learner.iterations
    with (
        sigterm_raises(KeyboardInterrupt()),
        tqdm(unit=" games", unit_scale=True, disable=standing.run.games == 0) as games,
        tqdm(unit=" iterations", unit_scale=True, initial=done) as bar,
    ):
        try:
            for row in _rows(chosen, standing, bar, games):
                bar.set_description(f"generation {row['generation']}")
                bar.set_postfix(loss=row["loss"], rmse=row.get("rmse"))
        except KeyboardInterrupt:
            raise SystemExit(standing.told()) from None
        except (OSError, ValueError) as error:
            raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()

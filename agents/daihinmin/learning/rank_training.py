"""Training of rank networks: from logs of other players, or in self-play, generation by generation.

    afterstate train rank SETTINGS.json --out RUN --hours 2

    {"network": {"name": "BaseCNN", "channels": 32}, "teacher": ["heuristic"], "games": 10000}

Each generation new games are played, by the teachers (approach 1 of Kuwabara and Hoki 2018) or by
networks of earlier generations (approach 2), and the network is fitted to the latest games. In the
folder of a run are

- `net.safetensors`: the network that plays, and `learner.safetensors`, which learns;
- `pool/`: the networks of the generations that still play, and `games/`: the games that are still
  learned from;
- `rows.jsonl`: one JSON object for each generation, with the loss and the error of its values on
  games that it had not seen, and at intervals one with its points against four sample clients.

A run that is interrupted (Ctrl-C, SIGTERM) or killed is resumed from the last complete generation.
The games of the next one are kept if all were played; its learning starts over.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np

from afterstate.envs.messages import needs

try:
    import joblib  # noqa: F401 - plays in processes
    import torch
except ImportError as error:
    raise ImportError(needs("training of rank networks", "torch", "joblib")) from error

from afterstate.agents import nets
from afterstate.agents.config import changes, read
from afterstate.agents.daihinmin.afterstates.class_values import place_values
from afterstate.agents.daihinmin.learning.game_records import (
    ALL,
    Log,
    load_log,
    new_log,
    play_log,
    read_log,
    save_log,
)
from afterstate.agents.daihinmin.learning.rank_learner import (
    RankLearner,
    Samples,
    bootstrap,
    join,
    rmse,
    samples_of,
    without_games,
)
from afterstate.agents.daihinmin.learning.rank_settings import RULE_PLAYERS, RankOptions, RankRun
from afterstate.agents.daihinmin.learning.self_play import play_games
from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE, find_player
from afterstate.agents.daihinmin.values import rank_net
from afterstate.agents.daihinmin.values.softmax_policy import PolicyAgent
from afterstate.agents.progress import progress_bar
from afterstate.agents.training.evaluation import EVALUATION_SEED
from afterstate.agents.training.folder import SETTINGS_FILE, RunFolder
from afterstate.agents.training.workers import Workers
from afterstate.envs import durable_files
from afterstate.envs.compiling import clock
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.rules import GAME, N_PLAYERS
from afterstate.envs.messages import named, shown
from afterstate.envs.options import default_text
from afterstate.envs.signals import uninterrupted

Report: TypeAlias = "Callable[[int], Any]"
"""A function that is called with the number of games or iterations that have been completed."""


# Games


def _teacher(name: str, temperature: float, seed: int) -> Player:
    """Return a player by its name; the policy has the temperature of the run."""
    if name == "policy":
        return PolicyAgent(temperature=temperature, seed=seed)
    return find_player(name, seed)


def _play_part(run: RankRun, players: list[str], n_games: int, seed: int, device: str) -> Log:
    """Play games between five networks, by their files, or between teachers."""
    if run.teacher and not set(players) <= set(RULE_PLAYERS):
        seeds = range(seed + 1, seed + 1 + N_PLAYERS)  # `seed` is that of the deals
        named = zip(players, seeds, strict=True)
        seated = [_teacher(name, run.temperature, own) for name, own in named]
        return play_log(seated, n_games, seed, run.epsilon)
    loaded = {name: rank_net.load(name, device) for name in players if name not in RULE_PLAYERS}
    with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=run.learner.bf16):
        return play_games(
            [loaded.get(name, name) for name in players],
            n_games,
            seed,
            run.epsilon,
            points=place_values(run.points),
            learned_gifts=run.learned_gifts,
            n_matches=max(64, math.ceil(n_games / GAMES_PER_CYCLE)),
            temperature=run.temperature,
        )


def generate(
    run: RankRun,
    pool: Sequence[Path],
    seed: Sequence[int],
    workers: Workers,
    device: str,
    report: Report | None = None,
) -> Log:
    """Play the games of a generation, in parallel processes.

    Args:
        run: settings.
        pool: files of the networks that may play.
        seed: seed of players, deals and random moves.
        workers: processes that play.
        device: device of the networks.
        report: called with the number of games of each table when they are over.
    """
    names = run.teacher or [str(path) for path in pool[-run.pool :]]
    parts = list(_seatings(run, names, np.random.default_rng(seed)))
    begin = 0
    whole = new_log(np.empty(run.games, GAME))  # joining the parts would take their memory twice
    for log in workers.results(partial(_in_one_thread, run, *part, device) for part in parts):
        for column, part in zip(whole, log, strict=True):
            column[begin : begin + len(part)] = part
        begin += len(log.games)
        if report is not None:
            report(len(log.games))
    return whole


def _seatings(
    run: RankRun, names: Sequence[str], rng: np.random.Generator
) -> Iterator[tuple[list[str], int, int, int]]:
    """Yield the players of each table, the students among them, its number of games and its seed.

    Args:
        run: settings.
        names: names or files of the players, but for guests.
        rng: draws players and seeds.
    """
    for begin in range(0, run.games, run.table):
        players = [names[i] for i in rng.integers(len(names), size=N_PLAYERS)]
        students = ALL
        for seat in range(1, N_PLAYERS):
            if run.guests and rng.random() < run.guest_share:
                players[seat] = run.guests[rng.integers(len(run.guests))]
                students &= ~(1 << seat)
        n_games = min(run.table, run.games - begin)
        yield players, students, n_games, int(rng.integers(2**62))


def _in_one_thread(
    run: RankRun, players: list[str], students: int, n_games: int, seed: int, device: str
) -> Log:
    """Play games in one thread, since other processes have the other cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        log = _play_part(run, players, n_games, seed, device)
        return log._replace(students=np.full(n_games, students))
    finally:
        torch.set_num_threads(before)


def points_against_sample(net: Any, n_games: int, seed: int, run: RankRun) -> tuple[float, float]:
    """Return points per 100 games against four sample clients, and their standard error."""
    n_matches = max(1, n_games // GAMES_PER_CYCLE)
    players = [net, *["sample"] * 4]
    log = play_games(
        players, n_games, seed, 0.0, place_values(run.points), run.learned_gifts, n_matches
    )
    points = N_PLAYERS - log.games["places"][:, 0]
    means = [points[log.games["seed"] == match].mean() for match in np.unique(log.games["seed"])]
    error = np.std(means, ddof=1) / math.sqrt(len(means)) if len(means) > 1 else math.nan
    return 100 * float(np.mean(means)), 100 * float(error)


def play_alone(file: str, n_games: int, seed: int) -> Log:
    """Play games between five copies of a network, by the points and exchange of its file."""
    points, exchange = rank_net.play_settings(file)
    worth = place_values(points)
    gifts, net = exchange == "net", rank_net.load(file)
    return play_games(
        [net] * N_PLAYERS, n_games, seed, 0.0, worth, gifts, -(-n_games // GAMES_PER_CYCLE)
    )


# A run in its folder

_MAY_CHANGE = {"pool", "start"}
"""Settings that may change when a run is resumed."""
_NUMBER = "[0-9]" * 5
"""Pattern of a generation in the names of files."""


def _description(net: torch.nn.Module) -> str:
    """Return the name and the settings of a network, as a command line has them."""
    return default_text({"name": type(net).__name__, **cast(dict[str, Any], net.settings)})


def _resolved(run: RankRun) -> dict[str, Any]:
    """Return all settings by name, with the defaults of the network."""
    with torch.device("meta"):  # allocates no memory
        net = run.new_network()
    return {**asdict(run), "network": _description(net)}


def _generation_of(path: Path) -> str | None:
    """Return the generation in a learner's file; None if it is missing or damaged."""
    try:
        return nets.header(path).get("generation")
    except (FileNotFoundError, ValueError):
        return None


class RankTraining:
    """Training of a rank network, measured in generations.

    Args:
        run: settings. A run that is resumed has the settings that it began with: only `pool` may
            change (networks that were dropped do not come back), and `start`, which is not read
            again.
        options: options of the run.
        folder: folder of the run.

    Raises:
        OSError: a file cannot be read.
        ValueError: wrong settings, or a folder that does not fit them or has a damaged file.
    """

    amount_unit: ClassVar[str] = "generations"
    chunk: ClassVar[int] = 1
    saves_each_chunk: ClassVar[bool] = True
    end = None

    def __init__(self, run: RankRun, options: RankOptions, folder: RunFolder) -> None:
        self.run, self.options, self.folder, self.out = run, options, folder, folder.path
        self.generation, self.seconds = 0, 0.0
        self._next = self.out / "learner.next"
        self._next_games: Log | None = None  # of the next generation, if they have been played
        self._last: dict[str, Any] = {}  # row of the last generation
        self._row: dict[str, Any] = {}  # the same until it is written
        nets.check_device(options.device)
        if torch.device(options.device).type not in ("cpu", "cuda"):
            raise ValueError(f"device must be cpu or cuda, got {shown(options.device)}")
        with named("teacher"):
            for name in run.teacher:
                find_player(name)
        if options.resume:
            self._check_settings()
        net = self._new_net(None if options.resume else run.start)
        self.learner = RankLearner(net, run.learner, run.seed)
        self.recorded = [self._samples(read_log(path)) for path in run.logs]
        self.window: list[Samples] = []
        if options.resume:
            self._resume()

    def _check_settings(self) -> None:
        """Raise ValueError unless the run in the folder began with the same settings."""
        path = self.out / SETTINGS_FILE
        before, now = _resolved(read(path, RankRun)), _resolved(self.run)
        differ = [str(each) for each in changes(before, now) if each.name not in _MAY_CHANGE]
        if differ:
            raise ValueError(
                f"{self.out} has a run with other settings: {'; '.join(differ)}. "
                f"Resume it with {path}, or begin a new one in another --out, where start may be "
                "its net.safetensors"
            )

    def _new_net(self, start: str | None) -> torch.nn.Module:
        """Return the network that a run begins with, from a file if there is one."""
        with nets.seeded(self.run.seed):
            net = self.run.new_network().to(self.options.device)
        if start is None:
            return net
        loaded = rank_net.load(start, self.options.device)
        if _description(loaded) != _description(net):
            raise ValueError(f"{start} has {_description(loaded)}, not {_description(net)}")
        return loaded

    def _resume(self) -> None:
        """Continue from the last complete generation in the folder.

        The games of the next generation are kept if all of them were played.
        """
        path = self.out / "net.safetensors"
        metadata = nets.metadata(path)
        nets.check_described(path, metadata, self.learner.network)
        names = ("generation", "iterations", "seconds", "games_from")
        values: list[Any] = [metadata.get(name) for name in names]
        is_of_run = [type(value) for value in values] == [int, int, float, int]
        if (
            not is_of_run
            or not 0 <= values[0] < 100_000
            or not 0 <= values[1] < 1 << 62
            or not 1 <= values[3] <= values[0] + 1
        ):
            raise ValueError(f"{path} lacks the generation: it is not of a run")
        self.generation, iterations, self.seconds, first = values
        self._resume_learner(rank_net.load(path), iterations)
        self._resume_games(first)

    def _resume_games(self, first: int) -> None:
        """Load the games that are learned from, and those of the next generation.

        Args:
            first: the generation that they begin with.
        """
        for generation in range(first, self.generation + 1):
            self.window.append(self._samples(load_log(self._games(generation))))
        with contextlib.suppress(FileNotFoundError, ValueError):  # else they are played again
            self._next_games = load_log(self._games(self.generation + 1))

    def _resume_learner(self, played: torch.nn.Module, iterations: int) -> None:
        """Restore the learner of the last complete generation."""
        path = self.out / "learner.safetensors"
        if _generation_of(self._next) == str(self.generation):  # killed before it was renamed
            durable_files.rename(self._next, path)
        if _generation_of(path) != str(self.generation):
            raise ValueError(
                f"{path} is missing or damaged, or not of generation {self.generation}, as "
                "net.safetensors is"
            )
        try:
            self.learner.resume(played, nets.tensors(path), iterations)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def _games(self, generation: int) -> Path:
        """Return the file of the games of a generation."""
        return self.out / "games" / f"{generation:05}.npz"

    def pool(self) -> list[Path]:
        """Return the files of the generations that may play, the latest last."""
        latest = range(max(0, self.generation + 1 - self.run.pool), self.generation)
        paths = [self._pooled(n) for n in latest]
        return [*(path for path in paths if path.exists()), self._pooled(self.generation)]

    def _pooled(self, generation: int) -> Path:
        """Return the file of a generation that may play."""
        return self.out / "pool" / f"{generation:05}.safetensors"

    @property
    def amount(self) -> int:
        """Number of generations."""
        return self.generation

    def counters(self) -> dict[str, Any]:
        """Return the generation."""
        return {"generation": self.generation}

    def report(self) -> dict[str, Any]:
        """Return the loss and the error of the last generation."""
        return {name: self._last[name] for name in ("loss", "rmse") if name in self._last}

    def evaluate(self) -> dict[str, Any]:
        """Return the points of this generation against sample clients."""
        net, n_games = self.learner.played, self.options.evaluate
        points, error = points_against_sample(net, n_games, EVALUATION_SEED, self.run)
        return {"against_sample": round(points, 1), "error": round(error, 1)}

    def advance(self, amount: int = 1) -> None:
        """Play and learn one generation, which is complete when it is saved.

        Raises:
            OSError: a file cannot be read or written.
            ValueError: there is nothing to learn from.
        """
        self.prepare()
        start, generation = clock(), self.generation + 1
        row = self._play(generation) if self.run.games else {}
        # Targets of earlier generations would be lost where a run is resumed.
        collected = join([*self.recorded, *self.window])
        if not len(collected.places):
            raise ValueError(
                f"generation {generation} has nothing to learn from: no choice comes after the "
                f"last random move of its game. Lower epsilon, {self.run.epsilon}, or play more "
                "games"
            )
        batch = bootstrap(self.learner.played, collected, self.run.lam)
        with _bar(self.run.iterations, "iterations") as bar:
            loss = self.learner.fit(batch, self.run.iterations, self.run.final_rate, bar.update)
        seconds = self.seconds + clock() - start
        with uninterrupted():
            self.generation, self.seconds = generation, seconds
            self._row = self._last = {
                "generation": generation,
                "iterations": self.learner.iterations,
                "seconds": round(seconds, 1),
                "samples": len(batch.places),
                "loss": round(loss, 4),
                **row,
            }

    def prepare(self) -> None:
        """Save a new network, and delete files of a run that was never saved."""
        if self.generation > 0 or (self.out / "net.safetensors").exists():
            return
        for path in (self.out / "games").glob(f"{_NUMBER}.npz"):
            path.unlink()
        self.save()

    def save(self) -> None:
        """Write the network, which completes the generation, and delete files no longer needed."""
        for folder in ("pool", "games"):
            (self.out / folder).mkdir(parents=True, exist_ok=True)
        if self._row:  # a kill before the network is written has it dropped
            with uninterrupted():  # neither lost nor written twice
                self.folder.add_row(self._row)
                self._row = {}
        metadata: dict[str, Any] = {
            "generation": self.generation,
            "iterations": self.learner.iterations,
            "seconds": round(self.seconds, 1),
            "points": self.run.points,
            "exchange": "net" if self.run.learned_gifts else "hand",
            "games_from": self._first_games,
        }
        tag = {"generation": str(self.generation)}
        nets.write(self._next, self.learner.tensors(), **tag)
        nets.save(self.learner.played, self.pool()[-1], **metadata)
        nets.save(self.learner.played, self.out / "net.safetensors", **metadata)
        durable_files.rename(self._next, self.out / "learner.safetensors")
        self._delete_unused()

    @property
    def _first_games(self) -> int:
        """The first generation whose games are learned from."""
        return self.generation + 1 - len(self.window)

    def _delete_unused(self) -> None:
        """Delete networks that play no more, and games that are no longer learned from."""
        networks = set((self.out / "pool").glob(f"{_NUMBER}.safetensors")) - set(self.pool())
        games = (self.out / "games").glob(f"{_NUMBER}.npz")
        for path in [*networks, *(each for each in games if int(each.stem) < self._first_games)]:
            path.unlink()

    def _play(self, generation: int) -> dict[str, Any]:
        """Play the games of a generation into the window; return their entries of its row.

        Games that were played before a kill are used again, and their speed is unknown.
        """
        start, row = clock(), {}
        games, self._next_games = self._next_games, None
        if games is None:
            seed, options = [self.run.seed, generation], self.options
            workers = Workers(options.jobs, options.backend)
            with _bar(self.run.games, "games") as bar:
                games = generate(self.run, self.pool(), seed, workers, options.device, bar.update)
            row["games_per_second"] = round(len(games.games) / (clock() - start), 1)
            self.folder.check()
            save_log(games, self._games(generation))
        new = self._samples(games)
        some = np.arange(0, len(new.places), max(1, len(new.places) // 20_000))
        error = rmse(self.learner.played, new.part(some))
        self._slide(new)
        return {**row, "rmse": round(error, 4)}

    def _samples(self, log: Log) -> Samples:
        """Return the samples of games, with the games if the network uses the history."""
        samples = samples_of(log, self.run.learned_gifts)
        return samples if self.learner.network.encode == "history" else without_games(samples)

    def _slide(self, new: Samples) -> None:
        """Add samples to the window and drop the oldest ones."""
        self.folder.check()
        self.window.append(new)
        while sum(len(each.moments.games) for each in self.window[1:]) >= self.run.window:
            del self.window[0]


def _bar(total: int, unit: str) -> Any:
    """Return a progress bar within a generation."""
    return progress_bar(total=total, unit=unit, unit_scale=True, leave=False, position=1)

"""What the leaderboard plays: entries, the games of each, and a row for every game.

Games of 2048 are those of `Game2048-v0` after `reset(seed=seed)`. Of Daihinmin an entry plays
cycles of 100 games, from one class reset to the next, always with the same four `OPPONENTS`. Seeds
are those of `leaderboard_seeds.json`, in their order, the same for all.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from afterstate import agents
from afterstate.agents.daihinmin.play import play_match
from afterstate.agents.game2048.play import play
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.rules import N_PLAYERS
from benchmarks.leaderboard.tournament import GAMES as CYCLE
from benchmarks.leaderboard.tournament import factory as find_factory
from benchmarks.machine import machine
from benchmarks.row_files import Row

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OWN = HERE / "entries.json"
"""The entries of the package."""

GAMES = {"2048": "Game2048-v0", "daihinmin": "Daihinmin-v0"}
"""The games, and the environments whose rules hold."""

OPPONENTS = ("daihinmin-sample", "daihinmin-heuristic", "daihinmin-policy", "daihinmin-rank")
"""Who sits at the table with every entry of Daihinmin."""

_LONGEST, _MARKS = 100, set("|`[]<>*$\\\r\n")
"""Names of entries become names of files, and stand in tables and figures as they are."""

_FILES = (".npz", ".safetensors", ".w")
_LEARNED = ("network", "net", "policy", "adviser")
_BY_TABLE = ("ntuple", "expectimax", "mc-softmax")
_OF_TABLE = {"network", "tuples", "size"}


class Entry(NamedTuple):
    """What stands on the leaderboard."""

    game: str  # one of GAMES
    name: str  # as the tables have it
    player: str  # a name of `agents.make`, a file of `agents.load`, or `module:factory`
    settings: dict[str, Any]  # of the player or the factory
    games: int  # how many; of Daihinmin, cycles
    chunk: int = 1  # how many games a process plays in one go; a network side by side
    timed: bool = False  # whether its moves depend on the time that they take
    folder: Path = Path()  # where files of weights and modules are looked for

    @property
    def rows_each(self) -> int:
        """How many rows there are of a seed."""
        return 1 if self.game == "2048" else CYCLE

    def chunks(self) -> list[list[int]]:
        """The seeds of the games, as they are played by one process."""
        told = seeds(self.game)[: self.games]
        return [told[i : i + self.chunk] for i in range(0, len(told), self.chunk)]


def entries(path: Path) -> list[Entry]:
    """The entries of a file such as `leaderboard.json`.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no such file, or gives the name of an entry of the package to another.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_once)
        found = [
            _entry(game, name, {"settings": {}, **of}, path.resolve().parent)
            for game, each in told.items()
            for name, of in each.items()
        ]
    except (AttributeError, TypeError) as error:
        raise ValueError(f"{path}: games have names, and names have entries") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    times = Counter((entry.game, plain(entry)) for entry in found)
    alike = [e.name for e in found if times[e.game, plain(e)] > 1 or not plain(e)]
    if alike:
        raise ValueError(
            f"{path}: names have letters or digits, and differ in them: not so {alike}"
        )
    taken = [] if path.resolve() == OWN else _others(found)
    if taken:
        raise ValueError(f"{path}: others on the leaderboard are called {taken}: take other names")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a file, in which nothing is told twice."""
    told = dict(pairs)
    if len(told) < len(pairs):
        twice = [name for name, n in Counter(name for name, _ in pairs).items() if n > 1]
        raise ValueError(f"told twice: {twice}")
    return told


def _others(found: Sequence[Entry]) -> list[str]:
    """The names of entries that the package gives to other players."""
    own = {(entry.game, plain(entry)): entry for entry in entries(OWN)}
    pairs = [(entry, own.get((entry.game, plain(entry)), entry)) for entry in found]
    return [a.name for a, b in pairs if (a.player, a.settings) != (b.player, b.settings)]


def _entry(game: str, name: str, told: dict[str, Any], folder: Path) -> Entry:
    """An entry of a file, checked."""
    if game not in GAMES:
        raise ValueError(f"games are {list(GAMES)}, got {game!r}")
    if name in OPPONENTS or set(name) & _MARKS or len(name) > _LONGEST:
        raise ValueError(
            f"{name!r} is the name of an opponent, has one of {sorted(_MARKS)} in it, or has more "
            f"than {_LONGEST} letters"
        )
    wrong = [key for key, value in told.items() if type(value) is not KEYS.get(key)]
    missing = [key for key in ("player", "games") if key not in told]
    if wrong or missing:
        kinds = ", ".join(f"{key} ({kind.__name__})" for key, kind in KEYS.items())
        raise ValueError(f"{name!r} has {kinds}, player and games always: not so {wrong + missing}")
    found = Entry(game, name, folder=folder, **told)
    if not 0 < found.games <= len(seeds(game)) or found.chunk < 1 or found.games % found.chunk:
        raise ValueError(
            f"games of {name!r} are 1 to {len(seeds(game))}, a multiple of chunk, "
            f"got {found.games} and {found.chunk}"
        )
    return found


KEYS = {"player": str, "settings": dict, "games": int, "chunk": int, "timed": bool}
"""What an entry of a file may say, and of which kind it is."""


def plain(entry: Entry) -> str:
    """The name of an entry as that of a file."""
    return re.sub(r"\W+", "-", entry.name.lower()).strip("-")


@cache
def seeds(game: str) -> list[int]:
    """The seeds of the games, or of the cycles, in their order."""
    told: dict[str, list[int]] = json.loads((HERE / "seeds.json").read_text())
    return told[game]


# Players


def make(entry: Entry, seed: int) -> Any:
    """The player of an entry.

    Args:
        entry: the entry.
        seed: of the player's choices, if it makes any by chance and has no `seed` in its settings.

    Raises:
        OSError: a file cannot be read.
        ValueError: there is no such player, it does not know a setting, or it is of another game.
        ImportError: there is no such module, or the player needs what is not installed.
    """
    try:
        made = _made(entry, {**entry.settings, **({"seed": seed} if is_seeded(entry) else {})})
    except (OSError, ImportError):
        raise
    except (Exception, SystemExit) as error:  # a factory may raise whatever it likes
        what = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"{entry.name!r}: {what}{error}") from error
    answers = ("act",) if entry.game == "2048" else ("choose", "give")
    if isinstance(made, type) or not all(callable(getattr(made, of, None)) for of in answers):
        raise ValueError(f"{entry.name!r} is no player of {entry.game}: it lacks {answers}")
    return made


def _made(entry: Entry, settings: dict[str, Any]) -> Any:
    """The player of an entry, which may be none."""
    told = {name: _beside(entry.folder, value) for name, value in settings.items()}
    if ":" in entry.player:
        return factory(entry)(**told)
    if Path(entry.player).suffix in _FILES:
        if told:
            raise ValueError(f"the player of a file has no settings, got {told}")
        return agents.load(entry.folder / entry.player)
    if entry.player in _BY_TABLE and not told.keys() & _OF_TABLE:
        told["network"] = _table()
    return agents.make(entry.player, **told)


def _beside(folder: Path, value: Any) -> Any:
    """A setting; a file of weights is looked for in a folder."""
    is_file = isinstance(value, str) and Path(value).suffix in _FILES
    return str(folder / value) if is_file else value


@cache
def _table() -> Any:
    """The N-tuple network of the package, 1 GB, which a process reads once."""
    made: Any = agents.make("ntuple")
    return made.network


def factory(entry: Entry) -> Callable[..., Any]:
    """The factory of an entry, whose module may be beside the file of entries.

    Raises:
        ImportError, ValueError: see `tournament.factory`; or another module has its name.
    """
    if str(entry.folder) not in sys.path:
        sys.path.append(str(entry.folder))
    name = entry.player.partition(":")[0]
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"{name!r} is a module, by its name as for import: no path, no .py")
    made: Callable[..., Any] = find_factory(entry.player)
    beside = entry.folder / f"{name}.py"
    if beside.exists() and not beside.samefile(getattr(sys.modules[name], "__file__", None) or "."):
        raise ValueError(f"{beside} has the name of another module: call it otherwise")
    return made


def is_seeded(entry: Entry) -> bool:
    """Whether the player is made anew for each game, with the game's seed."""
    if "seed" in entry.settings:
        return False
    if ":" in entry.player:
        return "seed" in inspect.signature(factory(entry)).parameters
    return entry.player in agents.names() and "seed" in agents.setting_names(entry.player)


def fingerprint(player: Any) -> str | None:
    """SHA-256 of what a player has learned, 16 digits of it; None if it has learned nothing.

    It is of the arrays of its `network`, `net`, `policy` and `adviser`, also in lists of them.
    """
    parts = list(_arrays(player, {}))
    digest = hashlib.sha256()
    for part in parts:
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:16] if parts else None


def _arrays(part: Any, seen: dict[int, Any]) -> Iterator[npt.NDArray[Any]]:
    """The arrays of a player, or of a part of it; what was seen before comes once."""
    if id(part) in seen:
        return
    seen[id(part)] = part  # kept, so that nothing else gets its id
    if isinstance(part, np.ndarray):
        yield part
    elif hasattr(part, "state_dict"):
        yield from (value.detach().cpu().numpy() for value in part.state_dict().values())
    else:
        for each in _parts(part):
            yield from _arrays(each, seen)


def _parts(part: Any) -> list[Any]:
    """Of what a player, or a part of it, is made."""
    if isinstance(part, (tuple, list)):
        return list(part)
    if isinstance(part, dict):
        return [part[key] for key in sorted(part, key=str)]
    return [getattr(part, name) for name in _LEARNED if hasattr(part, name)]


def code(entry: Entry) -> str | None:
    """SHA-256 of the file of a factory, 16 digits of it; None of a player of the package."""
    if ":" not in entry.player:
        return None
    source = getattr(import_module(entry.player.partition(":")[0]), "__file__", None)
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16] if source else None


def about(entry: Entry) -> Row:
    """What the rows of an entry have in common, wherever they are played."""
    player = make(entry, 0)
    return {
        **({} if entry.game == "2048" else {"opponents": _opponents()}),
        "game": entry.game,
        "name": entry.name,
        "player": entry.player,
        "settings": entry.settings,
        "at_once": 1 if _plays_alone(entry, player) else entry.chunk,
        "weights": fingerprint(player),
        "code": code(entry),
        "env": GAMES[entry.game],
    }


def here() -> Row:
    """What the rows of a process have in common."""
    return {"afterstate": version("afterstate"), "commit": _commit(), "machine": machine()}


@cache
def _opponents() -> dict[str, str | None]:
    """What the opponents have learned, as `fingerprint` says."""
    return {name: fingerprint(agents.make(name)) for name in OPPONENTS}


@cache
def _commit() -> str | None:
    """The commit of the sources, with a + if they were changed; None without git's knowledge.

    Results do not count: rows are among them.
    """
    git = ["git", "-C", str(ROOT)]
    last = [*git, "describe", "--always", "--abbrev=12", "--exclude=*"]
    changed = [*git, "diff", "--quiet", "HEAD", "--", ".", ":(exclude)benchmarks/results"]
    try:
        told = subprocess.run(last, capture_output=True, text=True, check=False).stdout.strip()
        if not told:
            return None
        return f"{told}+" if subprocess.run(changed, check=False).returncode else told
    except FileNotFoundError:
        return None


# Games


class Timed:
    """A player whose answers are counted and timed, whatever it is asked.

    Args:
        player: the player.
        hidden: names that it has for itself.
    """

    def __init__(self, player: Any, hidden: Sequence[str] = ()) -> None:
        self._player, self._hidden = player, hidden
        self.answers, self.seconds = 0, 0.0

    def __getattr__(self, name: str) -> Any:
        if name in self._hidden:
            raise AttributeError(name)
        of = getattr(self._player, name)
        return partial(self._answer, of) if callable(of) else of

    def _answer(self, ask: Callable[..., Any], *of: Any) -> Any:
        """What the player answers."""
        began = time.process_time()
        answer = ask(*of)
        self.seconds += time.process_time() - began
        self.answers += 1
        return answer


def play_games(entry: Entry, played: Sequence[int]) -> list[Row]:
    """Plays games of 2048, or a cycle of Daihinmin: a row for each game.

    Args:
        entry: the entry.
        played: the seeds of the games, or the seed of the cycle.
    """
    if entry.game == "daihinmin":
        return [row for seed in played for row in _play_cycle(entry, seed)]
    player = make(entry, 0)
    player.act(np.array([0x1100], np.uint64))  # loads kernels, which is not to be timed
    if not is_seeded(entry):
        return _play_2048(player, played)
    return [row for seed in played for row in _play_2048(make(entry, seed), [seed])]


def _plays_alone(entry: Entry, player: Any) -> bool:
    """Whether a player plays one game after the other, whatever is asked for together."""
    finishes = hasattr(player, "finish") and not _hidden(player)
    return entry.game != "2048" or is_seeded(entry) or finishes


def _hidden(player: Any) -> tuple[str, ...]:
    """What `play` would use, of a player of 2048 that is not one of the package.

    Who plays whole games, as `finish` does, also counts their scores: others are asked for moves.
    """
    of_package = type(player).__module__.startswith("afterstate.")
    return () if of_package else ("finish", "size")


def _play_2048(player: Any, part: Sequence[int]) -> list[Row]:
    """Plays games of 2048 side by side; the player's time is shared out by their moves."""
    timed: Any = Timed(player, _hidden(player))
    games = play(timed, len(part), part)
    per_move = timed.seconds / int(games.n_moves.sum())
    columns = (list(part), games.scores.tolist(), games.max_tiles.tolist(), games.n_moves.tolist())
    return [
        {
            "seed": seed,
            "score": score,
            "max_tile": tile,
            "moves": n_moves,
            "cpu_seconds": round(n_moves * per_move, 6),
        }
        for seed, score, tile, n_moves in zip(*columns, strict=True)
    ]


def _play_cycle(entry: Entry, seed: int) -> Iterator[Row]:
    """Plays a cycle of Daihinmin, the entry and its opponents numbered by chance."""
    rng = np.random.default_rng(seed)
    order, chances = rng.permutation(N_PLAYERS).tolist(), rng.integers(2**31, size=N_PLAYERS)
    mine: Any = Timed(make(entry, int(chances[0])))
    table: list[tuple[str, Player]] = [(entry.name, mine)]
    for name, chance in zip(OPPONENTS, chances[1:].tolist(), strict=True):
        seeded = {"seed": chance} if "seed" in agents.setting_names(name) else {}
        table.append((name, agents.make(name, **seeded)))
    names = [table[i][0] for i in order]
    for match in play_match([table[i][1] for i in order], CYCLE, seed):
        yield {
            "seed": seed,
            "number": int(match["number"]),
            "players": names,
            "places": match["places"].tolist(),
            "decisions": mine.answers,
            "cpu_seconds": round(mine.seconds, 6),
        }
        mine.answers, mine.seconds = 0, 0.0


SAME = {
    "2048": ("score", "max_tile", "moves"),
    "daihinmin": ("number", "players", "places", "decisions"),
}
"""What a game that is played again has to have in common with its row."""

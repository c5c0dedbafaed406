"""Entries of the leaderboard, their games, and a row for every game.

Games of 2048 are those of `Game2048-v0` after `reset(seed=seed)`. Of Daihinmin an entry plays
cycles of 100 games, from one class reset to the next, always with the same four `OPPONENTS`. Seeds
are those of `seeds.json`, in their order, the same for all entries.
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
from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE as CYCLE
from afterstate.agents.daihinmin.play import play_match
from afterstate.agents.factories import factory as find_factory
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.players import BY_NTUPLE_NETWORK, pretrained
from afterstate.agents.game2048.values import pruned
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.envs import json_files
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.rules import N_PLAYERS
from afterstate.envs.game2048.games import new_games
from afterstate.envs.json_files import Row
from afterstate.envs.messages import listed, shown
from afterstate.leaderboard.machine import machine

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OWN = HERE / "entries.json"
"""The entries of the package."""

GAMES = {"2048": "Game2048-v0", "daihinmin": "Daihinmin-v0"}
"""Games, and the environments with their rules."""

OPPONENTS = ("daihinmin-sample", "daihinmin-heuristic", "daihinmin-policy", "daihinmin-rank")
"""Opponents of every entry of Daihinmin."""

_LONGEST, _MARKS = 100, set("|`[]<>*$\\\r\n")
"""Longest name, and characters that neither Markdown nor figures may get in names of entries."""

_LEARNED = ("network", "net", "policy", "prior")
_OF_NETWORK = {"network", "tuples", "size"}


class Entry(NamedTuple):
    """A player on the leaderboard, and how many games it plays."""

    game: str  # a key of GAMES
    name: str  # in the tables
    player: str  # a name of `agents.make`, a file of `agents.load`, or `module:factory`
    settings: dict[str, Any]  # of the player or the factory
    games: int  # number of games; of Daihinmin, cycles
    chunk: int = 1  # games per job; a network plays them in parallel
    timed: bool = False  # True if its moves depend on the time that they take
    folder: Path = Path()  # of the weights and modules that it names

    @property
    def rows_each(self) -> int:
        """Number of rows per seed."""
        return 1 if self.game == "2048" else CYCLE

    def chunks(self) -> list[list[int]]:
        """Return the seeds of each job."""
        mine = seeds(self.game)[: self.games]
        return [mine[i : i + self.chunk] for i in range(0, len(mine), self.chunk)]


def entries(path: Path) -> list[Entry]:
    """Return the entries of a file such as `entries.json`.

    Raises:
        OSError: it cannot be read.
        ValueError: it is invalid, or gives the name of a package's entry to another player.
    """
    json_files.read(path)  # bounds the nesting
    try:
        text = json_files.read_bytes(path).decode()
        content = json.loads(text, object_pairs_hook=_unique)
        result = [
            _entry(game, name, {"settings": {}, **of}, path.resolve().parent)
            for game, each in content.items()
            for name, of in each.items()
        ]
    except (AttributeError, TypeError) as error:
        raise ValueError(f"{path} must map games to names, and names to entries") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    times = Counter((entry.game, file_name(entry)) for entry in result)
    ambiguous = [e.name for e in result if times[e.game, file_name(e)] > 1 or not file_name(e)]
    if ambiguous:
        raise ValueError(f"{path}: names must differ in letters or digits, got {shown(ambiguous)}")
    taken = [] if path.resolve() == OWN else _taken_names(result)
    if taken:
        raise ValueError(f"{path}: names of other players on the leaderboard: {taken}")
    return result


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise ValueError for duplicate keys."""
    duplicates = [key for key, n in Counter(key for key, _ in pairs).items() if n > 1]
    if duplicates:
        raise ValueError(f"duplicate keys: {duplicates}")
    return dict(pairs)


def _taken_names(given: Sequence[Entry]) -> list[str]:
    """Return the names of entries that the package gives to other players."""
    own = {(entry.game, file_name(entry)): entry for entry in entries(OWN)}
    pairs = [(entry, own.get((entry.game, file_name(entry)), entry)) for entry in given]
    return [a.name for a, b in pairs if (a.player, a.settings) != (b.player, b.settings)]


def _entry(game: str, name: str, fields: dict[str, Any], folder: Path) -> Entry:
    """Return an entry of a file, checked."""
    if game not in GAMES:
        raise ValueError(f"game must be one of {listed(GAMES)}, got {shown(game)}")
    if name in OPPONENTS or set(name) & _MARKS or len(name) > _LONGEST:
        raise ValueError(
            f"name must have at most {_LONGEST} characters, none of {sorted(_MARKS)}, and not be "
            f"an opponent's, got {shown(name)}"
        )
    wrong = [key for key, value in fields.items() if type(value) is not KEYS.get(key)]
    missing = [key for key in ("player", "games") if key not in fields]
    if wrong or missing:
        kinds = ", ".join(f"{key} ({kind.__name__})" for key, kind in KEYS.items())
        raise ValueError(f"{name!r}: wrong or missing {shown(wrong + missing)}, fields are {kinds}")
    entry = Entry(game, name, folder=folder, **fields)
    if not 0 < entry.games <= len(seeds(game)) or entry.chunk < 1 or entry.games % entry.chunk:
        raise ValueError(
            f"games of {name!r} must be 1 to {len(seeds(game))} and a multiple of chunk, "
            f"got {shown(entry.games)} and {shown(entry.chunk)}"
        )
    return entry


KEYS = {"player": str, "settings": dict, "games": int, "chunk": int, "timed": bool}
"""Fields of an entry in a file, and their types; player and games are required."""


def file_name(entry: Entry) -> str:
    """Return the name of an entry as that of a file."""
    return re.sub(r"\W+", "-", entry.name.lower()).strip("-")


@cache
def seeds(game: str) -> list[int]:
    """Return the seeds of the games or cycles, in their order."""
    by_game: dict[str, list[int]] = json.loads((HERE / "seeds.json").read_text())
    return by_game[game]


# Players


def make(entry: Entry, seed: int) -> Any:
    """Return the player of an entry.

    Args:
        entry: the entry.
        seed: of the player's random choices, if its settings have no `seed`.

    Raises:
        OSError: a file cannot be read.
        ValueError: the player or a setting is unknown, or the player is of another game.
        ImportError: a module or extra is not installed.
    """
    try:
        player = _make(entry, {**entry.settings, **({"seed": seed} if is_seeded(entry) else {})})
    except (OSError, ImportError):
        raise
    except (Exception, SystemExit) as error:  # a factory may raise anything
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"{entry.name!r}: {kind}{error}") from error
    methods = ("act",) if entry.game == "2048" else ("choose", "give")
    if isinstance(player, type) or not all(callable(getattr(player, m, None)) for m in methods):
        raise ValueError(f"{entry.name!r} must be a player of {entry.game} with {methods}")
    return player


def _make(entry: Entry, settings: dict[str, Any]) -> Any:
    """Return what the entry's factory, file or name makes, unchecked."""
    resolved = {name: _resolve(entry.folder, value) for name, value in settings.items()}
    if Path(entry.player).suffix in agents.SUFFIXES:
        if resolved:
            raise ValueError(f"a player from a file takes no settings, got {shown(resolved)}")
        return agents.load(entry.folder / entry.player)
    if _has_factory(entry):
        return factory(entry)(**resolved)
    if entry.player in BY_NTUPLE_NETWORK and not resolved.keys() & _OF_NETWORK:
        resolved["network"] = pretrained()
    return agents.make(entry.player, **resolved)


def _has_factory(entry: Entry) -> bool:
    """Return True if an entry's player is a factory: a path of a file may have a colon, too."""
    return ":" in entry.player and Path(entry.player).suffix not in agents.SUFFIXES


def _resolve(folder: Path, value: Any) -> Any:
    """Return a setting, with the folder before it if it is a file of weights."""
    is_file = isinstance(value, str) and Path(value).suffix in agents.SUFFIXES
    return str(folder / value) if is_file else value


def factory(entry: Entry) -> Callable[..., Any]:
    """Return the factory of an entry, whose module may be in the folder of the entries' file.

    Raises:
        ImportError, ValueError: see `factories.factory`; or another module has the same name.
    """
    if str(entry.folder) not in sys.path:
        sys.path.append(str(entry.folder))
    name = entry.player.partition(":")[0]
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"module must be a name as in `import`, without path or .py, got {name!r}")
    result: Callable[..., Any] = find_factory(entry.player)
    file = entry.folder / f"{name}.py"
    if file.exists() and not file.samefile(getattr(sys.modules[name], "__file__", None) or "."):
        raise ValueError(f"{file} has the name of another module: rename it")
    return result


def is_seeded(entry: Entry) -> bool:
    """Return True if each game gets a new player with the game's seed."""
    if "seed" in entry.settings:
        return False
    if _has_factory(entry):
        return "seed" in inspect.signature(factory(entry)).parameters
    return agents.takes_seed(entry.player)


def fingerprint(player: Any) -> str | None:
    """Return the first 16 digits of the SHA-256 of a player's weights; None without weights.

    Weights are the arrays of `network`, `net`, `policy` and `prior`, also in lists of them;
    those of an N-tuple network are its tuples and its table, or the weights that pruning kept.
    """
    parts = list(_arrays(player, {}))
    digest = hashlib.sha256()
    for part in parts:
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:16] if parts else None


def _arrays(part: Any, seen: dict[int, Any]) -> Iterator[npt.NDArray[Any]]:
    """Yield the arrays of a player or of a part of it, each once."""
    if id(part) in seen:
        return
    seen[id(part)] = part  # kept alive, so that nothing else gets its id
    if isinstance(part, np.ndarray):
        yield part
    elif isinstance(part, Network):
        yield part.masks
        yield from pruned.kept(part) if part.is_pruned else [part.weights]
    elif hasattr(part, "state_dict"):
        yield from (value.detach().cpu().numpy() for value in part.state_dict().values())
    else:
        for each in _parts(part):
            yield from _arrays(each, seen)


def _parts(part: Any) -> list[Any]:
    """Return the parts of a player or of a part of it."""
    if isinstance(part, (tuple, list)):
        return list(part)
    if isinstance(part, dict):
        return [part[key] for key in sorted(part, key=str)]
    return [getattr(part, name) for name in _LEARNED if hasattr(part, name)]


def code_hash(entry: Entry) -> str | None:
    """Return 16 digits of the SHA-256 of a factory's file; None for players of the package."""
    if not _has_factory(entry):
        return None
    source = getattr(import_module(entry.player.partition(":")[0]), "__file__", None)
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16] if source else None


def entry_fields(entry: Entry) -> Row:
    """Return the fields that all rows of an entry share, on every machine."""
    player = make(entry, 0)
    return {
        **({} if entry.game == "2048" else {"opponents": _opponents()}),
        "game": entry.game,
        "name": entry.name,
        "player": entry.player,
        "settings": entry.settings,
        "at_once": 1 if _plays_alone(entry, player) else entry.chunk,
        "weights": fingerprint(player),
        "code": code_hash(entry),
        "env": GAMES[entry.game],
    }


def process_fields() -> Row:
    """Return the fields that all rows of a process share."""
    return {"afterstate": version("afterstate"), "commit": _commit(), "machine": machine()}


@cache
def _opponents() -> dict[str, str | None]:
    """Return the fingerprints of the opponents."""
    return {name: _opponent(name) for name in OPPONENTS}


def _opponent(name: str) -> str | None:
    """Return the fingerprint of an opponent; raise ImportError that names it if it lacks torch."""
    try:
        return fingerprint(agents.make(name))
    except ImportError as error:
        raise ImportError(f"its opponent {name}: {error}") from error


@cache
def _commit() -> str | None:
    """Return the commit of the sources, with a + if files other than results differ from it.

    None outside a git checkout of this package.
    """
    if ROOT / "benchmarks" / "leaderboard" != HERE:
        return None
    git = ["git", "-C", str(ROOT)]
    last = [*git, "describe", "--always", "--abbrev=12", "--exclude=*"]
    changed = [*git, "diff", "--quiet", "HEAD", "--", ".", ":(exclude)benchmarks/results"]
    try:
        commit = subprocess.run(last, capture_output=True, text=True, check=False).stdout.strip()
        if not commit:
            return None
        return f"{commit}+" if subprocess.run(changed, check=False).returncode else commit
    except FileNotFoundError:
        return None


# Games


class Timed:
    """A player whose answers are counted and timed, whichever method is called.

    Args:
        player: the player.
        hidden: attributes of the player that callers must not see.
    """

    def __init__(self, player: Any, hidden: Sequence[str] = ()) -> None:
        self._player, self._hidden = player, hidden
        self.answers, self.seconds = 0, 0.0

    def __getattr__(self, name: str) -> Any:
        if name in self._hidden:
            raise AttributeError(name)
        value = getattr(self._player, name)
        return partial(self._timed_call, value) if callable(value) else value

    def _timed_call(self, method: Callable[..., Any], *args: Any) -> Any:
        """Return the player's answer."""
        start = time.process_time()
        answer = method(*args)
        self.seconds += time.process_time() - start
        self.answers += 1
        return answer


def play_games(entry: Entry, played: Sequence[int]) -> list[Row]:
    """Play games of 2048 or cycles of Daihinmin; return a row for each game.

    Args:
        entry: the entry.
        played: the seeds of the games or cycles.
    """
    if entry.game == "daihinmin":
        return [row for seed in played for row in _play_cycle(entry, seed)]
    player = make(entry, 0)
    player.act(np.array([0x1100], np.uint64))  # loads the kernels before timing starts
    if hasattr(player, "finish") and not _hidden(player):
        player.finish(new_games(1))  # a game without a move
    if not is_seeded(entry):
        return _play_2048(player, played)
    return [row for seed in played for row in _play_2048(make(entry, seed), [seed])]


def _plays_alone(entry: Entry, player: Any) -> bool:
    """Return True if a player always plays one game at a time."""
    finishes = hasattr(player, "finish") and not _hidden(player)
    return entry.game != "2048" or is_seeded(entry) or finishes


def _hidden(player: Any) -> tuple[str, ...]:
    """Return the attributes that `play` must not use of players outside the package.

    `finish` plays whole games and reports their scores, so only the package's is trusted; other
    players return moves.
    """
    of_package = type(player).__module__.startswith("afterstate.")
    return () if of_package else ("finish", "size")


def _play_2048(player: Any, part: Sequence[int]) -> list[Row]:
    """Play games of 2048 in parallel; the player's time is divided by their moves."""
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
    """Play a cycle of Daihinmin, with the entry and its opponents in random order."""
    rng = np.random.default_rng(seed)
    order, chances = rng.permutation(N_PLAYERS).tolist(), rng.integers(2**31, size=N_PLAYERS)
    mine: Any = Timed(make(entry, int(chances[0])))
    table: list[tuple[str, Player]] = [(entry.name, mine)]
    for name, chance in zip(OPPONENTS, chances[1:].tolist(), strict=True):
        seeded = {"seed": chance} if agents.takes_seed(name) else {}
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


REPEATED_FIELDS = {
    "2048": ("score", "max_tile", "moves"),
    "daihinmin": ("number", "players", "places", "decisions"),
}
"""Fields that are equal when a game is played again."""

"""Options of the commands; what reads them is imported only when a command runs.

A player is named as for `afterstate.agents.find`: a name with settings after commas, such as
`expectimax,depth=3`, the file of a trained player, or `module:factory`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from afterstate.envs.daihinmin.uecda.settings import PORT, SILENCE_SECONDS, ServerSettings
from afterstate.envs.options import (
    POSITIONAL,
    Address,
    File,
    Folder,
    Name,
    Player,
    Player2048,
    PlayerOfDaihinmin,
)


@dataclass(frozen=True)
class Play2048:
    """Play 2048 in the terminal or a window.

    Keys: arrows, WASD or HJKL move; ? shows a hint, U takes a move back, N starts a new game, Q
    ends. Where the input is not a terminal, its characters and the codes of arrows are the keys.

    Example: afterstate play 2048 --hints expectimax,depth=3
    """

    seed: int | None = None
    """Seed of the game; by default random. A new game has the next number."""
    rows: int = 4
    """Number of rows, 1 to 4."""
    cols: int = 4
    """Number of columns, 1 to 4."""
    hints: Player2048 = "expectimax,depth=2"
    """Player that gives hints."""
    window: bool = False
    """Play in a window instead of the terminal."""


@dataclass(frozen=True)
class PlayDaihinmin:
    """Play Daihinmin in the terminal against four players.

    Type a play in notation, such as "S8", "S8 JO=H8" or "pass", or its number in the list of legal
    plays; ? shows a hint, L the list, Q ends.

    Example: afterstate play daihinmin --opponents daihinmin-mc daihinmin-sample --games 3
    """

    opponents: tuple[PlayerOfDaihinmin, ...] = ("daihinmin-heuristic",)
    """Players of the other seats; the last one takes all that are left."""
    games: int = 1
    """Number of games of the match."""
    seed: int | None = None
    """Seed of deals and seats; by default random."""
    hints: PlayerOfDaihinmin = "daihinmin-mc"
    """Player that gives hints."""


@dataclass(frozen=True)
class Watch:
    """Watch a player of 2048, or up to five of Daihinmin, in the terminal, a window or a file.

    Example: afterstate watch expectimax,depth=3 --until 2048 --to game.gif
    """

    players: tuple[Player, ...]
    """Players of one game; in Daihinmin, the last one takes all seats that are left."""
    seed: int = 0
    """Seed of the game, as of a reset of its environment."""
    to: Literal["terminal", "window"] | File = "terminal"
    """Target of the pictures: terminal, window, or a file that ends in .gif or .mp4, whose folder
    is created if it does not exist."""
    speed: float = 5.0
    """Moves per second; 0: as fast as the player moves."""
    until: int | None = None
    """Tile of 2048 at which watching ends, such as 2048; by default it ends with the game."""
    moves: int | None = None
    """Number of moves after which watching ends; by default no limit."""
    last: int = 120
    """Number of last positions in a file, at most 1000."""


@dataclass(frozen=True)
class Eval:
    """Play games with players of one game and print a table with 95% intervals.

    All play the same seeds. Games of Daihinmin are played in cycles of 100, from one reset of the
    classes to the next, and intervals are over cycles.

    Example: afterstate eval ntuple expectimax,depth=2 --games 200
    """

    players: tuple[Player, ...]
    """Players of one game."""
    games: int = 100
    """Number of games of each player, at most 10,000,000; in Daihinmin, a multiple of 100."""
    seed: int = 0
    """Seed of the first game or cycle; the others have the numbers after it."""
    opponents: tuple[PlayerOfDaihinmin, ...] = ()
    """Opponents in Daihinmin, by default daihinmin-sample; the last one takes all seats left."""
    json: bool = False
    """Print JSON instead of a table."""


@dataclass(frozen=True)
class List:
    """List environments, players and the networks of the package.

    Example: afterstate list players --json
    """

    what: Annotated[Literal["all", "environments", "players", "networks"], POSITIONAL] = "all"
    """Kind of things to list."""
    json: bool = False
    """Print JSON instead of tables."""


@dataclass(frozen=True)
class Warmup:
    """Compile the environments of both games, and what the moves of players need.

    Compiled code is kept on disk, in the folder NUMBA_CACHE_DIR or next to the package, so that
    later uses do not wait. Code that is kept already is not compiled again.

    Example: afterstate warmup expectimax daihinmin-mc
    """

    players: Annotated[tuple[Literal["all"] | Player, ...], POSITIONAL] = ()
    """Players, as other commands name them: by name, such as expectimax,depth=3, by file or
    as module:factory; all: all names. By default none, which compiles the environments."""


@dataclass(frozen=True)
class Serve(ServerSettings):
    """Play matches of Daihinmin with clients of the UEC competition's protocol 20070.

    The standings go to stdout, events to stderr. Ctrl-C and SIGTERM end the match and print the
    results so far.

    Example: afterstate serve --games 100 --seats daihinmin-sample daihinmin-heuristic
    """

    seats: tuple[PlayerOfDaihinmin, ...] = ()
    """Built-in players that fill the first seats."""
    replacement: PlayerOfDaihinmin | None = None
    """Built-in player that takes over the seat of a lost client; by default the seat passes."""
    log: File | None = Path("uecda-{time}.jsonl")
    """File to which finished games are appended, in the format of recorded games; {time} stands for
    the time of the start. With none, no games are kept."""


@dataclass(frozen=True)
class Join:
    """Play a match of Daihinmin on a server of the UEC competition's protocol 20070.

    Example: afterstate join --host 127.0.0.1 --player daihinmin-heuristic --name mine
    """

    host: Address = "127.0.0.1"
    """Address of the server."""
    port: int = PORT
    """Port of the server."""
    player: PlayerOfDaihinmin = "random"
    """Player that plays."""
    name: Name | None = None
    """Name in the server's lists, at most 14 characters; the server shows the first 9. By default
    it is that of the player."""
    silence_seconds: float = SILENCE_SECONDS
    """Seconds to wait for the server's next message before leaving the match."""


@dataclass(frozen=True)
class Replay:
    """Replay recorded games of Daihinmin and compare every step with the rules.

    Files are JSON lines, also packed as .gz: games as the server writes them, or positions {hand,
    field, rev, lock, n, nc, legal} with their legal plays. The command prints the numbers of games,
    positions, actions and mismatches and the first mismatch, and exits with 1 if there is one. A
    damaged line is reported and left out; the command then exits with 1, too.

    Example: afterstate replay games.jsonl --json
    """

    files: tuple[File, ...]
    """Files of recorded games."""
    json: bool = False
    """Print the results as a JSON list, an object for each file."""


@dataclass(frozen=True)
class Completion:
    """Print the completion of commands, options and their values for a shell.

    Example: afterstate completion bash > ~/.local/share/bash-completion/completions/afterstate
    """

    shell: Literal["bash", "zsh", "tcsh"]
    """Shell that completes."""


@dataclass(frozen=True)
class Web:
    """Serve a page in the browser: play both games, watch players, ask for hints.

    The page is for this machine only, unless --beyond-loopback is given. Games are kept in files
    and survive a restart. Ctrl-C ends.

    Example: afterstate web --port 8048
    """

    host: Address = "127.0.0.1"
    """Address to listen on."""
    port: int = 8048
    """Port to listen on; 0: any free one."""
    no_open: bool = False
    """Print the address only, without opening a browser."""
    beyond_loopback: bool = False
    """Allow an address that others can reach. There are no passwords and no encryption."""
    names: tuple[Name, ...] = ()
    """Names by which browsers reach the server beyond this machine, also through a proxy; others
    are refused."""
    folder: Folder | None = None
    """Folder of visitors' games; by default ~/.local/state/afterstate/web."""
    searches: int = 2
    """Searches that run at the same time; up to twice as many slow ones run in addition."""
    seconds: float = 10.0
    """Time of a search, in seconds; longer ones are stopped."""
    visitors: int = 500
    """Visitors whose games are kept; the least recently seen is dropped for a new one."""

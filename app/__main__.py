"""The command `afterstate`: games, players, training, leaderboard and competition."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from afterstate.envs.commands import (
    Part,
    asks_for_help,
    exit_code,
    fail,
    fail_unknown,
    naming_options,
    parse,
    parse_one_of,
    run_process,
)

EPILOG = """examples:
  afterstate play 2048
  afterstate watch expectimax,depth=3 --until 2048
  afterstate eval ntuple expectimax,depth=2 --games 200
  afterstate train ntuple --out runs/mine --hours 1

Exit codes: 0 done, 1 a check, a match or a run failed, 2 wrong arguments, 130 interrupted
(log, leaderboard and serve: also by SIGTERM), 141 the reader of the output has ended,
143 terminated."""


class Command(NamedTuple):
    """A command: what it does, and where its options and its function are.

    Without options, the function gets the words of the command line.
    """

    text: str
    run: str  # module and function
    options: tuple[str, ...] = ()  # classes of options, of each sub-command
    module: str = "afterstate.commands.options"  # of these classes


COMMANDS = {
    "play": Command(
        "play a game yourself, with hints",
        "afterstate.commands.play:run",
        ("Play2048", "PlayDaihinmin"),
    ),
    "watch": Command(
        "watch players, in the terminal, a window or a file",
        "afterstate.commands.watch:run",
        ("Watch",),
    ),
    "web": Command(
        "play, watch and ask for hints in the browser",
        "afterstate.web.command:run",
        ("Web",),
    ),
    "eval": Command(
        "play games and print scores with intervals",
        "afterstate.commands.evaluate:run",
        ("Eval",),
    ),
    "train": Command(
        "train a network or a policy, or resume a run",
        "afterstate.agents.training.__main__:main",
    ),
    "leaderboard": Command(
        "play, report and verify the leaderboard, or hold a tournament",
        "afterstate.leaderboard.__main__:run",
        ("Play", "Verify", "Report", "Readme", "Tournament"),
        "afterstate.leaderboard.options",
    ),
    "serve": Command(
        "serve Daihinmin by the competition's protocol",
        "afterstate.commands.uecda:serve",
        ("Serve",),
    ),
    "join": Command(
        "join a match on such a server",
        "afterstate.commands.uecda:join",
        ("Join",),
    ),
    "replay": Command(
        "check recorded games of Daihinmin against the rules",
        "afterstate.commands.replay:run",
        ("Replay",),
    ),
    "list": Command(
        "list environments, players and networks",
        "afterstate.commands.listing:run",
        ("List",),
    ),
    "warmup": Command(
        "compile what players need",
        "afterstate.commands.warmup:run",
        ("Warmup",),
    ),
    "log": Command(
        "write a log of a player's moves of 2048, to learn from",
        "afterstate.agents.game2048.learning.play_logs:write",
        ("LogOptions",),
        "afterstate.agents.game2048.learning.options",
    ),
    "prune": Command(
        "prune an N-tuple network to a small file",
        "afterstate.agents.game2048.learning.pruning:prune",
        ("PruneOptions",),
        "afterstate.agents.game2048.learning.options",
    ),
    "completion": Command(
        "print the completion for bash, zsh or tcsh",
        "afterstate.completion:run",
        ("Completion",),
    ),
}
"""Commands by name."""

NO_KERNELS = (["completion"], ["list"])
"""Commands that print names and settings."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    if arguments is not None:
        return _run_words(arguments)
    words = sys.argv[1:]
    if asks_for_help(words) or words[:1] in NO_KERNELS:
        os.environ["NUMBA_DISABLE_JIT"] = "1"  # no kernel runs, so none is loaded
    return run_process(lambda: _run_words(words))


def _run_words(words: Sequence[str]) -> int:
    """Run a command line and return the exit code."""
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0 if words else 2
    if words[0] == "--version":
        from afterstate import __version__

        print(f"afterstate {__version__}")
        return 0
    name, *rest = words
    try:
        sys.path.append(os.getcwd())  # for players `module:factory`
    except FileNotFoundError:
        fail("the working directory was removed: change to another one")
    if name not in COMMANDS:
        fail_unknown(words, [*COMMANDS, "--help", "--version"], "afterstate")
    return run(name, rest)


def run(name: str, words: Sequence[str]) -> int:
    """Run a command with the words after its name and return the exit code."""
    command = COMMANDS[name]
    options: Any = words
    parts: list[Part] = []
    if command.options:
        options = parse_options(name, words)
        parts = [Part(type(options))]
    module, _, function = command.run.partition(":")

    def run_command() -> Any:
        with naming_options(parts, options if parts else None):
            return getattr(import_module(module), function)(options)

    return exit_code(run_command)


def parse_options(name: str, words: Sequence[str]) -> Any:
    """Return the options of a command's words, of one class or of one for each sub-command."""
    kinds = option_classes(name)
    if len(kinds) == 1:
        return parse(next(iter(kinds.values())), f"afterstate {name}", words)
    return parse_one_of(kinds, f"afterstate {name}", words)


def option_classes(name: str) -> dict[str, type[Any]]:
    """Return the classes of a command's options by its sub-commands: `Play2048` is `2048`."""
    command = COMMANDS[name]
    module = import_module(command.module)
    prefix = name.capitalize() if name == "play" else ""
    return {each.removeprefix(prefix).lower(): getattr(module, each) for each in command.options}


def usage() -> str:
    """Return the usage of the command."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {each.text}" for name, each in COMMANDS.items()]
    head = "usage: afterstate COMMAND [options]\n\n2048 and Daihinmin: environments and players."
    help_ = "Options of a command: afterstate COMMAND --help. Version: afterstate --version."
    return "\n".join([head, "", "commands:", *lines, "", help_, "", EPILOG])


if __name__ == "__main__":
    sys.exit(main())

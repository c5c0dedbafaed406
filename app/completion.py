"""The completion of commands, their options and values, for shells.

Each option is completed by its kind: choices by their words, files and folders by their names, and
players by their names, or as files where no name fits.
"""

from __future__ import annotations

import zlib
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

import shtab

from afterstate import __version__, agents
from afterstate.__main__ import COMMANDS, option_classes
from afterstate.agents.training.__main__ import parts_of
from afterstate.agents.training.learners import LEARNERS
from afterstate.commands.options import Completion
from afterstate.envs.commands import Part, add_options, summary
from afterstate.envs.options import Option


def run(options: Completion) -> None:
    """Print the completion of a shell."""
    parser, functions = command_line()
    preamble: Any = {shell: "\n".join(functions[shell]) for shell in functions}  # not only a text
    script = shtab.complete(parser, options.shell, preamble=preamble)
    if options.shell == "zsh":  # shtab completes only the first word of a positional argument
        script = script.replace('"(*)::', '"*:')
    print(script)


Functions = dict[str, dict[str, None]]
"""Functions in the language of each shell, each once."""


def command_line() -> tuple[ArgumentParser, Functions]:
    """Return the parser of all commands, whose arguments have what shtab completes them by.

    The functions are those that they name.
    """
    parser, functions = ArgumentParser("afterstate"), Functions(bash={}, zsh={})
    parser.add_argument("--version", action="version", version=__version__, help="the version")
    commands = parser.add_subparsers()
    for name, command in COMMANDS.items():
        child = commands.add_parser(name, help=command.text)
        if name == "train":
            _add_learners(child, functions)
        else:
            _add_kinds(child, option_classes(name), functions)
    return parser, functions


def _add_kinds(
    parser: ArgumentParser, kinds: Mapping[str, type[Any]], functions: Functions
) -> None:
    """Add the options of a command, or its sub-commands."""
    if len(kinds) == 1:
        (kind,) = kinds.values()
        _add(parser, [Part(kind)], functions)
        return
    commands = parser.add_subparsers()
    for name, kind in kinds.items():
        _add(commands.add_parser(name, help=summary(kind)), [Part(kind)], functions)


def _add_learners(parser: ArgumentParser, functions: Functions) -> None:
    """Add the learners, each with its options."""
    learners = parser.add_subparsers()
    for name, learner in LEARNERS.items():
        _add(learners.add_parser(name, help=learner.description), parts_of(name), functions)


def _add(parser: ArgumentParser, parts: Sequence[Part], functions: Functions) -> None:
    """Add the options of dataclasses."""
    for part in parts:
        for option, action in add_options(parser, part.options()).items():
            _complete(option, action, functions)


def _complete(option: Option, action: Any, functions: Functions) -> None:
    """Let the values of an option be completed by its kind."""
    if option.value is None:
        return
    kinds = {*option.value.name.split("|")}
    words = [*option.value.choices]
    words += players(option.value.game) if "PLAYER" in kinds else ()
    words += ("cpu", "cuda") if "DEVICE" in kinds else ()
    if words and kinds & {"FILE", "PLAYER"}:
        action.complete = _words_or_files(words, functions)
    elif words:
        action.choices = words
    elif "FILE" in kinds:
        action.complete = shtab.FILE
    elif "FOLDER" in kinds:
        action.complete = shtab.DIRECTORY
    if action.nargs == "+":
        _complete_several(action)


def _complete_several(action: Any) -> None:
    """Let zsh complete up to five values of an option, for which shtab has one; others have all."""
    words = f"({' '.join(action.choices or ())})"
    value = action.complete["zsh"] if hasattr(action, "complete") else words
    action.metavar = f"{action.metavar}:{value}::" * 4 + action.metavar


def players(game: str | None = None) -> list[str]:
    """Return the names of players of a game or of both, without `daihinmin-`, too."""
    is_daihinmin = {"2048": (False,), "daihinmin": (True,), None: (False, True)}[game]
    names = [each for each in agents.names() if each.startswith("daihinmin-") in is_daihinmin]
    return list(dict.fromkeys([*names, *(name.removeprefix("daihinmin-") for name in names)]))


def _words_or_files(words: Sequence[str], functions: Functions) -> dict[str, str]:
    """Return the completion by words, and by files where none fits."""
    joined = " ".join(words)
    name = f"_afterstate_{zlib.crc32(joined.encode()):x}_or_files"
    bash = f'{name}() {{ compgen -W "{joined}" -- "$1" || compgen -f -- "$1"; }}'
    functions["bash"][bash] = None
    functions["zsh"][f"{name}() {{ compadd -- {joined} || _files }}"] = None
    return {"bash": name, "zsh": name, "tcsh": f"`echo {joined}`"}

"""The completion of commands, their options and the names of players, for shells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, field, fields, make_dataclass
from typing import Annotated, Any, Literal, Union

import tyro

from afterstate import agents
from afterstate.__main__ import COMMANDS, option_classes
from afterstate.agents.training.__main__ import LEARNERS, arguments
from afterstate.envs.commands import add_help, fail, parse_one_of
from afterstate.envs.messages import shown

SHELLS = ("bash", "zsh", "tcsh")
HELP = """\
Print the completion of commands, options and names of players for a shell.

Example: afterstate completion bash > ~/.local/share/bash-completion/completions/afterstate"""


def print_completion(words: Sequence[str]) -> int:
    """Print the completion of a shell and return the exit code."""
    if words and words[0] in ("-h", "--help"):
        print(f"usage: afterstate completion {{{','.join(SHELLS)}}}\n\n{HELP}")
        return 0
    if len(words) != 1 or words[0] not in SHELLS:
        given = shown(" ".join(words))
        fail(f"completion must be followed by one of {', '.join(SHELLS)}, got {given}")
    kinds = {name: _completed(option_classes(name)) for name in COMMANDS}
    kinds["train"] = _one_of({name: arguments(name) for name in LEARNERS})
    kinds["completion"] = _one_of(dict.fromkeys(SHELLS, _completed({})))
    parse_one_of(kinds, "afterstate", ["--tyro-print-completion", words[0]])
    return 0


def _completed(kinds: Mapping[str, type[Any]]) -> Any:
    """Return the class whose options are completed; an empty one if there are no options."""
    if not kinds:
        return make_dataclass("Words", [])
    made = {name: _with_players(kind) for name, kind in kinds.items()}
    return next(iter(made.values())) if len(made) == 1 else _one_of(made)


def _one_of(kinds: Mapping[str, type[Any]]) -> Any:
    """Return a class with sub-commands."""
    return make_dataclass("SubCommands", [("command", _union(kinds))])


def _union(kinds: Mapping[str, type[Any]]) -> Any:
    """Return the type of one of several sub-commands."""
    named = [Annotated[kind, tyro.conf.subcommand(name)] for name, kind in kinds.items()]
    return Union[tuple(named)]  # noqa: UP007


def _with_players(kind: type[Any]) -> type[Any]:
    """Return a class of options where names of players are completed."""
    add_help(kind)
    names, given = agents.names(), {each.name: each for each in fields(kind)}
    choice: Any = Literal[tuple(names)]
    options: Any = [
        (name, choice, field(default=names[0])) for name in ("hints", "player") if name in given
    ]
    if "opponents" in given:
        options.append(("opponents", tuple[choice, ...], field(default=(names[0],))))
    made = make_dataclass(kind.__name__, options, bases=(kind,), frozen=True)
    if "players" not in given:
        return made
    # Positional words are completed only as sub-commands.
    has_default = given["players"].default is not MISSING
    first: Any = {"default_factory": made} if has_default else {}
    words: Any = [("players", _union(dict.fromkeys(names, made)), field(**first))]
    return make_dataclass(kind.__name__, words, bases=(made,), frozen=True)

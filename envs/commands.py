"""Command lines, read by tyro into dataclasses."""

from __future__ import annotations

import errno
import json
import sys
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from traceback import walk_tb
from types import MappingProxyType, UnionType
from typing import (
    Annotated,
    Any,
    NoReturn,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from afterstate.envs import durable_files
from afterstate.envs.messages import printable, shown

T = TypeVar("T")


def parse(kind: type[T], program: str, arguments: Sequence[str] | None = None) -> T:
    """Return the settings of a command line; fields without a default are positional.

    Args:
        kind: a dataclass, whose docstrings are the help texts.
        program: name of the command in its usage.
        arguments: words of the command line, by default those of this process.

    Raises:
        SystemExit: the command line is wrong or asks for help.
    """
    words = sys.argv[1:] if arguments is None else arguments
    return cast(T, read(kind, program, words, _config()))


def parse_one_of(
    kinds: Mapping[str, type[Any]], program: str, arguments: Sequence[str] | None = None
) -> Any:
    """Return the settings of a command line that begins with the name of a sub-command.

    Args:
        kinds: a dataclass for each sub-command.
        program: name of the command in its usage.
        arguments: words of the command line, by default those of this process.

    Raises:
        SystemExit: the command line is wrong or asks for help.
    """
    import tyro

    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in kinds:
        return parse(kinds[words[0]], f"{program} {words[0]}", words[1:])
    if not words or words[0] not in ("-h", "--help", "--tyro-print-completion"):
        given = shown(words[0]) if words else "nothing"
        expected = f"{program} must be followed by one of {', '.join(kinds)}"
        fail(f"{expected}, got {given}; see {program} --help")
    named: dict[str, Any] = dict(kinds)
    for kind in kinds.values():
        add_help(kind)
    config = (*_config(), tyro.conf.OmitSubcommandPrefixes)
    options: Any = {"prog": program, "args": words, "config": config, "registry": registry()}
    return tyro.extras.subcommand_cli_from_dict(named, **options)


def read(kind: Any, program: str, words: Sequence[str], config: Any, **options: Any) -> Any:
    """Return what tyro reads from the words of a command line.

    Args:
        kind: a dataclass, whose docstrings are the help texts.
        program: name of the command.
        words: of the command line, after the name.
        config: of tyro.
        **options: others of `tyro.cli`.

    Raises:
        SystemExit: the words ask for help, or are wrong: 2, with one line on stderr.
    """
    import tyro

    from afterstate.envs.command_errors import CommandLineError, in_one_line

    add_help(kind)
    options |= {"prog": program, "args": words, "config": config, "registry": registry()}
    try:
        with in_one_line(kind):
            return tyro.cli(kind, **options)
    except CommandLineError as error:
        fail(f"{error}; see {program} --help")


def _config() -> tuple[Any, ...]:
    """Return settings of tyro: required fields are positional, and flags have one form."""
    import tyro

    return tyro.conf.PositionalRequiredArgs, tyro.conf.FlagCreatePairsOff


def placeholder(name: str, is_required: bool = False) -> Any:
    """Return an annotation by which help texts name a value, such as `PLAYER [PLAYER ...]`."""
    import tyro

    def hint(default: str) -> str:
        text = default.strip("'") or "none"
        return "(required)" if is_required else f"(default: {text})"

    return tyro.conf.arg(metavar=name, help_behavior_hint=hint)


def add_help(kind: Any) -> None:
    """Let the docstrings of a dataclass's fields be their help, each as one paragraph.

    tyro would break the paragraph where the docstring is wrapped.
    """
    from docstring_parser import parse_from_object

    if not is_dataclass(kind):
        return
    texts: dict[str, str] = {}
    for cls in cast(Any, kind).__mro__[-2::-1]:
        for each in parse_from_object(cls).params:
            texts[each.arg_name] = " ".join((each.description or "").split())
    hints = get_type_hints(kind)
    for option in fields(kind):
        if option.name in texts:
            option.metadata = MappingProxyType({**option.metadata, "help": texts[option.name]})
        add_help(hints[option.name])


def registry() -> Any:
    """Return rules by which tyro reads and names numbers, and paths and texts that may be None."""
    from tyro.constructors import ConstructorRegistry

    made = ConstructorRegistry()
    made.primitive_rule(_number_rule)
    made.primitive_rule(_text_rule)
    made.primitive_rule(_several_rule)
    made.primitive_rule(_json_rule)
    return made


_NUMBERS = {int: ("INT", "an integer"), float: ("NUMBER", "a number")}


def _number_rule(info: Any) -> Any:
    """Return the rule by which tyro reads a number or an optional one; None for other types."""
    from tyro.constructors import PrimitiveConstructorSpec

    kind, is_optional = _kind_of(info.type)
    if kind not in (int, float):
        return None
    metavar, expected = _NUMBERS[kind]
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=f"{metavar}|none" if is_optional else metavar,
        instance_from_str=lambda words: _number(words[0], kind, expected, is_optional),
        is_instance=lambda value: type(value) in (int, kind) or (is_optional and value is None),
        str_from_instance=lambda value: ["none" if value is None else str(value)],
    )


def _text_rule(info: Any) -> Any:
    """Return the rule by which tyro reads a path, which may be optional, or an optional text."""
    from tyro.constructors import PrimitiveConstructorSpec

    kind, is_optional = _kind_of(info.type)
    if kind is not Path and not (kind is str and is_optional):
        return None
    metavar, read = ("PATH", _path) if kind is Path else ("STR", str)
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=f"{metavar}|none" if is_optional else metavar,
        instance_from_str=lambda words: (
            None if is_optional and words[0].lower() == "none" else read(words[0])
        ),
        is_instance=lambda value: isinstance(value, kind) or (is_optional and value is None),
        str_from_instance=lambda value: ["none" if value is None else str(value)],
    )


def _several_rule(info: Any) -> Any:
    """Return the rule by which tyro reads integers or texts, or `none`; None for other types."""
    from tyro.constructors import PrimitiveConstructorSpec

    kind = _plain(info.type)
    if kind not in (list[int], tuple[int, ...], list[str]):
        return None
    made_of = get_origin(kind)
    read = str if kind == list[str] else _integer
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar="[STR ...]" if read is str else "[INT ...]",
        instance_from_str=lambda words: made_of(
            () if [word.lower() for word in words] == ["none"] else map(read, words)
        ),
        is_instance=lambda value: isinstance(value, made_of),
        str_from_instance=lambda value: [str(each) for each in value] or ["none"],
    )


def _integer(word: str) -> int:
    """Return the integer of a word of a command line."""
    return cast(int, _number(word, int, "an integer", False))


def _json_rule(info: Any) -> Any:
    """Return the rule by which tyro reads a text or a list, in JSON; None for other types."""
    from tyro.constructors import PrimitiveConstructorSpec

    kinds = get_args(info.type)
    if str not in kinds or all(get_origin(each) is not list for each in kinds):
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="STR|JSON",
        instance_from_str=lambda words: _text_or_list(words[0]),
        is_instance=lambda value: isinstance(value, (str, list)),
        str_from_instance=lambda value: [value if isinstance(value, str) else json.dumps(value)],
    )


def _text_or_list(word: str) -> Any:
    """Return a word of a command line, or the list if it is one in JSON."""
    if not word.startswith("["):
        return word
    try:
        return json.loads(word)
    except ValueError as error:
        raise ValueError(f"must be a text or a list in JSON, got {shown(word)} ({error})") from None


def _path(word: str) -> Path:
    """Return the path of a word of a command line, which must not be empty."""
    if not word:
        raise ValueError("must be a path, got ''")
    return Path(word)


def _kind_of(kind: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether it has None; None instead of several types."""
    is_union = get_origin(kind) in (Union, UnionType)
    kinds = {_plain(each) for each in (get_args(kind) if is_union else (kind,))}
    is_optional = type(None) in kinds
    kinds.discard(type(None))
    return (kinds.pop() if len(kinds) == 1 else None), is_optional


def _plain(kind: Any) -> Any:
    """Return a type without its annotations."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _number(word: str, kind: Callable[[str], Any], expected: str, is_optional: bool) -> Any:
    """Return the number of a word of a command line."""
    if is_optional and word.lower() == "none":
        return None
    try:
        if not word.isascii() or "_" in word:  # which Python reads as well
            raise ValueError
        return kind(word)
    except ValueError:
        raise ValueError(f"must be {expected}, got {shown(word)}") from None


def exit_code(command: Callable[..., Any], *arguments: Any) -> int:
    """Run a command and return its exit code.

    Args:
        command: returns its exit code, None for 0. Its errors of files, values and missing packages
            are what is wrong with its input; a `KeyboardInterrupt` may say how to go on.
        arguments: of the command.

    Returns:
        The code, 130 if the command was interrupted.

    Raises:
        SystemExit: 2 with a message on stderr for wrong input, 1 for a disk that is full or fails.
    """
    try:
        return int(command(*arguments) or 0)
    except BrokenPipeError:
        raise
    except OSError as error:
        if _is_of_cache(error):
            durable_files.add_name(error, _CACHE)
        fail(error, code_of(error))
    except RuntimeError as error:
        if not _is_of_cache(error):
            raise
        fail(f"{_CACHE} cannot be written anywhere: set it to a folder that can")
    except (ValueError, ImportError) as error:
        fail(missing(error) or error)
    except KeyboardInterrupt as interrupt:
        print(*interrupt.args, file=sys.stderr)
        _forget_interrupt()
        return 130
    except _missing_package() as error:
        fail(error)


_CACHE = "the folder of compiled code (NUMBA_CACHE_DIR)"


def _is_of_cache(error: Exception) -> bool:
    """Return True for an error of numba's cache of compiled code."""
    frames = walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == "numba.core.caching" for frame, _ in frames)


def _missing_package() -> type[Exception]:
    """Return the error of gymnasium for a package of an extra."""
    from gymnasium.error import DependencyNotInstalled

    return DependencyNotInstalled


def _forget_interrupt() -> None:
    """Let the process end with its exit code.

    If an interrupt leaves a text that is evaluated, as some modules do when they are imported,
    CPython ends by SIGINT instead, unless another text is evaluated: here that of a named tuple.
    """
    namedtuple("Evaluated", ())


_DISK_ERRORS = {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EROFS}
_DISK_ERRORS |= {errno.EDQUOT} if hasattr(errno, "EDQUOT") else set()


def code_of(error: OSError) -> int:
    """Return the exit code for an error of a file: 1 for a disk that is full or fails, else 2."""
    return 1 if error.errno in _DISK_ERRORS else 2


EXTRAS = {
    "neural": ("torch", "safetensors"),
    "train": ("filelock", "joblib"),
    "render": ("PIL", "pygame"),
    "video": ("moviepy",),
    "sb3": ("stable_baselines3", "sb3_contrib"),
    "web": ("fastapi", "uvicorn"),
    "ray": ("ray",),
    "examples": ("matplotlib", "pandas", "scipy", "tensorboard", "yaml"),
}
"""Packages that only an extra installs."""


def missing(error: Exception) -> str:
    """Return how to install a package that an import did not find; an empty text if unknown."""
    package = getattr(error, "name", None) or ""
    extras = [extra for extra, packages in EXTRAS.items() if package in packages]
    if not extras or not str(error).startswith("No module named"):
        return ""
    return f'this needs {package}: pip install "afterstate[{extras[0]}]"'


def fail(error: object, code: int = 2) -> NoReturn:
    """Print what is wrong and exit, with 2 for a wrong command line."""
    print_error(error)
    raise SystemExit(code)


def print_error(error: object) -> None:
    """Print an error on stderr; one of the system without its number."""
    if isinstance(error, OSError) and error.strerror:
        error = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    print(f"error: {printable(str(error))}", file=sys.stderr)

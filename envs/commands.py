"""Command lines, read by argparse into dataclasses, and the exit codes of commands."""

from __future__ import annotations

import errno
import inspect
import io
import os
import re
import signal
import sys
from argparse import SUPPRESS, Action, ArgumentError, ArgumentParser, RawDescriptionHelpFormatter
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING
from functools import reduce
from traceback import walk_tb
from typing import Any, NamedTuple, NoReturn, TypeVar

from afterstate.envs import durable_files
from afterstate.envs.messages import counted, listed, missing, printable, shown
from afterstate.envs.options import (
    Option,
    build,
    default_text,
    near,
    options_of,
    quoted_as_options,
    with_options,
)

T = TypeVar("T")
Values = dict[Option, Any]
"""Values of the options that a command line has."""


class Part(NamedTuple):
    """A dataclass that options are read into."""

    kind: Any
    default: Any = MISSING
    """An instance that has the defaults; its flags have two forms, --window and --no-window."""

    def options(self) -> list[Option]:
        """Return the options."""
        return list(options_of(self.kind, self.default))


def asks_for_help(words: Sequence[str]) -> bool:
    """Return True if the words of a command line ask for its help."""
    options = words[: words.index("--")] if "--" in words else words
    return bool({"-h", "--help"} & {*options})


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
    values = read([Part(kind)], program, words, description(kind))
    with failing(program):
        return build(kind, values)


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
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in kinds:
        return parse(kinds[words[0]], f"{program} {words[0]}", words[1:])
    if words and words[0] in ("-h", "--help"):
        print(usage_of(program, {name: summary(kind) for name, kind in kinds.items()}))
        raise SystemExit(0)
    fail_unknown(words, kinds, program)


def fail_unknown(words: Sequence[str], known: Iterable[str], program: str) -> NoReturn:
    """Exit since a command is not followed by one of the known words."""
    names = {name: name for name in known}
    given = f"{shown(words[0])}{near(words[0], names)}" if words else "nothing"
    place = ", options come after it" if words and words[0].startswith("-") else ""
    expected = f"{program} must be followed by one of {listed(names)}"
    fail(f"{expected}, got {given}{place}; see {program} --help")


def usage_of(program: str, texts: Mapping[str, str], word: str = "COMMAND") -> str:
    """Return the usage of a command that is followed by one of several words, with their texts."""
    width = max(map(len, texts))
    lines = [f"  {name:{width}}  {text}" for name, text in texts.items()]
    head = [f"usage: {program} {word} [options]", "", f"{word.lower()}s:"]
    return "\n".join([*head, *lines, "", f"Options: {program} {word} --help"])


def summary(kind: Any) -> str:
    """Return the first line of a class's docstring."""
    return description(kind).partition("\n")[0]


def description(kind: Any) -> str:
    """Return the docstring of a class up to the errors that it raises."""
    return inspect.cleandoc(kind.__doc__ or "").partition("\n\nRaises")[0]


def read(parts: Sequence[Part], program: str, words: Sequence[str], description: str) -> Values:
    """Return the values of a command line, of which `build` makes the dataclasses.

    Args:
        parts: dataclasses, whose docstrings are the help texts.
        program: name of the command in its usage.
        words: words of the command line, after the name.
        description: text of the help above the options.

    Raises:
        SystemExit: the words ask for help, or are wrong: 2, with one line on stderr.
    """
    options = [option for part in parts for option in part.options()]
    parser = ArgumentParser(
        prog=program,
        usage=_usage(program, options).replace("%", "%%"),
        description=description,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser._negative_number_matcher = _NEGATIVE  # others would be options
    with failing(program):
        return _given(parser, options, words)


@contextmanager
def failing(program: str) -> Iterator[None]:
    """End with code 2 and one line on stderr, which points to the help, for a wrong value."""
    try:
        yield
    except ValueError as error:
        fail(f"{error}; see {program} --help")


def _given(parser: ArgumentParser, options: Sequence[Option], words: Sequence[str]) -> Values:
    """Return the values of the options that a command line has; raise ValueError for wrong ones."""
    add_options(parser, options)
    end = words.index("--") if "--" in words else len(words)
    try:
        parsed, unknown = parser.parse_known_intermixed_args(words[:end])
    except ArgumentError as error:
        raise ValueError(_problem(error, words)) from None
    if unknown:
        raise ValueError(_unknown(unknown, options, words))
    given, last = vars(parsed), list(words[end + 1 :])
    for each in options:
        if each.is_positional and last:
            _append(given, each, last)
    if last:
        raise ValueError(f"there is no argument {shown(last[0])}")
    return _values(options, given)


_NEGATIVE = re.compile(r"-(inf|nan|\.?[0-9][0-9._]*([eE][+-]?[0-9]+)?)")
"""Words that begin like an option and are numbers; argparse has fewer."""


def _append(given: dict[str, Any], option: Option, last: list[str]) -> None:
    """Move the words behind `--` that belong to a positional argument to those before it."""
    if option.value is not None and option.value.n_words is None:
        given[option.name] = [*given.get(option.name, []), *last]
        last.clear()
    elif option.name not in given:
        given[option.name] = last.pop(0)


def _usage(program: str, options: Iterable[Option]) -> str:
    """Return the usage of a command: options that must be given, and positional arguments."""
    required, positional = list[str](), list[str]()
    for each in options:
        if each.value is None or not (each.is_positional or each.default is MISSING):
            continue
        name = each.placeholder
        name = f"{name} [{name} ...]" if each.takes_several else name
        if each.is_positional:
            positional.append(name if each.default is MISSING else f"[{name}]")
        else:
            required.append(f"{each.name} {name}")
    return " ".join([program, *positional, *required, "[options]"])


class _Flag(Action):
    """A flag, whose form says whether it is on."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        """Turn it on by its name, off by the other form."""
        setattr(namespace, self.dest, option == self.dest)


def add_options(parser: ArgumentParser, options: Iterable[Option]) -> dict[Option, Action]:
    """Add options to a parser, those of a field that is a dataclass as a group, and return them."""
    groups: dict[tuple[str, ...], Any] = {}
    actions: dict[Option, Action] = {}
    for each in options:
        place = each.path[:-1]
        if place and place not in groups:
            text = quoted_as_options(summary(each.of), each.of, place)
            groups[place] = parser.add_argument_group(f"{place[-1]} options", text)
        actions[each] = _add(groups.get(place, parser), each)
    return actions


def _add(parser: Any, option: Option) -> Action:
    """Add an option to a parser or a group and return it."""
    details: dict[str, Any] = {"help": help_of(option).replace("%", "%%"), "default": SUPPRESS}
    if option.value is None:
        details |= {"action": _Flag, "nargs": 0}
    else:
        details |= {"metavar": option.placeholder, "nargs": _nargs(option)}
    if not option.is_positional:
        details["dest"] = option.name
        if option.takes_several:
            details["action"] = "extend"  # `--only a --only b` is `--only a b`
    action: Action = parser.add_argument(*option.forms, **details)
    return action


def help_of(option: Option) -> str:
    """Return the help of an option, with its default."""
    if option.default is MISSING:
        return f"{option.help} (required)"
    text = default_text(option.default)
    mentions_default = text == "none" and "by default" in option.help.lower()
    return option.help if mentions_default else f"{option.help} (default: {text})"


def _nargs(option: Option) -> int | str | None:
    """Return the number of words of an option as argparse has it.

    Positional arguments that are missing are named by `_values`.
    """
    n_words = 1 if option.value is None else option.value.n_words
    if option.is_positional:
        return "*" if n_words is None else "?"
    return "+" if n_words is None else None if n_words == 1 else n_words


def _values(options: Sequence[Option], parsed: Mapping[str, Any]) -> Values:
    """Return the values of options by the words that argparse has for them."""
    missing = [each for each in options if each.default is MISSING and each.name not in parsed]
    if missing:
        raise ValueError(_missing(missing, [each for each in options if each.name in parsed]))
    values: Values = {}
    for each in options:
        if each.name not in parsed:
            continue
        words = parsed[each.name]
        try:
            if each.value is not None:
                words = each.value.read([words] if isinstance(words, str) else words)
        except ValueError as error:
            raise ValueError(f"{each.name} {error}") from error
        values[each] = words
    return values


def _missing(missing: Sequence[Option], given: Sequence[Option]) -> str:
    """Return that arguments are missing, and which of the options may have taken their words."""
    names = " and ".join(each.name for each in missing)
    takers = [each.name for each in given if each.takes_several]
    is_taken = takers and any(each.is_positional for each in missing)
    taken = f" before {takers[0]}, which takes all words that follow it" if is_taken else ""
    return f"{names} must be given{taken}"


@contextmanager
def naming_options(parts: Sequence[Part], given: Any = None) -> Iterator[None]:
    """Let messages of errors name options: `--rows must be in 1..4, got 9`.

    Args:
        parts: what options are read into.
        given: an instance of the only part; files that it has are named in errors of the system.
    """
    try:
        yield
    except OSError as error:
        options = [] if given is None else parts[0].options()
        names = {str(reduce(getattr, each.path, given)): each.name for each in options}
        if error.filename and error.filename in names:
            error.filename = f"{names[error.filename]}: {error.filename}"
        raise
    except ValueError as error:
        options = [each for part in parts for each in part.options()]
        raise ValueError(with_options(str(error), options)) from error


_PROBLEMS = {
    "expected one argument": "must have a value",
    "expected at least one argument": "must have a value",
    "expected 2 arguments": "must have 2 values",
}
"""Messages of argparse on an option, and those in their place."""


def _problem(error: ArgumentError, words: Iterable[str]) -> str:
    """Return what is wrong with an option, by the form that the words have."""
    forms, text = str(error.argument_name).split("/"), str(error.message)
    given = {word.partition("=")[0] for word in words}
    name = next((each for each in forms if each in given), forms[-1])
    if text.startswith("ignored explicit argument "):
        return f"{name} must have no value, got {text.removeprefix('ignored explicit argument ')}"
    return f"{name} {_PROBLEMS.get(text, text)}"


def _unknown(unknown: Sequence[str], options: Sequence[Option], words: Sequence[str]) -> str:
    """Return that an option or an argument is unknown, with the nearest option.

    Args:
        unknown: the words that belong to no option.
        options: options of the command.
        words: words of the command line.
    """
    option = next((each for each in unknown if each.startswith("-")), None)
    if option is None:
        return f"there is no argument {shown(unknown[0])}{_before(unknown[0], options, words)}"
    word = option.partition("=")[0]
    names = {form: form for each in options if not each.is_positional for form in each.forms}
    inner = {f"--{form.rpartition('.')[2]}": form for form in names if "." in form}
    off = {f"--no-{form[2:].replace('.no-', '.')}": form for form in names if ".no-" in form}
    known = inner | off | names | {"--help": "--help"}
    return f"there is no option {shown(word)}{near(word, known)}"


def _before(word: str, options: Sequence[Option], words: Sequence[str]) -> str:
    """Return the number of values of the option that stands before a word that belongs to none."""
    before = next((each for each in words[words.index(word) :: -1] if each.startswith("--")), "")
    numbers = {each.name: each.value.n_words for each in options if each.value is not None}
    n_words = numbers.get(before)
    return f" after {before}, which has {counted(n_words, 'value')}" if n_words else ""


def run_process(command: Callable[[], Any]) -> int:
    """Run a command that is all that this process does, and return its exit code: see `exit_code`.

    Closed streams are no errors. A reader that ends early, such as `| head`, ends it with 141. An
    interrupt after the end does not change the code.
    """
    _repair_streams()
    try:
        if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:  # while modules were imported
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return exit_code(command)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:  # while modules are imported
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left
        return 141  # as shells have it for a program that SIGPIPE ends
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _repair_streams() -> None:
    """Replace closed streams, and let those that remain take and give all characters."""
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    own: Any = sys.__stderr__
    if sys.stderr is own:
        sys.stderr = _Messages(
            open(own.fileno(), "wb", closefd=False),
            encoding=own.encoding,
            errors="backslashreplace",
            line_buffering=True,
        )


class _Messages(io.TextIOWrapper):
    """Messages and progress, which a full disk or a reader that ends may lose: work goes on."""

    def write(self, text: str) -> int:
        """Write a text, if that is possible, and return its length."""
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Write what is left, if that is possible."""
        with suppress(OSError):
            super().flush()


def exit_code(command: Callable[..., Any], *arguments: Any) -> int:
    """Run a command and return its exit code.

    Args:
        command: returns its exit code, None for 0. Its errors of files, values and missing packages
            are what is wrong with its input; a `KeyboardInterrupt` may say how to go on.
        arguments: arguments of the command.

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
    except Exception as error:
        if not isinstance(error, _missing_package()):
            raise
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
    """Let the process end with its exit code after an interrupt.

    CPython ends by SIGINT instead if an interrupt ended the last `exec` or `eval` of a text, which
    some modules call when they are imported. One that succeeds, as in `namedtuple`, clears that.
    """
    namedtuple("Evaluated", ())


_DISK_ERRORS = {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EROFS}
_DISK_ERRORS |= {errno.EDQUOT} if hasattr(errno, "EDQUOT") else set()


def code_of(error: OSError) -> int:
    """Return the exit code for an error of a file: 1 for a disk that is full or fails, else 2."""
    return 1 if error.errno in _DISK_ERRORS else 2


def fail(error: object, code: int = 2) -> NoReturn:
    """Print what is wrong and exit, with 2 for a wrong command line."""
    print_error(error)
    raise SystemExit(code)


def print_error(error: object) -> None:
    """Print an error on stderr; one of the system without its number."""
    if isinstance(error, OSError) and error.strerror:
        error = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    print(f"error: {printable(str(error))}", file=sys.stderr)

"""Options of command lines, which are the fields of dataclasses.

    @dataclass(frozen=True)
    class Eval:
        players: tuple[Player, ...]  # and a docstring: "Players of one game."
        games: int = 100  # "Number of games of each player."

The type of a field says how its words are read, a `Placeholder` what they name, the docstring below
it is its help. A field without a default is positional, others have options; `POSITIONAL` and
`NAMED` make exceptions. Fields that are dataclasses have options such as `--learner.rate`; lists of
dataclasses have none.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from afterstate.envs.messages import is_text, listed, nearest, shown

T = TypeVar("T")


class Placeholder(NamedTuple):
    """Annotation with the name of a value in helps, such as FILE; shells complete by both."""

    name: str
    game: str | None = None
    """Game of a player, `2048` or `daihinmin`; None: both."""


class Place(Enum):
    """Annotation with the place of an argument."""

    POSITIONAL = "without a name, though it has a default"
    NAMED = "behind its name, though it has no default"


POSITIONAL, NAMED = Place

File = Annotated[Path, Placeholder("FILE")]
Folder = Annotated[Path, Placeholder("FOLDER")]
FileName = Annotated[str, Placeholder("FILE")]
Player = Annotated[str, Placeholder("PLAYER")]
"""A player of a command line: see `afterstate.agents.find`."""
Player2048 = Annotated[str, Placeholder("PLAYER", "2048")]
PlayerOfDaihinmin = Annotated[str, Placeholder("PLAYER", "daihinmin")]
Name = Annotated[str, Placeholder("NAME")]
Address = Annotated[str, Placeholder("ADDRESS")]
"""An address of the network, or a name of one."""
Device = Annotated[str, Placeholder("DEVICE")]
"""A device of torch, such as cpu or cuda."""


class Value(NamedTuple):
    """A value on a command line.

    `read` raises ValueError with the rest of a message: `must be an integer, got 'x'`.
    """

    name: str
    """Placeholder in helps."""
    expected: str
    """Description for messages."""
    read: Callable[[Sequence[str]], Any]
    """Returns the value of words."""
    n_words: int | None = 1
    """Number of words; None for one or more."""
    choices: tuple[str, ...] = ()
    """Words that stand for a value."""
    game: str | None = None
    """Game of a player, see `Placeholder`."""


@dataclass(frozen=True, eq=False)
class Option:
    """An option or a positional argument."""

    path: tuple[str, ...]
    """Names of its field and of the fields around it."""
    value: Value | None
    """None for a flag."""
    help: str
    default: Any
    """`MISSING` if it must be given."""
    is_positional: bool
    has_two_forms: bool
    """A flag that can be turned on and off."""
    of: Any
    """Class of the field."""

    @property
    def name(self) -> str:
        """Name on the command line: --out, or LOG of a positional argument, PLAYER of several."""
        if not self.is_positional:
            return self._named(self.path[-1])
        return self._kind if self.takes_several else self.path[-1].upper()

    @property
    def placeholder(self) -> str:
        """Word that stands for a value in helps."""
        is_named = self.is_positional and self.value is not None and not self.value.choices
        return self.name if is_named else self._kind

    @property
    def _kind(self) -> str:
        """Kind of value, such as FILE."""
        return "" if self.value is None else self.value.name

    @property
    def takes_several(self) -> bool:
        """True if one or more words belong to it."""
        return self.value is not None and self.value.n_words is None

    @property
    def forms(self) -> list[str]:
        """Words that stand for it; a flag with two forms has one to turn it on and one off."""
        if self.value is not None:
            return [self.name]
        off = self._named(f"no-{self.path[-1]}")
        return [self.name, off] if self.has_two_forms else [off if self.default else self.name]

    def _named(self, last: str) -> str:
        """Return its name with another last part."""
        return f"--{'.'.join([*self.path[:-1], last])}".replace("_", "-")


def options_of(kind: Any, default: Any = MISSING, path: tuple[str, ...] = ()) -> Iterator[Option]:
    """Yield the options of a dataclass.

    Args:
        kind: the dataclass.
        default: an instance that has the defaults; without it, those of the class.
        path: names of the fields around it.
    """
    hints, texts = get_type_hints(kind, include_extras=True), docstrings(kind)
    for each in fields(kind):
        hint, place = hints[each.name], (*path, each.name)
        value, text = _default(each, default), quoted_as_options(texts[each.name], kind, path)
        if is_dataclass(value):
            yield from options_of(type(value), value, place)
        elif _bare(hint) is bool:
            is_set = default is not MISSING
            yield Option(place, None, text, value, False, is_set, kind)
        elif (words := value_of(hint)) is not None:
            exception = NAMED if value is MISSING else POSITIONAL
            is_positional = (value is MISSING) != (exception in _notes(hint))
            yield Option(place, words, text, value, is_positional, False, kind)


def _default(field: Any, instance: Any) -> Any:
    """Return the default of a field, that of an instance if there is one."""
    if instance is not MISSING:
        return getattr(instance, field.name)
    return field.default if field.default_factory is MISSING else field.default_factory()


def build(
    kind: type[T], given: Mapping[Option, Any], default: Any = MISSING, path: tuple[str, ...] = ()
) -> T:
    """Return the dataclass with the values of the options that are given.

    Raises:
        ValueError: wrong values; the message names their options.
    """
    options = {each.path[-1]: each for each in given if each.path[:-1] == path}
    values: dict[str, Any] = {}
    for each in fields(kind):  # type: ignore[arg-type]
        value = _default(each, default)
        if is_dataclass(value):
            value = build(type(value), given, value, (*path, each.name))
        if each.name in options:
            value = given[options[each.name]]
        if value is not MISSING:
            values[each.name] = value
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(with_options(str(error), options.values())) from error


def with_options(message: str, options: Iterable[Option]) -> str:
    """Return a message about a field with the name of its option; without it if two have the name.

    Settings that pydantic has checked may be several, separated by semicolons. Command lines have
    `none` for None.
    """
    names: dict[str, str] = {}
    for each in options:
        last = each.path[-1]
        is_unique = last not in names and not (each.is_positional and each.takes_several)
        names[last] = each.name if is_unique else last
    field = re.compile(r"(^|; )(\w+)(?=: | (?:must|is|needs) )")
    named = field.sub(lambda match: match[1] + names.get(match[2], match[2]), message)
    return named.replace("must be None or ", "must be none or ")


def quoted_as_options(text: str, kind: Any, path: tuple[str, ...] = ()) -> str:
    """Return a docstring as helps show it: fields of the dataclass that it quotes as options."""
    own = {each.name for each in fields(kind)}

    def named(quoted: re.Match[str]) -> str:
        is_field = quoted[1].partition(".")[0] in own
        return f"--{'.'.join([*path, quoted[1]])}".replace("_", "-") if is_field else quoted[1]

    return re.sub("`([^`]+)`", named, text)


def docstrings(kind: Any) -> dict[str, str]:
    """Return the docstrings below the fields of a dataclass, each as one paragraph."""
    texts = {each.name: "" for each in fields(kind)}
    for cls in kind.__mro__[-2::-1]:
        body = getattr(_classes(inspect.getmodule(cls)).get(cls.__name__), "body", [])
        for node, text in pairwise(body):
            match node, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(words))):
                    texts[name] = " ".join(words.split())
    return texts


@cache
def _classes(module: Any) -> dict[str, ast.ClassDef]:
    """Return the classes in the source of a module."""
    tree = ast.parse(inspect.getsource(module))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


# Values


def value_of(hint: Any) -> Value | None:
    """Return how values of a type are read; None for a list of dataclasses.

    Raises:
        TypeError: no option has such values.
    """
    kind = _bare(hint)
    value: Value | None
    if get_origin(kind) in (Union, UnionType):
        value = _union(get_args(kind))
    elif get_origin(kind) in (list, tuple):
        value = _several(kind)
    elif get_origin(kind) is Literal:
        value = _choice(get_args(kind))
    elif get_origin(kind) is dict:
        value = Value("NAME[,SETTING=VALUE,...]", "a name and settings", _name_and_settings)
    elif kind in _PLAIN:
        value = _PLAIN[kind]
    else:
        raise TypeError(f"no option has values of {getattr(kind, '__name__', kind)}")
    for note in _notes(hint):
        if value is not None and isinstance(note, Placeholder):
            value = value._replace(**note._asdict())
            if kind is str and note.name == "FILE":
                value = value._replace(read=lambda words: os.path.expanduser(words[0]))
    return value


def _bare(hint: Any) -> Any:
    """Return a type without its annotations."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _notes(hint: Any) -> Sequence[Any]:
    """Return the annotations of a type."""
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def whole_number(word: str) -> int:
    """Return the integer of a text.

    >>> whole_number("1000"), whole_number("1_000"), whole_number("1.5e6")
    (1000, 1000, 1500000)

    Raises:
        ValueError: it is none.
    """
    if len(word) < 100 and re.fullmatch(_WHOLE, word):
        number = Decimal(word)
        if number == int(number):
            return int(number)
    raise ValueError(f"must be an integer, got {shown(word)}")


_WHOLE = r"[+-]?[0-9]+(_[0-9]+)*(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?"
"""A number that may be whole; the exponent has few digits, so that the integer has."""


def _number(word: str) -> float:
    """Return the number of a word."""
    try:
        return float(word if word.isascii() else "")
    except ValueError:
        raise ValueError(f"must be a number, got {shown(word)}") from None


def _path(word: str) -> Path:
    """Return the path of a word, which must not be empty; `~` is the home folder."""
    if not word:
        raise ValueError("must be a path, got ''")
    return Path(os.path.expanduser(word))


_PLAIN = {
    int: Value("INT", "an integer", lambda words: whole_number(words[0])),
    float: Value("NUMBER", "a number", lambda words: _number(words[0])),
    str: Value("TEXT", "a text", lambda words: words[0]),
    Path: Value("PATH", "a path", lambda words: _path(words[0])),
}
"""Values of one word, by their types."""


def _choice(choices: Sequence[Any]) -> Value:
    """Return a value that is one of several."""
    by_word = {str(each): each for each in choices}
    expected = listed(by_word)

    def read(words: Sequence[str]) -> Any:
        if words[0] in by_word:
            return by_word[words[0]]
        wanted = f"one of {expected}" if len(by_word) > 1 else expected
        raise ValueError(f"must be {wanted}, got {shown(words[0])}{near(words[0], by_word)}")

    return Value(f"{{{','.join(by_word)}}}", expected, read, choices=tuple(by_word))


def _several(kind: Any) -> Value | None:
    """Return a value of several words, a list or a tuple of values of one word each."""
    made_of, inner = get_origin(kind), [each for each in get_args(kind) if each is not ...]
    if is_dataclass(inner[0]):
        return None
    value = value_of(inner[0])
    if value is None or value.n_words != 1:
        raise TypeError(f"no option has values of {kind}")
    n_words = len(inner) if made_of is tuple and ... not in get_args(kind) else None

    def read(words: Sequence[str]) -> Any:
        is_empty = n_words is None and [word.lower() for word in words] == ["none"]
        return made_of(() if is_empty else [value.read([word]) for word in words])

    return value._replace(read=read, n_words=n_words)


def _union(kinds: Sequence[Any]) -> Value:
    """Return a value of one of several types, or of one type or none.

    Dataclasses have options of their own, see `options_of`.
    """
    if str in kinds and any(get_origin(each) is list for each in kinds):
        return Value("TEXT|JSON", "a text or a list in JSON", _text_or_list)
    some = [value_of(each) for each in kinds if each is not NoneType and not is_dataclass(each)]
    *others, last = [value for value in some if value is not None]
    is_optional = NoneType in kinds
    expected = " or ".join(value.expected for value in (*others, last))

    def read(words: Sequence[str]) -> Any:
        if is_optional and [word.lower() for word in words] == ["none"]:
            return None
        for value in others:
            if len(words) == 1 and words[0] in value.choices:
                return value.read(words)
        try:
            return last.read(words)
        except ValueError as error:
            if not others:
                raise
            raise ValueError(f"must be {expected}, got {shown(' '.join(words))}") from error

    names = [*(choice for value in others for choice in value.choices), last.name]
    if is_optional:
        names.append("none")
    choices = tuple(choice for value in (*others, last) for choice in value.choices)
    return Value("|".join(names), expected, read, last.n_words, choices, last.game)


def _text_or_list(words: Sequence[str]) -> Any:
    """Return a word, or the list if it is one in JSON."""
    from afterstate.envs import json_files

    if not words[0].startswith("["):
        return words[0]
    try:
        return json_files.parse(words[0])
    except ValueError as error:
        expected = "must be a text or a list in JSON"
        raise ValueError(f"{expected}, got {shown(words[0])} ({error})") from None


def _name_and_settings(words: Sequence[str]) -> dict[str, Any]:
    """Return a name and settings, such as `RankResNet,blocks=3`."""
    name, *pairs = name_and_pairs(words[0])
    try:
        return {"name": name, **settings_of(pairs)}
    except ValueError as error:
        raise ValueError(f"must be a name and settings, got {shown(words[0])}") from error


def name_and_pairs(text: str) -> list[str]:
    """Return the parts of `name,setting=value,...`; commas in brackets are those of a list.

    >>> name_and_pairs("random,seed=1,size=[3,3]")
    ['random', 'seed=1', 'size=[3,3]']
    """
    return re.split(r",(?![^\[\]]*\])", text)


def is_factory(text: str) -> bool:
    r"""Return True for a player's text of the form `module:factory`, with or without settings.

    >>> is_factory("mine.players:Best,depth=3"), is_factory("ntuple"), is_factory(r"C:\net.npz")
    (True, False, False)
    """
    module, _, name = text.partition(",")[0].partition(":")
    return name.isidentifier() and all(part.isidentifier() for part in module.split("."))


def settings_of(pairs: Iterable[str]) -> dict[str, Any]:
    """Return the settings of a command line, each `name=value` with a value as in JSON or a text.

    >>> settings_of(["depth=2", "network=mine.npz", "playouts=1e3"])
    {'depth': 2, 'network': 'mine.npz', 'playouts': 1000}

    Raises:
        ValueError: one is not `name=value` in UTF-8, has no value, or has a name twice.
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not value:
            raise ValueError(f"settings of a player must be name=value, got {shown(pair)}")
        if not is_text(pair):
            raise ValueError(
                f"settings of a player must be text that UTF-8 can encode, got {shown(pair)}"
            )
        if name in settings:
            raise ValueError(f"settings of a player must differ, got {shown(name)} twice")
        settings[name] = _setting(value)
    return settings


def _setting(text: str) -> Any:
    """Return a number, true, false or null as in JSON or Python, or the text.

    A text has `~` as the home folder; `none` is null, as in other options.
    """
    from afterstate.envs import json_files

    text = {"True": "true", "False": "false", "None": "null", "none": "null"}.get(text, text)
    if {*"eE_"} & {*text}:  # perhaps an integer that JSON writes otherwise, such as 1e3
        with suppress(ValueError):
            return whole_number(text)
    with suppress(ValueError):
        return json_files.parse(text)
    return os.path.expanduser(text)


# Texts


def near(word: str, known: Mapping[str, Any]) -> str:
    """Return what the nearest of the known words stands for, as a question."""
    match = nearest(word, known)
    return f", did you mean {known[match]}?" if match else ""


def default_text(default: Any) -> str:
    """Return a default as helps show it, and as a command line has it."""
    if isinstance(default, bool):
        return "on" if default else "off"
    if default is None or default in ((), [], ""):
        return "none"
    if isinstance(default, float):
        return default_text(int(default)) if default.is_integer() else f"{default:g}"
    if isinstance(default, int):
        return f"{default:_}" if default >= 10_000 and default % 1_000 == 0 else str(default)
    if isinstance(default, Path):
        inside = default.is_absolute() and default.is_relative_to(Path.cwd())
        return os.path.relpath(default) if inside else str(default)
    if isinstance(default, Mapping):
        named = default.items()
        return ",".join(f"{value}" if key == "name" else f"{key}={value}" for key, value in named)
    if isinstance(default, (list, tuple)):
        is_nested = any(isinstance(each, list) for each in default)
        return json.dumps(default) if is_nested else " ".join(map(default_text, default))
    return str(default)

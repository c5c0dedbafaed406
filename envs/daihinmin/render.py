"""Pictures of a game of Daihinmin: text and pixels.

A picture is a function of a game record and the players' names. For a view it shows what the viewer
knows, with unknown cards face down. Players sit clockwise in the order of play, the viewer (in a
whole game player 0) at the bottom:

    +-----------------------------------+
    |       [hand 2]     [hand 3]       |
    |              game 1               |
    | [hand 1]   [ field ]     [hand 4] |
    |          flags, owner             |
    |             [hand 0]              |
    +-----------------------------------+

Text has cards in notation (`S8 JO=HT`), as players type them. Pixels have them as on cards (8♠
joker=10♥), and below each hand what its player did in this trick, or in the last one while the
table is empty. Pillow is imported by the functions that need it.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Sequence
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.arguments import AGENTS, check_names
from afterstate.envs.daihinmin.cards import JOKER, RANKS, numbers
from afterstate.envs.daihinmin.records.validity import check_fields
from afterstate.envs.daihinmin.rules import (
    N_PLAYERS,
    Game,
    advance,
    lay,
    rewind,
    seat_of,
    skip,
)
from afterstate.envs.daihinmin.views import known_cards
from afterstate.envs.messages import counted
from afterstate.envs.pictures import Pixels, font, require_extra

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

CLASSES = ("daifugo", "fugo", "heimin", "hinmin", "daihinmin")
"""Names of the classes, 0 to 4."""
PLACES = ("1st", "2nd", "3rd", "4th", "5th")
"""Names of the finishing places, 0 to 4."""

WIDTH, HEIGHT = 960, 640
"""Size of a picture in pixels."""

_SUITS = "♠♥♦♣"
_SUIT_OF_SIGN = {sign: suit for suit, sign in enumerate(_SUITS)}
_RANKS = {"T": "10", "-": "<3", "+": ">2"}  # others are themselves

_SEATS = ((480, 488), (180, 236), (270, 30), (690, 30), (780, 236))  # top middle of each
_FIELD = (480, 300)
_CARD, _FIELD_CARD = (46, 64), (60, 84)  # width and height
_FAN, _SPREAD = 22, 300  # from card to card in a hand at most; width of the field
_PLATE = (296, 28)
_PAGE, _FELT, _LINE = "#133c33", "#1c5a4a", "#2f7d67"
_INK, _RED, _VIOLET, _PAPER, _EDGE = "#20252b", "#c4312c", "#6a3d9a", "#fdfcf6", "#8d9a94"
_RANK = "#4d2a75"  # of the class on a plate, also on that of a player who passed
_PLATE_COLOR, _TURN_COLOR, _PASSED_COLOR, _DIM = "#e9e4d4", "#f4c653", "#a3b3a6", "#c4dcd2"
_BACK, _BACK_LINE = "#2c4a7c", "#8fa9d3"
_FINE = 4  # cards are drawn this much larger, then shrunk to have smooth edges


class _Seat(NamedTuple):
    """A player in a picture."""

    name: str
    class_name: str  # "" if there are no classes
    points: int  # in the match
    left: int
    status: str  # place, "passed", or ""
    in_turn: bool
    shown: int  # cards that lie face up
    last: str  # last play or pass in this trick, or ""


def ansi(game: Game, names: Sequence[str] = AGENTS) -> str:
    """Return the table as text, at most 80 columns wide if names have at most 9 letters.

    Players are listed in the order of play, with `>` before the one in turn; `??` is an unknown
    card.

    Args:
        game: a game or a view.
        names: names by player.

    Raises:
        ValueError: a field out of its range, or not five names.
    """
    game = _checked(game, names)
    rows = [_row(seat) for seat in _seats(game, names)]
    heading = f"  {'player':9}  {'class':9}  cards          hand"
    recent = ", ".join(_history(game, names)[-N_PLAYERS:])
    last = textwrap.wrap(recent or "none", 80, initial_indent="last   ", subsequent_indent=" " * 7)
    return "\n".join([_heading(game), f"field  {_field_text(game, names)}", heading, *rows, *last])


def rgb_array(game: Game, names: Sequence[str] = AGENTS) -> Pixels:
    """Return the table as a new picture `uint8[640, 960, 3]`.

    Args:
        game: a game or a view.
        names: names by player.

    Raises:
        gymnasium.error.DependencyNotInstalled: Pillow is missing.
        ValueError: a field out of its range, or not five names.
    """
    game = _checked(game, names)
    image = _table().copy()
    for seat, place in zip(_seats(game, names), _SEATS, strict=True):
        _draw_seat(image, seat, *place)
    _draw_field(image, int(game["field"]))
    x, y = _FIELD
    _write(image, (x, y - 78), f"game {int(game['number'])}", 17, _DIM)
    _write(image, (x, y + 72), _field_text(game, names, _as_on_cards), 16, _PLATE_COLOR)
    _draw_flags(image, _flags(game), y + 104)
    return np.array(image)


def _checked(game: Game, names: Sequence[str]) -> Game:
    """Return a game that can be shown with these names."""
    check_names(names)
    return check_fields(game)


def _seats(game: Game, names: Sequence[str]) -> list[_Seat]:
    """Return the players in the order of play, the viewer or player 0 first."""
    first = seat_of(game, max(int(game["viewer"]), 0))
    order = [int(game["seats"][(first + i) % N_PLAYERS]) for i in range(N_PLAYERS)]
    last = _trick(game)
    return [
        _Seat(
            name=names[player],
            class_name=CLASSES[game["classes"][player]] if game["classes"][player] >= 0 else "",
            points=int(game["points"][player]),
            left=int(game["left"][player]),
            status=_status(game, player),
            in_turn=bool(game["turn"] == player),
            shown=_shown(game, player),
            last=last.get(player, ""),
        )
        for player in order
    ]


def _trick(game: Game) -> dict[int, str]:
    """Return each player's last action in the trick, or in the last one if none has begun."""
    again, trick, has_ended = game.copy(), dict[int, str](), False
    rewind(again)
    for player, text in _actions(game):
        trick = {} if has_ended else trick
        trick[player], again["turn"] = text, player
        if text == plays.text(plays.PASS):
            skip(again)
        else:
            lay(again, plays.parse(text))
        has_ended = advance(again)
    return trick


def _shown(game: Game, player: int) -> int:
    """Return the cards of a player that lie face up."""
    return int(game["hands"][player] if game["viewer"] < 0 else known_cards(game, player))


def _status(game: Game, player: int) -> str:
    """Return a player's place, `"passed"`, or an empty text."""
    if game["places"][player] >= 0:
        return PLACES[game["places"][player]]
    return "passed" if int(game["passed"]) >> player & 1 else ""


def history(game: Game, names: Sequence[str] = AGENTS) -> list[str]:
    """Return all plays and passes so far, each as the player's name and the play in notation.

    Args:
        game: a game or a view.
        names: names by player.

    Raises:
        ValueError: a field out of its range, or not five names.
    """
    return _history(_checked(game, names), names)


def _history(game: Game, names: Sequence[str]) -> list[str]:
    """Return the same of a game that was checked."""
    return [f"{names[player]} {text}" for player, text in _actions(game)]


def _actions(game: Game) -> list[tuple[int, str]]:
    """Return all actions so far, as player and text."""
    played = game["actions"][: game["n_actions"]].tolist()
    return [(action // plays.N_PLAYS, plays.text(action % plays.N_PLAYS)) for action in played]


def _flags(game: Game) -> list[str]:
    """Return the names of the flags that are set."""
    return [name for name in ("revolution", "lock") if game[name]]


def _heading(game: Game) -> str:
    """Return the number of the game and the flags."""
    return ", ".join([f"game {int(game['number'])}", *_flags(game)])


def _as_on_cards(notation: str) -> str:
    """Return cards or a play in notation as on cards: ranks, signs of suits, and the joker.

    >>> [_as_on_cards(each) for each in ("S8 JO=HT", "JO", "JO=D- D3 D4", "JO=X4")]
    ['8♠ joker=10♥', 'joker', 'joker=<3♦ 3♦ 4♦', 'joker=4']
    """
    return " ".join(map(_as_on_card, notation.split()))


def _as_on_card(word: str) -> str:
    """Return a word of the notation as on cards."""
    joker, _, card = word.rpartition("=")
    if card in ("JO", "pass"):
        return "joker" if card == "JO" else card
    suit, rank = card[0], card[1]
    name = _RANKS.get(rank, rank) + ("" if suit == "X" else _SUITS[cards.SUITS.index(suit)])
    return f"joker={name}" if joker else name


def _field_text(game: Game, names: Sequence[str], written: Callable[[str], str] = str) -> str:
    """Return the play on the field, or what happens at an empty field, with cards so written."""
    if game["to_give"]:
        gift = f", has chosen {written(cards.text(game['gift']))}" if game["gift"] else ""
        return f"{names[game['turn']]} gives {int(game['to_give'])}{gift}"
    if game["turn"] < 0:
        return "the game is over"
    if not game["field"]:
        return f"empty, to lead: {names[game['turn']]}"
    return f"{written(plays.text(game['field']))} of {names[game['last']]}"


def _row(seat: _Seat) -> str:
    """Return the line of a player."""
    hidden = seat.left - cards.count(seat.shown)
    hand = " ".join([*cards.text(seat.shown).split(), *["??"] * hidden])
    mark = ">" if seat.in_turn else " "
    line = f"{mark} {seat.name:9}  {seat.class_name:9}  {seat.left:5}  {seat.status:6}  {hand}"
    return line.rstrip()


def _draw_seat(image: Image.Image, seat: _Seat, x: int, y: int) -> None:
    """Draw a player's plate, the hand below it, and the last play below that."""
    _draw_plate(image, seat, x, y)
    faces: list[int | None] = [*numbers(seat.shown)]
    faces += [None] * (seat.left - len(faces))
    width, height = _CARD
    left = x - (_FAN * (len(faces) - 1) + width) // 2
    for i, card in enumerate(faces):
        sprite = _card(card, "", _CARD)
        image.paste(sprite, (left + _FAN * i, y + _PLATE[1] + 8), sprite)
    _write(image, (x, y + _PLATE[1] + height + 25), _as_on_cards(seat.last), 17, _PAPER)


def _draw_plate(image: Image.Image, seat: _Seat, x: int, y: int) -> None:
    """Draw a player's name, class, points, and place or number of cards.

    The color shows turn or pass.
    """
    width, height = _PLATE
    left, middle = x - width // 2, y + height // 2
    passed = seat.status == "passed"
    color = _TURN_COLOR if seat.in_turn else _PASSED_COLOR if passed else _PLATE_COLOR
    sprite = _pill(_PLATE, color)
    image.paste(sprite, (left, y), sprite)
    points = ", ".join(filter(None, (seat.class_name, counted(seat.points, "point"))))
    room = width // 2 + 30 - font(15).getlength(points) / 2 - 14 - 4
    _write(image, (left + 14, middle), _shortened(seat.name, 17, room), 17, _INK, "lm")
    _write(image, (x + 30, middle), points, 15, _RANK)
    count = str(seat.left) if passed or not seat.status else seat.status
    _write(image, (left + width - 14, middle), count, 17, _INK, "rm")


def _shortened(text: str, size: float, room: float) -> str:
    """Return a text that takes at most some pixels, the end of a longer one as `…`."""
    if _width(text, size) <= room:
        return text
    every = (f"{text[:n].rstrip()}…" for n in range(1, len(text)))
    *_, longest = "…", *takewhile(lambda each: _width(each, size) <= room, every)
    return longest


def _draw_field(image: Image.Image, play: int) -> None:
    """Draw the cards of a play, the joker with the card it stands for."""
    naturals, joker = plays.cells(play)
    lone = play == plays.LONE_JOKER
    laid = [(column, row, 4 * (column - 1) + row, "") for row, column in naturals]
    if joker is not None:
        row, column = joker
        name = (cards.SUITS + "X")[row] + RANKS[column]
        laid.append((column, row, JOKER, "" if lone else _as_on_card(name)))
    width, height = _FIELD_CARD
    step = min(width + 8, (_SPREAD - width) // max(len(laid) - 1, 1))
    left = _FIELD[0] - (step * (len(laid) - 1) + width) // 2
    for i, (*_, card, stands_for) in enumerate(sorted(laid)):
        sprite = _card(card, stands_for, _FIELD_CARD)
        image.paste(sprite, (left + step * i, _FIELD[1] - height // 2), sprite)


def _draw_flags(image: Image.Image, flags: list[str], y: int) -> None:
    """Draw a row of pills, one for each flag."""
    for i, flag in enumerate(flags):
        x = WIDTH // 2 + round((i - (len(flags) - 1) / 2) * 124)
        sprite = _pill((112, 26), _RED if flag == "revolution" else _VIOLET)
        image.paste(sprite, (x - 56, y - 13), sprite)
        _write(image, (x, y), flag, 16, _PAPER)


def _write(
    image: Image.Image,
    at: tuple[float, float],
    text: str,
    size: float,
    fill: str,
    anchor: str = "mm",
) -> None:
    """Draw text with signs of suits, by default with its middle at a point."""
    pen, side = _pillow().ImageDraw.Draw(image), _side(size)
    x, y = at[0] - {"l": 0.0, "m": 0.5, "r": 1.0}[anchor[0]] * _width(text, size), at[1]
    for part in _parts(text):
        width = _width(part, size)
        if part in _SUIT_OF_SIGN:
            sprite = _sign_image(_SUIT_OF_SIGN[part], side, fill)
            image.paste(sprite, (round(x), round(y - side / 2)), sprite)
        else:
            pen.text((x, y), part, fill, font(size), "l" + anchor[1:])
        x += width


def _parts(text: str) -> list[str]:
    """Return the parts of a text, with each sign of a suit as one."""
    return re.split(f"([{_SUITS}])", text)


def _side(size: float) -> int:
    """Return the width and height of the sign of a suit in text."""
    return round(0.8 * size)


def _width(text: str, size: float) -> float:
    """Return the width of text with signs of suits."""
    side, letters = _side(size), font(size)
    return sum(side if part in _SUIT_OF_SIGN else letters.getlength(part) for part in _parts(text))


@cache
def _sign_image(suit: int, side: int, fill: str) -> Any:
    """Return the sign of a suit in a square; it is shared, do not write to it."""
    fine = _pillow().Image.new("RGBA", (_FINE * side, _FINE * side))
    middle = _FINE * side / 2
    _draw_suit(_pillow().ImageDraw.Draw(fine), suit, middle, middle, 0.9 * _FINE * side, fill)
    return fine.reduce(_FINE)


@cache
def _table() -> Image.Image:
    """Return the empty table; it is shared, do not write to it."""
    image: Image.Image = _pillow().Image.new("RGB", (WIDTH, HEIGHT), _PAGE)
    felt = _pill((WIDTH - 20, HEIGHT - 20), _FELT, 60, _LINE)
    image.paste(felt, (10, 10), felt)
    return image


@cache
def _pill(size: tuple[int, int], fill: str, radius: int = 13, edge: str | None = None) -> Any:
    """Return a rounded rectangle; it is shared, do not write to it."""
    fine = _pillow().Image.new("RGBA", (_FINE * size[0], _FINE * size[1]))
    corner = (fine.width - 1, fine.height - 1)
    pen = _pillow().ImageDraw.Draw(fine)
    pen.rounded_rectangle((0, 0, *corner), _FINE * radius, fill, edge, _FINE * 3)
    return fine.reduce(_FINE)


@cache
def _card(card: int | None, stands_for: str, size: tuple[int, int]) -> Any:
    """Return the picture of a card, its back for None; it is shared, do not write to it."""
    fine = _pillow().Image.new("RGBA", (_FINE * size[0], _FINE * size[1]))
    pen = _pillow().ImageDraw.Draw(fine)
    box = (0, 0, fine.width - 1, fine.height - 1)
    pen.rounded_rectangle(box, fine.width // 9, _PAPER, _EDGE, _FINE)
    if card is None:
        _draw_back(pen, *fine.size)
    else:
        _draw_face(pen, card, *fine.size)
        if stands_for:
            at = 0.66 * fine.width, 0.17 * fine.height
            _write(fine, at, stands_for, 0.3 * fine.width, _VIOLET)
    return fine.reduce(_FINE)


def _draw_back(pen: ImageDraw.ImageDraw, width: int, height: int) -> None:
    """Draw the back of a card: a frame with a lattice."""
    edge, step = width // 12, width // 6
    box = (edge, edge, width - 1 - edge, height - 1 - edge)
    pen.rounded_rectangle(box, width // 12, _BACK)
    for x in range(2 * edge, width - 2 * edge, step):
        pen.line((x, 2 * edge, x, height - 2 * edge), _BACK_LINE, _FINE // 2)
    for y in range(2 * edge, height - 2 * edge, step):
        pen.line((2 * edge, y, width - 2 * edge, y), _BACK_LINE, _FINE // 2)


def _draw_face(pen: ImageDraw.ImageDraw, card: int, width: int, height: int) -> None:
    """Draw the face of a card: its name in the corner that a fan shows, and a large sign."""
    suit = 4 if card == JOKER else card % 4
    color, corner = (_INK, _RED, _RED, _INK, _VIOLET)[suit], 0.24 * width
    if card == JOKER:
        for i, letter in enumerate("JOKER"):
            place = corner, (0.12 + 0.15 * i) * height
            pen.text(place, letter, color, font(0.22 * width), "mm", stroke_width=_FINE / 8)
    else:
        rank, bold = RANKS[card // 4 + 1].replace("T", "10"), _FINE / 4
        pen.text((corner, 0.17 * height), rank, color, font(0.36 * width), "mm", stroke_width=bold)
        _draw_suit(pen, suit, corner, 0.38 * height, 0.26 * width, color)
    _draw_suit(pen, suit, 0.62 * width, 0.7 * height, 0.5 * width, color)


def _draw_suit(
    pen: ImageDraw.ImageDraw, suit: int, x: float, y: float, side: float, fill: str
) -> None:
    """Draw a suit's sign, or the joker's star, in a square around a point."""
    left, top = x - side / 2, y - side / 2
    discs, *polygons = _SHAPES[suit]
    for cx, cy, radius in discs:
        cx, cy, r = left + side * cx, top + side * cy, side * radius
        pen.ellipse((cx - r, cy - r, cx + r, cy + r), fill)
    for polygon in polygons:
        pen.polygon([(left + side * px, top + side * py) for px, py in polygon], fill)


def _star() -> list[tuple[float, float]]:
    """Return a star of five points in the unit square."""
    turns = [(math.pi * i / 5, 0.52 if i % 2 == 0 else 0.22) for i in range(10)]
    return [(0.5 + r * math.sin(turn), 0.53 - r * math.cos(turn)) for turn, r in turns]


_STEM = [(0.5, 0.5), (0.68, 1.0), (0.32, 1.0)]
_SHAPES: tuple[Any, ...] = (
    (
        [(0.26, 0.59, 0.24), (0.74, 0.59, 0.24)],
        [(0.5, 0), (0.94, 0.46), (0.5, 0.8), (0.06, 0.46)],
        _STEM,
    ),
    (
        [(0.265, 0.3, 0.255), (0.735, 0.3, 0.255)],
        [(0.5, 0.3), (0.955, 0.43), (0.5, 1), (0.045, 0.43)],
    ),
    ([], [(0.5, 0), (0.88, 0.5), (0.5, 1), (0.12, 0.5)]),
    ([(0.5, 0.25, 0.23), (0.24, 0.6, 0.23), (0.76, 0.6, 0.23), (0.5, 0.5, 0.15)], _STEM),
    ([], _star()),
)
"""Discs (x, y, radius) and polygons of the signs of S, H, D, C and the joker, in a unit square."""


@cache
def _pillow() -> Any:
    """Return Pillow, with the modules used here.

    Raises:
        gymnasium.error.DependencyNotInstalled: Pillow is missing.
    """
    with require_extra():
        import PIL.Image
        import PIL.ImageDraw
    return PIL

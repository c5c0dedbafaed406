"""Pictures of a 2048 board: text, pixels and SVG.

A picture is a function of the board's exponents and the score only. All colored pictures share one
palette, and pixels and SVG share one layout:

    +----------------------+
    | [ Score 1234       ] |    margin, strip, margin,
    | [ tile tile tile   ] |    board of tiles with gaps as wide as the margin,
    | [ tile tile tile   ] |    margin
    +----------------------+

Pillow and pygame are imported by the functions that need them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from afterstate.envs.checks import as_int
from afterstate.envs.game2048.rules import Cells, check_cells
from afterstate.envs.messages import shown
from afterstate.envs.pictures import Pixels, font, require_extra

if TYPE_CHECKING:
    from PIL import Image

TILE_COLORS = (
    *("#cdc1b4", "#eee4da", "#ede0c8", "#f2b179", "#f59563", "#f67c5f"),  # empty, 2 to 32
    *("#f65e3b", "#edcf72", "#edcc61", "#edc850", "#edc53f", "#edc22e"),  # 64 to 2048
    *("#7fb069", "#2f9e8f", "#3487bd", "#5562b5", "#86459c", "#3c3a32"),  # 4096 to 131072
)
"""Background color of the tile of each exponent, 0 to 17."""
PAGE_COLOR, BOARD_COLOR = "#faf8ef", "#bbada0"
DARK_TEXT, LIGHT_TEXT = "#776e65", "#f9f6f2"

_CAPITAL = 0.72  # height of digits and capitals, in font sizes
_FINE = 4  # shapes and letters are drawn this much larger, then shrunk for smooth edges


def ansi(cells: Any, score: int = 0, *, color: bool = False) -> str:
    r"""Return the board as text: the score, then a grid of tiles with `.` for an empty cell.

    Every column is wide enough for 131072, so boards of one size line up.

    >>> print(ansi([[1, 11], [0, 17]], score=20))
    score 20
    ┌────────┬────────┐
    │      2 │   2048 │
    ├────────┼────────┤
    │      . │ 131072 │
    └────────┴────────┘

    Args:
        cells: exponents `[rows, cols]`.
        score: sum of the rewards so far.
        color: True for 24-bit colors, as terminal escape sequences.

    Raises:
        ValueError: not exponents in 0..17 on at most 4x4 cells.
    """
    board = _board(cells)
    top, middle, bottom = (_ruler(joints, board.shape[1]) for joints in ("┌┬┐", "├┼┤", "└┴┘"))
    rows = ["│" + "│".join(_ansi_tile(e, color) for e in row) + "│" for row in board.tolist()]
    return "\n".join([f"score {score}", top, f"\n{middle}\n".join(rows), bottom])


def rgb_array(cells: Any, score: int = 0, tile: int = 100) -> Pixels:
    """Return the board as a new picture `uint8[height, width, 3]`.

    The size depends only on the board's rows and columns and on `tile`. Both sides are even, as
    video codecs require: 484 x 546 pixels for 4x4 tiles of 100.

    Args:
        cells: exponents `[rows, cols]`.
        score: sum of the rewards so far.
        tile: side of a tile in pixels, 16 to 1024.

    Raises:
        ValueError: not exponents in 0..17 on at most 4x4 cells, or another `tile`.
        gymnasium.error.DependencyNotInstalled: Pillow is missing.
    """
    board = _board(cells)
    if not 16 <= (as_int(tile) or 0) <= 1024:
        raise ValueError(f"tile must be an integer in 16..1024 pixels, got {shown(tile)}")
    layout = _layout(*board.shape, tile)
    picture = _background(layout).copy()
    strip = picture[layout.strip.slices]
    strip[:] = _write(strip, _score_text(score), LIGHT_TEXT, layout.score_size(score))
    for box, exponent in layout.places(board):
        picture[box.slices] = _tile(exponent, tile)
    return picture


def svg(cells: Any, score: int = 0) -> str:
    """Return the picture of `rgb_array` as a self-contained SVG document.

    Args:
        cells: exponents `[rows, cols]`.
        score: sum of the rewards so far.

    Raises:
        ValueError: not exponents in 0..17 on at most 4x4 cells.
    """
    board = _board(cells)
    layout = _layout(*board.shape, 100)
    size = f'width="{layout.width}" height="{layout.height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="0 0 {layout.width} {layout.height}" text-anchor="middle" '
        'font-family="Helvetica, Arial, sans-serif" font-weight="bold">',
        f'<rect {size} fill="{PAGE_COLOR}"/>',
        _svg_box(layout.strip, BOARD_COLOR, layout.radius),
        _svg_text(layout.strip, _score_text(score), LIGHT_TEXT, layout.score_size(score)),
        _svg_box(layout.board, BOARD_COLOR, layout.radius),
    ]
    for box, exponent in layout.places(board):
        text = _tile_text(exponent)
        parts.append(_svg_box(box, TILE_COLORS[exponent], layout.radius))
        parts.append(_svg_text(box, text, _text_color(exponent), _font_size(text, 100, 50)))
    return "\n".join([*filter(None, parts), "</svg>\n"])


class _Box(NamedTuple):
    """A rectangle in pixels from the top left corner of the picture."""

    left: int
    top: int
    width: int
    height: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """The rectangle as an index of a picture."""
        return slice(self.top, self.top + self.height), slice(self.left, self.left + self.width)


class _Layout(NamedTuple):
    """Positions and sizes in pixels: see the picture at the top of this file."""

    tile: int
    gap: int
    radius: int
    strip: _Box
    board: _Box
    width: int
    height: int

    def places(self, board: Cells) -> Iterator[tuple[_Box, int]]:
        """Yield the place and the exponent of every cell."""
        step = self.tile + self.gap
        left, top = self.board.left + self.gap, self.board.top + self.gap
        for row, exponents in enumerate(board.tolist()):
            for col, exponent in enumerate(exponents):
                yield _Box(left + col * step, top + row * step, self.tile, self.tile), exponent

    def score_size(self, score: int) -> float:
        """Return the font size of the score."""
        return _font_size(_score_text(score), self.strip.width, 0.3 * self.tile)


@cache
def _layout(rows: int, cols: int, tile: int) -> _Layout:
    """Return the places in a picture of a board whose tiles have this width."""
    gap, strip_height = round(0.12 * tile), round(0.5 * tile)
    board_width, board_height = (n * (tile + gap) + gap for n in (cols, rows))
    width, height = board_width + 2 * gap, strip_height + board_height + 3 * gap
    strip = _Box(gap, gap, board_width, strip_height)
    board = _Box(gap, strip_height + 2 * gap, board_width, board_height)
    even_width, even_height = width + width % 2, height + height % 2
    return _Layout(tile, gap, round(0.06 * tile), strip, board, even_width, even_height)


def _board(cells: Any) -> Cells:
    """Return the exponents of one board, checked."""
    board = check_cells(cells)
    if board.ndim != 2:
        raise ValueError(f"board must have shape [rows, cols], got {board.shape}")
    return board


def _tile_text(exponent: int) -> str:
    """Return the number on a tile, empty for an empty cell."""
    return str(1 << exponent) if exponent else ""


def _score_text(score: int) -> str:
    """Return the score as pictures show it."""
    return f"Score {score}"


def _text_color(exponent: int) -> str:
    """Return the color of the number on a tile."""
    return DARK_TEXT if exponent <= 2 else LIGHT_TEXT


def _font_size(text: str, width: int, largest: float) -> float:
    """Return the font size at which bold digits, 0.55 to 0.7 wide, fit into the width."""
    return min(largest, 1.25 * width / max(len(text), 1))


def _ruler(joints: str, cols: int) -> str:
    """Return a horizontal line of a text table, given its left, inner and right joint."""
    return joints[0] + joints[1].join(["─" * 8] * cols) + joints[2]


def _ansi_tile(exponent: int, color: bool) -> str:
    """Return a tile as text of eight columns."""
    text = f" {_tile_text(exponent) or '.':>6} "
    if not color:
        return text
    back, front = (
        ";".join(str(part) for part in bytes.fromhex(name[1:]))
        for name in (TILE_COLORS[exponent], _text_color(exponent))
    )
    return f"\x1b[48;2;{back}m\x1b[38;2;{front}m{text}\x1b[0m"


def _svg_box(box: _Box, fill: str, radius: int) -> str:
    """Return a filled box with round corners as SVG."""
    place = f'x="{box.left}" y="{box.top}" width="{box.width}" height="{box.height}"'
    return f'<rect {place} rx="{radius}" fill="{fill}"/>'


def _svg_text(box: _Box, text: str, fill: str, size: float) -> str:
    """Return bold digits in the middle of a box as SVG, empty without a text."""
    x, y = box.left + box.width / 2, box.top + (box.height + _CAPITAL * size) / 2
    style = f'font-size="{size:.1f}" fill="{fill}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{text}</text>' if text else ""


@cache
def _background(layout: _Layout) -> Pixels:
    """Return the picture without score and tiles; it is shared, do not write to it."""
    picture = _rounded(layout.width, layout.height, 0, PAGE_COLOR, PAGE_COLOR)
    for box in (layout.strip, layout.board):
        plate = _rounded(box.width, box.height, layout.radius, BOARD_COLOR, PAGE_COLOR)
        picture[box.slices] = plate
    return picture


@cache
def _tile(exponent: int, side: int) -> Pixels:
    """Return the picture of a tile; it is shared, do not write to it."""
    fill, text = TILE_COLORS[exponent], _tile_text(exponent)
    blank = _rounded(side, side, round(0.06 * side), fill, BOARD_COLOR)
    return _write(blank, text, _text_color(exponent), _font_size(text, side, 0.5 * side))


def _rounded(width: int, height: int, radius: int, fill: str, under: str) -> Pixels:
    """Return a filled rectangle whose rounded corners show the color `under`."""
    with require_extra():
        from PIL import Image, ImageDraw
    mask = Image.new("L", (_FINE * width, _FINE * height))
    far_corner = (_FINE * width - 1, _FINE * height - 1)
    ImageDraw.Draw(mask).rounded_rectangle((0, 0, *far_corner), _FINE * radius, fill=255)
    return _paint(Image.new("RGB", (width, height), under), fill, mask)


def _write(picture: Pixels, text: str, fill: str, size: float) -> Pixels:
    """Return a copy of the picture with bold text in its middle."""
    with require_extra():
        from PIL import Image, ImageDraw
    image = Image.fromarray(picture)
    mask = Image.new("L", (_FINE * image.width, _FINE * image.height))
    middle = (mask.width / 2, (mask.height + _CAPITAL * _FINE * size) / 2)
    bold = round(_FINE * size / 36)
    ImageDraw.Draw(mask).text(middle, text, 255, font(_FINE * size), anchor="ms", stroke_width=bold)
    return _paint(image, fill, mask)


def _paint(image: Image.Image, fill: str, mask: Image.Image) -> Pixels:
    """Return the image with a color where a mask of `_FINE` times its size is set."""
    image.paste(fill, (0, 0, image.width, image.height), mask.reduce(_FINE))
    return np.array(image)

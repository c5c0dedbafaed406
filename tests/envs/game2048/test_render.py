"""Pictures of 2048 boards as text, pixels, SVG, GIF and in a window."""

from __future__ import annotations

import errno
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, call

import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled

from afterstate.envs import pictures
from afterstate.envs.game2048 import render

pygame = pytest.importorskip("pygame")
Image = pytest.importorskip("PIL.Image")

by_size = pytest.mark.parametrize("size", [(4, 4), (1, 2), (4, 1), (2, 3)])
EVERY_TILE = [np.arange(9).reshape(3, 3), np.arange(9, 18).reshape(3, 3)]
BOARD = [[1, 0, 2], [11, 17, 6]]
TEXT = """\
score 1234
┌────────┬────────┬────────┐
│      2 │      . │      4 │
├────────┼────────┼────────┤
│   2048 │ 131072 │     64 │
└────────┴────────┴────────┘"""


def rgb(color: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(color[1:]))


def corner_of_tile(picture: pictures.Pixels) -> tuple[int, ...]:
    """Return the color of the top left tile of 100 pixels, above its digits."""
    return tuple(picture[94, 74].tolist())


def test_ansi_draws_a_grid() -> None:
    assert render.ansi(BOARD, 1234) == TEXT


def test_ansi_without_the_colors_is_the_plain_text() -> None:
    colored = render.ansi(BOARD, 1234, color=True)
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == TEXT
    assert "\x1b[48;2;237;194;46m\x1b[38;2;249;246;242m   2048 \x1b[0m" in colored


@by_size
def test_ansi_lines_are_equally_wide(size: tuple[int, int]) -> None:
    lines = render.ansi(np.random.default_rng(0).integers(0, 18, size)).splitlines()[1:]
    assert len(lines) == 2 * size[0] + 1
    assert {len(line) for line in lines} == {9 * size[1] + 1}


def test_every_exponent_has_its_own_color() -> None:
    assert len(set(render.TILE_COLORS)) == 18
    for exponent, color in enumerate(render.TILE_COLORS):
        assert corner_of_tile(render.rgb_array([[exponent, 0]])) == rgb(color)


@pytest.mark.parametrize("tile", [16, 33, 100])
@by_size
def test_the_size_of_a_picture_is_even_and_depends_on_board_and_tile_size(
    size: tuple[int, int], tile: int
) -> None:
    empty = render.rgb_array(np.zeros(size, np.uint8), 0, tile)
    full = render.rgb_array(np.full(size, 17), 3_932_100, tile)
    assert empty.dtype == full.dtype == np.uint8
    assert empty.shape == full.shape
    assert full.shape[0] % 2 == full.shape[1] % 2 == 0
    assert full.shape[0] > size[0] * tile and full.shape[1] > size[1] * tile
    if (size, tile) == ((4, 4), 100):
        assert full.shape == (546, 484, 3)  # as documented


def test_the_picture_depends_on_the_cells_and_the_score() -> None:
    pictures = [render.rgb_array([[1, e]], score).tobytes() for e in range(18) for score in (0, 4)]
    assert len(set(pictures)) == len(pictures)


def test_a_picture_belongs_to_its_caller() -> None:
    first = render.rgb_array(BOARD, 8)
    before = first.copy()
    first[:] = 0
    np.testing.assert_array_equal(render.rgb_array(BOARD, 8), before)


@by_size
def test_text_stays_inside_its_box(size: tuple[int, int]) -> None:
    picture = render.rgb_array(np.full(size, 17), 3_932_100)
    layout = render._layout(*size, 100)
    boxes = [layout.strip, *(box for box, _ in layout.places(np.full(size, 17, np.uint8)))]
    for box, color in zip(
        boxes, [render.BOARD_COLOR] + [render.TILE_COLORS[17]] * 16, strict=False
    ):
        inside = picture[box.slices][8:-8]
        for edge in (inside[:, :5], inside[:, -5:]):
            assert (edge == rgb(color)).all()


@pytest.mark.parametrize("board", [BOARD, *EVERY_TILE])
def test_svg_is_xml_that_shows_the_tiles(board: Any) -> None:
    texts = [text.text for text in ET.fromstring(render.svg(board, 1234)).iterfind("{*}text")]
    assert texts == ["Score 1234", *(str(2**e) for e in np.ravel(board).tolist() if e)]


@by_size
def test_svg_and_rgb_array_have_the_same_layout_and_colors(size: tuple[int, int]) -> None:
    board = np.random.default_rng(1).integers(0, 18, size)
    document, picture = ET.fromstring(render.svg(board, 4)), render.rgb_array(board, 4)
    assert document.get("viewBox") == f"0 0 {picture.shape[1]} {picture.shape[0]}"
    rects = list(document.iterfind("{*}rect"))
    assert len(rects) == 3 + board.size
    for rect in rects:
        x, y, width = (int(rect.get(name, 0)) for name in ("x", "y", "width"))
        assert tuple(picture[y + 5, x + width // 2]) == rgb(rect.attrib["fill"])


def test_gif_shows_every_frame_and_the_last_one_longer(tmp_path: Path) -> None:
    frames = [render.rgb_array(board, score) for score, board in enumerate(EVERY_TILE * 3)]
    pictures.gif(frames, tmp_path / "game.gif", fps=10)
    with Image.open(tmp_path / "game.gif") as animation:
        assert animation.n_frames == len(frames)
        durations = []
        for i, frame in enumerate(frames):
            animation.seek(i)
            durations.append(animation.info["duration"])
            error = np.abs(np.asarray(animation.convert("RGB"), int) - frame)
            assert np.quantile(error, 0.99) <= 8  # Pillow selects a close color, not the closest
    assert durations == [100] * (len(frames) - 1) + [2_000]


def test_gif_shows_the_color_of_a_tile_in_one_frame(tmp_path: Path) -> None:
    boards = [*([[0, e]] for e in range(1, 12)), [[17, 1]]]
    pictures.gif([render.rgb_array(board) for board in boards], tmp_path / "game.gif")
    with Image.open(tmp_path / "game.gif") as animation:
        animation.seek(animation.n_frames - 1)
        shown = corner_of_tile(np.asarray(animation.convert("RGB")))
    assert shown == rgb(render.TILE_COLORS[17])


@pytest.mark.slow
def test_a_gif_of_equal_frames_is_one_that_stays_for_at_most_ten_minutes(tmp_path: Path) -> None:
    one, other = render.rgb_array(BOARD), render.rgb_array(BOARD, 8)
    pictures.gif([one] * 700 + [other] * 3, tmp_path / "game.gif", fps=1)
    with Image.open(tmp_path / "game.gif") as animation:
        assert (animation.n_frames, animation.info["duration"]) == (2, 600_000)
        animation.seek(1)
        assert animation.info["duration"] == 2 * 1_000 + 2_000


def test_a_failed_gif_leaves_the_earlier_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(self: Any, file: Any, *args: Any, **kwargs: Any) -> None:
        file.write(b"GIF89a")
        raise OSError(errno.ENOSPC, "the disk is full")

    path = tmp_path / "game.gif"
    path.write_bytes(b"an older animation")
    monkeypatch.setattr(Image.Image, "save", save)
    with pytest.raises(OSError, match="the disk is full") as error:
        pictures.gif([render.rgb_array(BOARD)], path)
    assert error.value.filename == str(path)
    assert path.read_bytes() == b"an older animation"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Iterator[pictures.Window]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    window = pictures.Window("2048", fps=0)
    yield window
    window.close()


@pytest.mark.parametrize("driver", ["offscreen", None])
def test_a_window_without_a_display_is_an_error(
    monkeypatch: pytest.MonkeyPatch, driver: str | None
) -> None:
    """SDL has no driver, or one that draws into memory, where nobody could close the window."""
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    if driver is None:
        monkeypatch.setattr(pygame.display, "init", MagicMock(side_effect=pygame.error("none")))
    monkeypatch.setattr(pygame.display, "get_driver", lambda: driver)
    with pytest.raises(OSError, match="there is no display to open a window on"):
        pictures.Window("2048", fps=0).show(render.rgb_array(BOARD))


def test_window_shows_pictures_of_any_size(window: pictures.Window) -> None:
    for board in (BOARD, [[1, 2]], [[2, 3]]):
        picture = render.rgb_array(board)
        window.show(picture)
        shown = pygame.surfarray.array3d(pygame.display.get_surface())
        np.testing.assert_array_equal(shown.swapaxes(0, 1), picture)
    assert pygame.display.get_caption()[0] == "2048"
    assert not window.closed


@pytest.mark.parametrize("closed_by", ["user", "program", "program before it opened"])
def test_a_closed_window_shows_nothing(window: pictures.Window, closed_by: str) -> None:
    picture = render.rgb_array(BOARD)
    if closed_by != "program before it opened":
        window.show(picture)
    if closed_by == "user":
        pygame.event.post(pygame.event.Event(pygame.QUIT))
        window.show(picture)
    else:
        window.close()
        window.close()
    assert window.closed
    window.show(picture)
    assert not pygame.display.get_init()


def test_window_leaves_key_presses_in_the_queue(window: pictures.Window) -> None:
    window.show(render.rgb_array(BOARD))
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_UP))
    window.show(render.rgb_array(BOARD))
    assert [event.key for event in pygame.event.get(pygame.KEYDOWN)] == [pygame.K_UP]


def test_window_waits_by_its_frame_rate(
    window: pictures.Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = MagicMock()
    monkeypatch.setattr(pygame.time, "Clock", lambda: clock)
    window.fps = 50
    for _ in range(3):
        window.show(render.rgb_array(BOARD))
    assert clock.tick.mock_calls == [call(50)] * 3


def test_wrong_boards_and_tile_sizes_raise_errors() -> None:
    for draw in (render.ansi, render.rgb_array, render.svg):
        with pytest.raises(ValueError, match="shape"):
            draw(np.zeros((2, 4, 4), np.uint8))
        with pytest.raises(ValueError, match="18"):
            draw([[18, 0]])
    with pytest.raises(ValueError, match="tile"):
        render.rgb_array(BOARD, tile=15)


def test_wrong_frames_and_frame_rates_raise_errors(tmp_path: Path) -> None:
    frame = render.rgb_array(BOARD)
    for frames in ([], [frame, frame[2:]]):
        with pytest.raises(ValueError, match="frames"):
            pictures.gif(frames, tmp_path / "game.gif")
    for fps in (0, 1e-3, 51, float("nan")):
        with pytest.raises(ValueError, match="fps"):
            pictures.gif([frame], tmp_path / "game.gif", fps)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["PIL", "pygame"])
def test_errors_name_the_missing_extra(
    missing: str, tmp_path: Path, window: pictures.Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = render.rgb_array(BOARD)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(DependencyNotInstalled, match=r'pip install "afterstate\[render\]"'):
        if missing == "pygame":
            window.show(picture)
        else:
            render.rgb_array(BOARD, 5)
    assert render.ansi(BOARD, 1234) == TEXT
    assert render.svg(BOARD)

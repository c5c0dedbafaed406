"""Animated GIFs, MP4s, a window and a font for the pictures of both games.

Pillow, moviepy, pygame and gymnasium are imported by the functions that need them.
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from afterstate.envs import durable_files
from afterstate.envs.messages import missing, needs, shown

if TYPE_CHECKING:
    import pygame
    from PIL import Image, ImageFont

Pixels = npt.NDArray[np.uint8]

_LAST_FRAME_MS = 2_000
_LONGEST_MS = 600_000
"""The longest time of one picture; a GIF can hold 655 seconds."""


def gif(frames: Sequence[Pixels], path: str | Path, fps: float = 5) -> None:
    """Write an animated GIF that repeats forever and holds its last frame for two seconds.

    Frames share one palette: the 256 colors with the largest area in any single frame, so that a
    tile in only one frame keeps its color. Equal frames in a row are stored as one that stays
    longer, but for no more than ten minutes. The file appears whole or not at all.

    Args:
        frames: pictures `uint8[height, width, 3]` of one size, such as those of `rgb_array`.
        path: file to write or replace.
        fps: frames per second, >= 0.01 and <= 50. GIF stores hundredths of a second.

    Raises:
        ValueError: no frames, frames of different sizes, or `fps` out of range.
        OSError: the file cannot be written; an earlier file at `path` is kept.
        gymnasium.error.DependencyNotInstalled: Pillow is missing.
    """
    if not 0.01 <= fps <= 50:
        raise ValueError(f"fps must be in 0.01..50, got {shown(fps)}")
    sizes = sorted({frame.shape for frame in frames})
    if len(sizes) != 1:
        raise ValueError(f"frames must be at least one, all of one size, got sizes {shown(sizes)}")
    images, durations = _without_repeats(_share_palette(frames), 10 * round(100 / fps))
    with durable_files.replace(path, synced=False) as file:
        images[0].save(
            file, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0
        )


def _without_repeats(images: Sequence[Image.Image], ms: int) -> tuple[list[Image.Image], list[int]]:
    """Return the images that differ from the one before, and how long each stays, in ms."""
    kept, durations = [images[0]], [0]
    for before, image in pairwise(images):
        durations[-1] = min(durations[-1] + ms, _LONGEST_MS)
        if image.tobytes() != before.tobytes():
            kept.append(image)
            durations.append(0)
    durations[-1] = min(durations[-1] + _LAST_FRAME_MS, _LONGEST_MS)
    return kept, durations


def mp4(frames: Sequence[Pixels], path: Path, fps: float) -> None:
    """Write an MP4, which replaces an older file when it is whole.

    Args:
        frames: pictures `uint8[height, width, 3]` of one size.
        path: file to write or replace.
        fps: frames per second.

    Raises:
        ImportError: moviepy is not installed.
        OSError: it cannot be written.
    """
    writer = film_writer()
    with TemporaryDirectory() as folder:
        film = Path(folder, path.name)
        try:
            writer(frames, fps=fps).write_videofile(str(film), logger=None)
        except OSError:  # with all that ffmpeg has printed
            film.touch()
        with film.open("rb") as file, durable_files.replace(path, synced=False) as new:
            if not _is_whole(file):
                message = "ffmpeg has not written a whole film, perhaps on a full disk"
                raise OSError(errno.EIO, message, folder)
            file.seek(0)
            shutil.copyfileobj(file, new)


def _is_whole(file: IO[bytes]) -> bool:
    """Return True if an MP4 has its index and ends with a box that has the size that it claims.

    ffmpeg writes the index last, and the library around it passes over its errors.
    """
    end = file.seek(0, 2)
    at, kinds = file.seek(0), set()
    while at + 8 <= end:
        size, kind = struct.unpack(">I4s", file.read(8))
        if size == 1:  # a longer number follows
            (size,) = struct.unpack(">Q", file.read(8))
        kinds.add(kind)
        at = file.seek(at + max(8, size))
    return at == end and b"moov" in kinds


def film_writer() -> Any:
    """Return moviepy's class of films that are made of pictures.

    Raises:
        ImportError: moviepy is not installed.
    """
    try:
        from moviepy import ImageSequenceClip
    except ImportError as error:
        raise ImportError(needs("MP4", "moviepy")) from error
    return ImageSequenceClip


class Window:
    """A window that shows the pictures of a game to people.

    It opens at the first `show`. Once it is closed, by its user or by `close`, `show` does nothing,
    so that the game continues without it. pygame has one display, so a program has one window at a
    time. A copy opens its own window. Key presses stay in pygame's event queue, for play by
    keyboard.

    Args:
        title: text of the title bar.
        fps: maximum pictures per second, for which `show` waits; 0 never waits.

    Attributes:
        closed: True once the window has been closed.
    """

    def __init__(self, title: str, fps: float) -> None:
        self.title = title
        self.fps = fps
        self.closed = False
        self._screen: pygame.Surface | None = None
        self._clock: pygame.time.Clock | None = None

    def show(self, rgb_array: Pixels) -> None:
        """Draw a picture `uint8[height, width, 3]`, then wait for the rest of the frame's time.

        Raises:
            OSError: there is no display to open a window on.
            gymnasium.error.DependencyNotInstalled: pygame is missing.
        """
        if self.closed:
            return
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        with require_extra():
            import pygame
        self._screen = screen = self._screen_of((rgb_array.shape[1], rgb_array.shape[0]))
        pygame.surfarray.blit_array(screen, rgb_array.swapaxes(0, 1))
        pygame.display.flip()
        if any(event.type == pygame.QUIT for event in pygame.event.get(exclude=pygame.KEYDOWN)):
            self.close()
            return
        self._clock = self._clock or pygame.time.Clock()
        self._clock.tick(self.fps)

    def close(self) -> None:
        """Close the window for good. Closing it again does nothing."""
        if self._screen is not None:
            import pygame

            pygame.display.quit()
        self._screen, self.closed = None, True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "closed": False, "_screen": None, "_clock": None}

    def _screen_of(self, size: tuple[int, int]) -> pygame.Surface:
        """Return the open window, or a new one if it does not have the size `(width, height)`."""
        if self._screen is not None and self._screen.get_size() == size:
            return self._screen
        import pygame

        _open_display()
        pygame.display.set_caption(self.title)
        return pygame.display.set_mode(size)


def _open_display() -> None:
    """Open pygame's display, or raise OSError if there is none."""
    import pygame

    try:
        pygame.display.init()
    except pygame.error as error:
        raise OSError(f"there is no display to open a window on: {error}") from None
    # SDL's last resort, a window that nobody sees or closes
    if pygame.display.get_driver() == "offscreen" and "SDL_VIDEODRIVER" not in os.environ:
        pygame.display.quit()
        raise OSError(
            "there is no display to open a window on; with SDL_VIDEODRIVER=dummy in the "
            "environment windows are drawn unseen"
        )


@cache
def font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return the font of all pictures.

    Raises:
        gymnasium.error.DependencyNotInstalled: Pillow is missing.
    """
    with require_extra():
        from PIL import ImageFont
    return ImageFont.load_default(size)


def _share_palette(frames: Sequence[Pixels]) -> list[Image.Image]:
    """Return the frames as images with one palette."""
    with require_extra():
        from PIL import Image
    images = [Image.fromarray(frame) for frame in frames]
    area: dict[Any, int] = {}
    for image in images:
        for count, color in image.getcolors(image.width * image.height) or ():
            area[color] = max(area.get(color, 0), count)
    palette = Image.new("P", (1, 1))
    largest = sorted(area, key=lambda color: -area[color])[:256]
    palette.putpalette([part for color in largest for part in color])
    return [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]


def warn_no_render_mode(modes: Sequence[str]) -> None:
    """Warn that `render()` draws nothing without one of an environment's render modes."""
    from gymnasium import logger

    logger.warn(f"render() needs render_mode={' or '.join(map(repr, modes))}")


@contextmanager
def require_extra() -> Iterator[None]:
    """Turn a failed import of Pillow or pygame into an error that names the extra."""
    try:
        yield
    except ImportError as error:
        from gymnasium.error import DependencyNotInstalled

        message = missing(error, "a picture") or needs("a picture", "PIL", "pygame")
        raise DependencyNotInstalled(message) from error

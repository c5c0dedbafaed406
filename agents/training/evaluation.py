"""Evaluation games: their seed and numbers, and the summary of the scores of 2048."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import AfterValidator

from afterstate.envs.messages import shown
from afterstate.envs.options import Placeholder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

EVALUATION_SEED = 1 << 40
"""Seed of the first game of every evaluation, far from those of training games."""

MAX_GAMES = 10**7
"""Maximum number of games that are played in parallel; those of 2048 take 200 bytes each."""


def evaluation_games(text: str | None) -> dict[int, int]:
    """Return the number of games of each search depth, from a text such as `1:1000,3:20` or None.

    Raises:
        ValueError: not a list of different depths from 1 to 5 with numbers of games up to 10**7.
    """
    pairs = [] if text is None else text.split(",")
    if not all(re.fullmatch(r"[1-5]:0*([1-9]\d{0,6}|10{7})", pair) for pair in pairs):
        raise ValueError(
            f"evaluate must be PLIES:GAMES,... with 1 to 5 plies and 1 to {MAX_GAMES:,} games, "
            f"got {text!r:.200}"
        )
    games = {int(pair[0]): int(pair[2:]) for pair in pairs}
    if len(games) < len(pairs):
        raise ValueError(f"evaluate must have each number of plies once, got {shown(text)}")
    return games


def _evaluation(text: str) -> str:
    """Return a text that `evaluation_games` accepts."""
    evaluation_games(text)
    return text


Evaluation = Annotated[str, AfterValidator(_evaluation), Placeholder("PLIES:GAMES,...")]
"""A text for `evaluation_games`."""


class Games(Protocol):
    """Finished games of 2048, `[n]` each: see `game2048.play.Games`."""

    @property
    def scores(self) -> npt.NDArray[np.int64]:
        """Scores."""

    @property
    def max_tiles(self) -> npt.NDArray[np.int64]:
        """Largest tiles."""


_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Quantiles of Student's distribution for 95%, by degrees of freedom from 1 on."""


def half_interval(values: npt.ArrayLike) -> float:
    """Return half the 95% interval of the mean of values (normal); nan for a single value."""
    import numpy as np

    sample = np.asarray(values, dtype=np.float64)
    n = len(sample)
    return 1.96 * float(sample.std(ddof=1)) / n**0.5 if n > 1 else math.nan


def of_student(half: float, n: int) -> float:
    """Return half of Student's 95% interval, which few values need, given that of `half_interval`.

    Args:
        half: half of the normal interval.
        n: number of values; from 32 on the interval stays as it is.
    """
    return half * _STUDENT[n - 2] / 1.96 if 2 <= n <= len(_STUDENT) + 1 else half


def summaries(
    play: Callable[[int, int], Games], games_by_depth: dict[int, int]
) -> dict[str, dict[str, Any]]:
    """Return the `summary` of the games of each depth, named as `"1-ply"`.

    Args:
        play: plays a number of games, the second argument, by search of a depth, the first.
        games_by_depth: number of games for each depth.
    """
    return {f"{depth}-ply": summary(play(depth, n)) for depth, n in games_by_depth.items()}


def summary(games: Games) -> dict[str, Any]:
    """Return the mean score of games with its 95% interval (normal), and the reach rates of tiles.

    The interval of a single game is None.

    Raises:
        ValueError: there is no game.
    """
    n = len(games.scores)
    if n == 0:
        raise ValueError("a summary needs at least one game")
    tiles = (2048, 4096, 8192, 16384, 32768, 65536)
    return {
        "n_games": n,
        "mean": round(float(games.scores.mean()), 1),
        "interval": None if n == 1 else round(half_interval(games.scores), 1),
        "max": int(games.scores.max()),
        "reached": {str(tile): float((games.max_tiles >= tile).mean()) for tile in tiles},
    }

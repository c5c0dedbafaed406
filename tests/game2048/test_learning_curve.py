"""The learning curves of the 4x6 network, long enough to compare with the published program's."""

from __future__ import annotations

import numpy as np
import pytest

from afterstate.agents.game2048.learning import Learner, Settings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "n_moves", "published"),
    [
        (Settings(), 20_000_000, 59_600),
        (Settings(lam=0.0), 18_000_000, 51_800),
        (Settings(order="forward"), 16_000_000, 45_000),
        (Settings("td", "forward"), 8_900_000, 21_700),
    ],
    ids=["TC(0.5)", "TC backward", "TC forward", "TD(0)"],
)
def test_mean_score_is_that_of_tdl2048_after_as_many_moves(
    settings: Settings, n_moves: int, published: float
) -> None:
    """Means of the last 1,000 games of single runs: each has a standard error of about 2%.

    A run's own luck and the growth within 1,000 games add to it, hence the 12%.
    """
    learner = Learner(settings=settings, seed=1)
    scores: list[int] = []
    while learner.n_moves < n_moves:
        scores += learner.play(1_000_000).scores.tolist()
    assert np.mean(scores[-1_000:]) == pytest.approx(published, rel=0.12)

"""Settings of fitting neural networks, readable without torch: see `fitter.py`."""

from __future__ import annotations

import math

from afterstate.agents.config import Count, OpenShare, Positive, ShareBelow1, settings


@settings
class FittingSettings:
    """Settings of fitting a neural network of 2048.

    Raises:
        ValueError: a wrong setting.
    """

    batch: Count = 512
    """Positions of a gradient step."""
    rate: OpenShare = 1e-3
    """Initial learning rate of Adam (Kingma and Ba 2015)."""
    final_rate: OpenShare = 1e-5
    """Learning rate after `decay` moves."""
    decay: Positive | None = None
    """Moves in which the learning rate falls from `rate` to `final_rate` by a cosine; by default
    it is constant."""
    warm_up: Positive | None = None
    """Moves in which the learning rate rises linearly from 0; by default none. The first steps of
    Adam are large whatever the error, and may turn units off permanently."""
    symmetric: bool = True
    """Turn each position to one of its eight symmetric positions, at random."""
    average: ShareBelow1 = 0.0
    """Decay of the exponential moving average of the weights, which plays. 0: no average, the
    weights themselves play."""
    bf16: bool = False
    """Compute in bfloat16 where float32 is not needed: faster on a GPU or a CPU with instructions
    for it (AVX512-BF16, AMX), far slower on other CPUs."""
    clip: Positive | None = None
    """Maximum norm of a gradient; longer gradients are scaled down. By default no limit."""

    def rate_after(self, n_moves: int) -> float:
        """Return the learning rate after this many moves."""
        if self.warm_up is not None and n_moves < self.warm_up:
            return self.rate * (n_moves + 1) / (self.warm_up + 1)
        if self.decay is None:
            return self.rate
        done = min(1.0, n_moves / self.decay)
        return self.final_rate + (self.rate - self.final_rate) * (1 + math.cos(math.pi * done)) / 2

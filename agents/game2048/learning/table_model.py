"""An N-tuple network as the value function of `from_search.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from afterstate.agents import files
from afterstate.agents.config import Rate, checked
from afterstate.agents.game2048.kernels import kernel
from afterstate.agents.game2048.learning.run_settings import DEFAULT_RATES
from afterstate.agents.game2048.learning.td import TOWARD_RANDOM, Update, update
from afterstate.agents.game2048.values import ntuple_file
from afterstate.agents.game2048.values.ntuple import NTupleAgent, estimate_checked, value_of
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.agents.game2048.values.pruned import check_full
from afterstate.envs.messages import listed, shown
from afterstate.envs.words import Floats, Words


@kernel
def _fit(net: Network, rule: Update, afters: Words, targets: Floats) -> float:
    """Update afterstates one after the other; return the sum of squared errors."""
    squares = 0.0
    for i in range(afters.size):
        error = targets[i] - value_of(net, afters[i])
        squares += error * error
        update(net, rule, afters[i], np.float32(error))
    return squares


class TableModel:
    """An N-tuple network that learns, by temporal coherence or temporal differences.

    Args:
        network: learns in place; not a pruned one.
        rule: `"tc"` or `"td"`: see `td.py`.
        rate: step size; by default 1 of TC and 0.1 of TD.
    """

    suffix = ".npz"
    """Ending of its files."""

    def __init__(self, network: Network, rule: str = "tc", rate: float | None = None) -> None:
        if rule not in DEFAULT_RATES:
            raise ValueError(f"rule must be one of {listed(DEFAULT_RATES)}, got {shown(rule)}")
        rate = checked("rate", DEFAULT_RATES[rule] if rate is None else rate, Rate)
        check_full(network)
        self.network, self.size = network, network.size
        sums = np.zeros(2 * network.weights.size if rule == "tc" else 0, np.float32)
        self._update = Update(
            sums, np.float32(rate), np.float32(0), False, np.float32(0), TOWARD_RANDOM
        )

    def estimate(self, boards: Words) -> Floats:
        """Return the values of afterstates."""
        return estimate_checked(self.network, boards).astype(np.float64)

    def fit(self, afters: Words, targets: Floats, n_moves: int) -> float:
        """Learn, one afterstate after the other."""
        return _fit(self.network, self._update, afters, targets) / max(1, len(afters))

    def player(self) -> NTupleAgent:
        """Return the greedy player."""
        return NTupleAgent(self.network)

    def save(self, path: Path, arrays: files.Arrays, metadata: dict[str, Any]) -> None:
        """Write the checkpoint to a file of `files.py`.

        Raises:
            OSError: the file cannot be written.
            ValueError: a value is NaN, inf or too large; the file is not changed.
        """
        header, own = ntuple_file.pack_network(self.network)
        more = {**own, "sums": self._update.sums, **arrays}
        ntuple_file.check_weights(self.network.weights)
        if not all(files.is_finite(array) for array in more.values()):
            raise ValueError(f"sums are NaN or inf, so {path} is not changed")
        files.write(path, "ntuple", {**header, "search": metadata}, more, level=0)

    def load(self, path: Path) -> tuple[files.Arrays, dict[str, Any]]:
        """Load a file of `save`."""
        header, arrays = ntuple_file.read(path)
        if "search" not in header or "sums" not in arrays:
            raise ValueError(f"{path} has no learner from searches: it can be played, not resumed")
        net, sums = ntuple_file.unpack_network(path, header, arrays), self._update.sums
        ntuple_file.check_same(path, net, self.network)
        if (arrays["sums"].shape, arrays["sums"].dtype) != (sums.shape, sums.dtype):
            raise ValueError(f"{path} must hold the sums of the rule of the settings, not others")
        if not files.is_finite(arrays["sums"]):
            raise ValueError(f"{path} has sums that are NaN or infinite")
        if ntuple_file.is_by_nibbles(header) and arrays["sums"].size:
            arrays["sums"] = ntuple_file.to_z_order(net, arrays["sums"])
        self.network.weights[:], sums[:] = net.weights, arrays["sums"]
        return arrays, header["search"]

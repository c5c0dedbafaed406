"""Settings of all tests; the shared checks say what differed, as the tests themselves do."""

import contextlib
import importlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.support")

# Tests compare what programs write to their standard error streams.
os.environ["AFTERSTATE_QUIET"] = "1"

# Tests interrupt programs. A shell that starts them in the background lets them ignore that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# `make slow` and `make fuzz` try other examples each time, by `--hypothesis-profile`.
with contextlib.suppress(ImportError):
    from hypothesis import HealthCheck, settings

    slow: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
    settings.register_profile("same", derandomize=True, max_examples=50, **slow)
    settings.register_profile("random", max_examples=1_000, print_blob=True, **slow)
    settings.register_profile("fuzz", settings.get_profile("random"), max_examples=10_000)
    settings.load_profile("same")

FIRST = {
    "gw0": [
        "envs.daihinmin.env",
        "envs.daihinmin.records.validity",
        "agents.daihinmin.search.monte_carlo",
        "agents.daihinmin.learning.policy_gradient",
    ],
    "gw1": [
        *(f"agents.game2048.search.{name}" for name in ("mc_softmax", "alphabeta", "exact")),
        "envs.game2048.batch",
        "envs.daihinmin.vector_env",
        "agents.daihinmin.rule_based.players",
        "agents.daihinmin.learning.self_play",
    ],
}
"""What workers import before they collect tests: in one order both would compile all kernels."""

with contextlib.suppress(ImportError):  # of torch, which the last one needs
    for module in FIRST.get(os.environ.get("PYTEST_XDIST_WORKER", ""), []):
        importlib.import_module(f"afterstate.{module}")


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """Handlers of signals that a command sets at its end are for its process, not for others."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_the_disk() -> Iterator[None]:
    """Synced writes would take most of the time of many tests; those of power losses count them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch in one thread: small networks gain nothing by more."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The figures by the names of their files, which are made, but empty."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    saved: dict[str, Any] = {}

    def save(figure: Figure, path: Path, **_: Any) -> None:
        path.touch()
        saved[path.name] = figure

    monkeypatch.setattr(Figure, "savefig", save)
    return saved

"""Before any test imports numba, its cache is set so that no edit of a kernel is missed.

The shared checks say what differed, as the tests themselves do.
"""

from collections.abc import Iterator

import fresh_kernels  # noqa: F401
import pytest

pytest.register_assert_rewrite("env_checks", "daihinmin_env_checks")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch in one thread: small networks gain nothing by more."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)

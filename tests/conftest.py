"""Before any test imports numba, its cache is set so that no edit of a kernel is missed.

The shared checks say what differed, as the tests themselves do.
"""

import fresh_kernels  # noqa: F401
import pytest

pytest.register_assert_rewrite("env_checks", "daihinmin_env_checks")

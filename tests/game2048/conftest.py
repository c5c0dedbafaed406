"""The shared checks say what differed, as the tests themselves do."""

import pytest

pytest.register_assert_rewrite("env_checks")

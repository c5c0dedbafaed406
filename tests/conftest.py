"""Before any test imports numba, its cache is set so that no edit of a kernel is missed."""

import fresh_kernels  # noqa: F401

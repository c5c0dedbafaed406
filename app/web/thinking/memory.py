"""The memory of processes: of the compiler, which they would keep, and its limit."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from numba.core.event import install_recorder


@contextmanager
def without_compiler(variable: str) -> Iterator[None]:
    """Start this process again after a block that has compiled kernels.

    The compiler leaves about 200 MiB that nothing uses. A process starts again once only, as what
    cannot be kept on disk is compiled each time.

    Args:
        variable: variable of the environment, set in a process that has started again.
    """
    with install_recorder("numba:compile") as compiled:
        yield
    if compiled.buffer and variable not in os.environ:
        os.environ[variable] = "1"
        os.execv(sys.executable, sys.orig_argv)


def limit_memory(n_bytes: int) -> None:
    """Limit the address space, if the system can, so that a request for more fails here."""
    import resource  # there is none on Windows

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = n_bytes if hard == resource.RLIM_INFINITY else min(n_bytes, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))

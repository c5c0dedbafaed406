"""Processes that start again after they have compiled kernels, whose memory they would keep."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from numba.core.event import install_recorder


@contextmanager
def without_compiler(variable: str) -> Iterator[None]:
    """Start this process again after a block that has compiled kernels.

    The compiler leaves about 200 MiB that nothing uses. A process starts again once only, as what
    cannot be kept on disk is compiled each time.

    Args:
        variable: of the environment, set in a process that has started again.
    """
    with install_recorder("numba:compile") as compiled:
        yield
    if compiled.buffer and variable not in os.environ:
        os.environ[variable] = "1"
        os.execv(sys.executable, sys.orig_argv)

"""Jobs of joblib whose processes end when the process that started them has ended.

Worker processes wait for work, and one that has lost its parent, by a kill, would wait for ever.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

SECONDS = 1.0
"""Time from one look at the parent to the next."""

_watched: list[int] = []


def delayed(function: Callable[..., Any]) -> Any:
    """Return joblib's `delayed` of a function whose process ends with the present one."""
    import joblib

    return joblib.delayed(partial(_call, function, os.getpid()))


def _call(function: Callable[..., Any], starter: int, *args: Any, **kwargs: Any) -> Any:
    """Call a function, in a process that watches its parent if that has started the job."""
    if os.getppid() == starter and not _watched:
        _watched.append(starter)
        threading.Thread(target=_end_with, args=(starter,), daemon=True).start()
    return function(*args, **kwargs)


def _end_with(parent: int) -> None:
    """End this process when it has another parent."""
    while os.getppid() == parent:
        time.sleep(SECONDS)
    os._exit(1)

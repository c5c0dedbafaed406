"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """The processor, the system and the versions of what matters for speed."""
    cpu = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text().splitlines()
        cpu = next((ln.split(":")[1].strip() for ln in lines if ln.startswith("model name")), cpu)
    packages = ("afterstate", "numba", "numpy", "gymnasium", "torch")
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        **{name: version(name) for name in packages if find_spec(name)},
    }

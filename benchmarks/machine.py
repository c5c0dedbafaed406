"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def has_bfloat16() -> bool:
    """Whether the processor calculates with 16 bits; others take far longer than with 32."""
    return bool({"avx512_bf16", "amx_bf16", "bf16"} & set(_told("flags", "Features").split()))


def machine() -> dict[str, Any]:
    """The processor, the system and the versions of what matters for speed."""
    packages = ("afterstate", "numba", "numpy", "gymnasium", "torch")
    return {
        "cpu": _told("model name") or platform.processor(),
        "bfloat16": has_bfloat16(),
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        **{name: version(name) for name in packages if find_spec(name)},
    }


def _told(*names: str) -> str:
    """What Linux tells of the first processor under one of the names."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((ln.split(":")[1].strip() for ln in lines if ln.startswith(names)), "")

"""The machine and versions that a measurement was made with."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def has_bfloat16() -> bool:
    """Return True if the processor has bfloat16 instructions; others are far slower with it."""
    return bool({"avx512_bf16", "amx_bf16", "bf16"} & set(_cpu_info("flags", "Features").split()))


def machine() -> dict[str, Any]:
    """Return the processor, the system and the versions of the packages that affect speed."""
    packages = ("afterstate", "numba", "numpy", "gymnasium", "torch")
    return {
        "cpu": _processor(),
        "bfloat16": has_bfloat16(),
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        **{name: version(name) for name in packages if find_spec(name)},
    }


def _processor() -> str:
    """Return the processor's name, with family and model, because clouds hide the rest of it."""
    family, model = _cpu_info("cpu family"), _cpu_info("model")
    name = _cpu_info("model name") or platform.processor()
    return f"{name} (family {family}, model {model})" if family and model else name


def _cpu_info(*names: str) -> str:
    """Return the first field of /proc/cpuinfo with one of the names; empty if there is none."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    fields = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in fields if name.strip() in names), "")

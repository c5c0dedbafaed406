"""Readers with faults, which the driver must find."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.fuzz.driver import Target


def _raise(path: Path) -> None:
    if path.read_bytes() != b"sample":
        raise KeyError("kind")


def _allocate(path: Path) -> None:
    if path.read_bytes() != b"sample":
        bytearray(1 << 32)


def _sleep(path: Path) -> None:
    if path.read_bytes() != b"sample":
        time.sleep(600)


def _die(path: Path) -> None:
    if path.read_bytes() != b"sample":
        os.abort()


def _refuse(path: Path) -> None:
    if path.read_bytes() != b"sample":
        raise ValueError(f"{path} is damaged")


READERS = {"raise": _raise, "allocate": _allocate, "sleep": _sleep, "die": _die, "refuse": _refuse}
TARGETS = {
    name: Target(name, "file", lambda _: [b"sample"], reader) for name, reader in READERS.items()
}

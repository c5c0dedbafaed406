"""The answers to requests: JSON, or a refusal."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
"""An object of JSON."""


class Refusal(Exception):
    """A request that is refused, with the status of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

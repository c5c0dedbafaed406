"""Limits of the page, for one visitor and for all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits on what visitors may use."""

    fast: int = 2
    """Searches that run at the same time in fast places."""
    slow: int = 4
    """Searches that run at the same time in slow places."""
    waiting: int = 100
    """Searches that run or wait, of all visitors."""
    seconds: float = 10.0
    """Time of a search, in seconds."""
    learners: int = 1
    """Networks that learn or wait for their visitor at the same time, of up to 770 MiB each."""
    learn_seconds: float = 300.0
    """Time that a network may learn, in seconds."""
    idle_seconds: float = 60.0
    """Time after which a network that nobody uses makes room for another, in seconds."""
    visitors: int = 500
    """Visitors whose games are kept; the least recently seen is dropped for a new one."""
    visitors_of_address: int = 200
    """Visitors of one address, of whom the least recently seen is dropped for a new one; at most
    half of all, so that one address does not drop all others."""
    days: float = 30.0
    """Days after its last visit in which a browser keeps the cookie that leads to its games."""
    requests_per_second: float = 50.0
    """Requests of a visitor, and of an address that has no games yet; more are refused."""
    burst: int = 200
    """Requests that may come at once."""
    body: int = 1 << 18
    """Bytes of a request's body."""
    file: int = 1 << 19
    """Bytes of a visitor's file."""

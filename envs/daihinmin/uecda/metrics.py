"""Counts of a server's connections, answers, games and matches, for its file of events."""

from __future__ import annotations

from collections import Counter
from typing import Any


class Metrics:
    """Counts since the start of a server."""

    def __init__(self) -> None:
        self.accepted = 0
        """Number of clients that got a seat."""
        self.refused: Counter[str] = Counter()
        """Numbers of connections that got none, by reason."""
        self.dropped = 0
        """Number of clients that lost their seat."""
        self.games = 0
        self.matches = 0
        self._answers = 0
        self._total_seconds = 0.0
        self._longest_seconds = 0.0

    def answered(self, seconds: float) -> None:
        """Count an answer of a client and its time, or the time that a client waited in vain."""
        self._answers += 1
        self._total_seconds += seconds
        self._longest_seconds = max(self._longest_seconds, seconds)

    def facts(self) -> dict[str, Any]:
        """Return all counts for the file of events; times of answers are in milliseconds."""
        mean = self._total_seconds / max(self._answers, 1)
        return {
            "accepted": self.accepted,
            "refused": dict(self.refused),
            "dropped": self.dropped,
            "answers": self._answers,
            "mean_answer_ms": round(1000 * mean, 3),
            "longest_answer_ms": round(1000 * self._longest_seconds, 3),
            "games": self.games,
            "matches": self.matches,
        }

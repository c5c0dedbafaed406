"""Tables as text, in Markdown or for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, with the first column left-aligned and the others right."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a table for a terminal, with the first columns left-aligned and the others right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def cell(i: int, text: str) -> str:
        return text.ljust(widths[i]) if i < left else text.rjust(widths[i])

    lines = [head, ["-" * len(name) for name in head], *rows]
    return "\n".join("  ".join(map(cell, range(len(head)), line)).rstrip() for line in lines)

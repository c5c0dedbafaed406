"""Run the code of a page of the documentation, block after block, in the current folder.

    python run_page.py PAGE.md

- `python` blocks share one namespace, as in one script.
- A block with a title, such as ```python title="mine.py"```, is written to that file.
- `sh` blocks run in bash and must not fail. Those with `{.checkout}` see the folders `benchmarks`
  and `examples` of a checkout.
- A `text` block right below a block shows what it prints; `...` stands for any text. With
  `{.like}` numbers may be others, where they depend on the machine or on a library's version.
- Blocks with `{.skip}` are left out.
"""

from __future__ import annotations

import doctest
import io
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
KINDS = ("json", "python", "sh", "text")
"""The languages of blocks."""
MARKS = ("checkout", "like", "skip")
"""The marks of blocks."""
CHECKOUT = ("benchmarks", "examples")
"""Folders that only a checkout has."""

_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of code of a page."""

    kind: str
    marks: tuple[str, ...]
    title: str
    """Name of the file that it is written to, or an empty text."""
    code: str
    line: int
    """Line of the page on which the code begins."""
    shown: str | None
    """The output that the page shows below it."""
    like: bool
    """True if the numbers of the output may be others."""


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a page, in order."""
    matches = list(_BLOCK.finditer(text))
    for match, following in zip_longest(matches, matches[1:]):
        kind, info, code = match.groups()
        title = re.search(r'title="([^"]+)"', info)
        line = text.count("\n", 0, match.start(3)) + 1
        shown, like = None, False
        if following is not None and following[1] == "text":
            shown = following[3] if not text[match.end() : following.start()].strip() else None
            like = ".like" in following[2]
        marks = tuple(re.findall(r"\.(\w+)", info.partition("title=")[0]))
        yield Block(kind, marks, title[1] if title else "", code, line, shown, like)


def run(page: Path) -> None:
    """Run the blocks of a page.

    Raises:
        AssertionError: a block prints something else than the page shows, or a command fails.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        if "skip" in block.marks or block.kind == "text":
            continue
        if block.title:
            Path(block.title).write_text(block.code, encoding="utf-8")
            continue
        where = f"{page.name}:{block.line}"
        printed = ""
        if block.kind == "python":
            printed = _run_python(block, page, namespace)
        elif block.kind == "sh":
            printed = _run_shell(block, where)
        if block.shown is not None:
            _compare(block.shown, printed, block.like, where)


def _run_python(block: Block, page: Path, namespace: dict[str, Any]) -> str:
    """Return what a block prints; tracebacks name its lines on the page."""
    source = "\n" * (block.line - 1) + block.code
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(source, str(page), "exec"), namespace)
    return printed.getvalue()


def _run_shell(block: Block, where: str) -> str:
    """Return what the commands of a block print."""
    links = [Path(name) for name in CHECKOUT if "checkout" in block.marks]
    for link in links:
        link.symlink_to(ROOT / link)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shell = ["bash", "-e", "-c", block.code]
    done = subprocess.run(shell, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    for link in links:
        link.unlink()
    if done.returncode != 0:
        raise AssertionError(f"{where} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _compare(shown: str, printed: str, like: bool, where: str) -> None:
    """Raise AssertionError unless a block prints what the page shows."""
    want, got = ("\n".join(map(str.rstrip, text.splitlines())) + "\n" for text in (shown, printed))
    number = re.compile(r"-?[ \d]*\d[\d,.]*" if like else "(?!)")
    same = number.sub(" 0 ", want), number.sub(" 0 ", got)
    if not doctest.OutputChecker().check_output(same[0], same[1], doctest.ELLIPSIS):
        raise AssertionError(f"{where} printed\n{got}and the page shows\n{want}")


if __name__ == "__main__":
    sys.path.insert(0, "")  # files that a page writes can be imported
    warnings.simplefilter("error")
    run(Path(sys.argv[1]))

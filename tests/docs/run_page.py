"""Run the code of a page of the documentation, block after block, in the current folder.

    python run_page.py PAGE.md

- `python` blocks share one namespace, as in one script.
- A block with a title, such as ```python title="mine.py"```, is written to that file.
- `sh` blocks run in bash, without input, and must not fail. Those with `{.checkout}` see the
  folders `benchmarks` and `examples` of a checkout. Those with `{.fails}` must fail, and their
  errors are compared as well. Those with `{.serves}` have one command, which goes on beside the
  following blocks and is interrupted at the next block of this kind or at the page's end.
- A `text` block right below a block shows what it prints; `...` stands for any text. With
  `{.like}` numbers may be others, where they depend on the machine or on a library's version.
- Blocks with `{.skip data-reason="..."}` are left out for this reason.
"""

from __future__ import annotations

import doctest
import io
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
KINDS = ("json", "python", "sh", "text")
"""The languages of blocks."""
MARKS = ("checkout", "fails", "like", "serves", "skip")
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
    reason: str
    """Why the block is left out, or an empty text."""


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a page, in order."""
    matches = list(_BLOCK.finditer(text))
    for match, following in zip_longest(matches, matches[1:]):
        kind, info, code = match.groups()
        title = re.search(r'title="([^"]+)"', info)
        reason = re.search(r'data-reason="([^"]+)"', info)
        line = text.count("\n", 0, match.start(3)) + 1
        shown, like = None, False
        if following is not None and following[1] == "text":
            shown = following[3] if not text[match.end() : following.start()].strip() else None
            like = ".like" in following[2]
        marks = tuple(re.findall(r"\.(\w+)", re.sub(r'"[^"]*"', "", info)))
        names = (found[1] if found else "" for found in (title, reason))
        yield Block(kind, marks, next(names), code, line, shown, like, next(names))


def run(page: Path) -> None:
    """Run the blocks of a page.

    Raises:
        AssertionError: a block prints something else than the page shows, or a command fails.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with ExitStack() as server:
        for block in blocks(page.read_text(encoding="utf-8")):
            where = f"{page.name}:{block.line}"
            if "skip" in block.marks or block.kind == "text":
                continue
            if block.title:
                Path(block.title).write_text(block.code, encoding="utf-8")
            elif "serves" in block.marks:
                server.close()
                server.enter_context(_serving(block, where))
            else:
                printed = _printed(block, page, where, namespace)
                if block.shown is not None:
                    _compare(block.shown, printed, block.like, where)


def _printed(block: Block, page: Path, where: str, namespace: dict[str, Any]) -> str:
    """Return what a block prints."""
    if block.kind == "python":
        return _run_python(block, page, namespace)
    return _run_shell(block, where) if block.kind == "sh" else ""


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
    fails = "fails" in block.marks
    started = _start(block.code, subprocess.STDOUT if fails else subprocess.PIPE)
    printed, errors = started.communicate()
    for link in links:
        link.unlink()
    if bool(started.returncode) != fails:
        raise AssertionError(f"{where} ended with {started.returncode}:\n{printed}{errors}")
    return printed


@contextmanager
def _serving(block: Block, where: str) -> Iterator[None]:
    """Keep the command of a block running, from the first line that it prints."""
    server = _start(block.code, subprocess.STDOUT)
    assert server.stdout is not None
    try:
        printed = server.stdout.readline()
        yield
    finally:
        server.send_signal(signal.SIGINT)
        printed += server.communicate()[0]
    if server.returncode not in (0, 130):
        raise AssertionError(f"{where} ended with {server.returncode}:\n{printed}")


def _start(code: str, stderr: int) -> subprocess.Popen[str]:
    """Start commands that find this Python's programs, and keep their files in this folder."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PATH": path, "HOME": os.getcwd(), "BROWSER": "true"}
    return subprocess.Popen(
        ["bash", "-e", "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=env,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in jobs
    )


def _compare(shown: str, printed: str, like: bool, where: str) -> None:
    """Raise AssertionError unless a block prints what the page shows."""
    want, got = ("\n".join(map(str.rstrip, text.splitlines())) + "\n" for text in (shown, printed))
    number = re.compile(r"-?[ \d]*\d[\d,.]*" if like else "(?!)")
    same = number.sub(" 0 ", want), number.sub(" 0 ", got)
    flags = doctest.ELLIPSIS | (doctest.NORMALIZE_WHITESPACE if like else 0)
    if not doctest.OutputChecker().check_output(same[0], same[1], flags):
        raise AssertionError(f"{where} printed\n{got}and the page shows\n{want}")


if __name__ == "__main__":
    sys.path.insert(0, "")  # files that a page writes can be imported
    warnings.simplefilter("error")
    run(Path(sys.argv[1]))

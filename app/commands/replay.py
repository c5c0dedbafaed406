"""`afterstate replay`: a check of recorded games against the rules."""

from __future__ import annotations

import sys
from pathlib import Path

from afterstate.commands.options import Replay
from afterstate.envs.daihinmin.records.replay import replay


def run(options: Replay) -> int:
    """Replay files; return 1 if there is a mismatch or a file cannot be read.

    Raises:
        ValueError: there is no file.
    """
    if not options.files:
        raise ValueError("files must be at least one")
    return int(not all([_is_right(file) for file in options.files]))


def _is_right(file: Path) -> bool:
    """Replay a file and print the result; return True if all is by the rules."""
    try:
        report = replay(file)
    except OSError as error:
        print(f"{file}: {error}", file=sys.stderr)
        return False
    if report.damaged:
        more = f" (the first of {report.damaged:,} damaged lines)" if report.damaged > 1 else ""
        print(f"{report.damage}{more}", file=sys.stderr)
    if report.games + report.positions:
        counts = [f"{n:,} {name}" for name, n in zip(report._fields[:4], report[:4], strict=True)]
        print(f"{file}: {', '.join(counts)}")
    elif not report.damaged:
        print(f"{file}: there is nothing to replay", file=sys.stderr)
        return False
    if report.first:
        print(f"{file}: first mismatch: {report.first}")
    return not report.first and not report.damaged

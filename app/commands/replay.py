"""`afterstate replay`: a check of recorded games against the rules."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from afterstate.commands.options import Replay
from afterstate.envs.daihinmin.records.replay import Report, replay
from afterstate.envs.durable_files import open_to_read


def run(options: Replay) -> int:
    """Replay files; return 1 if there is a mismatch or a file cannot be read.

    Raises:
        OSError: there is no such file.
        ValueError: no file is given, or not one of a disk.
    """
    if not options.files:
        raise ValueError("files must be at least one, got none")
    for file in options.files:
        open_to_read(file).close()
    reports = [_report(file, quiet=options.json) for file in options.files]
    if options.json:
        print(json.dumps(list(map(_row, options.files, reports)), indent=1))
    return int(not all(map(_is_right, reports)))


def _report(file: Path, quiet: bool) -> Report:
    """Replay a file and print the result, or only what is wrong with the file."""
    try:
        report = replay(file)
    except OSError as error:
        report = Report(damaged=1, damage=f"{file}: {error.strerror or error}")
    if report.damage:
        more = f" (the first of {report.damaged:,} damaged lines)" if report.damaged > 1 else ""
        print(f"{report.damage}{more}", file=sys.stderr)
    elif not report.games + report.positions:
        print(f"{file}: there is nothing to replay", file=sys.stderr)
    if report.games + report.positions and not quiet:
        counts = [f"{n:,} {name}" for name, n in zip(report._fields[:4], report[:4], strict=True)]
        print(f"{file}: {', '.join(counts)}")
    if report.first and not quiet:
        print(f"{file}: first mismatch: {report.first}")
    return report


def _row(file: Path, report: Report) -> dict[str, Any]:
    """Return a result as JSON."""
    return {"file": str(file), **report._asdict(), "ok": _is_right(report)}


def _is_right(report: Report) -> bool:
    """Return True if a file has games or positions, and all is readable and by the rules."""
    return bool(report.games + report.positions) and not report.first and not report.damaged

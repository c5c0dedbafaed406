"""The leaderboard's command without what it imports: see `command.py`."""

import sys
from collections.abc import Sequence
from typing import Any

from afterstate.__main__ import parse_options
from afterstate.envs.commands import run_process


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Raises:
        ImportError: the extra of the leaderboard is not installed.
    """
    return run(parse_options("leaderboard", sys.argv[1:] if arguments is None else arguments))


def run(args: Any) -> int:
    """Run a sub-command and return the exit code: see `main`."""
    from afterstate.leaderboard import command

    return command.run(args)


if __name__ == "__main__":
    sys.exit(run_process(main))

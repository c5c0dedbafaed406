"""Run the leaderboard's command: see `command.py`."""

import sys

from afterstate.envs.commands import exit_code

try:
    from afterstate.leaderboard.command import main
except ModuleNotFoundError as error:
    raise ImportError(
        f'the leaderboard needs {error.name}: pip install "afterstate[examples]"'
    ) from error

if __name__ == "__main__":
    sys.exit(exit_code(main))

"""Runs the leaderboard's command: see `command.py`."""

from benchmarks.leaderboard.command import main

main()

"""Run the leaderboard's command: see `command.py`."""

try:
    from afterstate.leaderboard.command import main
except ModuleNotFoundError as error:
    raise SystemExit(
        f'the leaderboard needs {error.name}: pip install "afterstate[examples]"'
    ) from error

if __name__ == "__main__":
    main()

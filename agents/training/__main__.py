"""The command that trains the learners of both games.

    afterstate train LEARNER [SETTINGS] --out RUN --hours 1
    afterstate train ntuple --out runs/mine --moves 1e9 --learner.restart 10
    afterstate train ntuple --out runs/mine --moves 2e9 --resume

A settings file is a JSON object with any of the settings that
`afterstate train LEARNER --help` lists; options of the command line override
it. `folder.py` describes the folder of a run. `--resume` continues an interrupted run with the
settings in its folder; a file or options replace them where the learner allows it, and the command
prints what they change.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from afterstate.agents.config import read
from afterstate.agents.training.folder import SETTINGS_FILE
from afterstate.agents.training.learners import LEARNERS, run, run_settings
from afterstate.agents.training.options import Options
from afterstate.agents.training.run import Diverged, RunSettings
from afterstate.envs import commands
from afterstate.envs.messages import named
from afterstate.envs.options import POSITIONAL, File, build

PROGRAM = "afterstate train"


def parse(arguments: Sequence[str]) -> tuple[RunSettings, Options]:
    """Return the settings and the options of a command line.

    Without a settings file, a run that is resumed has the settings in its folder.

    Raises:
        OSError: the settings file cannot be read.
        ValueError: an unknown learner, or wrong settings.
        ImportError: an extra is not installed.
        SystemExit: the command line is wrong or asks for help.
    """
    if arguments and arguments[0] in ("-h", "--help"):
        print(_usage())
        raise SystemExit(0)
    if not arguments or arguments[0] not in LEARNERS:
        commands.fail_unknown(arguments, LEARNERS, PROGRAM)
    learner, rest = arguments[0], arguments[1:]
    kind, program = run_settings(learner), f"{PROGRAM} {learner}"
    values = commands.read(parts_of(learner), program, rest, _description(learner))
    with commands.failing(program):
        file, options = build(SettingsFile, values).settings, build(kind.options, values)
    settings = _base_settings(learner, file, options)
    with commands.failing(program):
        return build(kind, values, settings), options


def _base_settings(learner: str, file: Path | None, options: Options) -> RunSettings:
    """Return the settings before those of the command line: of a file, the run, or the defaults.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has no such settings.
    """
    kind = run_settings(learner)
    if file is not None:
        settings: RunSettings = read(file, kind)
        return settings
    if options.resume and (options.out / SETTINGS_FILE).exists():
        return _settings_in(options.out, kind, learner)
    settings = kind()
    return settings


def _settings_in(folder: Path, kind: Any, learner: str) -> RunSettings:
    """Return the settings in the folder of a learner's run.

    Raises:
        OSError: they cannot be read.
        ValueError: they are those of other learners, or wrong.
    """
    with named(f"{folder} must be the folder of a run of {learner}"):
        try:
            settings: RunSettings = read(folder / SETTINGS_FILE, kind)
        except ValueError as error:
            fitting = [name for name in LEARNERS if _is_of_learner(folder / SETTINGS_FILE, name)]
            if fitting:
                raise ValueError(f"it is one of {' or '.join(fitting)}") from error
            raise
    return settings


def _is_of_learner(file: Path, learner: str) -> bool:
    """Return True if a file has settings of a learner."""
    try:
        read(file, run_settings(learner))
    except (OSError, ValueError, ImportError):
        return False
    return True


@dataclass(frozen=True)
class SettingsFile:
    """Argument of a learner that has no name."""

    settings: Annotated[File | None, POSITIONAL] = None
    """JSON file with any of the settings; options override it."""


def parts_of(learner: str) -> list[commands.Part]:
    """Return what the words of a learner are read into: its file, options and settings."""
    kind = run_settings(learner)
    parts = [commands.Part(SettingsFile), commands.Part(kind.options)]
    return [*parts, commands.Part(kind, kind())]


def _description(learner: str) -> str:
    """Return the text of the help before the options."""
    first = LEARNERS[learner].description
    example = f"Example: {PROGRAM} {learner} settings.json --out RUN --hours 1"
    return f"{first[0].upper()}{first[1:]}.\n\n{example}"


def _usage() -> str:
    """Return the usage of the command."""
    learners = {name: each.description for name, each in LEARNERS.items()}
    return commands.usage_of(PROGRAM, learners, "LEARNER")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    words = sys.argv[1:] if arguments is None else arguments
    settings, options = parse(words)
    try:
        with commands.naming_options(parts_of(words[0])):
            run(settings, options)
    except Diverged as error:
        commands.fail(error, 1)


if __name__ == "__main__":
    sys.exit(commands.run_process(main))

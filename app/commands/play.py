"""`afterstate play`: a person plays."""

from __future__ import annotations

from afterstate.commands.options import Play2048, PlayDaihinmin


def run(options: Play2048 | PlayDaihinmin) -> int:
    """Let a person play a game."""
    if isinstance(options, Play2048):
        from afterstate.commands import play_2048

        return play_2048.run(options)
    from afterstate.commands import play_daihinmin

    return play_daihinmin.run(options)

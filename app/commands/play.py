"""`afterstate play`: a person plays."""

from __future__ import annotations

from afterstate.commands.options import Play2048, PlayDaihinmin
from afterstate.commands.players import check_players, fill_seats
from afterstate.envs.checks import check_count
from afterstate.envs.daihinmin.uecda.settings import N_SEATS
from afterstate.envs.messages import named


def run(options: Play2048 | PlayDaihinmin) -> None:
    """Let a person play a game.

    Raises:
        OSError, ValueError, ImportError: a wrong option, or a player that is not found.
    """
    if isinstance(options, Play2048):
        _play_2048(options)
    else:
        _play_daihinmin(options)


def _play_2048(options: Play2048) -> None:
    """Check the options, and let a person play 2048."""
    for name in ("rows", "cols"):
        if not 1 <= getattr(options, name) <= 4:
            raise ValueError(f"{name} must be in 1..4, got {getattr(options, name)}")
    with named("hints"):
        check_players([options.hints], "2048")
    from afterstate.commands import play_2048

    play_2048.run(options)


def _play_daihinmin(options: PlayDaihinmin) -> None:
    """Check the options, and let a person play Daihinmin."""
    check_count("games", options.games)
    with named("opponents"):
        check_players(fill_seats(options.opponents, N_SEATS - 1), "daihinmin")
    with named("hints"):
        check_players([options.hints], "daihinmin")
    from afterstate.commands import play_daihinmin

    play_daihinmin.run(options)

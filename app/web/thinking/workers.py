"""The processes in which players think: what they load, and the requests that they answer.

The module is imported once, by the server of `multiprocessing` from which all these processes are
forked: they share its memory, in which the default players are loaded. Requests and answers are
JSON.
"""

from __future__ import annotations

import json
import signal
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import Any

from afterstate import agents
from afterstate.agents.game2048.players import BY_NTUPLE_NETWORK, pretrained
from afterstate.envs.daihinmin.rules import N_PLAYERS
from afterstate.web import choices, game_2048, game_daihinmin
from afterstate.web.answers import Json
from afterstate.web.thinking import analysis
from afterstate.web.thinking.memory import limit_memory

MEMORY_WITH_TORCH = 32 << 30
"""Address space of a process that loads torch, whose builds for GPUs map many libraries."""
_START = [1, 1, *[0] * 14]


@lru_cache(maxsize=8)
def _player(spec: str, seed: int | None) -> Any:
    """Return the player of a JSON text."""
    name, settings = (json.loads(spec)[key] for key in ("name", "settings"))
    choice = choices.find("daihinmin" if name.startswith("daihinmin-") else "2048", name)
    if seed is not None and agents.takes_seed(choice.made):
        settings["seed"] = seed
    if choice.made in BY_NTUPLE_NETWORK:
        settings["network"] = pretrained()
    return agents.make(choice.made, **choice.fixed, **settings)


def player(spec: Json, seed: int | None = None) -> Any:
    """Return a player, one that was made before if there is one.

    Raises:
        ImportError: the player needs an extra that is not installed.
    """
    return _player(json.dumps(spec, sort_keys=True), seed)


def answer(request: Json) -> Json:
    """Return the answer to a request; an error has the key `error`."""
    try:
        result: Json = _ANSWERS[request["kind"]](request)
    except (ImportError, ValueError, OSError, MemoryError, RuntimeError) as error:  # of torch
        return {"error": str(error) or "out of memory"}
    return result


def _load(request: Json) -> Json:
    """Make the player of a request, which needs torch, and compile its kernels."""
    limit_memory(MEMORY_WITH_TORCH)
    made = player(request["player"], request.get("seed"))
    if "view" in request:
        analysis.hint_daihinmin(made, game_daihinmin.decode(request["view"]))
    else:
        _choose_first(made)
    return {}


def _hint(request: Json) -> Json:
    """Answer a request for a hint in 2048."""
    return analysis.hint(player(request["player"]), request["board"], request["detail"])


def _play(request: Json) -> Json:
    """Answer a request for moves of 2048."""
    if request["fresh"]:
        _player.cache_clear()  # so that players that choose by chance begin with their seed
    return analysis.play(player(request["player"], request["seed"]), request)


def _move(request: Json) -> Json:
    """Answer a request for a play or a gift in Daihinmin."""
    seen = game_daihinmin.decode(request["view"])
    mover = player(request["player"], request["seed"])
    n = int(seen["to_give"])
    return {"gift": int(mover.give(seen, n))} if n else {"play": int(mover.choose(seen))}


def _hint_daihinmin(request: Json) -> Json:
    """Answer a request for a hint in Daihinmin."""
    seen = game_daihinmin.decode(request["view"])
    return analysis.hint_daihinmin(player(request["player"], request["seed"]), seen)


def _steps(request: Json) -> Json:
    """Answer a request for the last game of a match step by step."""
    return game_daihinmin.steps(game_daihinmin.Match(**request["match"]))


def _recorded(request: Json) -> Json:
    """Answer a request for a recorded game step by step."""
    return game_daihinmin.recorded_steps(request["game"])


_ANSWERS: dict[str, Any] = {
    "load": _load,
    "hint": _hint,
    "play": _play,
    "move": _move,
    "hint_daihinmin": _hint_daihinmin,
    "steps": _steps,
    "recorded": _recorded,
}


def work(connection: Connection) -> None:
    """Answer requests until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            request = connection.recv_bytes()
            connection.send_bytes(json.dumps(answer(json.loads(request))).encode())
        except (EOFError, ConnectionError):  # the server has ended
            return


def warm_up() -> None:
    """Load the players that do not need torch, and their kernels."""
    for each in choices.CHOICES["2048"]:
        if not each.needs_torch:
            _choose_first(player(choices.player_spec("2048", each.name, {})))
    specs: list[Json | None] = [
        choices.player_spec("daihinmin", each.name, {})
        for each in choices.CHOICES["daihinmin"]
        if not each.needs_torch
    ]
    match = game_daihinmin.new([*specs, *specs][:N_PLAYERS], 1, 2)
    _play_out(match)
    game_daihinmin.begin_next(match)  # with an exchange
    _play_out(match)
    _player.cache_clear()


def _choose_first(mover: Any) -> None:
    """Let a player of 2048 give a hint and choose a move, which compiles its kernels."""
    analysis.hint(mover, _START, True)
    mover.act(game_2048.word_batch(_START))


def _play_out(match: game_daihinmin.Match) -> None:
    """Play a game to its end."""
    while (turn := game_daihinmin.in_turn(match)[0]) >= 0:
        seen = game_daihinmin.encode(game_daihinmin.view_in_turn(match))
        request = {"view": seen, "player": match.players[turn], "seed": 1}
        game_daihinmin.apply(match, _move(request))

"""Takes a trained neural network of 2048 into the package, and measures how it plays.

    python -m benchmarks.pretrained.nets runs/value/net.safetensors value --plies 1:1000 2:20
    python -m benchmarks.pretrained.nets runs/policy/k5/net.safetensors policy_5 --plies 1:1000

Weights are kept with 16 bits. `NAME.safetensors` in `agents/game2048` is the network, `NAME.json`
beside it says how it has learned, with its run's seed and what its play log is of, and how many
points it has in games from seed 0 on; with `--symmetric` also by the means of symmetric boards.
Both are put there when these games are played.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from afterstate import agents
from afterstate.agents import files, nets
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values import policy_net, value_net
from afterstate.agents.training.commands import whole_above_0
from afterstate.agents.training.run import summary
from benchmarks.machine import machine

PACKAGE = Path(__file__).parents[2] / "agents" / "game2048" / "pretrained"


class Place(NamedTuple):
    """What a name in the package stands for."""

    player: str  # of `agents.make`
    load: Callable[[Path], nn.Module]
    network: str
    settings: list[dict[str, Any]]  # those that the network may have


NAMES = {
    "value": Place(
        "value-net", value_net.load, "CNN22", [{"output": "identity"}, {"output": "relu"}]
    ),
    **{
        f"policy_{layers}": Place("policy-net", policy_net.load, "PolicyCNN", [{"layers": layers}])
        for layers in policy_net.PRETRAINED
    },
}


def check(about: dict[str, Any], name: str) -> None:
    """Raises a ValueError unless a network is one that a name stands for."""
    place = NAMES[name]
    if about["network"] != place.network or about["settings"] not in place.settings:
        wanted = " or ".join(map(str, place.settings))
        found = f"{about['network']} with {about['settings']}"
        raise ValueError(f"{name} is {place.network} with {wanted}, not {found}")


def provenance(run: Path) -> dict[str, Any]:
    """The seed of a run, and what the play log is of that it has learned from, if it has.

    Raises:
        OSError: a file cannot be read.
        ValueError: it is not JSON.
    """
    settings = read_json(run / "settings.json")
    found = {"seed": settings["seed"]}
    if settings["log"] is None:
        return found
    log = read_json(Path(settings["log"]).with_suffix(".json"))
    players = [{**each, "player": without_folders(each["player"])} for each in log["players"]]
    return {**found, "log": {**log, "players": players}}


def read_json(path: Path) -> Any:
    """What a JSON file holds."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error


def without_folders(player: str) -> str:
    """A player as a command line names it, whose files are named alone, wherever they are.

    >>> without_folders("expectimax,depth=2,network=/home/me/mine.npz")
    'expectimax,depth=2,network=mine.npz'
    """
    return re.sub(r"[^,=]*[/\\]", "", player)


Ways = dict[str, tuple[dict[str, Any], int]]
"""Ways to play by what they are called: settings of the player, and how many games."""


def ways(plies: dict[int, int], n_symmetric: int | None) -> Ways:
    """Greedy play and search, and greedy play by the means of all symmetric boards."""
    found: Ways = {f"{d}-ply": ({} if d == 1 else {"depth": d}, n) for d, n in plies.items()}
    if n_symmetric:
        found["1-ply, symmetric"] = {"symmetric": True}, n_symmetric
    return found


def measure(file: Path, player: str, ways: Ways) -> dict[str, Any]:
    """The summaries of games, by the way of play."""
    found = {}
    for name, (settings, n_games) in ways.items():
        found[name] = summary(play(agents.make(player, net=file, **settings), n_games))
        print(f"{file.stem}, {name}: {found[name]}")
    return found


def ship(net: Path, name: str, ways: Ways) -> None:
    """Puts a network of a run and what is known of it into the package.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: the network is not what the name stands for, or does not play so.
    """
    about, place = nets.metadata(net), NAMES[name]
    check(about, name)
    left_out = ("network", "settings", "log_about")  # the last as `provenance` has it
    facts = {key: fact for key, fact in about.items() if key not in left_out}
    facts |= provenance(net.parent)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.safetensors"
        nets.save(place.load(net), file, 16, **facts)
        told = {**nets.metadata(file), **measure(file, place.player, ways)}
        told |= {"bits": 16, "machine": machine()}
        files.write_bytes(PACKAGE / file.name, file.read_bytes())
    files.write_bytes(PACKAGE / f"{name}.json", (json.dumps(told, indent=1) + "\n").encode())


def games(text: str) -> tuple[int, int]:
    """`2:20` as a depth and a number of games."""
    found = re.fullmatch(f"([1-{value_net.MAX_DEPTH}]):([1-9][0-9]*)", text)
    if not found:
        told = f"1 to {value_net.MAX_DEPTH} and a number of games, such as 1:1000"
        raise argparse.ArgumentTypeError(f"it is {told}, not {text!r}")
    return int(found[1]), int(found[2])


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Takes a trained network into the package.")
    parser.add_argument("net", type=Path, help="net.safetensors of a run, in its folder")
    parser.add_argument("name", choices=list(NAMES), help="in the package")
    parser.add_argument(
        "--plies", nargs="+", type=games, default=[(1, 1000)], metavar="PLIES:GAMES"
    )
    parser.add_argument(
        "--symmetric", type=whole_above_0, metavar="GAMES", help="by the means of symmetric boards"
    )
    chosen = parser.parse_args(arguments)
    plies = dict(chosen.plies)
    if NAMES[chosen.name].player == "policy-net" and (set(plies) != {1} or chosen.symmetric):
        parser.error("a policy network does not search: --plies is 1:GAMES, without --symmetric")
    try:
        ship(chosen.net, chosen.name, ways(plies, chosen.symmetric))
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()

"""Add a trained neural network of 2048 to the package and measure its scores.

    python -m benchmarks.pretrained.nets runs/value/net.safetensors value --evaluate 1:1000,2:20
    python -m benchmarks.pretrained.nets runs/policy/k5/net.safetensors policy_5 --evaluate 1:1000

Weights are stored with 16 bits. `NAME.safetensors` in `agents/game2048/pretrained` is the network;
`NAME.json` has its training, with the seed of the run and the metadata of the play log, and its
scores in games from seed 0 on, with `--symmetric` also by the means of symmetric boards. Both files
are written when the games have been played.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from torch import nn

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.config import Count, settings
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values import policy_net, value_net
from afterstate.agents.training.evaluation import Evaluation, evaluation_games, summary
from afterstate.envs import durable_files, json_files
from afterstate.envs.commands import parse, run_process
from afterstate.leaderboard.machine import machine

PACKAGE = Path(__file__).parents[2] / "agents" / "game2048" / "pretrained"


class Place(NamedTuple):
    """The player, loader and settings of a pretrained network."""

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
    """Raise ValueError unless a network has the architecture and settings of its name."""
    place = NAMES[name]
    if about["network"] != place.network or about["settings"] not in place.settings:
        expected = " or ".join(map(str, place.settings))
        given = f"{about['network']} with {about['settings']}"
        raise ValueError(f"{name} must be {place.network} with {expected}, got {given}")


def provenance(run: Path) -> dict[str, Any]:
    """Return the seed of a run, and the metadata of the play log that it has learned from, if any.

    Raises:
        OSError: a file cannot be read.
        ValueError: it is not JSON.
    """
    options = json_files.read(run / "settings.json")
    facts = {"seed": options["seed"]}
    if options["log"] is None:
        return facts
    log = json_files.read(Path(options["log"]).with_suffix(".json"))
    players = [{**each, "player": without_folders(each["player"])} for each in log["players"]]
    return {**facts, "log": {**log, "players": players}}


def without_folders(player: str) -> str:
    """Return a player as on a command line, with the names of files without their folders.

    >>> without_folders("expectimax,depth=2,network=/home/me/mine.npz")
    'expectimax,depth=2,network=mine.npz'
    """
    return re.sub(r"[^,=]*[/\\]", "", player)


Games = dict[str, tuple[dict[str, Any], int]]
"""Games to play, by name: the settings of the player, and the number of games."""


def games(plies: dict[int, int], n_symmetric: int | None) -> Games:
    """Return the games of greedy play and search, and of the means of all symmetric boards."""
    planned: Games = {f"{d}-ply": ({} if d == 1 else {"depth": d}, n) for d, n in plies.items()}
    if n_symmetric:
        planned["1-ply, symmetric"] = {"symmetric": True}, n_symmetric
    return planned


def measure(file: Path, player: str, planned: Games) -> dict[str, Any]:
    """Play games and return their summaries by name."""
    results = {}
    for name, (options, n_games) in planned.items():
        results[name] = summary(play(agents.make(player, network=file, **options), n_games))
        print(f"{file.stem}, {name}: {results[name]}")
    return results


def publish(net: Path, name: str, planned: Games) -> None:
    """Write a network of a run and its metadata into the package.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: the network has another architecture than its name, or cannot play so.
    """
    about, place = nets.metadata(net), NAMES[name]
    check(about, name)
    left_out = ("network", "settings", "log_about")  # the last as `provenance` has it
    facts = {key: fact for key, fact in about.items() if key not in left_out}
    facts |= provenance(net.parent)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.safetensors"
        nets.save(place.load(net), file, 16, **facts)
        metadata = {**nets.metadata(file), **measure(file, place.player, planned)}
        metadata |= {"bits": 16, "machine": machine()}
        durable_files.write(PACKAGE / file.name, file.read_bytes())
    durable_files.write(PACKAGE / f"{name}.json", (json.dumps(metadata, indent=1) + "\n").encode())


@settings
class Args:
    """Add a trained network to the package."""

    net: Path
    """File net.safetensors in the folder of its run."""
    name: Literal["value", "policy_2", "policy_5"]
    """Name in the package."""
    evaluate: Evaluation = "1:1000"
    """Games of each search depth; a policy network has 1:GAMES only."""
    symmetric: Count | None = None
    """Games by the means of symmetric boards; not for a policy network."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.pretrained.nets", arguments)
    plies = evaluation_games(args.evaluate)
    if NAMES[args.name].player == "policy-net" and (set(plies) != {1} or args.symmetric):
        raise ValueError("evaluate must be 1:GAMES, without symmetric, for a policy network")
    if max(plies) > value_net.MAX_DEPTH:
        raise ValueError(f"evaluate must have at most {value_net.MAX_DEPTH} plies")
    publish(args.net, args.name, games(plies, args.symmetric))


if __name__ == "__main__":
    sys.exit(run_process(main))

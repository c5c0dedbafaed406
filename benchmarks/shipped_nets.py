"""Takes a trained neural network of 2048 into the package, and measures how it plays.

    python benchmarks/shipped_nets.py runs/value/net.safetensors value --plies 1:1000 2:20
    python benchmarks/shipped_nets.py runs/policy/k5/net.safetensors policy_5 --plies 1:1000

Weights are kept with 16 bits. `NAME.safetensors` in `agents/game2048` is the network, `NAME.json`
beside it says how it was trained, and how many points it has in games from seed 0 on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fresh_kernels  # noqa: F401 - first of all that uses numba
from machine import machine

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.game2048 import policy_net, value_net
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.runs import summary

PACKAGE = Path(__file__).parents[1] / "agents" / "game2048"
NAMES = {"value": value_net, "policy_2": policy_net, "policy_5": policy_net}


def measure(file: Path, plies: dict[int, int]) -> dict[str, Any]:
    """The summaries of games, by the way of play."""
    found = {}
    for depth, n_games in plies.items():
        depths = {} if depth == 1 else {"depth": depth}
        name = "value-net" if "unit" in nets.about(file) else "policy-net"
        found[f"{depth}-ply"] = summary(play(agents.make(name, net=file, **depths), n_games))
        print(f"{file.stem}, {depth}-ply: {found[f'{depth}-ply']}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Takes a trained network into the package.")
    parser.add_argument("net", type=Path, help="net.safetensors of a run")
    parser.add_argument("name", choices=list(NAMES), help="in the package")
    parser.add_argument("--plies", nargs="+", default=["1:1000"], metavar="PLIES:GAMES")
    chosen = parser.parse_args(arguments)
    about, file = nets.about(chosen.net), PACKAGE / f"{chosen.name}.safetensors"
    facts = {name: fact for name, fact in about.items() if name not in ("network", "settings")}
    nets.save(NAMES[chosen.name].load(chosen.net), file, 16, **facts)
    pairs = (pair.split(":") for pair in chosen.plies)
    played = measure(file, {int(depth): int(games) for depth, games in pairs})
    told = {**about, **played, "bits": 16, "machine": machine()}
    file.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

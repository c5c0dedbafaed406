"""The command `afterstate`: prints the version, the players and the environments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import afterstate
from afterstate import agents


def print_contents() -> None:
    """Print the names of the environments and of the players."""
    print("environments:", "Game2048-v0", "Daihinmin-v0", "daihinmin_v0 (PettingZoo)", sep="\n  ")
    print("players (afterstate.agents.make):", *agents.names(), sep="\n  ")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="afterstate", description="2048 and Daihinmin (UECda) for reinforcement learning."
    )
    parser.add_argument(
        "--version", action="version", version=f"afterstate {afterstate.__version__}"
    )
    parser.add_argument("--list", action="store_true", help="list environments and players")
    if parser.parse_args(arguments).list:
        print_contents()
    else:
        parser.print_help()


if __name__ == "__main__":
    main()

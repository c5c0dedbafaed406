"""The command `afterstate`: prints the version, the environments and the players."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import gymnasium as gym

import afterstate


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    version = f"afterstate {afterstate.__version__}"
    parser = argparse.ArgumentParser(
        prog="afterstate", description="List the environments and the players of afterstate."
    )
    parser.add_argument("--version", action="version", version=version)
    parser.parse_args(arguments)
    from afterstate import agents  # loads numba: not for --help and --version

    print(version, *_section("Environments of Gymnasium", _environments()), sep="\n")
    print(*_section("Environment of PettingZoo", ["afterstate.envs.daihinmin_v0"]), sep="\n")
    print(*_section("Players, for afterstate.agents.make", agents.names()), sep="\n")


def _environments() -> list[str]:
    """Return the ids that afterstate has registered with Gymnasium."""
    specs = gym.registry.values()
    return [spec.id for spec in specs if str(spec.entry_point).startswith("afterstate.")]


def _section(title: str, names: list[str]) -> list[str]:
    """Return a title and the names below it, as lines."""
    return ["", title, *(f"  {name}" for name in names)]


if __name__ == "__main__":
    main()

"""Score of the pretrained N-tuple network, with greedy play and with 3-ply search.

    python -m benchmarks.pretrained.ntuple
    python -m benchmarks.pretrained.ntuple --learn

Plays 4,000 greedy games and 200 by search, the same in every run, and writes the scores to
`agents/game2048/pretrained/ntuple.json`, where its training is described. With `--learn` a network
like it learns from nothing, by the commands in that file: in five hours of two cores, with 20 GB of
memory. The whole network is `out/joined/learner.npz` then, the pruned one `out/ntuple.npz`. The
same command goes on after an interruption; `out/ntuple.jsonl` has the seconds of each part, in a
row for each time that it was started.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from afterstate import agents
from afterstate.agents.config import Count, settings
from afterstate.agents.game2048 import players
from afterstate.agents.game2048.learning import pruning
from afterstate.agents.game2048.learning.ntuple_learner import play_evaluation
from afterstate.agents.game2048.learning.options import PruneOptions
from afterstate.agents.game2048.values.ntuple_file import load
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.agents.training import __main__ as training
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.messages import shown
from afterstate.leaderboard.machine import machine
from benchmarks.experiments.harness import check_defaults

METADATA = players.PRETRAINED.with_suffix(".json")
"""The file that describes the network."""


def network_of(player: str) -> Network:
    """Return the N-tuple network of a player, given by its name or file.

    Raises:
        ValueError: it has none.
    """
    network = getattr(agents.find(player), "network", None)
    if not isinstance(network, Network):
        raise ValueError(f"player must have an N-tuple network, got {shown(player)}")
    return network


@settings
class Args:
    """Measure the pretrained N-tuple network."""

    greedy: Count = 4_000
    """Games of greedy play."""
    search: Count = 200
    """Games of 3-ply search."""
    threads: Count = 2
    """Threads."""
    learn: bool = False
    """Learn a network like it instead."""


def _prune(words: Sequence[str]) -> None:
    """Run `afterstate prune` with the words after its name."""
    pruning.prune(parse(PruneOptions, "afterstate prune", words))


PROGRAMS: dict[str, Callable[[Sequence[str]], object]] = {
    "train": training.main,
    "prune": _prune,
}
"""The programs of the commands that make the network."""


def learn() -> None:
    """Run the commands of the network that have not ended yet, in the working directory.

    Raises:
        OSError: a file cannot be written.
        SystemExit: a command was interrupted or has failed.
    """
    rows = Path("out/ntuple.jsonl")
    rows.parent.mkdir(exist_ok=True)
    done = {row["command"] for row in json_files.rows(rows) if row["ended"]}
    for command in (each for each in commands() if each not in done):
        print(command, flush=True)
        start, ended = time.monotonic(), False
        _, name, *words = resumed(command)
        try:
            PROGRAMS[name](words)
            ended = True
        finally:
            row = {"command": command, "seconds": round(time.monotonic() - start), "ended": ended}
            json_files.append(rows, [{**row, "machine": machine()}])


def commands() -> list[str]:
    """Return the commands that make the network; the last one prunes it to `out/ntuple.npz`."""
    about = json_files.read(METADATA)
    package = "agents/game2048/pretrained/ntuple.npz"
    return [*about["training"], about["pruning"].replace(package, "out/ntuple.npz")]


def resumed(command: str) -> list[str]:
    """Return the words of a command, which goes on where it was interrupted."""
    words = shlex.split(command)
    if "--out" in words and "--resume" not in words:
        if (Path(words[words.index("--out") + 1]) / "learner.npz").exists():
            words.append("--resume")
    return words


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.pretrained.ntuple", arguments)
    if args.learn:
        check_defaults(args, ("greedy", "search", "threads"), "with --learn")
        learn()
        return
    plies = {1: args.greedy, 3: args.search}
    scores = play_evaluation(load(players.PRETRAINED), plies, args.threads)
    print(json.dumps(scores, indent=1))
    about = json_files.read(METADATA) | {"scores": scores, "measured_on": machine()}
    METADATA.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run_process(main))

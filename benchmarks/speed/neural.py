"""How fast the neural networks of 2048 judge, play and learn.

    python -m benchmarks.speed.neural --out benchmarks/results/speed_neural.txt
    python -m benchmarks.speed.neural --threads 2 --out benchmarks/results/speed_neural_2.txt
    python -m benchmarks.speed.neural --bits 32
    python -m benchmarks.speed.neural --device cuda

Networks are new, which costs the same as trained ones; positions are those of random games. 16 bits
are for processors with instructions for bfloat16; others take nine times as long as with 32. In one
thread of a CPU figures are per CPU second, elsewhere per second of the clock. Subjects take turns,
round after round, about two seconds each; a first turn of each is not counted. The last line is the
share of Monte-Carlo Softmax searches that the network takes, by the clock.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from tqdm import tqdm

from afterstate.agents.game2048.learning import policy_imitation, value_td
from afterstate.agents.game2048.learning.play_logs import MOVE
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent
from afterstate.agents.game2048.search.mc_softmax import Settings as Search
from afterstate.agents.game2048.values.policy_net import PolicyCNN, probabilities
from afterstate.agents.game2048.values.value_net import CNN22, ValueNetAgent, evaluate
from afterstate.agents.nets import check_device
from afterstate.agents.training.commands import whole_above_0
from afterstate.agents.training.optimizer import Fitting, set_threads
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.words import Words
from benchmarks.machine import machine
from benchmarks.speed.timing import Figure, lines

Work = Callable[[], int]
"""Does some of what is timed, and says how many positions it was."""

SECONDS = 2.0


class Timed(NamedTuple):
    """A subject."""

    name: str
    unit: str
    work: Work


def positions(n: int, device: str, n_moves: int = 40) -> Tensor:
    """Boards `int64[n]` of random games after some moves, none of them over."""
    chance = torch.Generator(device).manual_seed(1)
    boards = torch_rules.start((2 * n,), chance)
    for _ in range(n_moves):
        actions = torch_rules.random_legal(torch_rules.legal(boards), chance)
        afters, _ = torch_rules.move(boards, actions)
        boards = torch_rules.spawn(afters, torch_rules.draw_bits(boards.shape, chance))
    return boards[torch_rules.legal(boards).any(1)][:n]


def bits(mixed: bool) -> str:
    """What a network calculates with."""
    return "16 bits" if mixed else "32 bits"


def judging(name: str, judge: Callable[[Tensor], Tensor], boards: Tensor, mixed: bool) -> Timed:
    """A network that judges boards."""

    def work() -> int:
        with torch.autocast(boards.device.type, torch.bfloat16, enabled=mixed):
            judge(boards)
        return len(boards)

    return Timed(f"{name} judges, {bits(mixed)}", "boards/s", work)


def playing(depth: int, n_boards: int, device: str, mixed: bool) -> Timed:
    """The player of a value network, which is shown boards side by side."""
    player = ValueNetAgent(CNN22(), depth, device, bf16=mixed)
    words = torch_rules.to_words(positions(n_boards, device))

    def work() -> int:
        player.act(words)
        return len(words)

    name = f"CNN22 plays {depth}-ply, {n_boards} boards, {bits(mixed)}"
    return Timed(name, "moves/s", work)


class Watched:
    """A player that notes how many seconds it is asked for estimates."""

    def __init__(self, player: ValueNetAgent) -> None:
        self.player, self.size, self.seconds = player, player.size, 0.0

    def estimate(self, boards: Words) -> npt.NDArray[np.float64]:
        """The values of afterstates."""
        began = time.perf_counter()
        values = self.player.estimate(boards)
        self.seconds += time.perf_counter() - began
        return values


SEARCH = Search(simulations=100)
SEARCHED = 64
"""Games that are searched in step."""


def searching(device: str, mixed: bool, games: int, leaves: int = 1) -> Timed:
    """Monte-Carlo Softmax search with a value network, of some games in step."""
    how = replace(SEARCH, leaves=leaves)
    player = MCSoftmaxAgent(ValueNetAgent(CNN22(), device=device, bf16=mixed), how)
    words = torch_rules.to_words(positions(games, device))

    def work() -> int:
        player.act(words)
        return len(words) * SEARCH.simulations

    more = "" if leaves == 1 else f", {leaves} leaves"
    return Timed(f"CNN22, MC Softmax, {games} games{more}, {bits(mixed)}", "sims/s", work)


def in_network(device: str, mixed: bool, rounds: int) -> Figure:
    """The share of the same searches that the network takes, in percent."""
    watched = Watched(ValueNetAgent(CNN22(), device=device, bf16=mixed))
    player = MCSoftmaxAgent(watched, SEARCH)
    words = torch_rules.to_words(positions(SEARCHED, device))
    player.act(words)
    shares = []
    for _ in range(rounds):
        began, watched.seconds = time.perf_counter(), 0.0
        player.act(words)
        shares.append(100 * watched.seconds / (time.perf_counter() - began))
    return Figure("CNN22, MC Softmax, time in the network", "%", shares)


def learning_values(games: int, device: str, mixed: bool) -> Timed:
    """CNN22 in self-play."""
    settings = value_td.Settings(games=games, batch=min(games, 1_024), bf16=mixed)
    learner = value_td.Learner(CNN22().to(device), settings, seed=1)

    def work() -> int:
        before = learner.n_moves
        learner.play(games)
        return learner.n_moves - before

    return Timed(f"CNN22 learns, {games} games, {bits(mixed)}", "moves/s", work)


def learning_policy(layers: int, mixed: bool, batch: int, device: str) -> Timed:
    """A policy network that learns from a log."""
    boards = positions(4 * batch, "cpu")
    log = np.empty(len(boards), MOVE)
    log["board"] = torch_rules.to_words(boards)
    log["action"] = torch_rules.legal(boards).int().argmax(1).numpy()
    how = Fitting(batch=batch, bf16=mixed)
    learner = policy_imitation.Learner(PolicyCNN(layers).to(device), log, how)

    def work() -> int:
        learner.play(batch)
        return batch

    name = f"policy, k = {layers}, learns, batch {batch}, {bits(mixed)}"
    return Timed(name, "moves/s", work)


def subjects(device: str, mixed: bool) -> list[Timed]:
    """All that is timed on a device: the judgement of values with 32 bits too."""
    size = 1 if device == "cpu" else 64
    boards = positions(1_024 * size, device)
    value = CNN22().eval().to(device)
    judge = partial(judging, "CNN22", partial(evaluate, value), boards)
    found = [judge(False), judge(True)] if mixed else [judge(False)]
    side_by_side = ((1, 256 * size), (2, 8 * size), (3, 1))
    found += [playing(depth, n, device, mixed) for depth, n in side_by_side]
    found += [searching(device, mixed, SEARCHED)]
    found += [searching(device, mixed, 1, leaves) for leaves in (1, 4, 16)]
    found += [learning_values(128 * size, device, mixed)]
    for layers in (2, 5):
        net = PolicyCNN(layers).eval().to(device)
        found += [judging(f"policy, k = {layers},", partial(probabilities, net), boards, mixed)]
        found += [learning_policy(layers, mixed, 512 * size, device)]
    return found


def clock(device: str) -> float:
    """Seconds: of the processor, or of the clock when the device has done all it was asked to."""
    if device != "cpu":
        torch.cuda.synchronize()
    elif torch.get_num_threads() == 1:
        return time.process_time()
    return time.monotonic()


def measure(device: str, mixed: bool, rounds: int) -> list[Figure]:
    """Times the subjects in turn."""
    timed = subjects(device, mixed)
    values: list[list[float]] = [[] for _ in timed]
    for number in tqdm(range(rounds + 1), unit=" rounds", leave=False):
        for subject, speeds in zip(timed, values, strict=True):
            began, done = clock(device), 0
            while clock(device) - began < SECONDS:
                done += subject.work()
            if number:
                speeds.append(done / (clock(device) - began))
    unit = "CPU s" if device == "cpu" and torch.get_num_threads() == 1 else "s"
    return [
        Figure(subject.name, subject.unit.replace("/s", f"/{unit}"), speeds)
        for subject, speeds in zip(timed, values, strict=True)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Times the neural networks of 2048.")
    add = parser.add_argument
    add("--device", default="cpu", help="cpu or cuda (%(default)s)")
    add("--threads", type=whole_above_0, default=1, help="of the CPU (%(default)s)")
    add("--bits", type=int, choices=(16, 32), default=16, help="of the networks (%(default)s)")
    add("--rounds", type=whole_above_0, default=5, help="that are counted (%(default)s)")
    add("--out", type=Path, help="file for the figures")
    chosen = parser.parse_args(arguments)
    try:
        check_device(chosen.device)
        set_threads(chosen.threads)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    torch.manual_seed(1)
    here, threads = machine(), chosen.threads
    device = "one thread" if threads == 1 else f"{threads} threads"
    if chosen.device != "cpu":
        device = torch.cuda.get_device_name(chosen.device)
    head = ", ".join(f"{name} {value}" for name, value in {**here, "on": device}.items())
    where = chosen.device, chosen.bits == 16, chosen.rounds
    figures = [*measure(*where), in_network(*where)]
    printed = "\n".join([head, *lines(figures)])
    print(printed)
    if chosen.out:
        chosen.out.write_text(printed + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Speed of the neural networks of 2048: evaluation, play and learning.

    python -m benchmarks.speed.neural --out benchmarks/results/speed_neural.txt
    python -m benchmarks.speed.neural --threads 2 --out benchmarks/results/speed_neural_2.txt
    python -m benchmarks.speed.neural --bits 32
    python -m benchmarks.speed.neural --device cuda

Networks are untrained, which costs the same; positions are those of random games. 16 bits are for
processors with instructions for bfloat16; others take nine times as long as with 32. With one
thread of a CPU figures are per CPU second, otherwise per second of wall time. Subjects take turns,
about two seconds each; the first turn of each is not counted. The last line is the share of
Monte-Carlo Softmax searches that the network takes, in wall time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from afterstate.agents.config import Count, settings
from afterstate.agents.game2048.learning import policy_imitation, value_td
from afterstate.agents.game2048.learning.play_logs import MOVE
from afterstate.agents.game2048.learning.run_settings import ValueSettings
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent
from afterstate.agents.game2048.search.softmax_settings import MCSoftmaxSettings
from afterstate.agents.game2048.values.policy_net import PolicyCNN, probabilities
from afterstate.agents.game2048.values.value_net import CNN22, ValueNetAgent, evaluate
from afterstate.agents.nets import check_device
from afterstate.agents.progress import progress_bar
from afterstate.agents.training.fitter import set_threads
from afterstate.agents.training.fitting_settings import FittingSettings
from afterstate.envs.commands import parse, run_process
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.words import Words
from benchmarks.speed.timing import Figure, show

Work = Callable[[], int]
"""Do some of the work; return its number of positions."""

SECONDS = 2.0


class Timed(NamedTuple):
    """A subject to time."""

    name: str
    unit: str
    work: Work


def positions(n: int, device: str, n_moves: int = 40) -> Tensor:
    """Return boards `int64[n]` of random games after some moves, none of them over."""
    chance = torch.Generator(device).manual_seed(1)
    boards = torch_rules.start((2 * n,), chance)
    for _ in range(n_moves):
        actions = torch_rules.random_legal(torch_rules.legal(boards), chance)
        afters, _ = torch_rules.move(boards, actions)
        boards = torch_rules.spawn(afters, torch_rules.draw_bits(boards.shape, chance))
    return boards[torch_rules.legal(boards).any(1)][:n]


def bits(bf16: bool) -> str:
    """Return the precision of a network as text."""
    return "16 bits" if bf16 else "32 bits"


def evaluating(
    name: str, evaluate_boards: Callable[[Tensor], Tensor], boards: Tensor, bf16: bool
) -> Timed:
    """Return the evaluation of boards by a network."""

    def work() -> int:
        with torch.autocast(boards.device.type, torch.bfloat16, enabled=bf16):
            evaluate_boards(boards)
        return len(boards)

    return Timed(f"{name} evaluates, {bits(bf16)}", "boards/s", work)


def playing(depth: int, n_boards: int, device: str, bf16: bool) -> Timed:
    """Return the player of a value network, with boards in one batch."""
    player = ValueNetAgent(CNN22(), depth, device, bf16=bf16)
    words = torch_rules.to_words(positions(n_boards, device))

    def work() -> int:
        player.act(words)
        return len(words)

    name = f"CNN22 plays {depth}-ply, {n_boards} boards, {bits(bf16)}"
    return Timed(name, "moves/s", work)


class TimedPlayer:
    """A player that measures the seconds of its estimates."""

    def __init__(self, player: ValueNetAgent) -> None:
        self.player, self.size, self.seconds = player, player.size, 0.0

    def estimate(self, boards: Words) -> npt.NDArray[np.float64]:
        """Return the values of afterstates."""
        start = time.perf_counter()
        values = self.player.estimate(boards)
        self.seconds += time.perf_counter() - start
        return values


SEARCH = MCSoftmaxSettings(simulations=100)
SEARCHED = 64
"""Games that are searched in parallel."""


def searching(device: str, bf16: bool, games: int, leaves: int = 1) -> Timed:
    """Return Monte-Carlo Softmax search of some games in parallel, with a value network."""
    search = replace(SEARCH, leaves=leaves)
    player = MCSoftmaxAgent(ValueNetAgent(CNN22(), device=device, bf16=bf16), search)
    words = torch_rules.to_words(positions(games, device))

    def work() -> int:
        player.act(words)
        return len(words) * SEARCH.simulations

    more = "" if leaves == 1 else f", {leaves} leaves"
    return Timed(f"CNN22, MC Softmax, {games} games{more}, {bits(bf16)}", "sims/s", work)


def in_network(device: str, bf16: bool, rounds: int) -> Figure:
    """Return the share of these searches that the network takes, in percent."""
    timed = TimedPlayer(ValueNetAgent(CNN22(), device=device, bf16=bf16))
    player = MCSoftmaxAgent(timed, SEARCH)
    words = torch_rules.to_words(positions(SEARCHED, device))
    player.act(words)
    shares = []
    for _ in range(rounds):
        start, timed.seconds = time.perf_counter(), 0.0
        player.act(words)
        shares.append(100 * timed.seconds / (time.perf_counter() - start))
    return Figure("CNN22, MC Softmax, time in the network", "%", shares)


def learning_values(games: int, device: str, bf16: bool) -> Timed:
    """Return the learning of CNN22 in self-play."""
    options = ValueSettings(games=games, batch=min(games, 1_024), bf16=bf16)
    learner = value_td.ValueLearner(CNN22().to(device), options, seed=1)

    def work() -> int:
        before = learner.n_moves
        learner.learn(games)
        return learner.n_moves - before

    return Timed(f"CNN22 learns, {games} games, {bits(bf16)}", "moves/s", work)


def learning_policy(layers: int, bf16: bool, batch: int, device: str) -> Timed:
    """Return the learning of a policy network from a log."""
    boards = positions(4 * batch, "cpu")
    log = np.empty(len(boards), MOVE)
    log["board"] = torch_rules.to_words(boards)
    log["action"] = torch_rules.legal(boards).int().argmax(1).numpy()
    fitting = FittingSettings(batch=batch, bf16=bf16)
    learner = policy_imitation.PolicyLearner(PolicyCNN(layers).to(device), log, fitting)

    def work() -> int:
        learner.learn(batch)
        return batch

    name = f"policy, k = {layers}, learns, batch {batch}, {bits(bf16)}"
    return Timed(name, "moves/s", work)


def subjects(device: str, bf16: bool) -> list[Timed]:
    """Return all subjects of a device; the evaluation of values also with 32 bits."""
    size = 1 if device == "cpu" else 64
    boards = positions(1_024 * size, device)
    value = CNN22().eval().to(device)
    values = partial(evaluating, "CNN22", partial(evaluate, value), boards)
    result = [values(False), values(True)] if bf16 else [values(False)]
    batches = ((1, 256 * size), (2, 8 * size), (3, 1))
    result += [playing(depth, n, device, bf16) for depth, n in batches]
    result += [searching(device, bf16, SEARCHED)]
    result += [searching(device, bf16, 1, leaves) for leaves in (1, 4, 16)]
    result += [learning_values(128 * size, device, bf16)]
    for layers in (2, 5):
        net = PolicyCNN(layers).eval().to(device)
        result += [evaluating(f"policy, k = {layers},", partial(probabilities, net), boards, bf16)]
        result += [learning_policy(layers, bf16, 512 * size, device)]
    return result


def clock(device: str) -> float:
    """Return CPU seconds, or seconds of wall time when the device is idle."""
    if device != "cpu":
        torch.cuda.synchronize()
    elif torch.get_num_threads() == 1:
        return time.process_time()
    return time.monotonic()


def measure(device: str, bf16: bool, rounds: int) -> list[Figure]:
    """Time the subjects in turn."""
    timed = subjects(device, bf16)
    values: list[list[float]] = [[] for _ in timed]
    for number in progress_bar(range(rounds + 1), unit="rounds", leave=False):
        for subject, speeds in zip(timed, values, strict=True):
            start, done = clock(device), 0
            while clock(device) - start < SECONDS:
                done += subject.work()
            if number:
                speeds.append(done / (clock(device) - start))
    unit = "CPU s" if device == "cpu" and torch.get_num_threads() == 1 else "s"
    return [
        Figure(subject.name, subject.unit.replace("/s", f"/{unit}"), speeds)
        for subject, speeds in zip(timed, values, strict=True)
    ]


@settings
class Args:
    """Time the neural networks of 2048."""

    device: str = "cpu"
    """Device of the networks: cpu or cuda."""
    threads: Count = 1
    """CPU threads."""
    bits: Literal[16, 32] = 16
    """Bits of the networks' arithmetic."""
    rounds: Count = 5
    """Rounds that are counted."""
    out: Path | None = None
    """File for the figures."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.speed.neural", arguments)
    check_device(args.device)
    set_threads(args.threads)
    torch.manual_seed(1)
    device = "one thread" if args.threads == 1 else f"{args.threads} threads"
    if args.device != "cpu":
        device = torch.cuda.get_device_name(args.device)
    options = args.device, args.bits == 16, args.rounds
    show([*measure(*options), in_network(*options)], args.out, on=device)


if __name__ == "__main__":
    sys.exit(run_process(main))

"""Learners of both games, trained without end, by the command of the package."""

from __future__ import annotations

import itertools
import json
from abc import abstractmethod
from pathlib import Path
from signal import SIGINT, SIGTERM

from afterstate.agents import nets
from afterstate.agents.config import read
from afterstate.agents.daihinmin.values import rank_net
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.learning.run_settings import ValueRun
from afterstate.envs import json_files
from afterstate.envs.json_files import Row
from tests.soak.growth import Usage
from tests.soak.harness import Death, Job
from tests.soak.progress import bar, shown

CLOCK = 0.1
"""Seconds by which a file's time may lie before the signal: file systems have a coarse clock."""


class Training(Job):
    """A learner, trained without end.

    Args:
        name, folder: see `Job`.
        learner: name of the learner.
        settings: of its run.
        options: of every run.
        every: amount from one evaluation to the next.
    """

    codes = {SIGTERM: 128 + SIGTERM, SIGINT: 130}
    n_temporary = 1
    key: str
    """Name of the amount in rows."""
    checkpoint: str
    """Name of the file from which it goes on."""

    def __init__(
        self, name: str, folder: Path, learner: str, settings: Row, options: Row, every: int
    ) -> None:
        super().__init__(name, folder)
        self.run, self._file, self.every = folder / "run", folder / "run.json", every
        self._file.write_text(json.dumps(settings))
        options = {**options, "evaluate-every": every, self.unit: "1e13", "out": self.run}
        self._options = [text for key in options for text in (f"--{key}", str(options[key]))]
        self._learner, self._rows = learner, list[Row]()

    def command(self) -> list[str]:
        """Return the arguments of Python."""
        resume = ["--resume"] * (self.run / self.checkpoint).exists()
        module = ["-m", "afterstate", "train", self._learner, str(self._file)]
        return [*module, *self._options, *resume]

    def works(self, output: str) -> bool:
        """Return True if there is a progress bar."""
        return bar(self.unit).search(output) is not None

    def check(self, death: Death) -> int:
        """Return the amount in the checkpoint, which must have what was reported.

        After a polite stop that is all, after a kill all but an interval. Rows up to the checkpoint
        are never lost or changed.
        """
        if not (self.run / self.checkpoint).exists():
            n = shown(death.output, self.unit)
            assert not death.is_polite and n <= self.interval(), f"showed {n} and saved nothing"
            return 0
        amount, lost = self.load(), 0 if death.is_polite else self.interval()
        least = shown(death.output, self.unit) - lost
        assert amount >= least, f"showed {least + lost:,} {self.unit} and saved {amount:,}"
        all_rows, n = json_files.rows(self.run / "rows.jsonl"), len(self._rows)
        rows = [row for row in all_rows if row[self.key] <= amount]
        assert not death.is_polite or rows == all_rows, f"has rows of more than {amount:,}"
        assert rows[:n] == self._rows, f"has lost or changed some of {n} rows"
        self.check_rows(rows, amount)
        self._rows = rows
        if death.is_polite:
            self.check_saved(death, amount)
        return amount

    @abstractmethod
    def interval(self) -> int:
        """Return the amount that a kill may lose."""

    @abstractmethod
    def load(self) -> int:
        """Read what a run goes on from, and return its amount."""

    @abstractmethod
    def check_rows(self, rows: list[Row], amount: int) -> None:
        """Check that no row is missing or there twice."""

    def check_saved(self, death: Death, amount: int) -> None:
        """Check that a polite stop has saved what was learned up to it."""


class MoveTraining(Training):
    """A learner of 2048, trained without end."""

    unit, key = "moves", "n_moves"

    def interval(self) -> int:
        """Return the moves of an evaluation's interval and of the games that pass its end."""
        return self.every + self.every // 2

    def check_rows(self, rows: list[Row], amount: int) -> None:
        """Check that there is a row for each interval, but the one that is being evaluated."""
        counts = [0, *(row[self.key] for row in rows)]
        steps = [after - before for before, after in itertools.pairwise(counts)]
        wrong = [step for step in steps if not 0 < step < self.interval()]
        assert not wrong, f"has rows {wrong} {self.unit} after those before"
        assert amount - counts[-1] < self.interval(), f"lacks rows after {counts[-1]:,}"

    def check_saved(self, death: Death, amount: int) -> None:
        """Check that the file is newer than the signal.

        A run that was stopped in an evaluation has saved the same amount before it.
        """
        evaluated = self._rows[-1][self.key] if self._rows else 0
        in_evaluation = amount // self.every > evaluated // self.every
        age = death.time - (self.run / self.checkpoint).stat().st_mtime
        assert in_evaluation or age < CLOCK, f"was saved {age:.1f} seconds before it was stopped"


class NTuple(MoveTraining):
    """A small N-tuple network learns."""

    checkpoint = "learner.npz"

    def __init__(self, folder: Path) -> None:
        settings = {"network": {"tuples": [[0, 1, 4, 5], [4, 5, 8, 9]]}, "seed": 1}
        super().__init__("ntuple", folder, "ntuple", settings, {"evaluate": "1:20"}, 2_000_000)

    def load(self) -> int:
        """Return the moves of the learner."""
        return NTupleLearner.load(self.run / self.checkpoint).n_moves


class ValueNet(MoveTraining):
    """A value network of 2048 learns, with torch."""

    checkpoint = "learner.safetensors"
    limit = Usage(memory=64 << 20, files=4, threads=2)

    def __init__(self, folder: Path) -> None:
        settings = {"learner": {"games": 8, "batch": 8}, "seed": 1}
        super().__init__("value net", folder, "value", settings, {"evaluate": "1:2"}, 2_000)

    def load(self) -> int:
        """Return the moves of the learner; the network that plays may be one save older."""
        learner = read(self.folder / "run.json", ValueRun).new()
        learner.resume(self.run / self.checkpoint)
        nets.tensors(self.run / "net.safetensors")
        return learner.n_moves


class RankNet(Training):
    """A rank network of Daihinmin learns, with torch, by small generations."""

    unit, key, checkpoint = "generations", "generation", "net.safetensors"
    limit = Usage(memory=64 << 20, files=4, threads=2)
    POOL = 3

    def __init__(self, folder: Path) -> None:
        settings = {
            "network": {"name": "BaseCNN", "channels": 2},
            **{"games": 20, "table": 10, "window": 60, "pool": self.POOL, "iterations": 10},
            **{"learner": {"batch": 64}, "seed": 1},
        }
        super().__init__("rank net", folder, "rank", settings, {"evaluate": 100}, 20)

    def interval(self) -> int:
        """Return one generation, which is shown before it is saved."""
        return 1

    def load(self) -> int:
        """Return the generation of the network, to which the learner and the pool must belong."""
        rank_net.load(self.run / self.checkpoint)
        generation: int = nets.metadata(self.run / self.checkpoint)["generation"]
        learners = [self.run / f"{name}.safetensors" for name in ("learner", "next")]
        tags = [nets.header(path).get("generation") for path in learners if path.exists()]
        assert str(generation) in tags, f"is at generation {generation}, its learner at {tags}"
        pool = {int(path.stem) for path in (self.run / "pool").glob("*.safetensors")}
        played = set(range(max(0, generation + 1 - self.POOL), generation + 1))
        assert played <= pool, f"lacks networks of generations {sorted(played - pool)}"
        assert len(pool) <= self.POOL + 2, f"keeps networks of too many generations: {pool}"
        return generation

    def check_rows(self, rows: list[Row], amount: int) -> None:
        """Check that each generation has a row, and each 20th an evaluation."""
        fits = [row[self.key] for row in rows if "loss" in row]
        assert fits == [*range(1, amount + 1)], "has lost rows of generations, or has some twice"
        evaluated = [row[self.key] for row in rows if "against_sample" in row]
        due = [*range(self.every, amount + 1, self.every)]
        assert evaluated in (due, due[:-1]), f"has evaluated {evaluated[-3:]} of {due[-3:]}"

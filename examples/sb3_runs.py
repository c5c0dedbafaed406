"""What the stable-baselines3 examples share: settings, networks, and a run that can be resumed.

A run has a folder. In it are

- `settings.json`: what was asked for when it began. `--resume` goes on with just that; but for the
  number of steps, which may be another one: what falls over a run, the learning rate say, is then
  where it is in a run of that length.
- `checkpoints/`: the last three, and for DQN and QR-DQN `replay.pkl`, the moves that they learn
  from. `--resume` takes the last one; Ctrl-C and SIGTERM leave one.
- `rows.jsonl`: one JSON object an evaluation, in which a player of the package plays with what was
  learned: moves, seconds, games, their mean with half of its 95% interval, and whether it is the
  `end`. Moves are steps of the environment, also those that tried an illegal one.
- `tensorboard/`: the same means, and what the algorithm tells of itself.
- `videos/`: one game of the player at each checkpoint and at the end.
- `actor.safetensors`: the player at the end, a network of the package alone, without pickled code,
  that `afterstate.agents.load` reads; `best.safetensors`, that of the best evaluation.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import math
import pickle
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

try:
    import matplotlib  # noqa: F401 - as the next three for what others import later
    import PIL  # noqa: F401
    import scipy  # noqa: F401
    import tensorboard  # type: ignore[import-untyped]  # noqa: F401
    import torch
    import yaml
    from sb3_contrib import QRDQN, MaskablePPO
    from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
    from stable_baselines3 import DQN, PPO
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import VecEnv
    from torch import Tensor, nn
    from tqdm import tqdm
except ModuleNotFoundError as error:
    message = f'this needs {error.name}: pip install "afterstate[examples,neural,sb3]"'
    raise ImportError(message) from error

from afterstate import agents
from afterstate.agents import files, nets
from afterstate.agents.training.commands import sigterm_raises, uninterrupted, whole_above_0

SETTINGS = Path(__file__).with_name("sb3.yml")
ALGORITHMS: dict[str, type[BaseAlgorithm]] = {
    "ppo": PPO,
    "maskable-ppo": MaskablePPO,
    "dqn": DQN,
    "qrdqn": QRDQN,
}
NEEDED = ("policy", "n_timesteps", "n_envs", "hidden")
"""Settings that are not left to the algorithm."""

WHOLE = (
    *("n_timesteps", "n_envs", "hidden", "channels"),
    *("n_steps", "batch_size", "n_epochs", "buffer_size"),
)
"""Settings that are whole numbers above 0."""

SCHEDULES = ("learning_rate", "clip_range", "clip_range_vf")
"""Settings that may fall over a run: `lin_x` evenly from x to 0."""

SHORT = 32
"""Moves of a game in a rollout of `--smoke`, at most."""

N_CHECKPOINTS = 3
"""Of the last ones that are kept."""

N_MASKED = 20
"""Games of an evaluation by sb3-contrib."""


# Settings


@contextlib.contextmanager
def one_line(about: object) -> Iterator[None]:
    """Ends the program with one line if what was asked for is wrong.

    Raises:
        SystemExit: what is done raises what wrong settings and files raise.
    """
    of_files = (OSError, EOFError, pickle.UnpicklingError, yaml.YAMLError)
    try:
        yield
    except (TypeError, ValueError, AssertionError, RuntimeError, ImportError, *of_files) as error:
        raise SystemExit(f"{about}: {' '.join(str(error).split()) or repr(error)}") from error


def settings(
    algorithm: str, env: str, file: Path = SETTINGS, needed: Sequence[str] = ()
) -> dict[str, Any]:
    """The settings of an algorithm on an environment, checked as far as can be without making it.

    Args:
        algorithm: one of `ALGORITHMS`.
        env: the environment's name.
        file: of settings.
        needed: settings that this environment needs beyond `NEEDED`.

    Raises:
        SystemExit: the file cannot be read, or has not such settings.
    """
    with one_line(file):
        told = yaml.safe_load(file.read_text(encoding="utf-8"))
    for key in (algorithm, env):
        told = told.get(key) if isinstance(told, dict) else None
    if not isinstance(told, dict):
        raise SystemExit(f"{file} has no settings of {algorithm} on {env}")
    must = {*NEEDED, *needed}
    unknown = told.keys() - must - parameters(algorithm) - {"env_kwargs", "policy_kwargs"}
    for names, what in ((unknown, "unknown"), (must - told.keys(), "missing")):
        if names:
            raise SystemExit(f"{file}: {what} settings of {algorithm} on {env}: {sorted(names)}")
    numbers = parameters(algorithm) - {"device"}
    for name in told:
        about = f"{file}: {name} of {algorithm} on {env}"
        if name in WHOLE:
            told[name] = _whole(told[name], about)
        elif name in numbers:
            told[name] = _number(told[name], name in SCHEDULES, about)
    return dict(told)


def parameters(algorithm: str) -> set[str]:
    """The settings that go to an algorithm as they are."""
    ours = {"policy", "env", "policy_kwargs", "seed", "tensorboard_log"}
    return set(inspect.signature(ALGORITHMS[algorithm]).parameters) - ours


def _whole(told: Any, about: str) -> int:
    """A whole number above 0."""
    try:
        return whole_above_0(str(told))
    except argparse.ArgumentTypeError as error:
        raise SystemExit(f"{about}: {error}") from error


def _number(told: Any, may_fall: bool, about: str) -> Any:
    """What is told, as a number where it is text: to YAML 1e-4 is one, without a point."""
    if not isinstance(told, str):
        return told
    falls = may_fall and told.startswith("lin_")
    try:
        number = float(told.removeprefix("lin_") if falls else told)
    except ValueError:
        kinds = "a number, or lin_ before a number" if may_fall else "a number"
        raise SystemExit(f"{about}: it is {kinds}, not {told!r}") from None
    return told if falls else number


def linear(told: Any) -> Any:
    """A number, or for `lin_x` a schedule that falls evenly from x to 0, and no further."""
    if isinstance(told, str) and told.startswith("lin_"):
        start = float(told.removeprefix("lin_"))
        return lambda left: max(left, 0.0) * start  # the last rollout may end behind the last step
    return told


# Networks


class Features(BaseFeaturesExtractor):
    """All but the last layer of an actor, which sees the first of an observation's planes.

    Args:
        space: of observations.
        actor: makes the actor.
        n_planes: how many planes it sees.
    """

    def __init__(self, space: Any, actor: Callable[[], nn.Module], n_planes: int) -> None:
        made: Any = actor()
        super().__init__(space, made.head.in_features)
        self.body, self.n_planes = made.body, n_planes

    def forward(self, observations: Tensor) -> Tensor:
        """The features `[n, hidden]` of observations."""
        features: Tensor = self.body(observations[:, : self.n_planes].float())
        return features


def copy_actor(model: BaseAlgorithm, actor: Any) -> Any:
    """Copies what an algorithm has learned to an actor, which it returns.

    The logits of DQN are values of actions, those of QR-DQN the means of their quantiles.
    """
    policy: Any = model.policy
    if isinstance(model, QRDQN):
        net, last = policy.quantile_net, policy.quantile_net.quantile_net[-1]
    elif isinstance(model, DQN):
        net, last = policy.q_net, policy.q_net.q_net[-1]
    else:
        net, last = policy, policy.action_net
    actor.body.load_state_dict(net.features_extractor.body.state_dict())
    n_actions = len(actor.head.bias)
    with torch.no_grad():
        actor.head.weight.copy_(last.weight.view(-1, n_actions, last.in_features).mean(0))
        actor.head.bias.copy_(last.bias.view(-1, n_actions).mean(0))
    return actor.eval()


# A run


class Game(NamedTuple):
    """What a run is to know of its game."""

    env: str  # its name
    unit: str  # of a mean
    actor: Callable[[], nn.Module]  # makes the network that the policy and the player have
    n_planes: int  # of an observation that it sees
    player: Callable[[nn.Module], Any]  # with a network
    evaluate: Callable[[Any, int], dict[str, Any]]  # games, mean and interval of a player
    film: Callable[[Any, Path], None]  # writes an animation of one game of a player
    n_games: tuple[int, int]  # of an evaluation, and of that at the end


class Run:
    """A run of an algorithm, in a folder.

    Args:
        name: of the folder; that of `--smoke`, which is emptied first, begins with `smoke-`.
        game: what is learned.
        algorithm: one of `ALGORITHMS`.
        told: its settings, as `settings` reads them.
        chosen: the command line.
        **more: what else was asked for, fit for JSON.
    """

    def __init__(
        self,
        name: str,
        game: Game,
        algorithm: str,
        told: dict[str, Any],
        chosen: argparse.Namespace,
        **more: Any,
    ) -> None:
        torch.set_num_threads(chosen.threads)
        self.game, self.algorithm, self.told = game, algorithm, dict(told)
        self.seed, self.resume = chosen.seed, chosen.resume
        self.folder: Path = chosen.out / name
        self.n_steps = chosen.steps or told["n_timesteps"]
        self.evaluate_every = chosen.evaluate_every
        self.checkpoint_every = chosen.checkpoint_every
        if chosen.smoke:
            self._shorten(chosen.steps)
        self.told["n_timesteps"] = self.n_steps
        about = {"env": game.env, "algorithm": algorithm, "seed": self.seed, **more, **self.told}
        self.about = json.loads(json.dumps(about, default=str))

    @property
    def kind(self) -> Any:
        """The class of the algorithm."""
        return ALGORITHMS[self.algorithm]

    def _shorten(self, steps: int | None) -> None:
        """Makes it a run of seconds, with one evaluation and one checkpoint on the way.

        It has two rollouts, unless steps are told: after the last one nothing is learned by a rate
        that falls to 0.
        """
        self.folder = self.folder.with_name(f"smoke-{self.folder.name}")
        replays, length = issubclass(self.kind, OffPolicyAlgorithm), 1
        if not replays:
            length = self.told["n_steps"] = min(self.told.get("n_steps", SHORT), SHORT)
        rollout = length * self.told["n_envs"]
        asked = steps or 2 * SHORT * self.told["n_envs"]
        self.n_steps = rollout * math.ceil(asked / rollout)
        self.evaluate_every = self.checkpoint_every = 2 * self.n_steps // 3 + 1
        if replays:
            self.told["learning_starts"] = self.n_steps // 4
        shutil.rmtree(self.folder, ignore_errors=True)

    def go(self, envs: VecEnv, masked: Callable[[], VecEnv], *more: BaseCallback) -> None:
        """Begins or goes on, to the end.

        Args:
            envs: the environments in which it learns.
            masked: makes those of sb3-contrib's evaluations, which tell TensorBoard what
                MaskablePPO reaches in them.
            *more: further callbacks.
        """
        model = self.model(envs)
        callbacks = [*more, Checkpoints(self), Evaluation(self)]
        if self.kind is MaskablePPO:
            often = max(1, self.evaluate_every // envs.num_envs)
            callbacks.append(
                MaskableEvalCallback(masked(), n_eval_episodes=N_MASKED, eval_freq=often, verbose=0)
            )
        self.learn(model, [*callbacks, Progress()])

    def model(self, envs: VecEnv) -> BaseAlgorithm:
        """The algorithm, new or as it was at the last checkpoint.

        Raises:
            SystemExit: the settings are wrong, or those of `--resume` are not what it began with.
        """
        last = self.checkpoint()
        if last is not None:
            return self._resumed(last, envs)
        with one_line(f"settings of {self.algorithm} on {self.game.env}"):
            model = self._new(envs)
            self.player(model)  # tells whether it can be made
        with one_line(self.folder):
            for name in ("rows.jsonl", "best.safetensors"):  # of one that died before it saved
                (self.folder / name).unlink(missing_ok=True)
            files.write_bytes(
                self.folder / "settings.json", json.dumps(self.about, indent=1).encode()
            )
        return model

    def _new(self, envs: VecEnv) -> BaseAlgorithm:
        """The algorithm with its settings.

        Raises:
            ValueError: they name another network than one that the package's players have.
        """
        ours = {
            "net_arch": [],
            "features_extractor_class": Features,
            "features_extractor_kwargs": {
                "actor": self.game.actor,
                "n_planes": self.game.n_planes,
            },
        }
        theirs = self.told.get("policy_kwargs", {})
        if ours.keys() & theirs:
            raise ValueError(f"policy_kwargs are without {sorted(ours)}: `hidden` is the size")
        own = parameters(self.algorithm)
        model: BaseAlgorithm = self.kind(
            self.told["policy"],
            envs,
            policy_kwargs={**ours, **theirs},
            seed=self.seed,
            tensorboard_log=self.log,
            **{name: linear(told) for name, told in self.told.items() if name in own},
        )
        return model

    def _resumed(self, last: Path, envs: VecEnv) -> BaseAlgorithm:
        """The algorithm of a checkpoint, with other games before it than at the beginning."""
        with one_line(f"{self.folder} cannot be resumed"):
            self._compare(json.loads((self.folder / "settings.json").read_text(encoding="utf-8")))
            model: BaseAlgorithm = self.kind.load(last, envs, tensorboard_log=self.log)
            if isinstance(model, OffPolicyAlgorithm):
                with self.replay.open("rb") as file:
                    model.load_replay_buffer(file)
        model.set_random_seed((self.seed + model.num_timesteps) % 2**32)
        print(f"goes on from {last}")
        return model

    def _compare(self, began: Any) -> None:
        """Checks that what is asked for is what it began with, but for how long it shall be.

        Raises:
            ValueError: it is something else.
        """
        if not isinstance(began, dict):
            raise ValueError("settings.json is none of ours")
        for name in sorted({*began, *self.about} - {"n_timesteps"}):
            was, now = began.get(name), self.about.get(name)
            if was != now:
                raise ValueError(f"it began with {name} {was!r}, not {now!r}: choose another --out")

    @property
    def log(self) -> str:
        """The folder of TensorBoard."""
        return str(self.folder / "tensorboard")

    @property
    def replay(self) -> Path:
        """The file of the moves that DQN and QR-DQN learn from."""
        return self.folder / "checkpoints" / "replay.pkl"

    def checkpoint(self) -> Path | None:
        """The last checkpoint, None if the run begins anew.

        Raises:
            SystemExit: there are checkpoints, and `--resume` was not said, or the other way round.
        """
        found = self.checkpoints()
        if bool(found) != self.resume:
            has = "has checkpoints: --resume goes on with them" if found else "has no checkpoint"
            raise SystemExit(f"{self.folder} {has}")
        return found[-1] if found else None

    def checkpoints(self) -> list[Path]:
        """The checkpoints, the last one last."""
        return sorted(self.folder.glob("checkpoints/*.zip"), key=n_steps)

    def learn(self, model: BaseAlgorithm, callbacks: list[BaseCallback]) -> None:
        """Learns to the end; what is interrupted leaves a checkpoint."""
        begins, left = model.num_timesteps == 0, max(0, self.n_steps - model.num_timesteps)
        try:
            with sigterm_raises(KeyboardInterrupt()):
                model.learn(left, callbacks, reset_num_timesteps=begins)
        except KeyboardInterrupt:
            with uninterrupted():
                self.save(model)
            raise SystemExit(f"interrupted; --resume goes on in {self.folder}") from None

    def save(self, model: BaseAlgorithm) -> None:
        """Writes a checkpoint, and removes those that are too old."""
        path = self.folder / "checkpoints" / f"model_{model.num_timesteps}_steps.zip"
        if isinstance(model, OffPolicyAlgorithm):
            with files.atomic_write(self.replay) as file:
                model.save_replay_buffer(cast(io.BufferedIOBase, file))
        with files.atomic_write(path) as file:
            model.save(cast(io.BufferedIOBase, file))
        for old in self.checkpoints()[:-N_CHECKPOINTS]:
            old.unlink()

    def player(self, model: BaseAlgorithm) -> Any:
        """The player of what has been learned."""
        with nets.seeded(None):  # its first weights, which are overwritten, cost no random numbers
            actor = self.game.actor()
        return self.game.player(copy_actor(model, actor))

    def keep(self, player: Any, name: str, **facts: Any) -> Path:
        """Writes the network of a player, and returns its file."""
        path = self.folder / f"{name}.safetensors"
        nets.save(player.net, path, 16, algorithm=self.algorithm, **facts)
        return path


def n_steps(checkpoint: Path) -> int:
    """After how many steps a checkpoint was written."""
    found = re.search(r"_(\d+)_steps$", checkpoint.stem)
    return int(found[1]) if found else -1


# What is done meanwhile


class Checkpoints(BaseCallback):
    """Checkpoints, and animations of games, at intervals and at the end.

    Args:
        run: to whose folder they go.
    """

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def _on_training_start(self) -> None:
        self.saved = self.num_timesteps

    def _on_step(self) -> bool:
        every = self.run.checkpoint_every
        if self.num_timesteps // every > self.saved // every:
            self.save()
        return True

    def _on_training_end(self) -> None:
        self.save()

    def save(self) -> None:
        """Writes a checkpoint and an animation."""
        self.saved, quiet = self.num_timesteps, io.StringIO()
        self.run.save(self.model)
        videos = self.run.folder / "videos"
        videos.mkdir(exist_ok=True)
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            self.run.game.film(self.run.player(self.model), videos / f"{self.saved}_steps.gif")


class Evaluation(BaseCallback):
    """Lets the player of what has been learned play, at intervals and at the end.

    Every evaluation is a row. One that a checkpoint came too late for is dropped when the run goes
    on, and made again.

    Args:
        run: to whose folder rows and players go.
    """

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run, self.file = run, run.folder / "rows.jsonl"

    def _on_training_start(self) -> None:
        self.measured = files.truncate_rows(self.file, "moves", self.num_timesteps)
        best = self.run.folder / "best.safetensors"
        self.best = nets.metadata(best)["mean"] if best.exists() else -math.inf
        rows = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        self.began = time.monotonic() - (json.loads(rows[-1])["seconds"] if rows else 0)

    def _on_step(self) -> bool:
        every = self.run.evaluate_every
        if self.num_timesteps // every > self.measured // every:
            self.note(self.run.player(self.model), self.run.game.n_games[0], end=False)
        return True

    def _on_training_end(self) -> None:
        file = self.run.keep(self.run.player(self.model), "actor", moves=self.num_timesteps)
        files.truncate_rows(self.file, "moves", self.num_timesteps - 1)  # instead of one on the way
        self.note(agents.load(file), self.run.game.n_games[1], end=True)

    def note(self, player: Any, n_games: int, end: bool) -> None:
        """Lets a player play, and writes what it reached."""
        found = self.run.game.evaluate(player, n_games)
        self.measured, seconds = self.num_timesteps, round(time.monotonic() - self.began, 1)
        row = {"moves": self.measured, "seconds": seconds, **found, "end": end}
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if found["mean"] > self.best:
            self.best = found["mean"]
            self.run.keep(player, "best", moves=self.measured, mean=self.best)
        self.logger.record("eval/mean", found["mean"])
        self.logger.dump(self.measured)
        spread = "" if found["interval"] is None else f" ± {found['interval']:,.1f}"
        reached = f"{found['mean']:,.1f}{spread} {self.run.game.unit} in {found['games']:,} games"
        tqdm.write(f"{self.measured:,} moves: {reached}")


class Progress(BaseCallback):
    """A progress bar."""

    def _on_training_start(self) -> None:
        total = int(self.locals["total_timesteps"])
        self.bar = tqdm(total=total, initial=self.num_timesteps, unit=" moves", unit_scale=True)

    def _on_step(self) -> bool:
        self.bar.update(self.num_timesteps - self.bar.n)
        return True

    def _on_training_end(self) -> None:
        self.bar.close()


# The command line


def seed(text: str) -> int:
    """A seed, of the command line.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"it is whole, from 0 on and below 2**32, not {text!r}")
    return int(text)


def parser(about: str, out: str) -> argparse.ArgumentParser:
    """The command line of a run, whose folder is made in `out`."""
    made = argparse.ArgumentParser(description=about)
    add = made.add_argument
    add("--settings", type=Path, default=SETTINGS, help="(%(default)s)")
    add("--out", type=Path, default=Path(out), help="where the run has its folder (%(default)s)")
    add("--steps", type=whole_above_0, help="instead of those of the settings")
    add("--evaluate-every", type=whole_above_0, default=100_000, help="steps (%(default)s)")
    add("--checkpoint-every", type=whole_above_0, default=200_000, help="steps (%(default)s)")
    add("--seed", type=seed, default=1, help="(%(default)s)")
    add("--threads", type=whole_above_0, default=1, help="of torch (%(default)s)")
    either = made.add_mutually_exclusive_group()
    either.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    either.add_argument("--smoke", action="store_true", help="a run of less than a minute")
    return made

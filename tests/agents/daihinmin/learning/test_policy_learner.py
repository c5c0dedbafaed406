"""Tests of learning the softmax policy: gradients, effects of learning, and resumed runs."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate.agents import files
from afterstate.agents.daihinmin.learning import policy_gradient
from afterstate.agents.daihinmin.learning import policy_learner as learning
from afterstate.agents.daihinmin.learning.game_records import play_log
from afterstate.agents.daihinmin.learning.policy_settings import (
    RATE,
    DaihinminPolicyRun,
    PolicyOptions,
)
from afterstate.agents.daihinmin.play import play_match
from afterstate.agents.daihinmin.rule_based.players import HeuristicAgent
from afterstate.agents.daihinmin.values import features as f
from afterstate.agents.daihinmin.values.features import N_CONTEXTS, N_FEATURES
from afterstate.agents.daihinmin.values.softmax_policy import (
    Policy,
    PolicyAgent,
    load,
    new_policy,
    new_workspace,
    weigh_gifts,
    weigh_options,
)
from afterstate.agents.training.__main__ import main
from afterstate.agents.training.folder import RunFolder
from afterstate.agents.training.workers import Workers
from afterstate.envs.daihinmin import plays, rules
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.rules import Game
from tests.support.training_runs import ENDS


class Recorder:
    """A player that records the options and choices of another."""

    def __init__(self, player: Player) -> None:
        self.player, self.workspace = player, new_workspace()
        self.kept: list[tuple[list[list[int]], int]] = []
        self.weights = np.zeros(N_CONTEXTS * N_FEATURES)

    def choose(self, view: Game) -> int:
        """Return the player's play."""
        played = self.player.choose(view)
        n = weigh_options(view, self.weights, 1.0, self.workspace)
        self.record(n, plays.CARDS[self.workspace.options[:n]] == plays.CARDS[played])
        return played

    def give(self, view: Game, n: int) -> int:
        """Return the player's gift."""
        gift = self.player.give(view, n)
        n_gifts = weigh_gifts(view, self.weights, 1.0, self.workspace)
        self.record(n_gifts, self.workspace.options[:n_gifts] == gift)
        return gift

    def record(self, n: int, is_chosen: Any) -> None:
        """Record the features of all options and the index of the choice."""
        if n > 1 and is_chosen.any():
            features = [
                self.workspace.features[i, : self.workspace.sizes[i]].tolist() for i in range(n)
            ]
            self.kept.append((features, int(is_chosen.argmax())))


def test_choices_are_those_of_the_games() -> None:
    recorder = Recorder(HeuristicAgent())
    games = [match.copy() for match in play_match([recorder] * 5, 12, seed=4)]
    choices = policy_gradient.choices_in(np.array(games, rules.GAME), new_workspace())
    assert len(choices.chosen) == len(recorder.kept) > 200
    kept = sorted(recorder.kept)
    assert sum(rows[0][0] >= f.GIFTS * N_FEATURES for rows, _ in kept) == 11 * 2
    again = []
    for first, end, chosen in zip(choices.first, choices.first[1:], choices.chosen, strict=False):
        rows = [choices.features[o, : choices.sizes[o]].tolist() for o in range(first, end)]
        again.append((rows, int(chosen)))
    assert sorted(again) == kept


@pytest.mark.slow
def test_a_rank_network_can_be_learned_from(tmp_path: Any) -> None:
    pytest.importorskip("torch")
    from afterstate.agents import nets
    from afterstate.agents.daihinmin.values import rank_net

    file = str(tmp_path / "net.safetensors")
    nets.save(rank_net.network("FCNN", hidden=4), file, points="classes", exchange="net")
    choices = policy_gradient.join(list(learning.record(file, 20, seed=1)))
    assert len(choices.chosen) > 20 * 20
    assert (
        choices.features[choices.first[:-1], 0] >= f.GIFTS * N_FEATURES
    ).sum() == 19 * 2  # in the first game nobody gives


def test_the_gradient_is_that_of_the_log_likelihood() -> None:
    choices = learning.play_part("heuristic", 3, 1)
    rng = np.random.default_rng(2)
    weights = rng.normal(scale=0.3, size=N_CONTEXTS * N_FEATURES)
    gradient = np.zeros(len(weights))
    which = np.arange(len(choices.chosen))
    before = policy_gradient.add_choices(choices, which, weights, new_workspace(), gradient)
    for i in np.argsort(-np.abs(gradient))[:30]:
        moved = weights.copy()
        moved[i] += 1e-5
        unused = np.zeros(len(weights))
        after = policy_gradient.add_choices(choices, which, moved, new_workspace(), unused)
        assert (after - before) / 1e-5 == pytest.approx(gradient[i], rel=1e-3, abs=1e-2)


def log_likelihood(policy: Policy, choices: policy_gradient.Choices) -> float:
    """Return the mean log likelihood of choices by a policy."""
    weights, which = np.ravel(policy.weights), np.arange(len(choices.chosen))
    unused = np.zeros(len(weights))
    total = policy_gradient.add_choices(choices, which, weights, new_workspace(), unused)
    return float(total / len(which))


def test_a_policy_learns_to_choose_as_a_player_does() -> None:
    choices = policy_gradient.join([learning.play_part("heuristic", 40, seed) for seed in (1, 2)])
    unseen = learning.play_part("heuristic", 20, 3)
    *_, learned = learning.learn_from_choices(choices, epochs=3)
    policies = new_policy(), learned.policy()
    before, after = (log_likelihood(policy, unseen) for policy in policies)
    assert before < -1.0
    assert after > 0.75 * before


@pytest.mark.slow
def test_self_play_beats_a_random_start_and_does_not_depend_on_jobs() -> None:
    steps = list(learning.learn_by_self_play(6_000, seed=1))
    again = list(learning.learn_by_self_play(4_000, seed=1, workers=Workers(2)))
    first = next(iter(learning.learn_by_self_play(4_000, seed=1)))
    np.testing.assert_array_equal(first.weights, again[0].weights)
    learner = PolicyAgent(steps[-1].policy())
    players = [learner, *(PolicyAgent(new_policy(), 1.0, i) for i in range(4))]
    *_, match = play_match(players, 100, seed=2)
    assert match["points"][0] > 350


# Runs


def run(out: Path, *arguments: str) -> Path:
    """Run the command and return the policy."""
    main(["daihinmin-policy", "--out", str(out), "--evaluate", "10", *arguments])
    return out / "policy.npz"


@pytest.mark.slow
@pytest.mark.parametrize("player", [None, "sample"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_resumes_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, player: str | None, number: signal.Signals
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    options = ["--games", "5" if player else "6000", "--epochs", "2", "--seed", "1"]
    options += ["--player", player] if player else []
    monkeypatch.setattr(learning, "BATCH", 100)
    expected = load(run(whole, *options)).weights
    step = learning.Ascent.step

    def interrupted(ascent: learning.Ascent, *args: Any) -> learning.Ascent:
        if ascent.n == 2:
            signal.raise_signal(number)
        return step(ascent, *args)

    with monkeypatch.context() as patched:
        patched.setattr(learning.Ascent, "step", interrupted)
        with pytest.raises(ENDS, match="--resume" if number == signal.SIGINT else "143"):
            run(cut, *options)
    assert not np.array_equal(load(cut / "policy.npz").weights, expected)
    for wrong in (options, [*options, "--resume", "--seed", "2"]):
        with pytest.raises(ENDS):
            run(cut, *wrong)
    if player:  # nothing is recorded again
        monkeypatch.setattr(learning, "play_part", None)
    assert load(run(cut, *options, "--resume")).weights.tobytes() == expected.tobytes()


def test_choices_are_written_while_they_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    options = ["--player", "sample", "--games", "6", "--epochs", "1"]
    monkeypatch.setattr(learning, "GAMES_PER_CYCLE", 2)
    expected = load(run(whole, *options)).weights
    recorded, play_part = [], learning.play_part

    def interrupted(*args: Any) -> policy_gradient.Choices:
        recorded.append(args)
        if len(recorded) == 2:
            raise KeyboardInterrupt
        return play_part(*args)

    monkeypatch.setattr(learning, "play_part", interrupted)
    with pytest.raises(KeyboardInterrupt, match="--resume"):
        run(cut, *options)
    assert not (cut / "policy.npz").exists()
    assert load(run(cut, *options, "--resume")).weights.tobytes() == expected.tobytes()
    assert len(recorded) == 4  # the second was begun twice


def test_a_limit_of_time_ends_the_recording_of_choices(tmp_path: Path) -> None:
    options = ["--player", "sample", "--games", "1000", "--epochs", "1"]
    assert not run(tmp_path / "run", *options, "--hours", "1e-9").exists()
    assert len(list((tmp_path / "run").glob("0*.npz"))) <= 1


def test_a_run_that_has_saved_nothing_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any) -> policy_gradient.Choices:
        raise KeyboardInterrupt

    options = ["--player", "sample", "--games", "2", "--epochs", "1"]
    with (
        monkeypatch.context() as patch,
        pytest.raises(KeyboardInterrupt, match="nothing was saved"),
    ):
        patch.setattr(learning, "play_part", interrupted)
        run(tmp_path / "run", *options)
    run(tmp_path / "run", *options)


@pytest.mark.slow
def test_a_run_goes_on_without_the_policy_that_it_started_from(tmp_path: Path) -> None:
    first = run(tmp_path / "first", "--games", "2000")
    options = ["--games", "4000", "--start", str(first)]
    expected = load(run(tmp_path / "run", *options)).weights
    first.unlink()
    (tmp_path / "run" / "policy.npz").unlink()
    assert (load(run(tmp_path / "run", *options, "--resume")).weights == expected).all()


def test_a_run_saves_at_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    step = learning.Ascent.step

    def watched(ascent: learning.Ascent, *args: Any) -> learning.Ascent:
        seen.append([(tmp_path / "run" / f"{name}.npz").exists() for name in ("policy", "ascent")])
        return step(ascent, *args)

    monkeypatch.setattr(learning.Ascent, "step", watched)
    run(tmp_path / "run", "--games", "4000", "--save-minutes", "1e-9")
    assert seen == [[False, False], [True, True]]


@pytest.mark.slow
def test_a_run_of_an_earlier_version_is_resumed(tmp_path: Path) -> None:
    """Its folder was `policy.npz.learning`, its settings in `ascent.npz` had the jobs, too."""
    old, straight = tmp_path / "policy.npz.learning", tmp_path / "straight"
    options = ("--games", "4000", "--seed", "1")
    expected = load(run(straight, *options)).weights
    ascent = next(iter(learning.learn_by_self_play(4_000, seed=1)))
    asked = {"games": "4000.0", "player": "None", "epochs": "10", "start": "None"}
    asked |= {"rate": "0.025", "seed": "1", "jobs": "2"}
    files.write(old / "ascent.npz", "daihinmin-policy-learning", {"asked": asked}, ascent._asdict())
    assert load(run(old, *options, "--resume")).weights.tobytes() == expected.tobytes()


def test_a_run_starts_from_a_policy_and_rejects_wrong_settings(tmp_path: Path) -> None:
    first = run(tmp_path / "first", "--games", "2000")
    options = ["--start", str(first), "--player", "sample", "--games", "2", "--epochs", "1"]
    assert not np.array_equal(load(run(tmp_path / "next", *options)).weights, load(first).weights)
    for wrong in (
        ["--games", "0"],
        ["--games", "inf"],
        ["--rate", "-5"],
        ["--rate", "nan"],
        ["--seed", "-1"],
        ["--player", "nobody"],
        ["--player", str(tmp_path / "none.safetensors")],
        ["--start", str(tmp_path / "none")],
        ["--resume"],
    ):
        with pytest.raises(ENDS):
            run(tmp_path / "wrong", *wrong)


# Damaged files of a run


def training(folder: Path, **settings: Any) -> Any:
    """Return the training of a folder that has files of a run."""
    kept = RunFolder(folder, True, ("ascent.npz", "00000.npz"))
    run_settings = DaihinminPolicyRun(games=2, **settings)
    return run_settings.begin(PolicyOptions(out=folder), kept)


def with_first(array: Any, value: float) -> Any:
    """Return a copy of an array with another first number."""
    changed = np.array(array)
    changed.reshape(-1)[0] = value
    return changed


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *(("weights", lambda array, v=value: with_first(array, v)) for value in (np.nan, np.inf)),
        ("square", lambda array: with_first(array, np.nan)),
        ("mean", lambda array: array[:-1]),
        ("weights", lambda array: array.astype(np.float32)),
        *(("n", lambda _, v=value: np.array(v)) for value in (-1, 1.5, np.nan)),
        ("n", lambda _: np.array([3])),
        ("n", None),
    ],
)
def test_a_damaged_ascent_is_refused(tmp_path: Path, name: str, change: Any) -> None:
    path, arrays = tmp_path / "ascent.npz", learning.new_ascent()._replace(n=3)._asdict()
    settings = {"games": "2.0", "player": "None", "epochs": "10", "start": "None"}
    header = {"asked": {**settings, "rate": str(RATE), "seed": "0"}}
    files.write(path, "daihinmin-policy-learning", header, arrays)
    assert training(tmp_path).amount == 3
    changed = {name: change(arrays[name])} if change else {}
    rest = {other: array for other, array in arrays.items() if other != name}
    files.write(path, "daihinmin-policy-learning", header, rest | changed)
    with pytest.raises(ValueError, match=r"ascent\.npz"):
        training(tmp_path)
    without: list[dict[str, Any]] = [{}, {"asked": None}, {"asked": []}]
    for other in without:
        files.write(path, "daihinmin-policy-learning", other, arrays)
        with pytest.raises(ValueError, match=r"ascent\.npz has no settings of a run"):
            training(tmp_path)
    others: list[dict[str, Any]] = [{"asked": {}}, {"asked": {**settings, "seed": "3"}}]
    for other in others:
        files.write(path, "daihinmin-policy-learning", other, arrays)
        with pytest.raises(ValueError, match=r"ascent\.npz is of a run with other settings"):
            training(tmp_path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *(("chosen", lambda array, v=value: with_first(array, v)) for value in (-1, 99_999)),
        *(("sizes", lambda array, v=value: with_first(array, v)) for value in (-1, f.MOST + 1)),
        *(("features", lambda array, v=value: with_first(array, v)) for value in (-1, 32_767)),
        ("first", lambda array: with_first(array, 1)),
        ("first", lambda array: array[:-1]),
        ("features", lambda array: array[:, :-1]),
        ("sizes", lambda array: array[:-1]),
        ("sizes", lambda array: array.astype(np.float64)),
        ("chosen", None),
    ],
)
def test_damaged_choices_are_refused(tmp_path: Path, name: str, change: Any) -> None:
    """Kernels would read beyond the arrays."""
    log = play_log([HeuristicAgent()] * 5, 1, 1)
    arrays = policy_gradient.choices_in(log.games, new_workspace())._asdict()
    settings = {"games": "2.0", "player": "sample", "epochs": "10", "start": "None"}
    header = {"asked": {**settings, "rate": str(RATE), "seed": "0"}}
    files.write(tmp_path / "00000.npz", "daihinmin-policy-learning", header, arrays)
    assert training(tmp_path, player="sample").end > 0
    changed = {name: change(arrays[name])} if change else {}
    rest = {other: array for other, array in arrays.items() if other != name}
    files.write(tmp_path / "00000.npz", "daihinmin-policy-learning", header, rest | changed)
    with pytest.raises(ValueError, match=r"00000\.npz"):
        assert training(tmp_path, player="sample").end

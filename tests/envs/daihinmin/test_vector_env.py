"""`DaihinminVectorEnv` plays the games of Gymnasium's `SyncVectorEnv` of single environments."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from numba import njit

from afterstate.agents.daihinmin.rule_based.heuristic import Weights
from afterstate.agents.daihinmin.rule_based.players import HeuristicAgent
from afterstate.envs.daihinmin import cards, render
from afterstate.envs.daihinmin.players import MOVE, CompiledPlayer
from afterstate.envs.daihinmin.plays import PASS
from afterstate.envs.daihinmin.rules import Game, Rules
from afterstate.envs.daihinmin.seat_env import DaihinminEnv
from afterstate.envs.daihinmin.vector_env import DaihinminVectorEnv
from tests.support.env_checks import (
    DISABLED,
    MODES,
    NEXT_STEP,
    SAME_STEP,
    assert_same,
    by_mode,
    masked,
)

ONE_PASS = Rules(idle_limit=1)  # games end early, some before our first turn
MIXED = ["sample", None, "heuristic", "random"]
OTHER_WEIGHTS = HeuristicAgent(Weights(keep=0.1, joker=3.0, danger=0.0))

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "sample": {"opponents": "sample", "games": 3, "seat": 4},
    "heuristic": {"opponents": "heuristic", "games": 2, "exchange": "auto", "seat": 2},
    "mixed": {"opponents": MIXED, "games": 4, "illegal": "terminate", "reward": "class_value"},
    "players": {"opponents": [OTHER_WEIGHTS, "sample", HeuristicAgent(), "daihinmin-random"]},
    "limit": {"games": 2, "max_episode_steps": 40, "reward": "zero_sum"},
    "one pass": {"rules": ONE_PASS},
    "one pass, match": {"rules": ONE_PASS, "games": 4, "reward": "class_value"},
    "one pass, terminate": {"rules": ONE_PASS, "games": 4, "illegal": "terminate"},
    "two passes": {
        "rules": Rules(idle_limit=2, class_reset_every=2, reseat_every=1, sequences=False),
        "games": 5,
        "opponents": "sample",
    },
}
by_settings = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
EXCHANGE = {"classes": [0, 1, 2, 3, 4], "seats": [2, 0, 1, 4, 3]}


def single(max_episode_steps: int | None = None, **settings: Any) -> gym.Env[Any, Any]:
    """Return one environment with the settings of a vector environment."""
    env: gym.Env[Any, Any] = DaihinminEnv(**settings)
    return env if max_episode_steps is None else TimeLimit(env, max_episode_steps)


def singles(num_envs: int, mode: AutoresetMode = NEXT_STEP, **settings: Any) -> SyncVectorEnv:
    """Return Gymnasium's vector environment of single environments."""
    return SyncVectorEnv([partial(single, **settings)] * num_envs, autoreset_mode=mode)


def pair(
    num_envs: int, mode: AutoresetMode = NEXT_STEP, **settings: Any
) -> tuple[DaihinminVectorEnv, SyncVectorEnv]:
    """Return the environment and Gymnasium's, before their reset."""
    envs = DaihinminVectorEnv(num_envs, autoreset_mode=mode, **settings)
    return envs, singles(num_envs, mode, **settings)


def started(num_envs: int = 5, seed: int = 1, **settings: Any) -> DaihinminVectorEnv:
    """Return a vector environment after its reset."""
    envs = DaihinminVectorEnv(num_envs, **settings)
    envs.reset(seed=seed)
    return envs


def some_actions(envs: DaihinminVectorEnv, rng: np.random.Generator) -> Any:
    """Return random actions, of which one in 20 is any number."""
    anything = rng.integers(2422, size=envs.num_envs)
    return np.where(rng.random(envs.num_envs) < 0.05, anything, envs.sample_legal())


def reset_both(
    envs: DaihinminVectorEnv, others: SyncVectorEnv, seed: Any = None, **options: Any
) -> dict[str, Any]:
    """Reset both, check that the results are equal, and return the infos."""
    observations, infos = envs.reset(seed=seed, options=copy.deepcopy(options))
    assert_same((observations, masked(infos)), others.reset(seed=seed, options=options))
    return infos


def step_both(envs: DaihinminVectorEnv, others: SyncVectorEnv, actions: Any) -> Any:
    """Play in both, check that the results are equal, and return one."""
    step = envs.step(actions)
    assert_same((*step[:4], masked(step[4])), others.step(actions))
    return step


@by_mode
@by_settings
def test_games_are_those_of_single_environments(
    mode: AutoresetMode, settings: dict[str, Any]
) -> None:
    envs, others = pair(6, mode, **settings)
    rng, n_ends, n_places = np.random.default_rng(3), 0, 0
    reset_both(envs, others, 20)
    for _ in range(50):
        step = step_both(envs, others, some_actions(envs, rng))
        assert envs.observation_space.contains(step[0])
        masks = [env.get_wrapper_attr("action_masks")() for env in others.envs]
        assert_same(envs.action_masks(), np.stack(masks))
        over = step[2] | step[3]
        n_ends += int(over.sum())
        infos = step[4].get("final_info", step[4])
        n_places += int(infos["_place"].sum())
        if mode is DISABLED and over.any():
            reset_both(envs, others, reset_mask=over)
    reset_both(envs, others)
    assert n_ends > 3 and n_places > 1


@by_mode
def test_reset_mask_resets_some_games(mode: AutoresetMode) -> None:
    envs, others = pair(6, mode, opponents="sample", games=2)
    rng = np.random.default_rng(5)
    reset_both(envs, others, 2)
    for t in range(120):
        step = step_both(envs, others, some_actions(envs, rng))
        mask = (step[2] | step[3]) if mode is DISABLED else rng.random(6) < 0.2
        if mask.any():
            seed: Any = None if t % 2 else rng.integers(0, 1_000, 6).tolist()
            options = EXCHANGE if t % 3 == 0 else {}
            before = envs.views()
            infos = reset_both(envs, others, seed, reset_mask=mask, **options)
            assert infos["_play"].tolist() == mask.tolist()
            assert (envs.views() == before)[~mask].all()


@pytest.mark.parametrize("names", [("classes",), ("seats",), ("deal",), ("deal", "classes")])
def test_reset_accepts_seats_classes_and_deal(names: tuple[str, ...]) -> None:
    env = DaihinminEnv()
    env.reset(seed=1)
    hands = env._table.get_state()["game"]["hands"]
    given = {**EXCHANGE, "deal": [cards.text(hand) for hand in hands]}
    options = {name: given[name] for name in names}
    envs, others = pair(8, games=2)
    reset_both(envs, others, 3, **options)
    rng = np.random.default_rng(1)
    for _ in range(30):
        step_both(envs, others, some_actions(envs, rng))
    reset_both(envs, others, **options)


@pytest.mark.parametrize("illegal", ["pass", "terminate"])
def test_an_illegal_gift_costs_what_it_costs_in_the_single_environment(illegal: str) -> None:
    envs, others = pair(3, seat=0, illegal=illegal)
    reset_both(envs, others, 7, **EXCHANGE)
    strongest = [cards.strongest(hand, 2) for hand in envs.views()["hands"][:, 0]]
    *_, infos = step_both(envs, others, np.zeros(3, int))
    expected = [f"gives {cards.text(gift)}" for gift in strongest]
    assert infos["play"].tolist() == (expected if illegal == "pass" else ["pass"] * 3)
    assert not infos["legal"].any()


@pytest.mark.parametrize("seed", [0, 77, [3, 1, 4, 2**80], (3, 1, 4, 1), np.array([9, 8, 7, 6])])
def test_a_game_starts_like_the_environment_of_its_seed(seed: Any) -> None:
    envs = DaihinminVectorEnv(4)
    for _ in range(2):
        observations, infos = envs.reset(seed=seed)
        each = [seed + i for i in range(4)] if isinstance(seed, int) else [int(s) for s in seed]
        for i, one in enumerate(each):
            expected, info = DaihinminEnv().reset(seed=one)
            assert_same(observations[i], expected)
            assert infos["player"][i] == info["player"]
        envs.step(envs.sample_legal())


def test_a_seed_of_none_continues_the_random_stream() -> None:
    envs, others = pair(3)
    rng = np.random.default_rng(1)
    for seed in (8, [None, 5, None], None, [1, None, None]):
        reset_both(envs, others, seed)
        for _ in range(30):
            step_both(envs, others, some_actions(envs, rng))


def test_games_without_a_seed_differ() -> None:
    first, second = (DaihinminVectorEnv(20).reset()[0] for _ in range(2))
    assert len({planes.tobytes() for planes in (*first, *second)}) == 40


def test_disabled_needs_a_reset_of_finished_games() -> None:
    envs = started(3, illegal="terminate", autoreset_mode=DISABLED)
    legal = envs.sample_legal()
    legal[1] = int(np.flatnonzero(~envs.action_masks()[1])[-1])
    assert envs.step(legal)[2].tolist() == [False, True, False]
    before = copy.deepcopy(envs)
    with pytest.raises(ResetNeeded, match="reset_mask"):
        envs.step(envs.sample_legal())
    options = {"reset_mask": np.array([False, True, False])}
    assert_same(envs.reset(options=dict(options)), before.reset(options=dict(options)))
    assert envs.step(envs.sample_legal())[4]["legal"].all()


@by_settings
def test_spaces_and_attributes_are_those_of_sync_vector_env(settings: dict[str, Any]) -> None:
    envs, others = pair(3, **settings)
    for name in (
        *("num_envs", "observation_space", "action_space", "single_observation_space"),
        *("single_action_space", "render_mode"),
    ):
        assert getattr(envs, name) == getattr(others, name), name
    assert envs.unwrapped is envs
    envs.close()
    assert envs.closed


def test_an_autoreset_mode_may_be_a_name() -> None:
    for mode in MODES:
        envs = DaihinminVectorEnv(2, autoreset_mode=mode.value)
        assert envs.autoreset_mode is envs.metadata["autoreset_mode"] is mode
    assert DaihinminVectorEnv.metadata["autoreset_mode"] is NEXT_STEP


# Opponents


@njit(MOVE)
def _highest_move(view: Game, parameters: Any, stream: Any) -> int:
    """Give the weakest cards, and play the highest single card if it leads."""
    hand = view.hands[view.turn]
    if view.to_give > 0:
        return int(cards.weakest(hand, view.to_give))
    if view.field != PASS:
        return int(parameters[0])
    return 1 + cards.lowest(cards.strongest(hand, 1))


class Own:
    """A player of one's own, compiled and in Python."""

    def __init__(self, answer: int) -> None:
        self.answer = answer

    def compiled(self) -> CompiledPlayer:
        """Return the player as a kernel."""
        return CompiledPlayer(_highest_move, np.array([self.answer], float))

    def choose(self, view: Game) -> int:
        """Return the number of a play."""
        return int(_highest_move(view, np.array([self.answer], float), np.zeros(6, np.uint64)))

    def give(self, view: Game, n: int) -> int:
        """Return the cards to give."""
        return self.choose(view)


@pytest.mark.parametrize("answer", [0, 5, 2421, -1, 2422, 10**9])
def test_a_compiled_player_of_ones_own_plays_as_in_python(answer: int) -> None:
    """Its illegal plays pass, and so do numbers that are no plays."""
    envs, others = pair(4, opponents=["sample", Own(answer), Own(0), None], games=3)
    reset_both(envs, others, 5)
    rng = np.random.default_rng(1)
    for _ in range(80):
        step_both(envs, others, some_actions(envs, rng))


class Uncompiled:
    """A player in Python."""

    def choose(self, view: Game) -> int:
        """Pass."""
        return PASS

    def give(self, view: Game, n: int) -> int:
        """Give nothing."""
        return 0


@pytest.mark.parametrize(
    "opponents", [Uncompiled(), [None, None, "sample", Uncompiled()], "policy"]
)
def test_a_player_that_is_not_compiled_is_refused(opponents: Any) -> None:
    with pytest.raises(ValueError, match=r"^opponents must be None, 'random', 'sample', .*sync"):
        DaihinminVectorEnv(2, opponents=opponents)


@pytest.mark.parametrize("opponents", [3, ["sample"] * 3, "nobody", object()])
def test_wrong_opponents_raise_errors(opponents: Any) -> None:
    with pytest.raises(ValueError, match=r"opponents|player"):
        DaihinminVectorEnv(2, opponents=opponents)


def test_an_error_of_a_kernel_is_raised() -> None:
    @njit(MOVE)
    def broken(view: Game, parameters: Any, stream: Any) -> int:
        if view.n_actions > 2:
            raise ValueError("broken kernel")
        return 0

    class Broken(Uncompiled):
        def compiled(self) -> CompiledPlayer:
            """Return a kernel that raises."""
            return CompiledPlayer(broken)

    envs = DaihinminVectorEnv(2, opponents=Broken())
    with pytest.raises(ValueError, match="broken kernel"):
        envs.reset(seed=1)
        for _ in range(20):
            envs.step(envs.sample_legal())


# Legal and illegal actions


def test_sample_legal_is_legal_and_covers_all_legal_actions() -> None:
    envs = started(10, games=2)
    envs.reset(seed=1, options=EXCHANGE)
    drawn = np.zeros((10, 2422), bool)
    masks = envs.action_masks()
    for _ in range(800):
        actions = envs.sample_legal()
        assert actions.dtype == np.int64 and actions.shape == (10,)
        drawn[np.arange(10), actions] = True
    assert (drawn == masks).all()
    for _ in range(300):
        actions = envs.sample_legal()
        assert envs.action_masks()[np.arange(10), actions].all()
        envs.step(actions)


def test_sample_legal_does_not_change_the_games_and_follows_the_seed() -> None:
    envs, twin = started(5), started(5)
    rng = np.random.default_rng(2)
    assert_same(envs.sample_legal(), copy.deepcopy(twin).sample_legal())
    for _ in range(100):
        for _ in range(rng.integers(3)):
            envs.sample_legal()
        actions = some_actions(twin, rng)
        assert_same(envs.step(actions), twin.step(actions))
    assert_same(envs.reset(), twin.reset())


def unchanged(envs: DaihinminVectorEnv, call: Callable[[], Any], match: str) -> None:
    """Check that a call raises ValueError and leaves these games and later games unchanged."""
    twin = copy.deepcopy(envs)
    with pytest.raises(ValueError, match=match):
        call()
    follower = copy.deepcopy(envs)
    assert_same(follower.views(), twin.views())
    for _ in range(20):
        actions = twin.sample_legal()
        assert_same(follower.sample_legal(), actions)
        assert_same(follower.step(actions), twin.step(actions))
    assert_same(follower.reset(), twin.reset())


def test_raise_plays_no_game_if_one_action_is_illegal() -> None:
    envs = started(4, illegal="raise")
    actions = envs.sample_legal()
    actions[2] = np.flatnonzero(~envs.action_masks()[2])[-1]
    unchanged(envs, lambda: envs.step(actions), rf"legal, got {actions[2]} \(.*\) for game 2")


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
def test_raise_accepts_any_action_of_a_game_that_restarts(mode: AutoresetMode) -> None:
    envs, others = pair(3, mode, illegal="raise", opponents="sample")
    reset_both(envs, others, 3)
    n_ends, over = 0, np.zeros(3, bool)
    for _ in range(100):
        actions = np.where(over & (mode is NEXT_STEP), 2421, envs.sample_legal())
        over = step_both(envs, others, actions)[2]
        n_ends += int(over.sum())
    assert n_ends > 3


@pytest.mark.parametrize(
    "actions",
    [[0, 0], [0, 0, 0, 0], [[0, 0, 0]], [0, 0, -1], [0, 2422, 0], [0.0, 0.0, 0.0], None, 0],
)
def test_wrong_actions_change_nothing(actions: Any) -> None:
    envs = started(3)
    unchanged(envs, lambda: envs.step(np.array(actions)), "actions")


@pytest.mark.parametrize(
    ("options", "noun"),
    [
        ({"deal": ["S3"] * 5}, "hands"),
        ({"classes": [0, 1, 2, 3, 3]}, "classes"),
        ({"seats": [0, 1]}, "seats"),
        ({"deals": None}, "options"),
        ({"reset_mask": [1, 0, 1]}, "reset_mask"),
        ({"reset_mask": np.zeros(3, bool)}, "reset_mask"),
    ],
)
def test_wrong_reset_options_change_nothing(options: dict[str, Any], noun: str) -> None:
    envs = started(3)
    unchanged(envs, lambda: envs.reset(seed=5, options=options), noun)


@pytest.mark.parametrize("seed", [-1, 1.5, [1, 2], [1, 2, -3], "1"])
def test_wrong_seeds_change_nothing(seed: Any) -> None:
    envs = started(3)
    unchanged(envs, lambda: envs.reset(seed=seed), "seed")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("num_envs", 0), ("seat", 5), ("seat", True), ("games", 0), ("exchange", "none")),
        *(("reward", "score"), ("illegal", "noop"), ("rules", 3), ("render_mode", "human")),
        *(("autoreset_mode", "never"), ("max_episode_steps", 0)),
    ],
)
def test_errors_name_the_wrong_setting(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be"):
        DaihinminVectorEnv(**{name: value})


def test_methods_need_a_reset() -> None:
    envs = DaihinminVectorEnv(2, render_mode="ansi")
    methods: list[Callable[[], Any]] = [
        *(envs.action_masks, envs.sample_legal, envs.views, envs.render),
        lambda: envs.step(np.zeros(2, int)),
        lambda: envs.reset(options={"reset_mask": np.array([True, False])}),
    ]
    for method in methods:
        with pytest.raises(ResetNeeded, match="reset"):
            method()


# Statistics, pictures, copies


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
def test_recorded_statistics_are_points_and_lengths(mode: AutoresetMode) -> None:
    made = gym.make_vec("Daihinmin-v0", num_envs=4, games=2, autoreset_mode=mode)
    envs = RecordEpisodeStatistics(made)
    envs.reset(seed=1)
    returns = np.zeros(4)
    for _ in range(200):
        _, rewards, over, _, infos = envs.step(made.unwrapped.sample_legal())  # type: ignore[attr-defined]
        returns += rewards
        if over.any():
            assert (infos["episode"]["r"] == returns)[over].all()
            assert ((returns >= 2) & (returns <= 10))[over].all()
            returns[over] = 0
    assert envs.episode_count > 10


def test_render_returns_a_text_per_game_that_hides_the_cards_of_others() -> None:
    envs, others = pair(3, seat=1, render_mode="ansi")
    reset_both(envs, others, 1)
    step_both(envs, others, envs.sample_legal())
    texts = envs.render()
    assert texts == others.render() == tuple(map(render.ansi, envs.views()))
    with pytest.warns(UserWarning, match=r"render\(\) needs render_mode='ansi' or 'rgb_array'"):
        assert started(2).render() is None


def test_render_returns_a_picture_per_game() -> None:
    pytest.importorskip("PIL")
    envs = started(2, render_mode="rgb_array")
    pictures = envs.render()
    assert pictures is not None and len(pictures) == 2
    for picture, view in zip(pictures, envs.views(), strict=True):
        assert_same(picture, render.rgb_array(view))


def test_views_are_those_of_single_environments() -> None:
    envs, others = pair(5, games=2)
    reset_both(envs, others, 4)
    for _ in range(20):
        step_both(envs, others, envs.sample_legal())
        for view, env in zip(envs.views(), others.envs, strict=True):
            assert view.tobytes() == env.get_wrapper_attr("view")().tobytes()


@pytest.mark.slow
def test_a_pickle_continues_in_another_process(tmp_path: Path) -> None:
    """The addresses of kernels differ there."""
    envs = started(4, opponents=MIXED)
    file = tmp_path / "envs"
    file.write_bytes(pickle.dumps(envs))
    code = (
        "import pickle, sys, numpy as np\n"
        "envs = pickle.load(open(sys.argv[1], 'rb'))\n"
        "for _ in range(60): step = envs.step(envs.sample_legal())\n"
        "np.save(sys.argv[1] + '.npy', step[0])\n"
    )
    subprocess.run([sys.executable, "-c", code, str(file)], check=True, timeout=300)
    for _ in range(60):
        step = envs.step(envs.sample_legal())
    assert_same(np.load(f"{file}.npy"), step[0])

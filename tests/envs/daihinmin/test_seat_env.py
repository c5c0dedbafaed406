"""`Daihinmin-v0` passes the checkers and plays the games of `raw_env`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from afterstate.envs.daihinmin import cards, plays, views
from afterstate.envs.daihinmin.arguments import AGENTS, REWARDS
from afterstate.envs.daihinmin.env import raw_env
from afterstate.envs.daihinmin.observation import view_mask, view_planes
from afterstate.envs.daihinmin.rules import Game
from afterstate.envs.daihinmin.seat_env import DaihinminEnv
from tests.support.daihinmin.env_checks import play_seat
from tests.support.env_checks import assert_same


class Highest:
    """Plays the highest legal play, gives the weakest cards and stores its views."""

    def __init__(self) -> None:
        self.views: list[Game] = []

    def choose(self, view: Game) -> int:
        """Return the number of a play."""
        self.views.append(view)
        return int(np.flatnonzero(view_mask(view))[-1])

    def give(self, view: Game, n: int) -> int:
        """Return the cards to give."""
        self.views.append(view)
        return int(cards.weakest(view["hands"][view["viewer"]], n))


class Wrong(Highest):
    """Plays and gives nothing legal."""

    def choose(self, view: Game) -> int:
        """Return the number of a play."""
        self.views.append(view)
        return (-1, 2422, 10**9, 2421)[len(self.views) % 4]

    def give(self, view: Game, n: int) -> int:
        """Return the cards to give."""
        self.views.append(view)
        return (0, 1 << 60, cards.DECK, -1)[len(self.views) % 4]


def make(**settings: Any) -> DaihinminEnv:
    """Return the registered environment without wrappers."""
    env = gym.make("Daihinmin-v0", **settings).unwrapped
    assert isinstance(env, DaihinminEnv)
    return env


@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array", "human"])
def test_check_env_passes_in_every_render_mode(
    render_mode: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any complaint is a warning, which is an error here."""
    pytest.importorskip("PIL")
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    for metadata in (DaihinminEnv.metadata, raw_env.metadata):
        monkeypatch.setitem(metadata, "render_fps", 1_000)
    env = make(illegal="terminate", render_mode=render_mode)
    check_env(env)
    env.close()


@pytest.mark.parametrize(
    "settings",
    [{"games": 3}, {"seat": 2, "exchange": "auto", "games": 2}, {"opponents": Highest()}],
    ids=["games", "seat", "opponents"],
)
def test_check_env_passes_with_settings(settings: dict[str, Any]) -> None:
    check_env(make(**settings), skip_render_check=True)


def test_check_env_of_stable_baselines3_passes() -> None:
    """It only warns that planes are no vector."""
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        checker.check_env(DaihinminEnv(games=2), warn=True)
    texts = [str(warning.message) for warning in caught]
    assert [text for text in texts if "unconventional shape" not in text] == []


def others_play(table: raw_env, agent: str, player: Highest) -> float:
    """Let a player act for the others until the agent's turn; return the agent's rewards."""
    reward = 0.0
    while table.agent_selection != agent and not table.terminations[agent]:
        view = table.view(table.agent_selection)
        if view["to_give"]:
            gift = player.give(view, int(view["to_give"]))
            actions = [plays.single(card) for card in range(53) if gift >> card & 1]
        else:
            actions = [player.choose(view)]
        for action in actions:
            table.step(action)
            reward += table.rewards[agent]
    return reward


@pytest.mark.parametrize("seat", range(5))
def test_games_equal_those_of_raw_env(seat: int) -> None:
    """The seed, the opponents and our actions are the same."""
    settings: dict[str, Any] = {"games": 4, "reward": list(REWARDS)[seat % 3]}
    env, agent = make(seat=seat, opponents=Highest(), **settings), AGENTS[seat]
    table, player, rng = raw_env(**settings), Highest(), np.random.default_rng(seat)
    observation, info = env.reset(seed=seat)
    table.reset(seed=seat)
    others_play(table, agent, player)
    n_games, over = 0, False
    while True:
        expected = table.observe(agent)
        assert_same(observation, expected["observation"])
        assert_same(view_planes(env.view()), expected["observation"])
        assert_same(info.pop("action_mask"), expected["action_mask"])
        assert_same(env.action_masks(), expected["action_mask"].astype(np.bool_))
        assert info.pop("player") == seat
        assert_same(info, table.infos[agent])
        assert over == table.terminations[agent]
        n_games += "place" in info
        if over:
            break
        action = int(rng.choice(np.flatnonzero(expected["action_mask"])))
        observation, reward, over, truncated, info = env.step(action)
        table.step(action)
        first_reward = table.rewards[agent]
        assert reward == first_reward + others_play(table, agent, player)
        assert truncated is False
    assert n_games == 4


def test_opponents_get_their_own_views() -> None:
    four = [Highest() for _ in range(4)]
    env = make(seat=2, opponents=four, games=3)
    env.reset(seed=1)
    play_seat(env, 150, 1)
    for player, number in zip(four, (0, 1, 3, 4), strict=True):
        assert len(player.views) > 20
        for view in player.views:
            assert view["viewer"] == view["turn"] == number and view["rng"] == view["seed"] == 0
            assert sum(bool(hand) for hand in view["hands"]) == 1


def test_illegal_opponents_pass_and_lose_their_strongest_cards() -> None:
    wrong = Wrong()
    env = make(seat=0, opponents=wrong, games=2)
    env.reset(seed=1)
    player, rewards = Highest(), list[float]()
    for _ in range(200):
        view = env.view()
        action = plays.single(0) if view["to_give"] else player.choose(view)
        assert all(view["played"][number] == 0 for number in range(1, 5))
        _, reward, over, _, info = env.step(action)
        if reward:
            assert info["place"] == 0
            rewards.append(float(reward))
        if over:
            break
    assert rewards == [5.0, 5.0]
    fugo = [view for view in wrong.views if view["to_give"]]
    assert len(fugo) == 1 and fugo[0]["to_give"] == 1


def test_random_opponents_never_pass_as_leaders() -> None:
    env, n_leads = make(seat=0), 0
    for seed in range(40):
        env.reset(seed=seed)
        view = env.view()
        if view["n_actions"]:
            n_leads += 1
            assert view["actions"][0] % plays.N_PLAYS != plays.PASS
    assert n_leads > 20


def test_random_opponents_give_random_cards() -> None:
    gifts = set()
    for seed in range(20):
        env = make(seat=4)  # receives two cards of player_0
        env.reset(seed=seed, options={"classes": [0, 1, 2, 3, 4]})
        game = env._table.get_state()["game"]
        assert cards.count(game["given"][0]) == 2 and cards.count(game["given"][1]) == 1
        gifts.add(int(game["given"][0]))
    assert len(gifts) > 15


def test_after_an_error_of_an_opponent_an_action_is_not_played_for_it() -> None:
    class Breaking(Highest):
        is_broken = False

        def choose(self, view: Game) -> int:
            if self.is_broken:
                raise ConnectionError("the line is cut")
            return super().choose(view)

    opponent = Breaking()
    env = make(opponents=opponent, seat=0)
    _, info = env.reset(seed=1)
    opponent.is_broken = True
    with pytest.raises(ConnectionError):
        env.step(int(np.flatnonzero(info["action_mask"])[-1]))
    with pytest.raises(ResetNeeded):
        env.step(0)


def test_an_opponent_that_has_a_length_of_0_plays() -> None:
    class Counted(Highest):
        def __len__(self) -> int:
            return 0

    opponent = Counted()
    make(opponents=opponent, seat=0).reset(seed=1)
    assert opponent.views


def test_opponents_may_be_a_list() -> None:
    one = Highest()
    env = make(seat=4, opponents=[one, None, one, None])
    env.reset(seed=1)
    play_seat(env, 50, 1)
    assert {int(view["viewer"]) for view in one.views} == {0, 2}
    with pytest.raises(ValueError, match="player"):
        make(opponents="nobody")
    for opponents in (3, [one] * 3, [one, one, one, 5], object()):
        with pytest.raises(ValueError, match=r"opponents|player"):
            make(opponents=opponents)


@pytest.mark.parametrize("name", ["policy,temperature=1", "mc,playouts=5", "random"])
def test_opponents_by_name_follow_the_seed_of_the_reset(name: str) -> None:
    """So they do in later episodes, which have no seed of their own."""

    def episodes(env: DaihinminEnv, seed: int) -> list[object]:
        env.reset(seed=seed)
        first = play_seat(env, 12, 1)
        env.reset()
        return [*first, *play_seat(env, 12, 1)]

    env, other = (make(seat=0, opponents=name) for _ in range(2))
    played = episodes(env, 1)
    assert_same(played, episodes(other, 1))
    assert_same(played, episodes(env, 1))
    with pytest.raises(AssertionError):
        assert_same(played, episodes(env, 2))


def test_opponents_by_name_are_a_player_for_each_seat() -> None:
    env = make(seat=0, opponents="mc,playouts=5")
    env.reset(seed=1)
    assert len(set(map(id, env._players.values()))) == 4


def test_a_random_seat_is_drawn_for_each_episode() -> None:
    env = make()
    seats = [env.reset(seed=4)[1]["player"], *(env.reset()[1]["player"] for _ in range(40))]
    assert set(seats) == {0, 1, 2, 3, 4}
    again = [env.reset(seed=4)[1]["player"], *(env.reset()[1]["player"] for _ in range(40))]
    assert seats == again
    fixed = make(seat=2)
    assert {fixed.reset()[1]["player"] for _ in range(5)} == {2}


@pytest.mark.parametrize(
    "settings",
    [
        *({}, {"seat": 1, "games": 3}, {"opponents": "random"}),
        {"opponents": ["random", None, "daihinmin-random", None]},
    ],
    ids=str,
)
def test_a_seed_determines_later_episodes(settings: dict[str, Any]) -> None:
    env, twin = make(**settings), make(**settings)
    assert_same(env.reset(seed=6), twin.reset(seed=6))
    expected = play_seat(env, 200, 1)
    assert_same(play_seat(twin, 200, 1), expected)
    twin.reset(seed=6)
    assert_same(play_seat(twin, 200, 1), expected)
    assert not np.array_equal(env.reset(seed=7)[0], env.reset(seed=8)[0])


def test_reset_accepts_a_deal() -> None:
    table = raw_env()
    table.reset(seed=1)
    deal = [cards.text(hand) for hand in table.get_state()["game"]["hands"]]
    env = make(seat=1)
    env.reset(seed=2, options={"deal": deal, "classes": [4, 0, 1, 2, 3]})
    view = env.view()
    held = cards.parse(deal[1]) | cards.strongest(cards.parse(deal[0]), 2)
    assert view["to_give"] == 2 and int(view["hands"][1]) == held
    with pytest.raises(ValueError, match="deal"):
        env.reset(options={"deal": deal[:4]})
    assert env.view() == view  # the game is unchanged


def test_an_illegal_action_is_a_pass() -> None:
    env, twin = make(seat=0), make(seat=0)
    for each in (env, twin):
        each.reset(seed=3)
    illegal = int(np.flatnonzero(~env.action_masks())[-1])
    *first, info = env.step(illegal)
    *second, other = twin.step(plays.PASS)
    assert_same(first, second)
    assert (info["play"], info["legal"], other["legal"]) == ("pass", False, True)


def test_an_illegal_action_ends_the_episode_with_terminate() -> None:
    env = make(seat=0, illegal="terminate")
    before, _ = env.reset(seed=3)
    observation, reward, terminated, truncated, info = env.step(2421)
    assert_same(observation, before)
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert (info["play"], info["legal"]) == ("pass", False)
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset()
    play_seat(env, 100, 1)


def test_an_illegal_action_does_not_repeat_the_place_of_the_game_before() -> None:
    env = make(seat=0, illegal="terminate", games=2)
    vector = gym.make_vec("Daihinmin-v0", num_envs=1, seat=0, illegal="terminate", games=2)
    env.reset(seed=3)
    vector.reset(seed=3)
    info: dict[str, Any] = {}
    while "place" not in info:
        action = int(np.flatnonzero(env.action_masks())[-1])
        info = env.step(action)[4]
        infos = vector.step(np.array([action]))[4]
    assert bool(infos["_place"][0]) and int(infos["place"][0]) == info["place"]
    *_, terminated, _, info = env.step(2421)
    *_, infos = vector.step(np.array([2421]))
    assert terminated and "place" not in info and not infos["_place"][0]


def test_an_illegal_action_raises_an_error_with_raise() -> None:
    env, twin = make(illegal="raise", games=2), make(illegal="raise", games=2)
    for each in (env, twin):
        each.reset(seed=3)
    for action in np.flatnonzero(~env.action_masks())[::200]:
        with pytest.raises(ValueError, match="action"):
            env.step(action)
    for wrong in (-1, 2422, 0.5, None, True):
        with pytest.raises(ValueError, match="action"):
            env.step(wrong)  # type: ignore[arg-type]
    assert_same(play_seat(env, 200, 1), play_seat(twin, 200, 1))


def test_an_illegal_gift_costs_the_strongest_cards() -> None:
    env = make(seat=3)
    env.reset(seed=1, options={"classes": [1, 2, 3, 0, 4]})
    strongest = cards.strongest(env.view()["hands"][3], 2)
    _, _, _, _, info = env.step(0)
    assert info["play"] == f"gives {cards.text(strongest)}" and info["legal"] is False


def test_pictures_hide_the_cards_of_others() -> None:
    pytest.importorskip("PIL")
    from afterstate.envs.daihinmin import render

    env = make(seat=1, render_mode="ansi")
    env.reset(seed=1)
    play_seat(env, 3, 1)
    assert env.render() == render.ansi(env.view())
    assert env.render().count("??") == sum(
        int(env.view()["left"][p]) - cards.count(views.known_cards(env.view(), p))
        for p in (0, 2, 3, 4)
    )
    picture = make(seat=1, render_mode="rgb_array")
    picture.reset(seed=1)
    play_seat(picture, 3, 1)
    assert_same(picture.render(), render.rgb_array(picture.view()))


def test_methods_need_a_reset() -> None:
    env = DaihinminEnv(render_mode="ansi")
    methods: list[Callable[[], Any]] = [
        env.action_masks,
        env.view,
        env.render,
        lambda: env.step(0),
    ]
    for method in methods:
        with pytest.raises(ResetNeeded, match="reset"):
            method()


@pytest.mark.parametrize(
    "seat",
    [
        *(5, -1, True, 1.0, "first", None, np.ma.masked, np.zeros(2, "i4,i4")),
        np.broadcast_to(np.zeros(1), 1 << 50),
    ],
    ids=str,
)
def test_a_wrong_seat_raises_an_error(seat: Any) -> None:
    with pytest.raises(ValueError, match="seat"):
        DaihinminEnv(seat=seat)


# stable-baselines3


@pytest.mark.usefixtures("one_thread")
def test_maskable_ppo_learns_and_plays_legal_actions_only() -> None:
    """An illegal action would raise."""
    pytest.importorskip("stable_baselines3")
    maskable = pytest.importorskip("sb3_contrib")
    from sb3_contrib.common.maskable.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    env = Monitor(gym.make("Daihinmin-v0", opponents=Highest(), illegal="raise", games=2))
    model = maskable.MaskablePPO(
        "MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=1, seed=1, device="cpu"
    )
    before = [weights.clone() for weights in model.policy.parameters()]
    model.learn(128)
    assert model.num_timesteps == 128
    after = model.policy.parameters()
    assert any((old != new).any() for old, new in zip(before, after, strict=True))
    mean, _ = evaluate_policy(model, env, n_eval_episodes=3)
    assert 2 <= float(np.mean(mean)) <= 10


@pytest.mark.parametrize("seed", [-1, 1.5, "a", [1], True])
def test_wrong_seeds_are_refused_as_by_the_other_environments(seed: Any) -> None:
    with pytest.raises(ValueError, match="seed must be"):
        DaihinminEnv().reset(seed=seed)


def test_seeds_of_numpy_are_those_of_python() -> None:
    seeds: list[Any] = [3, np.int64(3)]
    first, second = (DaihinminEnv().reset(seed=seed)[0] for seed in seeds)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("options", [{"deals": None}, {"reset_mask": None}, "deal", 1])
def test_unknown_reset_options_raise_errors(options: Any) -> None:
    with pytest.raises(ValueError, match="options must be a dict with deal, classes, seats only"):
        DaihinminEnv().reset(options=options)


@pytest.mark.parametrize("seed", [None, 7])
def test_a_refused_reset_changes_nothing(seed: int | None) -> None:
    """The next episode has the same deal and seat as without the refused one."""
    envs = [DaihinminEnv() for _ in range(2)]
    for env in envs:
        env.reset(seed=1)
    with pytest.raises(ValueError, match="deal"):
        envs[0].reset(seed=seed, options={"deal": 1})
    (first, _), (second, _) = (env.reset() for env in envs)
    assert (first == second).all()
    assert envs[0].agent == envs[1].agent

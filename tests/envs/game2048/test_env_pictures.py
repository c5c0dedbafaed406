"""`Game2048Env` as text, as pixels, in a window and as a video."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, call

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest
from gymnasium.wrappers import RecordVideo

from afterstate.envs.game2048 import render
from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.rules import LEFT, UP
from tests.support.env_checks import (
    FULL,
    ONLY_SIDEWAYS,
    assert_same,
    by_observation,
    copied,
    make,
    on_board,
    pickled,
)


def test_ansi_shows_board_and_score() -> None:
    env = on_board([[1, 1], [0, 17]], render_mode="ansi")
    assert env.render() == render.ansi([[1, 1], [0, 17]], 0)
    board, *_, info = env.step(LEFT)
    assert env.render() == render.ansi(board, info["score"])
    assert "score 4" in env.render() and "131072" in env.render()


@by_observation
def test_rgb_array_shows_board_and_score(observation: str) -> None:
    pytest.importorskip("PIL")
    env = on_board(ONLY_SIDEWAYS, render_mode="rgb_array", observation=observation)
    *_, info = env.step(LEFT)
    picture = env.render()
    board = env.get_state()["board"]
    assert_same(picture, render.rgb_array(board, info["score"]))
    picture[:] = 0
    assert_same(env.render(), render.rgb_array(board, info["score"]))


def test_render_without_a_mode_warns_and_returns_none() -> None:
    env = on_board(FULL)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


def test_human_mode_shows_each_board_and_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(Game2048Env.metadata, "render_fps", 1_000)

    def shown() -> npt.NDArray[Any]:
        pixels: npt.NDArray[Any] = pygame.surfarray.array3d(pygame.display.get_surface())
        return pixels.swapaxes(0, 1)

    env = Game2048Env(render_mode="human")
    board, info = env.reset(seed=1)
    np.testing.assert_array_equal(shown(), render.rgb_array(board, 0))
    for action in (0, 1, 2, 3) * 3:
        board, *_, info = env.step(action)
        np.testing.assert_array_equal(shown(), render.rgb_array(board, info["score"]))
        assert env.render() is None
    env.close()
    env.close()
    assert not pygame.display.get_init()
    env.reset(seed=1)
    assert pygame.display.get_init()
    env.close()


def test_human_mode_waits_by_the_frame_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame = pytest.importorskip("pygame")
    clock = MagicMock()
    monkeypatch.setattr(pygame.time, "Clock", lambda: clock)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(Game2048Env.metadata, "render_fps", 100)
    env = Game2048Env(render_mode="human")
    env.reset(seed=1)
    env.step(0)
    env.close()
    assert clock.tick.mock_calls == [call(100)] * 2


def test_an_environment_with_a_window_is_copied_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env, text = make(render_mode="human"), make()
    env.reset(seed=1)
    text.reset(seed=1)
    expected = text.step(UP)
    twins = [copied(env), pickled(env)]
    env.close()
    for twin in twins:
        assert_same(twin.step(UP), expected)
        twin.close()


@pytest.mark.slow
def test_a_video_is_recorded(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    pytest.importorskip("PIL")
    env: Any = RecordVideo(
        gym.make("Game2048-v0", size=(2, 2), render_mode="rgb_array"), str(tmp_path / "videos")
    )
    env.reset(seed=1)
    while not env.step(int(env.action_space.sample()))[2]:
        pass
    env.close()
    (video,) = tmp_path.glob("videos/*.mp4")
    assert video.stat().st_size > 1_000


def test_gymnasium_plays_by_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    utils = pytest.importorskip("gymnasium.utils.play")
    env = gym.make("Game2048-v0", render_mode="rgb_array")
    env.reset(seed=1)
    game = utils.PlayableGame(env)
    assert game.relevant_keys == {"w", "a", "s", "d"}
    directions = [env.get_wrapper_attr("get_keys_to_action")()[key] for key in "wdsa"]
    assert directions == [0, 1, 2, 3]

"""Pictures of Daihinmin as text and pixels, and the render modes of its environment."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gymnasium.error import DependencyNotInstalled

from afterstate.envs.daihinmin import cards, plays, render
from afterstate.envs.daihinmin.env import raw_env
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.rules import Game, advance, draw_play, give, lay, play, submit
from afterstate.envs.daihinmin.views import view
from tests.support.env_checks import assert_same, by_duplicate


def matches(n_games: int) -> list[Game]:
    """Return the positions of a random match, including the ends of games."""
    match, out = new_match(1), np.empty(plays.N_PLAYS, np.int64)
    games: list[Game] = []
    for _ in range(n_games):
        next_game(match)
        while match["turn"] >= 0:
            games.append(match.copy())
            if match["to_give"]:
                give(match, cards.weakest(match["hands"][match["turn"]], int(match["to_give"])))
            else:
                play(match, draw_play(match, out))
        games.append(match.copy())
    return games


def dealt() -> Game:
    """Return the first game of a match, with player_0 in turn and seats by number."""
    game = new_match(1)
    next_game(game)
    game["seats"] = range(5)
    game["turn"] = 0
    return game


def test_text_shows_the_table() -> None:
    game = dealt()
    hands = [cards.parse(text) for text in ("S3 JO H8", "D3 D4", "", "C2", "H5 S6")]
    game["hands"], game["left"] = hands, [3, 2, 0, 1, 2]
    game["classes"], game["places"] = [4, 3, 2, 1, 0], [-1, -1, 0, -1, -1]
    game["passed"], game["number"], game["turn"] = 0b01000, 12, 1
    game["actions"][:2] = [3 * plays.N_PLAYS, 2 * plays.N_PLAYS + plays.parse("S4 JO=C4")]
    game["n_actions"], game["last"] = 2, 2
    game["field"], game["revolution"] = plays.parse("S4 JO=C4"), 1
    assert render.ansi(game, names=["Aki", "Ben", "Chie", "Dai", "Emi"]) == "\n".join(
        [
            "game 12, revolution",
            "field  S4 JO=C4 of Chie",
            "  player     class      cards          hand",
            "  Aki        daihinmin      3          S3 JO H8",
            "> Ben        hinmin         2          D3 D4",
            "  Chie       heimin         0  1st",
            "  Dai        fugo           1  passed  C2",
            "  Emi        daifugo        2          H5 S6",
            "last   Dai pass, Chie S4 JO=C4",
        ]
    )


def test_text_describes_gifts_leads_and_the_end() -> None:
    game = dealt()
    assert "field  empty, to lead: player_0" in render.ansi(game)
    game["to_give"], game["gift"] = 2, cards.parse("H8")
    assert "field  player_0 gives 2, has chosen H8" in render.ansi(game)
    assert "has chosen" not in render.ansi(view(game, 1))
    game["to_give"], game["turn"], game["lock"] = 0, -1, 1
    assert render.ansi(game).startswith("game 1, lock\nfield  the game is over\n")


@pytest.mark.slow
def test_text_fits_into_80_columns_and_shows_all_cards() -> None:
    for game in matches(6):
        text = render.ansi(game)
        assert max(map(len, text.split("\n"))) <= 80
        rows = text.split("\n")[3:8]
        assert sum(row.startswith(">") for row in rows) == (game["turn"] >= 0)
        named = [row.split()[0 if row[0] == " " else 1] for row in rows]
        seats = game["seats"].tolist()
        at = seats.index(0)
        assert named == [f"player_{player}" for player in seats[at:] + seats[:at]]
        for row, name in zip(rows, named, strict=True):
            hand = cards.text(game["hands"][int(name[-1])])
            assert row.endswith(f"  {hand}" if hand else ("1st", "2nd", "3rd", "4th", "5th"))


def test_text_of_a_view_hides_the_other_hands() -> None:
    for game in matches(3)[::7]:
        for player in range(5):
            seen = view(game, player)
            text = render.ansi(seen)
            assert cards.text(game["hands"][player]) in text.split("\n")[3]
            hidden = sum(int(game["left"][other]) for other in range(5) if other != player)
            known = hidden - text.count("??")
            assert 0 <= known <= 3  # the diamond 3 and the gift


def test_pictures_have_one_size_and_are_copies() -> None:
    pytest.importorskip("PIL")
    game = dealt()
    picture = render.rgb_array(game)
    assert picture.shape == (render.HEIGHT, render.WIDTH, 3) == (640, 960, 3)
    assert picture.dtype == np.uint8
    before = picture.copy()
    picture[:] = 0
    assert_same(render.rgb_array(game), before)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the texts that are written into pictures from here on."""
    pytest.importorskip("PIL")
    texts, write = list[str](), render._write

    def record(image: Any, at: Any, text: str, *more: Any) -> None:
        texts.append(text)
        write(image, at, text, *more)

    monkeypatch.setattr(render, "_write", record)
    return texts


def test_pictures_have_class_and_points_of_each_player(written: list[str]) -> None:
    game = dealt()
    render.rgb_array(game)
    assert written.count("0 points") == 5
    written.clear()
    game["classes"], game["points"] = [4, 3, 2, 1, 0], [1, 20, 300, 4000, 5]
    render.rgb_array(game)
    shown = [text for text in written if "point" in text]
    classes = [*render.CLASSES[::-1]]
    points = ["1 point", "20 points", "300 points", "4000 points", "5 points"]
    assert shown == [f"{a}, {b}" for a, b in zip(classes, points, strict=True)]


def test_names_end_before_class_and_points(written: list[str]) -> None:
    game = dealt()
    game["classes"], game["points"] = [4, 3, 2, 1, 0], [1, 20, 300, 12_345, 5]
    names = ["heuristic", "W" * 500, "♠♥ two words and more", "daihinmin-mc-rank", "i" * 50]
    render.rgb_array(game, names)
    shown = [text for text, next_ in pairwise(written) if "point" in next_]
    assert shown[0] == "heuristic"
    for name, text in zip(names[1:], shown[1:], strict=True):
        assert text.endswith("…") and name.startswith(text[:-1]) and 5 < len(text) < 50


def test_pictures_write_plays_as_on_cards(written: list[str]) -> None:
    game = dealt()
    game["hands"][0] = cards.DECK
    lay(game, plays.parse("ST JO=CT"))
    render.rgb_array(game)
    assert {"10♠ joker=10♣", "10♠ joker=10♣ of player_0"} <= {*written}
    game["to_give"], game["gift"] = 2, cards.parse("JO H2")
    written.clear()
    render.rgb_array(game)
    assert "player_0 gives 2, has chosen joker 2♥" in written


@pytest.mark.slow
def test_pictures_have_the_actions_of_this_trick(written: list[str]) -> None:
    """Those of the trick before, while the table is empty."""
    game, out = dealt(), np.empty(plays.N_PLAYS, np.int64)
    trick, has_ended = dict[int, str](), False
    while game["turn"] >= 0:
        player, action = int(game["turn"]), draw_play(game, out)
        trick = {} if has_ended else trick
        trick[player] = render._as_on_cards(plays.text(action))
        submit(game, action)
        has_ended = advance(game)
        written.clear()
        render.rgb_array(game)
        below = [text for text in written if text == "" or text in trick.values()]
        assert below == [trick.get(player, "") for player in range(5)]


def test_every_card_looks_different() -> None:
    pytest.importorskip("PIL")
    for size in (render._CARD, render._FIELD_CARD):
        faces: list[int | None] = [*range(53), None]
        pictures = {np.array(render._card(face, "", size)).tobytes() for face in faces}
        assert len(pictures) == 54
    corners = set()
    for card in range(53):
        shown = np.array(render._card(card, "", render._CARD))[:, : render._FAN]
        corners.add(shown[: render._CARD[1] // 2].tobytes())
    assert len(corners) == 53  # also in a fan


@pytest.mark.parametrize(
    "change",
    [
        {"revolution": 1},
        {"lock": 1},
        {"turn": 3},
        {"passed": 4},
        {"number": 2},
        {"field": plays.parse("S5 JO=H5")},
        {"classes": [0, 1, 2, 3, 4]},
        {"places": [-1, -1, 0, -1, -1]},
        {"seats": [0, 2, 1, 3, 4]},
        {"hands": [0, 0, 0, 0, 1 << 52]},
        {"n_actions": 1},
    ],
    ids=str,
)
def test_pictures_show_every_change(change: dict[str, Any]) -> None:
    pytest.importorskip("PIL")
    game, other = dealt(), dealt()
    for name, value in change.items():
        other[name] = value
    assert not np.array_equal(render.rgb_array(game), render.rgb_array(other))
    assert render.ansi(game) != render.ansi(other)


def test_every_kind_of_play_can_be_drawn() -> None:
    pytest.importorskip("PIL")
    texts = ("JO", "S8", "S3 JO=H3", "S4 H4 D4 C4 JO=X4", "JO=S- S3 S4", "HA H2 JO=H+")
    long = "C3 C4 C5 C6 C7 C8 C9 CT CJ CQ CK"
    pictures = set()
    for text in (*texts, long):
        game = dealt()
        game["hands"][0] = cards.DECK
        lay(game, plays.parse(text))
        pictures.add(render.rgb_array(game).tobytes())
    assert len(pictures) == 7


def test_errors_name_the_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    render._pillow.cache_clear()
    render._table.cache_clear()
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    game = dealt()
    assert render.ansi(game)
    with pytest.raises(DependencyNotInstalled, match=r'pip install "afterstate\[render\]"'):
        render.rgb_array(game)


def test_environments_draw_all_hands_or_the_view_of_one_agent() -> None:
    pytest.importorskip("PIL")
    for mode, draw in (("ansi", render.ansi), ("rgb_array", render.rgb_array)):
        env = raw_env(render_mode=mode)
        env.reset(seed=1)
        game = env.get_state()["game"]
        assert_same(env.render(), draw(game))
        env.shown_to = "player_3"
        assert_same(env.render(), draw(view(game, 3)))


def test_render_without_a_mode_warns_and_returns_none() -> None:
    env = raw_env()
    env.reset(seed=1)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


def test_human_mode_shows_each_action_and_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame = pytest.importorskip("pygame")
    pytest.importorskip("PIL")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(raw_env.metadata, "render_fps", 1_000)

    def shown() -> npt.NDArray[Any]:
        pixels: npt.NDArray[Any] = pygame.surfarray.array3d(pygame.display.get_surface())
        return pixels.swapaxes(0, 1)

    env = raw_env(render_mode="human")
    env.reset(seed=1)
    for _ in range(5):
        np.testing.assert_array_equal(shown(), render.rgb_array(env.get_state()["game"]))
        env.step(int(np.flatnonzero(env.last()[0]["action_mask"])[-1]))
    assert env.render() is None
    env.close()
    env.close()
    assert not pygame.display.get_init()


@by_duplicate
def test_an_environment_with_a_window_is_copied_without_it(
    duplicate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pygame")
    pytest.importorskip("PIL")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(raw_env.metadata, "render_fps", 1_000)
    env = raw_env(render_mode="human")
    env.reset(seed=1)
    twin = duplicate(env)
    env.close()
    twin.step(0)
    twin.close()

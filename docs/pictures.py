"""Draw the pictures of the page on the rules of Daihinmin, from positions that the rules reach.

    python docs/pictures.py

Each scene is a deal and the plays of its players. The rules play them and check what the page says
about them, then `envs/daihinmin/render.py` draws the table. A test plays the scenes as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from afterstate.envs import daihinmin_v0
from afterstate.envs.daihinmin import cards, plays, render, rules, views
from afterstate.envs.daihinmin.rules import Game

FOLDER = Path(__file__).parent / "pictures"
NAMES = ("Ann", "Bob", "Cora", "Dan", "Eva")
"""Names of the players, by number; they sit and play in this order."""
FIELD = (332, 240, 628, 422)
"""The middle of the table: left, top, right and bottom in pixels."""
COLORS = 48


class Scene(NamedTuple):
    """A deal, and what is played; `Ann` has the 3 of diamonds and leads."""

    hands: tuple[str, ...]
    """Cards that the players hold at least, in their order."""
    moves: tuple[tuple[str, str], ...]
    """A play of the player in turn, and what the position must be after it, see `check`."""


SCENES = {
    "single": Scene(
        ("D3 D5", "S9", "HK"),
        (("D5", "field"), ("S9", "field"), ("HK", "field")),
    ),
    "group": Scene(
        ("D3 S6 H6", "D9 C9", "SK DK HK"),
        (("S6 H6", "field"), ("D9 C9", "field"), ("SK DK", "field")),
    ),
    "sequence": Scene(
        ("D3 H4 H5 H6", "S9 ST SJ", "DQ DK DA"),
        (("H4 H5 H6", "field"), ("S9 ST SJ", "field"), ("DQ DK DA", "field")),
    ),
    "trick": Scene(
        ("D3 D5 SA", "CQ"),
        (
            ("D5", "field"),
            ("CQ", "field"),
            ("pass", ""),
            ("pass", ""),
            ("pass", ""),
            ("pass", "asked Bob"),
            ("pass", "empty Bob"),
        ),
    ),
    "eight": Scene(
        ("D3 D6", "C8"),
        (("D6", "field"), ("C8", "cut"), ("", "empty Bob")),
    ),
    "lock": Scene(
        ("D3 D5", "D9", "DK SA CA"),
        (("D5", "field"), ("D9", "lock"), ("DK", "lock")),
    ),
    "revolution": Scene(
        ("D3 S6 H6 D6 C6 DJ", "S9", "H5 HK"),
        (
            ("S6 H6 D6 C6", "revolution"),
            *[("pass", "")] * 5,
            ("DJ", "revolution"),
            ("S9", "revolution"),
            ("H5", "revolution"),
        ),
    ),
    "joker": Scene(
        ("D3 SJ", "C2", "JO"),
        (("SJ", "field"), ("C2", "field"), ("JO", "field")),
    ),
    "joker_group": Scene(
        ("D3 S4 H4", "JO CT"),
        (("S4 H4", "field"), ("CT JO=DT", "field")),
    ),
    "joker_sequence": Scene(
        ("D3 H5 H6 H7", "ST SQ JO"),
        (("H5 H6 H7", ""), ("ST JO=SJ SQ", "field")),
    ),
    "spade_3": Scene(
        ("D3 C2", "JO", "S3"),
        (("C2", "field"), ("JO", "field"), ("S3", "cut"), ("", "empty Cora")),
    ),
}


def deal(hands: tuple[str, ...]) -> list[str]:
    """Return five whole hands: the given cards, and others in a fixed random order."""
    pack = np.random.default_rng(7).permutation(cards.N_CARDS).tolist()
    wanted = [[cards.CARD_NUMBERS[name] for name in hand.split()] for hand in hands]
    wanted += [[] for _ in range(5 - len(hands))]
    rest = [card for card in pack if all(card not in hand for hand in wanted)]
    for number, hand in enumerate(wanted):
        while len(hand) < 10 + (number < 3):
            hand.append(rest.pop())
    return [" ".join(map(cards.card_text, hand)) for hand in wanted]


def new_game(hands: tuple[str, ...], classes: list[int] | None = None) -> Game:
    """Return a game with at least these cards, and with classes if they are given."""
    env = daihinmin_v0.raw_env()
    options = {"deal": deal(hands), "seats": [0, 1, 2, 3, 4]}
    env.reset(seed=1, options={**options, **({"classes": classes} if classes else {})})
    game: Game = env.get_state()["game"]
    return game


def check(game: Game, expected: str, play: str) -> None:
    """Raise AssertionError unless a position is as expected.

    Args:
        game: the position after a play.
        expected: `field`, the play lies there; `lock`, `cut` or `revolution`, that holds as well
            with no other flag; `asked` or `empty` and a name, that player is in turn, with a play
            on the field or with an empty one; an empty text, nothing.
        play: the play.
    """
    state, _, name = expected.partition(" ")
    if state in ("asked", "empty"):
        assert NAMES[game["turn"]] == name
        assert (game["field"] == plays.PASS) == (state == "empty")
    elif state:
        assert plays.text(game["field"]) == play
        assert {flag: bool(game[flag]) for flag in ("lock", "cut", "revolution")} == {
            flag: flag == state for flag in ("lock", "cut", "revolution")
        }


def positions(scene: Scene) -> Iterator[Game]:
    """Yield the positions of a scene that are worth a picture, all checked."""
    game = new_game(scene.hands)
    for text, expected in scene.moves:
        if text:
            answer = rules.submit(game, plays.parse(text))
            assert (answer == rules.ACCEPTED) == (text != "pass" or game["field"] == plays.PASS)
        if "cut" not in expected:
            rules.advance(game)
        check(game, expected, plays.text(plays.parse(text)) if text else "")
        if expected:
            yield game


def legal(scene: Scene, n: int) -> list[str]:
    """Return the legal plays, besides the pass, after the `n` first moves of a scene."""
    shorter = scene._replace(moves=scene.moves[:n])
    *_, game = positions(shorter)
    return [plays.text(play) for play in views.legal_plays(game)]


def exchange() -> tuple[Game, Game]:
    """Return a game before and after the gifts of daifugo and fugo."""
    hands = ("D3 C4 S5", "H3 S4", "H7", "SA HK", "JO D2")
    before = new_game(hands, [0, 1, 2, 3, 4])
    after = before.copy()
    assert int(after["hands"][0]) & cards.parse("JO D2") == cards.parse("JO D2")
    assert rules.give(after, cards.parse("C4 S5"))
    assert rules.give(after, cards.weakest(after["hands"][1], 1))
    assert after["to_give"] == 0 and after["turn"] == 0
    return before, after


def over() -> Game:
    """Return a game at its end, played at random."""
    game = new_game(("D3",))
    rules.play_out(game, np.empty(plays.N_PLAYS, np.int64))
    return game


def save(game: Game, name: str, box: tuple[int, int, int, int] | None = None) -> None:
    """Write a picture of the table, or of a part of it."""
    image = Image.fromarray(render.rgb_array(game, NAMES))
    small = (image.crop(box) if box else image).quantize(COLORS)
    small.save(FOLDER / f"{name}.png", optimize=True)


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, scene in SCENES.items():
        for n, game in enumerate(positions(scene), 1):
            save(game, f"{name}_{n}", FIELD)
    *_, asked, _ = (game.copy() for game in positions(SCENES["trick"]))
    save(views.view(asked, 0), "table")
    for name, game in zip(("exchange_1", "exchange_2"), exchange(), strict=True):
        save(game, name)
    save(over(), "over")


if __name__ == "__main__":
    main()

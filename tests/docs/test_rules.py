"""The positions in the pictures of the page on Daihinmin's rules are what the page says."""

from __future__ import annotations

import re
import runpy
from typing import Any

import pytest

from tests.docs.run_page import ROOT

pytest.importorskip("PIL")

PICTURES: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "pictures.py"))
SCENES = PICTURES["SCENES"]


@pytest.mark.parametrize("name", SCENES)
def test_rules_play_the_scenes(name: str) -> None:
    n = len(list(PICTURES["positions"](SCENES[name])))  # checks each position
    drawn = [path.stem for path in (ROOT / "docs" / "pictures").glob(f"{name}_[0-9].png")]
    assert sorted(drawn) == [f"{name}_{i}" for i in range(1, n + 1)]


def test_a_lock_forbids_the_aces_of_other_suits() -> None:
    legal = PICTURES["legal"](SCENES["lock"], 2)
    assert "DK" in legal
    assert all(play[0] == "D" for play in set(legal) - {"JO"})


def test_only_the_spade_3_beats_the_joker() -> None:
    assert PICTURES["legal"](SCENES["spade_3"], 2) == ["S3"]


def test_sequences_must_not_overlap() -> None:
    scene = SCENES["sequence"]._replace(hands=("D3 H4 H5 H6", "S6 S7 S8 S5"))
    assert PICTURES["legal"](scene, 1) == []


def test_an_8_must_be_stronger_than_the_field() -> None:
    scene = PICTURES["Scene"](("D3 D9", "C8 S8"), (("D9", "field"),))
    assert not {"C8", "S8"} & set(PICTURES["legal"](scene, 1))


def test_the_exchange_and_the_end() -> None:
    before, after = PICTURES["exchange"]()
    assert before["left"].tolist() == [13, 12, 11, 9, 8]
    assert sorted(after["left"]) == [10, 10, 11, 11, 11]
    assert sorted(PICTURES["over"]()["places"]) == [0, 1, 2, 3, 4]


def test_the_page_shows_pictures_that_exist() -> None:
    text = (ROOT / "docs" / "rules" / "daihinmin.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"pictures/(\w+)\.png", text))
    drawn = {path.stem for path in (ROOT / "docs" / "pictures").glob("*.png")}
    assert shown == drawn

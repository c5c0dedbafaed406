"""A permutation of hearts, diamonds and clubs changes only names."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from afterstate.agents.daihinmin.afterstates.chains import afterstates
from afterstate.agents.daihinmin.afterstates.symmetry import N_SYMMETRIES, permute_suits, permuted
from afterstate.agents.daihinmin.values.encoding import planes
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.rules import Game, draw_play, give, play


def renamed(text: str, symmetry: int) -> str:
    """Return a notation in other suits, by the n-th permutation of H, D and C."""
    letters = list(permutations("HDC"))[symmetry]
    return text.translate(str.maketrans("HDC", "".join(letters)))


def random_games(n: int) -> list[Game]:
    """Return unfinished games."""
    rng = np.random.default_rng(5)
    out: list[Game] = []
    listed = np.empty(plays.N_PLAYS, np.int64)
    while len(out) < n:
        match = new_match(int(rng.integers(2**62)))
        next_game(match)
        while match["to_give"]:
            give(match, 0)
        for _ in range(int(rng.integers(40))):
            if match["turn"] >= 0:
                play(match, draw_play(match, listed))
        if match["turn"] >= 0:
            out.append(match)
    return out


@pytest.mark.parametrize("symmetry", range(N_SYMMETRIES))
def test_cards_change_their_suits_as_the_permutations_of_three_letters(symmetry: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        hand = int(rng.integers(1 << cards.N_CARDS))
        names = renamed(cards.text(hand), symmetry)
        assert permute_suits(np.uint64(hand), symmetry) == cards.parse(names)


@pytest.mark.parametrize("symmetry", range(N_SYMMETRIES))
def test_legal_plays_in_other_suits_are_the_legal_plays_renamed(symmetry: int) -> None:
    rng, out = np.random.default_rng(2), np.empty(plays.N_PLAYS, np.int64)
    for _ in range(300):
        hand = sum(1 << int(c) for c in rng.choice(cards.N_CARDS, 11, replace=False))
        field = int(rng.integers(plays.N_PLAYS)) if rng.random() < 0.7 else 0
        revolution, lock = (bool(x) for x in rng.random(2) < 0.5)
        n = plays.write_plays(np.uint64(hand), field, revolution, lock, True, out)
        wanted = {plays.parse(renamed(plays.text(int(p)), symmetry)) for p in out[:n]}
        other_field = plays.parse(renamed(plays.text(field), symmetry))
        other_hand = permute_suits(np.uint64(hand), symmetry)
        n = plays.write_plays(np.uint64(other_hand), other_field, revolution, lock, True, out)
        assert set(map(int, out[:n])) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("symmetry", range(N_SYMMETRIES))
def test_afterstates_of_a_game_in_other_suits_are_the_permuted_afterstates(symmetry: int) -> None:
    for game in random_games(40):
        here = afterstates(game)
        there = game.copy()
        for name in ("hands", "played", "given"):
            there[name] = [permute_suits(np.uint64(word), symmetry) for word in game[name]]
        there["field"] = plays.parse(renamed(plays.text(int(game["field"])), symmetry))
        wanted = permuted(here, np.full(len(here), symmetry))
        wanted["play"] = 0
        turned = afterstates(there)
        turned["play"] = 0
        assert set(map(str, turned)) == set(map(str, wanted))


def test_planes_keep_spades_and_permute_the_other_rows_of_each_image() -> None:
    after = np.concatenate([afterstates(game)[:1] for game in random_games(20)])
    first = list(permutations("HDC")).index(("D", "H", "C"))
    drawn = planes(permuted(after, np.full(len(after), first)))
    before = planes(after)
    for image in (13, 18, 36, *range(41, 66, 5), *range(131, 151, 5)):
        swapped = before[:, [image, image + 2, image + 1, image + 3, image + 4]]
        assert (drawn[:, image : image + 5] == swapped).all()
    same = [*range(13), 23, *range(24, 36), *range(66, 131)]
    assert (drawn[:, same] == before[:, same]).all()

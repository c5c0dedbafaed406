"""Policy networks of Daihinmin: legal and best actions, draws, and players by name and by file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")

import torch
from torch import nn

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.daihinmin.values import actor_net
from afterstate.agents.daihinmin.values.actor_net import ActorAgent
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.observation import view_mask, view_planes
from afterstate.envs.daihinmin.rules import Game, give, play
from afterstate.envs.daihinmin.views import view

pytestmark = pytest.mark.usefixtures("one_thread")


def logits_of(net: nn.Module, seen: Game) -> npt.NDArray[np.float64]:
    """Return the logits of a network for a view."""
    with torch.no_grad():
        logits = net(torch.as_tensor(view_planes(seen)[None]).float())[0]
    return np.asarray(logits.double().numpy())


@pytest.mark.slow
def test_choices_are_legal_and_the_best_without_temperature() -> None:
    net = actor_net.network("ActorMLP", hidden=8)
    best, drawn = ActorAgent(net), ActorAgent(net, temperature=1.0, seed=3)
    match, n_gifts = new_match(5), 0
    for _ in range(6):
        next_game(match)
        while (turn := int(match["turn"])) >= 0:
            seen, n = view(match, turn), int(match["to_give"])
            if n:
                gift, n_gifts = best.give(seen, n), n_gifts + 1
                assert gift.bit_count() == n
                assert gift & ~int(seen["hands"][turn]) == 0
                assert give(match, gift)
                continue
            legal, logits, move = view_mask(seen) == 1, logits_of(net, seen), best.choose(seen)
            assert legal[move]
            assert logits[move] == logits[legal].max()
            move = drawn.choose(seen)
            assert legal[move]
            play(match, move)
    assert n_gifts == 2 * 5


def test_a_whole_game_is_played_by_what_the_player_in_turn_sees() -> None:
    player = ActorAgent(actor_net.network("ActorMLP", hidden=8))
    match, n_moves = new_match(5), {"give": 0, "choose": 0}
    for _ in range(3):
        next_game(match)
        while match["turn"] >= 0:
            seen, n = view(match, int(match["turn"])), int(match["to_give"])
            if n:
                assert player.give(match, n) == player.give(seen, n)
                give(match, player.give(seen, n))
            else:
                assert player.choose(match) == player.choose(seen)
                play(match, player.choose(seen))
            n_moves["give" if n else "choose"] += 1
    assert min(n_moves.values()) > 3


def test_a_gift_of_which_cards_are_chosen_is_answered_whole() -> None:
    player, match = ActorAgent(actor_net.network("ActorMLP", hidden=8)), new_match(5)
    match["classes"], match["places"] = range(5), range(5)
    match["number"] = 1
    next_game(match)
    seen = view(match, int(match["turn"]))
    expected = player.give(seen, 2)
    for gift in (int(seen["hands"][seen["turn"]]), cards.weakest(seen["hands"][seen["turn"]], 1)):
        seen["gift"] = gift
        assert player.give(seen, 2) == expected


@pytest.mark.slow
def test_actions_are_drawn_by_their_probabilities() -> None:
    net = actor_net.network("ActorMLP", hidden=8)
    match = new_match(1)
    next_game(match)
    seen = view(match, int(match["turn"]))
    legal = np.flatnonzero(view_mask(seen))
    expected = np.exp(logits_of(net, seen)[legal] / 0.5)
    player = ActorAgent(net, temperature=0.5, seed=1)
    counts = np.bincount([player.choose(seen) for _ in range(4_000)], minlength=plays.N_PLAYS)
    assert counts[legal] / 4_000 == pytest.approx(expected / expected.sum(), abs=0.03)
    assert counts.sum() == counts[legal].sum()


def test_players_are_made_by_name_and_from_files(tmp_path: Path) -> None:
    net, file = actor_net.network("ActorMLP", hidden=4), tmp_path / "actor.safetensors"
    nets.save(net, file)
    for player in (agents.load(file), agents.make("daihinmin-actor", network=net, temperature=0.5)):
        assert isinstance(player, ActorAgent)
    assert nets.metadata(actor_net.PRETRAINED)["network"] == "ActorMLP"
    assert isinstance(agents.make("daihinmin-actor"), ActorAgent)
    with pytest.raises(ValueError, match="temperature"):
        agents.make("daihinmin-actor", network=net, temperature=-1)

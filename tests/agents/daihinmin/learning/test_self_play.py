"""Tests that games in parallel equal games that their players play one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")

import torch
from torch import nn

from afterstate.agents.daihinmin.afterstates.chains import afterstates
from afterstate.agents.daihinmin.afterstates.endgame import forced_win
from afterstate.agents.daihinmin.learning import self_play
from afterstate.agents.daihinmin.learning.game_records import Log
from afterstate.agents.daihinmin.learning.self_play import NET, GamePlayer, new_table, play_games
from afterstate.agents.daihinmin.play import play_match
from afterstate.agents.daihinmin.rule_based.players import HeuristicAgent, SampleAgent
from afterstate.agents.daihinmin.values.rank_net import RankAgent, network
from afterstate.agents.daihinmin.values.softmax_policy import (
    find_policy,
    new_workspace,
    weigh_options,
)
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.rules import GAME, Game, give, is_legal, play, write_legal
from afterstate.envs.daihinmin.views import view
from tests.support.daihinmin.logs import moves_of, same

pytestmark = pytest.mark.usefixtures("one_thread")


def net(seed: int = 1) -> nn.Module:
    """Return a small network with random weights."""
    torch.manual_seed(seed)
    net = network("FCNN", hidden=8)
    with torch.no_grad():
        for weights in net.parameters():
            weights.mul_(3)
    return net


def matches(log: Log) -> list[list[int]]:
    """Return the numbers of the games of each match, in order."""
    seeds = log.games["seed"]
    rows = [np.flatnonzero(seeds == seed) for seed in dict.fromkeys(seeds.tolist())]
    return [sorted(of.tolist(), key=lambda row: log.games["number"][row]) for of in rows]


def replayed(log: Log) -> Iterator[tuple[int, int, Game, int]]:
    """Replay all games by the rules; yield row, number of the action, game and move.

    In the exchange the number is -1 and the move is the gift. In the end it asserts that the
    record is that of the game.
    """
    for rows in matches(log):
        match = new_match(int(log.games["seed"][rows[0]]))
        for row in rows:
            record = log.games[row]
            next_game(match)
            while match["to_give"]:
                given = int(record["given"][match["turn"]])
                yield row, -1, match, given
                assert give(match, given)
            for k, (player, move) in enumerate(moves_of(record)):
                assert match["turn"] == player
                assert is_legal(match, move)
                yield row, k, match, move
                play(match, move)
            assert match["turn"] == -1
            for name in set(GAME.names or ()) - {"rng", "places", "points"}:
                assert np.array_equal(match[name], record[name]), name
            if (match["left"] == 0).sum() >= 4:  # otherwise places were drawn
                assert match["places"].tolist() == record["places"].tolist()
            match["places"], match["points"] = record["places"], record["points"]


# Games


def test_games_follow_the_rules_to_their_end() -> None:
    players: list[GamePlayer] = [net(1), net(2), "sample", net(1), "heuristic"]
    log = play_games(players, 14, 1, 0.1, n_matches=4)
    assert sum(1 for _ in replayed(log)) == log.games["n_actions"].sum() + 2 * (14 - 4)
    points = sum(log.games["points"].sum(axis=1)) / 15
    assert points == sum(range(1, 5)) * 2 + sum(range(1, 4)) * 2  # matches of 4, 4, 3 and 3 games


@pytest.mark.parametrize(("n_games", "n_matches"), [(1, 1), (7, 3), (3, 100), (12, 12)])
def test_games_are_divided_evenly_among_matches(n_games: int, n_matches: int) -> None:
    log = play_games(["sample"] * 5, n_games, 2, n_matches=n_matches)
    assert len(log.games) == len(log.last_random) == n_games
    lengths = [len(rows) for rows in matches(log)]
    assert len(lengths) == min(n_games, n_matches)
    assert max(lengths) - min(lengths) <= 1
    for rows in matches(log):
        assert log.games["number"][rows].tolist() == list(range(1, len(rows) + 1))
        assert rows == sorted(rows)  # in the order of their ends


def test_after_100_games_a_match_has_no_classes() -> None:
    log = play_games(["sample"] * 5, 102, 3, n_matches=1)
    assert np.flatnonzero(log.games["classes"][:, 0] < 0).tolist() == [0, 100]


def test_the_seed_decides_the_games() -> None:
    players: list[GamePlayer] = [net(1), net(2), "sample", net(1), net(2)]
    first, again, other = (play_games(players, 8, seed, 0.1, n_matches=3) for seed in (1, 1, 2))
    assert same(first, again)
    assert not same(first, other)


# Choices


@pytest.mark.parametrize(
    ("points", "learned_gifts"),
    [((5.0, 4.0, 3.0, 2.0, 1.0), False), ((9.0, 1.0, 0.0, 0.0, -3.0), True)],
)
def test_networks_play_what_five_rank_agents_play_one_at_a_time(
    points: tuple[float, ...], learned_gifts: bool
) -> None:
    nets = [net(1), net(2), net(3), net(1), net(2)]
    log = play_games(nets, 9, 4, 0, points, learned_gifts, n_matches=3)
    agents = [RankAgent(each, points, "net" if learned_gifts else "hand") for each in nets]
    n, n_other = 0, 0
    for _, k, game, move in replayed(log):
        agent, seen = agents[game["turn"]], view(game, int(game["turn"]))
        chosen = agent.give(seen, int(game["to_give"])) if k < 0 else agent.choose(seen)
        n, n_other = n + 1, n_other + (chosen != move)
    assert n > 500
    assert n_other <= n / 1_000  # rounding may decide between equals
    assert (log.last_random == -1).all()


@pytest.mark.parametrize(
    ("name", "agent"), [("sample", SampleAgent()), ("heuristic", HeuristicAgent())]
)
def test_players_by_name_play_as_their_agents(name: str, agent: Player) -> None:
    log = play_games([name] * 5, 12, 5, n_matches=3)
    for rows in matches(log):
        seed = int(log.games["seed"][rows[0]])
        for row, game in zip(rows, play_match([agent] * 5, len(rows), seed), strict=True):
            assert moves_of(log.games[row]) == moves_of(game)
            assert log.games["given"][row].tolist() == game["given"].tolist()
            assert log.games["places"][row].tolist() == game["places"].tolist()


def test_a_decision_may_have_thousands_of_afterstates() -> None:
    """The buffer grows beyond the size of a table for a single decision."""
    hands = ["JO C4 D6 SJ HJ DJ CJ SK HK DK CK", "S3 CT", "C6", "D3", "C3 D5 H9 ST"]
    table = new_table([NET] * 5, 1, 1, 1)
    game = table.games[0]
    game["hands"] = [cards.parse(hand) for hand in hands]
    game["left"], game["seats"], game["turn"] = [len(hand.split()) for hand in hands], range(5), 0
    rest = set(range(53)) - {
        card for hand in game["hands"] for card in range(53) if int(hand) >> card & 1
    }
    game["played"] = [0, 0, 0, 0, sum(1 << card for card in rest)]
    game["starter"] = game["last"] = 0
    assert len(afterstates(game)) == 4_507 > 4_096 + 64
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(self_play, "new_table", lambda *args: table)
        log = play_games([net()] * 5, 1, n_matches=1)
    assert moves_of(log.games[0])[0][0] == 0
    assert sorted(log.games["places"][0].tolist()) == list(range(5))


def test_different_players_keep_their_numbers() -> None:
    agents: list[Player] = [SampleAgent(), HeuristicAgent(), SampleAgent(), *[HeuristicAgent()] * 2]
    names = ["sample", "heuristic", "sample", "heuristic", "heuristic"]
    log = play_games(names, 6, 6, n_matches=1)
    seed = int(log.games["seed"][0])
    for record, game in zip(log.games, play_match(agents, 6, seed), strict=True):
        assert moves_of(record) == moves_of(game)


# Random actions


def test_the_last_random_action_is_recorded() -> None:
    """No action after it deviates from the player, and the player had a choice there."""
    players: list[GamePlayer] = [net(1), "sample", net(2), net(1), net(2)]
    log = play_games(players, 20, 7, 0.1, n_matches=4)
    agents = [RankAgent(p) if isinstance(p, nn.Module) else SampleAgent() for p in players]
    counts = Counter[str]()
    for row, k, game, move in replayed(log):
        last = int(log.last_random[row])
        if k < 0:
            continue
        seen = view(game, int(game["turn"]))
        if k > last:
            assert agents[game["turn"]].choose(seen) == move
            counts["after"] += 1
        if k == last:
            if game["turn"] != 1:  # a network takes one of its actions where it has a choice
                assert forced_win(seen) < 0
                assert len(set(afterstates(seen)["play"].tolist())) > 1
                assert move in afterstates(seen)["play"]
            counts["at"] += 1
            counts["other"] += agents[game["turn"]].choose(seen) != move
    assert counts["at"] == np.count_nonzero(log.last_random >= 0) > 10
    assert counts["after"] > 300
    assert counts["other"] > counts["at"] / 3


def test_all_actions_of_networks_can_be_random() -> None:
    """The games then do not depend on the networks."""
    first = play_games([net(1)] * 5, 6, 8, 1.0, n_matches=2)
    assert same(first, play_games([net(2)] * 5, 6, 8, 1.0, n_matches=2))
    assert (first.last_random >= 0).all()


def test_players_by_rules_make_random_plays_too() -> None:
    """Random plays are any legal play or the pass, where there is a choice."""
    log = play_games(["sample", "heuristic"] * 2 + ["sample"], 10, 10, 0.3, n_matches=2)
    names, n, n_other = ["sample", "heuristic"] * 2 + ["sample"], 0, 0
    listed = np.empty(plays.N_PLAYS, np.int64)
    agents: dict[str, Player] = {"sample": SampleAgent(), "heuristic": HeuristicAgent()}
    for row, k, game, move in replayed(log):
        if k < 0:
            continue
        chosen = agents[names[game["turn"]]].choose(view(game, int(game["turn"])))
        assert chosen == move or k <= log.last_random[row]
        if k == log.last_random[row]:
            assert write_legal(game, listed) > 0
        n, n_other = n + 1, n_other + (chosen != move)
    assert 0.05 < n_other / n < 0.3


def test_random_actions_have_the_given_rate() -> None:
    """The rate of choices that deviate from the network, relative to that of random play."""
    players = [net(1)] * 5
    rates = []
    for epsilon in (0.2, 1.0):
        agent, n, n_other = RankAgent(players[0]), 0, 0
        for _, k, game, move in replayed(play_games(players, 6, 9, epsilon, n_matches=2)):
            seen = view(game, int(game["turn"]))
            if k < 0 or forced_win(seen) >= 0 or len(set(afterstates(seen)["play"].tolist())) == 1:
                continue
            n, n_other = n + 1, n_other + (agent.choose(seen) != move)
        rates.append(n_other / n)
    assert abs(rates[0] / rates[1] - 0.2) < 0.1


# Wrong settings


def test_at_temperature_0_the_policy_plays_its_best_option() -> None:
    log, workspace = play_games(["policy"] * 5, 10, 3, n_matches=2, temperature=0), new_workspace()
    weights, n = find_policy(None).weights.reshape(-1), 0
    for _, k, game, move in replayed(log):
        if k >= 0:
            options = weigh_options(view(game, int(game["turn"])), weights, 1.0, workspace)
            scores = dict(zip(workspace.options[:options].tolist(), workspace.masses, strict=False))
            assert scores[move] == max(scores.values())
            n += options > 1
    assert n > 100


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"epsilon": 2}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"points": (1, 2, 3)}, "points"),
        ({"points": (1, 2, 3, 4, float("inf"))}, "points"),
        ({"points": "game"}, "points"),
        ({"n_matches": 0}, "n_matches must be an integer in 1"),
        *(({"n_games": n}, "n_games must be an integer in 1") for n in (0, 2.5, None)),
        ({"temperature": "hot"}, "temperature must be"),
    ],
)
def test_wrong_settings_are_rejected(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        play_games(["sample"] * 5, **{"n_games": 1, **settings})


@pytest.mark.parametrize("players", [["sample"] * 4, ["sample"] * 4 + ["nobody"], 5])
def test_wrong_players_are_rejected(players: Any) -> None:
    with pytest.raises(ValueError, match="players must be five networks or names"):
        play_games(players, 1)

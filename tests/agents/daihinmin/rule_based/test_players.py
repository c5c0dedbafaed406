"""Players of Daihinmin by name, by file and by their methods; the random player."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from afterstate import agents
from afterstate.agents.daihinmin.play import find_player, play_match
from afterstate.agents.daihinmin.rule_based.heuristic import Weights
from afterstate.agents.daihinmin.rule_based.players import HeuristicAgent, RandomAgent, SampleAgent
from afterstate.agents.daihinmin.values.softmax_policy import PRETRAINED, PolicyAgent
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.players import compiled
from afterstate.envs.daihinmin.rules import Game
from afterstate.envs.daihinmin.views import legal_plays, view
from afterstate.envs.words import stream_of
from tests.support.daihinmin.hands import dealt_to, on_field

STREAM = np.zeros(6, np.uint64)
"""A random stream, for players without chance."""

# The random player


def is_uniform(counts: Sequence[int]) -> bool:
    """Return False if counts of uniform draws differ as much only once in a million times.

    The statistic of Pearson's test has the mean k - 1 and the variance 2 (k - 1).
    """
    mean, k = sum(counts) / len(counts), len(counts)
    statistic = sum((n - mean) ** 2 / mean for n in counts)
    return bool(abs(statistic - (k - 1)) < 6 * (2 * (k - 1)) ** 0.5)


@pytest.mark.parametrize("field", ["", "C4", "S6 H6"])
def test_random_plays_are_uniform_with_a_pass_only_when_following(field: str) -> None:
    game = dealt_to("S3 D7 H7 S8 S9 ST JO CA", "C5 D9", "C3", "H8 C9", "DT")
    if field:
        on_field(game, field)
    agent, seen = RandomAgent(seed=1), view(game, 0)
    expected = {*legal_plays(game), *([plays.PASS] if field else [])}
    drawn = Counter(agent.choose(seen) for _ in range(200 * len(expected)))
    assert set(drawn) == expected
    assert is_uniform(list(drawn.values()))


def test_random_gifts_are_uniform() -> None:
    game = dealt_to("S3 D7 JO C2", "C5")
    agent, seen = RandomAgent(seed=1), view(game, 0)
    for n, pairs in ((1, 4), (2, 6)):
        seen["to_give"] = n
        drawn = Counter(agent.give(seen, n) for _ in range(200 * pairs))
        assert len(drawn) == pairs
        assert is_uniform(list(drawn.values()))
        for gift in drawn:
            assert cards.count(gift) == n
            assert gift & ~int(game["hands"][0]) == 0


def test_random_players_of_one_seed_play_the_same_games() -> None:
    def played(seed: int) -> list[list[int]]:
        table = [RandomAgent(seed + i) for i in range(5)]
        return [match["actions"].tolist() for match in play_match(table, 3, seed=1)]

    assert played(7) == played(7)
    assert played(7) != played(8)


# By name


NAMED = {
    "daihinmin-random": RandomAgent,
    "daihinmin-sample": SampleAgent,
    "daihinmin-heuristic": HeuristicAgent,
}


def test_players_of_daihinmin_are_made_by_name() -> None:
    assert set(NAMED) <= set(agents.names())
    made = [agents.make(name) for name in NAMED]
    assert [type(player) for player in made] == list(NAMED.values())
    by_name = [find_player(name.removeprefix("daihinmin-")) for name in NAMED]
    assert [type(player) for player in by_name] == list(NAMED.values())
    assert [type(find_player(name)) for name in NAMED] == list(NAMED.values())
    for match in play_match([*made, *by_name[:2]], 4, seed=1):
        assert sorted(match["places"]) == [0, 1, 2, 3, 4]


def test_a_seed_reaches_every_player_that_plays_by_chance() -> None:
    """Players without a seed are made, too."""
    game = dealt_to("S3 D7 H7 S8 S9 ST JO CA", "C5 D9", "C3", "H8 C9", "DT")
    for name in ("random", "mc", "policy", "daihinmin-mc", "sample", "heuristic"):
        drawn = []
        for seed in (5, 5, 6):
            player: Any = find_player(name, seed)
            if name.endswith("mc"):
                drawn.append(player.values(view(game, 0)).values.tolist())
            else:
                drawn.append([player.choose(view(game, 0)) for _ in range(30)])
        assert drawn[0] == drawn[1]
        assert name not in ("random", "mc", "daihinmin-mc") or drawn[1] != drawn[2]


def test_a_player_is_found_by_its_file() -> None:
    assert isinstance(find_player(str(PRETRAINED)), PolicyAgent)
    assert isinstance(agents.load(PRETRAINED), PolicyAgent)
    pytest.importorskip("torch")
    assert type(find_player(str(PRETRAINED.parent / "rank.safetensors"))).__name__ == "RankAgent"
    with pytest.raises(FileNotFoundError):
        find_player("nobody.npz")


@pytest.mark.parametrize("name", ["policy", "daihinmin-policy", "mc"])
def test_the_last_setting_of_a_player_may_be_a_file(name: str) -> None:
    for find in (find_player, agents.find):
        player: Any = find(f"{name},policy={PRETRAINED}")
        assert type(player) is type(find_player(name))


def test_settings_reach_the_player_that_is_made() -> None:
    game = dealt_to("S3 D7 H7 S8 S9 ST JO CA", "C5 D9", "C3", "H8 C9", "DT")
    seeded = [agents.make("daihinmin-random", seed=5), RandomAgent(5), RandomAgent(6)]
    drawn = [[player.choose(view(game, 0)) for _ in range(50)] for player in seeded]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("name", "settings", "match"),
    [
        ("daihinmin-random", {"sead": 1}, "daihinmin-random.*sead"),
        ("daihinmin-random", {"seed": "x"}, "seed.*x"),
        ("daihinmin-sample", {"seed": 1}, "daihinmin-sample"),
        ("daihinmin-heuristic", {"seed": 1}, "daihinmin-heuristic.*seed"),
        ("daihinmin-heuristic", {"weight": Weights()}, "daihinmin-heuristic.*weight"),
        ("daihinmin-nobody", {}, "daihinmin-nobody.*daihinmin-sample"),
    ],
)
def test_wrong_names_and_settings_are_refused(
    name: str, settings: dict[str, Any], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        agents.make(name, **settings)


@pytest.mark.parametrize("player", ["nobody", "expectimax", "", None, 3, Weights()])
def test_other_names_and_objects_are_refused(player: Any) -> None:
    with pytest.raises(ValueError, match="player"):
        find_player(player)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, "1", None])
def test_weights_must_be_finite_numbers(wrong: Any) -> None:
    with pytest.raises(ValueError, match="weights must be a Weights record of finite numbers"):
        HeuristicAgent(Weights(keep=wrong))


def test_an_object_with_both_methods_is_a_player() -> None:
    player = SampleAgent()
    assert find_player(player) is player


# As kernels


@pytest.mark.parametrize(
    "player", [SampleAgent(), HeuristicAgent(), HeuristicAgent(Weights(keep=0.1, joker=3.0))]
)
def test_a_kernel_makes_the_moves_of_its_player(player: SampleAgent | HeuristicAgent) -> None:
    """All moves and gifts of three games, of which two have an exchange."""
    move, parameters = player.compiled()

    class Both:
        def choose(self, view: Game) -> int:
            assert move(view, parameters, STREAM) == player.choose(view)
            return player.choose(view)

        def give(self, view: Game, n: int) -> int:
            assert move(view, parameters, STREAM) == player.give(view, n)
            return player.give(view, n)

    for _ in play_match([Both()] * 5, 3, seed=2):
        pass


def test_the_kernel_of_random_moves_makes_those_of_the_random_player() -> None:
    generator = np.random.default_rng(4)
    kernel, player = compiled("random"), RandomAgent(generator)
    stream = stream_of(generator)

    class Both:
        def choose(self, view: Game) -> int:
            play = player.choose(view)
            assert kernel.move(view, kernel.parameters, stream) == play
            return play

        def give(self, view: Game, n: int) -> int:
            gift = player.give(view, n)
            assert kernel.move(view, kernel.parameters, stream) == gift
            return gift

    for _ in play_match([Both()] * 5, 30, seed=2):
        pass

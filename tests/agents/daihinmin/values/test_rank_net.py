"""Rank networks: their sizes, their values, their files, and the players that follow them."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")

import safetensors.torch
import torch
from torch import Tensor, nn

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.daihinmin.afterstates.chains import Afterstates, afterstates
from afterstate.agents.daihinmin.afterstates.class_values import class_values, games_left
from afterstate.agents.daihinmin.afterstates.exchange import gift, gift_afterstates
from afterstate.agents.daihinmin.play import play_match
from afterstate.agents.daihinmin.values import rank_net
from afterstate.agents.daihinmin.values.history import Moments
from afterstate.agents.daihinmin.values.rank_net import RankAgent, load, network, predict, values
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.rules import GAME, Rules, is_legal
from afterstate.envs.daihinmin.views import view
from tests.oracles import chains as chains_oracle
from tests.oracles.chains import position

pytestmark = pytest.mark.usefixtures("one_thread")


def some(seed: int, n: int = 40) -> Afterstates:
    """Return afterstates of endings."""
    rng = random.Random(seed)
    result: list[Afterstates] = []
    while sum(len(afters) for afters in result) < n:
        game = chains_oracle.ending(rng, rng.randint(2, 5), 6)
        result.append(afterstates(view(game, int(game["turn"])))[:5])
    return np.concatenate(result)[:n]


def seeded(name: str, **settings: int) -> nn.Module:
    """A network whose weights are always the same."""
    torch.manual_seed(1)
    return network(name, **settings)


# Networks


@pytest.mark.parametrize(
    ("name", "settings", "n"),
    [
        ("BaseCNN", {"channels": 16}, 14_417),
        ("BaseCNN", {"channels": 32}, 42_577),
        ("BaseCNN", {"channels": 64}, 140_369),
        ("BaseCNN", {"channels": 128}, 501_841),
        ("BaseCNN", {}, 501_841),
        ("HistoryCNN", {}, 1_072_562),
        ("FCNN", {}, 529_205),
    ],
)
def test_networks_have_as_many_weights_as_in_kuwabara_and_hoki(
    name: str, settings: dict[str, int], n: int
) -> None:
    net = network(name, **settings)
    assert sum(weights.numel() for weights in net.parameters()) == n
    assert not net.training


def test_biases_begin_at_0_and_weights_within_the_bound_of_glorot_and_bengio() -> None:
    net = seeded("BaseCNN", channels=16)
    for name, weights in net.named_parameters():
        if name.endswith("bias"):
            assert not weights.any()
        elif weights.dim() == 4:
            fans = (weights.shape[0] + weights.shape[1]) * weights.shape[2] * weights.shape[3]
            bound = (6 / fans) ** 0.5
            assert 0.8 * bound < weights.abs().max() <= bound


@pytest.mark.parametrize("name", ["BaseCNN", "FCNN", "RankResNet", "HistoryCNN"])
def test_the_prediction_of_an_afterstate_is_the_same_in_any_batch(name: str) -> None:
    net, afters = seeded(name, **({"channels": 8} if name != "FCNN" else {})), some(1, 12)
    moments = played_moments(len(afters))
    together = predict(net, afters, moments)
    for i in range(len(afters)):
        alone = predict(net, afters[i : i + 1], moments.part(slice(i, i + 1)))
        np.testing.assert_allclose(together[i], alone[0], atol=1e-6)
    order = np.arange(len(afters))[::-1]
    turned = predict(net, afters[order], moments.part(order))[::-1]
    np.testing.assert_allclose(together, turned, atol=1e-6)
    assert len({row.tobytes() for row in together}) > 1


def played_moments(n: int) -> Moments:
    """Return `n` moments of one game, one after another."""
    game = list(play_match([agents.make("daihinmin-sample")] * 5, 1, 1))[-1]
    games = np.empty(1, GAME)
    games[0] = game
    return Moments(games, np.zeros(n, np.int64), np.zeros(n, np.int64), np.arange(n))


def test_several_chunks_have_the_same_values() -> None:
    net, afters = seeded("FCNN", hidden=4), some(2, 30)
    many = np.concatenate([afters] * 40)
    assert len(many) > 2 * rank_net.CHUNK
    result = predict(net, many)
    np.testing.assert_allclose(result, np.concatenate([predict(net, afters)] * 40), atol=1e-6)


def test_without_afterstates_there_are_no_values() -> None:
    assert values(seeded("FCNN", hidden=4), some(1)[:0]).shape == (0,)


class Logits(nn.Module):
    """A network whose logits are a function of the units."""

    encode = "units"

    def __init__(self, logits: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.logits = logits
        self.unused = nn.Parameter(torch.zeros(1))  # gives the device

    def forward(self, units: Tensor) -> Tensor:
        """Return the logits of the places."""
        return self.logits(units)


def test_values_are_the_expected_points_by_the_softmax() -> None:
    """Logits ln 4, ln 3, ln 2, ln 1, -inf are probabilities 0.4, 0.3, 0.2, 0.1, 0."""
    logits = torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0]).log()
    net = Logits(lambda units: logits.repeat(len(units), 1))
    afters = some(3, 2)
    np.testing.assert_allclose(predict(net, afters), [[0.4, 0.3, 0.2, 0.1, 0]] * 2, atol=1e-6)
    # 0.4 * 5 + 0.3 * 4 + 0.2 * 3 + 0.1 * 2 = 4
    np.testing.assert_allclose(values(net, afters), [4, 4], atol=1e-6)
    # 0.4 * 10 - 0.1 * 5 = 3.5
    expected_points = values(net, afters, points=(10, 0, 0, -5, 7))
    np.testing.assert_allclose(expected_points, [3.5, 3.5], atol=1e-6)


@pytest.mark.parametrize(
    ("name", "settings", "match"),
    [
        ("AlexNet", {}, "network.*AlexNet"),
        ("BaseCNN", {"blocks": 3}, "channels"),
        ("BaseCNN", {"channels": 0}, "1 to 4096"),
        ("BaseCNN", {"channels": 1.5}, "1 to 4096"),
        ("FCNN", {"hidden": 100_000}, "1 to 4096"),
        ("BaseCNN", {"channels": True}, "1 to 4096"),
    ],
)
def test_unknown_networks_and_wrong_settings_are_refused(
    name: str, settings: dict[str, Any], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        network(name, **settings)


def test_a_network_of_histories_needs_the_moments() -> None:
    with pytest.raises(ValueError, match="moments"):
        values(seeded("HistoryCNN", channels=2), some(1, 1))


# Files


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("BaseCNN", {"channels": 4}),
        ("FCNN", {"hidden": 3}),
        ("RankResNet", {"channels": 4, "blocks": 1, "hidden": 2}),
        ("HistoryCNN", {"channels": 2}),
    ],
)
def test_a_saved_network_is_loaded_again(
    name: str, settings: dict[str, int], tmp_path: Path
) -> None:
    net, afters, moments = seeded(name, **settings), some(4, 5), played_moments(5)
    nets.save(net, tmp_path / "net.safetensors", games=3, of="tests")
    again = load(tmp_path / "net.safetensors")
    assert type(again) is type(net)
    assert not again.training
    assert np.array_equal(predict(net, afters, moments), predict(again, afters, moments))
    metadata = nets.metadata(tmp_path / "net.safetensors")
    assert metadata == {"network": name, "settings": settings, "games": 3, "of": "tests"}


class Trap:
    """An object that raises an error when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemError('it was unpickled')",)


def test_a_file_of_another_kind_is_refused_and_never_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    with pytest.raises(FileNotFoundError):
        load(path)
    foreign = [b"", b"no network", pickle.dumps(Trap()), safetensors.torch.save({})]
    torch.save({"net": Trap()}, tmp_path / "net.pt")
    for data in [*foreign, (tmp_path / "net.pt").read_bytes()]:
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"net\.safetensors"):
            load(path)


def test_a_file_that_is_cut_off_or_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    nets.save(seeded("BaseCNN", channels=4), path)
    whole = path.read_bytes()
    for data in (whole[:-1], whole[: len(whole) // 2], whole[:100], b"\xff" * 8 + whole[8:]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"net\.safetensors"):
            load(path)


@pytest.mark.parametrize(
    "metadata",
    [
        {"network": "BaseCNN"},
        {"network": "BaseCNN", "settings": {"channels": 5}},
        {"network": "FCNN", "settings": {}},
        {"network": "Other", "settings": {}},
        {"network": "BaseCNN", "settings": {"channels": "4"}},
        {"network": "BaseCNN", "settings": [4]},
        {"network": ["BaseCNN"], "settings": {"channels": 4}},
        ["BaseCNN"],
        7,
    ],
)
def test_a_file_with_wrong_metadata_is_refused(metadata: Any, tmp_path: Path) -> None:
    tensors = {k: v.contiguous() for k, v in seeded("BaseCNN", channels=4).state_dict().items()}
    path = tmp_path / "net.safetensors"
    path.write_bytes(safetensors.torch.save(tensors, {"afterstate": json.dumps(metadata)}))
    with pytest.raises(ValueError):
        load(path)


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    net = seeded("FCNN", hidden=2)
    nets.save(net, path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        nets.save(net, path, when=object())
    assert path.read_bytes() == before
    with pytest.raises(OSError):
        nets.save(net, tmp_path)


# The player


@pytest.mark.parametrize(
    ("rules", "settings"),
    [
        (Rules(), {}),
        (Rules(), {"exchange": "net", "points": "classes"}),
        (Rules(eight_cuts=False, sequences=False), {"points": [1, 0, 0, 0, 0]}),
        (Rules(locks=False, revolutions=False, idle_limit=6), {"points": (5, 4, 3, 2, -9.5)}),
        (Rules(exchanges=False, idle_limit=2), {"points": "game"}),
        (Rules(class_reset_every=0, reseat_every=0), {"exchange": "net", "points": "classes"}),
    ],
)
def test_moves_and_gifts_are_legal(rules: Rules, settings: dict[str, Any]) -> None:
    agent = RankAgent(seeded("FCNN", hidden=4), **settings)

    class Checked:
        """The agent with checks of its moves and gifts."""

        def choose(self, view: Any) -> int:
            """Return the agent's choice."""
            move = agent.choose(view)
            assert is_legal(view, move)
            return move

        def give(self, view: Any, n: int) -> int:
            """Return the agent's gift."""
            gift_ = agent.give(view, n)
            assert cards.count(gift_) == n
            assert gift_ & ~int(view["hands"][view["turn"]]) == 0
            return gift_

    for game in play_match([Checked(), agent, agent, agent, agent], 4, 1, rules):
        assert game["turn"] == -1


def test_a_network_of_histories_plays_a_game() -> None:
    agent = RankAgent(seeded("HistoryCNN", channels=1), exchange="net")
    sample = agents.make("daihinmin-sample")
    assert len([*play_match([agent, sample, sample, sample, sample], 1, 1)]) == 1


def prefers(unit: int) -> Logits:
    """Return a network that expects the first place exactly if a unit is 1."""
    return Logits(lambda units: torch.nn.functional.one_hot((units[:, unit] < 0.5).long(), 5) * 9.0)


LOOSE = ["S4 D6 C9 HJ", "SK HK DK", "SA HA DA", "S2 H2 D2", "CK CA C2"]


@pytest.mark.parametrize("name", ["S4", "D6", "C9", "HJ"])
def test_the_play_leads_to_the_afterstate_of_the_largest_value(name: str) -> None:
    """Units 106 to 158 are the field; the network prefers one card on it."""
    net = prefers(2 * 53 + cards.CARD_NUMBERS[name])
    seen = view(position(*LOOSE), 0)
    assert plays.text(RankAgent(net).choose(seen)) == name
    assert plays.text(RankAgent(net, points=[0, 1, 0, 0, 0]).choose(seen)) != name


def test_the_player_passes_if_that_has_the_largest_value() -> None:
    """Unit 12 * 53 + 60 is 1 if the player itself has passed."""
    seen = view(position(*LOOSE, field="S5", last=4), 0)
    assert RankAgent(prefers(12 * 53 + 60)).choose(seen) == plays.PASS
    assert plays.text(RankAgent(prefers(106 + cards.CARD_NUMBERS["C9"])).choose(seen)) == "C9"


def test_the_play_starts_the_chain_whose_end_has_the_largest_value() -> None:
    """The 8 brings the lead back; then the D6 is on the field, and the 8 is gone."""
    hands = ["S8 S4 D6 C9 HJ", *LOOSE[1:]]

    def wanted(units: Tensor) -> Tensor:
        """Expect the first place if the D6 is on the field and the hand has no 8."""
        lies = units[:, 106 + cards.CARD_NUMBERS["D6"]] > 0
        holds = units[:, cards.CARD_NUMBERS["S8"]] > 0
        return torch.nn.functional.one_hot((~(lies & ~holds)).long(), 5) * 9.0

    assert plays.text(RankAgent(Logits(wanted)).choose(view(position(*hands), 0))) == "S8"


@pytest.mark.parametrize("hand", ["S4", "S8 C4", "S8 H8 C5", "S4 D4"])
def test_the_player_goes_out_when_it_can(hand: str) -> None:
    """The values of the network do not matter."""
    game = position(hand, *LOOSE[1:])
    seen, net = view(game, 0), Logits(lambda units: units[:, :5] * 0)
    move = RankAgent(net, points=[0, 0, 0, 0, 1]).choose(seen)
    at = chains_oracle.seen(seen)
    assert plays.text(move) in chains_oracle.ends(at)[chains_oracle.FINISHED]


def test_the_values_of_a_view_are_those_of_its_afterstates() -> None:
    net, seen = seeded("FCNN", hidden=4), view(position(*LOOSE), 0)
    afters, result = RankAgent(net, points=[4, 0, 0, 0, 1]).values(seen)
    assert [a["play"] for a in afters] == [a["play"] for a in afterstates(seen)]
    np.testing.assert_allclose(result, values(net, afters, points=[4, 0, 0, 0, 1]), atol=1e-6)
    out, expected_points = RankAgent(net).values(view(position("S4", *LOOSE[1:]), 0))
    assert (len(out), expected_points.tolist()) == (1, [5.0])


def test_expected_places_of_actions_are_those_of_the_network() -> None:
    net, seen = seeded("FCNN", hidden=4), view(position(*LOOSE), 0)
    afters, result = RankAgent(net, points=[4, 0, 0, 0, 1]).values(seen)
    actions, places = RankAgent(net).expect(seen)
    assert actions.dtype == np.uint64
    assert actions.tolist() == afters["play"].tolist()
    np.testing.assert_allclose(places @ [4, 0, 0, 0, 1], result, rtol=1e-5)
    np.testing.assert_allclose(places.sum(1), 1, rtol=1e-5)
    actions, places = RankAgent(net).expect(view(position("S4", *LOOSE[1:]), 0))
    assert (len(actions), places.tolist()) == (1, [[1, 0, 0, 0, 0]])


@pytest.mark.parametrize(("number", "expected_points"), [(100, [4, 3, 2, 1]), (200, [4, 3, 2, 1])])
def test_before_a_reset_only_points_count(number: int, expected_points: list[float]) -> None:
    agent = RankAgent(seeded("FCNN", hidden=2), points="classes")
    for n_out in range(4):
        game = position("S4", *["SK HK", "SA HA", "S2 H2", "CK CA"][n_out:])
        game["number"] = number
        assert game["n_out"] == n_out
        assert agent.values(view(game, 0))[1].tolist() == expected_points[n_out : n_out + 1]
        game["number"] = number - 50  # the class has a value
        more = agent.values(view(game, 0))[1]
        assert more > expected_points[n_out] + (0.1 if n_out < 3 else 0)


def test_gifts_follow_the_rule_or_the_network() -> None:
    match = new_match(3)
    match["places"], match["number"] = range(5), 1
    next_game(match)
    seen = view(match, int(match["turn"]))
    hand = seen["hands"][seen["turn"]]
    afters, gifts = gift_afterstates(seen)
    likes = cards.CARD_NUMBERS[min(chains_oracle.names(hand))]
    net = Logits(lambda units: torch.nn.functional.one_hot((units[:, likes] > 0.5).long(), 5) * 9.0)
    given = RankAgent(net, exchange="net").give(seen, 2)
    assert given >> likes & 1  # the network prefers not to hold it
    assert given == gifts[values(net, afters).argmax()]
    actions, places = RankAgent(net).expect(seen)
    assert actions.tolist() == gifts.tolist()
    np.testing.assert_allclose(places, predict(net, afters), rtol=1e-5)
    left, expected_points = RankAgent(net).values(seen)
    assert left["hand"].tolist() == [hand & ~given for given in gifts]
    np.testing.assert_allclose(expected_points, values(net, afters))
    assert RankAgent(net).give(seen, 2) == gift(hand, 2)
    with pytest.raises(ValueError, match="give"):
        RankAgent(net).choose(seen)


def test_the_metadata_of_a_file_set_points_and_exchange(tmp_path: Path) -> None:
    file, net = tmp_path / "net.safetensors", network("FCNN", hidden=4)
    nets.save(net, file, points="classes", exchange="net")
    match = new_match(1)
    next_game(match)
    seen = view(match, int(match["turn"]))
    afters, by_file = RankAgent(file).values(seen)
    assert by_file == pytest.approx(values(net, afters, points=class_values(games_left(seen))))
    assert RankAgent(file, points="game").values(seen)[1] == pytest.approx(values(net, afters))
    assert RankAgent(net).values(seen)[1] == pytest.approx(values(net, afters))


def test_wrong_metadata_of_a_large_network_take_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "net.safetensors"
    metadata = {"network": "RankResNet", "settings": {"channels": 4096, "blocks": 300, "hidden": 9}}
    tensors = {"head.bias": torch.zeros(1)}
    safetensors.torch.save_file(tensors, file, {"afterstate": json.dumps(metadata)})
    with pytest.raises(ValueError, match="weights"):  # of 120 GB
        load(file)
    safetensors.torch.save_file(tensors, file, {"afterstate": "[" * 50_000})
    with pytest.raises(ValueError, match="not a network"):
        load(file)


def test_weights_that_are_nan_are_refused(tmp_path: Path) -> None:
    net = network("FCNN", hidden=2)
    torch.nn.init.constant_(next(net.parameters()), float("nan"))
    nets.save(net, tmp_path / "net.safetensors")
    with pytest.raises(ValueError, match="NaN"):
        load(tmp_path / "net.safetensors")


@pytest.mark.parametrize("device", ["foo", "cuda:99"])
def test_an_unknown_device_is_refused(tmp_path: Path, device: str) -> None:
    nets.save(network("FCNN", hidden=2), tmp_path / "net.safetensors")
    with pytest.raises(ValueError, match=f"device .*'{device}'"):
        load(tmp_path / "net.safetensors", device)
    with pytest.raises(ValueError, match=f"device .*'{device}'"):
        RankAgent(network("FCNN", hidden=2), device=device)


def test_a_network_stays_on_its_device() -> None:
    net = network("BaseCNN", channels=1).to("meta")
    assert next(RankAgent(net).network.parameters()).device.type == "meta"
    player: Any = agents.make("daihinmin-mc-rank", network=net, playouts=1)
    assert next(player.prior.network.parameters()).device.type == "meta"


def test_a_net_that_is_no_network_is_refused() -> None:
    with pytest.raises(ValueError, match="network"):
        agents.make("daihinmin-rank", network=5)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"points": "all"}, "points"),
        ({"points": [1, 2, 3]}, "points"),
        ({"points": [1, 2, 3, 4, float("nan")]}, "points"),
        ({"points": 7.0}, "five numbers"),
        ({"points": ["a"] * 5}, "five numbers"),
        ({"exchange": "none"}, "exchange"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        RankAgent(seeded("FCNN", hidden=2), **settings)


def test_the_player_is_made_by_name_from_a_file(tmp_path: Path) -> None:
    nets.save(seeded("FCNN", hidden=2), tmp_path / "net.safetensors")
    agent = agents.make("daihinmin-rank", network=tmp_path / "net.safetensors", points="classes")
    assert isinstance(agent, RankAgent)
    assert agent.choose(view(position(*LOOSE), 0)) > 0
    with pytest.raises(FileNotFoundError):
        agents.make("daihinmin-rank", network=tmp_path / "missing.safetensors")

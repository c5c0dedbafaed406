"""The study of policy networks: its published values, its tables by hand, and a tiny one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib")
pytest.importorskip("matplotlib")
pytest.importorskip("safetensors")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

import torch
from experiments.policy_nets import run
from matplotlib.figure import Figure
from test_analysis import CHOICES, boards_of
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.agents.fitting import Fitting
from afterstate.agents.game2048 import analysis, inside, play_logs, policy_learning, policy_net
from afterstate.agents.game2048.analysis import CELLS, TILES
from afterstate.agents.game2048.policy_net import PolicyCNN
from afterstate.envs.game2048 import rules, torch_rules

pytestmark = pytest.mark.usefixtures("one_thread")

UP, RIGHT, DOWN, LEFT = range(4)

SCORES = {2: (25_669, 175_628), 3: (69_840, 332_868), 4: (80_284, 343_496), 5: (86_030, 385_560)}
"""Table 2: mean and max of 10,000 games."""

PUBLISHED = {
    ("last layer", 2): (  # table 4
        "(0, 0)#163 9.1/15.4/7.7; (1, 1)#285 12.5/13.3/11.6; (1, 0)#163 15.4/12.4/15.4; "
        "(2, 0)#340 4.8/9.6/24.7; (1, 0)#275 4.7/8.1/4.7; (0, 1)#285 4.3/4.6/4.0"
    ),
    ("layer before", 2): (  # table 5
        "(1, 0)#17 2.7/4.3/2.8; (1, 1)#120 2.6/2.5/1.9; (0, 0)#17 2.2/2.2/1.5; "
        "(1, 0)#432 1.5/2.0/1.8; (2, 0)#17 1.4/2.0/5.1; (2, 0)#432 1.6/1.9/3.2; "
        "(1, 1)#418 1.7/1.8/1.3; (2, 1)#209 1.7/1.6/1.3; (1, 1)#252 1.8/1.5/1.3; "
        "(0, 0)#432 1.1/1.3/1.0; (2, 1)#137 1.1/1.2/1.6"
    ),
    ("last layer", 5): (  # table 6
        "(0, 1)#10 34.5/34.4/30.8; (0, 0)#116 20.9/23.2/25.1; (2, 0)#116 23.0/22.5/22.6; "
        "(1, 0)#116 18.4/18.7/19.5"
    ),
    ("layer before", 5): (  # table 7
        "(1, 2)#173 7.6/7.4/6.8; (1, 1)#126 4.6/4.5/4.2; (0, 1)#126 4.4/4.3/4.0; "
        "(1, 1)#134 3.8/3.7/3.5; (0, 1)#181 3.1/3.0/2.8; (2, 1)#173 3.0/2.9/3.0; "
        "(0, 1)#134 2.9/2.8/2.7; (0, 0)#54 1.9/2.6/3.1; (0, 2)#106 2.3/2.3/2.1; "
        "(2, 0)#54 2.4/2.2/2.4; (0, 1)#79 2.2/2.2/2.1"
    ),
}
"""Tables 4 to 7: units and their shares on the three boards."""

SUMS = {
    ("last layer", 2): (
        "9.1/15.4/7.7 21.6/28.7/19.3 37.0/41.1/34.7 41.8/50.7/59.4 46.5/58.8/64.1 50.8/63.4/68.1"
    ),
    ("layer before", 2): (
        "2.7/4.3/2.8 5.3/6.8/4.7 7.5/9.0/6.2 9.0/11.0/8.0 10.4/13.0/13.1 12.0/14.9/16.3 "
        "13.7/16.7/17.6 15.4/18.3/18.9 17.2/19.8/20.2 18.3/21.1/21.2 19.4/22.3/22.8"
    ),
    ("last layer", 5): "34.5/34.4/30.8 55.4/57.6/55.9 78.4/80.1/78.5 96.8/98.8/98.0",
    ("layer before", 5): (
        "7.6/7.4/6.8 12.2/11.9/11.0 16.6/16.2/15.0 20.4/19.9/18.5 23.5/22.9/21.3 26.5/25.8/24.3 "
        "29.4/28.6/27.0 31.3/31.2/30.1 33.6/33.5/32.2 36.0/35.7/34.6 38.2/37.9/36.7"
    ),
}
"""Their shares and those of the rows above, added up by hand."""


def published_rows(what: str, layers: int) -> list[list[str]]:
    """The units of a published table, each with its three shares."""
    rows = (row.rsplit(" ", 1) for row in PUBLISHED[what, layers].split("; "))
    return [[unit, *shares.split("/")] for unit, shares in rows]


# Published values


def test_published_values_are_those_of_the_study() -> None:
    told = run.study()["published"]
    assert (told["moves"], told["games"]) == (600e6, 10_000)
    assert told["scores"] == {
        str(layers): {"mean": mean, "max": most} for layers, (mean, most) in SCORES.items()
    }
    assert told["agreement"] == {"boards": 77_253, "all": 22_807, "only k = 2": 5_915}
    assert told["5a"] == {"2": [0.243, 0.405, 0.104, 0.248], "5": [0.470, 0.470, 0.000, 0.060]}
    for what, layers in PUBLISHED:
        rows = [[row[0], *map(float, row[1:])] for row in published_rows(what, layers)]
        assert told[what][str(layers)] == rows
        assert run.ROWS[what][layers] == len(rows)
    assert {len(told[what]) for what in run.ROWS} == {2}


def test_settings_are_those_of_networks_and_learners_that_there_are() -> None:
    told = run.study()
    assert told["layers"] == list(policy_net.CHANNELS) == list(SCORES)
    how = Fitting(**told["learner"])
    assert how.decay == told["log"]["moves"]
    said = (run.HERE / "text.md").read_text(encoding="utf-8")
    assert "600 million moves" in said and f"{told['log']['moves'] / 1e6:.0f} million moves" in said


def test_there_are_twelve_published_filters_with_weights_of_cells_and_tiles() -> None:
    found = run.published_filters()
    of_two, of_five = ([name for k, name in found if k == layers] for layers in (2, 5))
    assert of_two == ["74", "363", "17", "432", "120", "154"]
    assert of_five == ["198", "213", "93", "98", "unnamed-1", "unnamed-2"]
    assert len(found) == 12
    assert {weights.shape for weights in found.values()} == {(4, 16)}
    for layers, name, cell, tile, weight in [
        (2, "74", "NW", "4", 0.57),
        (2, "74", "NW", "empty", 0.19),
        (2, "74", "SE", "32768", -0.01),
        (2, "17", "NW", "empty", -1.18),
        (2, "17", "NE", "empty", 1.37),
        (2, "154", "NW", "2048", 0.66),
        (2, "154", "NE", "4096", 0.56),
        (5, "198", "NW", "4", 0.61),
    ]:
        assert found[layers, name][CELLS.index(cell), TILES.index(tile)] == weight


# A tiny study


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Study:
    """A study of small networks, in a folder."""

    def __init__(self, folder: Path, told: dict[str, Any]) -> None:
        self.runs, self.results, self.told = folder / "runs", folder / "results", told

    def main(self, *arguments: str) -> None:
        """Runs the command line."""
        run.main([*arguments, "--runs", str(self.runs)])

    def learned(self, layers: int) -> Any:
        """How many moves a network has learned from."""
        return nets.about(self.runs / f"k{layers}" / "net.safetensors")["n_moves"]

    def put(self, layers: int, net: nn.Module, n_moves: float = 100) -> None:
        """Puts a network that has learned into its folder."""
        path = self.runs / f"k{layers}" / "net.safetensors"
        nets.save(net, path, n_moves=n_moves, seconds=12.5)

    def log(self) -> None:
        """Writes a log of moves to learn from, by hand."""
        boards = torch_rules.start((100,), torch.Generator().manual_seed(1))
        moves = np.zeros(100, play_logs.MOVE)
        moves["board"] = torch_rules.to_words(boards)
        moves["action"] = torch_rules.legal(boards).int().argmax(1).numpy()
        self.runs.mkdir(exist_ok=True)
        np.save(self.runs / "moves.npy", moves)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of table 2."""
        return read_rows(self.results / "games.jsonl")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """The study with a log of 100 moves, 3 games, and few filters."""
    told = run.study() | {"games": 3}
    told["log"] = {"player": "random", "moves": 100, "seed": 1}
    told["learner"] = told["learner"] | {"batch": 20, "decay": 100}
    monkeypatch.setattr(run, "study", lambda: told)
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results")
    for layers, n in {2: 6, 3: 5, 4: 4, 5: 3}.items():
        monkeypatch.setitem(policy_net.CHANNELS, layers, n)
    return Study(tmp_path, told)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The figures by the names of their files, which are made, but empty."""
    kept: dict[str, Any] = {}

    def save(figure: Figure, path: Path, **_: Any) -> None:
        path.touch()
        kept[path.name] = figure

    monkeypatch.setattr(Figure, "savefig", save)
    return kept


def panels_of(figure: Any) -> list[Any]:
    """The panels that show something, without the colour bar."""
    shown = [each for each in figure.axes if each.images and each.get_label() != "<colorbar>"]
    assert shown
    return shown


def likes(layers: int, wanted: Sequence[float], weight: float = 0.0) -> nn.Module:
    """A network with these logits on every board, or nearly."""
    torch.manual_seed(layers)
    net = PolicyCNN(layers)
    last: Any = net.body[-1]
    with torch.no_grad():
        last.weight.mul_(weight)
        last.bias.copy_(torch.tensor(wanted, dtype=torch.float32))
    return net.eval()


def test_the_log_goes_on_where_it_was_interrupted(
    tiny: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def killed(*rest: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(SystemExit, match="moves are kept"):
        patched.setattr(play_logs.Heaps, "write", killed)
        tiny.main("log")
    assert (tiny.runs / "moves.parts").exists()
    tiny.main("log", "--jobs", "1")
    log, told = tiny.runs / "moves.npy", json.loads((tiny.runs / "moves.json").read_text())
    assert len(play_logs.read(log)) == told["moves"] == 100
    assert told["players"][0]["player"] == "random" and told["seed"] == 1
    with pytest.raises(SystemExit, match=r"moves\.npy is there"):
        tiny.main("log")
    run.main(["log", "--runs", str(tmp_path / "other")])
    assert (tmp_path / "other" / "moves.npy").read_bytes() == log.read_bytes()


def test_networks_learn_from_the_log_one_by_one_and_go_on(
    tiny: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_learning, "evaluate", lambda net, n: {"mean": 1.0, "n_games": n})
    tiny.log()
    tiny.told |= {"layers": [2, 3]}
    tiny.told["log"]["moves"] = 40
    tiny.main("train", "--layers", "3")
    assert not (tiny.runs / "k2").exists()
    asked = json.loads((tiny.runs / "k3" / "asked.json").read_text())
    assert asked == {
        "network": {"layers": 3},
        "log": str(tiny.runs / "moves.npy"),
        "learner": tiny.told["learner"],
        "seed": 1,
    }
    tiny.told["log"]["moves"] = 100
    tiny.main("train")
    assert [tiny.learned(layers) for layers in (2, 3)] == [100, 100]
    place = tiny.runs / "k3" / "rows.jsonl"
    rows = read_rows(place)
    assert [row["n_moves"] for row in rows] == [40, 100]  # it went on
    assert [row["1-ply"]["n_games"] for row in rows] == [50, 50]
    tiny.main("train")  # nothing is left to do
    assert read_rows(place) == rows
    assert list(run.networks(tiny.runs)) == [2, 3]


def test_without_a_log_nothing_learns(tiny: Study) -> None:
    with pytest.raises(SystemExit, match=r"moves\.npy"):
        tiny.main("train", "--layers", "2")


def test_only_networks_that_have_learned_all_moves_are_taken(tiny: Study) -> None:
    for command in ("play", "inside"):
        with pytest.raises(SystemExit, match=r"no network in .*runs has learned all moves"):
            tiny.main(command)
    tiny.put(4, PolicyCNN(4), 99)
    with pytest.raises(SystemExit, match="train some first"):
        tiny.main("inside")
    for layers, n_moves in ((2, 100), (3, 99), (5, 120)):
        tiny.put(layers, PolicyCNN(layers), n_moves)
    found = run.networks(tiny.runs)
    assert {k: nets.kind(net)["settings"]["layers"] for k, net in found.items()} == {2: 2, 5: 5}


# Table 2


def test_games_of_each_network_are_added_to_those_that_are_there(
    tiny: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    net = likes(3, [0, 1, 2, 3])
    tiny.put(3, net)
    tiny.put(4, PolicyCNN(4), 40)
    tiny.main("play")
    tiny.put(2, PolicyCNN(2))
    tiny.main("play", "--games", "2")
    rows = tiny.rows()
    assert [(row["layers"], row["n_games"]) for row in rows] == [(3, 3), (2, 2), (3, 2)]
    for row, games in ((rows[0], 3), (rows[2], 2)):
        facts = {"layers": 3, "moves": 100, "seconds": 12.5, **policy_learning.evaluate(net, games)}
        assert {name: row[name] for name in facts} == facts
        assert row["machine"]["python"] and set(row) - set(facts) == {"machine"}
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"k = 3: {rows[2]['mean']:,.0f} ± {rows[2]['interval']:,.0f}"


def test_table_2_has_the_latest_games_of_each_network_beside_the_published_scores(
    tiny: Study,
) -> None:
    rows = [
        {"layers": 5, "n_games": 9, "mean": 1.0, "interval": 1.0, "max": 2},
        {"layers": 3, "n_games": 1_000, "mean": 12_345.6, "interval": 78.9, "max": 98_765},
        {"layers": 5, "n_games": 1_000, "mean": 54_321.0, "interval": 1_000.4, "max": 123_456},
    ]
    tiny.results.mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tiny.results / "games.jsonl").write_text(lines, encoding="utf-8")
    assert run.table_2(tiny.told["published"]) == (
        "| layers | mean, 95 % interval | max | games | published mean | published max |\n"
        "| --- | --: | --: | --: | --: | --: |\n"
        "| 3 | 12,346 ± 79 | 98,765 | 1,000 | 69,840 | 332,868 |\n"
        "| 5 | 54,321 ± 1,000 | 123,456 | 1,000 | 86,030 | 385,560 |"
    )


# Table 3


def test_published_filters_are_found_where_they_were_hidden_and_drawn_beside_ours(
    tiny: Study, figures: dict[str, Any]
) -> None:
    """One stands twice as large and mirrored, one is flipped and then transposed."""
    hidden = {(2, "74"): 4, (5, "unnamed-1"): 2}
    found: dict[int, nn.Module] = {layers: PolicyCNN(layers) for layers in (2, 3, 5)}
    for of, number in hidden.items():
        square = run.published_filters()[of].reshape(2, 2, 16)
        turned = 2 * square[:, ::-1] if of[0] == 2 else square[::-1].transpose(1, 0, 2)
        weights: Tensor = found[of[0]].get_parameter("body.1.weight").data
        weights[number] = torch.tensor(turned.transpose(2, 0, 1).copy())
    rows = run.table_3(found).split("\n")
    head = "| published | ours | turned by symmetry | cosine | of a new network |"
    assert rows[0] == head
    assert rows[2].startswith("| k = 2, #74 | #4 | 1 | 1.00 | 0.")
    assert rows[12].startswith("| k = 5, #unnamed-1 | #2 | 6 | 1.00 | 0.")
    assert len(rows) == 2 + 12 and "k = 3" not in str(rows)
    cells = [[float(cell) for cell in row.strip(" |").split(" | ")[-2:]] for row in rows[2:]]
    assert all(found < 0.9 for i, (found, _) in enumerate(cells) if i not in (0, 10))
    assert all(by_chance < 0.9 for _, by_chance in cells)
    panels = panels_of(figures["filters.png"])
    titles = [panel.get_title() for panel in panels]
    assert titles[:2] == ["k = 2, #74, published", "ours, #4, 1.00"]
    assert titles[20:22] == ["k = 5, #unnamed-1, published", "ours, #2, 1.00"] and len(titles) == 24
    theirs, ours = (np.asarray(panel.images[0].get_array()) for panel in panels[:2])
    np.testing.assert_allclose(theirs, run.published_filters()[2, "74"] / 0.97)  # of SW 4
    np.testing.assert_allclose(ours, theirs[[1, 0, 3, 2]], atol=1e-6)


def test_filters_of_networks_that_have_not_learned_are_left_out(
    tiny: Study, figures: dict[str, Any]
) -> None:
    rows = run.table_3({5: PolicyCNN(5)}).split("\n")
    assert [row[:7] for row in rows[2:]] == ["| k = 5"] * 6
    assert len(panels_of(figures["filters.png"])) == 12


# Tables 4 to 7


@pytest.mark.parametrize("layers", [2, 5])
def test_published_contributions_stand_with_their_sums_below_as_many_of_ours(
    tiny: Study, layers: int
) -> None:
    net = likes(layers, [0, 1, 2, 3], weight=1.0)
    parts = run.tables_4_to_7(net, layers, tiny.told["published"]).split("\n\n")
    for i, what in enumerate(("last layer", "layer before")):
        head, ours, label, theirs = parts[4 * i : 4 * i + 4]
        assert (head, label) == (f"Inputs of the {what}, ours:", "Published:")
        lines = ["| unit | a: % (sum) | b: % (sum) | c: % (sum) |", "| --- | --: | --: | --: |"]
        sums = [row.split("/") for row in SUMS[what, layers].split()]
        for (unit, *shares), totals in zip(published_rows(what, layers), sums, strict=True):
            cells = (f"{share} ({total})" for share, total in zip(shares, totals, strict=True))
            lines.append(f"| {' | '.join([unit, *cells])} |")
        assert theirs.split("\n") == lines
        assert ours.count("\n") == theirs.count("\n")
    assert len(parts) == 9


def test_our_contributions_are_those_of_the_units_that_speak(tiny: Study) -> None:
    """Down is 3 times what #0 says in column 1, row 0, less half of what #1 says in (0, 2).

    #0 says what #5 of the first layer says there: 1, and 3 where the tile is 4096, on the first
    board. #1 says twice what #4, always 1, says to its right. So the shares are 9 to 1 and 3 to 1.
    """
    net = PolicyCNN(2)
    with torch.no_grad():
        for weights in net.parameters():
            weights.zero_()
        net.get_parameter("body.1.bias")[4:6] = 1
        net.get_parameter("body.1.weight")[5, TILES.index("4096"), 0, 0] = 2
        second = net.get_parameter("body.4.weight")
        second[0, 5, 0, 0], second[1, 4, 0, 1] = 1, 2
        last = net.get_parameter("body.7.weight").view(4, 6, 4, 4)
        last[DOWN, 0, 0, 1], last[DOWN, 1, 2, 0], last[UP, 2] = 3, -0.5, 7
    parts = run.tables_4_to_7(net, 2, tiny.told["published"]).split("\n\n")
    head = (
        "| unit | snake x2: % (sum) | snake: % (sum) | snake x0.5: % (sum) |\n"
        "| --- | --: | --: | --: |\n"
    )
    assert parts[1] == head + (
        "| (1, 0)#0 | 90.0 (90.0) | 75.0 (75.0) | 75.0 (75.0) |\n"
        "| (0, 2)#1 | 10.0 (100.0) | 25.0 (100.0) | 25.0 (100.0) |"
    )
    assert parts[5] == head + (
        "| (1, 0)#5 | 90.0 (90.0) | 75.0 (75.0) | 75.0 (75.0) |\n"
        "| (1, 2)#4 | 10.0 (100.0) | 25.0 (100.0) | 25.0 (100.0) |"
    )
    assert parts[8] == (
        "The four largest inputs of the last layer have 100.0, 100.0, 100.0 % on the three boards; "
        "2 of them are the same on all three."
    )


# Section 6 and figure 5


def test_published_probabilities_stand_beside_ours_where_there_are_some(tiny: Study) -> None:
    wanted = np.log([0.1, 0.2, 0.3, 0.4]).tolist()
    found = {layers: likes(layers, wanted) for layers in (2, 3, 5)}
    ours = "0.100 0.200 0.300 0.400"
    assert run.figure_5(found, tiny.told["published"]) == (
        "| board, network | up right down left | published |\n"
        "| --- | --: | --: |\n"
        f"| 5a, k = 2 | {ours} | 0.243 0.405 0.104 0.248 |\n"
        f"| 5a, k = 3 | {ours} |  |\n"
        f"| 5a, k = 5 | {ours} | 0.470 0.470 0.000 0.060 |\n"
        f"| 5b, k = 2 | {ours} |  |\n"
        f"| 5b, k = 3 | {ours} |  |\n"
        f"| 5b, k = 5 | {ours} |  |"
    )


@pytest.mark.parametrize("which", [(2, 5), (2, 3, 4, 5)], ids=str)
def test_agreement_stands_above_that_of_the_study(
    tiny: Study, figures: dict[str, Any], which: tuple[int, ...]
) -> None:
    """All but k = 2 choose the same; it agrees with them where one move is legal, once in six."""
    found = {layers: likes(layers, [0, 1, 2, 3]) for layers in which}
    found[2] = likes(2, [3, 2, 1, 0])
    moves = np.zeros(len(CHOICES), play_logs.MOVE)
    moves["board"] = [rules.from_text(text) for text in CHOICES]
    tiny.runs.mkdir()
    np.save(tiny.runs / "states_k5.npy", moves)
    parts = run.section_6(found, tiny.runs, tiny.told["published"]).split("\n\n")
    others = [f"| only k = {layers} differs | 0 | 0.0 |" for layers in which[1:]]
    if which == (2, 5):  # where two differ, each does
        others = ["| only k = 5 differs | 5 | 83.3 |"]
    assert parts[0].split("\n") == [
        *("| of 6 boards | boards | % |", "| --- | --: | --: |"),
        *("| all agree | 1 | 16.7 |", "| only k = 2 differs | 5 | 83.3 |", *others),
    ]
    assert parts[1] == (
        "| published, four networks, of 77,253 boards | boards | % |\n"
        "| --- | --: | --: |\n"
        "| all agree | 22,807 | 29.5 |\n"
        "| only k = 2 differs | 5,915 | 7.7 |"
    )
    named = {f"k = {layers}": net for layers, net in found.items()}
    assert parts[2] == inside.heuristics_table(named, boards_of(*CHOICES))
    assert parts[3].count("convolution") == sum(which) and len(parts) == 4
    captions = {panel.get_title(loc="left") for panel in panels_of(figures["boards.png"])}
    assert captions == {
        "up right down left\nk = 2: 0.64 0.24 0.09 0.03\nk = 5: 0.03 0.09 0.24 0.64"
    }


def test_positions_are_those_of_twenty_games_of_the_strongest_after_100_moves(
    tiny: Study, figures: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {layers: likes(layers, [0, 1, 2, 3]) for layers in (2, 3)}
    for layers, net in found.items():
        tiny.put(layers, net)
    run.section_6(found, tiny.runs, tiny.told["published"])
    assert [path.name for path in tiny.runs.glob("*.npy")] == ["states_k3.npy"]
    told = json.loads((tiny.runs / "states_k3.json").read_text())
    (player,) = told["players"]
    assert player["player"] == str(tiny.runs / "k3" / "net.safetensors")
    assert (player["games"], told["skip"], told["share"]) == (20, 100, 1.0)
    states = play_logs.read(tiny.runs / "states_k3.npy")
    boards = torch_rules.from_words(states["board"])
    assert policy_net.choices(found[3], boards).tolist() == states["action"].tolist()
    monkeypatch.setattr(play_logs, "main", None)  # they are there now
    run.section_6(found, tiny.runs, tiny.told["published"])


# All of it


def test_what_is_inside_is_written_with_all_sections_and_pictures(
    tiny: Study,
    figures: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = dict(list(run.published_filters().items())[::6])
    monkeypatch.setattr(run, "published_filters", lambda: some)
    for layers, wanted in {2: [3, 2, 1, 0], 5: [0, 1, 2, 3]}.items():
        tiny.put(layers, likes(layers, wanted, weight=1e-2))
    with pytest.raises(SystemExit, match=r"games\.jsonl"):
        tiny.main("inside")
    tiny.main("play", "--games", "2")
    tiny.main("inside")
    text = (tiny.results / "README.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.endswith(f"written: {tiny.results / 'README.md'}\n")
    assert re.findall("^#+ (.*)", text, re.MULTILINE) == [
        "What happens inside policy networks (Matsuzaki and Teramura)",
        "Table 2: scores",
        "Table 3: filters of the first layer",
        "Figure 3: large weights",
        "Tables 4 and 5: contributions to down, k = 2",
        "Tables 6 and 7: contributions to down, k = 5",
        "Section 6: agreement and heuristics",
        "Figure 5",
    ]
    assert "The study's networks learned from 600 million moves" in text
    links = re.findall(r"!\[\]\((.*?)\)", text)
    assert links == ["filters.png", "weights.svg", "boards.png"]
    assert set(links) == set(figures) and all((tiny.results / link).exists() for link in links)
    found, told = run.networks(tiny.runs), tiny.told["published"]
    assert run.table_2(told) in text and run.figure_5(found, told) in text
    for layers in (2, 5):
        assert run.tables_4_to_7(found[layers], layers, told) in text
    (curves,) = figures["weights.svg"].axes
    assert [line.get_label() for line in curves.lines] == [
        *("k = 2, of 6 filters", "k = 5, of 3 filters")
    ]
    for line, net in zip(curves.lines, found.values(), strict=True):
        counts = analysis.filters_above(analysis.first_layer(net))
        assert line.get_ydata().tolist() == counts.tolist()


@pytest.mark.parametrize("words", [[], ["log"], ["tables", "--runs", "x"]], ids=" ".join)
def test_wrong_words_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run.main(words)
    assert caught.value.code == 2

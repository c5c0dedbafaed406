"""Tests of the tables and pictures of policy networks, and of the command that makes them."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from afterstate.agents import nets
from afterstate.agents.game2048.learning.play_logs import MOVE
from afterstate.agents.game2048.values import policy_net
from afterstate.agents.game2048.values.planes import planes as to_planes
from afterstate.agents.game2048.values.policy_net import PolicyCNN
from afterstate.envs.commands import exit_code
from afterstate.envs.game2048 import rules
from afterstate.text_tables import markdown
from benchmarks.experiments.policy_nets import analysis, drawing, inspection, tables
from benchmarks.experiments.policy_nets.analysis import CELLS, PAPER_BOARDS, TILES, Agreement
from tests.benchmarks.experiments.policy_nets.test_analysis import CHOICES, FixedPolicy, boards_of

UP, RIGHT, DOWN, LEFT = range(4)

PUBLISHED = Path(__file__).parents[4] / "benchmarks/experiments/policy_nets/published_filters.csv"

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list of the figures that are made, which are not written."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    made: list[Any] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: made.append(figure))
    return made


def panels_of(figure: Any) -> list[Any]:
    """Return the panels with content, without the color bar."""
    return [each for each in figure.axes if each.axison and each.get_label() != "<colorbar>"]


def published() -> tuple[list[str], npt.NDArray[np.float64]]:
    """Return the names and the weights `[12, 4, 16]` of the paper's filters."""
    with open(PUBLISHED, encoding="utf-8", newline="") as file:
        head, *rows = list(csv.reader(file))
    assert tuple(head[3:]) == TILES and [row[2] for row in rows] == 12 * list(CELLS)
    weights = np.array([row[3:] for row in rows], np.float64).reshape(12, 4, 16)
    return [f"k = {row[0]}, #{row[1]}" for row in rows[::4]], weights


def test_published_filters_have_the_features_that_the_paper_names() -> None:
    names, weights = published()
    by_name = dict(zip(names, weights, strict=True))
    four, eight = TILES.index("4"), TILES.index("8")
    for name in ("k = 2, #74", "k = 5, #198"):  # NW is 4 and SW is not
        assert by_name[name][0].argmax() == four and by_name[name][2].argmin() == four
    for name in ("k = 2, #363", "k = 5, #213"):  # an 8 anywhere but SE
        assert (by_name[name][:3, eight] > 0.25).all() and by_name[name][3, eight] < 0.1


def test_positive_weights_are_blue_and_negative_ones_red_where_the_labels_say(
    figures: list[Any],
) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    names, weights = published()
    drawing.draw_filters(weights[2:8:5], names[2:8:5], "published.png")
    canvas: Any = FigureCanvasAgg(figures[0])
    canvas.draw()
    picture = np.asarray(canvas.buffer_rgba()).astype(int)[::-1]  # from the bottom up
    for panel, filter_ in zip(panels_of(figures[0]), weights[2:8:5], strict=True):
        rows = {label.get_text(): label.get_position()[1] for label in panel.get_yticklabels()}
        columns = {label.get_text(): label.get_position()[0] for label in panel.get_xticklabels()}
        for (cell, tile), weight in np.ndenumerate(filter_):
            x, y = panel.transData.transform((columns[TILES[tile]], rows[CELLS[cell]]))
            red, green, blue, _ = picture[int(y), int(x)]
            assert (blue > red + 3) == (weight > 0.05) or 0.02 < weight <= 0.05
            assert (red > blue + 3) == (weight < -0.05) or -0.05 <= weight < -0.02
            assert abs(weight) > 0.02 or min(red, green, blue) > 230  # nearly white
        heights = [panel.transData.transform((0, rows[cell]))[1] for cell in CELLS]
        assert heights == sorted(heights, reverse=True)


@pytest.mark.slow
def test_all_published_filters_are_drawn_with_their_names_and_labels(figures: list[Any]) -> None:
    names, weights = published()
    drawing.draw_filters(weights, names, "published.png")
    panels = panels_of(figures[0])
    assert [panel.get_title() for panel in panels] == names
    for panel, filter_ in zip(panels, weights, strict=True):
        assert tuple(label.get_text() for label in panel.get_yticklabels()) == CELLS
        assert tuple(label.get_text() for label in panel.get_xticklabels()) == TILES
        (image,) = panel.images
        np.testing.assert_array_equal(image.get_array(), filter_)
        red, _, blue, _ = np.moveaxis(image.to_rgba(filter_), -1, 0)
        assert (blue > red)[filter_ > 0.05].all() and (red > blue)[filter_ < -0.05].all()


def test_the_color_scale_is_symmetric(figures: list[Any]) -> None:
    weights = np.zeros((3, 4, 16))
    weights[1, 2, 3], weights[2] = -2, 0.5
    drawing.draw_filters(weights, ["a", "b", "c"], "filters.png")
    drawing.draw_filters(np.zeros((1, 4, 16)), ["nothing"], "filters.png", columns=1)
    assert [panel.images[0].get_clim() for panel in panels_of(figures[0])] == [(-2, 2)] * 3
    (nothing,) = panels_of(figures[1])
    np.testing.assert_allclose(nothing.images[0].to_rgba(np.zeros(1))[0, :3], 0.97, atol=0.01)


@pytest.mark.slow
def test_the_same_picture_is_the_same_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names, weights = published()
    for folder in ("first", "second"):
        drawing.draw_filters(weights[:1], names[:1], tmp_path / folder / "filters.svg", columns=1)
        drawing.draw_boards([0x4321], ["one"], tmp_path / folder / "board.png", columns=1)
    for name, begin in (("filters.svg", b"<?xml"), ("board.png", b"\x89PNG")):
        first, second = ((tmp_path / folder / name).read_bytes() for folder in ("first", "second"))
        assert first == second and first.startswith(begin)


def test_curves_count_filters_with_more_weights(figures: list[Any]) -> None:
    weights = np.zeros((3, 4, 16), np.float32)
    weights[0, 0, :5], weights[1, :, 2] = -1, 0.3
    drawing.draw_weights({"k = 2": weights, "k = 5": weights[:1]}, "weights.svg", threshold=0.5)
    drawing.draw_weights({"k = 2": weights}, "weights.svg")
    two, five = figures[0].axes[0].lines
    assert two.get_xdata().tolist() == list(range(65))
    assert two.get_ydata().tolist() == five.get_ydata().tolist() == [1] * 5 + [0] * 60
    assert figures[1].axes[0].lines[0].get_ydata().tolist() == [2] * 4 + [1] + [0] * 60
    legend = [text.get_text() for text in figures[0].axes[0].get_legend().get_texts()]
    assert legend == ["k = 2, of 3 filters", "k = 5, of 1 filters"]
    assert "above 0.5" in figures[0].axes[0].get_ylabel()


def test_boards_are_drawn_with_their_tiles_and_captions(figures: list[Any]) -> None:
    boards = [rules.from_text(PAPER_BOARDS[name]) for name in ("5a", "5b", "x1", "x2")]
    drawing.draw_boards(boards, ["one", "two", "three", "four"], "boards.png")
    shown = [panel for panel in figures[0].axes if panel.images]
    assert len(figures[0].axes) == 6 and len(shown) == 4
    assert [panel.get_title(loc="left") for panel in shown] == ["one", "two", "three", "four"]
    tiles = {text.get_position(): text.get_text() for text in shown[0].texts}
    assert len(tiles) == 14  # the others are empty
    assert tiles[1, 0] == "4096" and tiles[0, 2] == "2" and tiles[3, 0] == "128"  # column, row
    low, high = shown[0].get_ylim()
    assert low > high  # the first row is on top


def test_a_caption_has_a_line_for_each_network() -> None:
    """Right and down are legal."""
    networks = {"a": FixedPolicy([0.1, 0.2, 0.3, 0.4]), "b": FixedPolicy([0.25, 0.5, 0.125, 0.125])}
    expected = "up right down left\na: - 0.40 0.60 -, down\nb: - 0.80 0.20 -, right"
    assert tables.caption(networks, boards_of(CHOICES[0])[0]) == expected


def test_logits_of_illegal_moves_are_in_brackets() -> None:
    table = tables.logits_table(FixedPolicy([1, np.e, 1, np.exp(-2)]), boards_of(CHOICES[0]), ["x"])
    assert table == (
        "| logits | up | right | down | left |\n| --- | --: | --: | --: | --: |\n"
        "| x | (0.00) | 1.00 | 0.00 | (-2.00) |"
    )


def test_a_table_is_written_in_markdown() -> None:
    table = "| a | b | c |\n| --- | --: | --: |\n| x | 1 | 2 |\n| y | 3 | 4 |"
    assert markdown(["a", "b", "c"], [["x", "1", "2"], ["y", "3", "4"]]) == table


def test_contributions_are_in_the_order_of_the_middle_board_with_their_sums() -> None:
    shares = np.zeros((3, 2, 2, 3))  # board, filter, row, column
    shares[:, 0, 1, 2] = 0.1, 0.5, 0.25
    shares[:, 1, 0, 1] = 0.7, 0.125, 0.0
    shares[:, 1, 1, 0] = 0.2, 0.375, 0.5
    shares[:, 0, 0, 0] = 0.0, 0.0, 0.25
    assert tables.contribution_table(list(shares), ["a", "b", "c"], 9) == (
        "| unit | a: % (sum) | b: % (sum) | c: % (sum) |\n"
        "| --- | --: | --: | --: |\n"
        "| (2, 1)#0 | 10.0 (10.0) | 50.0 (50.0) | 25.0 (25.0) |\n"
        "| (0, 1)#1 | 20.0 (30.0) | 37.5 (87.5) | 50.0 (75.0) |\n"
        "| (1, 0)#1 | 70.0 (100.0) | 12.5 (100.0) | 0.0 (75.0) |"
    )
    assert tables.contribution_table(list(shares[2:]), ["c"], 1) == (
        "| unit | c: % (sum) |\n| --- | --: |\n| (0, 1)#1 | 50.0 (50.0) |"
    )


def test_agreement_is_written_in_boards_and_percent() -> None:
    counts = Agreement(77_253, 22_807, [5_915, 1])
    assert tables.agreement_table(["k = 2", "k = 5"], counts) == (
        "| of 77,253 boards | boards | % |\n"
        "| --- | --: | --: |\n"
        "| all agree | 22,807 | 29.5 |\n"
        "| only k = 2 differs | 5,915 | 7.7 |\n"
        "| only k = 5 differs | 1 | 0.0 |"
    )


OBEDIENCE = """\
| where there is a choice | corner: % of 3 boards | edge: % of 1 boards |
| --- | --: | --: |
| random moves | 44.4 | 50.0 |
| the log's players | 66.7 | 100.0 |
| k = 2 | 33.3 | 100.0 |
| k = 5 | 66.7 | 0.0 |"""
"""Of the first three boards of `CHOICES`, where k = 2 goes right, and k = 5 down, left, down.

The players go down, down and right. The corner is kept by down, by left, and by right, of two,
three, and two legal moves; in the last of them right keeps the edge, too.
"""

PLAYED = (DOWN, DOWN, RIGHT, DOWN, UP, DOWN)


def test_heuristics_are_compared_with_random_moves() -> None:
    boards = boards_of(*CHOICES[:3])
    networks = {
        "k = 2": FixedPolicy(*3 * [[0.1, 0.5, 0.2, 0.2]]),
        "k = 5": FixedPolicy([0.1, 0.2, 0.5, 0.2], [0.1, 0.2, 0.3, 0.4], [0.6, 0.1, 0.3, 0.0]),
    }
    players = torch.tensor(PLAYED[:3])
    assert tables.heuristics_table(networks, boards, players) == OBEDIENCE
    without = OBEDIENCE.replace("| the log's players | 66.7 | 100.0 |\n", "")
    assert tables.heuristics_table(networks, boards) == without


def test_each_layer_has_a_probe_of_each_heuristic(tiny: None) -> None:
    rng = np.random.default_rng(1)
    words = rules.words(rng.integers(0, 5, (300, 4, 4)).astype(np.uint8))
    boards = torch.from_numpy(words.view(np.int64))
    torch.manual_seed(1)
    fit, test = boards[:200], boards[200:]
    table = tables.probe_table({"a": PolicyCNN(2), "b": PolicyCNN(5)}, fit, test)
    head, _, *rows = [line.strip("| ").split(" | ") for line in table.split("\n")]
    assert head == ["area under the ROC curve", "corner", "edge"]
    layers = {"a": 2, "b": 5}
    names = [
        f"{name}, {layer}"
        for name, n in layers.items()
        for layer in ("planes", *(f"convolution {i + 1}" for i in range(n)))
    ]
    assert [row[0] for row in rows] == names
    assert rows[0][1:] == rows[3][1:]  # of the planes both networks see the same
    planes = [to_planes(each).flatten(1) for each in (fit, test)]
    for cell, obeys in zip(rows[0][1:], analysis.HEURISTICS.values(), strict=True):
        area = analysis.probe(planes[0], obeys(fit), planes[1], obeys(test))
        assert cell == f"{area:.3f}"
    assert all(0 <= float(area) <= 1 for row in rows for area in row[1:])


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make policy networks with few filters."""
    monkeypatch.setitem(policy_net.CHANNELS, 2, 6)
    monkeypatch.setitem(policy_net.CHANNELS, 5, 3)


class Files:
    """The files that the command reads, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.two = self.network(folder / "two.safetensors", 2, [3, 2, 1, 0])
        self.five = self.network(folder / "five.safetensors", 5, [0, 1, 2, 3])
        self.log, self.out = str(folder / "log.npy"), str(folder / "made" / "picture.png")
        moves = np.zeros(len(CHOICES), MOVE)
        moves["board"] = [rules.from_text(text) for text in CHOICES]
        moves["action"] = PLAYED
        np.save(self.log, moves)

    @staticmethod
    def network(path: Path, layers: int, logits: Sequence[float]) -> str:
        """Write a network with constant logits and return its file."""
        torch.manual_seed(layers)
        net = PolicyCNN(layers)
        last: Any = net.body[-1]
        nn.init.zeros_(last.weight)
        last.bias.data = torch.tensor(logits, dtype=torch.float32)
        nets.save(net, path)
        return str(path)


@pytest.fixture
def given(tiny: None, tmp_path: Path) -> Files:
    """Return networks and a log; k = 2 prefers up, right, down, left, k = 5 the reverse."""
    return Files(tmp_path)


def test_the_filters_with_the_largest_weights_or_the_given_ones_are_drawn(
    given: Files, figures: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    weights = analysis.first_layer(policy_net.load(given.two))
    inspection.main(["filters", given.two, "--top", "3", "--out", given.out])
    assert capsys.readouterr().out == f"written: {given.out}\n"
    order = sorted(range(6), key=lambda i: -np.abs(weights[i]).sum())
    titles = [panel.get_title() for panel in panels_of(figures[0])]
    assert titles == [f"k = 2, #{number}" for number in order[:3]]
    inspection.main(["filters", given.two, "--filters", "5", "0", "--out", given.out])
    five, zero = panels_of(figures[1])
    assert (five.get_title(), zero.get_title()) == ("k = 2, #5", "k = 2, #0")
    np.testing.assert_array_equal(five.images[0].get_array(), weights[5])
    np.testing.assert_array_equal(zero.images[0].get_array(), weights[0])


def test_the_weights_of_several_networks_are_drawn(
    given: Files, figures: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    inspection.main(["weights", given.two, given.five, "--threshold", "0.2", "--out", given.out])
    head, _, *rows, _, written = capsys.readouterr().out.splitlines()
    assert head.endswith("| median weights of a filter above 0.2, of 64 |")
    for path, row in zip((given.two, given.five), rows, strict=True):
        weights = np.abs(analysis.first_layer(policy_net.load(path)))
        _, _, mean, median, _ = row.split("|")
        assert float(mean) == pytest.approx(weights.mean(), abs=5e-4)
        assert float(median) == np.median([(each > 0.2).sum() for each in weights])
    assert written == f"written: {given.out}"
    curves = figures[0].axes[0].lines
    assert [curve.get_label() for curve in curves] == ["k = 2, of 6 filters", "k = 5, of 3 filters"]
    for path, curve in zip((given.two, given.five), curves, strict=True):
        counts = analysis.filters_above(analysis.first_layer(policy_net.load(path)), 0.2)
        assert curve.get_ydata().tolist() == counts.tolist()


def test_contributions_are_by_default_those_on_the_boards_of_figure_4(
    given: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = policy_net.load(given.two)
    second: Any = net.get_submodule("body.4")
    last: Any = net.get_submodule("body.7")
    with torch.no_grad():
        second.bias[3] = 1e3  # active
        last.weight.view(4, 6, 4, 4)[DOWN, 3, 0, 1] = 2
    nets.save(net, tmp_path / "net.safetensors")
    inspection.main(["contributions", str(tmp_path / "net.safetensors"), "--units", "4"])
    logits, first, table, second_of, other = capsys.readouterr().out.strip().split("\n\n")
    names = ["x2", "x1", "x0.5"]
    words = [rules.from_text(PAPER_BOARDS[name]) for name in names]
    boards = boards_of(*(PAPER_BOARDS[name] for name in names))
    assert logits == tables.logits_table(net, boards, names)
    assert logits.split("\n")[3].startswith("| x1 | 3.00 | 2.00 | ")
    assert logits.split("\n")[3].endswith("(0.00) |")  # left is illegal
    assert first == "Inputs of the last layer:"
    assert second_of == "Inputs of layer 1 before the last:"
    assert table.split("\n")[2:] == ["| (1, 0)#3 | 100.0 (100.0) | 100.0 (100.0) | 100.0 (100.0) |"]
    shares = [analysis.contributions(net, word, DOWN)[1] for word in words]
    assert other == tables.contribution_table(shares, names, 4) and other.count("\n") == 5


def test_contributions_take_boards_moves_and_layers(
    given: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(1)
    net = PolicyCNN(5)
    nets.save(net, tmp_path / "net.safetensors")
    options = ["--action", "left", "--layers", "4", "--units", "3", "--followed", "2"]
    boards = ["--boards", "5b", CHOICES[0]]
    inspection.main(["contributions", str(tmp_path / "net.safetensors"), *boards, *options])
    written = capsys.readouterr().out.strip().split("\n\n")[2::2]
    words = [rules.from_text(text) for text in (PAPER_BOARDS["5b"], CHOICES[0])]
    traced = [analysis.contributions(net, word, LEFT, 4, [2] * 4) for word in words]
    names = ["5b", CHOICES[0]]
    expected = [tables.contribution_table(s, names, 3) for s in zip(*traced, strict=True)]
    assert written == expected and len(written) == 4


AGREEMENT = """\
| of 6 boards | boards | % |
| --- | --: | --: |
| all agree | 1 | 16.7 |
| only k = 2 differs | 5 | 83.3 |
| only k = 5 differs | 5 | 83.3 |
"""


def test_agreement_is_counted_on_a_log(
    given: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # tables do not need it
    inspection.main(["agreement", given.two, given.five, "--log", given.log])
    assert capsys.readouterr().out == AGREEMENT
    inspection.main(["agreement", given.two, given.five, "--log", given.log, "--states", "2"])
    assert "| of 2 boards |" in capsys.readouterr().out


def test_2_and_5_are_the_pretrained_networks(
    given: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(policy_net.PRETRAINED, 2, Path(given.two))
    monkeypatch.setitem(policy_net.PRETRAINED, 5, Path(given.five))
    inspection.main(["agreement", "2", "5", "--log", given.log])
    assert capsys.readouterr().out == AGREEMENT


def test_networks_with_the_same_layers_are_named_by_their_files(
    given: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "two" / Path(given.two).name
    other.parent.mkdir()
    Files.network(other, 2, [0, 1, 2, 3])
    inspection.main(["agreement", given.two, str(other), "--log", given.log])
    table = capsys.readouterr().out
    assert "| all agree | 1 | 16.7 |" in table and table.count("differs | 5 | 83.3 |") == 2
    assert f"k = 2, {given.two} differs" in table and f"k = 2, {other} differs" in table


def test_the_boards_on_which_networks_differ_most_surely_are_drawn(
    given: Files, figures: list[Any]
) -> None:
    inspection.main(
        ["disagreements", given.two, given.five, "--log", given.log, "--out", given.out]
    )
    shown = [panel for panel in figures[0].axes if panel.images]
    # First where four moves are legal, then three, then two, as in the log; where one is, none.
    tiles = [sorted(text.get_text() for text in panel.texts) for panel in shown]
    assert tiles == [["16"], ["16", "2"], ["16", "2"], ["16", "2", "2", "4", "8"], ["4"]]
    rows = [[text.get_position() for text in panel.texts] for panel in shown[1:3]]
    assert rows == [[(1, 0), (2, 0)], [(0, 0), (1, 0)]]  # three legal moves, then two
    assert shown[0].get_title(loc="left") == (
        "up right down left\nk = 2: 0.64 0.24 0.09 0.03, up\nk = 5: 0.03 0.09 0.24 0.64, left"
    )
    assert shown[4].get_title(loc="left") == (  # 0.24 to 0.09 of right and down
        "up right down left\nk = 2: - 0.73 0.27 -, right\nk = 5: - 0.27 0.73 -, down"
    )


def test_heuristics_are_written_for_players_networks_and_layers(
    given: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--log", given.log, "--states", "3"]
    inspection.main(["heuristics", given.two, given.five, *options])
    assert capsys.readouterr().out.strip() == OBEDIENCE
    inspection.main(["heuristics", given.two, given.five, *options, "--others", given.log])
    obedience, probes = capsys.readouterr().out.strip().split("\n\n")
    assert obedience == OBEDIENCE
    assert [row.split(" | ")[0] for row in probes.split("\n")[2:5]] == [
        "| k = 2, planes",
        "| k = 2, convolution 1",
        "| k = 2, convolution 2",
    ]
    assert len(probes.split("\n")) == 2 + 3 + 6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["filters", "missing.safetensors", "--out", "OUT"], r"missing\.safetensors"),
        (["filters", "LOG", "--out", "OUT"], "not a network of afterstate"),
        (["filters", "TWO", "--filters", "0", "6", "--out", "OUT"], "filters"),
        (["filters", "TWO", "--filters", "-1", "--out", "OUT"], "filters"),
        (["filters", "TWO", "--out", "OUT.strange"], "strange"),
        (["weights", "TWO", "--out", "LOG/picture.png"], r"log\.npy"),
        (["contributions", "TWO", "--boards", "9z"], "9z"),
        (["agreement", "TWO", "--log", "LOG"], "at least two networks"),
        (["agreement", "TWO", "FIVE", "--log", "missing.npy"], r"missing\.npy"),
        (["agreement", "TWO", "FIVE", "--log", "TWO"], "not a play log"),
        (["agreement", "TWO", "TWO", "--log", "LOG"], "different"),
        (["disagreements", "TWO", "--log", "LOG", "--out", "OUT"], "at least two networks"),
        (["heuristics", "TWO", "--log", "LOG", "--others", "missing.npy"], r"missing\.npy"),
        (["heuristics", "TWO", "--log", "missing.npy"], r"missing\.npy"),
    ],
)
def test_errors_end_with_a_message(given: Files, words: Sequence[str], message: str) -> None:
    if words[0] in ("filters", "weights", "disagreements"):
        pytest.importorskip("matplotlib")
    places = {"OUT": given.out, "LOG": given.log, "TWO": given.two, "FIVE": given.five}
    for place, path in places.items():
        words = [word.replace(place, path) for word in words]
    with pytest.raises((OSError, ValueError), match=message):
        inspection.main(words)
    assert not Path(given.out).exists()


def test_pictures_without_matplotlib_end_with_the_name_of_the_extra(
    given: Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit, match=r"^2$"):
        exit_code(inspection.main, ["weights", given.two, "--out", given.out])
    assert 'this needs matplotlib: pip install "afterstate[examples]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["pictures"],
        ["filters", "2"],
        ["agreement", "2", "5"],
        ["contributions", "2", "--action", "north"],
        ["contributions", "2", "--layers", "0"],
        ["filters", "2", "--top", "0", "--out", "x.png"],
        ["filters", "2", "5", "--out", "x.png"],
    ],
    ids=" ".join,
)
def test_wrong_arguments_are_rejected(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        inspection.parse(words)
    assert caught.value.code == 2


@pytest.mark.parametrize("command", ["filters", "contributions", "heuristics"])
def test_a_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        inspection.parse([command, "--help"])
    assert caught.value.code == 0 and "or 2 or 5" in capsys.readouterr().out

"""Tests of the policy network experiment: its tables worked by hand, and a tiny run."""

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
from torch import Tensor, nn

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.learning.options import LogOptions
from afterstate.agents.game2048.play import evaluation, play
from afterstate.agents.game2048.values import policy_net
from afterstate.agents.game2048.values.policy_net import PolicyCNN, PolicyNetAgent
from afterstate.agents.training import learners
from afterstate.agents.training.evaluation import EVALUATION_SEED, summary
from afterstate.envs import json_files
from afterstate.envs.game2048 import rules, torch_rules
from benchmarks.experiments.policy_nets import analysis, logs, report, run, settings, tables
from benchmarks.experiments.policy_nets.analysis import TILES
from tests.benchmarks.experiments.policy_nets.test_analysis import CHOICES, boards_of

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
"""Their cumulative shares, added up by hand."""


def published_rows(what: str, layers: int) -> list[list[str]]:
    """Return the units of a published table, each with its three shares."""
    rows = (row.rsplit(" ", 1) for row in PUBLISHED[what, layers].split("; "))
    return [[unit, *shares.split("/")] for unit, shares in rows]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Tiny:
    """An experiment with small networks in a folder."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.runs, self.results, self.settings = folder / "runs", folder / "results", settings

    def main(self, *arguments: str) -> None:
        """Run the command with these settings."""
        out = [] if arguments[0] == "log" else ["--out", str(self.results)]
        run.main([*arguments, "--runs", str(self.runs), "--settings", str(self.file()), *out])

    def file(self) -> Path:
        """Return a file of the settings."""
        path = self.runs.with_name("settings.json")
        path.write_text(json.dumps(self.settings))
        return path

    @property
    def args(self) -> run.Args:
        """Return arguments of the command."""
        return run.Args("report", runs=self.runs, settings=self.file(), out=self.results)

    @property
    def published(self) -> settings.Published:
        """Return the published values."""
        return self.args.folder.experiment.published

    def networks(self) -> dict[int, nn.Module]:
        """Return the trained networks of the first seed, by their layers."""
        files = run.trained_networks(self.args)
        return {layers: policy_net.load(file) for (layers, _), file in files.items()}

    def learned(self, layers: int, seed: int = 1) -> Any:
        """Return the number of moves that a network has learned from."""
        return nets.metadata(settings.network_file(self.runs, layers, seed))["n_moves"]

    def put(self, layers: int, net: nn.Module, n_moves: float = 100, seed: int = 1) -> None:
        """Write a trained network."""
        path = settings.network_file(self.runs, layers, seed)
        nets.save(net, path, n_moves=n_moves, seconds=12.5)

    def log(self) -> None:
        """Write a log of moves."""
        boards = torch_rules.start((100,), torch.Generator().manual_seed(1))
        moves = np.zeros(100, play_logs.MOVE)
        moves["board"] = torch_rules.to_words(boards)
        moves["action"] = torch_rules.legal(boards).int().argmax(1).numpy()
        self.runs.mkdir(exist_ok=True)
        np.save(self.runs / "moves.npy", moves)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of table 2."""
        return read_rows(self.results / "games.jsonl")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tiny:
    """Return an experiment with a log of 100 moves, 3 games, and few filters."""
    loaded = json_files.read(settings.SETTINGS) | {"games": 3, "moves": 100}
    loaded["log"] = {"player": "random", "moves": 100, "seed": 1}
    loaded["learner"] = loaded["learner"] | {"batch": 20}
    monkeypatch.setattr(report, "PROBE_GAMES", 20)
    for layers, n in {2: 6, 3: 5, 4: 4, 5: 3}.items():
        monkeypatch.setitem(policy_net.CHANNELS, layers, n)
    return Tiny(tmp_path, loaded)


def panels_of(figure: Any) -> list[Any]:
    """Return the panels with images, without the color bar."""
    shown = [each for each in figure.axes if each.images and each.get_label() != "<colorbar>"]
    assert shown
    return shown


def constant_net(layers: int, logits: Sequence[float], weight: float = 0.0) -> nn.Module:
    """Return a network with these logits on every board, or nearly."""
    torch.manual_seed(layers)
    net = PolicyCNN(layers)
    last: Any = net.body[-1]
    with torch.no_grad():
        last.weight.mul_(weight)
        last.bias.copy_(torch.tensor(logits, dtype=torch.float32))
    return net.eval()


def test_an_interrupted_log_is_continued(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def killed(*rest: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt, match="moves are kept"):
        patched.setattr(play_logs.Buckets, "write", killed)
        tiny.main("log")
    assert (tiny.runs / "moves.parts").exists()
    tiny.main("log", "--jobs", "1")
    log, metadata = tiny.runs / "moves.npy", json.loads((tiny.runs / "moves.json").read_text())
    assert len(play_logs.read(log)) == metadata["moves"] == 100
    assert metadata["players"][0]["player"] == "random" and metadata["seed"] == 1
    before = log.stat().st_mtime_ns
    tiny.main("log")  # nothing is left to do
    assert log.stat().st_mtime_ns == before
    with pytest.raises(ValueError, match=r"moves\.config\.json has other settings"):
        tiny.main("log", "--moves", "99")
    run.main(["log", "--runs", str(tmp_path / "other"), "--settings", str(tiny.file())])
    assert (tmp_path / "other" / "moves.npy").read_bytes() == log.read_bytes()


def test_networks_learn_from_the_log_one_by_one(
    tiny: Tiny,
) -> None:
    tiny.log()
    tiny.settings |= {"layers": [2, 3]}
    tiny.main("train", "--layers", "3")
    assert not (tiny.runs / "k2_seed_1").exists()
    learned = json.loads((tiny.runs / "k3_seed_1" / "settings.json").read_text())
    assert learned["network"] == {"layers": 3} and learned["seed"] == 1
    assert learned["log"] == str(tiny.runs / "moves.npy")
    assert {**tiny.settings["learner"], "decay": 100}.items() <= learned["learner"].items()
    tiny.main("train")
    assert [tiny.learned(layers) for layers in (2, 3)] == [100, 100]
    place = tiny.runs / "k3_seed_1" / "rows.jsonl"
    rows = read_rows(place)
    assert [row["n_moves"] for row in rows] == [20, 40, 60, 80, 100]
    assert all(0 <= row["accuracy"] <= 1 and "1-ply" not in row for row in rows)
    tiny.main("train")  # nothing is left to do
    assert read_rows(place) == rows
    assert list(run.trained_networks(tiny.args)) == [(2, 1), (3, 1)]
    tiny.settings["moves"] = 200  # the rates of learning are others
    with pytest.raises(ValueError, match=r"config\.json has other settings: give another folder"):
        tiny.main("train")


def test_moves_device_and_threads_are_passed_on(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[LogOptions] = []
    learned: list[tuple[Any, Any]] = []
    monkeypatch.setattr(play_logs, "write", written.append)
    monkeypatch.setattr(learners, "run", lambda *run: learned.append(run))
    tiny.main("log", "--moves", "6e8", "--jobs", "3")
    tiny.main("train", "--layers", "2", "--moves", "6e8", "--device", "cuda", "--threads", "2")
    assert [(log.moves, log.jobs) for log in written] == [(6e8, 3)]
    ((settings, options),) = learned
    assert (options.moves, options.threads, options.device) == (6e8, 2, "cuda")
    assert settings.learner.decay == 6e8 and options.evaluate_every == 3e7
    tiny.put(2, PolicyCNN(2), 6e8 - 1)
    with pytest.raises((OSError, ValueError), match="has learned all moves"):
        tiny.main("play", "--moves", "6e8")


@pytest.mark.slow
def test_each_seed_of_a_network_is_a_run(tiny: Tiny) -> None:
    tiny.log()
    tiny.main("train", "--layers", "2", "--repeats", "2")
    assert [tiny.learned(2, seed) for seed in (1, 2)] == [100, 100]
    learned = read_rows(tiny.results / "learning.jsonl")
    assert [(row["seed"], row["n_moves"]) for row in learned if row["n_moves"] == 100] == [
        *((1, 100), (2, 100))
    ]
    tiny.main("play", "--repeats", "2")
    _random, *rows = tiny.rows()
    assert [row["settings"]["seed"] for row in rows] == [1, 2]
    assert rows[0]["mean"] != rows[1]["mean"]
    tiny.main("play", "--repeats", "2")  # nothing is missing
    assert len(tiny.rows()) == 3
    means = [row["mean"] for row in rows]
    half = 12.706 * np.std(means, ddof=1) / 2**0.5
    line = report.table_2(tiny.results, tiny.published).split("\n")[5]
    assert line.startswith(f"| k = 2 | {np.mean(means):,.0f} ± {half:,.0f} | 2 |")


def test_without_a_log_nothing_learns(tiny: Tiny) -> None:
    with pytest.raises((OSError, ValueError), match=r"moves\.npy"):
        tiny.main("train", "--layers", "2")


def test_only_fully_trained_networks_are_used(tiny: Tiny) -> None:
    for command in ("play", "report"):
        with pytest.raises((OSError, ValueError), match="learned all moves"):
            tiny.main(command)
    tiny.put(4, PolicyCNN(4), 99)
    with pytest.raises((OSError, ValueError), match="train some first"):
        tiny.main("report")
    for layers, n_moves in ((2, 100), (3, 99), (5, 120)):
        tiny.put(layers, PolicyCNN(layers), n_moves)
    networks = tiny.networks()
    assert {k: nets.describe(net)["settings"]["layers"] for k, net in networks.items()} == {
        2: 2,
        5: 5,
    }


@pytest.mark.slow
def test_games_of_each_network_are_appended_once(
    tiny: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    net = constant_net(3, [0, 1, 2, 3])
    tiny.put(3, net)
    tiny.put(4, PolicyCNN(4), 40)
    tiny.main("play")
    tiny.put(2, PolicyCNN(2))
    tiny.main("play")
    tiny.main("play", "--games", "2")
    rows = tiny.rows()
    played = [(row["settings"].get("layers", 0), row["n_games"]) for row in rows]
    assert played == [(0, 3), (3, 3), (2, 3), (0, 2), (2, 2), (3, 2)]
    player = PolicyNetAgent(net)
    for row, games in ((rows[1], 3), (rows[5], 2)):
        facts = evaluation(lambda _: player, {1: games})["1-ply"]
        assert {name: row[name] for name in facts} == facts
        expected = {"layers": 3, "seed": 1, "moves": 100, "log": None}
        assert row["settings"] == {**expected, "learner": run.digest({})}
        assert (row["learning_seconds"], row["seed"]) == (12.5, EVALUATION_SEED)
    random = summary(play(agents.make("random", seed=1), 3, EVALUATION_SEED))
    assert {key: rows[0][key] for key in random} == random
    out = capsys.readouterr().out
    assert f"policy-net {rows[5]['settings']}: {rows[5]['mean']:,.0f} ± " in out


def test_table_2_has_the_latest_games_and_the_published_scores(
    tiny: Tiny,
) -> None:
    def of(layers: int, moves: int, mean: float, interval: float, largest: int) -> dict[str, Any]:
        settings = {"layers": layers, "seed": 1, "moves": moves, "log": 7}
        games = {"games": 1_000, "n_games": 1_000, "max": largest}
        return {"player": "policy-net", "settings": settings, **games} | {
            "mean": mean,
            "interval": interval,
        }

    random = {"player": "random", "settings": {"seed": 1}, "games": 9, "n_games": 9, "max": 2}
    rows = [
        {**random, "mean": 7.0, "interval": 3.0},
        {**random, "games": 1_000, "n_games": 1_000, "mean": 8.0, "interval": 1.0},
        of(5, 10, 1.0, 1.0, 2),
        of(2, 10, 1.0, 1.0, 2),
        of(3, 20, 12_345.6, 78.9, 98_765),
        of(5, 20, 54_321.0, 1_000.4, 123_456),
    ]
    tiny.results.mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tiny.results / "games.jsonl").write_text(lines, encoding="utf-8")
    head, table = report.table_2(tiny.results, tiny.published).split("\n\n")
    assert head == "Intervals are over games, and where there are several runs over these."
    assert table == (
        "|  | mean, 95 % interval | runs | max | games of each | published mean | published max |\n"
        "| --- | --: | --: | --: | --: | --: | --: |\n"
        "| random moves | 8 ± 1 | - | 2 | 1,000 |  |  |\n"
        "| k = 3 | 12,346 ± 79 | 1 | 98,765 | 1,000 | 69,840 | 332,868 |\n"
        "| k = 5 | 54,321 ± 1,002 | 1 | 123,456 | 1,000 | 86,030 | 385,560 |"
    )


@pytest.mark.slow
def test_hidden_published_filters_are_found_and_drawn(tiny: Tiny, figures: dict[str, Any]) -> None:
    """One filter is doubled and mirrored, one is flipped and then transposed."""
    hidden = {(2, "74"): 4, (5, "unnamed-1"): 2}
    networks: dict[int, nn.Module] = {layers: PolicyCNN(layers) for layers in (2, 3, 5)}
    for of, number in hidden.items():
        square = settings.published_filters()[of].reshape(2, 2, 16)
        turned = 2 * square[:, ::-1] if of[0] == 2 else square[::-1].transpose(1, 0, 2)
        weights: Tensor = networks[of[0]].get_parameter("body.1.weight").data
        weights[number] = torch.tensor(turned.transpose(2, 0, 1).copy())
    rows = report.table_3(tiny.results, networks).split("\n")
    head = "| published | most similar of ours | cosine | of a new network |"
    assert rows[0] == head
    assert rows[2].startswith("| k = 2, #74 | #4 | 1.00 | 0.")
    assert rows[12].startswith("| k = 5, #unnamed-1 | #2 | 1.00 | 0.")
    assert len(rows) == 2 + 12 and "k = 3" not in str(rows)
    cells = [[float(cell) for cell in row.strip(" |").split(" | ")[-2:]] for row in rows[2:]]
    assert all(cosine < 0.9 for i, (cosine, _) in enumerate(cells) if i not in (0, 10))
    assert all(by_chance < 0.9 for _, by_chance in cells)
    panels = panels_of(figures["filters.png"])
    titles = [panel.get_title() for panel in panels]
    assert titles[:2] == ["k = 2, #74, published", "ours, #4, turned, 1.00"]
    last = ["k = 5, #unnamed-1, published", "ours, #2, turned, 1.00"]
    assert titles[20:22] == last and len(titles) == 24
    for i in (0, 20):
        theirs, ours = (np.asarray(panel.images[0].get_array()) for panel in panels[i : i + 2])
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
        assert np.abs(theirs).max() == 1
    theirs = panels[0].images[0].get_array()
    np.testing.assert_allclose(theirs, settings.published_filters()[2, "74"] / 0.97)  # of SW 4
    (bar,) = (each for each in figures["filters.png"].axes if each.get_label() == "<colorbar>")
    assert bar.get_ylabel() == "weight / largest of the filter"


@pytest.mark.slow
def test_filters_of_missing_networks_are_left_out(tiny: Tiny, figures: dict[str, Any]) -> None:
    rows = report.table_3(tiny.results, {5: PolicyCNN(5)}).split("\n")
    assert [row[:7] for row in rows[2:]] == ["| k = 5"] * 6
    assert len(panels_of(figures["filters.png"])) == 12


@pytest.mark.parametrize("layers", [2, 5])
def test_published_contributions_follow_as_many_of_ours(tiny: Tiny, layers: int) -> None:
    net = constant_net(layers, [0, 1, 2, 3], weight=1.0)
    parts = report.tables_4_to_7(net, layers, tiny.published).split("\n\n")
    for i, what in enumerate(("last layer", "layer before")):
        head, ours, label, theirs = parts[4 * i + 1 : 4 * i + 5]
        assert (head, label) == (f"Inputs of the {what}, ours:", "Published:")
        lines = ["| unit | a: % (sum) | b: % (sum) | c: % (sum) |", "| --- | --: | --: | --: |"]
        sums = [row.split("/") for row in SUMS[what, layers].split()]
        for (unit, *shares), totals in zip(published_rows(what, layers), sums, strict=True):
            cells = (f"{share} ({total})" for share, total in zip(shares, totals, strict=True))
            lines.append(f"| {' | '.join([unit, *cells])} |")
        assert theirs.split("\n") == lines
        assert ours.count("\n") == theirs.count("\n")
    assert len(parts) == 10
    boards = boards_of(*list(analysis.PAPER_BOARDS.values())[:3])
    assert parts[0] == tables.logits_table(net, boards, ["x2", "x1", "x0.5"])


def test_our_contributions_are_those_of_the_active_units(tiny: Tiny) -> None:
    """Down is 3 times the output of #0 in column 1, row 0, minus half of that of #1 in (0, 2).

    #0 outputs the value of #5 of the first layer there: 1, and 3 where the tile is 4096, on the
    first board. #1 outputs twice the value of #4 to its right, which is always 1. So the shares are
    9 to 1 and 3 to 1.
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
    parts = report.tables_4_to_7(net, 2, tiny.published).split("\n\n")
    head = "| unit | x2: % (sum) | x1: % (sum) | x0.5: % (sum) |\n| --- | --: | --: | --: |\n"
    assert parts[2] == head + (
        "| (1, 0)#0 | 90.0 (90.0) | 75.0 (75.0) | 75.0 (75.0) |\n"
        "| (0, 2)#1 | 10.0 (100.0) | 25.0 (100.0) | 25.0 (100.0) |"
    )
    assert parts[6] == head + (
        "| (1, 0)#5 | 90.0 (90.0) | 75.0 (75.0) | 75.0 (75.0) |\n"
        "| (1, 2)#4 | 10.0 (100.0) | 25.0 (100.0) | 25.0 (100.0) |"
    )
    assert parts[9] == (
        "The four largest inputs of the last layer have 100.0, 100.0, 100.0 % on the three boards. "
        "Of these four, 2 are the same on all three."
    )


def test_figure_5_has_published_probabilities_and_moves(tiny: Tiny) -> None:
    """Down, the most probable move, is illegal on both; right is the next.

    Up on 5b comes from #3 of the first layer alone, through #1 of the second.
    """
    logits = np.log([0.1, 0.3, 0.4, 0.2]).tolist()
    networks = {layers: constant_net(layers, logits) for layers in (2, 3, 5)}
    with torch.no_grad():
        for name, of in (("4", (1, 3)), ("7", (UP, slice(16, 32)))):
            networks[2].get_parameter(f"body.{name}.weight").zero_()[of] = 1e-9
        networks[2].get_parameter("body.1.bias")[3] = 1.0
    table, head, up = report.figure_5(networks, tiny.published).split("\n\n")
    ours = "0.100 0.300 0.400 0.200"
    assert table == (
        "| board, network | up right down left | move | published |\n"
        "| --- | --: | --: | --: |\n"
        f"| 5a, k = 2 | {ours} | right | 0.243 0.405 0.104 0.248 |\n"
        f"| 5a, k = 3 | {ours} | right |  |\n"
        f"| 5a, k = 5 | {ours} | right | 0.470 0.470 0.000 0.060 |\n"
        f"| 5b, k = 2 | {ours} | right | up |\n"
        f"| 5b, k = 3 | {ours} | right | left |\n"
        f"| 5b, k = 5 | {ours} | right | left |"
    )
    assert head.endswith("published: (0, 3)#154 has the largest share.")
    assert all(row.split("#")[1].startswith("3 |") for row in up.split("\n")[2:])
    assert up.startswith("| unit | 5b: % (sum) |") and len(up.split("\n")) == 2 + 4
    del networks[2]
    assert "\n\n" not in report.figure_5(networks, tiny.published)


@pytest.mark.parametrize("which", [(2, 5), (2, 3, 4, 5)], ids=str)
def test_section_6_has_our_agreement_and_the_published_one(
    tiny: Tiny, figures: dict[str, Any], which: tuple[int, ...]
) -> None:
    """All but k = 2 choose the same; it agrees with them where one move is legal, once in six."""
    networks = {layers: constant_net(layers, [0, 1, 2, 3]) for layers in which}
    networks[2] = constant_net(2, [3, 2, 1, 0])
    moves = np.zeros(len(CHOICES), play_logs.MOVE)
    moves["board"] = [rules.from_text(text) for text in CHOICES]
    tiny.put(5, networks[5])
    for name in ("states", "probe_1", "probe_2"):
        np.save(tiny.runs / f"{name}_k5.npy", moves)
    parts = report.section_6(tiny.results, networks, tiny.runs, tiny.published).split("\n\n")
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
    named = {f"k = {layers}": net for layers, net in networks.items()}
    assert parts[2] == tables.heuristics_table(named, boards_of(*CHOICES))
    assert parts[3].count("convolution") == sum(which) and len(parts) == 4
    shown = [panel.get_title(loc="left").split("\n") for panel in panels_of(figures["boards.png"])]
    others = [f"k = {layers}: 0.03 0.09 0.24 0.64, left" for layers in which[1:]]
    assert shown[0] == ["up right down left", "k = 2: 0.64 0.24 0.09 0.03, up", *others]
    assert len(shown) == 5 and all(len(lines) == 1 + len(which) for lines in shown)


@pytest.mark.slow
def test_positions_are_those_of_twenty_games_after_100_moves(
    tiny: Tiny, figures: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    networks = {layers: constant_net(layers, [0, 1, 2, 3]) for layers in (2, 3)}
    for layers, net in networks.items():
        tiny.put(layers, net)
    log, file = tiny.runs / "states_k3.npy", settings.network_file(tiny.runs, 3)
    boards = logs.boards(log, file, 20, 1, 1.0)
    assert [path.name for path in tiny.runs.glob("*.npy")] == ["states_k3.npy"]
    metadata = json.loads((tiny.runs / "states_k3.json").read_text())
    (player,) = metadata["players"]
    assert player["player"] == str(file)
    assert (player["games"], metadata["skip"], metadata["share"], metadata["seed"]) == (
        20,
        100,
        1.0,
        1,
    )
    states = play_logs.read(tiny.runs / "states_k3.npy")
    assert torch.equal(torch_rules.from_words(states["board"]), boards)
    assert policy_net.best_moves(networks[3], boards).tolist() == states["action"].tolist()
    monkeypatch.setattr(play_logs, "write", None)  # the log exists
    assert torch.equal(logs.boards(log, file, 20, 1, 1.0), boards)


def test_probes_are_tested_on_other_games(
    tiny: Tiny, figures: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []

    def boards(*call: Any) -> Tensor:
        calls.append(call)
        return boards_of(*CHOICES)[len(calls) - 1 :]

    fitted: list[list[int]] = []

    def probe_table(named: Any, *parts: Tensor) -> str:
        fitted.extend(each.tolist() for each in parts)
        return "probes"

    monkeypatch.setattr(logs, "boards", boards)
    monkeypatch.setattr(tables, "probe_table", probe_table)
    networks = {layers: constant_net(layers, [0, 1, 2, 3]) for layers in (2, 3)}
    assert report.section_6(tiny.results, networks, tiny.runs, tiny.published).endswith(
        "\n\nprobes"
    )
    states, some, others = calls
    player = settings.network_file(tiny.runs, 3)
    assert states == (tiny.runs / "states_k3.npy", player, 20, 1, 1.0)
    assert some[1:3] == others[1:3] == (player, 20) and some[0] != others[0]
    assert others[3] >= some[3] + 20  # seeds of games are those from the first one on
    assert fitted == [boards_of(*CHOICES)[n:].tolist() for n in (1, 2)]


@pytest.mark.slow
def test_the_report_has_all_sections_and_pictures(
    tiny: Tiny,
    figures: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = dict(list(settings.published_filters().items())[::6])
    monkeypatch.setattr(report, "published_filters", lambda: some)
    for layers, logits in {2: [3, 2, 1, 0], 5: [0, 1, 2, 3]}.items():
        tiny.put(layers, constant_net(layers, logits, weight=1e-2))
    with pytest.raises((OSError, ValueError), match=r"games\.jsonl"):
        tiny.main("report")
    tiny.main("play", "--games", "2")
    tiny.main("log")
    tiny.main("report")
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
        "Readings",
    ]
    assert "Learned from 100 moves of a [log](log.json)." in text
    assert (tiny.results / "log.json").exists()
    links = re.findall(r"!\[\]\((.*?)\)", text)
    assert links == ["filters.png", "weights.svg", "boards.png"]
    assert set(links) == set(figures) and all((tiny.results / link).exists() for link in links)
    networks, published = tiny.networks(), tiny.published
    assert (
        report.table_2(tiny.results, published) in text
        and report.figure_5(networks, published) in text
    )
    for layers in (2, 5):
        assert report.tables_4_to_7(networks[layers], layers, published) in text
    tiny.main("report", "--moves", "70")
    (curves,) = figures["weights.svg"].axes
    assert [line.get_label() for line in curves.lines] == [
        *("k = 2, of 6 filters", "k = 5, of 3 filters")
    ]
    for line, net in zip(curves.lines, networks.values(), strict=True):
        counts = analysis.filters_above(analysis.first_layer(net))
        assert line.get_ydata().tolist() == counts.tolist()


@pytest.mark.parametrize("words", [[], ["tables"], ["log", "--jobs", "0"]], ids=" ".join)
def test_wrong_arguments_are_rejected(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run.main(words)
    assert caught.value.code == 2

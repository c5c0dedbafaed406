"""The committed pages of the experiments are those of their committed rows."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import copytree

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")
pytest.importorskip("scipy")
pytest.importorskip("torch")

from afterstate.envs import json_files
from benchmarks.experiments.alphabeta import run as alphabeta
from benchmarks.experiments.daihinmin import run as daihinmin
from benchmarks.experiments.mc_softmax import run as mc_softmax
from benchmarks.experiments.policy_nets import concentration
from benchmarks.experiments.policy_nets import run as policy_nets
from benchmarks.experiments.quasi_greedy import run as quasi_greedy

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results" / "experiments"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not RESULTS.exists(), reason="needs the results of a checkout"),
]


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """Return the folder of a copy of all results, to which the commands write."""
    folder = tmp_path / "experiments"
    copytree(RESULTS, folder)
    return folder


def test_the_pages_are_those_of_the_rows(pages: Path) -> None:
    for page in pages.rglob("*.md"):
        of_policies = (page.parent.name, page.name) == ("policy_nets", "README.md")
        page.write_text(without_renewed(page.read_text()) if of_policies else "")
    alphabeta.main(["report", "--out", str(pages / "alphabeta")])
    mc_softmax.main(["report", "--out", str(pages / "mc_softmax")])
    for name in ("generations", "logs"):
        daihinmin.main([name, "report", "--out", str(pages / "daihinmin")])
    for name in ("epsilon", "good_plays", "restart", "search"):
        quasi_greedy.main([name, "report", "--out", str(pages / "quasi_greedy")])
    policy_nets.main(["renew", "--out", str(pages / "policy_nets")])
    rows = json_files.rows(pages / "policy_nets" / "concentration.jsonl")
    (pages / "policy_nets" / "concentration.md").write_text(concentration.page_of(rows))
    for page in sorted(pages.rglob("*.md")):
        committed = RESULTS / page.relative_to(pages)
        assert lines_of(page) == lines_of(committed), page.name


def without_renewed(page: str) -> str:
    """Return the page of policy networks without what `renew` writes; the rest needs networks."""
    first, *others = page.split("\n\n## ")
    parts = (part.split("\n\n", 1) for part in others)
    renewed = ("What was reproduced", "Table 2", "Tables ", "Readings")
    kept = [f"{head}\n\n{'nothing' if head.startswith(renewed) else body}" for head, body in parts]
    return "\n\n## ".join([first.split("\n")[0] + "\n\nnothing", *kept])


def lines_of(page: Path) -> list[str]:
    """Return the lines of a page, without those of networks, whose digits depend on the machine."""
    text = page.read_text(encoding="utf-8")
    parts = re.split("^## ", text, flags=re.MULTILINE)
    return [line for part in parts if not part.startswith("Tables ") for line in part.splitlines()]

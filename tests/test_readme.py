"""Every Python example of the README runs."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def _title(block: str) -> str:
    """The first line that is not an import."""
    return next(line for line in block.splitlines() if line and "import" not in line)


def test_readme_has_examples_of_all_parts() -> None:
    text = "".join(BLOCKS)
    for part in ("gym.make(", "gym.make_vec(", "agents.make(", "agents.load(", "MaskablePPO("):
        assert part in text


@pytest.mark.parametrize("block", BLOCKS, ids=_title)
def test_readme_example_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "stable_baselines3" in block:
        pytest.importorskip("sb3_contrib")
        import torch

        torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(block, str(README), "exec"), {"__name__": "readme"})

"""The rates of progress bars."""

from __future__ import annotations

import pytest

from afterstate.agents.progress import progress_bar


@pytest.mark.parametrize(
    ("rate", "text"), [(5.0, "7/9 [00:03<00:00,  5.00 moves/s]"), (0.8, ",  1.25s/moves]")]
)
def test_rates_have_one_space(rate: float, text: str) -> None:
    with progress_bar(total=9, unit="moves", disable=True) as bar:
        shown = bar.format_meter(7, 9, 3.0, unit=" moves", rate=rate, ncols=80)
    assert text in shown


def test_a_bar_yields_its_items(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress_bar("abc", unit="letters")) == ["a", "b", "c"]
    printed = capsys.readouterr().err
    assert "3/3" in printed and " letters/s" in printed

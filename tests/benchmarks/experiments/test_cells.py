"""Options of the commands of the experiments: those without effect are refused."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")
pytest.importorskip("torch")

from benchmarks.experiments.alphabeta import run as alphabeta
from benchmarks.experiments.daihinmin import run as daihinmin
from benchmarks.experiments.mc_softmax import run as mc_softmax
from benchmarks.experiments.policy_nets import run as policy_nets


@pytest.mark.parametrize(
    ("main", "words", "message"),
    [
        (mc_softmax.main, "learn --jobs 2", "--jobs is for regrets, scores, got learn"),
        (mc_softmax.main, "temperature --hours 1", "--hours is for regrets, scores, got"),
        (mc_softmax.main, "report --only lines", "--only is for regrets, scores, learn, got"),
        (policy_nets.main, "train --jobs 2", "--jobs is for log, got train"),
        (policy_nets.main, "log --games 5", "--games is for play, got log"),
        (alphabeta.main, "report --hours 1", "--hours is for play, got report"),
        (daihinmin.main, "logs draw --self-play x", "--self-play is for play, got draw"),
    ],
)
def test_options_without_effect_are_refused(
    main: object, words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(main)
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    assert message in f"{stop.value} {capsys.readouterr().err}"

"""The completion of the command line, by the functions that shells load."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from afterstate import agents
from afterstate.commands.options import Completion

SHELLS = get_args(get_type_hints(Completion)["shell"])


@cache
def completion(shell: str) -> str:
    """Return the completion of a shell, from a process of its own, which loads no kernels."""
    command = [sys.executable, "-m", "afterstate", "completion", shell]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_the_completion_has_commands_options_and_players(shell: str) -> None:
    out = completion(shell)
    words = ("afterstate", "until", "leaderboard", "verify", "tournament", "daihinmin-policy")
    assert all(word in out for word in (*words, *agents.names()))


def test_zsh_completes_further_players() -> None:
    """Of arguments without a name all, of options five."""
    out = completion("zsh")
    assert '"*:Players of one game' in out and '"(*)' not in out
    (line,) = (line for line in out.splitlines() if line.startswith('  "*--seats['))
    assert line.count(":PLAYER:_afterstate_") == 5


COMPLETED = {
    "": {"play", "watch", "train", "completion"},
    "--": {"--help", "--version"},
    "--v": {"--version"},
    "completion z": {"zsh"},
    "eval ": {"expectimax", "daihinmin-mc", "heuristic"},
    "eval exp": {"expectimax"},
    "eval ntuple exp": {"expectimax"},
    "eval ntuple expectimax --games 5 rewa": {"reward"},
    "eval ru": {"runs"},
    "eval sample --opp": {"--opponents"},
    "eval sample --opponents heu": {"heuristic"},
    "eval sample --opponents heuristic mc-r": {"mc-rank"},
    "join --player daihinmin-p": {"daihinmin-policy"},
    "leaderboard ": {"play", "report", "verify", "readme", "tournament"},
    "leaderboard play --backend ": {"local", "ray"},
    "leaderboard play --entries ga": {"game.jsonl", "game.gif"},
    "leaderboard report --rows ": {"runs"},
    "leaderboard tournament sample heu": {"heuristic"},
    "list ": {"all", "environments", "players", "networks"},
    "list n": {"networks"},
    "log new.npy --player alp": {"alphabeta"},
    "play ": {"2048", "daihinmin"},
    "play 2048 --hints exp": {"expectimax"},
    "play 2048 --hints heu": set(),
    "play 2048 --wi": {"--window"},
    "play daihinmin --opponents sample heu": {"heuristic"},
    "prune net": {"net.npz"},
    "replay ga": {"game.jsonl", "game.gif"},
    "replay game.jsonl net": {"net.npz"},
    "serve --replacement heu": {"heuristic"},
    "serve --seats sample heu": {"heuristic"},
    "serve --log ga": {"game.jsonl", "game.gif"},
    "train ": {"ntuple", "value", "policy", "search", "rank", "daihinmin-policy"},
    "train ntuple sett": {"settings.json"},
    "train ntuple settings.json --res": {"--resume"},
    "train ntuple --out ": {"runs"},
    "train ntuple --learner.ra": {"--learner.rate"},
    "train ntuple --learner.rule ": {"tc", "td"},
    "train ntuple --resume --network.no-s": {"--network.no-symmetric"},
    "train policy --log net": {"net.npz"},
    "train rank --gen": {"--generations"},
    "train rank --guests sample pol": {"policy"},
    "train rank --logs game.jsonl net": {"net.npz"},
    "train rank --teacher heu": {"heuristic"},
    "train search --search.backup L": {"L-log", "L-max"},
    "train search --start net": {"net.npz"},
    "train value --device ": {"cpu", "cuda"},
    "warmup ntuple mc-s": {"mc-softmax"},
    "warmup al": {"all", "alphabeta"},
    "watch ntuple --u": {"--until"},
    "watch ntuple --to ": {"terminal", "window"},
    "watch ntuple --to game.g": {"game.gif"},
    "web --folder ": {"runs"},
}
"""Words that complete a command line of `afterstate`, in a folder with some files."""
SOME = {"", "eval "}
"""Command lines whose completion has more words."""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_by_the_kind_of_each_option(tmp_path: Path) -> None:
    for name in ("game.jsonl", "game.gif", "net.npz", "settings.json"):
        (tmp_path / name).touch()
    (tmp_path / "runs").mkdir()
    script = [completion("bash"), "f=$(complete -p afterstate | sed 's/.*-F \\([^ ]*\\).*/\\1/')"]
    for words in COMPLETED:
        last = "''" if words.endswith(" ") or not words else ""
        script.append(f"COMP_WORDS=(afterstate {words}{last})")
        script.append("COMP_CWORD=$((${#COMP_WORDS[@]}-1))")
        script.append('COMPREPLY=(); $f; echo "${COMPREPLY[*]}"')
    run = subprocess.run(
        ["bash", "-c", "\n".join(script)], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    for (words, expected), line in zip(COMPLETED.items(), run.stdout.splitlines(), strict=True):
        completed = {*line.split()}
        assert expected <= completed if words in SOME else expected == completed, words


def test_the_help_and_wrong_shells(capsys: pytest.CaptureFixture[str]) -> None:
    from afterstate.__main__ import main

    with pytest.raises(SystemExit, match="0"):
        main(["completion", "--help"])
    assert "Example: afterstate completion bash" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["completion"])
    assert "SHELL must be given; see" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["completion", "fish"])
    assert "SHELL must be one of bash, zsh, tcsh, got 'fish'; see" in capsys.readouterr().err

"""The page's own copy of the rules of a move, run by Node, agrees with the environment."""

from __future__ import annotations

import json
import shutil
import subprocess

import numpy as np
import pytest

pytest.importorskip("fastapi")

from afterstate.web import game_2048
from afterstate.web.routes.pages import STATIC

NODE = shutil.which("node")
SCRIPT = """
import { slide } from "FILE";
let text = "";
for await (const part of process.stdin) text += part;
const result = JSON.parse(text).map((board) => [0, 1, 2, 3].map((action) => slide(board, action)));
console.log(JSON.stringify(result));
"""


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_moves_in_the_browser_are_those_of_the_rules() -> None:
    rng = np.random.default_rng(1)
    boards = [[0, 0, 0, 17, 17, 16, 16, 0, 1, 1, 1, 1, 2, 1, 1, 2]]
    boards += [(rng.integers(0, 4, 16) * (rng.random(16) < 0.7)).tolist() for _ in range(300)]
    boards += [rng.integers(0, 16, 16).tolist() for _ in range(100)]
    assert NODE is not None
    script = SCRIPT.replace("FILE", (STATIC / "board.js").as_uri())
    command = [NODE, "--input-type=module", "-e", script]
    run = subprocess.run(command, input=json.dumps(boards), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for board, moves in zip(boards, json.loads(run.stdout), strict=True):
        afters, rewards, legal = game_2048.afterstates(board)
        assert [move["after"] for move in moves] == afters
        assert [move["reward"] for move in moves] == rewards
        assert [move["legal"] for move in moves] == legal
        for move in moves:
            assert len(move["moves"]) == 16 - board.count(0)

"""Whole games of 2048 up to the 131072 tile equal slow games and a recorded game."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from afterstate.envs.game2048 import batch, games
from afterstate.envs.game2048.games import AFTER, BOARD, FLAGS, REWARD, RNG, SCORE
from afterstate.envs.game2048.rules import DOWN, LEFT, MAX_EXPONENT, RIGHT, UP, table
from afterstate.envs.words import Words, draw_word, seed_word
from tests.oracles import game2048 as oracle
from tests.support.rules_checks import ACTIONS, by_size

GOLDEN = Path(__file__).parents[2] / "data" / "game2048" / "golden_game.json"


class NaiveGame(NamedTuple):
    """A game by the oracle, with tiles up to 131072."""

    board: oracle.Board
    after: oracle.Board
    rng: int
    score: int = 0
    reward: int = 0
    n_illegal: int = 0

    def play(self, action: int) -> NaiveGame:
        """Return the game after an action."""
        after, reward = oracle.move(self.board, action)
        if after == self.board:
            n_illegal = min(self.n_illegal + 1, 2047)
            return self._replace(after=self.board, reward=0, n_illegal=n_illegal)
        after = [[min(tile, MAX_EXPONENT) for tile in row] for row in after]
        board, rng = oracle.spawn(after, self.rng)
        return NaiveGame(board, after, rng, self.score + reward, reward)

    def words(self) -> list[int]:
        """Return the eight words of the game."""
        legal = oracle.legal_moves(self.board)
        flags = sum(256**action for action in legal)
        flags += (not self.n_illegal) * 256**4 + (not legal) * 256**5
        flags += max(max(row) for row in self.board) * 256**6 + self.n_illegal * 2**53
        board, after = _two_words(self.board), _two_words(self.after)
        return [*board, *after, self.rng, self.score, self.reward, flags]


def _two_words(board: oracle.Board) -> tuple[int, int]:
    excess = [[max(tile - 15, 0) for tile in row] for row in board]
    return oracle.to_word(board), oracle.to_word(excess)


def started(rows: int, cols: int, rng: int, n_tiles: int = 2) -> tuple[Words, NaiveGame]:
    """Return a game and its naive twin."""
    game = games.new_games(1)
    game[RNG, 0] = rng
    games.start(game, 0, n_tiles, rows, cols)
    board, advanced = oracle.start(rows, cols, n_tiles, rng)
    return game, NaiveGame(board, board, advanced)


def placed(board: oracle.Board, rng: int) -> tuple[Words, NaiveGame]:
    """Return a game from a board, and its naive twin."""
    game = np.full((8, 1), 77, np.uint64)
    game[RNG, 0] = rng
    batch.put(game, np.array([board], np.uint8))
    return game, NaiveGame(board, board, rng)


def play(game: Words, action: int, rows: int, cols: int) -> None:
    games.play(game, 0, action, table(rows, cols), rows, cols)


def assert_equal_to_the_end(game: Words, naive: NaiveGame, rng: random.Random) -> NaiveGame:
    """Play random actions in both until the game is over; return the naive game."""
    rows, cols = len(naive.board), len(naive.board[0])
    expected = naive.words()
    assert game[:, 0].tolist() == expected
    while not expected[FLAGS] >> 40 & 1:
        action = rng.randrange(4)
        before = naive
        play(game, action, rows, cols)
        naive = naive.play(action)
        expected = naive.words()
        assert game[:, 0].tolist() == expected, (before, action)
    return naive


N_GAMES = {2: 50, 3: 50, 4: 50, 6: 50, 8: 50, 9: 50, 12: 50, 16: 100}
"""Games by the number of cells."""


@by_size
def test_whole_random_games_equal_naive_games(rows: int, cols: int) -> None:
    rng = random.Random(10 * rows + cols)
    for _ in range(N_GAMES[rows * cols]):
        game, naive = started(rows, cols, rng.getrandbits(64))
        naive = assert_equal_to_the_end(game, naive, rng)
        for action in ACTIONS:  # a finished game does not change
            play(game, action, rows, cols)
            naive = naive.play(action)
            assert game[:, 0].tolist() == naive.words()


@by_size
def test_games_from_high_boards_equal_naive_games(rows: int, cols: int) -> None:
    """These games change from words to cells at 16384 + 16384, and reach 65536."""
    rng = random.Random(20 * rows + cols)
    reached = 0
    for _ in range(60):
        high = rng.choices([0, 12, 13, 14, 14, 15, 15], k=rows * cols)
        board = [high[cols * r : cols * (r + 1)] for r in range(rows)]
        game, naive = placed(board, rng.getrandbits(64))
        naive = assert_equal_to_the_end(game, naive, rng)
        reached = max(reached, naive.words()[FLAGS] >> 48 & 31)
    assert reached >= 16


@by_size
def test_single_actions_on_boards_of_every_exponent_equal_the_oracle(rows: int, cols: int) -> None:
    rng = random.Random(30 * rows + cols)
    palettes = [[0, 15, 16, 17], [14, 15], [15, 16], [0, 1, 14, 15, 16], list(range(18)), [0, 17]]
    for _ in range(100):
        drawn = rng.choices(rng.choice(palettes), k=rows * cols)
        board = [drawn[cols * r : cols * (r + 1)] for r in range(rows)]
        state = rng.getrandbits(64)
        for action in ACTIONS:
            game, naive = placed(board, state)
            assert game[:, 0].tolist() == naive.words(), board
            play(game, action, rows, cols)
            assert game[:, 0].tolist() == naive.play(action).words(), (board, action)


LARGE_ROWS = [
    ([14, 14, 0, 0], [15, 0, 0, 0], 32_768),
    ([15, 15, 0, 0], [16, 0, 0, 0], 65_536),
    ([16, 0, 0, 16], [17, 0, 0, 0], 131_072),
    ([15, 15, 16, 1], [16, 16, 1, 0], 65_536),
    ([16, 16, 17, 3], [17, 17, 3, 0], 131_072),
    ([15, 15, 15, 15], [16, 16, 0, 0], 131_072),
    ([16, 16, 1, 1], [17, 2, 0, 0], 131_076),
    ([17, 16, 15, 14], [17, 16, 15, 14], 0),
    ([17, 17, 0, 0], [17, 0, 0, 0], 262_144),
]
"""Rows of exponents, the same slid toward the first cell, and the rewards."""


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("n_lines", [1, 3, 4])
def test_large_tiles_merge_in_every_direction(action: int, n_lines: int) -> None:
    """The row is the last line of the board."""

    def on_board(line: list[int]) -> oracle.Board:
        line = line[::-1] if action in (RIGHT, DOWN) else line
        lines = [[0] * 4 for _ in range(n_lines - 1)] + [line]
        return oracle.transpose(lines) if action in (UP, DOWN) else lines

    for row, after, reward in LARGE_ROWS:
        board = on_board(row)
        game, _ = placed(board, 1)
        size = len(board), len(board[0])
        play(game, action, *size)
        assert batch.read(game, AFTER, *size)[0].tolist() == on_board(after)
        assert (game[REWARD, 0], game[SCORE, 0]) == (reward, reward)
        was_legal = bool(game[FLAGS, 0] >> np.uint64(32) & np.uint64(1))
        assert was_legal == (row != after)
        assert batch.max_tiles(game) == 2 ** max(after)


def test_two_fours_collapse_a_full_chain_to_the_largest_tile() -> None:
    """The new tiles cannot block the chain, wherever they appear."""
    chain = [[16, 15, 14, 13], [9, 10, 11, 12], [8, 7, 6, 5], [2, 2, 3, 4]]
    for state in range(20):
        game, naive = placed(chain, state)
        for action in [*[RIGHT] * 3, UP, *[LEFT] * 3, UP, *[RIGHT] * 3, UP, *[LEFT] * 3]:
            play(game, action, 4, 4)
            naive = naive.play(action)
            assert game[:, 0].tolist() == naive.words()
        assert batch.read(game, BOARD, 4, 4)[0, 0, 0] == MAX_EXPONENT
        assert batch.max_tiles(game) == 2**MAX_EXPONENT
        assert game[SCORE, 0] >= sum(2**tile for tile in range(3, 18))


@by_size
def test_score_is_that_of_twos_only_minus_four_for_every_four(rows: int, cols: int) -> None:
    """A tile of exponent k built from 2s scores (k - 1) * 2**k; a 4 that appeared saved 4."""
    rng = random.Random(40 * rows + cols)
    for _ in range(5):
        game, naive = started(rows, cols, rng.getrandbits(64))
        n_fours = sum(tile == 2 for row in naive.board for tile in row)
        while not game[FLAGS, 0] >> np.uint64(40) & np.uint64(1):
            play(game, rng.randrange(4), rows, cols)
            if game[BOARD, 0] != game[AFTER, 0]:
                spawned = int(game[BOARD, 0]) - int(game[AFTER, 0])
                n_fours += spawned.bit_length() % 4 == 2
        tiles = batch.read(game, BOARD, rows, cols).ravel().tolist()
        assert int(game[SCORE, 0]) == sum((k - 1) * 2**k for k in tiles if k) - 4 * n_fours


@pytest.mark.parametrize(
    ("exponent", "score"),
    [(11, 20_480), (12, 45_056), (13, 98_304), (14, 212_992), (15, 458_752), (17, 2_097_152)],
)
def test_a_tile_built_from_twos_has_the_score_of_the_formula(exponent: int, score: int) -> None:
    """Merge all pairs of 2**n twos, level by level."""
    total = 0
    for tile in range(1, exponent):
        game, _ = placed([[tile, tile]], 3)
        play(game, LEFT, 1, 2)
        assert batch.read(game, AFTER, 1, 2).tolist() == [[[tile + 1, 0]]]
        total += int(game[REWARD, 0]) * 2 ** (exponent - tile - 1)
    assert total == score == (exponent - 1) * 2**exponent


@pytest.mark.parametrize("n_tiles", [0, 1, 2, 3, 6, 9])
def test_start_draws_the_tiles_of_the_oracle_and_stops_when_full(n_tiles: int) -> None:
    rng = random.Random(4)
    for _ in range(50):
        state = rng.getrandbits(64)
        game = np.full((8, 1), 99, np.uint64)
        game[RNG, 0] = state
        games.start(game, 0, n_tiles, 2, 3)
        board, advanced = oracle.start(2, 3, n_tiles, state)
        assert game[:, 0].tolist() == NaiveGame(board, board, advanced).words()
        assert sum(tile > 0 for row in board for tile in row) == min(n_tiles, 6)


def test_an_illegal_action_changes_only_afterstate_reward_and_flags() -> None:
    for board in ([[1, 0], [2, 0]], [[15, 0], [16, 0]]):
        game, _ = placed(board, 5)
        game[SCORE, 0], game[REWARD, 0] = 1_234, 8
        game[AFTER, 0], game[games.AFTER_EXCESS, 0] = 0x21, 0x2
        before = game[:, 0].tolist()
        play(game, LEFT, 2, 2)
        after = game[:, 0].tolist()
        assert after[AFTER : AFTER + 2] == before[BOARD : BOARD + 2]
        assert after[REWARD] == 0
        assert after[FLAGS] == before[FLAGS] - (1 << 32) + (1 << 53)
        for word in (BOARD, games.EXCESS, RNG, SCORE):
            assert after[word] == before[word]
        for n_illegal in range(2, 2100):
            play(game, LEFT, 2, 2)
            assert game[FLAGS, 0] >> np.uint64(53) == min(n_illegal, 2047)
        play(game, RIGHT, 2, 2)  # a legal action sets the flag and ends the count
        assert game[FLAGS, 0] >> np.uint64(32) & np.uint64(1)
        assert game[FLAGS, 0] >> np.uint64(53) == 0


@by_size
def test_boards_and_masks_are_read_back(rows: int, cols: int) -> None:
    rng = np.random.default_rng(7)
    boards = rng.integers(0, 18, (40, rows, cols), dtype=np.uint8)
    boards[::2] //= 3
    all_games = rng.integers(0, 2**64, (8, 40), dtype=np.uint64)
    states = all_games[RNG].copy()
    batch.put(all_games, boards)
    naive = [NaiveGame(b, b, int(s)) for b, s in zip(boards.tolist(), states, strict=True)]
    assert all_games.T.tolist() == [game.words() for game in naive]
    for at in (BOARD, AFTER):
        read = batch.read(all_games, at, rows, cols)
        assert read.dtype == np.uint8
        assert read.shape == boards.shape
        assert read.flags.c_contiguous
        assert (read == boards).all()
        read[:] = 1  # a new array: the games do not change
        assert (batch.read(all_games, at, rows, cols) == boards).all()
    masks = batch.masks(all_games)
    assert masks.dtype == np.int8
    expected = [[int(a in oracle.legal_moves(b)) for a in ACTIONS] for b in boards.tolist()]
    assert masks.tolist() == expected
    masks[:] = 0
    assert batch.masks(all_games).tolist() == expected


def test_reading_no_games_returns_no_boards() -> None:
    none = games.new_games(0)
    assert batch.read(none, BOARD, 4, 4).shape == (0, 4, 4)
    assert batch.read(none, BOARD, 2, 3).shape == (0, 2, 3)
    assert batch.masks(none).shape == (0, 4)


def test_a_seed_determines_the_game() -> None:
    first, second = seed_word(42), seed_word(42)
    assert first == second == draw_word(np.random.default_rng(42))
    assert seed_word(43) != first
    assert seed_word(None) != seed_word(None)
    generator = np.random.default_rng(42)
    assert draw_word(generator) != draw_word(generator)
    assert all(0 <= seed_word(seed) < 2**64 for seed in range(100))
    assert record(42) == record(42)
    assert record(42)["steps"] != record(43)["steps"]


def record(seed: int) -> dict[str, int | list[str]]:
    """Return a 4x4 game of random actions, legal or not, drawn by splitmix64 from `seed`.

    A step is the action, its reward and the board after it.
    """
    game = games.new_games(1)
    game[RNG, 0] = seed_word(seed)
    games.start(game, 0, 2, 4, 4)
    steps = [f"start {int(game[BOARD, 0]):#018x}"]
    state = seed
    while batch.masks(game).any():
        state, bits = oracle.splitmix64(state)
        play(game, bits >> 62, 4, 4)
        steps.append(f"{bits >> 62} {game[REWARD, 0]} {int(game[BOARD, 0]):#018x}")
    return {"seed": seed, "score": int(game[SCORE, 0]), "steps": steps}


def test_a_recorded_game_is_replayed_step_by_step() -> None:
    r"""Written by `GOLDEN.write_text(json.dumps(record(2048), indent=1) + "\n")`.

    After a change of the rules, write the file again; its diff shows what changed.
    """
    golden = json.loads(GOLDEN.read_text())
    game, naive = started(4, 4, seed_word(golden["seed"]))
    assert golden["steps"][0] == f"start {int(game[BOARD, 0]):#018x}"
    for step in golden["steps"][1:]:
        action = int(step.split()[0])
        play(game, action, 4, 4)
        naive = naive.play(action)
        assert f"{action} {game[REWARD, 0]} {int(game[BOARD, 0]):#018x}" == step
        assert f"{action} {naive.reward} {oracle.to_word(naive.board):#018x}" == step
    assert not batch.masks(game).any()
    assert game[SCORE, 0] == naive.score == golden["score"]
    assert record(golden["seed"]) == golden

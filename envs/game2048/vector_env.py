"""2048 as a Gymnasium vector environment that steps all games in one kernel call."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from afterstate.envs.checks import as_int, check_count, check_one_of, check_options
from afterstate.envs.game2048 import batch
from afterstate.envs.game2048.env import (
    check_board,
    check_illegal_limit,
    check_settings,
    illegal_message,
    observation_space,
    observe,
)
from afterstate.envs.game2048.games import BOARD, MAX_ILLEGAL, RNG, SCORE, START_TILES, new_games
from afterstate.envs.game2048.rules import Cells, table
from afterstate.envs.pictures import warn_no_render_mode
from afterstate.envs.vector_arguments import (
    Infos,
    Seeds,
    check_actions,
    check_autoreset_mode,
    check_reset_mask,
    check_running,
    check_seeds,
    finals,
    step_limit,
    with_masks,
)
from afterstate.envs.words import Flags, Word, Words, draw_word, seed_word


class _Limits(NamedTuple):
    """The settings of a step: see `batch.step_all`."""

    max_steps: int
    illegal_ends: bool
    max_illegal: int
    start_tiles: int


class Game2048VectorEnv(VectorEnv[npt.NDArray[Any], npt.NDArray[np.int64], npt.NDArray[Any]]):
    """`num_envs` games of 2048, each as `Game2048Env` plays it from the same seed.

    `gym.make_vec("Game2048-v0", num_envs=B)` makes it. Observations, actions and settings are those
    of `Game2048Env`, batched; infos are arrays over all games, each with its mask (`_score` for
    `score`). All returned arrays are copies; the masks of a step are one array.

    Args:
        num_envs: number of games.
        size: rows and columns, each 1 to 4.
        observation: `"exponents"`, `"onehot"` or `"flat"`.
        illegal: `"noop"`, `"terminate"` or `"raise"`; one illegal action raises for all games.
        illegal_limit: truncates a game after this many illegal actions in a row; None: never.
        start_tiles: number of tiles on a board at the start.
        render_mode: `"ansi"` or `"rgb_array"`; `render()` returns a tuple with one per game.
        autoreset_mode: restart after the end of a game, as in Gymnasium: in the next step
            (`NEXT_STEP`); in the same step, with the end in `infos["final_obs"]` and
            `infos["final_info"]` (`SAME_STEP`); or by `reset(options={"reset_mask": ...})`
            (`DISABLED`).
        max_episode_steps: truncates a game after this many steps.
    """

    metadata: dict[str, Any] = {
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 10,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    info_keys: ClassVar[tuple[str, ...]] = (
        "action_mask",
        "afterstate",
        "score",
        "max_tile",
        "legal",
    )

    def __init__(
        self,
        num_envs: int = 1,
        size: tuple[int, int] = (4, 4),
        *,
        observation: str = "exponents",
        illegal: str = "noop",
        illegal_limit: int | None = 1000,
        start_tiles: int = START_TILES,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
    ) -> None:
        self.size = rows, cols = check_settings(size, observation, illegal, start_tiles)
        # as an int: an integer of numpy may be too short to count with
        self.num_envs = num_envs = check_count("num_envs", num_envs)
        check_one_of((None, *self.metadata["render_modes"]), render_mode=render_mode)
        limit = step_limit(max_episode_steps)
        self.observation, self.illegal, self.start_tiles = observation, illegal, start_tiles
        self.render_mode = render_mode
        self.autoreset_mode = check_autoreset_mode(autoreset_mode)
        self.max_episode_steps = max_episode_steps
        self.illegal_limit = check_illegal_limit(illegal_limit)
        max_illegal = self.illegal_limit or MAX_ILLEGAL + 1
        self._limits = _Limits(limit, illegal == "terminate", max_illegal, int(start_tiles))
        self._shape = num_envs, rows, cols
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = observation_space(observation, rows, cols)
        self.single_action_space = spaces.Discrete(4)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._table = table(rows, cols)
        self._games = new_games(num_envs)
        self._elapsed = np.zeros(num_envs, np.int64)
        self._over = np.zeros(num_envs, np.bool_)  # games that ended with the last step
        self._every = np.ones(num_envs, np.bool_)
        self._mask_keys = [f"_{key}" for key in self.info_keys]
        self._generator: np.random.Generator | None = None  # has drawn the random states
        self._sampler: Word = 0  # random state of `sample_legal`

    def reset(
        self,
        *,
        seed: Seeds = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[npt.NDArray[Any], Infos]:
        """Start all games, or those of a mask.

        Args:
            seed: game `i` gets `seed + i`, or `seed[i]` of a sequence, and plays as `Game2048Env`
                does from that seed. None continues the random streams.
            options: `{"board": ...}` starts all games from one board, exponents `[rows, cols]` or a
                word, or each from its own, `[num_envs, rows, cols]` or an array of words;
                `{"reset_mask": bool[num_envs]}` resets only some games.

        Raises:
            ValueError: a wrong option, board, mask or number of seeds; the games are unchanged.
        """
        mask, boards = self._check_options(options)
        seeds = check_seeds(seed, self.num_envs)
        super().reset(seed=as_int(seed))
        self._draw_streams(seeds, mask)
        if boards is None:
            self._start(mask)
        else:
            selected = np.compress(mask, self._games, axis=1)
            batch.put(selected, boards[mask])
            self._games[:, mask] = selected
        self._elapsed[mask] = 0
        self._over[mask] = False
        return self._observe(), with_masks(self._infos(), mask)

    def step(
        self, actions: npt.NDArray[np.integer[Any]]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Flags, Flags, Infos]:
        """Play one action of every game.

        Args:
            actions: integers `[num_envs]` in 0..3: up, right, down, left.

        Returns:
            Observations, rewards `float64[num_envs]`, terminations, truncations and infos.

        Raises:
            ValueError: wrong actions, or an illegal one with `illegal="raise"`; the games are
                unchanged.
            ResetNeeded: before the first reset, or if a game is over and autoreset is disabled.
        """
        moves = self._check_actions(actions)
        n, limits, infos = self.num_envs, self._limits, self._empty_infos()
        rewards, terminated, truncated = np.empty(n), np.empty(n, np.bool_), np.empty(n, np.bool_)
        boards = np.empty(self._shape, np.uint8)
        n_over = batch.step_all(
            self._games,
            moves,
            self._elapsed,
            self._over,
            limits.max_steps,
            limits.illegal_ends,
            limits.max_illegal,
            limits.start_tiles,
            self._table,
            rewards,
            terminated,
            truncated,
            boards,
            infos["action_mask"],
            infos["afterstate"],
            infos["score"],
            infos["max_tile"],
            infos["legal"],
        )
        observations = self._observation(boards)
        infos |= dict.fromkeys(self._mask_keys, self._every.copy())
        if n_over and self.autoreset_mode is AutoresetMode.SAME_STEP:
            infos |= self._restart(observations, infos)
        return observations, rewards, terminated, truncated, infos

    @property
    def boards(self) -> Words:
        """The boards as words `uint64[num_envs]`, downgraded where a tile is above 32768."""
        return batch.board_words(self._running(), *self.size)

    def action_masks(self) -> Flags:
        """Return the legal actions of every game, `bool[num_envs, 4]`."""
        return batch.masks(self._running()).astype(np.bool_)

    def sample_legal(self) -> npt.NDArray[np.int64]:
        """Return a random legal action of every game, `int64[num_envs]`; 0 where a game has none.

        The actions have their own random stream, so that drawing them does not change the games.
        """
        actions = np.empty(self.num_envs, np.int64)
        self._sampler = batch.sample_legal(self._running(), np.uint64(self._sampler), actions)
        return actions

    def afterstates(self) -> tuple[Cells, npt.NDArray[np.float64], Flags]:
        """Return the afterstate of each action of every game, before chance adds a tile.

        Returns:
            Afterstates `uint8[num_envs, 4, rows, cols]`, rewards `float64[num_envs, 4]` and legal
            `bool[num_envs, 4]`. An illegal action leaves the board as it is, with reward 0.
        """
        return batch.afterstates(self._running(), *self.size)

    def render(self) -> tuple[Any, ...] | None:
        """Return one text or picture per game, by `render_mode`; None without a render mode.

        Raises:
            DependencyNotInstalled: pictures need the extra `afterstate[render]`.
        """
        from afterstate.envs.game2048 import render

        if self.render_mode is None:
            warn_no_render_mode(self.metadata["render_modes"])
            return None
        draw = render.ansi if self.render_mode == "ansi" else render.rgb_array
        running = self._running()
        boards = batch.read(running, BOARD, *self.size)
        scores = running[SCORE].tolist()
        return tuple(draw(board, score) for board, score in zip(boards, scores, strict=True))

    def _running(self) -> Words:
        """Return the games."""
        if self._generator is None:
            raise ResetNeeded("call reset() first")
        return self._games

    def _check_actions(self, actions: Any) -> npt.NDArray[np.int64]:
        """Return the actions as `int64[num_envs]`, checked."""
        running = self._running()
        meaning = "0 up, 1 right, 2 down or 3 left"
        moves = check_actions(actions, self.num_envs, 4, meaning)
        check_running(self.autoreset_mode, self._over)
        if self.illegal == "raise":
            masks = batch.masks(running)
            allowed = masks[np.arange(self.num_envs), moves].astype(np.bool_) | self._over
            allowed |= ~masks.any(axis=1)  # a board without a legal action ends with any
            if not allowed.all():
                i = int(np.argmin(allowed))
                message = illegal_message(int(moves[i]), masks[i])
                raise ValueError(f"game {i}: {message}")
        return moves

    def _check_options(self, options: dict[str, Any] | None) -> tuple[Flags, Cells | None]:
        """Return the mask of games to reset, and their boards `[num_envs, rows, cols]` or None."""
        given = check_options(options, ("board", "reset_mask"))
        mask = check_reset_mask(given, self.num_envs)
        if not mask.all():
            self._running()
        board = given.get("board")
        if board is None:
            return mask, None
        wanted = (self.num_envs, *self.size)
        return mask, np.broadcast_to(check_board(board, self.size, wanted), wanted)

    def _draw_streams(self, seeds: list[int | None], mask: Flags) -> None:
        """Start the random streams of seeded games; at the first reset, of all games."""
        seeded = [int(seed) for seed in seeds if seed is not None]
        if self.np_random is not self._generator and (self._generator is None or not seeded):
            draws = self.np_random.integers(0, 2**64, self.num_envs + 1, dtype=np.uint64)
            self._games[RNG, mask] = draws[:-1][mask]
            self._sampler = int(draws[-1])
        self._generator = self.np_random
        for i in np.flatnonzero(mask):
            if seeds[i] is not None:
                self._games[RNG, i] = seed_word(seeds[i])
        if seeded:
            self._sampler = draw_word(np.random.default_rng(seeded))

    def _start(self, mask: Flags) -> None:
        """Start the games of a mask."""
        batch.start_all(self._games, mask, self.start_tiles, *self.size)

    def _restart(self, observations: npt.NDArray[Any], infos: Infos) -> Infos:
        """Restart the games that are over and write their observations and infos.

        Returns:
            `final_obs` and `final_info`, with their masks.
        """
        over, self._over = self._over, np.zeros(self.num_envs, np.bool_)
        final = finals(observations, infos, over)
        self._start(over)
        self._elapsed[over] = 0
        boards = batch.read(self._games, BOARD, *self.size)
        observations[over] = self._observation(boards[over])
        self._read_infos(infos)
        return final

    def _observe(self) -> npt.NDArray[Any]:
        """Return the observations of all games."""
        return self._observation(batch.read(self._games, BOARD, *self.size))

    def _observation(self, boards: Cells) -> npt.NDArray[Any]:
        """Return the observations of boards of exponents."""
        return observe(boards, self.observation)

    def _infos(self) -> Infos:
        """Return the infos of all games, without their masks."""
        infos = self._empty_infos()
        self._read_infos(infos)
        return infos

    def _read_infos(self, infos: Infos) -> None:
        """Write the infos of all games into their arrays."""
        batch.read_infos(
            self._games,
            infos["action_mask"],
            infos["afterstate"],
            infos["score"],
            infos["max_tile"],
            infos["legal"],
        )

    def _empty_infos(self) -> Infos:
        """Return arrays for the infos of all games."""
        n = self.num_envs
        return {
            "action_mask": np.empty((n, 4), np.int8),
            "afterstate": np.empty(self._shape, np.uint8),
            "score": np.empty(n, np.int64),
            "max_tile": np.empty(n, np.int64),
            "legal": np.empty(n, np.bool_),
        }

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._table = table(*self.size)  # shared, so not copied with each environment

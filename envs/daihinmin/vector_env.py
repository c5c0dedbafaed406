"""Daihinmin as a Gymnasium vector environment: in each game one seat against compiled players.

A step is one kernel. In each game it plays our action, then the moves of the others until it is our
turn again, and writes what our player sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numba import boolean, float64, from_dtype, int8, int64, njit, types, uint64, void

from afterstate.envs.checks import as_int, check_count, check_one_of, check_options
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.arguments import (
    OPTIONS,
    REWARDS,
    Opening,
    check_opening,
    check_settings,
)
from afterstate.envs.daihinmin.env import (
    ILLEGAL_REWARD,
    PLANES_SHAPE,
    act,
    action_text,
    give_weakest,
    observation_space,
)
from afterstate.envs.daihinmin.match import first_game, new_match, next_game
from afterstate.envs.daihinmin.observation import Planes, observe, write_actions, write_mask
from afterstate.envs.daihinmin.players import call_move, compiled
from afterstate.envs.daihinmin.plays import N_PLAYS, PASS, Numbers
from afterstate.envs.daihinmin.rules import (
    GAME,
    N_PLAYERS,
    Games,
    GameType,
    Rules,
    give,
    play,
)
from afterstate.envs.daihinmin.seat_env import Opponent, check_seat, four_opponents
from afterstate.envs.daihinmin.views import view, write_view
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
from afterstate.envs.words import (
    Flags,
    Word,
    Words,
    below,
    draw_below,
    draw_word,
    next_random,
    next_word,
    stream_of,
)

EPISODE = np.dtype(
    [
        ("seeded", "i8"),  # 1 if the next match has the seed `seed`, 0 if it draws one
        ("seed", "u8"),
        ("player", "i8"),  # our player
        ("games_left", "i8"),  # including the current one; 0 when the episode has ended by itself
        ("steps", "i8"),
        ("over", "i8"),  # 1 after the step that ended the episode
        ("early_reward", "f8"),  # of games that ended before our first turn
        ("effect", "i8"),  # of our last action: a number of `_TEXTS`, or `_LOST`
        ("lost", "u8"),  # the cards that an illegal gift has cost
        ("legal", "i8"),  # 1 if our last action was legal, and at reset
        ("place", "i8"),  # our finishing place, if a game has ended since our last action, or -1
    ],
    align=True,
)
"""State of an episode beyond its game."""
EpisodeType = from_dtype(EPISODE)

_TEXTS = np.array(
    [
        *map(plays.text, range(N_PLAYS)),
        *(action_text(plays.single(card), is_gift=True) for card in range(cards.N_CARDS)),
        "",
    ],
    object,
)
_FIRST_GIFT, _NO_ACTION, _LOST = N_PLAYS, len(_TEXTS) - 1, -1


class Batch(NamedTuple):
    """All games, and the settings that the kernels need."""

    games: Games  # GAME[B]
    episodes: npt.NDArray[np.void]  # EPISODE[B]
    streams: Words  # [B, 6] of seats, matches and players by chance: see `words.stream_of`
    seen: Games  # GAME[1], scratch space
    match: Games  # GAME[1], a match before its first game
    opponents: Numbers  # [4] addresses of the kernels of the others, by player number
    parameters: npt.NDArray[np.float64]  # [4, n] of these kernels
    rewards: npt.NDArray[np.float64]  # [5] of the places
    seat: int  # our player, or -1 to draw it for each episode
    n_games: int  # per episode
    auto: bool  # True if the rich give their weakest cards
    illegal_ends: bool  # True if an illegal action ends the episode
    limit: int  # steps after which an episode is truncated


BatchType = types.NamedTuple(
    (
        *(GameType[::1], EpisodeType[::1], uint64[:, ::1], GameType[::1], GameType[::1]),
        *(int64[::1], float64[:, ::1], float64[::1]),
        *(int64, int64, boolean, boolean, int64),
    ),
    Batch,
)
OpeningType = types.NamedTuple((int64[::1], int64[::1], uint64[::1]), Opening)
_DRAWN = Opening()


@njit(void(BatchType, int64), cache=True)
def _let_one_play(batch: Batch, i: int) -> None:
    """Play the move of the player in turn of game `i`, an opponent."""
    game, episode = batch.games[i], batch.episodes[i]
    number = game.turn - (game.turn > episode.player)
    write_view(game, game.turn, batch.seen)
    move: int = call_move(
        batch.opponents[number], batch.seen[0], batch.parameters[number], batch.streams[i]
    )
    if game.to_give > 0:
        give(game, np.uint64(move))
    else:
        play(game, move)


@njit(float64(BatchType, int64), cache=True)
def _finish_game(batch: Batch, i: int) -> float:
    """Start the next game of match `i` after the end of one, if there is one; return our reward."""
    game, episode = batch.games[i], batch.episodes[i]
    episode.place = game.places[episode.player]
    episode.games_left -= 1
    if episode.games_left > 0:
        next_game(game)
        if batch.auto:
            give_weakest(batch.games[i : i + 1])
    return float(batch.rewards[episode.place])


@njit(float64(BatchType, int64), cache=True)
def _let_others_play(batch: Batch, i: int) -> float:
    """Play until it is our turn in game `i` or the episode is over; return the sum of rewards."""
    game, episode, reward = batch.games[i], batch.episodes[i], 0.0
    while episode.games_left > 0 and game.turn != episode.player:
        if game.turn < 0:
            reward += _finish_game(batch, i)
        else:
            _let_one_play(batch, i)
    return reward


@njit(boolean(BatchType, int64, uint64, OpeningType), cache=True)
def start_match(batch: Batch, i: int, seed: Word, opening: Opening) -> bool:
    """Start a match in game `i`; return True unless it ended before our first turn."""
    game, episode = batch.games[i], batch.episodes[i]
    batch.games[i] = batch.match[0]
    game.seed = seed
    first_game(game, opening.seats, opening.classes, opening.hands)
    if batch.auto:
        give_weakest(batch.games[i : i + 1])
    episode.games_left = batch.n_games
    episode.steps = episode.over = 0
    episode.effect, episode.legal, episode.place = _NO_ACTION, 1, -1
    episode.early_reward = _let_others_play(batch, i)
    return bool(episode.games_left > 0)


@njit(boolean(BatchType, int64, OpeningType), cache=True)
def _start(batch: Batch, i: int, opening: Opening) -> bool:
    """Start an episode in game `i`; return True unless it ended before our first turn."""
    episode, player, seed = batch.episodes[i], batch.seat, batch.episodes[i].seed
    episode.player = draw_below(batch.streams[i], N_PLAYERS) if player < 0 else player
    if not episode.seeded:
        seed = next_word(batch.streams[i])
    episode.seeded = 0
    return start_match(batch, i, seed, opening)


@njit(int64(BatchType, boolean[::1], OpeningType), cache=True)
def start_all(batch: Batch, mask: Flags, opening: Opening) -> int:
    """Start the episodes of a mask; return how many have ended before our first turn."""
    n_ended = 0
    for i in range(len(mask)):
        if mask[i]:
            n_ended += not _start(batch, i, opening)
    return n_ended


@njit(boolean(BatchType, int64, int64), cache=True)
def _act(batch: Batch, i: int, action: int) -> bool:
    """Play our action in game `i`; return True if it is illegal and ends the episode."""
    game, episode = batch.games[i], batch.episodes[i]
    episode.place = -1
    legal, is_gift, _ = act(batch.games[i : i + 1], action, not batch.illegal_ends)
    episode.legal = legal
    if legal:
        episode.effect = _FIRST_GIFT + action - 1 if is_gift else action
    elif is_gift and not batch.illegal_ends:
        episode.effect, episode.lost = _LOST, game.given[episode.player]
    else:
        episode.effect = PASS
    return bool(not legal and batch.illegal_ends)


@njit(float64(BatchType, int64, int64), cache=True)
def _step(batch: Batch, i: int, action: int) -> float:
    """Play our action in game `i`, and those of the others; return the reward."""
    episode = batch.episodes[i]
    episode.steps += 1
    if _act(batch, i, action):
        episode.over = 1
        return ILLEGAL_REWARD
    reward = episode.early_reward
    episode.early_reward = 0.0
    if batch.games[i].turn < 0:
        reward += _finish_game(batch, i)
    reward += _let_others_play(batch, i)
    episode.over = episode.games_left == 0
    return float(reward)


@njit(void(BatchType, int64, int8[:, ::1], int8[::1]), cache=True)
def _observe(batch: Batch, i: int, planes: Planes, mask: Planes) -> None:
    """Write what our player of game `i` sees, and its legal actions."""
    planes[:] = 0
    mask[:] = 0
    player = batch.episodes[i].player
    observe(batch.games[i : i + 1], player, batch.seen, planes)
    write_mask(batch.games[i : i + 1], player, mask)


@njit(void(BatchType, boolean[::1], int8[:, :, ::1], int8[:, ::1]), cache=True)
def observe_all(batch: Batch, rows: Flags, planes: Planes, masks: Planes) -> None:
    """Write the observations and legal actions of some games, and leave those of the others."""
    for i in range(len(rows)):
        if rows[i]:
            _observe(batch, i, planes[i], masks[i])


@njit(void(BatchType, int8[:, ::1]), cache=True)
def mask_all(batch: Batch, masks: Planes) -> None:
    """Write the legal actions of every game."""
    masks[:] = 0
    for i in range(len(masks)):
        write_mask(batch.games[i : i + 1], batch.episodes[i].player, masks[i])


@njit(
    types.UniTuple(int64, 2)(
        *(BatchType, int64[::1], OpeningType, float64[::1], boolean[::1], boolean[::1]),
        *(int8[:, :, ::1], int8[:, ::1]),
    ),
    cache=True,
)
def step_all(
    batch: Batch,
    actions: Numbers,
    opening: Opening,
    rewards: npt.NDArray[np.float64],
    terminated: Flags,
    truncated: Flags,
    planes: Planes,
    masks: Planes,
) -> tuple[int, int]:
    """Play one action of every game, or start an episode where one is over.

    Args:
        batch: the games, changed in place.
        actions: `[B]` in 0..2421.
        opening: opening of the episodes that start.
        rewards: are written to, as the rest.
        terminated: episodes that have ended by themselves.
        truncated: episodes that have reached the limit of steps.
        planes: observations.
        masks: legal actions.

    Returns:
        The number of episodes that are over now, and the number of those started that have ended
        before our first turn.
    """
    n_over, n_ended = 0, 0
    for i in range(len(actions)):
        episode = batch.episodes[i]
        rewards[i] = 0.0
        terminated[i] = truncated[i] = False
        if episode.over:
            n_ended += not _start(batch, i, opening)
        else:
            rewards[i] = _step(batch, i, actions[i])
            terminated[i] = episode.over != 0
            truncated[i] = episode.steps >= batch.limit
            episode.over = terminated[i] or truncated[i]
            n_over += episode.over
        _observe(batch, i, planes[i], masks[i])
    return n_over, n_ended


@njit(uint64(BatchType, uint64, int64[::1]), cache=True)
def sample_legal(batch: Batch, rng: Word, actions: Numbers) -> Word:
    """Draw a legal action of every game; return the advanced random state."""
    legal = np.empty(N_PLAYS, np.int64)
    for i in range(len(actions)):
        n_legal = write_actions(batch.games[i], batch.episodes[i].player, legal)
        rng, bits = next_random(rng)
        actions[i] = legal[below(bits, n_legal)]
    return rng


class DaihinminVectorEnv(VectorEnv[Planes, Numbers, npt.NDArray[Any]]):
    """`num_envs` seats of Daihinmin, each as `DaihinminEnv` plays it from the same seed.

    `gym.make_vec("Daihinmin-v0", num_envs=B)` makes it. Observations, actions, rewards and settings
    are those of `DaihinminEnv`, batched; infos are arrays over all games, each with its mask
    (`_play` for `play`); that of `place` is True in the step that ends a game. All returned arrays
    are copies.

    Args:
        num_envs: number of games.
        seat: our player in all games, or `"random"`, drawn for each episode.
        opponents: a player for all other seats or a list of four: None or `"random"`, `"sample"`,
            `"heuristic"`, or a player with a method `compiled`, see `players.CompiledPlayer`.
        games: games per episode.
        exchange: `"agent"` or `"auto"`.
        reward: `"points"`, `"zero_sum"` or `"class_value"`.
        illegal: `"pass"`, `"terminate"` or `"raise"`; one illegal action raises for all games.
        rules: the rules, by default the competition's.
        render_mode: `"ansi"` or `"rgb_array"`; `render()` returns a tuple with one per game.
        autoreset_mode: restart after the end of an episode, as in Gymnasium: in the next step
            (`NEXT_STEP`); in the same step, with the end in `infos["final_obs"]` and
            `infos["final_info"]` (`SAME_STEP`); or by `reset(options={"reset_mask": ...})`
            (`DISABLED`).
        max_episode_steps: truncates an episode after this many steps.
    """

    metadata: dict[str, Any] = {
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 2,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        *,
        seat: int | str = "random",
        opponents: Opponent | Sequence[Opponent] = None,
        games: int = 1,
        exchange: str = "agent",
        reward: str = "points",
        illegal: str = "pass",
        rules: Rules | None = None,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
    ) -> None:
        self.num_envs = num_envs = check_count("num_envs", num_envs)
        check_seat(seat)
        check_settings(games, exchange, reward, "planes", illegal)
        check_one_of((None, *self.metadata["render_modes"]), render_mode=render_mode)
        step_limit(max_episode_steps)
        self.seat, self.games, self.exchange = seat, games, exchange
        self.reward, self.illegal, self.rules = reward, illegal, rules
        self.opponents = opponents
        self.render_mode, self.max_episode_steps = render_mode, max_episode_steps
        self.autoreset_mode = check_autoreset_mode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = observation_space("planes")
        self.single_action_space = spaces.Discrete(N_PLAYS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._games = np.zeros(num_envs, GAME)
        self._episodes = np.zeros(num_envs, EPISODE)
        self._streams = np.zeros((num_envs, 6), np.uint64)
        self._batch = self._new_batch()
        self._generator: np.random.Generator | None = None  # has drawn the random streams
        self._sampler: Word = 0  # random state of `sample_legal`

    def reset(
        self, *, seed: Seeds = None, options: dict[str, Any] | None = None
    ) -> tuple[Planes, Infos]:
        """Start all episodes, or those of a mask.

        Args:
            seed: game `i` gets `seed + i`, or `seed[i]` of a sequence, and plays as `DaihinminEnv`
                does from that seed. None continues the random streams.
            options: `deal`, `classes` and `seats` of `raw_env.reset` start all matches alike;
                `{"reset_mask": bool[num_envs]}` resets only some games.

        Raises:
            ValueError: a wrong option, deal, mask or number of seeds; the games are unchanged.
        """
        options = check_options(options, (*OPTIONS, "reset_mask"))
        opening, mask = check_opening(options), check_reset_mask(options, self.num_envs)
        if not mask.all():
            self._running()
        seeds = check_seeds(seed, self.num_envs)
        super().reset(seed=as_int(seed))
        self._draw_streams(seeds, mask)
        if start_all(self._batch, mask, opening):
            self._start_again()
        planes, masks = self._empty()
        observe_all(self._batch, np.ones(self.num_envs, np.bool_), planes, masks)
        return planes, self._infos(masks, mask)

    def step(
        self, actions: npt.NDArray[np.integer[Any]]
    ) -> tuple[Planes, npt.NDArray[Any], Flags, Flags, Infos]:
        """Play one action of every game, and those of the others until it is our turn.

        Args:
            actions: integers `[num_envs]` in 0..2421: see `DaihinminEnv`.

        Returns:
            Observations `int8[num_envs, 116, 15]`, rewards `float64[num_envs]`, terminations,
            truncations and infos.

        Raises:
            ValueError: wrong actions, or an illegal one with `illegal="raise"`; the games are
                unchanged.
            ResetNeeded: before the first reset, or if an episode is over and autoreset is disabled.
        """
        batch, numbers = self._running(), self._check_actions(actions)
        rewards, (planes, masks) = np.empty(self.num_envs), self._empty()
        terminated, truncated = np.empty((2, self.num_envs), np.bool_)
        outputs = rewards, terminated, truncated, planes, masks
        n_over, n_ended = step_all(batch, numbers, _DRAWN, *outputs)
        infos: Infos = {}
        if n_over and self.autoreset_mode is AutoresetMode.SAME_STEP:
            ended = terminated | truncated
            infos = finals(planes, self._infos(masks, ended), ended)
            n_ended = start_all(batch, ended, _DRAWN)
            observe_all(batch, ended, planes, masks)
        if n_ended:
            observe_all(batch, self._start_again(), planes, masks)
        infos.update(self._infos(masks, np.ones(self.num_envs, np.bool_)))
        return planes, rewards, terminated, truncated, infos

    def action_masks(self) -> Flags:
        """Return the legal actions of every game, `bool[num_envs, 2422]`."""
        masks = np.empty((self.num_envs, N_PLAYS), np.int8)
        mask_all(self._running(), masks)
        legal: Flags = masks.view(np.bool_)
        return legal

    def sample_legal(self) -> Numbers:
        """Return a random legal action of every game, `int64[num_envs]`.

        The actions have their own random stream, so that drawing them does not change the games.
        """
        actions = np.empty(self.num_envs, np.int64)
        self._sampler = sample_legal(self._running(), self._sampler, actions)
        return actions

    def views(self) -> Games:
        """Return what our player of every game sees as records `GAME[num_envs]`."""
        self._running()
        players = self._episodes["player"].tolist()
        views = np.empty(self.num_envs, GAME)
        for i, player in enumerate(players):
            views[i] = view(self._games[i], player)
        return views

    def render(self) -> tuple[Any, ...] | None:
        """Return one text or picture per game, by `render_mode`; None without a render mode.

        Only the cards of our player are shown.

        Raises:
            DependencyNotInstalled: pictures need the extra `afterstate[render]`.
        """
        from afterstate.envs.daihinmin import render

        if self.render_mode is None:
            warn_no_render_mode(self.metadata["render_modes"])
            return None
        draw = render.ansi if self.render_mode == "ansi" else render.rgb_array
        return tuple(map(draw, self.views()))

    def _new_batch(self) -> Batch:
        """Return the games with the settings for the kernels."""
        opponents = four_opponents(self.opponents)
        self._players = [compiled(each) for each in opponents]  # keeps their kernels
        parameters = np.zeros((4, max(len(player.parameters) for player in self._players)))
        for row, player in zip(parameters, self._players, strict=True):
            row[: len(player.parameters)] = player.parameters
        match = np.zeros(1, GAME)
        match[0] = new_match(0, self.rules)
        return Batch(
            games=self._games,
            episodes=self._episodes,
            streams=self._streams,
            seen=np.zeros(1, GAME),
            match=match,
            opponents=np.array([player.address() for player in self._players]),
            parameters=parameters,
            rewards=np.array(REWARDS[self.reward]),
            seat=-1 if self.seat == "random" else int(self.seat),
            n_games=int(self.games),
            auto=self.exchange == "auto",
            illegal_ends=self.illegal == "terminate",
            limit=step_limit(self.max_episode_steps),
        )

    def _running(self) -> Batch:
        """Return the games for the kernels."""
        if self._generator is None:
            raise ResetNeeded("call reset() first")
        return self._batch

    def _empty(self) -> tuple[Planes, Planes]:
        """Return arrays for observations and legal actions."""
        n = self.num_envs
        return np.empty((n, *PLANES_SHAPE), np.int8), np.empty((n, N_PLAYS), np.int8)

    def _check_actions(self, actions: Any) -> Numbers:
        """Return the actions as `int64[num_envs]`, checked."""
        numbers = check_actions(actions, self.num_envs, N_PLAYS, f"in 0..{N_PLAYS - 1}")
        over = self._episodes["over"] != 0
        check_running(self.autoreset_mode, over)
        if self.illegal == "raise":
            allowed = self.action_masks()[np.arange(self.num_envs), numbers] | over
            if not allowed.all():
                i = int(np.argmin(allowed))
                action = f"{numbers[i]} ({plays.text(int(numbers[i]))})"
                raise ValueError(f"actions must be legal, got {action} for game {i}")
        return numbers

    def _draw_streams(self, seeds: list[int | None], mask: Flags) -> None:
        """Set seed and stream of seeded games; at the first reset, the streams of all games."""
        given = [seed for seed in seeds if seed is not None]
        sources: list[int | None] = list(seeds)
        if self.np_random is not self._generator and (self._generator is None or not given):
            *words, sampler = self.np_random.integers(0, 2**64, len(seeds) + 1, np.uint64).tolist()
            sources = [word if s is None else s for s, word in zip(seeds, words, strict=True)]
            self._sampler = sampler
        self._generator = self.np_random
        for i in np.flatnonzero(mask):
            source, seed = sources[i], seeds[i]
            if source is not None:
                self._streams[i] = stream_of(np.random.Generator(np.random.PCG64(source)))
            if seed is not None:
                self._episodes[i]["seeded"], self._episodes[i]["seed"] = 1, seed % 2**64
        if given:
            self._sampler = draw_word(np.random.default_rng(given))

    def _start_again(self) -> Flags:
        """Start further matches where one has ended before our first turn; return these games.

        `raw_env` draws their seeds from a generator with the seed of that match.
        """
        ended: Flags = (self._episodes["games_left"] == 0) & (self._episodes["over"] == 0)
        for i in np.flatnonzero(ended):
            generator = np.random.default_rng(int(self._games["seed"][i]))
            while not start_match(self._batch, int(i), draw_word(generator), _DRAWN):
                pass
        return ended

    def _infos(self, masks: Planes, mask: Flags) -> Infos:
        """Return the infos of all games, with `mask` as the mask of each key."""
        episodes = self._episodes
        texts = _TEXTS[episodes["effect"]]
        for i in np.flatnonzero(episodes["effect"] == _LOST):
            texts[i] = f"gives {cards.text(episodes['lost'][i])}"
        values = {
            "action_mask": masks,
            "play": texts,
            "legal": episodes["legal"] != 0,
            "player": episodes["player"].copy(),
            "place": episodes["place"].copy(),
        }
        infos = with_masks(values, mask)
        infos["_place"] &= episodes["place"] >= 0
        return infos

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_batch": None, "_players": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._batch = self._new_batch()

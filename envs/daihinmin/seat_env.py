"""Daihinmin as a Gymnasium environment: one seat of the table, the others play by themselves."""

from __future__ import annotations

from typing import Any, SupportsFloat, SupportsIndex

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from afterstate.envs.daihinmin import plays
from afterstate.envs.daihinmin.arguments import ILLEGAL, check_action, check_one_of
from afterstate.envs.daihinmin.env import AGENTS, ILLEGAL_REWARD, observation_space, raw_env
from afterstate.envs.daihinmin.observation import Planes
from afterstate.envs.daihinmin.players import Player, RandomPlayer, actions_of, find
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game, Options
from afterstate.envs.words import draw_word, whole

_SEATS = ("random", *range(N_PLAYERS))


class DaihinminEnv(gym.Env[Planes, np.int64]):
    """One player of five-player Daihinmin under the rules of the UEC competition.

    A step is our action and all those of the others until it is our turn again. An episode is one
    game, or a match of several. The game itself is `raw_env`, whose actions and planes these are.

    Actions: the numbers of the 2,422 plays, see `plays.py`; 0 is the pass. In the exchange before a
    game: the cards to give, one an action, `plays.single(card)`.

    Observations: planes `int8[116, 15]` of what we see: see `observation.py`.

    Reward: what our place is worth, in the step in which a game ends.

    Info, at reset and after each step:

    - `action_mask`: `int8[2422]`, 1 where the next action is legal
    - `play`: our last action in notation, such as `"S8 JO=H8"`, `"pass"` or `"gives S3"`
    - `legal`: whether it was legal (True at reset)
    - `player`: the number of our player
    - `place`: only in the step in which a game ends: our place in it, from 0

    Args:
        seat: our player, 0 to 4, or `"random"`: drawn anew for each episode.
        opponents: a player or its name, see `players.find`, for all other seats; a list of four of
            them, by player number; None for random legal plays.
        games: games an episode. Seats, classes and points are carried on from game to game.
        exchange: we choose the cards we give (`"agent"`), or all the rich give their weakest
            natural cards (`"auto"`).
        reward: what places are worth: `"points"` 5 to 1, `"zero_sum"` 2 to -2, or `"class_value"`,
            see `match.CLASS_VALUES`.
        illegal: what an illegal action does. It counts as a pass, and as a gift it is punished by
            the loss of the strongest cards, as in the competition (`"pass"`); it ends the episode
            with reward -1 (`"terminate"`); or it raises a ValueError that leaves the game as it is
            (`"raise"`). What an opponent does illegally always counts as a pass.
        rules: the rules, by default the competition's.
        render_mode: `"ansi"` (text), `"rgb_array"` or `"human"` (a window, which shows every
            action). Only our own cards are shown.

    Version history:

    - v0: first version
    """

    metadata: dict[str, Any] = {
        "render_modes": raw_env.metadata["render_modes"],
        "render_fps": raw_env.metadata["render_fps"],
    }

    def __init__(
        self,
        seat: int | str = "random",
        opponents: Any = None,
        games: int = 1,
        exchange: str = "agent",
        reward: str = "points",
        illegal: str = "pass",
        rules: Options | None = None,
        render_mode: str | None = None,
    ) -> None:
        if seat != "random" and whole(seat) not in range(N_PLAYERS):
            raise ValueError(f"seat is one of {_SEATS}, got {seat!r}")
        check_one_of(ILLEGAL, illegal=illegal)
        self.seat, self.illegal, self.render_mode = seat, illegal, render_mode
        self.observation_space = observation_space("planes")
        self.action_space = spaces.Discrete(plays.N_PLAYS)
        self.agent = AGENTS[whole(seat) or 0]
        # What is illegal for us is checked here; for the others it counts as a pass.
        self._table = raw_env(games, exchange, reward, rules=rules, render_mode=render_mode)
        self._opponents = _four(opponents)
        self._players: dict[str, Player] = {}
        self._over = True
        self._won_before = 0.0  # in games that ended before our first turn

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Planes, dict[str, Any]]:
        """Starts an episode.

        Args:
            seed: of the match, as in `raw_env.reset`, and of the seats and the random opponents of
                this and the following episodes; without it they go on.
            options: those of `raw_env.reset`.

        Raises:
            ValueError: a wrong seed or deal.
        """
        super().reset(seed=seed)
        self._over = True  # until all went well
        player = whole(self.seat)
        self.agent = AGENTS[int(self.np_random.integers(N_PLAYERS)) if player is None else player]
        others = [agent for agent in AGENTS if agent != self.agent]
        at_random = RandomPlayer(self.np_random)
        self._players = {
            agent: opponent or at_random
            for agent, opponent in zip(others, self._opponents, strict=True)
        }
        self._table.shown_to = self.agent
        self._table.reset(draw_word(self.np_random) if seed is None else seed, options)
        self._won_before, over = self._let_others_play()
        while over:  # all of it before our first turn, in theory
            self._table.reset()
            self._won_before, over = self._let_others_play()
        self._over = False
        return self._observe()

    def step(
        self, action: SupportsIndex
    ) -> tuple[Planes, SupportsFloat, bool, bool, dict[str, Any]]:
        """Plays an action, and all those of the others until it is our turn: see the class.

        Raises:
            ValueError: not an action, or an illegal one where `illegal="raise"`; the game is
                unchanged.
        """
        number = check_action(action)
        if self._over:
            raise ResetNeeded("call reset() before playing")
        if self.illegal != "pass" and not self.action_masks()[number]:
            return self._refuse(number)
        self._table.step(number)
        reward = self._table.rewards[self.agent] + self._won_before
        self._won_before = 0.0
        won, self._over = self._let_others_play()
        observation, info = self._observe()
        return observation, reward + won, self._over, False, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The legal actions as `bool[2422]`: what sb3-contrib's MaskablePPO asks for."""
        mask: Planes = self._table.observe(self.agent)["action_mask"]
        return mask.astype(np.bool_)

    def view(self) -> Game:
        """What we see, as a record: what `players.Player` are asked with."""
        return self._table.view(self.agent)

    def render(self) -> Any:
        """The table as text or picture: see `raw_env.render`."""
        return self._table.render()

    def close(self) -> None:
        """Closes the window, if there is one."""
        self._table.close()

    # Inside

    def _observe(self) -> tuple[Planes, dict[str, Any]]:
        """Observation and info of the game as it stands."""
        seen = self._table.observe(self.agent)
        info = {
            "action_mask": seen["action_mask"],
            **self._table.infos[self.agent],
            "player": AGENTS.index(self.agent),
        }
        return seen["observation"], info

    def _refuse(self, number: int) -> tuple[Planes, SupportsFloat, bool, bool, dict[str, Any]]:
        """What an illegal action leads to."""
        if self.illegal == "raise":
            raise ValueError(f"action {number}, {plays.text(number)!r}, is illegal here")
        self._over = True
        observation, info = self._observe()
        return observation, ILLEGAL_REWARD, True, False, {**info, "play": "pass", "legal": False}

    def _let_others_play(self) -> tuple[float, bool]:
        """The others act until it is our turn or the episode is over.

        Returns:
            The sum of our rewards, and whether the episode is over.
        """
        table, reward = self._table, 0.0
        while not table.terminations[self.agent] and table.agent_selection != self.agent:
            agent = table.agent_selection
            for action in actions_of(self._players[agent], table.view(agent)):
                table.step(action)
            reward += table.rewards[self.agent]
        return reward, table.terminations[self.agent]


def _one(opponent: Any) -> Player | None:
    """An opponent, None if its plays are random: these are drawn by the seed of the reset."""
    return None if opponent in (None, "random", "daihinmin-random") else find(opponent)


def _four(opponents: Any) -> list[Player | None]:
    """The opponents by player number, None where plays are random.

    Raises:
        ValueError: not players, or not four.
    """
    if not isinstance(opponents, (list, tuple)):
        return [_one(opponents)] * (N_PLAYERS - 1)
    if len(opponents) != N_PLAYERS - 1:
        raise ValueError(f"opponents are one for all seats or a list of 4, got {len(opponents)}")
    return [_one(opponent) for opponent in opponents]

"""Daihinmin as a Gymnasium environment: one seat against four opponents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat, SupportsIndex, TypeAlias

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from afterstate.envs.checks import as_int, check_one_of, check_options, check_seed
from afterstate.envs.daihinmin import plays
from afterstate.envs.daihinmin.arguments import (
    AGENTS,
    ILLEGAL,
    OPTIONS,
    check_action,
    check_opening,
)
from afterstate.envs.daihinmin.env import ILLEGAL_REWARD, observation_space, raw_env
from afterstate.envs.daihinmin.observation import Planes
from afterstate.envs.daihinmin.players import Player, RandomPlayer, actions_of, is_random, resolve
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game, Rules
from afterstate.envs.messages import listed, shown
from afterstate.envs.words import draw_word

Opponent: TypeAlias = Player | str | None
"""A player, its name or its file; None plays at random."""

_SEATS = ("random", *range(N_PLAYERS))


class DaihinminEnv(gym.Env[Planes, np.int64]):
    """One player of five-player Daihinmin under the rules of the UEC competition.

    A step is our action and those of the others until it is our turn again. An episode is one game,
    or a match of several. Actions and observations are those of `raw_env`.

    Actions: the numbers of the 2,422 plays, see `plays.py`; 0 is the pass. In the exchange before a
    game each action gives one card: `plays.single(card)`.

    Observations: planes `int8[116, 15]` of what our player sees: see `observation.py`.

    Reward: the value of our place, in the step that ends a game.

    Info, at reset and after each step:

    - `action_mask`: `int8[2422]`, 1 where the next action is legal
    - `play`: our last action in notation, such as `"S8 JO=H8"`, `"pass"` or `"gives S3"`
    - `legal`: True if it was legal, and at reset
    - `player`: the number of our player
    - `place`: our finishing place from 0, only in the step that ends a game

    Args:
        seat: our player, 0 to 4, or `"random"`, drawn for each episode.
        opponents: a player, its name or its file, such as `"sample"`, for all other seats; a list
            of four of them, by player number; or None for random legal plays. See
            `agents.daihinmin.play.find_player`. Each seat has a player of its own, unless one
            player is given for several.
        games: games per episode. Seats, classes and points carry over from game to game.
        exchange: we choose the cards we give (`"agent"`), or all the rich give their weakest
            natural cards (`"auto"`).
        reward: value of the places: `"points"` 5 to 1, `"zero_sum"` 2 to -2, or `"class_value"`,
            see `match.CLASS_VALUES`.
        illegal: effect of an illegal action. `"pass"`, as in the competition: it counts as a pass,
            and as a gift it costs us the strongest cards. `"terminate"`: it ends the episode with
            reward -1. `"raise"`: it raises a ValueError and leaves the game unchanged. An illegal
            action of an opponent always counts as a pass.
        rules: the rules, by default the competition's.
        render_mode: `"ansi"` (text), `"rgb_array"` or `"human"` (a window, updated after every
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
        *,
        opponents: Opponent | Sequence[Opponent] = None,
        games: int = 1,
        exchange: str = "agent",
        reward: str = "points",
        illegal: str = "pass",
        rules: Rules | None = None,
        render_mode: str | None = None,
    ) -> None:
        check_seat(seat)
        check_one_of(ILLEGAL, illegal=illegal)
        self.seat, self.illegal, self.render_mode = seat, illegal, render_mode
        self.observation_space = observation_space("planes")
        self.action_space = spaces.Discrete(plays.N_PLAYS)
        self.agent = AGENTS[as_int(seat) or 0]
        # Our illegal actions are handled here; those of the others count as a pass.
        self._table = raw_env(
            games=games, exchange=exchange, reward=reward, rules=rules, render_mode=render_mode
        )
        self._opponents = four_opponents(opponents)
        self._resolved = [_resolve(each) for each in self._opponents]
        self._players: dict[str, Player] = {}
        self._over = True
        self._early_reward = 0.0  # of games that ended before our first turn

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Planes, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: seed of the match, as in `raw_env.reset`, and of our seat, the random opponents
                and those by name of this and later episodes; None continues the random streams.
            options: `deal`, `classes` and `seats` of `raw_env.reset`.

        Raises:
            ValueError: a wrong seed or deal, or an unknown option.
        """
        seed = check_seed(seed)
        options = check_options(options, OPTIONS)
        check_opening(options)
        super().reset(seed=seed)
        self._over = True  # until the reset has succeeded
        player = as_int(self.seat)
        self.agent = AGENTS[int(self.np_random.integers(N_PLAYERS)) if player is None else player]
        others = [agent for agent in AGENTS if agent != self.agent]
        if seed is not None:
            self._seed_opponents(seed)
        random_player = RandomPlayer(self.np_random)
        self._players = {
            agent: random_player if resolved is None else resolved
            for agent, resolved in zip(others, self._resolved, strict=True)
        }
        self._table.shown_to = self.agent
        self._table.reset(draw_word(self.np_random) if seed is None else seed, options)
        self._early_reward, over = self._let_others_play()
        while over:  # possible in theory: the episode ends before our first turn
            self._table.reset()
            self._early_reward, over = self._let_others_play()
        self._over = False
        return self._observe()

    def step(
        self, action: SupportsIndex
    ) -> tuple[Planes, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play an action, and those of the others until it is our turn: see the class.

        Raises:
            ValueError: not an action, or an illegal one where `illegal="raise"`; the game is
                unchanged.
        """
        number = check_action(action)
        if self._over:
            raise ResetNeeded("call reset() first")
        if self.illegal != "pass" and not self.action_masks()[number]:
            return self._refuse(number)
        self._over = True  # until the others have played, too: one may raise an error
        self._table.step(number)
        reward = self._table.rewards[self.agent] + self._early_reward
        self._early_reward = 0.0
        later_reward, self._over = self._let_others_play()
        observation, info = self._observe()
        return observation, reward + later_reward, self._over, False, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Return the legal actions as `bool[2422]`, for sb3-contrib's MaskablePPO."""
        mask: Planes = self._table.observe(self.agent)["action_mask"]
        return mask.astype(np.bool_)

    def view(self) -> Game:
        """Return what our player sees as a record, which is what a `players.Player` gets."""
        return self._table.view(self.agent)

    def render(self) -> Any:
        """Return the table as text or picture: see `raw_env.render`."""
        return self._table.render()

    def close(self) -> None:
        """Close the window, if there is one."""
        self._table.close()

    def _observe(self) -> tuple[Planes, dict[str, Any]]:
        """Return the current observation and info."""
        seen = self._table.observe(self.agent)
        info = {
            "action_mask": seen["action_mask"],
            **self._table.infos[self.agent],
            "player": AGENTS.index(self.agent),
        }
        return seen["observation"], info

    def _seed_opponents(self, seed: int) -> None:
        """Resolve the opponents by name again, each with a seed of its own."""
        for i, opponent in enumerate(self._opponents):
            if isinstance(opponent, str):
                (word,) = np.random.SeedSequence([seed, i]).generate_state(1)
                self._resolved[i] = _resolve(opponent, int(word))

    def _refuse(self, number: int) -> tuple[Planes, SupportsFloat, bool, bool, dict[str, Any]]:
        """Raise ValueError for an illegal action, or end the episode."""
        if self.illegal == "raise":
            raise ValueError(f"action must be legal here, got {number} ({plays.text(number)})")
        self._over = True
        observation, info = self._observe()
        info.pop("place", None)  # of the game before
        return observation, ILLEGAL_REWARD, True, False, {**info, "play": "pass", "legal": False}

    def _let_others_play(self) -> tuple[float, bool]:
        """Play the actions of the others until it is our turn or the episode is over.

        Returns:
            The sum of our rewards, and True if the episode is over.
        """
        table, reward = self._table, 0.0
        while not table.terminations[self.agent] and table.agent_selection != self.agent:
            agent = table.agent_selection
            for action in actions_of(self._players[agent], table.view(agent)):
                table.step(action)
            reward += table.rewards[self.agent]
        return reward, table.terminations[self.agent]


def check_seat(seat: Any) -> None:
    """Raise ValueError unless a seat is a player's number or `"random"`."""
    is_random = isinstance(seat, str) and seat == "random"
    if not is_random and as_int(seat) not in range(N_PLAYERS):
        raise ValueError(f"seat must be one of {listed(_SEATS)}, got {shown(seat)}")


def _resolve(opponent: Opponent, seed: int | None = None) -> Player | None:
    """Return an opponent, or None for random plays, which follow the seed of the reset."""
    return None if opponent is None or is_random(opponent) else resolve(opponent, seed)


def four_opponents(opponents: Opponent | Sequence[Opponent]) -> list[Opponent]:
    """Return the opponents by player number.

    Raises:
        ValueError: a list that does not have four.
    """
    if opponents is None or isinstance(opponents, str) or not isinstance(opponents, Sequence):
        return [opponents] * (N_PLAYERS - 1)
    if len(opponents) != N_PLAYERS - 1:
        raise ValueError(f"opponents must be one player or a list of 4, got {len(opponents)}")
    return list(opponents)

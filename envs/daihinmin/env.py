"""Daihinmin as PettingZoo environments: agents act in turn (AEC), or all in each step."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, SupportsIndex

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numba import boolean, int64, njit, types, void
from pettingzoo import AECEnv, ParallelEnv  # type: ignore[import-untyped]
from pettingzoo.utils.wrappers import OrderEnforcingWrapper  # type: ignore[import-untyped]

from afterstate.envs.checks import check_count, check_one_of
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.arguments import (
    AGENTS,
    REWARDS,
    STATE_ATTRIBUTES,
    check_action,
    check_opening,
    check_settings,
    check_state,
    is_over,
)
from afterstate.envs.daihinmin.match import first_game, new_match, next_game
from afterstate.envs.daihinmin.observation import (
    CHANNELS,
    N_COLUMNS,
    STATE_CHANNELS,
    Planes,
    observe,
    write_mask,
    write_state_planes,
)
from afterstate.envs.daihinmin.plays import N_PLAYS
from afterstate.envs.daihinmin.rules import (
    GAME,
    N_PLAYERS,
    Game,
    Games,
    GameType,
    Rules,
    give,
    give_card,
    is_givable,
    is_legal,
    play,
)
from afterstate.envs.daihinmin.views import view
from afterstate.envs.messages import listed, shown
from afterstate.envs.pictures import Window, warn_no_render_mode
from afterstate.envs.words import draw_word

ILLEGAL_REWARD = -1.0
"""Reward of an illegal action that ends the episode; the other agents get 0."""

PLANES_SHAPE = (len(CHANNELS), N_COLUMNS)
"""Shape of the planes of an observation."""
STATE_SHAPE = (len(STATE_CHANNELS), N_COLUMNS)
"""Shape of a state."""

Results = tuple[
    dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
]
"""Observations, rewards, terminations, truncations and infos, by agent."""

_NUMBERS = {agent: number for number, agent in enumerate(AGENTS)}


def _number(agent: str) -> int:
    """Return the number of an agent's player."""
    if not isinstance(agent, str) or agent not in _NUMBERS:
        raise ValueError(f"agent must be one of {listed(AGENTS)}, got {shown(agent)}")
    return _NUMBERS[agent]


_GIFTS = tuple("gives " + cards.card_text(card) for card in range(cards.N_CARDS))


@njit(types.Tuple((boolean, boolean, int64))(GameType[::1], int64, boolean), cache=True)
def act(games: Games, action: int, lenient: bool) -> tuple[bool, bool, int]:
    """Play an action of the player in turn of `games[0]`; an illegal one only if `lenient`.

    Returns:
        True if the action was legal, True if it was a gift, and the player whose turn is next.
    """
    game = games[0]
    giving = game.to_give > 0
    legal = is_givable(game, action - 1) if giving else is_legal(game, action)
    if giving and (legal or lenient):
        give_card(game, action - 1)
    elif legal or lenient:
        play(game, action)
    return legal, giving, game.turn


@njit(void(GameType[::1]), cache=True)
def give_weakest(games: Games) -> None:
    """Make all gifts of the rich of `games[0]` with their weakest natural cards."""
    game = games[0]
    while game.to_give > 0:
        give(game, cards.weakest(game.hands[game.turn], game.to_give))


def env(**settings: Any) -> Any:
    """Return `raw_env(**settings)` in PettingZoo's wrapper that checks the order of calls."""
    return _OrderEnforced(raw_env(**settings))


class _OrderEnforced(OrderEnforcingWrapper):  # type: ignore[misc]
    """PettingZoo's wrapper, but `last` is one call, not five attributes found by name."""

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return observation, accumulated reward, ends and info of the selected agent."""
        return self.env.last(observe)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return str(self.env)


class raw_env(AECEnv):  # type: ignore[misc]
    """Five-player Daihinmin under the rules of the UEC competition.

    Agents are `player_0` to `player_4`. They act in the order of play, without those that have
    passed or finished. An episode is one game, or a match of several.

    Actions: the numbers of the 2,422 plays, see `plays.py`; 0 is the pass. In the exchange before a
    game the daifugo gives two cards and the fugo one, each by an action `plays.single(card)`.

    Observations: a dict of `observation`, planes `int8[116, 15]` of what the player sees (see
    `observation.py`), and `action_mask`, `int8[2422]`, 1 where an action is legal. An agent that is
    not in turn may only pass. With `observation="planes"`: the planes alone; the mask is in the
    info.

    Rewards: all agents get theirs at the end of each game.

    Infos, about the agent's own last action:

    - `play`: that action in notation, such as `"S8 JO=H8"`, `"pass"` or `"gives S3"`; `""` at first
    - `legal`: True if it was legal
    - `place`: finishing place from 0, only from the end of a game to the agent's next action
    - `action_mask`: only if observations are planes

    Args:
        games: games per episode. Seats, classes and points carry over from game to game.
        exchange: the rich choose the cards they give (`"agent"`), or give their weakest natural
            cards (`"auto"`).
        reward: value of the places: `"points"` 5 to 1, `"zero_sum"` 2 to -2, or `"class_value"`,
            see `match.CLASS_VALUES`.
        observation: `"dict"` or `"planes"`.
        illegal: effect of an illegal action. `"pass"`, as in the competition: it counts as a pass,
            and as a gift it costs the player the strongest cards. `"terminate"`: it ends the
            episode, with reward -1 for its player and 0 for the others. `"raise"`: it raises a
            ValueError and leaves the game unchanged.
        max_cycles: truncates an episode after five times as many actions.
        rules: the rules, by default the competition's.
        render_mode: `"ansi"` (text), `"rgb_array"` or `"human"` (a window).

    Attributes:
        observation_spaces: the space of each agent's observations.
        action_spaces: the space of each agent's actions.
        state_space: the space of `state()`.
        shown_to: the agent whose view is drawn; None (default) draws all hands. Behind wrappers it
            is `env.unwrapped.shown_to`.

    PettingZoo's `api_test` gives no warning if observations are planes; about dicts it always warns
    twice, except for games that it knows by name. Its `max_cycles_test` plays random illegal
    actions and fails if a legal one is among them, which is rare.
    """

    metadata: dict[str, Any] = {
        "render_modes": ["ansi", "rgb_array", "human"],
        "name": "daihinmin_v0",
        "is_parallelizable": False,
        "render_fps": 2,
    }

    def __init__(
        self,
        *,
        games: int = 1,
        exchange: str = "agent",
        reward: str = "points",
        observation: str = "dict",
        illegal: str = "pass",
        max_cycles: int | None = None,
        rules: Rules | None = None,
        render_mode: str | None = None,
    ) -> None:
        check_settings(games, exchange, reward, observation, illegal)
        self.max_cycles = check_count("max_cycles", max_cycles, optional=True)
        check_one_of((None, *self.metadata["render_modes"]), render_mode=render_mode)
        new_match(0, rules)  # checks the rules
        self.games, self.exchange, self.reward = games, exchange, reward
        self.observation, self.illegal = observation, illegal
        self.rules, self.render_mode = rules, render_mode
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        self.agent_selection: str
        self.action_spaces = {agent: spaces.Discrete(N_PLAYS) for agent in AGENTS}
        self.observation_spaces = {agent: observation_space(observation) for agent in AGENTS}
        self.state_space = spaces.Box(0, 1, STATE_SHAPE, np.int8)
        self._games = np.zeros(1, GAME)
        self._view = np.zeros(1, GAME)  # scratch space
        self._generator: np.random.Generator | None = None
        self._window = self._new_window()
        self.shown_to: str | None = None

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode.

        Args:
            seed: seed of this match (see `match.new_match`) and of the matches of later episodes;
                None continues the random stream.
            options: start of the first game, all optional: `"deal"`, five hands in notation by
                player, before any exchange; `"classes"`, the class of each player from 0, daifugo;
                `"seats"`, the player at each seat. Other options are ignored, since PettingZoo's
                tests give some.

        Raises:
            ValueError: a wrong seed or deal; the game is unchanged.
        """
        opening = check_opening({} if options is None else options)
        number = None if seed is None else int(new_match(seed)["seed"])
        generator = self._generator
        if seed is not None or generator is None:
            generator = np.random.default_rng(number)
        match = new_match(draw_word(generator) if number is None else number, self.rules)
        first_game(match, *opening)
        self._games[0], self._generator = match, generator
        self._games_left, self._n_actions, self._rewarded = self.games, 0, False
        self.agents = list(AGENTS)
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self.terminations = dict.fromkeys(AGENTS, False)
        self.truncations = dict.fromkeys(AGENTS, False)
        self.infos = {agent: self._info("", True) for agent in AGENTS}
        self._skip_agent_selection: str | None = None
        self._begin_game()
        self._show()

    def step(self, action: SupportsIndex | None) -> None:
        """Play an action of the selected agent: see the class. Agents that are done take None.

        Raises:
            ValueError: not an action, or an illegal one where `illegal="raise"`; the game is
                unchanged.
        """
        self._check_agents()
        games, agent = self._games, self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        number = check_action(action)
        legal, is_gift, turn = act(games, number, self.illegal == "pass")
        if not legal and self.illegal == "raise":
            text = action_text(number, is_gift)
            raise ValueError(f"action of {agent} must be legal here, got {number} ({text})")
        if self._rewarded:
            self._clear_rewards()
            self._rewarded = False
        self._cumulative_rewards[agent] = 0.0
        text = action_text(number, is_gift) if legal else self._penalty(agent, is_gift)
        self.infos[agent] = self._info(text, legal)
        self._n_actions += 1
        if not legal and self.illegal == "terminate":
            self._lose(agent)
        elif turn < 0:
            self._finish_game()
        else:
            self.agent_selection = AGENTS[turn]
        if self.max_cycles is not None and self._n_actions >= N_PLAYERS * self.max_cycles:
            self._truncate()
        self._show()

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return observation, accumulated reward, ends and info of the selected agent."""
        self._check_agents()
        return super().last(observe)  # type: ignore[no-any-return]

    def observe(self, agent: str) -> Any:
        """Return the observation of an agent: see the class."""
        planes = np.zeros(PLANES_SHAPE, np.int8)
        player = _number(agent)
        observe(self._running(), player, self._view, planes)
        if self.observation == "planes":
            return planes
        return {"observation": planes, "action_mask": self._mask(player)}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of an agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """Return the space of an agent's actions."""
        return self.action_spaces[agent]

    def state(self) -> Planes:
        """Return the whole game as planes `int8[131, 15]`: see `observation.py`."""
        planes = np.zeros(STATE_SHAPE, np.int8)
        write_state_planes(self._running(), planes)
        return planes

    def view(self, agent: str) -> Game:
        """Return what an agent sees as a record, which is what a `players.Player` gets."""
        return view(self._running()[0], _number(agent))

    def get_state(self) -> dict[str, Any]:
        """Return a picklable copy of all that the rest of this and later episodes depend on.

        `state["game"]` is the game record; a deal of `determinise` may replace it.
        """
        game: Game = self._running()[0].copy()
        return {"game": game} | {
            name: copy.deepcopy(getattr(self, name)) for name in STATE_ATTRIBUTES
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Return to a state from `get_state`, of this environment or one with the same settings.

        The player in turn of the game record becomes the selected agent.

        Raises:
            ValueError: not such a state, or a record that is not valid (`validity.status`); the
                game is unchanged.
        """
        game = check_state(state)
        copies = {name: copy.deepcopy(state[name]) for name in STATE_ATTRIBUTES}
        self._games[0] = game
        for name, value in copies.items():
            setattr(self, name, value)
        if not is_over(state):
            self.agent_selection = AGENTS[int(game["turn"])]
            self._show_mask()

    def render(self) -> Any:
        """Return the table as text (`"ansi"`) or picture (`"rgb_array"`); `"human"` opens a window.

        Raises:
            DependencyNotInstalled: pictures need the extra `afterstate[render]`.
        """
        from afterstate.envs.daihinmin import render

        game = self._running()[0] if self.shown_to is None else self.view(self.shown_to)
        if self.render_mode == "ansi":
            return render.ansi(game)
        if self.render_mode is None:
            warn_no_render_mode(self.metadata["render_modes"])
            return None
        picture = render.rgb_array(game)
        if self.render_mode == "rgb_array":
            return picture
        self._window.show(picture)
        return None

    def close(self) -> None:
        """Close the window, if there is one; a later game opens another."""
        self._window.close()
        self._window = self._new_window()

    def _new_window(self) -> Window:
        """Return a window that is not open yet."""
        return Window("Daihinmin", self.metadata["render_fps"])

    def _running(self) -> Games:
        """Return the game record in an array of one."""
        if self._generator is None:
            raise ResetNeeded("call reset() first")
        return self._games

    def _check_agents(self) -> None:
        """Raise ResetNeeded if there is no agent to act."""
        self._running()
        if not self.agents:
            raise ResetNeeded("the episode has ended: call reset() first")

    def _mask(self, player: int) -> Planes:
        """Return the legal actions of a player as a mask."""
        mask = np.zeros(N_PLAYS, np.int8)
        write_mask(self._running(), player, mask)
        return mask

    def _info(self, text: str, legal: bool) -> dict[str, Any]:
        """Return the info of an agent that has just acted and is not in turn."""
        info: dict[str, Any] = {"play": text, "legal": legal}
        if self.observation == "planes":
            info["action_mask"] = mask = np.zeros(N_PLAYS, np.int8)
            mask[plays.PASS] = 1
        return info

    def _penalty(self, agent: str, is_gift: bool) -> str:
        """Return in notation what an agent has played instead of an illegal action."""
        if is_gift and self.illegal == "pass":
            return "gives " + cards.text(self._games[0]["given"][_NUMBERS[agent]])
        return plays.text(plays.PASS)

    def _begin_game(self) -> None:
        """Select the first agent of a game that has been dealt."""
        if self.exchange == "auto":
            give_weakest(self._games)
        self.agent_selection = AGENTS[int(self._games[0]["turn"])]

    def _finish_game(self) -> None:
        """Give the rewards of a game, then start the next game or end the episode."""
        for agent, place in zip(AGENTS, self._games[0]["places"].tolist(), strict=True):
            self.rewards[agent] = REWARDS[self.reward][place]
            self.infos[agent] = {**self.infos[agent], "place": place}
        self._pay()
        self._games_left -= 1
        if self._games_left:
            next_game(self._games[0])
            self._begin_game()
        else:
            self._end(self.terminations)

    def _lose(self, agent: str) -> None:
        """End the episode after an illegal action."""
        self.rewards[agent] = ILLEGAL_REWARD
        self._pay()
        self._end(self.terminations)

    def _truncate(self) -> None:
        """Truncate the episode, unless it has just ended by itself."""
        if not any(self.terminations.values()):
            self._end(self.truncations)

    def _pay(self) -> None:
        """Accumulate new rewards."""
        self._rewarded = True
        self._accumulate_rewards()

    def _end(self, ends: dict[str, bool]) -> None:
        """End the episode for all agents."""
        for agent in ends:
            ends[agent] = True
        self.agent_selection = self.agents[0]

    def _show(self) -> None:
        """Put the mask into the selected agent's info, and draw in mode `"human"`."""
        self._show_mask()
        if self.render_mode == "human":
            self.render()

    def _show_mask(self) -> None:
        """Put the mask into the selected agent's info."""
        if self.observation == "planes":
            agent = self.agent_selection
            mask = self._mask(_NUMBERS[agent])
            self.infos[agent] = {**self.infos[agent], "action_mask": mask}


class parallel_env(ParallelEnv):  # type: ignore[misc]
    """Daihinmin with one turn per step: agents that are not in turn may only pass, without effect.

    Observations, actions, rewards and infos are those of `raw_env`.

    Args:
        max_cycles: truncates an episode after this many steps.
        **settings: the other settings of `raw_env`.

    Attributes:
        aec: the environment `raw_env` whose agents act in turn.
    """

    metadata = {**raw_env.metadata, "is_parallelizable": True}

    def __init__(self, *, max_cycles: int | None = None, **settings: Any) -> None:
        self.max_cycles = check_count("max_cycles", max_cycles, optional=True)
        self.aec = raw_env(**settings)
        self.render_mode = self.aec.render_mode
        self.possible_agents = self.aec.possible_agents
        self.agents: list[str] = []
        self.observation_spaces = self.aec.observation_spaces
        self.action_spaces = self.aec.action_spaces
        self.state_space = self.aec.state_space
        self._n_steps = 0

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Start an episode (see `raw_env.reset`) and return observations and infos by agent."""
        self.aec.reset(seed, options)
        self.agents = list(self.aec.agents)
        self._n_steps = 0
        return self._observations(), self._infos()

    def step(self, actions: Mapping[str, Any]) -> Results:
        """Play the action of the agent in turn; those of the others are ignored.

        Raises:
            ValueError: `actions` is no dict or has no action for the agent in turn, or an error of
                `raw_env.step`.
            gymnasium.error.ResetNeeded: before the first reset, or the episode is over.
        """
        if not self.agents:
            raise ResetNeeded("call reset() first")
        agent = self.aec.agent_selection
        if not isinstance(actions, Mapping):
            raise ValueError(f"actions must be a dict by agent, got {shown(actions)}")
        if agent not in actions:
            raise ValueError(f"actions must have {agent}, got those of {[*actions]}")
        self.aec.step(actions[agent])
        self._n_steps += 1
        terminations = dict(self.aec.terminations)
        over = any(terminations.values())
        stopped = not over and self.max_cycles is not None and self._n_steps >= self.max_cycles
        if over or stopped:
            self.agents = []
        truncations = dict.fromkeys(terminations, stopped)
        rewards = dict(self.aec.rewards)
        return self._observations(), rewards, terminations, truncations, self._infos()

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of an agent's observations."""
        return self.aec.observation_space(agent)

    def action_space(self, agent: str) -> spaces.Discrete:
        """Return the space of an agent's actions."""
        return self.aec.action_space(agent)

    def state(self) -> Planes:
        """Return the whole game as planes: see `raw_env.state`."""
        return self.aec.state()

    def render(self) -> Any:
        """Return the table as text or picture: see `raw_env.render`."""
        return self.aec.render()

    def close(self) -> None:
        """Close the window, if there is one."""
        self.aec.close()

    def _observations(self) -> dict[str, Any]:
        """Return the observation of each agent."""
        return {agent: self.aec.observe(agent) for agent in self.possible_agents}

    def _infos(self) -> dict[str, dict[str, Any]]:
        """Return the info of each agent."""
        return {agent: dict(info) for agent, info in self.aec.infos.items()}


def observation_space(observation: str) -> spaces.Space[Any]:
    """Return the space of observations, a dict with the mask or planes."""
    planes = spaces.Box(0, 1, PLANES_SHAPE, np.int8)
    if observation == "planes":
        return planes
    mask = spaces.Box(0, 1, (N_PLAYS,), np.int8)
    return spaces.Dict({"observation": planes, "action_mask": mask})


def action_text(action: int, is_gift: bool) -> str:
    """Return an action in notation: a play, or the gift of a card."""
    return _GIFTS[action - 1] if is_gift and 0 < action <= len(_GIFTS) else plays.text(action)

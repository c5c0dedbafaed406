"""Daihinmin as a PettingZoo environment that takes the actions of all agents in each step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces
from gymnasium.error import ResetNeeded
from pettingzoo import ParallelEnv  # type: ignore[import-untyped]

from afterstate.envs.daihinmin.env import raw_env
from afterstate.envs.daihinmin.observation import Planes
from afterstate.envs.words import check_count

Results = tuple[
    dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
]
"""Observations, rewards, terminations, truncations and infos, by agent."""


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

    def __init__(self, max_cycles: int | None = None, **settings: Any) -> None:
        check_count("max_cycles", max_cycles, optional=True)
        self.aec = raw_env(**settings)
        self.max_cycles, self.render_mode = max_cycles, self.aec.render_mode
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
            ValueError: no action for the agent in turn, or an error of `raw_env.step`.
            gymnasium.error.ResetNeeded: before the first reset, or the episode is over.
        """
        if not self.agents:
            raise ResetNeeded("call reset() first")
        agent = self.aec.agent_selection
        if agent not in actions:
            raise ValueError(f"actions must have {agent}, got those of {sorted(actions)}")
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

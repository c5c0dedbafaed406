"""Five-player Daihinmin under the rules of the UEC competition, for PettingZoo.

    from afterstate.envs import daihinmin_v0

    env = daihinmin_v0.env(games=10, render_mode="ansi")
    env.reset(seed=1)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        if terminated or truncated:
            action = None
        else:
            action = env.action_space(agent).sample(observation["action_mask"])
        env.step(action)

`env` and `raw_env` let the agents act one after the other, with and without PettingZoo's checks;
`parallel_env` steps them together. `determinise` deals the cards that a player does not see, for
search from `env.view(agent)`. PettingZoo's own `make` knows the environments as `Daihinmin-v0`.
"""

from __future__ import annotations

import pettingzoo  # type: ignore[import-untyped]

from afterstate.envs.daihinmin.env import env, parallel_env, raw_env
from afterstate.envs.daihinmin.views import determinise

__all__ = ["determinise", "env", "parallel_env", "raw_env"]

if hasattr(pettingzoo, "register"):  # older versions have no registry
    pettingzoo.register("aec", "Daihinmin-v0", f"{__name__}:env")
    pettingzoo.register("parallel", "Daihinmin-v0", f"{__name__}:parallel_env")

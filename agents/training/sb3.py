"""Bridge between stable-baselines3 and the package's actor networks.

    policy_kwargs = {"net_arch": [], "features_extractor_class": ActorFeatures,
                     "features_extractor_kwargs": {"actor": make_actor, "n_planes": 16}}
    model = MaskablePPO("MlpPolicy", envs, policy_kwargs=policy_kwargs).learn(1_000_000)
    nets.save(actor_from_sb3(model.policy, make_actor()), "actor.safetensors")

Nothing here imports stable-baselines3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from afterstate.envs.messages import needs, shown

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise ImportError(needs("this module", "torch")) from error


class BoardFeatures(nn.Module):
    """Features extractor: two convolutions of 2x2 cells over the planes of a board.

    Args:
        space: observation space of planes, `Box[planes, rows, cols]`.
        channels: number of channels of each convolution.

    Raises:
        ValueError: observations that are no planes, or of a board below 3x3.
    """

    def __init__(self, space: Any, channels: int = 128) -> None:
        super().__init__()
        if len(space.shape) != 3 or min(space.shape[1:]) < 3:
            raise ValueError(f"space must be of planes of 3x3 cells or more, got {space.shape}")
        n_planes, rows, cols = space.shape
        self.layers = nn.Sequential(
            *(nn.Conv2d(n_planes, channels, 2), nn.ReLU()),
            *(nn.Conv2d(channels, channels, 2), nn.ReLU(), nn.Flatten()),
        )
        self.features_dim = channels * (rows - 2) * (cols - 2)

    def forward(self, observations: Tensor) -> Tensor:
        """Return the features `[n, features_dim]` of planes `[n, planes, rows, cols]`."""
        features: Tensor = self.layers(observations.float())
        return features


class ActorFeatures(nn.Module):
    """Features extractor: all but the last layer of an actor.

    Args:
        space: observation space; not used.
        actor: returns a new actor, a network with `body` and `head`.
        n_planes: number of leading planes of an observation that the actor sees.
    """

    def __init__(self, space: Any, actor: Callable[[], nn.Module], n_planes: int) -> None:
        super().__init__()
        net: Any = actor()
        self.body, self.n_planes = net.body, n_planes
        self.features_dim: int = net.head.in_features

    def forward(self, observations: Tensor) -> Tensor:
        """Return the features `[n, features_dim]` of observations."""
        features: Tensor = self.body(observations[:, : self.n_planes].float())
        return features


def actor_from_sb3(policy: Any, actor: Any) -> Any:
    """Copy a policy with `ActorFeatures` into an actor, and return the actor.

    The logits become action logits (PPO, MaskablePPO), action values (DQN) or the means of their
    quantiles (QR-DQN).

    Args:
        policy: `model.policy`, made with `net_arch=[]`.
        actor: network of the same sizes; its weights are overwritten.

    Raises:
        ValueError: the policy has layers between its features and its outputs.
    """
    if hasattr(policy, "quantile_net"):
        source, (*hidden, last) = policy.quantile_net, policy.quantile_net.quantile_net
    elif hasattr(policy, "q_net"):
        source, (*hidden, last) = policy.q_net, policy.q_net.q_net
    else:
        source, hidden, last = policy, [*policy.mlp_extractor.policy_net], policy.action_net
    if hidden:
        raise ValueError(f"net_arch of the policy must be [], got layers {shown(hidden)}")
    actor.body.load_state_dict(source.features_extractor.body.state_dict())
    n_actions = len(actor.head.bias)
    with torch.no_grad():
        actor.head.weight.copy_(last.weight.view(-1, n_actions, last.in_features).mean(0))
        actor.head.bias.copy_(last.bias.view(-1, n_actions).mean(0))
    return actor.eval()

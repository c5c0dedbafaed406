"""Runs of play policies of Daihinmin: their settings, which are read without loading kernels.

`policy_learner.py` has the run and the learner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from afterstate.agents.config import Count, NamedPlayer, Positive, Whole, settings
from afterstate.agents.training.folder import RunFolder
from afterstate.agents.training.options import ProcessOptions
from afterstate.envs.options import File

if TYPE_CHECKING:
    from afterstate.agents.daihinmin.learning.policy_learner import PolicyTraining

RATE = 0.025
"""Adam's first rate."""


@settings
class PolicyOptions(ProcessOptions):
    """Options of a run of a play policy."""

    steps: Count | None = None
    """Stop at this step; by default at the end of what the settings ask for."""
    evaluate_every: Count = 500
    """Steps from one evaluation to the next."""
    evaluate: Count = 1_000
    """Games of an evaluation, against four sample clients."""
    save_minutes: Positive = 1
    """Minutes from one save to the next."""

    amount_name: ClassVar[str] = "steps"

    @property
    def has_end(self) -> bool:
        """True: the settings have an end."""
        return True


@settings
class DaihinminPolicyRun:
    """Settings of a run in which a play policy of Daihinmin learns."""

    options: ClassVar[Any] = PolicyOptions
    row_key: ClassVar[str] = "step"
    evaluation_key: ClassVar[str] = "against_sample"
    checkpoints: ClassVar[tuple[str, ...]] = ("ascent.npz", "00000.npz")

    games: Count = 1_000_000
    """Games, of self-play or of the player that is imitated."""
    player: NamedPlayer | None = None
    """Player that is imitated, by name, or the file of a rank network; by default the policy plays
    itself."""
    epochs: Count = 10
    """Number of times that the choices of a player are used."""
    start: File | None = None
    """File of a policy to start from; by default all weights are 0."""
    rate: Positive = RATE
    """Step size at the beginning; it falls to a tenth."""
    seed: Whole = 0
    """Seed of the games and the order of choices."""

    def begin(self, options: PolicyOptions, folder: RunFolder) -> PolicyTraining:
        """Return a new run, or that of the folder."""
        from afterstate.agents.daihinmin.learning.policy_learner import PolicyTraining

        return PolicyTraining(self, options, folder)

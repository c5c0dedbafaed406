"""Deals that agree with what a player sees, weighed by how well they explain the plays seen.

Each other player is taken for one of two kinds: one that plays by the policy, or one by the rules
of the competition's sample client. He is what explains his plays better, in this game and in those
of the match before it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import boolean, float64, int64, njit, types, uint64, void

from afterstate.agents.daihinmin.rule_based.sample_client import sample_play
from afterstate.agents.daihinmin.values.softmax_policy import (
    Scores,
    Workspace,
    WorkspaceType,
    new_workspace,
    policy_gift,
    weigh_options,
)
from afterstate.envs.daihinmin.cards import weakest
from afterstate.envs.daihinmin.plays import CARDS, N_PLAYS, PASS, Numbers
from afterstate.envs.daihinmin.rules import (
    GAME,
    N_PLAYERS,
    Game,
    GameType,
    give,
    is_legal,
    play,
    rewind,
)
from afterstate.envs.daihinmin.views import fill_hidden
from afterstate.envs.words import Word, Words, next_random

MODELS = ("policy", "sample")
"""What players are taken for."""


class Settings(NamedTuple):
    """How the search works. All are `float64` for the kernels."""

    deals: float = 512.0
    """How many deals are drawn and weighed; never more than there are playouts."""
    trust: float = 0.25
    """The power of the likelihood that a deal is weighed with; 0: all weigh the same."""
    doubt: float = 0.1
    """Share of plays that are taken to be random ones when deals are weighed."""
    temperature: float = 1.0
    """Of the policy in playouts and when deals are weighed."""
    exploration: float = 1.0
    """Factor of the bandit's bonus."""
    gifts: float = 20.0
    """How many gifts are tried, those that the policy prefers."""
    models: float = 1.0
    """Whether others may be taken for sample clients; 0: they all play by the policy."""
    advice: float = 1000.0
    """As many playouts count what an adviser expects of a play, where there is one."""


SettingsType = types.NamedUniTuple(float64, len(Settings._fields), Settings)


class Deals(NamedTuple):
    """Deals, what is known of the players, and room to work in."""

    scratch: Any  # GAME[1], the game that is played out
    deals: Any  # GAME[D], those that were drawn
    order: Numbers  # [D] which deal the n-th playout starts from
    gifts: Words  # [D] what the fugo gives in each deal
    chances: Scores  # [D] log weight of each deal
    evidence: Any  # [D, 2, 5] log likelihood of each deal by model and player
    before: Scores  # [5] log odds that a player is a sample client, by the games before
    now: Scores  # [5] and by this game
    models: Numbers  # [5] what each player is taken for
    number: Numbers  # [1] of the game
    room: Workspace


_GAMES = GameType[::1]
DealsType = types.NamedTuple(
    (
        *(_GAMES, _GAMES, int64[::1], uint64[::1], float64[::1], float64[:, :, ::1]),
        *(float64[::1], float64[::1], int64[::1], int64[::1], WorkspaceType),
    ),
    Deals,
)


def new_deals(n: int) -> Deals:
    """Workspace for a number of deals."""
    return Deals(
        np.zeros(1, GAME),
        np.zeros(n, GAME),
        np.zeros(n, np.int64),
        np.zeros(n, np.uint64),
        np.zeros(n),
        np.zeros((n, 2, N_PLAYERS)),
        np.zeros(N_PLAYERS),
        np.zeros(N_PLAYERS),
        np.zeros(N_PLAYERS, np.int64),
        np.zeros(1, np.int64),
        new_workspace(),
    )


@njit(int64(GameType), cache=True)
def sample_move(game: Game) -> int:
    """What counts of the sample client's submission."""
    play = sample_play(game)
    return int(play) if is_legal(game, play) else PASS


@njit(
    void(
        GameType, int64, GameType[::1], float64[::1], SettingsType, WorkspaceType, float64[:, ::1]
    ),
    cache=True,
)
def log_likelihoods(
    game: Game,
    viewer: int,
    scratch: Any,
    weights: Scores,
    settings: Settings,
    room: Workspace,
    out: Scores,
) -> None:
    """Writes how well a deal explains what others have played, as sums of log probabilities.

    Args:
        game: the whole game.
        viewer: whose plays do not count.
        scratch: `[1]`, overwritten.
        weights: of the policy.
        settings: `doubt`, `temperature` and `models`.
        room: overwritten.
        out: `[2, 5]`, by model, the policy or the sample client, and by player.
    """
    out[:] = 0.0
    scratch[0] = game
    past = scratch[0]
    rewind(past)
    for i in range(game.n_actions):
        player, played = int(game.actions[i]) // N_PLAYS, int(game.actions[i]) % N_PLAYS
        if past.turn != player:
            break
        n = weigh_options(past, weights, settings.temperature, room) if player != viewer else 0
        mass, chance = 0.0, 0.0
        for j in range(n):
            mass += room.scores[j]
            if CARDS[room.options[j]] == CARDS[played]:
                chance = room.scores[j]
        if n > 1:  # otherwise there was nothing to choose
            out[0, player] += math.log((1 - settings.doubt) * chance / mass + settings.doubt / n)
            if settings.models:
                agrees = 1.0 if CARDS[sample_move(past)] == CARDS[played] else 0.0
                out[1, player] += math.log((1 - settings.doubt) * agrees + settings.doubt / n)
        play(past, played)


@njit(float64(float64[:, :, ::1], int64, int64, int64), cache=True)
def _marginal(evidence: Any, n: int, model: int, player: int) -> float:
    """The log of the mean likelihood of a player's plays over `n` deals."""
    best, total = -np.inf, 0.0
    for i in range(n):
        best = max(best, evidence[i, model, player])
    for i in range(n):
        total += math.exp(evidence[i, model, player] - best)
    return best + math.log(total / n)


@njit(void(GameType, int64, boolean, DealsType), cache=True)
def _judge(view: Game, n: int, may_be: bool, dealt: Deals) -> None:
    """Takes each player for what explains his plays best, those in the games before too.

    Args:
        view: what the player in turn sees.
        n: how many deals there are.
        may_be: whether he may be taken for a sample client.
        dealt: the `evidence` of the deals, and what is known of the players.
    """
    if view.number != dealt.number[0]:
        goes_on = view.number > dealt.number[0]
        for player in range(N_PLAYERS):
            now = dealt.before[player] + dealt.now[player]
            dealt.before[player] = now if goes_on else 0.0
            dealt.now[player] = 0.0
        dealt.number[0] = view.number
    for player in range(N_PLAYERS):
        odds = _marginal(dealt.evidence, n, 1, player) - _marginal(dealt.evidence, n, 0, player)
        dealt.now[player] = odds
        dealt.models[player] = 1 if may_be and dealt.before[player] + odds > 0 else 0


@njit(void(float64[::1], int64, float64, uint64, int64[::1]), cache=True)
def _resample(chances: Scores, n: int, trust: float, rng: Word, order: Numbers) -> None:
    """Writes `n` places of deals, drawn by their weights (systematically), in random order."""
    best = -np.inf
    for i in range(n):
        best = max(best, chances[i])
    total = 0.0
    for i in range(n):
        chances[i] = math.exp(trust * (chances[i] - best))
        total += chances[i]
    rng, bits = next_random(rng)
    at = (bits >> np.uint64(11)) / (1 << 53)
    mass, place = chances[0], 0
    for i in range(n):
        while mass < (i + at) / n * total and place < n - 1:
            place += 1
            mass += chances[place]
        order[i] = place
    for i in range(n - 1):
        rng, bits = next_random(rng)
        j = i + int((bits >> np.uint64(32)) * np.uint64(n - i) >> np.uint64(32))
        order[i], order[j] = order[j], order[i]


@njit(int64(GameType, uint64, float64[::1], SettingsType, DealsType), cache=True)
def draw_deals(view: Game, rng: Word, weights: Scores, settings: Settings, dealt: Deals) -> int:
    """Draws deals that agree with a view, and which of them the playouts start from.

    Returns:
        How many deals there are: 0 if none agrees with the view.
    """
    n = 0
    viewer = view.viewer
    for _ in range(len(dealt.deals)):
        dealt.deals[n] = view
        deal = dealt.deals[n]
        rng, deal.rng = next_random(rng)
        if not fill_hidden(deal):
            continue
        log_likelihoods(
            deal, viewer, dealt.scratch, weights, settings, dealt.room, dealt.evidence[n]
        )
        n += 1
    if n:
        _judge(view, n, settings.models != 0, dealt)
        for i in range(n):
            dealt.chances[i] = 0.0
            for player in range(N_PLAYERS):
                dealt.chances[i] += dealt.evidence[i, dealt.models[player], player]
        _resample(dealt.chances, n, settings.trust, rng, dealt.order)
    return n


@njit(void(int64, float64[::1], float64, DealsType), cache=True)
def add_gifts(n: int, weights: Scores, temperature: float, dealt: Deals) -> None:
    """What the fugo gives in each of `n` deals in which the daifugo is to give now."""
    for i in range(n):
        dealt.scratch[0] = dealt.deals[i]
        game = dealt.scratch[0]
        give(game, np.uint64(0))  # whatever it is: the fugo's hand does not depend on it
        dealt.gifts[i] = 0
        if game.to_give > 0 and dealt.models[game.turn]:
            dealt.gifts[i] = weakest(game.hands[game.turn], game.to_give)
        elif game.to_give > 0:
            dealt.gifts[i] = policy_gift(game, weights, temperature, dealt.room)

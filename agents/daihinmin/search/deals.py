"""Deals consistent with a view, weighted by the likelihood of the plays seen.

Every other player is modelled in one of two ways: it plays by the policy, or it is the
competition's sample client. The search uses the model of the larger likelihood of the plays in this
game and in the games of the match before it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
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
from afterstate.envs.words import Word, Words, below, fraction, next_random

MODELS = ("policy", "sample")
"""The models of a player, by their index."""


class Parameters(NamedTuple):
    """The settings that kernels read, as `float64`: see `monte_carlo.MonteCarloSettings`."""

    likelihood_power: float
    noise: float
    temperature: float
    exploration: float
    detect_sample_clients: float  # 0 or 1
    prior_visits: float


ParametersType = types.NamedUniTuple(float64, len(Parameters._fields), Parameters)


class Deals(NamedTuple):
    """Sampled deals, the models of the players, and the arrays that playouts overwrite."""

    scratch: npt.NDArray[np.void]  # GAME[1], the game that is played out
    games: npt.NDArray[np.void]  # GAME[D], the sampled deals
    order: Numbers  # [D] the index of the deal from which the n-th playout starts
    gifts: Words  # [D] the fugo's gift in each deal
    weights: Scores  # [D] log weights of the deals, then their weights
    likelihoods: Scores  # [D, 2, 5] log likelihood of the plays by deal, model and player
    odds_before: Scores  # [5] log odds of a sample client from the games before
    odds_now: Scores  # [5] log odds of a sample client from this game
    models: Numbers  # [5] the index of each player's model
    number: Numbers  # [1] the number of the game in its match
    workspace: Workspace


_GAMES = GameType[::1]
DealsType = types.NamedTuple(
    (
        *(_GAMES, _GAMES, int64[::1], uint64[::1], float64[::1], float64[:, :, ::1]),
        *(float64[::1], float64[::1], int64[::1], int64[::1], WorkspaceType),
    ),
    Deals,
)


def new_deals(n: int) -> Deals:
    """Return arrays for `n` deals."""
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
def legal_sample_play(game: Game) -> int:
    """Return the sample client's play, the pass if its submission is illegal."""
    play = sample_play(game)
    return int(play) if is_legal(game, play) else PASS


@njit(
    void(
        GameType, int64, GameType[::1], float64[::1], ParametersType, WorkspaceType, float64[:, ::1]
    ),
    cache=True,
)
def log_likelihoods(
    game: Game,
    viewer: int,
    scratch: npt.NDArray[np.void],
    policy: Scores,
    parameters: Parameters,
    workspace: Workspace,
    out: Scores,
) -> None:
    """Write the log likelihood of the plays of all players but the viewer, given a deal.

    Args:
        game: the whole game, with the hidden cards dealt.
        viewer: the player whose plays do not count.
        scratch: `GAME[1]`, overwritten.
        policy: the weights of the policy.
        parameters: `noise`, `temperature` and `detect_sample_clients`.
        workspace: overwritten.
        out: `[2, 5]`, overwritten: by model (policy, sample client) and by player.
    """
    out[:] = 0.0
    scratch[0] = game
    past = scratch[0]
    rewind(past)
    for i in range(game.n_actions):
        player, played = int(game.actions[i]) // N_PLAYS, int(game.actions[i]) % N_PLAYS
        if past.turn != player:
            break
        n = 0
        if player != viewer:
            n = weigh_options(past, policy, parameters.temperature, workspace)
        total, mass = 0.0, 0.0
        for j in range(n):
            total += workspace.masses[j]
            if CARDS[workspace.options[j]] == CARDS[played]:
                mass = workspace.masses[j]
        if n > 1:  # a single option has likelihood 1
            noise = parameters.noise
            out[0, player] += math.log((1 - noise) * mass / total + noise / n)
            if parameters.detect_sample_clients:
                agrees = 1.0 if CARDS[legal_sample_play(past)] == CARDS[played] else 0.0
                out[1, player] += math.log((1 - noise) * agrees + noise / n)
        play(past, played)


@njit(float64(float64[:, :, ::1], int64, int64, int64), cache=True)
def _marginal(likelihoods: Scores, n: int, model: int, player: int) -> float:
    """Return the log of the mean likelihood of a player's plays over `n` deals."""
    best, total = -np.inf, 0.0
    for i in range(n):
        best = max(best, likelihoods[i, model, player])
    for i in range(n):
        total += math.exp(likelihoods[i, model, player] - best)
    return best + math.log(total / n)


@njit(void(GameType, int64, boolean, DealsType), cache=True)
def _choose_models(view: Game, n: int, detect: bool, deals: Deals) -> None:
    """Write the more likely model of each player, by its plays in this game and those before.

    Args:
        view: the view of the player in turn.
        n: number of deals.
        detect: allow the model of the sample client.
        deals: gets the `models` and keeps the odds from game to game.
    """
    if view.number != deals.number[0]:
        same_match = view.number > deals.number[0]
        for player in range(N_PLAYERS):
            odds = deals.odds_before[player] + deals.odds_now[player]
            deals.odds_before[player] = odds if same_match else 0.0
            deals.odds_now[player] = 0.0
        deals.number[0] = view.number
    for player in range(N_PLAYERS):
        by_policy = _marginal(deals.likelihoods, n, 0, player)
        odds = _marginal(deals.likelihoods, n, 1, player) - by_policy
        deals.odds_now[player] = odds
        deals.models[player] = 1 if detect and deals.odds_before[player] + odds > 0 else 0


@njit(void(float64[::1], int64, float64, uint64, int64[::1]), cache=True)
def _resample(weights: Scores, n: int, power: float, rng: Word, order: Numbers) -> None:
    """Write `n` indices of deals, drawn by systematic resampling, in random order.

    Args:
        weights: `[n]`, log weights of the deals, overwritten.
        n: number of deals.
        power: power of the weights.
        rng: the random state.
        order: `[n]`, overwritten.
    """
    best = -np.inf
    for i in range(n):
        best = max(best, weights[i])
    total = 0.0
    for i in range(n):
        weights[i] = math.exp(power * (weights[i] - best))
        total += weights[i]
    rng, bits = next_random(rng)
    offset = fraction(bits)
    cumulative, index = weights[0], 0
    for i in range(n):
        while cumulative < (i + offset) / n * total and index < n - 1:
            index += 1
            cumulative += weights[index]
        order[i] = index
    for i in range(n - 1):
        rng, bits = next_random(rng)
        j = i + int(below(bits, n - i))
        order[i], order[j] = order[j], order[i]


@njit(int64(GameType, uint64, float64[::1], ParametersType, DealsType), cache=True)
def draw_deals(view: Game, rng: Word, policy: Scores, parameters: Parameters, deals: Deals) -> int:
    """Draw deals that are consistent with a view, and the order in which playouts use them.

    Args:
        view: the view of the player in turn.
        rng: the random state.
        policy: the weights of the policy.
        parameters: the settings of the search.
        deals: overwritten, except the odds from earlier games.

    Returns:
        The number of deals: 0 if none is consistent with the view.
    """
    n = 0
    viewer = view.viewer
    for _ in range(len(deals.games)):
        deals.games[n] = view
        game = deals.games[n]
        rng, game.rng = next_random(rng)
        if not fill_hidden(game):
            continue
        out = deals.likelihoods[n]
        log_likelihoods(game, viewer, deals.scratch, policy, parameters, deals.workspace, out)
        n += 1
    if n:
        _choose_models(view, n, parameters.detect_sample_clients != 0, deals)
        for i in range(n):
            deals.weights[i] = 0.0
            for player in range(N_PLAYERS):
                deals.weights[i] += deals.likelihoods[i, deals.models[player], player]
        _resample(deals.weights, n, parameters.likelihood_power, rng, deals.order)
    return n


@njit(void(int64, float64[::1], float64, DealsType), cache=True)
def add_gifts(n: int, policy: Scores, temperature: float, deals: Deals) -> None:
    """Write the fugo's gift in each of `n` deals in which the daifugo gives now."""
    for i in range(n):
        deals.scratch[0] = deals.games[i]
        game = deals.scratch[0]
        give(game, np.uint64(0))  # any gift: the fugo's hand does not depend on it
        deals.gifts[i] = 0
        if game.to_give > 0 and deals.models[game.turn]:
            deals.gifts[i] = weakest(game.hands[game.turn], game.to_give)
        elif game.to_give > 0:
            deals.gifts[i] = policy_gift(game, policy, temperature, deals.workspace)

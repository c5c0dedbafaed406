"""Policy gradients of self-play, and recorded choices with their log likelihood, as kernels.

The gradient of self-play is REINFORCE (Williams 1992): each deal is played several times, and a
player's result is compared with its mean result with the same cards, so that the luck of the deal
has no influence. *Choices* are the decisions of finished games, from which a policy learns to play
like their players.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int16, int64, njit, types, void

from afterstate.agents.daihinmin.afterstates.class_values import HORIZON, class_values
from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE
from afterstate.agents.daihinmin.values.features import (
    MOST,
    Features,
    describe,
    describe_gifts,
    list_options,
)
from afterstate.agents.daihinmin.values.softmax_policy import (
    Scores,
    Workspace,
    WorkspaceType,
    draw_option,
    new_workspace,
    policy_gift,
    policy_play,
    weigh,
    weigh_gifts,
    weigh_options,
)
from afterstate.envs.daihinmin.cards import count
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.plays import CARDS, N_PLAYS, Numbers
from afterstate.envs.daihinmin.rules import (
    FUGO,
    GAME,
    N_PLAYERS,
    Game,
    GameType,
    give,
    play,
    rewind,
    write_gifts,
)

N_REPEATS = 4
"""Number of times that a deal is played in self-play."""


# Gradients


@njit(void(WorkspaceType, int64, int64, float64[::1]), cache=True)
def add_gradient(workspace: Workspace, n: int, chosen: int, gradient: Scores) -> None:
    """Add the gradient of log p(chosen) by the weights, at temperature 1.

    That is the features of the chosen option less their mean by the policy.

    Args:
        workspace: workspace of `weigh_options`.
        n: the number of options; with one the gradient is 0.
        chosen: the index of the chosen option.
        gradient: gradient by weight, changed.
    """
    if n == 1:
        return
    total = 0.0
    for i in range(n):
        total += workspace.masses[i]
    for i in range(n):
        share = (1.0 if i == chosen else 0.0) - workspace.masses[i] / total
        for j in range(workspace.sizes[i]):
            gradient[workspace.features[i, j]] += share


@njit(void(GameType, float64[::1], float64[:, ::1], WorkspaceType), cache=True)
def _play_game(game: Game, weights: Scores, gradients: Scores, workspace: Workspace) -> None:
    """Play a game to its end by a policy; add up each player's gradient of log likelihood."""
    while game.to_give > 0:
        n = weigh_gifts(game, weights, 1.0, workspace)
        chosen = draw_option(game, n, workspace)
        add_gradient(workspace, n, chosen, gradients[game.turn])
        give(game, np.uint64(workspace.options[chosen]))
    while game.turn >= 0:
        n = weigh_options(game, weights, 1.0, workspace)
        chosen = draw_option(game, n, workspace)
        add_gradient(workspace, n, chosen, gradients[game.turn])
        play(game, workspace.options[chosen])


@njit(
    void(
        *(GameType, GameType[::1], int64, float64[::1], float64[::1]),
        *(float64[:, :, ::1], WorkspaceType, float64[::1]),
    ),
    cache=True,
)
def _add_games(
    match: Game,
    games: Any,
    n_deals: int,
    weights: Scores,
    values: Scores,
    gradients: Any,
    workspace: Workspace,
    total: Scores,
) -> None:
    """Play deals of a match, each several times, and add up the policy gradient.

    Args:
        match: continues from each deal with a game of its own.
        games: `[1]`, overwritten.
        n_deals: number of deals.
        weights: weights of the policy.
        values: values of the finishing places.
        gradients: `[n_repeats, 5, weights]`, overwritten.
        workspace: overwritten.
        total: sum of gradients by weight, to which that of the games is added.
    """
    n_repeats = len(gradients)
    rewards = np.empty((n_repeats, N_PLAYERS))
    for _ in range(n_deals):
        next_game(match)
        for repeat in range(n_repeats):
            gradients[repeat] = 0.0
            games[0] = match
            game = games[0]
            game.rng += np.uint64(repeat + 1) * np.uint64(0xD6E8_FEB8_6659_FD93)
            _play_game(game, weights, gradients[repeat], workspace)
            for player in range(N_PLAYERS):
                rewards[repeat, player] = values[game.places[player]]
        for player in range(N_PLAYERS):
            mean = rewards[:, player].mean()
            for repeat in range(n_repeats):
                factor = (rewards[repeat, player] - mean) * n_repeats / (n_repeats - 1)
                for i in range(len(total)):
                    total[i] += factor * gradients[repeat, player, i]
        while match.to_give > 0:
            give(match, policy_gift(match, weights, 1.0, workspace))
        while match.turn >= 0:
            play(match, policy_play(match, weights, 1.0, workspace))


def self_play_gradient(weights: Scores, seed: int, n_deals: int = GAMES_PER_CYCLE) -> Scores:
    """Return the policy gradient by one match of five equal policies, as a mean over games.

    Args:
        weights: all weights of the policy, row after row.
        seed: seed of the match.
        n_deals: its games, each of which is played `N_REPEATS` times.
    """
    weights = np.array(weights)  # those of other processes cannot be written to
    total = np.zeros(len(weights))
    gradients = np.empty((N_REPEATS, N_PLAYERS, len(weights)))
    match, games, values = new_match(seed), np.empty(1, GAME), class_values(HORIZON)
    _add_games(match, games, n_deals, weights, values, gradients, new_workspace(), total)
    return total / (n_deals * N_REPEATS)


class Choices(NamedTuple):
    """Choices of a player, in decisions with several options."""

    features: Features
    """`[O, MOST]`: numbers of weights of each option, all decisions one after the other."""
    sizes: Numbers
    """`[O]`: its number of features."""
    first: Numbers
    """`[D + 1]`: the first option of each decision, and the end."""
    chosen: Numbers
    """`[D]`: the index of the chosen option among them."""


ChoicesType = types.NamedTuple((int16[:, ::1], int64[::1], int64[::1], int64[::1]), Choices)


@njit(float64(ChoicesType, int64[::1], float64[::1], WorkspaceType, float64[::1]), cache=True)
def add_choices(
    choices: Choices, which: Numbers, weights: Scores, workspace: Workspace, total: Scores
) -> float:
    """Add the gradient of the log likelihood of some decisions; return their log likelihood."""
    likelihood = 0.0
    for decision in which:
        start = choices.first[decision]
        n, chosen = choices.first[decision + 1] - start, choices.chosen[decision]
        for i in range(n):
            workspace.sizes[i] = choices.sizes[start + i]
            for j in range(workspace.sizes[i]):
                workspace.features[i, j] = choices.features[start + i, j]
        weigh(n, weights, 1.0, workspace)
        mass = 0.0
        for i in range(n):
            mass += workspace.masses[i]
        likelihood += np.log(max(workspace.masses[chosen] / mass, 1e-300))
        add_gradient(workspace, n, chosen, total)
    return likelihood


# Choices of games that are over


@njit(types.UniTuple(int64, 2)(GameType, int64, WorkspaceType), cache=True)
def _describe_play(game: Game, move: int, workspace: Workspace) -> tuple[int, int]:
    """Describe the options of the player to move; return their number and the index of a move."""
    n = list_options(game, workspace.options)
    if n > 1:  # otherwise there was nothing to choose
        describe(game, workspace.options, n, workspace.beaters, workspace.features, workspace.sizes)
    for i in range(n):
        if CARDS[workspace.options[i]] == CARDS[move]:
            return n, i
    return n, -1


@njit(types.UniTuple(int64, 2)(GameType, int64, WorkspaceType), cache=True)
def _describe_gift(game: Game, player: int, workspace: Workspace) -> tuple[int, int]:
    """Describe the gifts of a player in the exchange before; no options if it had none."""
    gift = np.uint64(game.given[player])
    if gift == 0 or not 0 <= game.classes[player] <= FUGO:
        return 0, -1
    hand, turn = game.hands[player], game.turn
    game.hands[player], game.turn, game.to_give = hand | gift, player, count(gift)
    n, chosen = write_gifts(game, workspace.options), -1
    describe_gifts(game, workspace.options, n, workspace.features, workspace.sizes)
    game.hands[player], game.turn, game.to_give = hand, turn, 0
    for i in range(n):
        if np.uint64(workspace.options[i]) == gift:
            chosen = i
    return n, chosen


@njit(ChoicesType(GameType[::1], WorkspaceType), cache=True)
def choices_in(games: Any, workspace: Workspace) -> Choices:
    """Return the decisions with several options, gifts included, of games that are over.

    Args:
        games: `GAME[n]`.
        workspace: overwritten.
    """
    features, sizes = np.empty((2 * N_PLAYS, MOST), np.int16), np.empty(2 * N_PLAYS, np.int64)
    most, n_decisions = (games["n_actions"] + N_PLAYERS).sum(), 0
    first, chosen = np.zeros(most + 1, np.int64), np.empty(most, np.int64)
    for i in range(len(games)):
        replayed = games[i : i + 1].copy()
        game = replayed[0]
        rewind(game)
        for k in range(-N_PLAYERS, games[i].n_actions):
            if k < 0:
                n, place = _describe_gift(game, k + N_PLAYERS, workspace)
            else:
                move = int(games[i].actions[k]) % N_PLAYS
                n, place = _describe_play(game, move, workspace)
                play(game, move)
            if n < 2 or place < 0:
                continue
            start = first[n_decisions]
            if start + n > len(sizes):
                features = np.concatenate((features, np.empty_like(features)))
                sizes = np.concatenate((sizes, np.empty_like(sizes)))
            for j in range(n):
                features[start + j], sizes[start + j] = workspace.features[j], workspace.sizes[j]
            chosen[n_decisions], first[n_decisions + 1] = place, start + n
            n_decisions += 1
    end = first[n_decisions]
    return Choices(features[:end], sizes[:end], first[: n_decisions + 1], chosen[:n_decisions])


def join(parts: Sequence[Choices]) -> Choices:
    """Return all choices of several matches."""
    ends = np.cumsum([0, *(part.first[-1] for part in parts)])
    firsts = [part.first[:-1] + end for part, end in zip(parts, ends[:-1], strict=True)]
    return Choices(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.sizes for part in parts]),
        np.concatenate([*firsts, ends[-1:]]),
        np.concatenate([part.chosen for part in parts]),
    )

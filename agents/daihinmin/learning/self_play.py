"""Self-play of rank networks: many games in parallel, whose afterstates are evaluated in batches.

All games are advanced until the player in turn must decide; then the networks evaluate all
afterstates in one batch, and each player takes its best one. Forced passes, forced wins (see
`endgame.py`), gifts by the parts of a hand, and players by rules need no network.

A finished game is kept as a record of `rules.GAME`, which holds every move: see `history.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import boolean, float64, int64, njit, types, void
from torch import nn

from afterstate.agents.config import LEAST_TEMPERATURE, NonNegative, Share, checked
from afterstate.agents.daihinmin.afterstates.chains import (
    AFTERSTATE,
    MAX_POSITIONS,
    Afterstates,
    AfterstateType,
    afterstates,
)
from afterstate.agents.daihinmin.afterstates.endgame import won_duel
from afterstate.agents.daihinmin.afterstates.exchange import gift, gift_afterstates
from afterstate.agents.daihinmin.learning.game_records import Log, new_log
from afterstate.agents.daihinmin.learning.rank_settings import RULE_PLAYERS
from afterstate.agents.daihinmin.rule_based.heuristic import (
    Weights,
    WeightsType,
    heuristic_gift,
    heuristic_play,
)
from afterstate.agents.daihinmin.rule_based.sample_client import sample_play
from afterstate.agents.daihinmin.values.history import Moments
from afterstate.agents.daihinmin.values.rank_net import values
from afterstate.agents.daihinmin.values.softmax_policy import (
    Workspace,
    WorkspaceType,
    find_policy,
    new_workspace,
    policy_gift,
    policy_play,
)
from afterstate.envs.checks import check_count
from afterstate.envs.daihinmin.cards import weakest
from afterstate.envs.daihinmin.match import POINTS, new_match, next_game
from afterstate.envs.daihinmin.plays import N_PLAYS, PASS, Numbers
from afterstate.envs.daihinmin.rules import (
    GAME,
    N_PLAYERS,
    Game,
    GameType,
    draw,
    draw_play,
    give,
    play,
    write_legal,
)
from afterstate.envs.daihinmin.views import write_view
from afterstate.envs.messages import shown

NET, LEARNED_GIFTS, SAMPLE, HEURISTIC, POLICY = range(5)
_KINDS: dict[str, int] = dict(zip(RULE_PLAYERS, (SAMPLE, HEURISTIC, POLICY), strict=True))

GamePlayer: TypeAlias = "nn.Module | str"


class RulePlayers(NamedTuple):
    """Parameters of the players without networks, and their workspaces."""

    heuristic: Weights
    policy: npt.NDArray[np.float64]  # all weights of the softmax policy
    temperature: float  # of the policy
    epsilon: float  # probability of a random move
    workspace: Workspace
    views: Any  # GAME[1]
    plays: Numbers  # [N_PLAYS]


RulePlayersType = types.NamedTuple(
    (WeightsType, float64[::1], float64, float64, WorkspaceType, GameType[::1], int64[::1]),
    RulePlayers,
)


@njit(boolean(GameType, float64), cache=True)
def _is_drawn(game: Game, epsilon: float) -> bool:
    """Return True with probability `epsilon`."""
    return bool(epsilon > 0 and draw(game, 1 << 30) < epsilon * (1 << 30))


@njit(boolean(GameType, RulePlayersType), cache=True)
def _moves_at_random(game: Game, others: RulePlayers) -> bool:
    """Return True if a player without a network shall make a random move, given a choice."""
    if others.epsilon == 0 or game.to_give > 0 or write_legal(game, others.plays) == 0:
        return False
    return _is_drawn(game, others.epsilon)


@njit(void(GameType, int64, RulePlayersType), cache=True)
def _give(game: Game, kind: int, others: RulePlayers) -> None:
    """Let the player in turn give cards without a network."""
    hand = game.hands[game.turn]
    if kind == SAMPLE:
        give(game, weakest(hand, game.to_give))
    elif kind == HEURISTIC:
        write_view(game, game.turn, others.views)
        give(game, heuristic_gift(others.views[0], others.heuristic))
    elif kind == POLICY:
        give(game, policy_gift(game, others.policy, others.temperature, others.workspace))
    else:
        give(game, gift(hand, game.to_give))


@njit(boolean(GameType, int64, RulePlayersType), cache=True)
def _move_without_net(game: Game, kind: int, others: RulePlayers) -> bool:
    """Let the player in turn move if it needs no network; return True if it did."""
    if game.to_give > 0:
        if kind == LEARNED_GIFTS:
            return False
        _give(game, kind, others)
        return True
    if kind == POLICY:
        play(game, policy_play(game, others.policy, others.temperature, others.workspace))
        return True
    if write_legal(game, others.plays) == 0:
        play(game, PASS)
        return True
    if kind > LEARNED_GIFTS:
        write_view(game, game.turn, others.views)
        seen = others.views[0]
        play(game, sample_play(seen) if kind == SAMPLE else heuristic_play(seen, others.heuristic))
    return bool(kind > LEARNED_GIFTS)


@njit(AfterstateType[::1](GameType), cache=True)
def _choices(game: Game) -> Afterstates:
    """Return the afterstates the player in turn can reach; `play` of a gift is its number."""
    if game.to_give > 0:
        afters, _ = gift_afterstates(game)
        for i in range(len(afters)):
            afters[i].play = i
        return afters
    return afterstates(game)


@njit(boolean(AfterstateType[::1]), cache=True)
def _is_forced(afters: Afterstates) -> bool:
    """Return True if all afterstates begin with the same play."""
    for i in range(1, len(afters)):
        if afters[i].play != afters[0].play:
            return False
    return True


@njit(void(GameType, int64), cache=True)
def _move(game: Game, number: int) -> None:
    """Let the player in turn make a play, or give the cards of this number."""
    if game.to_give > 0:
        _, gifts = gift_afterstates(game)
        give(game, gifts[number])
    else:
        play(game, number)


class Table(NamedTuple):
    """Matches in parallel, and their progress."""

    games: Any  # GAME[n]
    to_play: Numbers  # [n] games left to play, including the current one
    randoms: Numbers  # [n] as `Log.last_random`, of the current game
    kinds: Numbers  # [5] the kind of each player
    finished: Any  # GAME[m], in the order in which they ended
    finished_randoms: Numbers  # [m]
    n_finished: Numbers  # [1]


TableType = types.NamedTuple(
    (GameType[::1], *[int64[::1]] * 3, GameType[::1], *[int64[::1]] * 2),
    Table,
)


@njit(boolean(TableType, int64), cache=True)
def _next(table: Table, i: int) -> bool:
    """Store a finished game and start the next; return True if there is one."""
    n = table.n_finished[0]
    table.finished[n] = table.games[i]
    table.finished_randoms[n] = table.randoms[i]
    table.n_finished[0] += 1
    table.to_play[i] -= 1
    table.randoms[i] = -1
    if table.to_play[i] > 0:
        next_game(table.games[i])
    return bool(table.to_play[i] > 0)


@njit(
    types.UniTuple(int64, 2)(
        TableType, int64, AfterstateType[::1], int64[::1], int64[::1], RulePlayersType
    ),
    cache=True,
)
def collect(
    table: Table,
    first: int,
    out: Afterstates,
    starts: Numbers,
    matches: Numbers,
    others: RulePlayers,
) -> tuple[int, int]:
    """Advance matches to their next decisions, and collect the afterstates.

    Args:
        table: the matches.
        first: the match to begin with; the others follow in order.
        out: receives the afterstates of all decisions; collecting stops when fewer than
            `MAX_POSITIONS` places are left.
        starts: `[n + 1]`, the place in `out` where the afterstates of each decision begin.
        matches: `[n]`, the match of each decision.
        others: parameters of the players without networks.

    Returns:
        The number of decisions, and the number of matches visited.
    """
    n_matches, n, starts[0] = len(table.games), 0, 0
    capacity = len(out) - MAX_POSITIONS
    for visited in range(n_matches):
        i = (first + visited) % n_matches
        game = table.games[i]
        is_running = table.to_play[i] > 0
        while is_running:
            if game.turn < 0:
                is_running = _next(table, i)
                continue
            kind = table.kinds[game.turn]
            if kind > LEARNED_GIFTS and _moves_at_random(game, others):
                table.randoms[i] = game.n_actions
                play(game, draw_play(game, others.plays))
                continue
            if _move_without_net(game, kind, others):
                continue
            afters = _choices(game)
            forced = afters[0].play if _is_forced(afters) else won_duel(game)
            if forced >= 0:
                _move(game, forced)
                continue
            if n > 0 and starts[n] + len(afters) > capacity:  # the first decision always fits
                return n, visited
            for j in range(len(afters)):
                out[starts[n] + j] = afters[j]
            matches[n] = i
            n += 1
            starts[n] = starts[n - 1] + len(afters)
            is_running = False
    return n, n_matches


@njit(
    void(TableType, int64, AfterstateType[::1], int64[::1], int64[::1], float64[::1], float64),
    cache=True,
)
def choose(
    table: Table,
    n: int,
    afters: Afterstates,
    starts: Numbers,
    matches: Numbers,
    values_of: npt.NDArray[np.float64],
    epsilon: float,
) -> None:
    """Make `n` decisions: the afterstate of the largest value, or a random one except for gifts."""
    for k in range(n):
        game = table.games[matches[k]]
        best = starts[k]
        for j in range(starts[k], starts[k + 1]):
            if values_of[j] > values_of[best]:
                best = j
        if game.to_give == 0 and _is_drawn(game, epsilon):
            best = starts[k] + draw(game, starts[k + 1] - starts[k])
            table.randoms[matches[k]] = game.n_actions
        _move(game, afters[best].play)


def _kind(player: GamePlayer, learned_gifts: bool) -> int:
    """Return the kind of a player."""
    if isinstance(player, str):
        return _KINDS[player]
    return LEARNED_GIFTS if learned_gifts else NET


def new_table(kinds: Sequence[int], n_games: int, n_matches: int, seed: int) -> Table:
    """Return matches at their first deals, with `n_games` divided among them."""
    games = np.empty(n_matches, GAME)
    seeds = np.random.default_rng(seed).integers(0, 2**64, n_matches, np.uint64)
    to_play = np.full(n_matches, n_games // n_matches)
    to_play[: n_games % n_matches] += 1
    for i in range(n_matches):
        games[i] = new_match(seeds[i])
        next_game(games[i])
    return Table(
        games,
        to_play,
        np.full(n_matches, -1),
        np.array(kinds, np.int64),
        np.empty(n_games, GAME),
        np.zeros(n_games, np.int64),
        np.zeros(1, np.int64),
    )


def _rule_players(players: Sequence[GamePlayer], temperature: float, epsilon: float) -> RulePlayers:
    """Return the parameters of players without networks; the policy is read only if it plays."""
    weights = find_policy(None).weights.reshape(-1) if "policy" in players else np.empty(0)
    views, plays = np.empty(1, GAME), np.empty(N_PLAYS, np.int64)
    temperature = max(float(temperature), LEAST_TEMPERATURE)
    return RulePlayers(
        Weights(), weights, temperature, float(epsilon), new_workspace(), views, plays
    )


def _check(
    players: Any,
    n_games: int,
    n_matches: int,
    epsilon: float,
    temperature: float,
    points: Sequence[float],
) -> None:
    """Raise ValueError for wrong arguments of `play_games`."""
    given = list(players) if isinstance(players, Sequence) else []
    known = [isinstance(player, nn.Module) or player in RULE_PLAYERS for player in given]
    if known != [True] * N_PLAYERS:
        raise ValueError(
            f"players must be five networks or names of {RULE_PLAYERS}, got {shown(players)}"
        )
    check_count("n_games", n_games)
    check_count("n_matches", n_matches)
    checked("epsilon", epsilon, Share)
    checked("temperature", temperature, NonNegative)
    if np.shape(points) != (N_PLAYERS,) or not np.isfinite(points).all():
        raise ValueError(f"points must be five numbers, got {shown(points)}")


def _evaluate(
    seats: dict[nn.Module, npt.NDArray[np.bool_]],
    games: npt.NDArray[np.void],
    afters: Afterstates,
    origins: Numbers,
    points: Sequence[float],
) -> npt.NDArray[np.float64]:
    """Return the values `[n]` of the afterstates of games `origins[n]`, by their players' networks.

    Args:
        seats: the players `[5]` of each network.
        games: `GAME[m]`.
        afters: the first `n` are evaluated.
        origins: `[n]`, the number of the game of each.
        points: the value of each place.
    """
    turns = games["turn"][origins]
    result = np.empty(len(turns))
    moments = Moments(games, origins, turns, games["n_actions"][origins])
    for net, mine in seats.items():
        rows = np.flatnonzero(mine[turns])
        result[rows] = values(net, afters[rows], moments.part(rows), points)
    return result


def play_games(
    players: Sequence[GamePlayer],
    n_games: int,
    seed: int = 0,
    epsilon: float = 0.0,
    points: Sequence[float] = POINTS,
    learned_gifts: bool = False,
    n_matches: int = 100,
    temperature: float = 1.0,
) -> Log:
    """Return games between networks and players by rules.

    Args:
        players: five, networks of `rank_net` or names of `RULE_PLAYERS`, by player number. One
            network may play several of them.
        n_games: number of games, divided evenly among the matches.
        seed: seed of deals, seats and random actions.
        epsilon: probability of a random action: of networks any afterstate, of others any play.
            Gifts are never random.
        points: the value of each place to networks.
        learned_gifts: True if networks also decide what to give.
        n_matches: matches played in parallel.
        temperature: temperature of the pretrained policy, where `"policy"` plays; 0 plays its
            best option.

    Returns:
        The games, in the order in which they ended.

    Raises:
        ValueError: not five players, an unknown name, no games, or an epsilon, temperature or
            points out of range.
    """
    _check(players, n_games, n_matches, epsilon, temperature, points)
    kinds = [_kind(player, learned_gifts) for player in players]
    n_matches = min(n_matches, n_games)
    table = new_table(kinds, n_games, n_matches, seed)
    afters = np.empty(64 * n_matches + 4_096 + MAX_POSITIONS, AFTERSTATE)
    others = _rule_players(players, temperature, epsilon)
    starts, matches = np.empty(n_matches + 1, np.int64), np.empty(n_matches, np.int64)
    nets = {player for player in players if isinstance(player, nn.Module)}
    seats = {net: np.array([player is net for player in players]) for net in nets}
    first = 0
    while table.n_finished[0] < n_games:
        n, visited = collect(table, first, afters, starts, matches, others)
        first = (first + visited) % n_matches
        origins = np.repeat(matches[:n], np.diff(starts[: n + 1]))
        evaluated = _evaluate(seats, table.games, afters, origins, points)
        choose(table, n, afters, starts, matches, evaluated, epsilon)
    return new_log(table.finished)._replace(last_random=table.finished_randoms)

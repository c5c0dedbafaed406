"""The analysis of a position by a player, as JSON: values, counts, lines, outcomes and trees.

These functions run in the processes of `pool.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from afterstate.agents.daihinmin.afterstates.endgame import forced_win
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.simple import RewardAgent
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.rules import Game
from afterstate.web import game_2048
from afterstate.web.answers import Json
from afterstate.web.game_2048 import Game as Game2048
from afterstate.web.game_2048 import afterstates, board_of, outcomes, word_batch

Evaluate = Callable[[list[list[int]]], Any]
"""Maps boards to the values `[n, 4]` of their moves, minus infinity for illegal ones."""

LINE = 3
"""Moves of a principal variation."""
_MOST_LISTED = 8  # plays of Daihinmin
_BRANCHES = 3  # outcomes of an afterstate that a picture of a tree shows, those of most visits
_LEVELS = 2  # moves below the root that it shows


def hint(player: Any, board: list[int], detail: bool) -> Json:
    """Return a player's move and what it thinks of all four.

    Args:
        player: a player of 2048.
        board: the exponents.
        detail: True for the principal variation, the values by outcome and the tree as well.
    """
    start = time.perf_counter()
    result = _searched(player, board)
    result["seconds"] = time.perf_counter() - start
    result["seen"] = board_of(word_batch(board)[0])
    if detail:
        result |= _details(player, board, result["action"])
    return result


def _searched(player: Any, board: list[int]) -> Json:
    """Return the move, the values of all moves, and the counts of the search."""
    if hasattr(player, "grow"):
        return _softmax(player, board)
    if hasattr(player, "evaluate"):
        return _evaluated(player, board)
    result: Json = {"action": int(player.act(word_batch(board))[0])}
    if hasattr(player, "probabilities"):
        return result | {"probabilities": _probabilities(player, board)}
    evaluate = evaluation(player)
    return result if evaluate is None else result | {"values": _numbers(evaluate([board])[0])}


def _evaluated(player: Any, board: list[int]) -> Json:
    """Return the best of the values by one search, the values, and the counts of the search."""
    before = _counts(player)
    values = player.evaluate(word_batch(board))[0]
    counts = {name: n - before[name] for name, n in _counts(player).items()}
    return {"action": int(np.argmax(values)), "counts": counts, "values": _numbers(values)}


def _probabilities(player: Any, board: list[int]) -> list[float | None]:
    """Return the probabilities of the legal moves, of which a player selects one."""
    legal = np.array(afterstates(board)[2])
    odds = np.where(legal, player.probabilities(word_batch(board))[0], 0.0)
    return _numbers(np.where(legal, odds / (odds.sum() or 1.0), -np.inf))


def _counts(player: Any) -> dict[str, int]:
    """Return the counters of a search that has them."""
    names = {"n_searched": "afterstates searched", "n_table_hits": "found in the table"}
    return {
        text: int(getattr(player, name)) for name, text in names.items() if hasattr(player, name)
    }


def _softmax(player: Any, board: list[int]) -> Json:
    """Return the result of a Monte-Carlo Softmax search, with its tree."""
    trees, batch = player.grow(word_batch(board))
    result = player.result_of(batch)
    visits = result.visits[0].tolist()
    return {
        "action": int(result.action[0]),
        "values": _numbers(result.values[0]),
        "visits": visits,
        "counts": {
            "simulations": int(trees.states[0]["n"]),
            "states in the tree": int(trees.sizes[0]),
        },
        "tree": _node(trees, 0, _LEVELS),
    }


def _node(trees: Any, index: int, levels: int) -> list[Json]:
    """Return the legal moves of a state of a tree, with their most visited outcomes."""
    moves = []
    for action in range(4):
        at = 4 * index + action
        move = trees.moves[at]
        if int(move["after"]) == 0 or not trees.states[index]["known"]:
            continue
        has_children = levels > 1 and move["n_outcomes"] > 0  # otherwise nothing is written there
        outcomes_ = trees.outcomes[at] if has_children else ()
        children = [int(each) for each in outcomes_ if each >= 0]
        children.sort(key=lambda each: -int(trees.states[each]["n"]))
        moves.append(
            {
                "action": action,
                "visits": int(move["n"]),
                "value": float(move["reward"] + move["value"]),
                "n_outcomes": int(move["n_outcomes"]),
                "outcomes": [_outcome(trees, each, levels) for each in children[:_BRANCHES]],
            }
        )
    return moves


def _outcome(trees: Any, index: int, levels: int) -> Json:
    """Return a state of a tree."""
    state = trees.states[index]
    return {
        "board": board_of(state["board"]),
        "chance": float(state["chance"]),
        "visits": int(state["n"]),
        "value": float(state["value"]),
        "moves": _node(trees, index, levels - 1),
    }


def evaluation(player: Any) -> Evaluate | None:
    """Return the function by which a player values moves; None for one without values."""
    if hasattr(player, "evaluate"):
        return lambda boards: player.evaluate(np.concatenate([word_batch(each) for each in boards]))
    if _has_table(player):
        from afterstate.agents.game2048.values import ntuple

        return lambda boards: _one_ply(boards, lambda words: ntuple.estimate(player.network, words))
    if isinstance(player, RewardAgent):
        return lambda boards: _one_ply(boards, lambda words: np.zeros(len(words)))
    return None


def _one_ply(boards: list[list[int]], estimate: Callable[[Any], Any]) -> Any:
    """Return reward plus estimate of the moves of boards."""
    values = np.full((len(boards), 4), -np.inf)
    for row, board in zip(values, boards, strict=True):
        afters, rewards, legal = afterstates(board)
        estimates = estimate(np.concatenate([word_batch(each) for each in afters]))
        for action in np.flatnonzero(legal):
            row[action] = rewards[action] + float(estimates[action])
    return values


def _details(player: Any, board: list[int], action: int) -> Json:
    """Return the principal variation and the values by outcome of a move."""
    shallow = _shallow(player)
    evaluate = evaluation(shallow)
    if evaluate is None or isinstance(player, RewardAgent):
        return {}
    after = afterstates(board)[0][action]
    boards, odds = outcomes(after)
    values = _best(evaluate(boards))
    by_outcome = [
        {"cell": cell, "exponent": each[cell], "probability": chance, "value": value}
        for each, chance, value in zip(boards, odds, values, strict=True)
        for cell in [next(i for i in range(16) if each[i] != after[i])]
    ]
    by = "the player" if shallow is player else f"expectimax of depth {shallow.depth}"
    return {"outcomes": by_outcome, "line": _line(evaluate, board, action), "by": by}


def _shallow(player: Any) -> Any:
    """Return a player of the same kind that searches at most two moves deep."""
    from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent

    if _has_table(player):
        depth = getattr(player, "depth", 2 if hasattr(player, "grow") else 1)
        return ExpectimaxAgent(player.network, max(1, min(2, depth - 1)))
    return player


def _has_table(player: Any) -> bool:
    """Return True for a player by an N-tuple network; others may have networks of torch."""
    from afterstate.agents.game2048.values.ntuple_network import Network

    return isinstance(getattr(player, "network", None), Network)


def _best(values: Any) -> list[float]:
    """Return the value of the best move of each board, 0 if the game is over."""
    return [float(each) if np.isfinite(each) else 0.0 for each in np.max(values, axis=1)]


def _line(evaluate: Evaluate, board: list[int], action: int) -> list[Json]:
    """Return the best moves from a board on; after each comes the 2 of the median value."""
    line = []
    for _ in range(LINE):
        after = afterstates(board)[0][action]
        boards, odds = outcomes(after)
        likely = [each for each, p in zip(boards, odds, strict=True) if p == max(odds)]
        ranked = sorted(zip(_best(evaluate(likely)), likely, strict=True))
        _, board = ranked[len(ranked) // 2]
        line.append({"action": action, "after": after, "board": board})
        values = evaluate([board])[0]
        if not np.isfinite(values).any():
            break
        action = int(np.argmax(values))
    return line


def _numbers(values: Any) -> list[float | None]:
    """Return values as JSON, None for illegal moves."""
    return [float(each) if np.isfinite(each) else None for each in values]


def play(player: Agent, request: Json) -> Json:
    """Return the moves that a player plays, the time it took, and the game after them."""
    game = Game2048(**request["game"])
    played, seconds = game_2048.let_play(player, game, request["moves"], request["until"])
    return {"played": played, "seconds": seconds, "game": game.model_dump()}


# Daihinmin


def hint_daihinmin(player: Any, seen: Game) -> Json:
    """Return the play or gift that a player chooses, and what it thinks of the best ones.

    Args:
        player: a player of Daihinmin.
        seen: the view of the player in turn.
    """
    start, n = time.perf_counter(), int(seen["to_give"])
    listed = _ranked(player, seen)
    is_search = bool(listed and listed[0].get("visits") and (n or forced_win(seen) < 0))
    if is_search:  # the choice of this search, not of another one
        action = int(listed[0]["action"])
    else:
        action = int(player.give(seen, n)) if n else int(player.choose(seen))
    for each in listed:
        number = each.pop("action")
        each["text"] = cards.text(number) if n else plays.text(number)
    text, held = (cards.text(action), action) if n else (plays.text(action), plays.CARDS[action])
    answer = {"play": action, "text": text, "cards": cards.numbers(held), "listed": listed}
    return answer | {"seconds": time.perf_counter() - start}


def _ranked(player: Any, seen: Game) -> list[Json]:
    """Return the best actions of a player that values them."""
    if hasattr(player, "expect"):
        actions, places = player.expect(seen)
        ranked = np.argsort(places @ np.arange(5))[:_MOST_LISTED]
        return [{"action": int(actions[i]), "places": _numbers(places[i])} for i in ranked]
    if not hasattr(player, "values"):
        return []
    result = player.values(seen)
    ranked = np.argsort(-result.visits)[:_MOST_LISTED]
    values, visits = _numbers(result.values), result.visits.tolist()
    return [
        {"action": int(result.actions[i]), "value": values[i], "visits": visits[i]} for i in ranked
    ]

"""The interface between a player of Daihinmin and the environments, the server and the client.

`RandomPlayer` plays at random; all other players are in `afterstate.agents`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from numba import float64, int64, njit, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from afterstate.envs.checks import as_int, check_seed
from afterstate.envs.daihinmin import plays, views
from afterstate.envs.daihinmin.cards import N_CARDS, count, numbers
from afterstate.envs.daihinmin.records.validity import check_asked
from afterstate.envs.daihinmin.rules import Game, GameType, write_legal
from afterstate.envs.messages import shown
from afterstate.envs.words import Word, Words, draw_below

_RANDOM = ("random", "daihinmin-random")

MOVE = int64(GameType, float64[::1], uint64[::1])
"""Signature of the kernels of compiled players."""


class Player(Protocol):
    """A player: any agent of `afterstate.agents`, or your own."""

    def choose(self, view: Game) -> int:
        """Return the number of a play, `plays.PASS` to pass.

        Args:
            view: what the player in turn sees: see `views.py`. An illegal play counts as a pass.
        """
        ...

    def give(self, view: Game, n: int) -> int:
        """Return the set of `n` cards to give away in the exchange.

        Args:
            view: what the player in turn sees; the received cards are in the hand already. A wrong
                set is punished: the player loses the strongest cards of the hand.
            n: 2 for the daifugo, 1 for the fugo.
        """
        ...


def check_turn(view: Any, plays: bool | None = None) -> Game:
    """Return the view of a player in turn, who must play (`plays`), give, or either (None).

    Of the record of a whole game, it is what the player in turn sees. See `validity.check_asked`
    for what is checked.

    Raises:
        ValueError: no record, a field out of its range, a hand that is too large or too small, or
            another player is in turn.
    """
    asked = check_asked(view, plays)
    return asked if asked["viewer"] >= 0 else views.view(asked, int(asked["turn"]))


class CheckedPlayer(ABC):
    """A player that checks the views it gets; a new one has `choose_play` and `choose_gift`."""

    def choose(self, view: Game) -> int:
        """Return the number of a play, `plays.PASS` to pass.

        Args:
            view: what the player in turn sees.

        Raises:
            ValueError: a field of the view is out of its range, or another player is in turn.
        """
        return self.choose_play(check_turn(view, plays=True))

    def give(self, view: Game, n: int) -> int:
        """Return the set of `n` cards to give away in the exchange.

        Args:
            view: what the player in turn sees.
            n: number of cards, which the view has, too.

        Raises:
            ValueError: another number of cards, a field of the view is out of its range, or another
                player is in turn.
        """
        asked = check_turn(view, plays=False)
        to_give = int(asked["to_give"])
        if as_int(n) != to_give:
            raise ValueError(f"n must be {to_give}, the number of cards to give, got {shown(n)}")
        return self.choose_gift(asked, to_give)

    @abstractmethod
    def choose_play(self, view: Game) -> int:
        """Return the number of a play, `plays.PASS` to pass, for a view that is checked."""

    @abstractmethod
    def choose_gift(self, view: Game, n: int) -> int:
        """Return the set of `n` cards to give away, for a view that is checked."""


class RandomPlayer(CheckedPlayer):
    """A player of uniformly random legal plays and gifts, which passes only where it must follow.

    Args:
        seed: seed of its choices, or the generator that makes them.
    """

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        if not isinstance(seed, np.random.Generator):
            check_seed(seed)
        self._generator = np.random.default_rng(seed)
        self._legal = np.empty(plays.N_PLAYS, np.int64)  # scratch space

    def choose_play(self, view: Game) -> int:
        """Return a random legal play, or the pass with the same probability as each of them."""
        n_legal = write_legal(view, self._legal)
        index = int(self._generator.integers(n_legal + (view["field"] != plays.PASS)))
        return int(self._legal[index]) if index < n_legal else plays.PASS

    def choose_gift(self, view: Game, n: int) -> int:
        """Return random cards of the hand."""
        return sum(1 << card for card in self._generator.choice(_hand(view), n, replace=False))


class CompiledPlayer(NamedTuple):
    """A player as a kernel, which environments of many games call without Python.

    Attributes:
        move: a kernel of signature `MOVE`. It takes the view of the player in turn, the parameters,
            and a stream of `words.stream_of`, which it advances where it chooses by chance. It
            returns the number of a play or, if `view.to_give` is above 0, the set of cards to give.
        parameters: numbers that the kernel gets.
    """

    move: Any
    parameters: npt.NDArray[np.float64] = np.empty(0)

    def address(self) -> int:
        """Return the address of the kernel, for `call_move`."""
        result = self.move.get_compile_result(MOVE)
        return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


def _call_move(_: Any, address: Any, view: Any, parameters: Any, stream: Any) -> Any:
    """Return signature and code of `call_move`."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        call, types = context.call_conv, signature.args[1:]
        function_type = call.get_function_type(signature.return_type, types)
        function = builder.inttoptr(values[0], function_type.as_pointer())
        status, move = call.call_function(
            builder, function, signature.return_type, types, values[1:]
        )
        with cgutils.if_unlikely(builder, status.is_error):
            call.return_status_propagate(builder, status)
        return move

    return int64(int64, *MOVE.args), generate


call_move: Any = intrinsic(_call_move)
"""In a kernel, `call_move(address, view, parameters, stream)` returns the move of the player whose
kernel is at an address."""


@njit(uint64(uint64, int64, uint64[::1]), cache=True)
def _draw_gift(hand: Word, n: int, stream: Words) -> Word:
    """Return one or two random cards of a hand, those that numpy's `Generator.choice` draws.

    Floyd's algorithm: a number that is drawn again stands for the highest one allowed.
    """
    gift = np.uint64(0)
    for i in range(count(hand) - n, count(hand)):
        card, last = np.uint64(0), np.uint64(0)
        index, rest = draw_below(stream, i + 1), np.uint64(hand)
        for j in range(i + 1):
            last = rest & (~rest + np.uint64(1))
            card = last if j == index else card
            rest ^= last
        gift |= last if gift & card else card
    if n == 2:
        draw_below(stream, 2)  # the order of the two cards
    return gift


@njit(MOVE, cache=True)
def random_move(view: Game, parameters: npt.NDArray[np.float64], stream: Words) -> int:
    """Return the move of a `RandomPlayer` whose generator is at this point of its stream."""
    if view.to_give > 0:
        return int(_draw_gift(view.hands[view.turn], view.to_give, stream))
    legal = np.empty(plays.N_PLAYS, np.int64)
    n_legal = write_legal(view, legal)
    index = draw_below(stream, n_legal + (view.field != plays.PASS))
    return int(legal[index]) if index < n_legal else plays.PASS


def _hand(view: Game) -> list[int]:
    """Return the numbers of the cards that the player in turn holds."""
    return numbers(view["hands"][view["turn"]])


def actions_of(player: Player, view: Game) -> list[int]:
    """Return a player's next move as actions of the environments.

    Args:
        player: the player in turn.
        view: what the player sees.

    Returns:
        The number of a play, or in the exchange one number for each card to give. An invalid play
        or gift becomes a pass, which is punished if it stands for a gift.

    Raises:
        ValueError: no player, or no view of the player in turn.
    """
    view = check_turn(view)
    choose, give = check_player(player).choose, player.give
    if isinstance(player, CheckedPlayer):
        choose, give = player.choose_play, player.choose_gift
    n = int(view["to_give"])
    if n == 0:
        return [returned(choose(view), "choose")]
    gift = returned(give(view, n), "give")
    actions = [plays.single(card) for card in _hand(view) if gift >> card & 1]
    return actions if len(actions) == gift.bit_count() == n else [plays.PASS]


def returned(value: Any, method: str) -> int:
    """Return what `choose` or `give` of a player has returned.

    A number that is no play, or no set of cards, becomes 0: a pass, or a gift that is punished.

    Raises:
        ValueError: it is not an integer.
    """
    number = as_int(value)
    if number is None:
        raise ValueError(f"{method} of a player must return an integer, got {shown(value)}")
    end = plays.N_PLAYS if method == "choose" else 1 << N_CARDS
    return number if 0 <= number < end else 0


def check_player(player: Any) -> Player:
    """Return an object that has the two methods of a player.

    Raises:
        ValueError: it lacks one, or it is a class.
    """
    methods = [getattr(player, name, None) for name in ("choose", "give")]
    if not all(map(callable, methods)) or isinstance(player, type):
        raise ValueError(f"player must have choose(view) and give(view, n), got {shown(player)}")
    checked: Player = player
    return checked


def is_random(player: Any) -> bool:
    """Return True for the names of the player that makes random legal plays."""
    return isinstance(player, str) and player in _RANDOM


def resolve(player: Player | str, seed: int | None = None) -> Player:
    """Return a player, or the player of a name or of a file.

    Only a name or a file imports `afterstate.agents`: see `agents.daihinmin.play.find_player`,
    which has the same arguments and raises the same errors.
    """
    if is_random(player):
        return RandomPlayer(seed)
    if isinstance(player, str):
        agents = import_module("afterstate.agents.daihinmin.play")
        return check_player(agents.find_player(player, seed))
    return check_player(player)


def compiled(player: Player | str | None) -> CompiledPlayer:
    """Return a player, or the player of a name, as a kernel; None plays at random.

    Raises:
        ValueError: the player has no method `compiled`.
    """
    if player is None or is_random(player):
        return CompiledPlayer(random_move)
    compile_ = getattr(resolve(player), "compiled", None)
    if compile_ is None:
        raise ValueError(
            "opponents must be None, 'random', 'sample', 'heuristic' or players with a method "
            f"compiled(), got {shown(player)}; any player can play with vectorization_mode='sync'"
        )
    kernel: CompiledPlayer = compile_()
    return kernel

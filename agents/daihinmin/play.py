"""Matches between players in one process, and players by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from afterstate import agents
from afterstate.agents.config import did_you_mean
from afterstate.envs.checks import check_count, check_seed
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.players import Player, check_player, returned
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game, Rules, give, is_legal, play
from afterstate.envs.daihinmin.views import view
from afterstate.envs.messages import named, shown
from afterstate.envs.options import is_factory

GAMES_PER_CYCLE = Rules().class_reset_every
"""Games from one reset of the classes to the next, 100."""

_PREFIX = "daihinmin-"  # of the names that `agents.make` knows


def find_player(player: Player | str, seed: int | None = None) -> Player:
    """Return the player of a name or of a file, or the player itself.

    Args:
        player: a name of `agents.make`, with or without `daihinmin-`, such as `"sample"`, and
            after commas its settings, such as `"mc,playouts=100"`; a file for `agents.load` (its
            name ends in `.npz` or `.safetensors`); a function or class of your own,
            `module:factory`; or a player.
        seed: seed of a player that chooses by chance, unless its settings have one.

    Raises:
        OSError: the file cannot be read.
        ValueError: an unknown name, another program's file, or not a player.
        ImportError: there is no such module, or the player needs an extra that is not installed.
    """
    if not isinstance(player, str):
        return check_player(player)
    if has_name(player):
        return check_player(agents.find(_PREFIX + player.removeprefix(_PREFIX), seed))
    if not is_factory(player) and not player.endswith((".npz", ".safetensors")):
        raise ValueError(
            f"player must be a name or a player's file, got {shown(player)}{_hint(player)}"
        )
    return check_player(agents.find(player, seed))


def has_name(player: str) -> bool:
    """Return True if a text begins with a player's name, with or without `daihinmin-`."""
    return _PREFIX + player.removeprefix(_PREFIX).partition(",")[0] in agents.names()


def _hint(player: str) -> str:
    """Return the nearest names for one that is unknown, with the prefix if it has it."""
    typed = player.partition(",")[0]
    if typed in agents.names():
        return ", a player of 2048"
    prefix = _PREFIX if typed.startswith(_PREFIX) else ""
    ours = [each.removeprefix(_PREFIX) for each in agents.names() if each.startswith(_PREFIX)]
    return did_you_mean(typed, [prefix + each for each in ours])


class Counted:
    """A player whose illegal moves are counted.

    Args:
        player: the player.

    Attributes:
        n_illegal: number of plays that were no pass and illegal, and of wrong gifts.
    """

    def __init__(self, player: Player) -> None:
        self._player = player
        self.n_illegal = 0

    def choose(self, view: Game) -> int:
        """Return the number of the player's play."""
        number = self._player.choose(view.copy())  # players may change what they get
        play = returned(number, "choose")
        self.n_illegal += bool(play != number or not is_legal(view, play))
        return play

    def give(self, view: Game, n: int) -> int:
        """Return the set of `n` cards that the player gives away."""
        gift = returned(self._player.give(view.copy(), n), "give")
        hand = int(view["hands"][view["turn"]])
        self.n_illegal += gift.bit_count() != n or gift & ~hand != 0
        return gift


def play_match(
    players: Sequence[Player], n_games: int, seed: int = 0, rules: Rules | None = None
) -> Iterator[Game]:
    """Play a match.

    Args:
        players: five players, in the order of their numbers.
        n_games: number of games.
        seed: determines deals, seats and drawn places.
        rules: the rules, by default the competition's.

    Returns:
        An iterator over the match after each game. Every game overwrites the same record: copy it
        to keep it.

    Raises:
        ValueError: not five players, or a wrong number of games, seed or rule.
    """
    if not isinstance(players, Sequence) or len(players) != N_PLAYERS:
        got = len(players) if isinstance(players, Sequence) else shown(players)
        raise ValueError(f"players must have {N_PLAYERS} entries, got {got}")
    for i, player in enumerate(players):
        with named(f"players[{i}]"):
            check_player(player)
    return _games(players, check_count("n_games", n_games, least=0), new_match(seed, rules))


def points_per_cycle(
    player: Player, opponents: Sequence[Player | str], n_cycles: int, seed: int = 0
) -> list[int]:
    """Return the points of a player in each cycle of 100 games; five equal players get 300 each.

    Args:
        player: the player.
        opponents: four players or names; those by name that choose by chance have the cycle's seed.
        n_cycles: number of cycles.
        seed: seed of the first cycle; the others have the seeds after it.

    Raises:
        OSError, ValueError, ImportError: see `find_player` and `play_match`; or a wrong number of
            cycles.
    """
    points, first = [], check_seed(seed, optional=False) or 0
    for cycle_seed in range(first, first + check_count("n_cycles", n_cycles, least=0)):
        players = [player, *(find_player(name, cycle_seed) for name in opponents)]
        *_, match = play_match(players, GAMES_PER_CYCLE, cycle_seed)
        points.append(int(match["points"][0]))
    return points


def _games(players: Sequence[Player], n_games: int, match: Game) -> Iterator[Game]:
    """Play the games of a match, one at a time."""
    for _ in range(n_games):
        next_game(match)
        while (turn := int(match["turn"])) >= 0:
            seen, n_cards = view(match, turn), int(match["to_give"])
            if n_cards:
                give(match, returned(players[turn].give(seen, n_cards), "give"))
            else:
                play(match, returned(players[turn].choose(seen), "choose"))
        yield match

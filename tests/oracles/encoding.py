"""The inputs of rank networks once more, from section 4.4 of the method, with names and lists.

A position is a dict with the fields of `chains.AFTERSTATE` (see `chains_oracle.fields_of`). A plane
is a list of 15 numbers by column.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from afterstate.envs.daihinmin import plays
from tests.oracles import chains as chains_oracle
from tests.oracles import daihinmin as oracle

Plane = list[float]
Position = dict[str, Any]


def nothing() -> Plane:
    """A plane of zeros."""
    return [0.0] * 15


def everywhere(is_so: object) -> Plane:
    """A plane that tells a fact."""
    return [float(bool(is_so))] * 15


def one_hot(at: int, n: int) -> list[Plane]:
    """Planes of which one is 1 everywhere; -1: none."""
    return [everywhere(i == at) for i in range(n)]


def card_image(held: Iterable[str], revolution: int) -> list[Plane]:
    """S, H, D, C, and the joker."""
    planes = [nothing() for _ in "SHDC"]
    for name in held:
        if name != "JO":
            column = 1 + oracle.RANKS.index(name[1])
            planes["SHDC".index(name[0])][14 - column if revolution else column] = 1.0
    return [*planes, everywhere("JO" in held)]


def planes_of(at: Position) -> list[Plane]:
    """The 151 planes of a position, in their order."""
    revolution = at["revolution"]
    field = oracle.analyze(plays.text(at["field"]))
    assert field is not None
    planes = []
    for column in range(1, 14):
        planes.append([float(i == column) for i in range(15)])
    planes += card_image(chains_oracle.names(at["hand"]), revolution)
    planes += card_image(chains_oracle.names(at["unseen"]), revolution)
    strength = nothing()
    if field.kind == "joker single":
        strength[14] = 1.0
    elif field.kind != "pass":
        strength[14 - field.low if revolution else field.high] = 1.0
    planes.append(strength)
    planes += one_hot(min(field.size, 7) - 3 if field.kind == "sequence" else -1, 5)
    planes.append(everywhere(at["lock"]))
    planes.append(everywhere(revolution))
    planes += one_hot(field.size - 1 if field.kind != "sequence" else -1, 5)
    planes += card_image(field.cards, revolution)
    for cards in at["played"]:
        planes += card_image(chains_oracle.names(cards), revolution)
    for left in at["left"]:
        planes += one_hot(min(left, 11), 12)
    for i in range(5):
        planes.append(everywhere(at["out"] >> i & 1))
    for cards in at["known"]:
        planes += card_image(chains_oracle.names(cards), revolution)
    return planes


def card_units(held: Iterable[str], revolution: int) -> list[float]:
    """53 units: S3, H3, D3, C3, S4, ... C2, and the joker, with ranks turned under a revolution."""
    ranks = oracle.RANKS[::-1] if revolution else oracle.RANKS
    return [float(suit + rank in held) for rank in ranks for suit in "SHDC"] + [float("JO" in held)]


def units_of(at: Position) -> list[float]:
    """The 750 units of a position, in their order."""
    revolution, text = at["revolution"], plays.text(at["field"])
    field = oracle.analyze(text)
    assert field is not None
    planes = card_units(chains_oracle.names(at["hand"]), revolution)
    planes += card_units(chains_oracle.names(at["unseen"]), revolution)
    planes += card_units(field.cards, revolution)
    for cards in (*at["played"], *at["known"]):
        planes += card_units(chains_oracle.names(cards), revolution)
    for left in at["left"]:
        planes += [float(i == min(left, 11)) for i in range(12)]
    planes += [float(at["out"] >> i & 1) for i in range(5)]
    planes += [float(revolution), float(at["lock"])]
    shown = field.kind not in ("pass", "joker single")
    low, high = (14 - field.high, 14 - field.low) if revolution else (field.low, field.high)
    planes += [float(shown and i == low) for i in range(15)]
    planes += [float(shown and i == high) for i in range(15)]
    planes += [float(suit in field.suits) for suit in "SHDCX"]
    sequence = field.size if field.kind == "sequence" else 0
    planes += [float(min(sequence, 7) == size) for size in range(3, 8)]
    planes += [float(shown and not sequence and field.size == size) for size in range(1, 6)]
    return [*planes, float(text == "pass"), float(text == "JO")]


def position_of(view: Any, player: int) -> Position:
    """A position as a player sees it, whosever turn it is."""
    turned = view.copy()
    turned["turn"] = player
    at = chains_oracle.seen(turned)
    return chains_oracle.fields_of(at, chains_oracle.root(at))

"""`afterstate list`: environments, players, and the networks of the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym

from afterstate import agents
from afterstate.commands.options import List
from afterstate.envs import json_files
from afterstate.text_tables import aligned


def run(options: List) -> None:
    """Print what the package has."""
    parts = {"environments": environments, "players": players, "networks": networks}
    wanted = parts if options.what == "all" else {options.what: parts[options.what]}
    listed = {name: rows() for name, rows in wanted.items()}
    if options.json:
        print(json.dumps(listed, indent=1))
    else:
        tables = (f"{name.capitalize()}\n\n{_table(rows)}" for name, rows in listed.items())
        print("\n\n".join(tables))


def _table(rows: list[dict[str, Any]]) -> str:
    """Return rows as a table, a column for each key."""
    cells = [[_cell(*each) for each in row.items()] for row in rows]
    heads = [{"bytes": "size"}.get(name, name.replace("_", " ")) for name in rows[0]]
    return aligned(heads, cells, left=len(heads))


def _cell(name: str, value: Any) -> str:
    """Return a value as a cell of a table."""
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, dict):
        return f"{value['mean']:,} ± {value['interval']:,} {value['unit']}"
    if name == "bytes":
        return f"{value / 1e6:.2f} MB"
    return "" if value is None else str(value)


def environments() -> list[dict[str, Any]]:
    """Return the environments and how they are made."""
    specs = [each for each in gym.registry.values() if _is_ours(each)]
    made = [{"id": each.id, "made_by": f'gym.make("afterstate:{each.id}")'} for each in specs]
    return [*made, {"id": "daihinmin_v0", "made_by": "afterstate.envs.daihinmin_v0.env()"}]


def _is_ours(spec: Any) -> bool:
    """Return True for an environment of this package."""
    return str(spec.entry_point).startswith("afterstate.")


def players() -> list[dict[str, Any]]:
    """Return the players, their games, extras and settings."""
    return [
        {
            "name": name,
            "game": "Daihinmin" if name.startswith("daihinmin-") else "2048",
            "extra": "neural" if agents.needs_torch(name) else None,
            "settings": _settings(name),
        }
        for name in agents.names()
    ]


def _settings(name: str) -> list[str]:
    """Return the settings of a player; none if the extra is missing that it needs."""
    try:
        return agents.setting_names(name)
    except ImportError:
        return []


def networks() -> list[dict[str, Any]]:
    """Return the networks of the package: size, score where it was measured, and origin."""
    files = sorted(Path(str(agents.__file__)).parent.glob("*/pretrained/*"))
    return [_network(path) for path in files if path.suffix in (".npz", ".safetensors")]


def _network(path: Path) -> dict[str, Any]:
    """Return the row of a network."""
    page = path.with_suffix(".json")
    facts = json_files.read(page) if page.exists() else {}
    return {
        "player": _player(path),
        "file": path.name,
        "game": "Daihinmin" if path.parts[-3] == "daihinmin" else "2048",
        "bytes": path.stat().st_size,
        "score": _score(facts),
        "learned_from": _origin(facts),
    }


def _player(path: Path) -> str:
    """Return the player that chooses by a network."""
    name, _, number = path.stem.partition("_")
    if path.parts[-3] == "daihinmin":
        return f"daihinmin-{name}"
    if name in ("ntuple", "value"):
        return "ntuple" if name == "ntuple" else "value-net"
    return f"policy-net,layers={number}" if number else f"policy-net,algorithm={name}"


def _score(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Return the score in the facts of a network, if it has one, and half of its 95% interval."""
    greedy = facts.get("scores", facts).get("1-ply")
    if greedy:
        mean, interval = round(greedy["mean"]), round(greedy["interval"])
        unit = f"points by greedy play in {greedy['n_games']:,} games"
        return {"mean": mean, "interval": interval, "unit": unit}
    points = facts.get("points against four sample clients")
    if not points:
        return None
    mean, interval = round(100 * points["mean"], 1), round(100 * points["interval"], 1)
    unit = f"points per 100 games against sample clients in {points['n_games']:,} games"
    return {"mean": mean, "interval": interval, "unit": unit}


def _origin(facts: dict[str, Any]) -> str | None:
    """Return what a network learned from, by its facts."""
    n_moves = facts.get("moves", facts.get("n_moves"))
    if n_moves:
        return f"{n_moves:,} moves{' of a log' if 'log' in facts else ''}"
    return facts.get("learned from")

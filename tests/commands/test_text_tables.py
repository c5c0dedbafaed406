"""Tables as text."""

from __future__ import annotations

from afterstate.text_tables import aligned


def test_columns_of_a_table_are_aligned() -> None:
    table = aligned(["player", "n"], [["a", "1,000"], ["longer one", ""]])
    assert table.split("\n") == [
        "player          n",
        "------          -",
        "a           1,000",
        "longer one",
    ]
    assert aligned(["a", "b"], [["xy", "z"]], left=2).split("\n") == ["a   b", "-   -", "xy  z"]

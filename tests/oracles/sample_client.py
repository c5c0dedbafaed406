"""The sample client once more, from its description alone, with names and loops: nothing is shared.

Numbers of sections are those of that description: 0 notation, 1 the exchange, 2 tables and what is
picked by them, 3 the lead, 4 following. A card is a name like `S3`, the joker in a play `JO=S3`, a
cell its row and column. A *table* says what a run or group that starts at a cell or column is
worth; only entries of exactly the wanted size are ever used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

SUITS = "SHDCX"  # row 4 is the place of the joker beside four cards
COLUMNS = "-3456789TJQKA2+"

Cell = tuple[int, int]  # row, column
Runs = dict[Cell, int]
Groups = dict[int, int]


class Question(NamedTuple):
    """The knowledge of the client when it is asked for a play."""

    hand: list[str]  # natural cards
    joker: bool  # whether the joker is held
    field: str  # the cards on the table in notation, `JO` for a lone joker, empty for a lead
    rev: bool
    lock: bool
    oldrev: bool  # the revolution before the action that was the last
    joker_cell: Cell = (0, 14)  # where a lone joker lies
    run_mark: bool = False  # of the last field whose leftmost column was not 14


# 0. Notation


def cell_of(name: str) -> Cell:
    """The cell of a card, or of what the joker stands for."""
    shown = name.removeprefix("JO=")
    return SUITS.index(shown[0]), COLUMNS.index(shown[1])


def name_of(cell: Cell) -> str:
    """The card of a cell."""
    return SUITS[cell[0]] + COLUMNS[cell[1]]


def written(naturals: Iterable[Cell], joker: Cell | None = None) -> str:
    """A play in notation: its cells by column, then suit."""
    names = {cell: name_of(cell) for cell in naturals}
    if joker is not None:
        names[joker] = "JO=" + name_of(joker)
    return " ".join(names[cell] for cell in sorted(names, key=lambda cell: (cell[1], cell[0])))


# 1. The exchange


def gift(hand: list[str], n: int) -> list[str]:
    """The cards that the client gives: the first by column, then by suit, never the joker."""
    naturals = [name for name in hand if name != "JO"]
    return sorted(naturals, key=lambda name: (cell_of(name)[1], cell_of(name)[0]))[:n]


# 2. Tables


def plain_runs(x: Collection[Cell]) -> Runs:
    """R: consecutive columns of a row from a cell to the very end."""
    table = {}
    for row in range(4):
        for c in range(1, 14):
            end = c
            while (row, end) in x:
                end += 1
            table[row, c] = end - c if end - c >= 3 else 0
    return table


def joker_runs(x: Collection[Cell]) -> Runs:
    """RJ: the same where the first column that is missing is filled by the joker."""
    table = {}
    for row in range(4):
        for c in range(14):
            end, missing = c, 0
            while end <= 14:
                missing += (row, end) not in x
                if missing == 2:
                    break
                end += 1
            table[row, c] = end - c if end - c >= 3 else 0
    return table


def plain_groups(x: Collection[Cell]) -> Groups:
    """G: cards of a column, if there are two or more."""
    sizes = {c: sum((row, c) in x for row in range(4)) for c in range(1, 14)}
    return {c: size if size >= 2 else 0 for c, size in sizes.items()}


def joker_groups(x: Collection[Cell]) -> Groups:
    """GJ: cards of a column and the joker, if there is a card."""
    sizes = {c: sum((row, c) in x for row in range(4)) for c in range(1, 14)}
    return {c: size + 1 if size >= 1 else 0 for c, size in sizes.items()}


# 2.1 Picking a run


def lowest_run(table: Runs, n: int, hand: Collection[Cell]) -> str:
    """The run of size n that starts lowest, in the first suit."""
    for c in range(14):
        for row in range(4):
            if table.get((row, c)) == n:
                return run_written((row, c), n, hand)
    return "pass"


def highest_run(table: Runs, n: int, hand: Collection[Cell]) -> str:
    """The run of size n that starts highest at a card that is held, in the last suit."""
    for c in range(13, -1, -1):
        chosen = None
        for row in range(4):
            if table.get((row, c)) == n and (row, c) in hand:
                start = c
                while start >= 1 and table.get((row, start - 1)) == n:
                    start -= 1
                chosen = (row, start)
        if chosen is not None:
            return run_written(chosen, n, hand)
    return "pass"


def run_written(start: Cell, n: int, hand: Collection[Cell]) -> str:
    """The run from a start cell: natural cards of the full hand, else the joker."""
    row, first = start
    block = [(row, column) for column in range(first, first + n)]
    missing = [cell for cell in block if cell not in hand]
    assert len(missing) <= 1, "there is one joker"
    return written([cell for cell in block if cell in hand], missing[0] if missing else None)


# 2.2 Picking a group


def picked_group(
    table: Groups, n: int, high: bool, x: Collection[Cell], hand: Collection[Cell], suits: list[int]
) -> str:
    """The lowest or highest group of size n; the joker stands only in one of the suits."""
    columns = [c for c in range(1, 14) if table[c] == n]
    if not columns:
        return "pass"
    c = columns[-1] if high else columns[0]
    naturals = [(row, c) for row in range(4) if (row, c) in x]
    if len(naturals) == n:
        return written(naturals)
    if n == 5:
        return written(naturals, None if c == 1 else (4, c))
    free = [row for row in range(4) if (row, c) not in hand and row in suits]
    return written(naturals, (free[0], c))


# 2.3 Picking a single


def picked_single(x: Collection[Cell], high: bool, joker: bool) -> str:
    """The lowest or highest single card, in the first suit; the joker when there is none."""
    if not x:
        return "JO" if joker else "pass"
    columns = [column for _, column in x]
    c = max(columns) if high else min(columns)
    return written([min(cell for cell in x if cell[1] == c)])


def own_joker_cell(rev: bool) -> Cell:
    """Return the cell of the client's lone joker."""
    return (0, 0) if rev else (0, 14)


# 3. The lead


def lead(hand: list[Cell], joker: bool, rev: bool) -> str:
    """A play on the empty field."""
    runs = joker_runs(hand) if joker else plain_runs(hand)
    for n in range(15, 2, -1):
        if n in runs.values():
            return (highest_run if rev else lowest_run)(runs, n, hand)
    groups = joker_groups(hand) if joker else plain_groups(hand)
    for n in (5, 4, 3, 2):
        if n in groups.values():
            return picked_group(groups, n, rev, hand, hand, [0, 1, 2, 3])
    return picked_single(hand, rev, joker)


# 4.0 Reading the field


def table_cells(field: str, joker_cell: Cell) -> list[Cell]:
    """The occupied cells of the table, the joker's with them."""
    return [joker_cell if name == "JO" else cell_of(name) for name in field.split()]


def reread_mark(field: str, joker_cell: Cell, mark: bool) -> bool:
    """The mark of a run after an action. A leftmost column 14 and an empty table leave it."""
    cells = table_cells(field, joker_cell)
    if not cells:
        return mark
    leftmost = min(column for _, column in cells)
    if leftmost == 14:
        return mark
    first_row = min(row for row, column in cells if column == leftmost)
    return (first_row, leftmost + 1) in cells


def order_value(question: Question, run: bool) -> int:
    """k: the column to beat."""
    cells = table_cells(question.field, question.joker_cell)
    columns = [column for _, column in cells]
    if run:
        return min(columns) if question.oldrev else max(columns)
    if question.field == "JO":
        return 0 if question.rev else 14
    return columns[0]


def kept(cells: Collection[Cell], question: Question, k: int, suits: list[int]) -> list[Cell]:
    """F: the cards on the strong side of k; of the field's suits, if these are locked."""
    strong = [cell for cell in cells if (cell[1] < k if question.rev else cell[1] > k)]
    return [cell for cell in strong if not question.lock or cell[0] in suits]


# 4.1 to 4.4 Following


def loose_cards(hand: Collection[Cell]) -> list[Cell]:
    """The cards in no natural run of three and with no other card of their rank."""
    bound = set()
    for (row, c), value in plain_runs(hand).items():
        bound |= {(row, c + i) for i in range(value)}
    for cell in hand:
        if sum(cell[1] == other[1] for other in hand) > 1:
            bound.add(cell)
    return [cell for cell in hand if cell not in bound]


def follow_run(hand: list[Cell], x: list[Cell], q: int, rev: bool, joker: bool) -> str:
    """A run on a run: a natural one, else one with the joker."""
    pick = highest_run if rev else lowest_run
    play = pick(plain_runs(x), q, hand)
    return pick(joker_runs(x), q, hand) if play == "pass" and joker else play


def follow_group(
    hand: list[Cell], x: list[Cell], q: int, rev: bool, joker: bool, suits: list[int]
) -> str:
    """A group on a group: a natural one, else one with the joker."""
    play = picked_group(plain_groups(x), q, rev, x, hand, suits)
    if play == "pass" and joker:
        play = picked_group(joker_groups(x), q, rev, x, hand, suits)
    return play


def submission(question: Question) -> str:
    """Return the client's submission in notation. It may be illegal."""
    hand = [cell_of(name) for name in question.hand]
    joker, rev = question.joker, question.rev
    if not question.field:
        return lead(hand, joker, rev)
    cells = table_cells(question.field, question.joker_cell)
    run = reread_mark(question.field, question.joker_cell, question.run_mark)
    k = order_value(question, run)
    suits = sorted({row for row, _ in cells})
    if len(cells) == 1:
        return picked_single(kept(loose_cards(hand), question, k, suits), rev, joker)
    x = kept(hand, question, k, suits)
    if run:
        return follow_run(hand, x, len(cells), rev, joker)
    unlocked = suits if question.lock else [0, 1, 2, 3]
    return follow_group(hand, x, len(cells), rev, joker, unlocked)

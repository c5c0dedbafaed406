"""Card sets of Daihinmin and their notation.

A *card set* is a `uint64` of 53 bits: four bits a rank from 3 up to 2, spades lowest, and the joker
on top:

    rank      3    4    5    6    7    8    9    T    J    Q    K    A    2    joker
    column    1    2    3    4    5    6    7    8    9   10   11   12   13
    bits     0-3  4-7  8-11  ...                                  44-47 48-51   52

    suit (row)   S = 0, H = 1, D = 2, C = 3;   bit of a card = 4 * (column - 1) + row

Columns are those of the competition's tables: ranks from weak to strong, 1 to 13. Columns 0
("below 3") and 14 ("above 2") are positions that only a joker can take.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from afterstate.envs.checks import as_int, check_text
from afterstate.envs.messages import shown
from afterstate.envs.words import Word

SUITS = "SHDC"
"""Suits by row."""
RANKS = "-3456789TJQKA2+"
"""Ranks by column, with the joker's positions below 3 and above 2."""
N_CARDS = 53
JOKER = N_CARDS - 1
"""Number of the joker's bit."""
NATURALS = (1 << JOKER) - 1
"""All cards but the joker."""
DECK = (1 << N_CARDS) - 1
"""All cards."""
S3, D3 = 1 << 0, 1 << 2
"""The spade 3, which beats a lone joker, and the diamond 3, whose holder leads first."""


@njit("int64(uint64)", cache=True)
def count(cards: Word) -> int:
    """Return the number of cards in a set.

    >>> count(parse("S3 D3 JO"))
    3
    """
    cards = np.uint64(cards)
    cards -= cards >> np.uint64(1) & np.uint64(0x5555_5555_5555_5555)
    pairs = np.uint64(0x3333_3333_3333_3333)
    cards = (cards & pairs) + (cards >> np.uint64(2) & pairs)
    cards = cards + (cards >> np.uint64(4)) & np.uint64(0x0F0F_0F0F_0F0F_0F0F)
    return int(cards * np.uint64(0x0101_0101_0101_0101) >> np.uint64(56))


@njit("int64(uint64)", cache=True)
def lowest(cards: Word) -> int:
    """Return the number of the lowest bit of a set that is not empty."""
    cards = np.uint64(cards)
    return count((cards & (~cards + np.uint64(1))) - np.uint64(1))


@njit("uint64(uint64, int64)", cache=True)
def strongest(cards: Word, n: int) -> Word:
    """Return the `n` strongest cards: the joker, then from 2 down to 3, and S, H, D, C in a rank.

    >>> text(strongest(parse("S3 JO H2 C2 SA"), 2))
    'JO H2'
    """
    cards = np.uint64(cards)
    taken = np.uint64(0)
    if n > 0 and cards >> np.uint64(JOKER):
        taken |= np.uint64(1) << np.uint64(JOKER)
    for rank in range(12, -1, -1):
        for suit in range(4):
            card = np.uint64(1) << np.uint64(4 * rank + suit)
            if cards & card and count(taken) < n:
                taken |= card
    return taken


@njit("uint64(uint64, int64)", cache=True)
def weakest(cards: Word, n: int) -> Word:
    """Return the `n` weakest natural cards: from 3 up to 2, and S, H, D, C in a rank.

    >>> text(weakest(parse("JO D4 S4 S2"), 2))
    'S4 D4'
    """
    naturals = np.uint64(cards) & np.uint64(NATURALS)
    rest = naturals
    for _ in range(n):
        rest &= rest - np.uint64(1) if rest else rest
    return naturals ^ rest


def check_set(cards: Any) -> int:
    """Return a card set as an int.

    Raises:
        ValueError: no integer of 53 bits.
    """
    word = as_int(cards)
    if word is None or not 0 <= word <= DECK:
        raise ValueError(f"cards must be an integer of {N_CARDS} bits, got {shown(cards)}")
    return word


def check_card(card: Any) -> int:
    """Return the number of a card as an int.

    Raises:
        ValueError: not in 0..52.
    """
    number = as_int(card)
    if number is None or not 0 <= number < N_CARDS:
        raise ValueError(f"card must be an integer in 0..{JOKER}, got {shown(card)}")
    return number


def card_text(card: int) -> str:
    """Return the name of a card: suit and rank, or `JO`.

    >>> card_text(0), card_text(51), card_text(52)
    ('S3', 'C2', 'JO')

    Raises:
        ValueError: no number of a card.
    """
    number = check_card(card)
    return "JO" if number == JOKER else SUITS[number % 4] + RANKS[number // 4 + 1]


CARD_NUMBERS = {card_text(card): card for card in range(N_CARDS)}
"""Cards by name."""
_PRINTED = sorted(range(N_CARDS), key=lambda card: 3.5 if card == JOKER else card)


def text(cards: Word) -> str:
    """Return the cards of a set in the notation of recorded games: by rank, then suit.

    The joker comes after the 3s, where the competition's tables have it.

    >>> text(parse("JO H4 S3"))
    'S3 JO H4'

    Raises:
        ValueError: no set of cards.
    """
    word = check_set(cards)
    return " ".join(card_text(card) for card in _PRINTED if word >> card & 1)


def numbers(cards: Word) -> list[int]:
    """Return the numbers of the cards of a set, in ascending order.

    >>> numbers(parse("D3 S3"))
    [0, 2]

    Raises:
        ValueError: no set of cards.
    """
    word = check_set(cards)
    return [card for card in range(N_CARDS) if word >> card & 1]


def parse(text: str) -> int:
    """Return the set of the named cards, which may be in any order.

    >>> hex(parse("S3 H4"))
    '0x21'

    Raises:
        ValueError: no text, an unknown card, or the same card twice.
    """
    check_text("cards", text)
    cards = 0
    for name in text.split():
        if name not in CARD_NUMBERS:
            raise ValueError(
                f"a card must be JO, or one of {SUITS} and one of {RANKS[1:-1]}, got {shown(name)}"
            )
        card = 1 << CARD_NUMBERS[name]
        if cards & card:
            raise ValueError(f"cards must differ, got {name} twice in {shown(text)}")
        cards |= card
    return cards

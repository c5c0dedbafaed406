"""Card sets: their bits, their order of strength and their notation."""

from __future__ import annotations

import random

import pytest

from afterstate.envs.daihinmin import cards
from tests.oracles import daihinmin as oracle


def random_set(rng: random.Random) -> int:
    """Return a card set whose size is uniformly random."""
    return sum(1 << card for card in rng.sample(range(53), rng.randint(0, 53)))


def names_of(word: int) -> list[str]:
    """Return the cards of a set by rank, then S, H, D, C; the joker last."""
    return [name for i, name in enumerate(oracle.PACK) if word >> i & 1]


def test_cards_have_the_bits_of_the_documentation() -> None:
    for column, rank in enumerate("3456789TJQKA2", 1):
        for row, suit in enumerate("SHDC"):
            card = 4 * (column - 1) + row
            assert cards.parse(suit + rank) == 1 << card
            assert cards.card_text(card) == suit + rank
            assert cards.CARD_NUMBERS[suit + rank] == card
    assert cards.parse("JO") == 1 << 52
    assert cards.card_text(52) == "JO"
    assert len(cards.CARD_NUMBERS) == 53


def test_constants_equal_their_cards() -> None:
    assert cards.N_CARDS == 53
    assert cards.parse("S3") == cards.S3
    assert cards.parse("D3") == cards.D3
    assert cards.parse(" ".join(oracle.NATURALS)) == cards.NATURALS
    assert cards.parse(" ".join(oracle.PACK)) == cards.DECK == 2**53 - 1
    assert cards.RANKS[1:-1] == oracle.RANKS
    assert cards.RANKS == oracle.COLUMNS
    assert cards.SUITS == oracle.SUITS


def test_count_and_lowest_equal_the_bits_of_the_word() -> None:
    rng = random.Random(1)
    words = [0, 1, 1 << 52, cards.DECK, 2**64 - 1, 1 << 63, *(1 << bit for bit in range(64))]
    words += [random_set(rng) for _ in range(5_000)]
    for word in words:
        assert cards.count(word) == bin(word).count("1"), hex(word)
        if word:
            assert cards.lowest(word) == bin(word)[::-1].index("1"), hex(word)


def test_strongest_cards_equal_the_oracle_for_any_number() -> None:
    rng = random.Random(2)
    for _ in range(1_000):
        word = random_set(rng)
        for n in (0, 1, 2, 3, rng.randint(0, 60)):
            expected = oracle.strongest(names_of(word), n)
            assert cards.strongest(word, n) == cards.parse(" ".join(expected)), (hex(word), n)


def test_weakest_cards_leave_the_joker_and_go_up_by_rank_and_suit() -> None:
    rng = random.Random(3)
    for _ in range(1_000):
        word = random_set(rng)
        naturals = [name for name in names_of(word) if name != "JO"]
        for n in (0, 1, 2, 3, rng.randint(0, 60)):
            assert cards.weakest(word, n) == cards.parse(" ".join(naturals[:n])), (hex(word), n)


@pytest.mark.parametrize(
    ("hand", "n", "taken"),
    [
        ("S3 JO C2", 1, "JO"),  # the joker is above the 2
        ("S3 C2 D2 H2", 2, "H2 D2"),  # within a rank S, H, D, C
        ("CA SA C2", 2, "SA C2"),
        ("S3 H3 D3 C3", 3, "S3 H3 D3"),
        ("S3", 2, "S3"),
        ("", 2, ""),
    ],
)
def test_strongest_cards_by_hand(hand: str, n: int, taken: str) -> None:
    assert cards.text(cards.strongest(cards.parse(hand), n)) == taken


def test_random_sets_are_parsed_from_their_text_in_any_order() -> None:
    rng = random.Random(4)
    for _ in range(1_000):
        word = random_set(rng)
        names = cards.text(word).split()
        assert sorted(names) == sorted(names_of(word))
        rng.shuffle(names)
        assert cards.parse(" ".join(names)) == word


def test_texts_are_sorted_by_rank_then_suit_with_the_joker_after_the_3s() -> None:
    expected = ["S3", "H3", "D3", "C3", "JO", *oracle.NATURALS[4:]]
    assert cards.text(cards.DECK).split() == expected
    assert cards.text(0) == ""
    assert cards.parse("") == cards.parse("  ") == 0


@pytest.mark.parametrize(
    "name",
    ["S1", "X3", "3S", "S10", "s3", "SS", "JOKER", "J", "S-", "S+", "JO=S3", "pass", "S3,H3"],
)
def test_unknown_cards_raise_errors(name: str) -> None:
    with pytest.raises(ValueError, match="card"):
        cards.parse(f"S4 {name}")


@pytest.mark.parametrize("text", ["S3 S3", "JO S4 JO"])
def test_repeated_cards_raise_errors(text: str) -> None:
    with pytest.raises(ValueError, match=text[:2]):
        cards.parse(text)


@pytest.mark.parametrize("word", [1 << 53, 2**64 - 1, -1])
def test_words_with_more_bits_than_cards_have_no_text(word: int) -> None:
    with pytest.raises(ValueError, match="53 bits"):
        cards.text(word)

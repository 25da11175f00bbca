"""Money as text: exact, for programs and for people."""

import pytest

from modelpact.vocabulary.money import format_decimal, format_money


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (1, "0.000000001"),
        (1_500_000_000, "1.5"),
        (-1_500_000_000, "-1.5"),
        (3_000_000_000, "3"),
        (2**62 + 1, "4611686018.427387905"),
    ],
)
def test_programs_read_every_digit_and_no_trailing_zeros(amount: int, text: str) -> None:
    assert format_decimal(amount) == text


def test_a_minimum_of_digits_is_padded_with_zeros() -> None:
    assert format_decimal(3_000_000_000, min_digits=2) == "3.00"
    assert format_decimal(1_234_500_000, min_digits=2) == "1.2345"


def test_people_read_grouped_thousands_and_a_currency() -> None:
    assert format_money(1_234_567_500_000_000, "USD") == "$1,234,567.50"
    assert format_money(-12_500_000, "EUR") == "−0.0125 EUR"
    assert format_money(2_500_000, "USD", 6) == "$2.50"


def test_a_currency_that_was_edited_in_the_store_cannot_control_a_terminal() -> None:
    assert format_money(0, "E\x1b[2J") == "0.00 E\\x1b[2J"

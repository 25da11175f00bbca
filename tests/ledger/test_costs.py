"""Costs: integers, corrections that count once, totals that agree with the events."""

import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.ledger import Attribution, CostLine, CostRecord, Draft, Ledger, Transaction, export_lines, import_export
from modelpact.ledger.cost_tables import HOUR, cost_totals
from modelpact.ledger.costs import UNITS, check_lines, divide_half_even
from modelpact.vocabulary.errors import InputError
from tests.ledger.support import only, spend, usd


def test_a_record_has_lines_of_every_unit(ledger: Ledger) -> None:
    attribution = Attribution(provider="acme", model="m", worker="w", intent="i", function="f")
    lines = tuple(CostLine(unit, index + 1, "EUR" if unit == "currency" else "") for index, unit in enumerate(UNITS))
    spend(ledger, CostRecord(lines, attribution))
    for by, name in (("provider", "acme"), ("model", "m"), ("worker", "w"), ("intent", "i")):
        total = only(cost_totals(ledger, by))  # type: ignore[arg-type]
        assert (total.name, total.currency, total.records) == (name, "EUR", 1)
        assert total.amounts == {unit: index + 1 for index, unit in enumerate(UNITS)}
        assert not any(total.estimated.values())


def test_currencies_are_never_added_together(ledger: Ledger) -> None:
    record = CostRecord((usd(5), CostLine("currency", 7, "EUR"), CostLine("tokens.input", 3)))
    spend(ledger, record)
    totals = {total.currency: total for total in cost_totals(ledger, "provider")}
    assert {name: total.money for name, total in totals.items()} == {"USD": 5, "EUR": 7}
    assert sum(total.records for total in totals.values()) == 1
    assert sum(total.amounts["tokens.input"] for total in totals.values()) == 3


def test_a_correction_counts_once(ledger: Ledger) -> None:
    """MP-P3: the corrected record refers to the event it corrects; totals count it once."""
    attribution = Attribution(provider="acme")
    guess = spend(ledger, CostRecord((usd(100), CostLine("tokens.input", 9)), attribution, estimate=True))
    spend(ledger, CostRecord((usd(1_000),), attribution))
    before = only(cost_totals(ledger, "provider"))
    assert (before.records, before.money, before.estimated["currency"]) == (2, 1_100, 100)
    spend(ledger, CostRecord((usd(130),), attribution, corrects=guess.id, replaced=(usd(100),)))
    after = only(cost_totals(ledger, "provider"))
    assert (after.records, after.money) == (2, 1_130)
    assert after.amounts["tokens.input"] == 0
    assert not any(after.estimated.values())
    for nano in (90, 95):  # more corrections of the same event
        spend(ledger, CostRecord((usd(nano),), attribution, corrects=guess.id, replaced=(usd(100),)))
        assert only(cost_totals(ledger, "provider")).money == 1_000 + nano


def test_a_correction_refers_to_a_cost_in_its_envelope(ledger: Ledger) -> None:
    other = spend(ledger, CostRecord((usd(100),)), "run-2")
    for name, message in ((other.id, "not an event of run-1"), ("run-1:9", "no cost"), ("x", "event")):
        with pytest.raises(InputError, match=message):
            spend(ledger, CostRecord((usd(1),), corrects=name, replaced=(usd(100),)))
    assert only(cost_totals(ledger, "provider")).money == 100


def test_a_correction_counts_at_the_time_of_the_work(url: str) -> None:
    now = [5 * HOUR]
    with Ledger.open(url, clock=lambda: now[0]) as ledger:
        early = spend(ledger, CostRecord((usd(100),)))
        now[0] = 9 * HOUR
        spend(ledger, CostRecord((usd(1),)))
        spend(ledger, CostRecord((usd(130),), corrects=early.id, replaced=(usd(100),)))
        assert only(cost_totals(ledger, "provider", until=8 * HOUR)).money == 130
        assert only(cost_totals(ledger, "provider", since=8 * HOUR)).money == 1


def test_one_event_has_one_record(ledger: Ledger) -> None:
    def twice(tx: Transaction) -> None:
        event = tx.append(Draft("run-1", "capability.completed", {}))
        for _ in range(2):
            tx.record_cost(event, CostRecord((usd(1),)))

    with pytest.raises(InputError, match="already"):
        ledger.write(twice)
    event = spend(ledger, CostRecord((usd(1),)))
    with pytest.raises(Exception, match=r"another writer|UNIQUE|duplicate"):
        ledger.write(lambda tx: tx.record_cost(event, CostRecord((usd(1),))))
    assert only(cost_totals(ledger, "provider")).money == 1


def test_totals_agree_with_the_records_in_any_period(url: str) -> None:
    chance = random.Random(7)
    now = [0]
    records: list[tuple[int, str, int]] = []
    for _ in range(2):  # two writers, one after the other: each has its own sums
        with Ledger.open(url, clock=lambda: now[0]) as ledger:
            for _ in range(30):
                now[0] += chance.randrange(HOUR // 2)
                provider = chance.choice(["a", "b"])
                event = spend(ledger, CostRecord((usd(chance.randrange(99)),), Attribution(provider)))
                records.append((event.time, provider, event.payload["cost"]["lines"][0]["amount"]))
            for _ in range(20):
                since, until = sorted(chance.randrange(now[0] + HOUR) for _ in range(2))
                totals = {
                    total.name: total.money for total in cost_totals(ledger, "provider", since=since, until=until)
                }
                for provider in "ab":
                    expected = sum(n for t, name, n in records if name == provider and since <= t < until)
                    assert totals.get(provider, 0) == expected


def test_an_import_brings_its_costs_once(ledger: Ledger, lite: Ledger) -> None:
    guess = spend(ledger, CostRecord((usd(100),), estimate=True))
    spend(ledger, CostRecord((usd(130),), corrects=guess.id, replaced=(usd(100),)))
    lines = list(export_lines(ledger, "run-1"))
    for _ in range(2):
        import_export(lite, lambda: lines)
        total = only(cost_totals(lite, "provider"))
        assert (total.records, total.money, total.estimated["currency"]) == (1, 130, 0)


@given(st.integers(0, 10**24), st.integers(1, 10**9))
def test_money_is_rounded_half_even_once(amount: int, divisor: int) -> None:
    """MP-P2: money is rounded half-even, once."""
    assert divide_half_even(amount, divisor) == round(Fraction(amount, divisor))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "at least one"),
        ("x", "at least one"),
        ([{"unit": "tokens", "amount": 1}], r"cost\[0\]"),
        ([{"unit": "discrete", "amount": 1.5}], r"cost\[0\]"),
        ([{"unit": "discrete", "amount": -1}], "out of range"),
        ([{"unit": "discrete", "amount": 2**53}], "out of range"),
        ([{"unit": "currency", "amount": 1}], "currency"),
        ([{"unit": "discrete", "amount": 1, "currency": "USD"}], "currency"),
        ([{"unit": "currency", "amount": 1, "currency": "usd"}], "three capital letters"),
        ([{"unit": "currency", "amount": 1, "currency": "\x1b[3"}], "three capital letters"),
        ([{"unit": "discrete", "amount": 1}] * 2, "appears twice"),
        ([{"unit": "discrete", "amount": 1}] * 33, "the maximum is 32"),
    ],
)
def test_invalid_cost_lines_are_refused(lines: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_lines(lines)


def test_totals_of_one_envelope_include_its_corrections(ledger: Ledger) -> None:
    attribution = Attribution(provider="acme", model="m")
    first = spend(ledger, CostRecord((usd(100),), attribution, estimate=True), "run-1")
    spend(ledger, CostRecord((usd(7),), attribution), "run-2")
    assert only(cost_totals(ledger, "model", envelope="run-1")).estimated["currency"] == 100
    spend(ledger, CostRecord((usd(90),), attribution, corrects=first.id), "run-1")
    total = only(cost_totals(ledger, "model", envelope="run-1"))
    assert (total.money, total.records, total.estimated["currency"]) == (90, 1, 0)
    assert only(cost_totals(ledger, "model")).money == 97
    assert cost_totals(ledger, "model", envelope="nothing") == []

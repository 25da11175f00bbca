"""`modelpact costs`, as a process: exact money, marked estimates, every format."""

import csv
import io
import json
import time
from pathlib import Path

import pytest

from modelpact.cli.options import parse_time
from modelpact.cli.render.terminal import bar
from modelpact.ledger import Attribution, CostLine, CostRecord, Draft, Ledger, Transaction
from modelpact.vocabulary.errors import InputError
from modelpact.vocabulary.money import format_money
from tests.cli.conftest import Run

DAY = 86_400 * 10**9


def spend(ledger: Ledger, nano: int | None, provider: Attribution, estimate: bool = False) -> None:
    money = () if nano is None else (CostLine("currency", nano, "USD"),)
    record = CostRecord((*money, CostLine("tokens.input", 1_500)), provider, estimate)

    def work(tx: Transaction) -> None:
        event = tx.append(Draft("run-1", "capability.completed", {"cost": record.to_json()}))
        tx.record_cost(event, record)

    ledger.write(work)


@pytest.fixture
def filled(tmp_path: Path) -> str:
    url = f"sqlite:{tmp_path / 'data' / 'modelpact.db'}"
    with Ledger.open(url, clock=lambda: time.time_ns() - 3 * DAY) as ledger:
        spend(ledger, 5 * 10**9, Attribution("old", "m"))
    with Ledger.open(url) as ledger:
        spend(ledger, 1_234_567_891, Attribution("acme", "m", intent="sum up"))
        spend(ledger, 1, Attribution("acme", "n"))
        spend(ledger, 250_000_000, Attribution("=cmd()", "m"), estimate=True)
    return url


def test_the_table_has_bars(run: Run, filled: str) -> None:
    done = run("costs", "--since", "24h")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].split()[:4] == ["acme", "2", "$1.234567892", "3,000"]
    assert lines[1].rstrip().endswith("█" * 20)
    assert "≈ $0.25" in lines[2]
    assert lines[3].split()[:2] == ["total", "3"]
    assert "$1.484567892" in lines[3]
    assert lines[4] == "≈ $0.25 of this is estimated and not yet corrected."
    assert "old" not in done.stdout
    assert "old" in run("costs").stdout


def test_estimates_without_money_name_the_amounts(run: Run, tmp_path: Path) -> None:
    """A question that was cancelled took time, of which nobody said that it cost money."""
    lines = (CostLine("time", 14_200_000_000), CostLine("discrete", 1))
    record = CostRecord(lines, Attribution("desk"), estimate=True)
    url = f"sqlite:{tmp_path / 'data' / 'modelpact.db'}"
    with Ledger.open(url) as ledger:
        embedded = Draft("run-1", "capability.cancelled", {"cost": record.to_json()})
        ledger.write(lambda tx: tx.record_cost(tx.append(embedded), record))
    _, row, note = run("costs").stdout.splitlines()
    assert row.split() == ["desk", "1", "–", "–", "–", "≈", "14.2", "s", "1"]
    assert note == "≈ 14.2 s, 1 piece of this is estimated and not yet corrected."


def test_tokens_without_a_price_have_a_note(run: Run, filled: str) -> None:
    """Not so those rows where nothing was taken that has a price, which is told as well."""
    with Ledger.open(filled) as ledger:
        spend(ledger, None, Attribution("local", "m"))
        spend(ledger, None, Attribution("guessed", "m"), estimate=True)
        nothing = CostRecord((CostLine("time", 100_000_000),), Attribution("failed", "m"))
        embedded = Draft("run-1", "capability.failed", {"cost": nothing.to_json()})
        ledger.write(lambda tx: tx.record_cost(tx.append(embedded), nothing))
    _, *rows, note, second, unpriced, unpaid = run("costs").stdout.splitlines()
    data = {row.split()[0]: row.split()[2:5] for row in rows}
    assert data["local"] == ["?", "1,500", "–"]
    assert data["guessed"] == ["?", "≈", "1,500"]
    assert data["failed"] == ["–", "–", "–"]
    assert all("estimated" in entry for entry in (note, second))
    assert unpriced == "? The price of these tokens is unknown."
    assert unpaid == "– No money is recorded: the work failed, or is counted in time or pieces only."
    data = json.loads(run("costs", "--json").stdout)
    assert [row["provider"] for row in data["rows"] if row["unpriced"]] == ["guessed", "local"]
    assert {entry["currency"]: entry["unpriced"] for entry in data["totals"]} == {None: True, "USD": False}


def test_a_table_that_has_all_its_prices_needs_no_note(run: Run, filled: str) -> None:
    note = run("costs", "--store", filled).stdout
    assert "price" not in note
    assert "No money" not in note


def test_json_has_integers(run: Run, filled: str) -> None:
    done = run("costs", "--by", "model", "--format", "json", "--store", filled)
    data = json.loads(done.stdout)
    assert {row["model"]: row["amount_nano"] for row in data["rows"]} == {"m": 6_484_567_891, "n": 1}
    assert data["totals"][0]["records"] == 4
    assert data["totals"][0]["estimated_nano"] == 250_000_000
    assert json.loads(run("costs", "--json", "--by", "model").stdout)["rows"] == data["rows"]


def test_csv_is_exact_and_safe_to_open(run: Run, filled: str) -> None:
    rows = list(csv.DictReader(io.StringIO(run("costs", "--format", "csv").stdout)))
    assert [row["provider"] for row in rows] == ["old", "acme", "'=cmd()"]
    assert rows[1]["amount"] == "1.234567892"
    assert rows[1]["tokens_input"] == "3000"


def test_an_empty_ledger_is_reported(run: Run, filled: str, tmp_path: Path) -> None:
    nothing = run("costs", "--since", "2999-01-01")
    assert nothing.returncode == 0
    assert nothing.stdout.startswith("No costs are recorded since 2999-01-01")
    missing = run("costs", "--store", f"sqlite:{tmp_path / 'none.db'}")
    assert missing.returncode == 2
    assert "there is no ledger in" in missing.stderr
    assert run("costs", "--since", "yesterday").returncode == 2
    assert run("costs", "--by", "mood").returncode == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("24h", 10 * DAY - DAY),
        ("7d", 3 * DAY),
        ("90m", 10 * DAY - 5_400 * 10**9),
        ("1970-01-03", 2 * DAY),
        ("1970-01-03T06:00:00Z", 2 * DAY + DAY // 4),
        ("1970-01-03T06:00:00+06:00", 2 * DAY),
        ("1970-01-03T00:00:00.000001", 2 * DAY + 1_000),
    ],
)
def test_times_are_parsed(text: str, expected: int) -> None:
    assert parse_time(text, now=10 * DAY) == expected


@pytest.mark.parametrize("text", ["", "h", "-1h", "1y", "1.5h", "2026-13-01", "tomorrow"])
def test_an_invalid_time_is_rejected(text: str) -> None:
    with pytest.raises(InputError, match="write 24h"):
        parse_time(text)


def test_money_is_shown_exactly() -> None:
    assert format_money(0, "USD") == "$0.00"
    assert format_money(1, "USD") == "$0.000000001"
    assert format_money(-1_500_000_000, "EUR") == "−1.50 EUR"
    assert format_money(1_234_567 * 10**9, "USD") == "$1,234,567.00"
    assert format_money(2**62 + 1, "USD") == "$4,611,686,018.427387905"


def test_any_amount_above_zero_has_a_bar() -> None:
    assert bar(0, 10) == ""
    assert bar(1, 10**9) == "▏"
    assert bar(10, 10) == "█" * 20
    assert bar(5, 10, 1) == "▌"

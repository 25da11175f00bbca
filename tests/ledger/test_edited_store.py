"""A store that was edited: verification reports every edit and never raises."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from modelpact.identity import Keyring
from modelpact.ledger import CostRecord, Draft, Ledger, LedgerError, archive, export_lines, import_export
from modelpact.ledger.verify.audit import verify_envelope
from modelpact.ledger.verify.tables import verify_tables
from modelpact.ledger.verify.verifier import VerifyReport
from modelpact.providers.contract import Invocation, Offer, Registration, Reply
from modelpact.providers.runtime.runtime import Runtime
from modelpact.providers.transport import Partial
from tests.ledger.support import draft, fill, spend, usd


@pytest.fixture
def signed(ledger: Ledger, keyring: Keyring) -> Ledger:
    """Two envelopes of ten events, with checkpoints on the fourth and the last."""
    for name in ("run-1", "run-2"):
        ledger.write(lambda tx, name=name: tx.open_envelope(name, "run", ""))  # type: ignore[misc]
        for count in (4, 6):
            fill(ledger, name, count)
            ledger.checkpoint(name, keyring)
    return ledger


def edit(ledger: Ledger, *statements: str) -> None:
    for statement in statements:
        ledger.write(lambda tx, statement=statement: tx.execute(statement))  # type: ignore[misc]


def audited(ledger: Ledger, keyring: Keyring | None = None) -> dict[str, str]:
    """Return the kinds of broken links, by envelope or table."""
    keys = None if keyring is None else keyring.public_keys
    reports = {name: verify_envelope(ledger, name, keys) for name in ledger.envelope_names()}
    tables = verify_tables(ledger, reports, complete=True)
    results: list[tuple[str, Any]] = [*reports.items(), *((report.table, report) for report in tables)]
    return {name: report.broken.kind for name, report in results if report.broken is not None}


def test_a_checkpoint_shows_that_the_end_was_cut_off(signed: Ledger, keyring: Keyring) -> None:
    assert audited(signed, keyring) == {}
    edit(signed, "DELETE FROM events WHERE envelope = 'run-1' AND sequence > 4")
    for keys in (keyring, None):
        assert audited(signed, keys) == {"run-1": "truncated"}


def test_a_checkpoint_shows_that_an_envelope_was_deleted(signed: Ledger, keyring: Keyring) -> None:
    edit(signed, "DELETE FROM events WHERE envelope = 'run-1'")
    assert audited(signed, keyring) == {"run-1": "truncated"}
    edit(signed, "DELETE FROM checkpoints WHERE envelope = 'run-1'")
    assert audited(signed, keyring) == {"run-1": "unsigned"}
    edit(signed, "UPDATE envelopes SET archived = 1 WHERE id = 'run-1'")
    assert audited(signed) == {"run-1": "truncated"}


def test_an_open_envelope_cannot_pass_for_an_archived_one(signed: Ledger, keyring: Keyring) -> None:
    edit(signed, "UPDATE envelopes SET archived = 1 WHERE id = 'run-1'")
    assert audited(signed, keyring) == {"run-1": "edited"}
    edit(signed, "DELETE FROM events WHERE envelope = 'run-1' AND sequence < 10")
    assert audited(signed, keyring) == {"run-1": "dropped"}
    edit(signed, "UPDATE events SET payload = '{}' WHERE envelope = 'run-1'")
    assert audited(signed, keyring) == {"run-1": "edited"}


def test_the_rest_of_an_archived_envelope_is_verified(signed: Ledger, keyring: Keyring, tmp_path: Path) -> None:
    archive(signed, "run-1", tmp_path / "run-1.jsonl.gz", signer=keyring, drop=True)
    report = verify_envelope(signed, "run-1", keyring.public_keys)
    assert (report.ok, report.archived, report.first, report.signed) == (True, True, 11, 11)
    assert audited(signed, keyring) == {}
    assert audited(signed, Keyring.init(tmp_path / "other"))["run-1"] == "dropped"
    edit(signed, "UPDATE events SET payload = '{}' WHERE envelope = 'run-1'")
    assert audited(signed, keyring) == {"run-1": "edited"}
    edit(signed, "DELETE FROM checkpoints WHERE envelope = 'run-1' AND sequence = 11")
    assert audited(signed)["run-1"] == "edited"


def test_an_archived_envelope_must_be_signed(signed: Ledger, keyring: Keyring, tmp_path: Path) -> None:
    archive(signed, "run-1", tmp_path / "run-1.jsonl.gz", signer=keyring, drop=True)
    edit(signed, "DELETE FROM checkpoints WHERE envelope = 'run-1'")
    assert audited(signed) == {"run-1": "dropped"}


class Answering:
    """A provider that replies."""

    async def send(self, registration: Registration, invocation: Invocation) -> Reply:
        cost = ({"unit": "currency", "amount": 10**9, "currency": "USD"},)
        return Reply(invocation.id, {"answer": "no"}, "", cost)  # type: ignore[arg-type]

    def stream(self, registration: Registration, invocation: Invocation) -> AsyncIterator[Partial | Reply]:
        raise NotImplementedError

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        pass


@pytest.fixture
def used(ledger: Ledger) -> Ledger:
    """A ledger of a runtime: a provider, invocations, costs and a correction."""
    runtime = Runtime(ledger, transports={"p": Answering()}, name="r")
    offer = Offer("urn:x:a", {}, {})
    runtime.registry.register(Registration("p", "tool", (offer,), ("currency",), "USD"))

    async def work() -> None:
        for _ in range(3):
            done = await runtime.invoke("p", "urn:x:a", {"n": 1})
        assert done.settled_by is not None
        await runtime.correct_cost(done.settled_by, (usd(5),))
        await runtime.correct_cost(done.settled_by, (usd(7),))

    asyncio.run(work())
    return ledger


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE costs SET money = 1 WHERE sequence = 2", "costs"),
        ("UPDATE costs SET attribution = attribution + 1 WHERE sequence = 2", "costs"),
        ("UPDATE costs SET envelope = 'nowhere'", "costs"),
        ("UPDATE costs SET sequence = sequence + 1000", "costs"),
        ("DELETE FROM costs WHERE sequence = 2", "costs"),
        ("DELETE FROM costs", "costs"),
        ("UPDATE cost_hours SET money = money + 1", "cost_hours"),
        ("DELETE FROM cost_hours", "cost_hours"),
        ("UPDATE attributions SET provider = 'rival'", "cost_hours"),
        ("DELETE FROM attributions", "cost_hours"),
        ('UPDATE invocations SET output = \'{"answer":"yes"}\'', "invocations"),
        ("UPDATE invocations SET input = '{}'", "invocations"),
        ("UPDATE invocations SET provider = 'q'", "invocations"),
        ("UPDATE invocations SET state = 'open', settled_by = NULL", "invocations"),
        ("UPDATE invocations SET state = 'failed', error = 'x'", "invocations"),
        ("UPDATE invocations SET id = id || 'x'", "invocations"),
        ("UPDATE invocations SET event = 'x'", "invocations"),
        ("DELETE FROM invocations", "invocations"),
        ('UPDATE providers SET registration = \'{"id":"p"}\'', "providers"),
        ("UPDATE providers SET state = 'expelled'", "providers"),
        ("UPDATE providers SET event = 'registry:9'", "providers"),
        ("UPDATE providers SET id = 'q'", "providers"),
        ("DELETE FROM providers", "providers"),
    ],
)
def test_tables_are_compared_with_the_events(used: Ledger, statement: str, table: str) -> None:
    assert audited(used) == {}
    edit(used, statement)
    assert table in audited(used)


def test_a_table_that_cannot_be_read_is_reported_by_its_name(ledger: Ledger) -> None:
    fill(ledger)
    edit(ledger, "DROP TABLE cost_hours", "DROP TABLE invocations")
    assert audited(ledger) == {"cost_hours": "edited", "invocations": "edited"}


def test_rows_of_archived_events_are_unproven(used: Ledger, keyring: Keyring, tmp_path: Path) -> None:
    archive(used, "invocations/r", tmp_path / "a.jsonl.gz", signer=keyring, drop=True)
    reports = {name: verify_envelope(used, name) for name in used.envelope_names()}
    tables = {report.table: report for report in verify_tables(used, reports, complete=True)}
    assert all(report.ok for report in tables.values())
    assert (tables["costs"].rows, tables["costs"].unproven) == (0, 5)
    assert (tables["invocations"].rows, tables["invocations"].unproven) == (0, 3)


def test_an_import_fills_only_the_tables_of_costs(used: Ledger, lite: Ledger) -> None:
    for name in ("invocations/r", "registry"):
        lines = list(export_lines(used, name))
        import_export(lite, lambda lines=lines: lines)  # type: ignore[misc]
    assert audited(lite) == {}
    edit(lite, "DELETE FROM costs")
    assert audited(lite) == {"costs": "dropped", "cost_hours": "edited"}


def test_rows_written_during_verification_are_no_contradiction(ledger: Ledger) -> None:
    spend(ledger, CostRecord((usd(1),)))
    reports: dict[str, VerifyReport] = {"run-1": verify_envelope(ledger, "run-1")}
    spend(ledger, CostRecord((usd(1),)))
    assert all(report.ok for report in verify_tables(ledger, reports, complete=True))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET sequence = 3.5 WHERE sequence = 3",
        "UPDATE events SET sequence = 'abc' WHERE sequence = 3",
        "UPDATE events SET payload = x'ff00' WHERE sequence = 3",
        "UPDATE events SET hash = x'ff' WHERE sequence = 5",
        "UPDATE events SET time = 'abc' WHERE sequence = 3",
        "UPDATE events SET cause = 5 WHERE sequence = 3",
        "UPDATE events SET payload = '{' WHERE sequence = 3",
        "UPDATE events SET type = CAST(x'ff' AS TEXT) WHERE sequence = 3",
        "UPDATE envelopes SET kind = x'ff'",
        "UPDATE envelopes SET archived = 'yes'",
        "UPDATE checkpoints SET sequence = 'z'",
        "UPDATE checkpoints SET signature = x'00'",
        "UPDATE checkpoints SET time = 'z'",
        "UPDATE signers SET keys = '{'",
        "UPDATE signers SET keys = '[1]'",
    ],
)
def test_values_of_the_wrong_type_are_reported(lite: Ledger, keyring: Keyring, statement: str) -> None:
    lite.write(lambda tx: tx.open_envelope("run-1", "run", ""))
    lite.append(*(draft(number=number) for number in range(5)))
    lite.checkpoint("run-1", keyring)
    edit(lite, statement)
    broken = audited(lite)
    assert broken["run-1"] in ("edited", "forged checkpoint", "unknown key")
    for reading in (
        lambda: lite.events("run-1"),
        lambda: lite.latest_events(10),
        lambda: lite.envelopes(),
        lambda: list(export_lines(lite, "run-1")),
    ):
        with contextlib.suppress(LedgerError):  # and nothing else
            reading()


def test_reading_an_edited_event_raises(lite: Ledger) -> None:
    lite.append(Draft("run-1", "run.started", {}))
    edit(lite, "UPDATE events SET payload = '[1]'")
    with pytest.raises(LedgerError, match="event 'run-1:1' was edited in the store"):
        lite.event("run-1:1")

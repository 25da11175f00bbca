"""A store that was edited behind the ledger's back: each edit is named, none is raised."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from modelpact.identity import Keyring
from modelpact.ledger import (
    CostRecord,
    Draft,
    Ledger,
    LedgerError,
    archive,
    export_lines,
    import_export,
)
from modelpact.ledger.verify.audit import verify_envelope
from modelpact.ledger.verify.report import VerifyReport
from modelpact.ledger.verify.tables import verify_tables
from modelpact.providers.contract import Invocation, Offer, Registration, Reply
from modelpact.providers.runtime.runtime import Runtime
from modelpact.providers.transport import Partial
from tests.ledger.support import draft, fill
from tests.ledger.test_costs import spend, usd


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
    for one in statements:
        ledger.write(lambda tx, one=one: tx.execute(one))  # type: ignore[misc]


def audited(ledger: Ledger, keyring: Keyring | None = None) -> dict[str, str]:
    """Return what is broken, by envelope or table."""
    keys = None if keyring is None else keyring.public_keys
    reports = {name: verify_envelope(ledger, name, keys) for name in ledger.envelope_names()}
    tables = verify_tables(ledger, reports, complete=True)
    told: list[tuple[str, Any]] = [*reports.items(), *((one.table, one) for one in tables)]
    return {name: one.broken.kind for name, one in told if one.broken is not None}


def test_an_end_that_is_cut_off_is_missed_by_its_checkpoint(
    signed: Ledger, keyring: Keyring
) -> None:
    assert audited(signed, keyring) == {}
    edit(signed, "DELETE FROM events WHERE envelope = 'run-1' AND sequence > 4")
    for keys in (keyring, None):
        assert audited(signed, keys) == {"run-1": "truncated"}


def test_an_envelope_that_is_gone_is_missed_by_its_checkpoints(
    signed: Ledger, keyring: Keyring
) -> None:
    edit(signed, "DELETE FROM events WHERE envelope = 'run-1'")
    assert audited(signed, keyring) == {"run-1": "truncated"}
    edit(signed, "DELETE FROM checkpoints WHERE envelope = 'run-1'")
    assert audited(signed, keyring) == {"run-1": "unsigned"}
    edit(signed, "UPDATE envelopes SET archived = 1 WHERE id = 'run-1'")
    assert audited(signed) == {"run-1": "truncated"}


def test_what_was_not_archived_cannot_pass_for_it(signed: Ledger, keyring: Keyring) -> None:
    edit(signed, "UPDATE envelopes SET archived = 1 WHERE id = 'run-1'")
    assert audited(signed, keyring) == {"run-1": "edited"}
    edit(signed, "DELETE FROM events WHERE envelope = 'run-1' AND sequence < 10")
    assert audited(signed, keyring) == {"run-1": "dropped"}
    edit(signed, "UPDATE events SET payload = '{}' WHERE envelope = 'run-1'")
    assert audited(signed, keyring) == {"run-1": "edited"}


def test_what_an_archive_left_is_verified(signed: Ledger, keyring: Keyring, tmp_path: Path) -> None:
    archive(signed, "run-1", tmp_path / "run-1.jsonl.gz", signer=keyring, drop=True)
    report = verify_envelope(signed, "run-1", keyring.public_keys)
    assert (report.ok, report.archived, report.first, report.signed) == (True, True, 11, 11)
    assert audited(signed, keyring) == {}
    assert audited(signed, Keyring.init(tmp_path / "other"))["run-1"] == "dropped"
    edit(signed, "UPDATE events SET payload = '{}' WHERE envelope = 'run-1'")
    assert audited(signed, keyring) == {"run-1": "edited"}
    edit(signed, "DELETE FROM checkpoints WHERE envelope = 'run-1' AND sequence = 11")
    assert audited(signed)["run-1"] == "edited"


def test_an_archive_without_its_signature_is_not_believed(
    signed: Ledger, keyring: Keyring, tmp_path: Path
) -> None:
    archive(signed, "run-1", tmp_path / "run-1.jsonl.gz", signer=keyring, drop=True)
    edit(signed, "DELETE FROM checkpoints WHERE envelope = 'run-1'")
    assert audited(signed) == {"run-1": "dropped"}


class Answering:
    """A provider that answers."""

    async def send(self, registration: Registration, invocation: Invocation) -> Reply:
        cost = ({"unit": "currency", "amount": 10**9, "currency": "USD"},)
        return Reply(invocation.id, {"answer": "no"}, "", cost)  # type: ignore[arg-type]

    def stream(
        self, registration: Registration, invocation: Invocation
    ) -> AsyncIterator[Partial | Reply]:
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
def test_what_users_read_is_held_against_the_events(
    used: Ledger, statement: str, table: str
) -> None:
    assert audited(used) == {}
    edit(used, statement)
    assert table in audited(used)


def test_tables_of_an_archive_rest_on_it(used: Ledger, keyring: Keyring, tmp_path: Path) -> None:
    archive(used, "invocations/r", tmp_path / "a.jsonl.gz", signer=keyring, drop=True)
    reports = {name: verify_envelope(used, name) for name in used.envelope_names()}
    tables = {one.table: one for one in verify_tables(used, reports, complete=True)}
    assert all(one.ok for one in tables.values())
    assert (tables["costs"].rows, tables["costs"].unproven) == (0, 5)
    assert (tables["invocations"].rows, tables["invocations"].unproven) == (0, 3)


def test_an_import_brings_no_tables_but_costs(used: Ledger, lite: Ledger) -> None:
    for name in ("invocations/r", "registry"):
        lines = list(export_lines(used, name))
        import_export(lite, lambda lines=lines: lines)  # type: ignore[misc]
    assert audited(lite) == {}
    edit(lite, "DELETE FROM costs")
    assert audited(lite) == {"costs": "dropped", "cost_hours": "edited"}


def test_what_is_written_meanwhile_is_no_contradiction(ledger: Ledger) -> None:
    spend(ledger, CostRecord((usd(1),)))
    reports: dict[str, VerifyReport] = {"run-1": verify_envelope(ledger, "run-1")}
    spend(ledger, CostRecord((usd(1),)))
    assert all(one.ok for one in verify_tables(ledger, reports, complete=True))


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
def test_values_of_other_types_are_named(lite: Ledger, keyring: Keyring, statement: str) -> None:
    lite.write(lambda tx: tx.open_envelope("run-1", "run", ""))
    lite.append(*(draft(number=number) for number in range(5)))
    lite.checkpoint("run-1", keyring)
    edit(lite, statement)
    found = audited(lite)
    assert found["run-1"] in ("edited", "forged checkpoint", "unknown key")
    for reading in (
        lambda: lite.events("run-1"),
        lambda: lite.latest_events(10),
        lambda: lite.envelopes(),
        lambda: list(export_lines(lite, "run-1")),
    ):
        with contextlib.suppress(LedgerError):  # and nothing else
            reading()


def test_an_event_that_was_edited_is_named_when_it_is_read(lite: Ledger) -> None:
    lite.append(Draft("run-1", "run.started", {}))
    edit(lite, "UPDATE events SET payload = '[1]'")
    with pytest.raises(LedgerError, match="event 'run-1:1' was edited in the store"):
        lite.event("run-1:1")

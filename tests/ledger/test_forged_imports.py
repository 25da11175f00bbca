"""Forged imports and archives: unsigned events, foreign costs, overwritten files, extra keys."""

import hashlib
import secrets
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelpact.identity import Keyring
from modelpact.ledger import (
    CostLine,
    CostRecord,
    Draft,
    Ledger,
    LedgerError,
    NotVerified,
    archive,
    export_lines,
    import_export,
    verify_export,
)
from modelpact.ledger.canonical import canonical
from modelpact.ledger.cost_tables import cost_totals
from modelpact.ledger.event import event_body
from modelpact.ledger.verify.export import EVENT_START, read_export, with_hash
from tests.ledger.support import draft, fill, only, spend, usd, verified


def extended(lines: list[bytes], *drafts: Draft) -> list[bytes]:
    """Add unsigned events to an export, with a header that matches."""
    header = msgspec.json.decode(lines[0])
    last = msgspec.json.decode([line for line in lines if line.startswith(EVENT_START)][-1])
    number, previous, more = last["sequence"], last["hash"], []
    for addition in drafts:
        number += 1
        payload = canonical(addition.payload)
        when = int(last["time"])
        more.append(
            with_hash(event_body(last["envelope"], number, addition.type, when, addition.cause, payload, previous))
        )
        previous = msgspec.json.decode(more[-1])["hash"]
    header.update(events=number, head=previous)
    del header["hash"]
    return [with_hash(canonical(header)), *lines[1:], *more]


def charge(nano: int, **more: Any) -> Draft:
    record = CostRecord((CostLine("currency", nano, "USD"),), **more)
    return Draft("run-1", "capability.completed", {"cost": record.to_json()})


def test_with_keys_only_signed_events_are_imported(ledger: Ledger, lite: Ledger, keyring: Keyring) -> None:
    fill(ledger, count=3)
    ledger.checkpoint("run-1", keyring)
    forged = extended(list(export_lines(ledger, "run-1")), charge(7), draft())
    keys = keyring.public_keys
    done = import_export(lite, lambda: forged, keys)
    assert (done.added, done.existing, done.skipped) == (3, 0, 2)
    assert cost_totals(lite, "provider") == []
    again = import_export(lite, lambda: forged, keys, allow_unsigned=True)
    assert (again.added, again.existing, again.skipped) == (2, 3, 0)
    assert verified(lite).events == 5


def test_an_import_does_not_extend_an_envelope_of_this_store(ledger: Ledger, keyring: Keyring) -> None:
    """The next checkpoint of the runtime would sign the forged events."""
    fill(ledger, count=3)
    ledger.checkpoint("run-1", keyring)
    genuine = list(export_lines(ledger, "run-1"))
    forged = extended(genuine, charge(7))
    with pytest.raises(LedgerError, match="written by this store, up to event 3"):
        import_export(ledger, lambda: forged, keyring.public_keys, allow_unsigned=True)
    assert import_export(ledger, lambda: genuine, keyring.public_keys).existing == 3
    assert verified(ledger).events == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"corrects": "run-2:1", "lines": [{"unit": "currency", "amount": 0, "currency": "USD"}]},
        {"lines": [{"unit": "currency", "amount": -(10**12), "currency": "USD"}]},
        {"lines": [{"unit": "discrete", "amount": 1}] * 2},
    ],
)
def test_an_import_cannot_change_costs_of_other_envelopes(ledger: Ledger, lite: Ledger, wrong: dict[str, Any]) -> None:
    spend(lite, CostRecord((usd(5_000),)), "run-2")
    fill(ledger, count=1_500)
    ledger.append(Draft("run-1", "cost.corrected", {"cost": wrong}))
    lines = list(export_lines(ledger, "run-1"))
    with pytest.raises(NotVerified, match="cannot be imported"):
        import_export(lite, lambda: lines)
    assert only(cost_totals(lite, "provider")).money == 5_000
    assert lite.envelope("run-1") is None  # everything is checked before anything is imported


@pytest.mark.parametrize(
    "wrong", [{"time": 5}, {"time": "-5"}, {"time": "+5"}, {"time": "1" * 20}, {"time": None}, {"more": 1}]
)
def test_an_import_reads_events_only_in_their_canonical_form(
    ledger: Ledger, lite: Ledger, wrong: dict[str, Any]
) -> None:
    fill(ledger, count=1)
    header, line = export_lines(ledger, "run-1")
    event = msgspec.json.decode(line)
    del event["hash"]
    forged = with_hash(canonical(event | wrong))
    fields = msgspec.json.decode(header) | {"head": msgspec.json.decode(forged)["hash"]}
    del fields["hash"]
    lines = [with_hash(canonical(fields)), forged]
    assert verify_export(lines).ok  # the chain is intact, and only an import reads all fields
    with pytest.raises(NotVerified, match="cannot be imported"):
        import_export(lite, lambda: lines)
    assert lite.envelope("run-1") is None


def test_totals_ignore_what_a_correction_claims_to_replace(ledger: Ledger, lite: Ledger) -> None:
    first = spend(ledger, CostRecord((usd(100),)))
    spend(ledger, CostRecord((usd(80),), corrects=first.id, replaced=(usd(10**15),)))
    lines = list(export_lines(ledger, "run-1"))
    import_export(lite, lambda: lines)
    assert only(cost_totals(lite, "provider")).money == 80


def test_an_archive_of_another_envelope_is_not_overwritten(ledger: Ledger, keyring: Keyring, tmp_path: Path) -> None:
    file = tmp_path / "archive.jsonl.gz"
    for name in ("run-1", "run-2"):
        fill(ledger, name)
    archive(ledger, "run-1", file, signer=keyring, drop=True)
    before = file.read_bytes()
    with pytest.raises(LedgerError, match=r"not the archive of run-2.*nothing was changed"):
        archive(ledger, "run-2", file, signer=keyring, drop=True)
    assert file.read_bytes() == before
    assert verified(ledger, "run-2").events == 5
    assert not verified(ledger, "run-2").archived
    own = tmp_path / "run-2.jsonl.gz"
    archive(ledger, "run-2", own, signer=keyring)
    assert archive(ledger, "run-2", own, signer=keyring, drop=True).events == 6
    assert import_export(ledger, lambda: read_export(file), keyring.public_keys).added == 5


def test_events_are_dropped_only_if_the_archive_is_signed(ledger: Ledger, tmp_path: Path) -> None:
    fill(ledger)
    with pytest.raises(LedgerError, match="signed"):
        archive(ledger, "run-1", tmp_path / "run-1.jsonl.gz", drop=True)
    assert not (tmp_path / "run-1.jsonl.gz").exists()
    assert verified(ledger).events == 5


def unknown_keys() -> dict[str, Any]:
    raw = secrets.token_bytes(32)
    key = {
        "key_id": hashlib.sha256(raw).hexdigest()[:16],
        "algorithm": "ed25519",
        "public_key": raw.hex(),
        "created": "2026-01-01T00:00:00Z",
        "handover": None,
    }
    return {"format": "modelpact-public-keys/1", "keys": [key]}


def test_keys_that_signed_nothing_are_not_stored(ledger: Ledger, lite: Ledger, keyring: Keyring) -> None:
    fill(lite, "mine", 1)
    lite.checkpoint("mine", keyring)
    fill(ledger, count=1)
    header, event = export_lines(ledger, "run-1")
    fields = msgspec.json.decode(header)
    del fields["hash"]
    fields["keys"] = [unknown_keys() for _ in range(50)]
    lines = [with_hash(canonical(fields)), event]
    import_export(lite, lambda: lines)
    assert len(lite.signer_keys()) == 1
    assert len(msgspec.json.decode(next(export_lines(lite, "mine")))["keys"]) == 1


def test_an_export_contains_only_the_keys_of_its_checkpoints(ledger: Ledger, tmp_path: Path) -> None:
    for number in range(3):
        fill(ledger, f"run-{number}", 1)
        ledger.checkpoint(f"run-{number}", Keyring.init(tmp_path / str(number)))
    assert len(msgspec.json.decode(next(export_lines(ledger, "run-1")))["keys"]) == 1

"""Exports: verification detects any single change, offline, with only the public keys."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.identity import Keyring
from modelpact.identity.keys import SigningKey
from modelpact.ledger import (
    Draft,
    ExpectedHead,
    Ledger,
    LedgerError,
    NotVerified,
    VerifyReport,
    archive,
    export_lines,
    import_export,
    verify_export,
)
from modelpact.ledger.canonical import canonical
from modelpact.ledger.checkpoint import sign_checkpoint
from modelpact.ledger.event import event_hash
from modelpact.ledger.verify.export import hashed_line, read_export, write_export
from tests.ledger.support import draft, fill, verified

COUNT = 9


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, keyring: Keyring) -> list[bytes]:
    """An export with a checkpoint after every fourth event and after the last."""
    path = tmp_path_factory.mktemp("export") / "ledger.db"
    with Ledger.open(f"sqlite:{path}", signer=keyring, checkpoint_every=4) as ledger:
        ledger.write(lambda tx: tx.open_envelope("run-1", "run", "a test"))
        for number in range(COUNT):
            ledger.append(draft(number=number, text="é€😀", nested={"a": [1, {"b": None}]}))
    with Ledger.open(f"sqlite:{path}") as ledger:
        return list(export_lines(ledger, "run-1"))


def check(lines: list[bytes], keys: Keyring, **more: Any) -> VerifyReport:
    return verify_export(lines, keys.public_keys, **more)


def broken_kind(lines: list[bytes], keys: Keyring, **more: Any) -> str:
    """Return the kind of the first broken link."""
    report = check(lines, keys, **more)
    assert report.broken is not None
    return report.broken.kind


def test_an_export_verifies_with_the_public_keys_alone(exported: list[bytes], keyring: Keyring) -> None:
    report = check(exported, keyring)
    assert report.ok
    assert (report.events, report.checkpoints, report.signed) == (COUNT, 3, COUNT)
    assert (report.kind, report.subject, report.keys) == ("run", "a test", (keyring.key_id,))
    assert report.trusted
    assert not verify_export(exported).trusted
    assert check([line.decode() for line in exported], keyring).ok  # type: ignore[misc]
    assert check([line.rstrip(b"\n") for line in exported], keyring).ok


def test_every_line_is_json(exported: list[bytes]) -> None:
    parsed = [json.loads(line) for line in exported]
    assert parsed[0]["format"] == "modelpact-audit/1"
    assert sum("checkpoint" in line for line in parsed) == 3


@given(data=st.data())
def test_any_edit_is_reported(exported: list[bytes], keyring: Keyring, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(exported) - 1))
    line = exported[index]
    at = data.draw(st.integers(0, len(line) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value not in (line[at], 10)))
    edited = [*exported]
    edited[index] = line[:at] + bytes([byte]) + line[at + 1 :]
    report = check(edited, keyring)
    assert report.broken is not None
    allowed = {"edited"}
    if b'"checkpoint":' in line or b"checkpoint" in edited[index]:
        allowed |= {"forged checkpoint", "unknown key"}
    if index == 0:
        allowed |= {"dropped"}
    assert report.broken.kind in allowed
    assert report.broken.line == index + 1


@given(data=st.data())
def test_any_insertion_into_a_line_is_reported(exported: list[bytes], keyring: Keyring, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(exported) - 1))
    line = exported[index]
    at = data.draw(st.integers(0, len(line) - 1))
    text = data.draw(st.binary(min_size=1, max_size=3).filter(lambda text: b"\n" not in text))
    edited = [*exported]
    edited[index] = line[:at] + text + line[at:]
    assert not check(edited, keyring).ok


def test_a_checkpoint_has_one_valid_form(exported: list[bytes], keyring: Keyring) -> None:
    index, line = next((number, line) for number, line in enumerate(exported) if b'{"checkpoint":' in line)
    start = line.index(b'"signature":"') + len(b'"signature":"')
    for edited in (
        line.replace(b'":', b'": ', 2),
        line.replace(b",", b" ,", 1),
        line[: start + 2] + b" " + line[start + 2 :],
        line[:start] + line[start:].upper().replace(b'"TIME"', b'"time"'),
    ):
        assert edited != line
        assert not check([*exported[:index], edited, *exported[index + 1 :]], keyring).ok


@given(data=st.data())
def test_any_missing_line_is_reported(exported: list[bytes], keyring: Keyring, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(exported) - 1))
    kind = broken_kind(exported[:index] + exported[index + 1 :], keyring)
    assert kind == ("truncated" if index >= len(exported) - 2 else "dropped")


@given(data=st.data())
def test_any_swap_is_reported(exported: list[bytes], keyring: Keyring, data: st.DataObject) -> None:
    places = st.integers(0, len(exported) - 1)
    first, second = data.draw(st.tuples(places, places).filter(lambda pair: pair[0] != pair[1]))
    swapped = [*exported]
    swapped[first], swapped[second] = swapped[second], swapped[first]
    assert broken_kind(swapped, keyring) == "reordered"


@given(data=st.data())
def test_any_duplication_is_reported(exported: list[bytes], keyring: Keyring, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(exported) - 1))
    target = data.draw(st.integers(1, len(exported)))
    twice = [*exported[:target], exported[index], *exported[target:]]
    assert broken_kind(twice, keyring) == "duplicated"


@given(data=st.data())
def test_any_truncation_is_reported(exported: list[bytes], keyring: Keyring, data: st.DataObject) -> None:
    content = b"".join(exported)
    cut = content[: data.draw(st.integers(0, len(content) - 2))]
    assert broken_kind(cut.splitlines(keepends=True), keyring) == "truncated"


def test_the_first_broken_link_is_reported(exported: list[bytes], keyring: Keyring) -> None:
    lines = [*exported]
    lines[3] = lines[3].replace(b'"number":2', b'"number":7')
    del lines[7]
    report = check(lines, keyring)
    assert report.broken is not None
    assert (report.broken.kind, report.broken.event, report.broken.line) == ("edited", "run-1:3", 4)
    assert report.events == 2


def rehash(line: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Change an event and recompute its hash, as a forger would."""
    fields = msgspec.json.decode(line)
    del fields["hash"]
    change(fields)
    body = canonical(fields)
    parts = (fields["cause"], canonical(fields["payload"]), fields["previous"])
    digest = event_hash(fields["envelope"], fields["sequence"], fields["type"], int(fields["time"]), *parts)
    return hashed_line(body, digest)


def test_a_recomputed_hash_breaks_the_next_link(exported: list[bytes], keyring: Keyring) -> None:
    lines = [*exported]
    lines[2] = rehash(lines[2], lambda fields: fields["payload"].update(number=99))
    report = check(lines, keyring)
    assert report.broken is not None
    assert (report.broken.kind, report.broken.event) == ("edited", "run-1:2")


def test_a_recomputed_chain_breaks_at_the_checkpoint(exported: list[bytes], keyring: Keyring) -> None:
    lines, previous = [*exported], None
    for index, line in enumerate(lines):
        if not line.startswith(b'{"cause"'):
            continue

        def change(fields: dict[str, Any], previous: str | None = previous) -> None:
            fields["payload"]["number"] = 7
            fields["previous"] = previous or fields["previous"]

        lines[index] = rehash(line, change)
        previous = json.loads(lines[index])["hash"]
    report = check(lines, keyring)
    assert report.broken is not None
    assert (report.broken.kind, report.broken.event) == ("edited", "run-1:4")


def test_events_must_belong_to_the_envelope_of_the_header(exported: list[bytes], keyring: Keyring) -> None:
    lines = [*exported]
    lines[1] = rehash(lines[1], lambda fields: fields.update(envelope="run-2"))
    assert broken_kind(lines, keyring) == "edited"


def test_forged_checkpoints_and_unknown_keys_are_reported(exported: list[bytes], keyring: Keyring) -> None:
    stranger = SigningKey.generate()
    index = next(n for n, line in enumerate(exported) if line.startswith(b'{"checkpoint":'))
    event = json.loads(exported[index - 1])
    fields = ("run-1", event["sequence"], event["hash"], int(event["time"]))
    forged = sign_checkpoint(stranger, *fields)
    lines = [*exported]
    lines[index] = forged.line()
    assert broken_kind(lines, keyring) == "unknown key"
    posing = msgspec.structs.replace(forged, key_id=keyring.key_id)
    lines[index] = posing.line()
    assert broken_kind(lines, keyring) == "forged checkpoint"
    moved = sign_checkpoint(keyring, "run-2", *fields[1:])
    lines[index] = moved.line()
    assert broken_kind(lines, keyring) == "forged checkpoint"


def test_an_export_of_another_keyring_has_an_unknown_key(exported: list[bytes], tmp_path: Path) -> None:
    assert broken_kind(exported, Keyring.init(tmp_path / "other")) == "unknown key"


def test_an_expected_head_detects_an_end_cut_off_with_its_checkpoints(lite: Ledger, keyring: Keyring) -> None:
    """The end is missing, and the header was made to match."""
    fill(lite, count=3)
    lite.checkpoint("run-1", keyring)
    short = list(export_lines(lite, "run-1"))
    *_, last = fill(lite, count=3)
    lite.checkpoint("run-1", keyring)
    assert check(short, keyring).ok
    known = ExpectedHead(last.sequence, last.hash)
    assert broken_kind(short, keyring, expected=known) == "truncated"
    longer = list(export_lines(lite, "run-1"))
    assert check(longer, keyring, expected=known).ok
    assert broken_kind(longer, keyring, expected=ExpectedHead(2, "0" * 64)) == "edited"


def test_a_checkpoint_beyond_the_last_event_means_truncated(lite: Ledger, keyring: Keyring) -> None:
    """The end is missing, and the header was made to match."""
    fill(lite, count=3)
    header, *events = export_lines(lite, "run-1")
    fill(lite, count=3)
    signed = lite.checkpoint("run-1", keyring)
    assert broken_kind([header, *events, signed.line()], keyring) == "truncated"


def test_an_unsigned_export_is_not_proven(lite: Ledger, keyring: Keyring) -> None:
    fill(lite)
    lines = list(export_lines(lite, "run-1"))
    assert verify_export(lines).ok
    assert broken_kind(lines, keyring) == "unsigned"


def test_checkpoints_are_signed_at_intervals_and_on_closing(ledger: Ledger, keyring: Keyring) -> None:
    with Ledger.open(ledger.store.url, signer=keyring, checkpoint_every=10) as signing:
        for _ in range(5):
            fill(signing, count=5)
        fill(signing, "other", count=1)
        assert [checkpoint.sequence for checkpoint in signing.checkpoints("run-1")] == [10, 20]
        assert signing.checkpoint("run-1") == signing.checkpoints("run-1")[-1]
        fill(signing, count=1)
    assert [checkpoint.sequence for checkpoint in ledger.checkpoints("run-1")] == [10, 20, 25, 26]
    assert [checkpoint.sequence for checkpoint in ledger.checkpoints("other")] == [1]
    assert check(list(export_lines(ledger, "run-1")), keyring).signed == 26


def test_a_checkpoint_needs_a_key_and_events(ledger: Ledger, keyring: Keyring) -> None:
    with pytest.raises(LedgerError, match="no key"):
        ledger.checkpoint("run-1")
    with pytest.raises(LedgerError, match="no events"):
        ledger.checkpoint("run-1", keyring)


def test_an_import_is_idempotent_and_can_be_continued(ledger: Ledger, lite: Ledger, keyring: Keyring) -> None:
    fill(ledger, count=5)
    ledger.checkpoint("run-1", keyring)
    before = list(export_lines(ledger, "run-1"))
    keys = keyring.public_keys
    assert import_export(lite, lambda: before, keys).added == 5
    again = import_export(lite, lambda: before, keys)
    assert (again.added, again.existing) == (0, 5)
    fill(ledger, count=2_500)
    ledger.checkpoint("run-1", keyring)
    after = list(export_lines(ledger, "run-1"))
    assert import_export(lite, lambda: after, keys).added == 2_500
    assert import_export(lite, lambda: before, keys).added == 0
    assert list(export_lines(lite, "run-1")) == after
    assert fill(lite, count=1)[0].sequence == 2_506
    assert verified(lite).events == 2_506


def test_an_import_refuses_an_export_that_does_not_verify(
    ledger: Ledger, exported: list[bytes], keyring: Keyring
) -> None:
    keys = keyring.public_keys
    for lines in (exported[:-1], exported[::-1], [], [b"{}\n"], [b"\xff\n"]):
        with pytest.raises(NotVerified, match="refused"):
            import_export(ledger, lambda lines=lines: lines, keys)  # type: ignore[misc]
    assert ledger.envelopes() == []


def test_an_import_refuses_an_export_that_contradicts_the_store(
    ledger: Ledger, exported: list[bytes], keyring: Keyring
) -> None:
    fill(ledger, count=2)
    with pytest.raises(NotVerified, match="edited"):
        import_export(ledger, lambda: exported, keyring.public_keys)
    assert verified(ledger).events == 2


def test_an_archive_keeps_verifying_after_rotations(url: str, tmp_path: Path) -> None:
    """Old keys stay in the list of public keys, with the rotations to new ones."""
    keyring = Keyring.init(tmp_path / "own")
    trusted = keyring.public_keys
    file = tmp_path / "archive" / "run-1.jsonl.gz"
    with Ledger.open(url, signer=keyring, checkpoint_every=4) as ledger:
        fill(ledger, count=6)
        keyring.rotate()
        report = archive(ledger, "run-1", file, signer=keyring, drop=True, reason="done")
        assert (report.events, report.signed, report.archived) == (7, 7, True)
        assert len(report.keys) == 2
        assert [event.sequence for event in ledger.events("run-1")] == [7]
        with pytest.raises(LedgerError, match="archive"):
            list(export_lines(ledger, "run-1"))
        with pytest.raises(LedgerError, match="archived"):
            fill(ledger)
        keyring.rotate()
        assert verify_export(read_export(file), keyring.public_keys).ok
        assert verify_export(read_export(file), trusted).ok  # the export contains the rotations
        assert archive(ledger, "run-1", file, signer=keyring, drop=True).ok
        assert import_export(ledger, lambda: read_export(file), trusted).added == 6
        assert verified(ledger).events == 7


def test_interrupted_archiving_can_be_finished(lite: Ledger, keyring: Keyring, tmp_path: Path) -> None:
    fill(lite, count=6)
    lite.append(Draft("run-1", "envelope.archived", {}))
    file = tmp_path / "run-1.jsonl.gz"
    archive(lite, "run-1", file, signer=keyring)
    lite.write(lambda tx: tx.execute("DELETE FROM events WHERE sequence < 4"))
    assert archive(lite, "run-1", file, signer=keyring, drop=True).events == 7
    assert [event.sequence for event in lite.events("run-1")] == [7]


def test_a_compressed_file_that_is_cut_or_damaged_is_reported(
    exported: list[bytes], keyring: Keyring, tmp_path: Path
) -> None:
    file = tmp_path / "run.jsonl.gz"
    write_export(file, exported)
    packed = file.read_bytes()
    assert gzip.decompress(packed) == b"".join(exported)
    for cut in range(20, len(packed) - 20, 97):
        file.write_bytes(packed[:cut])
        assert broken_kind(list(read_export(file)), keyring) == "truncated"
    middle = len(packed) // 2
    file.write_bytes(packed[:middle] + bytes([packed[middle] ^ 255]) + packed[middle + 1 :])
    assert not verify_export(read_export(file), keyring.public_keys).ok


def test_a_file_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    write_export(file, [b"old\n"])

    def failing() -> Any:
        yield b"new\n"
        raise LedgerError("gone")

    with pytest.raises(LedgerError, match="gone"):
        write_export(file, failing())
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]
    assert file.read_bytes() == b"old\n"
    with pytest.raises(LedgerError, match="cannot be written"):
        write_export(tmp_path / "run.jsonl" / "below", [])

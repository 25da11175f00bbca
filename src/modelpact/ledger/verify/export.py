"""Exports: an envelope as JSON lines that anyone can verify offline.

An export is a header, then each event as its canonical JSON with its hash at the end, and after an
event the checkpoints that sign it. The hash of a line covers the line without the hash.
"""

import gzip
import hashlib
import zlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from modelpact.ledger.canonical import MAX_SAFE_INTEGER, NotCanonical, canonical
from modelpact.ledger.checkpoint import Checkpoint
from modelpact.ledger.errors import LedgerError
from modelpact.ledger.event import GENESIS, event_body
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.base import Row
from modelpact.vocabulary.errors import InputError

FORMAT: Final = "modelpact-audit/1"
EVENT_START: Final = b'{"cause":'
HEADER_START: Final = b'{"checkpoints":'
CHECKPOINT_START: Final = b'{"checkpoint":'
_HASH_START: Final = b',"hash":"'
_HASH_LENGTH: Final = len(_HASH_START) + 64 + len(b'"}')
_HASH_SLICE: Final = slice(-_HASH_LENGTH, -_HASH_LENGTH + len(_HASH_START))
_DAMAGED: Final = b"damaged\n"
"""Stands for a line that cannot be written or read. Verification names its place."""
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024


class ExportHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line: what the envelope is, and how much of it follows."""

    checkpoints: int
    envelope: str
    events: int
    format: str
    head: str
    """The hash of the last event."""
    keys: list[dict[str, Any]]
    """The public keys of the signers, each list with its rotations."""
    kind: str
    signed: int
    """The sequence number of the last event that a checkpoint signs, or 0."""
    subject: str
    hash: str = ""


class LinkedEvent(msgspec.Struct):
    """The fields that link an event to its neighbours. The rest is not decoded."""

    envelope: str
    sequence: int
    type: str
    previous: str
    hash: str


decode_event: Final = msgspec.json.Decoder(LinkedEvent).decode


def export_lines(reader: LedgerReader, envelope: str) -> Iterator[bytes]:
    """Yield the lines of an envelope, up to the event that is the last when this starts.

    Every checkpoint is included: one that signs a missing event shows that the event is missing.
    Checkpoints are read before the events, so that each has its event.
    """
    checkpoints = reader.checkpoints(envelope)
    info = reader.envelope(envelope)
    ends = reader.read(
        "SELECT sequence, hash FROM events WHERE envelope = ? ORDER BY sequence DESC LIMIT 1", (envelope,)
    )
    if not ends or info is None:
        raise LedgerError(f"there is no envelope {envelope!r:.80} in {reader.store.url}")
    (first,) = reader.event_rows(envelope, limit=1)
    if first[1] != 1 and info.archived is not None:
        raise LedgerError(f"{envelope} is archived and its events are only in the archive")
    last, head = ends[0]
    if type(last) is not int or type(head) is not str:
        last, head = MAX_SAFE_INTEGER, GENESIS  # it was edited: go on until the reader notices
    waiting = deque(map(_checkpoint_line, checkpoints))
    header = ExportHeader(
        checkpoints=len(waiting),
        envelope=envelope,
        events=last,
        format=FORMAT,
        head=head,
        keys=find_signer_keys(reader, {checkpoint.key_id for checkpoint in checkpoints}),
        kind=info.kind,
        signed=waiting[-1][0] if waiting else 0,
        subject=info.subject,
    )
    fields = msgspec.to_builtins(header)
    del fields["hash"]
    yield with_hash(canonical(fields))
    for row in reader.iter_event_rows(envelope):
        line, sequence = event_line(row), row[1]
        if line is _DAMAGED:
            yield line
            return
        if sequence > last:
            break
        yield line
        while waiting and waiting[0][0] <= sequence:
            yield waiting.popleft()[1]
        if sequence == last:
            break
    for _, line in waiting:
        yield line


def find_signer_keys(reader: LedgerReader, key_ids: Collection[str]) -> list[dict[str, Any]]:
    """Return the stored lists of public keys that contain one of these keys."""
    matches = []
    for text in reader.signer_keys():
        try:
            keys = msgspec.json.decode(text)
            if any(key["key_id"] in key_ids for key in keys["keys"]):
                canonical(keys)
                matches.append(keys)
        except (ValueError, TypeError, LookupError, RecursionError):
            continue  # it was edited: checkpoints of these keys then have no known signer
    return matches


def event_line(row: Row) -> bytes:
    """Return the line of an event from its row, or a damaged line if the row is not an event."""
    envelope, sequence, kind, time, cause, payload, previous, digest = row
    if type(sequence) is not int or type(time) is not int:
        return _DAMAGED
    try:
        body = event_body(envelope, sequence, kind, time, cause, payload.encode(), previous)
        return hashed_line(body, digest)
    except AttributeError:  # bytes or a number instead of text
        return _DAMAGED


def with_hash(body: bytes) -> bytes:
    """Return the line of a JSON object in canonical form, with its hash added."""
    return hashed_line(body, hashlib.sha256(body).hexdigest())


def hashed_line(body: bytes, digest: str) -> bytes:
    """Return a line with the hash that is recorded for it."""
    return b'%b%b%b"}\n' % (body[:-1], _HASH_START, digest.encode())


def is_hash_valid(line: bytes, digest: str) -> bool:
    """Tell whether a line ends with the hash of everything before it."""
    return line[_HASH_SLICE] == _HASH_START and hashlib.sha256(line[:-_HASH_LENGTH] + b"}").hexdigest() == digest


def write_export(path: Path, lines: Iterable[bytes], *, compress: bool | None = None) -> None:
    """Write lines to a file, which appears complete and on disk or not at all.

    A file that ends in `.gz` is compressed, unless `compress` says otherwise.
    """
    from modelpact.identity.files import replacing

    packed = path.suffix == ".gz" if compress is None else compress
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as stream:
            if packed:
                with gzip.GzipFile("", "wb", 6, stream, mtime=0) as zipped:
                    zipped.writelines(lines)
            else:
                stream.writelines(lines)
    except OSError as error:
        reason = error.strerror or error
        raise LedgerError(f"{path} cannot be written: {reason}; nothing was changed") from None


def read_export(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, compressed or not."""
    try:
        with path.open("rb") as stream:
            packed = stream.read(2) == b"\x1f\x8b"
            stream.seek(0)
            yield from _decompressed_lines(stream) if packed else _lines(stream)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def _checkpoint_line(checkpoint: Checkpoint) -> tuple[int, bytes]:
    """Return the number of the event that a checkpoint signs, and the checkpoint's line."""
    if type(checkpoint.sequence) is int and type(checkpoint.time) is int:
        with suppress(NotCanonical):
            return checkpoint.sequence, checkpoint.line()
    return 0, CHECKPOINT_START + _DAMAGED


def _decompressed_lines(stream: IO[bytes]) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=stream, mode="rb") as zipped:
            yield from _lines(zipped)
    except EOFError:
        return  # the file was cut short, and verification says what is missing
    except (zlib.error, gzip.BadGzipFile):
        yield _DAMAGED


def _lines(stream: Any) -> Iterator[bytes]:
    return iter(partial(stream.readline, _MAX_LINE_BYTES), b"")

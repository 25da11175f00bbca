"""Exports: an envelope as JSON lines that anyone can verify offline.

A header, then each event as its canonical JSON with its hash at the end, and after an event the
checkpoints that sign it. The hash of a line is that of the line without it.
"""

import gzip
import hashlib
import os
import tempfile
import zlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import msgspec

from modelpact.ledger.canonical import MAX_SAFE_INTEGER, NotCanonical, canonical
from modelpact.ledger.checkpoint import Checkpoint
from modelpact.ledger.event import GENESIS, event_body
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.base import LedgerError, Row
from modelpact.vocabulary.errors import InputError

FORMAT: Final = "modelpact-audit/1"
EVENT_START: Final = b'{"cause":'
HEADER_START: Final = b'{"checkpoints":'
CHECKPOINT_START: Final = b'{"checkpoint":'
HASH_START: Final = b',"hash":"'
HASH_LENGTH: Final = len(HASH_START) + 64 + len(b'"}')
_DAMAGED: Final = b"damaged\n"
"""No line of an export: verification names the place."""
_PAGE: Final = 2_000
_LONGEST_LINE: Final = 64 * 1024 * 1024


class ExportHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line: what the envelope is, and how much of it follows."""

    checkpoints: int
    envelope: str
    events: int
    format: str
    head: str
    """The hash of the last event."""
    keys: list[dict[str, Any]]
    """The public keys of those who signed, each list with its rotations."""
    kind: str
    signed: int
    """The number of the last event that a checkpoint signs, or 0."""
    subject: str
    hash: str = ""


def with_hash(body: bytes) -> bytes:
    """Return a line: canonical JSON of an object, with its hash put in at the end."""
    return hashed_line(body, hashlib.sha256(body).hexdigest())


def hashed_line(body: bytes, digest: str) -> bytes:
    """Return a line with the hash that is recorded for it."""
    return b'%b%b%b"}\n' % (body[:-1], HASH_START, digest.encode())


def event_line(row: Row) -> bytes:
    """Return the line of an event, as its row stands in the store; no line if it is no event."""
    envelope, sequence, kind, when, cause, payload, previous, digest = row
    if type(sequence) is not int or type(when) is not int:
        return _DAMAGED
    try:
        body = event_body(envelope, sequence, kind, when, cause, payload.encode(), previous)
        return hashed_line(body, digest)
    except AttributeError:  # bytes or a number where a text should be
        return _DAMAGED


def export_lines(reader: LedgerReader, envelope: str) -> Iterator[bytes]:
    """Yield an envelope's lines, as far as it has come when this begins.

    Every checkpoint is among them, so that one which signs an event that is gone tells of it. They
    are read before the events: no event is appended behind one that is there already.
    """
    signed = reader.checkpoints(envelope)
    found = reader.envelope(envelope)
    ends = reader.read(
        "SELECT sequence, hash FROM events WHERE envelope = ? ORDER BY sequence DESC LIMIT 1",
        (envelope,),
    )
    if not ends or found is None:
        raise LedgerError(f"there is no envelope {envelope!r:.80} in {reader.store.url}")
    (first,) = reader.event_rows(envelope, limit=1)
    if first[1] != 1 and found.archived is not None:
        raise LedgerError(f"{envelope} is archived and its events are only in the archive")
    last, head = ends[0]
    if type(last) is not int or type(head) is not str:
        last, head = MAX_SAFE_INTEGER, GENESIS  # it was edited: read on until that is found
    waiting = deque(map(_checkpoint_line, signed))
    header = ExportHeader(
        checkpoints=len(waiting),
        envelope=envelope,
        events=last,
        format=FORMAT,
        head=head,
        keys=keys_of(reader, {one.key_id for one in signed}),
        kind=found.kind,
        signed=waiting[-1][0] if waiting else 0,
        subject=found.subject,
    )
    plain = msgspec.to_builtins(header)
    del plain["hash"]
    yield with_hash(canonical(plain))
    after = 0
    while after < last:
        page = reader.event_rows(envelope, after=after, limit=_PAGE)
        for row in page:
            line, after = event_line(row), row[1]
            if line is _DAMAGED:
                yield line
                return
            if after > last:
                break
            yield line
            while waiting and waiting[0][0] <= after:
                yield waiting.popleft()[1]
        if not page:
            break
    for _, line in waiting:
        yield line


def _checkpoint_line(one: Checkpoint) -> tuple[int, bytes]:
    """Return the number of the event that a checkpoint signs, and its line, if it has one."""
    if type(one.sequence) is int and type(one.time) is int:
        with suppress(NotCanonical):
            return one.sequence, one.line()
    return 0, CHECKPOINT_START + _DAMAGED


def keys_of(reader: LedgerReader, key_ids: Collection[str]) -> list[dict[str, Any]]:
    """Return the lists of public keys, of those that are kept, in which some of the keys are."""
    found = []
    for text in reader.signer_keys():
        try:
            one = msgspec.json.decode(text)
            if any(key["key_id"] in key_ids for key in one["keys"]):
                canonical(one)
                found.append(one)
        except (ValueError, TypeError, LookupError, RecursionError):
            continue  # it was edited: the checkpoints of its keys are then signed by nobody known
    return found


def write_export(path: Path, lines: Iterable[bytes], *, compress: bool | None = None) -> None:
    """Write lines to a file that appears whole, on the disk, or not at all; `.gz` is compressed."""
    packed = path.suffix == ".gz" if compress is None else compress
    name = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as stream:
            if packed:
                with gzip.GzipFile("", "wb", 6, stream, mtime=0) as zipped:
                    zipped.writelines(lines)
            else:
                stream.writelines(lines)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(path)
    except BaseException as error:
        if name:
            Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise LedgerError(f"{path} cannot be written: {reason}; nothing was changed") from None
        raise


def read_export(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, compressed or not."""
    try:
        with path.open("rb") as stream:
            packed = stream.read(2) == b"\x1f\x8b"
            stream.seek(0)
            yield from _unpacked(stream) if packed else _lines(stream)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def _unpacked(stream: IO[bytes]) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=stream, mode="rb") as zipped:
            yield from _lines(zipped)
    except EOFError:
        return  # cut short: what follows is missing, and verification says so
    except (zlib.error, gzip.BadGzipFile):
        yield _DAMAGED


def _lines(stream: Any) -> Iterator[bytes]:
    return iter(partial(stream.readline, _LONGEST_LINE), b"")


Line: TypeAlias = bytes | str
_HASH_AT: Final = slice(-HASH_LENGTH, -HASH_LENGTH + len(HASH_START))


class LinkedEvent(msgspec.Struct):
    """What links an event to its neighbours; the rest is not read."""

    envelope: str
    sequence: int
    type: str
    previous: str
    hash: str


decode_event: Final = msgspec.json.Decoder(LinkedEvent).decode
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What reading a line that is no JSON of its kind, or is nested beyond all measure, ends in."""


class CountedLines:
    """Lines without their ends, counted; `whole` says whether the last one had an end.

    Where the first line has none, they were taken off: then `bare`.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self.number = 0
        self.whole = True
        self.bare = False
        self._rest = self._read(lines)

    def __iter__(self) -> Iterator[bytes]:
        return self._rest

    def __next__(self) -> bytes:
        return next(self._rest)

    def _read(self, lines: Iterable[Line]) -> Iterator[bytes]:
        for raw in lines:
            line = raw if type(raw) is bytes else _encoded(raw)
            self.number += 1
            if line[-1:] == b"\n":
                yield line[:-1]
            else:
                self.whole = False
                self.bare = self.bare or self.number == 1
                yield line


def _encoded(line: Line) -> bytes:
    return line.encode("utf-8", "surrogatepass") if isinstance(line, str) else bytes(line)


def hash_holds(line: bytes, digest: str) -> bool:
    """Tell whether a line ends with the hash of what stands before it."""
    return (
        line[_HASH_AT] == HASH_START
        and hashlib.sha256(line[:-HASH_LENGTH] + b"}").hexdigest() == digest
    )


def sequence_of(line: bytes) -> int:
    """Return the number of the event in a line, or 0."""
    if not line.startswith(EVENT_START):
        return 0
    try:
        return decode_event(line).sequence
    except UNREADABLE:
        return 0

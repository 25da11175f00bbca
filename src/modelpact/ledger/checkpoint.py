"""Checkpoints: signed statements that an envelope stood at an event, with its hash."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from modelpact.ledger.canonical import canonical
from modelpact.ledger.event import parse_time
from modelpact.ledger.stores.base import Row
from modelpact.vocabulary.errors import InputError

if TYPE_CHECKING:
    from modelpact.identity import PublicKeys, Signer


class Checkpoint(msgspec.Struct, frozen=True):
    """Whoever holds the key says: at this time, event `sequence` of the envelope had this hash."""

    envelope: str
    sequence: int
    hash: str
    time: int
    key_id: str
    signature: str
    """In lower-case hex."""

    def statement(self) -> bytes:
        """Return what is signed."""
        return statement(self.envelope, self.sequence, self.hash, self.time)

    def row(self) -> Row:
        """Return the checkpoint as it is stored."""
        return msgspec.structs.astuple(self)

    def line(self) -> bytes:
        """Return the checkpoint as a line of an export; its time is a text, as in events."""
        fields = {**msgspec.structs.asdict(self), "time": str(self.time)}
        return canonical({"checkpoint": fields}) + b"\n"

    def holds(self, keys: "PublicKeys") -> bool:
        """Tell whether one of the keys signed this."""
        from modelpact.identity import Signature, verify

        try:
            value = bytes.fromhex(self.signature)
        except ValueError:
            return False
        if value.hex() != self.signature:  # capitals and blanks would be read as well
            return False
        return verify(keys, self.statement(), Signature(self.key_id, value))


class _OnWire(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    envelope: str
    sequence: int
    hash: str
    time: str
    key_id: str
    signature: str


class _CheckpointLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    checkpoint: _OnWire


_LINE: Final = msgspec.json.Decoder(_CheckpointLine)


def read_checkpoint(line: bytes) -> Checkpoint:
    """Read a line of an export; raises `msgspec.DecodeError` or `InputError`.

    Only the canonical form is read: a signature covers what a line says, not how it is spelled.
    """
    wire = _LINE.decode(line).checkpoint
    when = parse_time(wire.time)
    made = Checkpoint(wire.envelope, wire.sequence, wire.hash, when, wire.key_id, wire.signature)
    if made.line().rstrip(b"\n") != line.rstrip(b"\n"):
        raise InputError("a checkpoint is not in its canonical form")
    return made


def statement(envelope: str, sequence: int, digest: str, time: int) -> bytes:
    """Return the canonical text that a checkpoint signs."""
    return canonical(
        {
            "checkpoint": "modelpact/1",
            "envelope": envelope,
            "hash": digest,
            "sequence": sequence,
            "time": str(time),
        }
    )


def sign_checkpoint(
    signer: "Signer", envelope: str, sequence: int, digest: str, time: int
) -> Checkpoint:
    """Sign where an envelope stands."""
    made = signer.sign(statement(envelope, sequence, digest, time))
    return Checkpoint(envelope, sequence, digest, time, made.key_id, made.value.hex())


def signer_keys(signer: Any) -> tuple[str, str] | None:
    """Return the oldest key's name and all public keys of a signer that knows its history."""
    keys: PublicKeys | None = getattr(signer, "public_keys", None)
    if keys is None:
        return None
    return keys.keys[0].key_id, keys.to_json().decode()

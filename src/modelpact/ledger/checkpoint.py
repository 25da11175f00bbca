"""Checkpoints: signed statements that an event of an envelope has a certain hash."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from modelpact.ledger.canonical import canonical
from modelpact.ledger.event import parse_time
from modelpact.ledger.stores.base import Row
from modelpact.vocabulary.errors import InputError

if TYPE_CHECKING:
    from modelpact.identity import PublicKeys, Signer


class Checkpoint(msgspec.Struct, frozen=True):
    """The holder of a key states: at this time, event `sequence` of the envelope had this hash."""

    envelope: str
    sequence: int
    hash: str
    time: int
    key_id: str
    signature: str
    """In lower-case hex."""

    def statement(self) -> bytes:
        """Return the bytes that are signed."""
        return statement(self.envelope, self.sequence, self.hash, self.time)

    def row(self) -> Row:
        """Return the checkpoint as a row of its table."""
        return msgspec.structs.astuple(self)

    def line(self) -> bytes:
        """Return the checkpoint as a line of an export. Its time is text, as in events."""
        fields = {**msgspec.structs.asdict(self), "time": str(self.time)}
        return canonical({"checkpoint": fields}) + b"\n"

    def is_signed_by(self, keys: "PublicKeys") -> bool:
        """Tell whether one of the keys made this signature."""
        from modelpact.identity import Signature, verify

        try:
            value = bytes.fromhex(self.signature)
        except ValueError:
            return False
        if value.hex() != self.signature:  # `fromhex` also accepts capitals and spaces
            return False
        return verify(keys, self.statement(), Signature(self.key_id, value))


class _CheckpointJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    envelope: str
    sequence: int
    hash: str
    time: str
    key_id: str
    signature: str


class _CheckpointLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    checkpoint: _CheckpointJson


_decode_line: Final = msgspec.json.Decoder(_CheckpointLine).decode


def read_checkpoint(line: bytes) -> Checkpoint:
    """Read a line of an export. Raises `msgspec.DecodeError` or `InputError`.

    Only the canonical form is accepted: a signature covers the content of a line, not its bytes.
    """
    data = _decode_line(line).checkpoint
    checkpoint = Checkpoint(
        data.envelope,
        data.sequence,
        data.hash,
        parse_time(data.time),
        data.key_id,
        data.signature,
    )
    if checkpoint.line().rstrip(b"\n") != line.rstrip(b"\n"):
        raise InputError("the checkpoint is not in canonical form")
    return checkpoint


def statement(envelope: str, sequence: int, digest: str, time: int) -> bytes:
    """Return the canonical JSON that a checkpoint signs."""
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
    """Sign an event of an envelope, and with it all events before."""
    signature = signer.sign(statement(envelope, sequence, digest, time))
    return Checkpoint(envelope, sequence, digest, time, signature.key_id, signature.value.hex())


def signer_keys(signer: Any) -> tuple[str, str] | None:
    """Return the id of the oldest key and all public keys, if the signer knows its history."""
    keys: PublicKeys | None = getattr(signer, "public_keys", None)
    if keys is None:
        return None
    return keys.keys[0].key_id, keys.to_json().decode()

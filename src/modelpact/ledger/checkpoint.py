"""Checkpoints: signed statements that an event has a certain hash, and the keys to verify them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from modelpact.ledger.canonical import canonical
from modelpact.ledger.event import check_time
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
        signed = _statement(self.envelope, self.sequence, self.hash, self.time)
        return verify(keys, signed, Signature(self.key_id, value))


class _CheckpointLine(msgspec.Struct, frozen=True):
    checkpoint: Checkpoint


_decode_line: Final = msgspec.json.Decoder(_CheckpointLine, strict=False).decode
"""Also reads the time, which is text. `read_checkpoint` refuses what else this accepts."""


class TrustedKeys:
    """The public keys that a verifier trusts, and the keys that replaced them.

    There is one list for each signer.
    """

    def __init__(self, public_keys: "PublicKeys | Sequence[PublicKeys] | None") -> None:
        self.supplied = public_keys is not None
        """Whether the verifier named keys to trust. If not, those of the export are used."""
        listed = [] if public_keys is None else public_keys
        self._lists: list[PublicKeys] = (
            list(listed) if isinstance(listed, (list, tuple)) else [listed]  # type: ignore[list-item]
        )

    def add(self, offered: Sequence[dict[str, Any]]) -> str:
        """Take key lists that an export brings, as far as trusted keys handed over to them.

        Returns what is wrong with one of them, or an empty string.
        """
        from modelpact.identity import PublicKeys, UntrustedKeys

        for data in offered:
            try:
                keys = PublicKeys.parse(msgspec.json.encode(data))
            except InputError as error:
                return str(error)
            if not self.supplied:
                self._lists.append(keys)
                continue
            for index, trusted in enumerate(self._lists):
                if any(trusted.find(key.key_id) for key in keys.keys):
                    try:
                        self._lists[index] = trusted.extended_by(keys)
                    except UntrustedKeys as error:
                        return str(error)
        return ""

    def find(self, key_id: str) -> "PublicKeys | None":
        """Return the list that has a key, or None."""
        return next((keys for keys in self._lists if keys.find(key_id)), None)


def read_checkpoint(line: bytes) -> Checkpoint:
    """Read a line of an export. Raises `msgspec.DecodeError` or `InputError`.

    Only the canonical form is accepted: a signature covers the content of a line, not its bytes.
    """
    checkpoint = _decode_line(line).checkpoint
    check_time(checkpoint.time)
    if checkpoint.line().rstrip(b"\n") != line.rstrip(b"\n"):
        raise InputError("the checkpoint is not in canonical form")
    return checkpoint


def sign_checkpoint(signer: "Signer", envelope: str, sequence: int, digest: str, time: int) -> Checkpoint:
    """Sign an event of an envelope, and with it all events before."""
    signature = signer.sign(_statement(envelope, sequence, digest, time))
    return Checkpoint(envelope, sequence, digest, time, signature.key_id, signature.value.hex())


def _statement(envelope: str, sequence: int, digest: str, time: int) -> bytes:
    """Return the canonical JSON that a checkpoint signs."""
    return canonical(
        {"checkpoint": "modelpact/1", "envelope": envelope, "hash": digest, "sequence": sequence, "time": str(time)}
    )

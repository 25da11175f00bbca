"""Signed responses: a header that binds a body to one invocation and one place in its sequence.

    Modelpact-Signature: v1;key=KEY_ID;seq=N;time=SECONDS;sig=HEX

`sig` is Ed25519 over the lines `modelpact/response/v1`, invocation id, `N`, `SECONDS` and the
SHA-256 of the body in hex. The invocation id and the hash are not sent: whoever verifies puts in
the invocation that it made and the body that it got, so that no other can pass for them.
"""

import hashlib
import re
import time as clock
from typing import Final

import msgspec

from modelpact.identity.errors import BadSignature
from modelpact.identity.keys import PublicKeys, Signature, Signer, verify
from modelpact.vocabulary.errors import InputError, brief

HEADER: Final = "Modelpact-Signature"
MAX_AGE: Final = 300.0
_NUMBER: Final = r"(0|[1-9][0-9]{0,14})"
_VALUE: Final = re.compile(
    rf"v1;key=([0-9a-f]{{16}});seq={_NUMBER};time={_NUMBER};sig=([0-9a-f]{{128}})"
)
_INVOCATION: Final = re.compile(r"[!-~]{1,256}")


class BodySignature(msgspec.Struct, frozen=True):
    """What a signature that holds says of its response."""

    key_id: str
    sequence: int
    time: int


def sign_body(
    key: Signer, invocation_id: str, body: bytes, *, sequence: int = 0, time: float | None = None
) -> str:
    """Return the header value for the response number `sequence` to an invocation."""
    if not _INVOCATION.fullmatch(invocation_id):
        raise InputError(
            f"invocation id {brief(invocation_id)} cannot be signed: "
            f"expected 1 to 256 visible ASCII characters without spaces"
        )
    seconds = int(clock.time() if time is None else time)
    if not 0 <= sequence < 10**15 or not 0 <= seconds < 10**15:
        raise InputError(f"sequence {sequence} or time {seconds} is out of range")
    signature = key.sign(_signed(invocation_id, sequence, seconds, body), purpose="response")
    value = signature.value.hex()
    return f"v1;key={signature.key_id};seq={sequence};time={seconds};sig={value}"


def verify_body(
    public_keys: PublicKeys,
    invocation_id: str,
    body: bytes,
    header: str | None,
    *,
    sequence: int = 0,
    now: float | None = None,
    max_age: float | None = MAX_AGE,
) -> BodySignature:
    """Return what is signed, or raise `BadSignature` with the reason.

    `sequence` is the number that this response must have. `max_age` bounds how far the signer's
    clock may lie from ours, either way; None leaves time out, as for a response on record.
    """
    found = _VALUE.fullmatch(header) if isinstance(header, str) else None
    if not found or not _INVOCATION.fullmatch(invocation_id):
        raise BadSignature("malformed", f"the response has no {HEADER} header that can be read")
    said = BodySignature(found[1], int(found[2]), int(found[3]))
    if public_keys.find(said.key_id) is None:
        raise BadSignature(
            "unknown-key", f"the response is signed by key {said.key_id}, which is not trusted"
        )
    signature = Signature(said.key_id, bytes.fromhex(found[4]))
    signed = _signed(invocation_id, said.sequence, said.time, body)
    if not verify(public_keys, signed, signature, purpose="response"):
        raise BadSignature(
            "mismatch",
            f"the signature of key {said.key_id} is not for this body "
            f"and invocation {invocation_id}",
        )
    if said.sequence != sequence:
        raise BadSignature(
            "out-of-order", f"response {said.sequence} came where {sequence} was expected"
        )
    late = (clock.time() if now is None else now) - said.time
    if max_age is not None and not -max_age <= late <= max_age:
        raise BadSignature(
            "stale", f"the response was signed {late:.0f} s from now: compare the two clocks"
        )
    return said


def _signed(invocation_id: str, sequence: int, seconds: int, body: bytes) -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    return f"{invocation_id}\n{sequence}\n{seconds}\n{digest}\n".encode()

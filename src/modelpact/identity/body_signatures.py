"""Signed bodies: a header ties a body to one invocation and one place in its sequence.

    Modelpact-Signature: v1;key=KEY_ID;seq=N;time=SECONDS;sig=HEX

`sig` is Ed25519 over the lines `modelpact/response/v1`, invocation id, `N`, `SECONDS` and the
SHA-256 of the body in hex. The invocation id and the hash are not sent: the verifier uses its own
invocation and the body that it received, so that a signature is valid for no other.
"""

import hashlib
import re
import time as clock
from typing import Final

import msgspec

from modelpact.identity.errors import BadSignature
from modelpact.identity.keys import PublicKeys, Signature, Signer, verify
from modelpact.vocabulary.errors import InputError, brief

SIGNATURE_HEADER: Final = "Modelpact-Signature"
MAX_AGE: Final = 300.0
_NUMBER: Final = r"(0|[1-9][0-9]{0,14})"
_VALUE: Final = re.compile(
    rf"v1;key=([0-9a-f]{{16}});seq={_NUMBER};time={_NUMBER};sig=([0-9a-f]{{128}})"
)
_INVOCATION: Final = re.compile(r"[!-~]{1,256}")


class BodySignature(msgspec.Struct, frozen=True):
    """The contents of a valid signature."""

    key_id: str
    sequence: int
    time: int


def sign_body(
    key: Signer, invocation_id: str, body: bytes, *, sequence: int = 0, time: float | None = None
) -> str:
    """Return the value of the header for response number `sequence` of an invocation."""
    if not _INVOCATION.fullmatch(invocation_id):
        raise InputError(
            f"invocation id {brief(invocation_id)} cannot be signed: "
            f"expected 1 to 256 visible ASCII characters without spaces"
        )
    seconds = int(clock.time() if time is None else time)
    if not 0 <= sequence < 10**15 or not 0 <= seconds < 10**15:
        raise InputError(f"sequence {sequence} or time {seconds} is out of range")
    signature = key.sign(_signed_data(invocation_id, sequence, seconds, body), purpose="response")
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
    """Verify a signature and return its contents, or raise `BadSignature` with the reason.

    `sequence` is the number that this response must have. `max_age` is the allowed difference
    between the clocks in seconds; None ignores the time, for responses from the past.
    """
    match = _VALUE.fullmatch(header) if isinstance(header, str) else None
    if not match or not _INVOCATION.fullmatch(invocation_id):
        raise BadSignature("malformed", f"the response has no valid {SIGNATURE_HEADER} header")
    contents = BodySignature(match[1], int(match[2]), int(match[3]))
    if public_keys.find(contents.key_id) is None:
        raise BadSignature(
            "unknown-key", f"the response is signed by key {contents.key_id}, which is not trusted"
        )
    signature = Signature(contents.key_id, bytes.fromhex(match[4]))
    signed = _signed_data(invocation_id, contents.sequence, contents.time, body)
    if not verify(public_keys, signed, signature, purpose="response"):
        raise BadSignature(
            "mismatch",
            f"the signature of key {contents.key_id} is not for this body "
            f"and invocation {invocation_id}",
        )
    if contents.sequence != sequence:
        raise BadSignature("out-of-order", f"got response {contents.sequence}, expected {sequence}")
    age = (clock.time() if now is None else now) - contents.time
    if max_age is not None and not -max_age <= age <= max_age:
        raise BadSignature("stale", f"the response was signed {age:.0f} s ago: compare the clocks")
    return contents


def _signed_data(invocation_id: str, sequence: int, seconds: int, body: bytes) -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    return f"{invocation_id}\n{sequence}\n{seconds}\n{digest}\n".encode()

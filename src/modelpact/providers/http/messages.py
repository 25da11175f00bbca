"""The messages of the binding, and the signatures that bind them to their invocation.

A signature covers the invocation's id, the message's number and its bytes. An acknowledgement has
number 0, pieces count from 1, and the final answer has the number after the last piece.
"""

from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from modelpact.identity import HEADER, BadSignature, PublicKey, PublicKeys, Signer, sign_body
from modelpact.identity import verify_body as verify_signature
from modelpact.providers.contract import Registration, Reply, Semantics
from modelpact.providers.transport import Accepted, ContractViolation, Partial
from modelpact.vocabulary.errors import InputError

ACKNOWLEDGED: Final = 0
JSON: Final = ("content-type", "application/json")


class InvocationMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """What a runtime asks of a provider; the deadline is in milliseconds since 1970."""

    invocation_id: str
    capability: str
    semantics: Semantics
    input: Any
    deadline: int | None = None


class AcceptedMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """A provider's promise to answer later."""

    invocation_id: str


class AnswerMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """A provider's final answer: an output or an error, and what it cost."""

    invocation_id: str
    cost: list[Any]
    output: Any = msgspec.UNSET
    error: str = ""
    estimate: bool = False


class PartialMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """A piece of a streamed answer."""

    invocation_id: str
    number: int
    content: Any


class CorrectionMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """A corrected cost of a settled invocation; the same id again changes nothing."""

    id: str
    invocation_id: str
    cost: list[Any]
    estimate: bool = False
    reason: str = ""


class DeregisteredMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """What a runtime tells a provider that it has deregistered; `registered` is which of its
    registrations is meant.
    """

    provider: str
    registered: str
    state: str
    reason: str = ""


class SignalMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """A signal of a source; `emitted` is in milliseconds since 1970."""

    source: str
    id: str
    number: int
    type: str
    emitted: int
    content: Any
    cost: list[Any]
    estimate: bool = False


M = TypeVar("M", bound=msgspec.Struct)


def encode(message: msgspec.Struct) -> bytes:
    """Write a message."""
    return msgspec.json.encode(message)


def decode(body: bytes, kind: type[M]) -> M:
    """Read a message, or raise `InputError` that names the field."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = kind.__name__.removesuffix("Message").lower()
        raise InputError(f"{what}: {error}") from None


@lru_cache(maxsize=4_096)
def public_keys(raw: str) -> PublicKeys:
    """Return a pinned key in the form in which signatures are verified."""
    return PublicKeys((PublicKey(bytes.fromhex(raw), ""),))


def registering(provider: str) -> str:
    """Return the subject of a signed registration; its number is that of an acknowledgement."""
    return f"providers/{provider}"


def signed_headers(
    key: Signer, subject: str, body: bytes, sequence: int
) -> tuple[tuple[str, str], ...]:
    """Return the headers of a signed message."""
    return (JSON, (HEADER, sign_body(key, subject, body, sequence=sequence)))


def verify_message(
    registration: Registration, subject: str, body: bytes, header: str | None, sequence: int
) -> None:
    """Check a message's signature against the pinned key, or raise `ContractViolation`."""
    if not registration.signing_key:
        raise ContractViolation(
            "unsigned_response", f"{registration.id} has no key pinned to sign with"
        )
    keys = public_keys(registration.signing_key)
    try:
        verify_signature(keys, subject, body, header, sequence=sequence)
    except BadSignature as bad:
        raise ContractViolation(_violation(keys, subject, body, header, bad), str(bad)) from None


def _violation(
    keys: PublicKeys, subject: str, body: bytes, header: str | None, bad: BadSignature
) -> str:
    """Name what is wrong with a signature as the envelope has it."""
    if bad.reason == "malformed":
        return "unsigned_response" if header is None else "forged_signature"
    if bad.reason == "out-of-order":
        return "reordered_response"
    if bad.reason == "stale":
        return "replayed_response"
    other = _named(body)
    if other not in ("", subject):
        try:
            verify_signature(keys, other, body, header, sequence=_sequence(header), max_age=None)
        except BadSignature:
            return "forged_signature"
        return "foreign_response"
    return "forged_signature"


def _named(body: bytes) -> str:
    """Return the invocation that a body says to be of."""
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    said = content.get("invocationId") if isinstance(content, dict) else None
    return said if isinstance(said, str) else ""


def _sequence(header: str | None) -> int:
    number = (header or "").partition(";seq=")[2].partition(";")[0]
    return int(number) if number.isdecimal() and len(number) < 16 else 0


def read_reply_parts(message: AnswerMessage) -> tuple[Any, str]:
    """Return an answer's output and error: exactly one is there."""
    has_output = message.output is not msgspec.UNSET
    if has_output == bool(message.error):
        raise ContractViolation("invalid_response", "expected an output or an error, and not both")
    return (message.output if has_output else None), message.error


A = TypeVar("A", AnswerMessage, PartialMessage, AcceptedMessage)


def read_answer(
    registration: Registration, invocation_id: str, body: bytes, header: str | None, sequence: int
) -> Reply:
    """Read a final answer."""
    message = _read(AnswerMessage, registration, invocation_id, body, header, sequence)
    output, error_text = read_reply_parts(message)
    return Reply(invocation_id, output, error_text, tuple(message.cost), message.estimate)


def read_partial(
    registration: Registration, invocation_id: str, body: bytes, header: str | None, number: int
) -> Partial:
    """Read the piece of this number."""
    message = _read(PartialMessage, registration, invocation_id, body, header, number)
    return Partial(invocation_id, message.number, message.content)


def read_accepted(
    registration: Registration, invocation_id: str, body: bytes, header: str | None
) -> Accepted:
    """Read an acknowledgement."""
    _read(AcceptedMessage, registration, invocation_id, body, header, ACKNOWLEDGED)
    return Accepted(invocation_id)


def _read(
    kind: type[A],
    registration: Registration,
    invocation_id: str,
    body: bytes,
    header: str | None,
    sequence: int,
) -> A:
    """Verify and read a message that must be of this invocation."""
    verify_message(registration, invocation_id, body, header, sequence)
    try:
        message = decode(body, kind)
    except InputError as error:
        raise ContractViolation("invalid_response", str(error)) from None
    if message.invocation_id != invocation_id:
        said = f"the answer names {message.invocation_id!r:.80}, not {invocation_id}"
        raise ContractViolation("foreign_response", said)
    return message

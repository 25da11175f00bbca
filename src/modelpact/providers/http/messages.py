"""The messages of the HTTP binding, and the signatures that tie them to their invocation.

A signature covers the id of the invocation, the sequence number of the message and its bytes. An
acknowledgement has number 0, partials count from 1, and the final response has the next number.
"""

from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from modelpact.identity import SIGNATURE_HEADER, BadSignature, PublicKey, PublicKeys, Signer, sign_body
from modelpact.identity import verify_body as verify_signature
from modelpact.providers.contract import Registration, Reply, Semantics
from modelpact.providers.transport import Accepted, ContractViolation, Partial
from modelpact.vocabulary.errors import InputError

ACKNOWLEDGEMENT: Final = 0
"""The sequence number of an acknowledgement and of a registration."""
JSON: Final = ("content-type", "application/json")

MessageT = TypeVar("MessageT", bound="BindingMessage")
InvocationMessageT = TypeVar("InvocationMessageT", "ResponseMessage", "PartialMessage", "AcceptedMessage")


class BindingMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """A message of the binding: JSON with camel-case names, without unknown fields."""


class InvocationMessage(BindingMessage, frozen=True):
    """An invocation that a runtime sends to a provider; the deadline is Unix time in ms."""

    invocation_id: str
    capability: str
    semantics: Semantics
    input: Any
    deadline: int | None = None


class AcceptedMessage(BindingMessage, frozen=True):
    """A provider's acknowledgement that it will respond later."""

    invocation_id: str


class ResponseMessage(BindingMessage, frozen=True):
    """A provider's final response: an output or an error, and the cost."""

    invocation_id: str
    cost: list[Any]
    output: Any = msgspec.UNSET
    error: str = ""
    estimate: bool = False


class PartialMessage(BindingMessage, frozen=True):
    """A part of a response."""

    invocation_id: str
    number: int
    content: Any


class CorrectionMessage(BindingMessage, frozen=True):
    """A corrected cost of a settled invocation; repeating the same id changes nothing."""

    id: str
    invocation_id: str
    cost: list[Any]
    estimate: bool = False
    reason: str = ""


class DeregisteredMessage(BindingMessage, frozen=True):
    """A runtime's notice that it deregistered a provider.

    `registered` is the event of the registration that ended.
    """

    provider: str
    registered: str
    state: str
    reason: str = ""


class SignalMessage(BindingMessage, frozen=True):
    """A signal of a source; `emitted` is Unix time in ms."""

    source: str
    id: str
    number: int
    type: str
    emitted: int
    content: Any
    cost: list[Any]
    estimate: bool = False


def encode(message: BindingMessage) -> bytes:
    """Encode a message as JSON."""
    return msgspec.json.encode(message)


def decode(body: bytes, kind: type[MessageT]) -> MessageT:
    """Decode a message; an `InputError` names the field that is wrong."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        name = kind.__name__.removesuffix("Message").lower()
        raise InputError(f"{name}: {error}") from None


@lru_cache(maxsize=4_096)
def public_keys(raw: str) -> PublicKeys:
    """Return a pinned key, given in hex, as the keys that verify signatures."""
    return PublicKeys((PublicKey(bytes.fromhex(raw), ""),))


def registration_subject(provider: str) -> str:
    """Return the subject of the signature of a registration."""
    return f"providers/{provider}"


def signed_headers(key: Signer, subject: str, body: bytes, sequence: int) -> tuple[tuple[str, str], ...]:
    """Return the headers of a signed message."""
    return (JSON, (SIGNATURE_HEADER, sign_body(key, subject, body, sequence=sequence)))


def signed_number(header: str | None) -> int:
    """Return the number that a signature says it is for, or 0; nothing is verified."""
    number = (header or "").partition(";seq=")[2].partition(";")[0]
    return int(number) if number.isdecimal() and len(number) < 16 else 0


def verify_message(registration: Registration, subject: str, body: bytes, header: str | None, sequence: int) -> None:
    """Verify the signature of a message with the pinned key, or raise `ContractViolation`."""
    if not registration.signing_key:
        raise ContractViolation("unsigned_response", f"{registration.id} has no pinned signing key")
    keys = public_keys(registration.signing_key)
    try:
        verify_signature(keys, subject, body, header, sequence=sequence)
    except BadSignature as error:
        violation = _violation(keys, subject, body, header, error)
        raise ContractViolation(violation, str(error)) from None


def read_response(
    registration: Registration, invocation_id: str, body: bytes, header: str | None, sequence: int
) -> Reply:
    """Verify and read a final response."""
    message = _read(ResponseMessage, registration, invocation_id, body, header, sequence)
    has_output = message.output is not msgspec.UNSET
    if has_output == bool(message.error):
        raise ContractViolation("invalid_response", "expected an output or an error, and not both")
    output = message.output if has_output else None
    return Reply(invocation_id, output, message.error, tuple(message.cost), message.estimate)


def read_partial(
    registration: Registration, invocation_id: str, body: bytes, header: str | None, number: int
) -> Partial:
    """Verify and read the partial with this number."""
    message = _read(PartialMessage, registration, invocation_id, body, header, number)
    return Partial(invocation_id, message.number, message.content)


def read_accepted(registration: Registration, invocation_id: str, body: bytes, header: str | None) -> Accepted:
    """Verify and read an acknowledgement."""
    _read(AcceptedMessage, registration, invocation_id, body, header, ACKNOWLEDGEMENT)
    return Accepted(invocation_id)


def _read(
    kind: type[InvocationMessageT],
    registration: Registration,
    invocation_id: str,
    body: bytes,
    header: str | None,
    sequence: int,
) -> InvocationMessageT:
    """Verify and read a message that must belong to this invocation."""
    verify_message(registration, invocation_id, body, header, sequence)
    try:
        message = decode(body, kind)
    except InputError as error:
        raise ContractViolation("invalid_response", str(error)) from None
    if message.invocation_id != invocation_id:
        detail = f"the response names {message.invocation_id!r:.80}, not {invocation_id}"
        raise ContractViolation("foreign_response", detail)
    return message


def _violation(keys: PublicKeys, subject: str, body: bytes, header: str | None, error: BadSignature) -> str:
    """Return the violation that a bad signature is flagged as."""
    if error.reason == "malformed":
        return "unsigned_response" if header is None else "forged_signature"
    if error.reason == "out-of-order":
        return "reordered_response"
    if error.reason == "stale":
        return "replayed_response"
    other = _invocation_id(body)
    if other not in ("", subject):
        try:
            number = signed_number(header)
            verify_signature(keys, other, body, header, sequence=number, max_age=None)
        except BadSignature:
            return "forged_signature"
        return "foreign_response"
    return "forged_signature"


def _invocation_id(body: bytes) -> str:
    """Return the invocation id in a body, or an empty string."""
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    value = content.get("invocationId") if isinstance(content, dict) else None
    return value if isinstance(value, str) else ""

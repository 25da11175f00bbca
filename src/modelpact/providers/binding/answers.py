"""Answers as they come over the wire, made into replies; whatever is not right is a breach."""

from typing import TypeVar

from modelpact.providers.binding.messages import (
    ACKNOWLEDGED,
    AcceptedMessage,
    AnswerMessage,
    PartialMessage,
    decode,
    read_reply_parts,
    verify_message,
)
from modelpact.providers.carrier import Accepted, Breach, Partial
from modelpact.providers.contract import Registration, Reply
from modelpact.vocabulary.errors import InputError

M = TypeVar("M", AnswerMessage, PartialMessage, AcceptedMessage)


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
    kind: type[M],
    registration: Registration,
    invocation_id: str,
    body: bytes,
    header: str | None,
    sequence: int,
) -> M:
    """Verify and read a message that must be of this invocation."""
    verify_message(registration, invocation_id, body, header, sequence)
    try:
        message = decode(body, kind)
    except InputError as error:
        raise Breach("invalid_response", str(error)) from None
    if message.invocation_id != invocation_id:
        said = f"the answer names {message.invocation_id!r:.80}, not {invocation_id}"
        raise Breach("foreign_response", said)
    return message

"""Answers as they come over the wire, made into replies; whatever is not right is a breach."""

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


def read_answer(
    registration: Registration, invocation_id: str, body: bytes, header: str | None, sequence: int
) -> Reply:
    """Read a final answer."""
    verify_message(registration, invocation_id, body, header, sequence)
    try:
        message = decode(body, AnswerMessage)
    except InputError as error:
        raise Breach("invalid_response", str(error)) from None
    _same(message.invocation_id, invocation_id)
    output, error_text = read_reply_parts(message)
    return Reply(invocation_id, output, error_text, tuple(message.cost), message.estimate)


def read_partial(
    registration: Registration, invocation_id: str, body: bytes, header: str | None, number: int
) -> Partial:
    """Read the piece of this number."""
    verify_message(registration, invocation_id, body, header, number)
    try:
        message = decode(body, PartialMessage)
    except InputError as error:
        raise Breach("invalid_response", str(error)) from None
    _same(message.invocation_id, invocation_id)
    return Partial(invocation_id, message.number, message.content)


def read_accepted(
    registration: Registration, invocation_id: str, body: bytes, header: str | None
) -> Accepted:
    """Read an acknowledgement."""
    verify_message(registration, invocation_id, body, header, ACKNOWLEDGED)
    try:
        message = decode(body, AcceptedMessage)
    except InputError as error:
        raise Breach("invalid_response", str(error)) from None
    _same(message.invocation_id, invocation_id)
    return Accepted(invocation_id)


def _same(said: str, expected: str) -> None:
    if said != expected:
        raise Breach("foreign_response", f"the answer names {said!r:.80}, not {expected}")

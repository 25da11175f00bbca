"""What the record of an invocation says, whichever storage keeps it.

Two events frame an invocation: `capability.invoked` opens it, and one of `capability.completed`,
`capability.failed` and `capability.cancelled` settles it. This module builds both.
"""

import base64
import hashlib
import os
from math import isfinite
from typing import Any, Final, Literal

import msgspec

from modelpact.ledger.canonical import MAX_SAFE_INTEGER, NotCanonical
from modelpact.ledger.costs import Attribution, CostLine, CostRecord
from modelpact.ledger.errors import LedgerError
from modelpact.providers.contract import Invocation, Semantics
from modelpact.providers.runtime.registry import Registered

SettledState = Literal["completed", "failed", "cancelled"]

INVOKED: Final = "capability.invoked"
SETTLED_TYPES: Final[dict[str, SettledState]] = {
    "capability.completed": "completed",
    "capability.failed": "failed",
    "capability.cancelled": "cancelled",
}
"""The state that each settling event leaves an invocation in."""
TYPE_OF_STATE: Final[dict[SettledState, str]] = {state: kind for kind, state in SETTLED_TYPES.items()}
DIGEST_PREFIX: Final = "sha256:"
NO_TIME: Final = (CostLine("time", 0),)
"""The cost of an invocation that was never sent."""

_MAX_KEPT_BYTES: Final = 32 * 1024 * 1024
_RANDOM_BYTES: Final = 15
_RANDOM_BATCH: Final = 256
_random: list[str] = []


class InvocationRequest(msgspec.Struct, frozen=True):
    """What is to be invoked, and how. `ContractValidator.prepare` completes what a caller omits."""

    capability: str
    value: Any
    data: bytes = b""
    """The value in JSON."""
    semantics: Semantics = "sync"
    attribution: Attribution = Attribution()
    estimate: tuple[CostLine, ...] | None = None
    """What the invocation may cost; None leaves the estimate to the transport."""
    envelope: str = ""
    cause: str | None = None
    keep_content: bool = True
    """Whether input and output are stored, and not only their digests."""
    deadline_s: float | None = None
    remind_every_s: float | None = None
    idempotency_key: str | None = None


class InvokedPayload(msgspec.Struct, omit_defaults=True):
    """The payload of `capability.invoked`."""

    attribution: Any
    capability: str
    estimate: tuple[CostLine, ...]
    input: str
    """The digest of the input."""
    provider: str
    registered: str
    semantics: Semantics
    content: str | None = None
    """The input itself, where only events keep it."""
    invocation: str | None = None
    """The id of the invocation, where that is not the id of this event."""


class SettledPayload(msgspec.Struct, omit_defaults=True):
    """The payload of the event that settles an invocation."""

    capability: str
    cost: CostRecord
    provider: str
    output: str | None = None
    """The digest of the output."""
    error: str | None = None
    """Why the invocation failed."""
    reason: str | None = None
    """Why the invocation was cancelled."""
    content: str | None = None
    """The output itself, where only events keep it."""
    invocation: str | None = None
    partials: dict[str, Any] | None = None
    """The number and the digest of streamed partials that are not stored."""


class StreamDigest:
    """Counts the partials of a stream, and hashes their JSON, each with a line end."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256()

    def add(self, content: Any) -> None:
        """Add a partial."""
        self.count += 1
        self._hash.update(msgspec.json.encode(content) + b"\n")

    def to_json(self) -> dict[str, Any]:
        """Return count and digest as the settling event embeds them."""
        return {"count": self.count, "digest": f"{DIGEST_PREFIX}{self._hash.hexdigest()}"}


class AnswerDigest:
    """Hashes an answer that passes in chunks, and keeps its text on demand.

    A text that grows beyond 32 MB is not kept.
    """

    __slots__ = ("_hash", "_kept", "_room")

    def __init__(self, *, keep: bool) -> None:
        self._hash = hashlib.sha256()
        self._kept: list[bytes] | None = [] if keep else None
        self._room = _MAX_KEPT_BYTES

    def add(self, chunk: bytes) -> None:
        """Add a chunk."""
        self._hash.update(chunk)
        if self._kept is not None:
            self._kept.append(chunk)
            self._room -= len(chunk)
            if self._room < 0:
                self._kept = None

    def result(self) -> tuple[str, str | None]:
        """Return the digest, and the text if it was kept."""
        text = None
        if self._kept is not None:
            text = b"".join(self._kept).decode("utf-8", "replace")
        return f"{DIGEST_PREFIX}{self._hash.hexdigest()}", text


class InvocationOutcome(msgspec.Struct, frozen=True):
    """How an invocation ended, and what it cost."""

    state: SettledState = "completed"
    error: str = ""
    """Why it failed or was cancelled."""
    lines: tuple[CostLine, ...] = ()
    """The cost. Without any, the elapsed time is recorded as an estimate."""
    estimate: bool = False
    data: bytes | AnswerDigest = b""
    """The output as bytes, or the digest of an output that passed in chunks."""
    output: Any = None
    """The output as a value, for the caller of the runtime."""
    answered: bool = False
    """Whether the provider answered; otherwise the runtime ended the invocation by itself."""
    violation: str = ""
    """How the provider broke the contract, if it did."""
    detail: str = ""
    partials_digest: StreamDigest | None = None
    """The partials that came before the end, where they are not stored."""


def failed(error: str, lines: tuple[CostLine, ...] = ()) -> InvocationOutcome:
    """Return the outcome of an invocation that got no good answer."""
    return InvocationOutcome("failed", error, lines)


def cancelled(reason: str, lines: tuple[CostLine, ...] = ()) -> InvocationOutcome:
    """Return the outcome of an invocation that was cancelled."""
    return InvocationOutcome("cancelled", reason, lines, estimate=True)


OVERDUE: Final = failed("deadline: no answer before the deadline")


def invoked_payload(request: InvocationRequest, registered: Registered) -> InvokedPayload:
    """Return what the event that opens an invocation says."""
    return InvokedPayload(
        request.attribution,
        request.capability,
        request.estimate or (),
        digest(request.data),
        registered.registration.id,
        registered.event,
        request.semantics,
    )


def opened_invocation(
    request: InvocationRequest,
    registered: Registered,
    invocation_id: str,
    event_id: str,
    created: int,
    deadline: int | None = None,
    owner: str = "",
) -> Invocation:
    """Return an invocation that is on the record."""
    return Invocation(
        invocation_id,
        registered.registration.id,
        request.capability,
        request.semantics,
        "open",
        request.value,
        request.envelope,
        event_id,
        created,
        deadline,
        attribution=request.attribution,
        owner=owner,
        kept=request.keep_content,
        registered=registered.event,
    )


def settled_invocation(invocation: Invocation, outcome: InvocationOutcome, event_id: str, time: int) -> Invocation:
    """Return an invocation as it is once an event has settled it."""
    completed, digest = outcome.state == "completed", outcome.partials_digest
    return msgspec.structs.replace(
        invocation,
        state=outcome.state,
        output=outcome.output if completed else None,
        error=None if completed else storable(outcome.error) or None,
        settled_by=event_id,
        answered=time if completed or outcome.answered else None,
        partials=invocation.partials if digest is None else digest.count,
    )


def cost_record(invocation: Invocation, outcome: InvocationOutcome, now: int) -> CostRecord:
    """Return the cost record of an outcome; without cost lines, the elapsed time as an estimate."""
    if not outcome.lines:
        elapsed = CostLine("time", min(max(0, now - invocation.created), MAX_SAFE_INTEGER))
        return CostRecord((elapsed,), invocation.attribution, True)
    for line in outcome.lines:
        if not 0 <= line.amount <= MAX_SAFE_INTEGER:
            raise LedgerError(f"{line.unit}: {line.amount} cannot be recorded")
    return CostRecord(outcome.lines, invocation.attribution, outcome.estimate)


def settled_payload(invocation: Invocation, outcome: InvocationOutcome, cost: CostRecord) -> SettledPayload:
    """Return what the settling event says; `content` is set if the invocation keeps its content."""
    output = error = reason = content = None
    if outcome.state == "completed":
        data = outcome.data
        if isinstance(data, AnswerDigest):
            output, content = data.result()
        else:
            output = digest(data)
            if invocation.kept:
                content = data.decode("utf-8", "replace")
    elif outcome.state == "failed":
        error = storable(outcome.error)
    else:
        reason = storable(outcome.error)
    payload = SettledPayload(invocation.capability, cost, invocation.provider, output, error, reason, content)
    if outcome.partials_digest is not None:
        payload.partials = outcome.partials_digest.to_json()
    return payload


def new_id(now: int) -> str:
    """Return a new invocation id: opaque, never repeated, and impossible to guess.

    It begins with the time, so that ids of one time are neighbours in an index.
    """
    try:
        suffix = _random.pop()
    except IndexError:
        # Drawn in batches: each call of the system releases the interpreter lock.
        drawn = base64.urlsafe_b64encode(os.urandom(_RANDOM_BYTES * _RANDOM_BATCH)).decode()
        width = len(drawn) // _RANDOM_BATCH
        _random.extend(drawn[at : at + width] for at in range(width, len(drawn), width))
        suffix = drawn[:width]
    return f"inv_{now >> 20:011x}{suffix}"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.clear)


def storable(text: str, limit: int = 500) -> str:
    """Cut a text from elsewhere to a length and to characters that every store takes."""
    return text[:limit].encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def digest(data: bytes) -> str:
    """Return the hash by which an event names content that it does not hold."""
    return DIGEST_PREFIX + hashlib.sha256(data).hexdigest()


def encode_content(value: Any) -> bytes:
    """Encode content as JSON, fractions allowed; raise for what JSON cannot carry."""
    try:
        data = msgspec.json.encode(value)
        finite = b"null" not in data or _is_finite(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotCanonical(f"not JSON: {error}") from None
    if not finite:
        raise NotCanonical("not JSON: a number is not finite")
    return data


def _is_finite(value: Any) -> bool:
    """Tell whether every number is finite: the encoder would write null for the others."""
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_finite, value))
    return True

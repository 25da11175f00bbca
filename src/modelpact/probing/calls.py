"""The calls of a probe: made within a budget, and written to a transcript."""

import hashlib
from typing import Any, Final

import msgspec

from modelpact.conversation.request import Request
from modelpact.conversation.response import TextDelta, ThinkingDelta, ToolCall
from modelpact.dispatch.model_caller import CallFailed, CallOptions, ModelCaller, ModelResult
from modelpact.evidence import Rejection
from modelpact.ledger.canonical import canonical, canonical_safe
from modelpact.ledger.costs import Attribution
from modelpact.ledger.event import embedded_cost
from modelpact.probing.trials import ProbeResponse
from modelpact.providers.contract import Invocation
from modelpact.providers.models.json_codec import write_request, write_response
from modelpact.vocabulary.errors import ModelpactError

_DEADLINE_SECONDS: Final = 120.0
_FATAL_STATUSES: Final = (401, 402, 403, 407, 408, 429)
"""Statuses after which the next call would fail as well."""
_CONTENT_EVENTS: Final = (TextDelta, ThinkingDelta, ToolCall)


class Budget(msgspec.Struct, frozen=True):
    """What a probe may spend: calls, and nano-dollars where the price is known."""

    calls: int = 80
    money: int = 100_000_000


class ProbeStopped(ModelpactError):
    """The probe cannot go on: its budget is spent, or the provider does not answer."""


class UnreadableResponse(ModelpactError):
    """A call failed for a reason that says nothing about the capability it tries."""


class NotStreamed(UnreadableResponse):
    """The server sent a whole answer to a request for a stream."""


class ProbeCalls:
    """Makes the calls of one probe, and keeps their transcript and cost."""

    def __init__(self, models: ModelCaller, provider: str, envelope: str, budget: Budget) -> None:
        self._models = models
        self._provider = provider
        self._options: CallOptions = {
            "envelope": envelope,
            "attribution": Attribution(intent="probe"),
            "deadline_s": _DEADLINE_SECONDS,
        }
        self._budget = budget
        self._transcript: list[dict[str, Any]] = []
        self.count = 0
        self.spent = 0
        self.is_priced = False
        self.limit_field = ""
        """The field that limits the output here, if the catalog's field does not work."""

    async def ask(self, request: Request, *, streamed: bool = False) -> ProbeResponse | Rejection:
        """Call the model. Return its answer, or the rejection of the request.

        Raise `UnreadableResponse` or `ProbeStopped` if the call says nothing about the request.
        """
        if self.limit_field and request.max_tokens is not None:
            extras = {**request.extras, self.limit_field: request.max_tokens}
            request = msgspec.structs.replace(request, max_tokens=None, extras=extras)
        self._check_budget(request)
        self.count += 1
        entry: dict[str, Any] = {"request": write_request(request), "streamed": streamed}
        self._transcript.append(entry)
        try:
            if streamed:
                result, partials = await self._stream(request)
            else:
                result = await self._models.call(self._provider, request, **self._options)
                partials = 1
        except CallFailed as error:
            entry["error"] = str(error)
            self._add_cost(error.invocation)
            return _read_failure(error)
        entry["answer"] = write_response(result.response)
        self._add_cost(result.invocation)
        return ProbeResponse(result.response, partials)

    def transcript(self) -> tuple[bytes, str]:
        """Return the requests and answers as canonical JSON, and its hash."""
        content = canonical(canonical_safe(self._transcript))
        return content, f"sha256:{hashlib.sha256(content).hexdigest()}"

    async def _stream(self, request: Request) -> tuple[ModelResult, int]:
        partials = 0
        result: ModelResult | None = None
        async for event in self._models.stream(self._provider, request, **self._options):
            if isinstance(event, ModelResult):
                result = event
            else:
                partials += isinstance(event, _CONTENT_EVENTS)
        if result is None:
            raise UnreadableResponse("the stream ended without an answer")
        return result, partials

    def _check_budget(self, request: Request) -> None:
        """Stop before a call that the budget may not cover."""
        if self.count >= self._budget.calls:
            raise ProbeStopped(f"the budget of {self._budget.calls} calls is used up")
        lines = self._models.provider(self._provider).estimate(write_request(request))
        money = [line.amount for line in lines if line.unit == "currency"]
        self.is_priced = self.is_priced or bool(money)
        if self.spent + sum(money) > self._budget.money:
            raise ProbeStopped("the next call might exceed the budget")

    def _add_cost(self, invocation: Invocation) -> None:
        ledger = self._models.runtime.ledger
        event = ledger.event(invocation.settled_by) if invocation.settled_by else None
        cost = None if event is None else embedded_cost(event)
        for line in () if cost is None else cost.lines:
            self.spent += line.amount if line.unit == "currency" else 0


def _read_failure(error: CallFailed) -> Rejection:
    """Return the rejection of a request, or raise if the failure is about something else."""
    rejection, message = Rejection.from_error(error), str(error.__cause__ or error)
    status, code = rejection.status, rejection.code
    if code == "not_streamed":
        raise NotStreamed(message)
    if status is None and code in ("malformed", "cut_off"):
        raise UnreadableResponse(message)
    if status is None or status in _FATAL_STATUSES or status >= 500:
        raise ProbeStopped(message)
    if not rejection.is_informative:
        raise UnreadableResponse(message)
    return rejection

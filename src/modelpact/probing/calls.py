"""Pictures of one colour, to ask a model which colour it sees."""

import hashlib
from typing import Any, Final

import msgspec

from modelpact.conversation.request import Request
from modelpact.conversation.response import TextDelta, ThinkingDelta, ToolCall
from modelpact.dispatch.model_caller import CallFailed, ModelCaller, ModelResult
from modelpact.evidence.rejection import Rejection
from modelpact.ledger.canonical import MAX_SAFE_INTEGER, canonical
from modelpact.ledger.costs import Attribution, embedded_cost
from modelpact.probing.trials import Seen
from modelpact.providers.contract import Invocation
from modelpact.providers.models.json_codec import write_request, write_response

_DEADLINE: Final = 120.0
_WHO: Final = Attribution(intent="probe")
_NO_USE: Final = (401, 402, 403, 407, 408, 429)
"""Statuses after which the next call would fare no better."""
_PIECES: Final = (TextDelta, ThinkingDelta, ToolCall)


class Budget(msgspec.Struct, frozen=True):
    """What a probe may spend: calls, and nano-dollars where the price is known."""

    calls: int = 80
    money: int = 100_000_000


class ProbeStopped(Exception):
    """The probe ends here: its budget is used up, or the provider does not answer."""


class UnreadableResponse(Exception):
    """One call came to nothing, for no fault of the capability that it asked for."""


class NotStreamed(UnreadableResponse):
    """A whole answer came where a stream was asked for."""


class ProbeCalls:
    """Makes the calls of one probe and remembers them."""

    def __init__(self, models: ModelCaller, provider: str, envelope: str, budget: Budget) -> None:
        self._models = models
        self._provider = provider
        self._envelope = envelope
        self._budget = budget
        self._written: list[dict[str, Any]] = []
        self.made = 0
        self.spent = 0
        self.priced = False
        self.limit_field = ""
        """The field that limits answers here, where the catalog's does not work."""

    async def ask(self, request: Request, *, streamed: bool = False) -> Seen | Rejection:
        """Call the model: an answer, or its refusal of what was asked."""
        if self.limit_field and request.max_tokens is not None:
            extras = {**request.extras, self.limit_field: request.max_tokens}
            request = msgspec.structs.replace(request, max_tokens=None, extras=extras)
        self._check(request)
        self.made += 1
        entry: dict[str, Any] = {"request": write_request(request), "streamed": streamed}
        self._written.append(entry)
        try:
            called, pieces = await (self._stream(request) if streamed else self._whole(request))
        except CallFailed as error:
            entry["error"] = str(error)
            self._pay(error.invocation)
            return self._refused(error)
        entry["answer"] = write_response(called.response)
        self._pay(called.invocation)
        return Seen(called.response, pieces)

    def transcript(self) -> tuple[bytes, str]:
        """Return what was asked and answered as canonical JSON, and its hash."""
        content = canonical(_plain(self._written))
        return content, f"sha256:{hashlib.sha256(content).hexdigest()}"

    async def _whole(self, request: Request) -> tuple[ModelResult, int]:
        called = await self._models.call(
            self._provider,
            request,
            envelope=self._envelope,
            attribution=_WHO,
            deadline_s=_DEADLINE,
        )
        return called, 1

    async def _stream(self, request: Request) -> tuple[ModelResult, int]:
        pieces = 0
        last: ModelResult | None = None
        async for event in self._models.stream(
            self._provider,
            request,
            envelope=self._envelope,
            attribution=_WHO,
            deadline_s=_DEADLINE,
        ):
            if isinstance(event, ModelResult):
                last = event
            else:
                pieces += isinstance(event, _PIECES)
        if last is None:
            raise UnreadableResponse("the stream ended without an answer")
        return last, pieces

    def _check(self, request: Request) -> None:
        """Stop before a call that the budget may not cover."""
        if self.made >= self._budget.calls:
            raise ProbeStopped(f"the budget of {self._budget.calls} calls is used up")
        lines = self._models.provider(self._provider).estimate(write_request(request))
        money = [line.amount for line in lines if line.unit == "currency"]
        self.priced = self.priced or bool(money)
        if self.spent + sum(money) > self._budget.money:
            raise ProbeStopped("the next call might exceed the budget")

    def _pay(self, invocation: Invocation) -> None:
        ledger = self._models.runtime.ledger
        event = ledger.event(invocation.settled_by) if invocation.settled_by else None
        cost = None if event is None else embedded_cost(event)
        for line in () if cost is None else cost.lines:
            self.spent += line.amount if line.unit == "currency" else 0

    def _refused(self, error: CallFailed) -> Rejection:
        said, told = Rejection.of(error), str(error.__cause__ or error)
        if said.code == "not_streamed":
            raise NotStreamed(told)
        if said.status is None and said.code in ("malformed", "cut_off"):
            raise UnreadableResponse(told)
        if said.status is None or said.status in _NO_USE or said.status >= 500:
            raise ProbeStopped(told)
        if not said.tells:
            raise UnreadableResponse(told)
        return said


def _plain(value: Any) -> Any:
    """Write what canonical JSON has no form for as texts: fractions and huge numbers."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_SAFE_INTEGER
    ):
        return repr(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value

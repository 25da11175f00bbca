"""A model port behind the provider contract: invoked, paid for and recorded like any other."""

import time
import traceback
from collections.abc import AsyncIterator
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.conversation.fidelity import Loss
from modelpact.conversation.request import Request
from modelpact.conversation.response import Finish, Response, StreamEvent, Usage, collect
from modelpact.ledger.costs import Attribution, CostLine, Unit, cost_of
from modelpact.needs.token_estimate import expected_usage, request_tokens, tokens_for
from modelpact.providers.contract import Invocation, Offer, Registration, Reply
from modelpact.providers.models.errors import UpstreamError
from modelpact.providers.models.json_codec import (
    CHAT,
    INPUT,
    OUTPUT,
    read_request,
    write_event,
    write_response,
)
from modelpact.providers.port import ModelPort, ProviderError
from modelpact.providers.transport import Partial
from modelpact.vocabulary.errors import ModelpactError
from modelpact.vocabulary.redaction import redact_text

_UNITS: Final[tuple[Unit, ...]] = (
    "currency",
    "tokens.input",
    "tokens.output",
    "tokens.reasoning",
    "tokens.cache-read",
    "tokens.cache-write",
    "time",
)
_WORKED: Final = ("cut_off", "malformed", "not_streamed", "timeout")
"""Failures of an upstream that had the request: it may charge for it."""
_MOST_ERRORS: Final = 256


@runtime_checkable
class ReportsLosses(Protocol):
    """A port that can say what its API cannot be told of a request."""

    def losses(self, request: Request) -> tuple[Loss, ...]:
        """Return the losses of a request."""


class ModelProvider:
    """Carries chats to a model port, in this process.

    `id` is the provider's id in the contract, by default also its name in the catalog, where the
    prices come from.
    """

    def __init__(
        self,
        id: str,
        port: ModelPort,
        *,
        catalog: Catalog | None = None,
        catalog_name: str = "",
        name: str = "",
        base_url: str = "",
    ) -> None:
        self.id = id
        self.port = port
        self._catalog = catalog or default_catalog()
        self._catalog_name = catalog_name or id
        self._errors: dict[str, ModelpactError] = {}
        self.registration = Registration(
            id=id,
            category="model",
            offers=(
                Offer(
                    CHAT,
                    INPUT,
                    OUTPUT,
                    ("sync", "streaming"),
                    description="Answers a conversation with a model",
                ),
            ),
            units=_UNITS,
            currency="USD",
            name=name or id,
            base_url=base_url,
        )

    def attributed(self, value: Any, who: Attribution) -> Attribution:
        """Return who a chat is for, with the model that it asks for."""
        return msgspec.structs.replace(who, model=value["model"])

    def estimate(self, value: Any) -> tuple[CostLine, ...]:
        """Return what a chat may cost: a token for four characters, and all that it may answer."""
        try:
            request = read_request(value)
        except ModelpactError:
            return ()  # the runtime says what is wrong with it
        return self._lines(request.model, self._expected(request))

    async def send(self, registration: Registration, invocation: Invocation) -> Reply:  # noqa: ARG002
        """Answer a chat whole."""
        started = time.monotonic_ns()
        request: Request | None = None
        try:
            request = read_request(invocation.input)
            losses = self._losses(request)
            response = await self.port.complete(request)
            return self._reply(invocation, request, response, losses)
        except (Exception, SystemExit) as error:
            return self._failed(invocation, request, [], _told(error), started)

    async def stream(
        self,
        registration: Registration,  # noqa: ARG002
        invocation: Invocation,
    ) -> AsyncIterator[Partial | Reply]:
        """Answer a chat in pieces; what an answer that breaks off cost is estimated."""
        started = time.monotonic_ns()
        events: list[StreamEvent] = []
        number = 0
        request: Request | None = None
        try:
            request = read_request(invocation.input)
            losses = self._losses(request)
            pieces = self.port.stream(request)
            try:
                async for event in pieces:
                    events.append(event)
                    if not isinstance(event, Finish):
                        number += 1
                        yield Partial(invocation.id, number, write_event(event))
            finally:
                await _close(pieces)
        except (Exception, SystemExit) as error:
            yield self._failed(invocation, request, events, _told(error), started)
            return
        response = collect(events)
        if response is None:
            cut = UpstreamError("the stream ended before the answer did", code="cut_off")
            yield self._failed(invocation, request, events, cut, started)
        else:
            yield self._reply(invocation, request, response, losses)

    def take_error(self, invocation_id: str) -> ModelpactError | None:
        """Return the error that ended an invocation, once: the ledger keeps only its words."""
        return self._errors.pop(invocation_id, None)

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        """Do nothing: a cancelled call closes its upstream by itself."""

    def _losses(self, request: Request) -> tuple[Loss, ...]:
        return self.port.losses(request) if isinstance(self.port, ReportsLosses) else ()

    def _reply(
        self,
        invocation: Invocation,
        request: Request,
        response: Response,
        losses: tuple[Loss, ...],
    ) -> Reply:
        output = write_response(response)
        if losses:
            output["losses"] = msgspec.to_builtins(losses)
        counted = response.usage != Usage()
        usage = response.usage if counted else self._counted(request, response)
        cost = self._lines(request.model, usage)
        return Reply(invocation.id, output, cost=cost, estimate=not counted)

    def _failed(
        self,
        invocation: Invocation,
        request: Request | None,
        events: list[StreamEvent],
        error: ModelpactError,
        started: int,
    ) -> Reply:
        """Reply that no answer came of it.

        Where the model may have worked, its tokens are estimated; else only the time was spent.
        """
        self._errors[invocation.id] = error
        while len(self._errors) > _MOST_ERRORS:
            del self._errors[next(iter(self._errors))]
        status = error.status if isinstance(error, ProviderError) else None
        code = error.code if isinstance(error, UpstreamError) else ""
        told = f"{code or ('refused' if status is not None else 'failed')}: {error}"
        if request is None or not (events or code in _WORKED):
            line = CostLine("time", max(0, time.monotonic_ns() - started))
            return Reply(invocation.id, error=told, cost=(line,))
        partly = collect([*events, Finish()]) or Response()
        cost = self._lines(request.model, self._counted(request, partly))
        return Reply(invocation.id, error=told, cost=cost, estimate=True)

    def _lines(self, model: str, usage: Usage) -> tuple[CostLine, ...]:
        return cost_of(self._catalog.resolve(self._catalog_name, model).price, usage)

    def _expected(self, request: Request) -> Usage:
        known = self._catalog.resolve(self._catalog_name, request.model).claim("max-output")
        longest = known.value if isinstance(known.value, int) else None
        return expected_usage(request, longest)

    def _counted(self, request: Request, response: Response) -> Usage:
        """Count an answer whose provider did not."""
        made = len(msgspec.json.encode(response.content)) if response.content else 0
        return Usage(request_tokens(request), tokens_for(made))


def _told(error: BaseException) -> ModelpactError:
    """Return what to tell of an error. Ports are anybody's: one that crashes has failed a call.

    Else the call would stand as open for ever.
    """
    if isinstance(error, ModelpactError):
        return error
    said = "".join(traceback.format_exception_only(error)).strip()
    made = ProviderError(redact_text(f"the port crashed: {said}")[:500])
    made.__cause__ = error
    return made


async def _close(pieces: AsyncIterator[StreamEvent]) -> None:
    close = getattr(pieces, "aclose", None)
    if close is not None:
        await close()

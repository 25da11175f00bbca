"""A model port as a provider: invoked, charged and recorded through the provider contract."""

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
from modelpact.providers.models.json_codec import CHAT, INPUT, OUTPUT, read_request, write_event, write_response
from modelpact.providers.models.upstream import UpstreamError
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
_MAY_CHARGE: Final = ("cut_off", "malformed", "not_streamed", "timeout")
"""Failures after the upstream server got the request, which it may charge for."""
_MAX_ERRORS: Final = 256


@runtime_checkable
class ReportsLosses(Protocol):
    """A port that can tell what its API cannot express of a request."""

    def losses(self, request: Request) -> tuple[Loss, ...]:
        """Return the losses of a request."""


class ModelProvider:
    """A transport that takes chats to a model port in this process.

    `id` is the id of the provider in the contract. The catalog has its prices under `catalog_name`,
    by default the same name.
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
                Offer(CHAT, INPUT, OUTPUT, ("sync", "streaming"), description="Answers a conversation with a model"),
            ),
            units=_UNITS,
            currency="USD",
            name=name or id,
            base_url=base_url,
        )

    def attributed(self, value: Any, attribution: Attribution) -> Attribution:
        """Add the model of a chat to its attribution."""
        return msgspec.structs.replace(attribution, model=value["model"])

    def estimate(self, value: Any) -> tuple[CostLine, ...]:
        """Return what a chat may cost: a token per four characters, and the most it may return."""
        try:
            request = read_request(value)
        except ModelpactError:
            return ()  # the runtime reports what is wrong with the input
        return self._cost_lines(request.model, self._estimate_usage(request))

    async def send(self, registration: Registration, invocation: Invocation) -> Reply:  # noqa: ARG002
        """Return the whole response to a chat."""
        started = time.monotonic_ns()
        request: Request | None = None
        try:
            request = read_request(invocation.input)
            losses = self._losses(request)
            response = await self.port.complete(request)
            return self._reply(invocation, request, response, losses)
        except (Exception, SystemExit) as error:
            return self._failed(invocation, request, [], _as_modelpact_error(error), started)

    async def stream(
        self,
        registration: Registration,  # noqa: ARG002
        invocation: Invocation,
    ) -> AsyncIterator[Partial | Reply]:
        """Yield the response to a chat in parts. If it is cut off, its cost is estimated."""
        started = time.monotonic_ns()
        events: list[StreamEvent] = []
        number = 0
        request: Request | None = None
        try:
            request = read_request(invocation.input)
            losses = self._losses(request)
            stream = self.port.stream(request)
            try:
                async for event in stream:
                    events.append(event)
                    if not isinstance(event, Finish):
                        number += 1
                        yield Partial(invocation.id, number, write_event(event))
            finally:
                await _close(stream)
        except (Exception, SystemExit) as error:
            yield self._failed(invocation, request, events, _as_modelpact_error(error), started)
            return
        response = collect(events)
        if response is None:
            cut_off = UpstreamError("the stream ended before the response did", code="cut_off")
            yield self._failed(invocation, request, events, cut_off, started)
        else:
            yield self._reply(invocation, request, response, losses)

    def take_error(self, invocation_id: str) -> ModelpactError | None:
        """Return and forget the error of an invocation; the ledger keeps only its message."""
        return self._errors.pop(invocation_id, None)

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        """Do nothing: a cancelled call closes its upstream connection by itself."""

    def _losses(self, request: Request) -> tuple[Loss, ...]:
        return self.port.losses(request) if isinstance(self.port, ReportsLosses) else ()

    def _reply(self, invocation: Invocation, request: Request, response: Response, losses: tuple[Loss, ...]) -> Reply:
        output = write_response(response)
        if losses:
            output["losses"] = msgspec.to_builtins(losses)
        reported = response.usage != Usage()
        usage = response.usage if reported else self._count_usage(request, response)
        cost = self._cost_lines(request.model, usage)
        return Reply(invocation.id, output, cost=cost, estimate=not reported)

    def _failed(
        self,
        invocation: Invocation,
        request: Request | None,
        events: list[StreamEvent],
        error: ModelpactError,
        started: int,
    ) -> Reply:
        """Return the reply of a failed chat.

        Its tokens are estimated if the model may have worked, else its cost is the time.
        """
        self._errors[invocation.id] = error
        while len(self._errors) > _MAX_ERRORS:
            del self._errors[next(iter(self._errors))]
        status = error.status if isinstance(error, ProviderError) else None
        code = error.code if isinstance(error, UpstreamError) else ""
        message = f"{code or ('refused' if status is not None else 'failed')}: {error}"
        if request is None or not (events or code in _MAY_CHARGE):
            line = CostLine("time", max(0, time.monotonic_ns() - started))
            return Reply(invocation.id, error=message, cost=(line,))
        partial = collect([*events, Finish()]) or Response()
        cost = self._cost_lines(request.model, self._count_usage(request, partial))
        return Reply(invocation.id, error=message, cost=cost, estimate=True)

    def _cost_lines(self, model: str, usage: Usage) -> tuple[CostLine, ...]:
        return cost_of(self._catalog.resolve(self._catalog_name, model).price, usage)

    def _estimate_usage(self, request: Request) -> Usage:
        claim = self._catalog.resolve(self._catalog_name, request.model).claim("max-output")
        return expected_usage(request, claim.value if isinstance(claim.value, int) else None)

    def _count_usage(self, request: Request, response: Response) -> Usage:
        """Count the tokens of a response whose provider did not."""
        length = len(msgspec.json.encode(response.content)) if response.content else 0
        return Usage(request_tokens(request), tokens_for(length))


def _as_modelpact_error(error: BaseException) -> ModelpactError:
    """Return an error as ours. A port may be third-party code: if it crashes, the call has failed.

    Otherwise the invocation would stay open forever.
    """
    if isinstance(error, ModelpactError):
        return error
    text = "".join(traceback.format_exception_only(error)).strip()
    crash = ProviderError(redact_text(f"the port crashed: {text}")[:500])
    crash.__cause__ = error
    return crash


async def _close(stream: AsyncIterator[StreamEvent]) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()

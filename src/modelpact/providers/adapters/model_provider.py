"""A model port behind the provider contract: invoked, paid for and recorded like any other."""

import time
from collections.abc import AsyncIterator
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.conversation.fidelity import Loss
from modelpact.conversation.message import ImageBlock
from modelpact.conversation.request import Request
from modelpact.conversation.response import Finish, Response, StreamEvent, Usage, collect
from modelpact.ledger.costs import Attribution, CostLine, Unit, price_cost, usage_lines
from modelpact.providers.adapters.errors import UpstreamError
from modelpact.providers.adapters.values import (
    CHAT,
    INPUT,
    OUTPUT,
    read_request,
    write_event,
    write_response,
)
from modelpact.providers.contract import Invocation, Offer, Registration, Reply
from modelpact.providers.port import ModelPort, ProviderError
from modelpact.providers.runtime import Partial, Runtime
from modelpact.vocabulary.errors import ModelpactError

_UNITS: Final[tuple[Unit, ...]] = (
    "currency",
    "tokens.input",
    "tokens.output",
    "tokens.reasoning",
    "tokens.cache-read",
    "tokens.cache-write",
    "time",
)
_WORKED: Final = ("cut_off", "malformed", "timeout")
"""Failures of an upstream that had the request: it may charge for it."""
_MOST_REFUSALS: Final = 256
_CHARACTERS_A_TOKEN: Final = 4
_TOKENS_AN_IMAGE: Final = 1_000
_USUAL_OUTPUT: Final = 1_024
"""Tokens to expect of an answer where neither the request nor the catalog has a limit."""


@runtime_checkable
class TellsLosses(Protocol):
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
        self._refusals: dict[str, ModelpactError] = {}
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

    async def invoke(
        self, runtime: Runtime, value: Any, *, attribution: Attribution | None = None, **how: Any
    ) -> Invocation:
        """Invoke a chat with its estimate and its model recorded; `how` is `Runtime.invoke`'s."""
        how.setdefault("estimate", self.estimate(value))
        who = self.attributed(value, attribution)
        return await runtime.invoke(self.id, CHAT, value, attribution=who, **how)

    def attributed(self, value: Any, attribution: Attribution | None = None) -> Attribution:
        """Return who a chat is for, with the model that it asks for."""
        model = value.get("model", "") if isinstance(value, dict) else ""
        who = attribution or Attribution()
        return msgspec.structs.replace(who, model=model if isinstance(model, str) else "")

    def estimate(self, value: Any) -> tuple[CostLine, ...]:
        """Return what a chat may cost: a token for four characters, and all that it may answer."""
        try:
            request = read_request(value)
        except ModelpactError:
            return ()  # the runtime says what is wrong with it
        return self._lines(request.model, self._expected(request))

    def refusal(self, invocation_id: str) -> ModelpactError | None:
        """Return what the port raised on an invocation, once, for who wants to know more."""
        return self._refusals.pop(invocation_id, None)

    async def send(self, registration: Registration, invocation: Invocation) -> Reply:  # noqa: ARG002
        """Answer a chat whole."""
        started = time.monotonic_ns()
        request: Request | None = None
        try:
            request = read_request(invocation.input)
            losses = self._losses(request)
            response = await self.port.complete(request)
        except ModelpactError as error:
            return self._failed(invocation, request, [], error, started)
        return self._reply(invocation, request, response, losses)

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
        except ModelpactError as error:
            yield self._failed(invocation, request, events, error, started)
            return
        response = collect(events)
        if response is None:
            cut = UpstreamError("the stream ended before the answer did", code="cut_off")
            yield self._failed(invocation, request, events, cut, started)
        else:
            yield self._reply(invocation, request, response, losses)

    async def cancel(self, registration: Registration, invocation: Invocation) -> None:
        """Do nothing: a cancelled call closes its upstream by itself."""

    def _losses(self, request: Request) -> tuple[Loss, ...]:
        return self.port.losses(request) if isinstance(self.port, TellsLosses) else ()

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
        if len(self._refusals) >= _MOST_REFUSALS:
            self._refusals.clear()
        self._refusals[invocation.id] = error
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
        price = self._catalog.resolve(self._catalog_name, model).price
        money = None if price is None else price_cost(price, usage)
        return (*usage_lines(usage), *(() if money is None else (money,)))

    def _expected(self, request: Request) -> Usage:
        limit = request.max_tokens
        if limit is None:
            known = self._catalog.resolve(self._catalog_name, request.model).claim("max-output")
            limit = min(known.value, _USUAL_OUTPUT) if isinstance(known.value, int) else None
        return Usage(_size(request), limit or _USUAL_OUTPUT)

    def _counted(self, request: Request, response: Response) -> Usage:
        """Count an answer whose provider did not."""
        made = len(msgspec.json.encode(response.content)) if response.content else 0
        return Usage(_size(request), _tokens(made))


async def _close(pieces: AsyncIterator[StreamEvent]) -> None:
    close = getattr(pieces, "aclose", None)
    if close is not None:
        await close()


def _size(request: Request) -> int:
    """Return the tokens of a prompt, roughly; an image counts the same whatever its length."""
    images = 0
    characters = len(msgspec.json.encode(request.tools)) if request.tools else 0
    for message in request.messages:
        for block in message.content:
            if isinstance(block, ImageBlock):
                images += 1
            else:
                characters += len(msgspec.json.encode(block))
    return _tokens(characters) + images * _TOKENS_AN_IMAGE


def _tokens(characters: int) -> int:
    return -(-characters // _CHARACTERS_A_TOKEN)

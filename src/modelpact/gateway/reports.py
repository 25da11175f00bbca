"""Reports: what the gateway did with a request, in the body of the response on request."""

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import msgspec

from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.upstream.passthrough import USAGE_OPTION
from modelpact.gateway.upstream.sse_scan import find_end
from modelpact.ledger.costs import CostLine, money_of
from modelpact.needs.requests import RequestApi
from modelpact.vocabulary.money import format_decimal
from modelpact.vocabulary.strict_json import UNREADABLE
from modelpact.wire import write_event

_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class ResponseReport(msgspec.Struct):
    """The plan of a request, its record, and its cost once that is known."""

    plan: Plan
    invocation: str
    lines: tuple[CostLine, ...] = ()
    estimate: bool = False
    asks_usage: bool = False
    """Whether the gateway, and not the client, asked for the usage of a stream."""

    def data(self) -> dict[str, Any]:
        """Return the report as JSON."""
        cost: dict[str, Any] | None = None
        if self.lines:
            money = money_of(self.lines)
            cost = {
                "usd": None if money is None else format_decimal(money),
                "lines": msgspec.to_builtins(self.lines),
                "estimate": self.estimate,
            }
        plan = self.plan.data()
        if self.asks_usage:
            plan["added"] = {**plan["added"], USAGE_OPTION: True}
        return {**plan, "invocation": self.invocation, "cost": cost}

    def in_body(self, content: bytes) -> bytes:
        """Return a whole response body with the report as a field; only objects are changed."""
        try:
            fields: dict[str, Any] = _FIELDS.decode(content)
        except UNREADABLE:
            return content
        return msgspec.json.encode({**fields, "modelpact": self.data()})

    def as_event(self, api: RequestApi) -> bytes:
        """Return the report as an event of a stream that clients can ignore."""
        if api != "openai-chat":
            event = {"type": "modelpact", "modelpact": self.data()}
            return write_event(msgspec.json.encode(event).decode(), "modelpact")
        chunk = {
            "id": self.invocation,
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": self.plan.model,
            "choices": [],
            "modelpact": self.data(),
        }
        return write_event(msgspec.json.encode(chunk).decode())

    async def in_stream(self, api: RequestApi, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Pass a stream on, with the report before its last event: by then the cost is known."""
        last_event = b""
        async with aclosing(chunks):  # type: ignore[type-var]
            async for chunk in chunks:
                if last_event:
                    last_event += chunk
                    continue
                end = find_end(api, chunk)
                if end >= 0:
                    chunk, last_event = chunk[:end], chunk[end:]
                if chunk:
                    yield chunk
        yield self.as_event(api) + last_event

"""Reports: what was done with a request, in the body of its answer for who asks for it there."""

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import msgspec

from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.upstream.rewrite import USAGE
from modelpact.gateway.upstream.stream import UNREADABLE, end_at
from modelpact.ledger.costs import CostLine, money_of
from modelpact.ledger.money import format_decimal
from modelpact.needs.requests import RequestApi
from modelpact.wire import write_event

_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class ResponseReport(msgspec.Struct):
    """What is told of one request: its plan, its record, and its cost once that is known."""

    plan: Plan
    invocation: str
    lines: tuple[CostLine, ...] = ()
    estimate: bool = False
    asks_usage: bool = False
    """Whether the usage of a stream was asked for, and not by the client."""

    def data(self) -> dict[str, Any]:
        """Return the object that goes into a body."""
        cost: dict[str, Any] | None = None
        if self.lines:
            money = money_of(self.lines)
            cost = {
                "usd": None if money is None else format_decimal(money),
                "lines": msgspec.to_builtins(self.lines),
                "estimate": self.estimate,
            }
        told = self.plan.data()
        if self.asks_usage:
            told["added"] = {**told["added"], USAGE: True}
        return {**told, "invocation": self.invocation, "cost": cost}

    def in_answer(self, content: bytes) -> bytes:
        """Return a whole answer with the report as a field of its own; what is no object stays."""
        try:
            fields: dict[str, Any] = _FIELDS.decode(content)
        except UNREADABLE:
            return content
        return msgspec.json.encode({**fields, "modelpact": self.data()})

    def as_event(self, api: RequestApi) -> bytes:
        """Return the report as an event of a stream, which clients can overlook."""
        if api != "openai-chat":
            said = {"type": "modelpact", "modelpact": self.data()}
            return write_event(msgspec.json.encode(said).decode(), "modelpact")
        chunk = {
            "id": self.invocation,
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": self.plan.model,
            "choices": [],
            "modelpact": self.data(),
        }
        return write_event(msgspec.json.encode(chunk).decode())

    async def in_stream(
        self, api: RequestApi, pieces: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        """Pass a stream on, with the report before its last event: all is known by then."""
        held = b""
        async with aclosing(pieces):  # type: ignore[type-var]
            async for piece in pieces:
                if held:
                    held += piece
                    continue
                at = end_at(api, piece)
                if at >= 0:
                    piece, held = piece[:at], piece[at:]
                if piece:
                    yield piece
        yield self.as_event(api) + held

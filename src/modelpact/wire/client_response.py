"""An answer to a request that was sent: its head, and a body that arrives while it is read."""

from types import TracebackType
from typing import Final, NoReturn, Protocol, Self

import httptools

from modelpact.wire.body import ArrivingBody, BodySource
from modelpact.wire.errors import Phase, WireError
from modelpact.wire.exchange import BODILESS
from modelpact.wire.headers import Headers
from modelpact.wire.limits import PoolLimits
from modelpact.wire.request_reader import FREE_OVERHEAD, OVERHEAD_RATE


class ResponseSource(BodySource, Protocol):
    """The connection that an answer comes by."""

    name: str
    peer_certificate: bytes | None

    def drop(self) -> None:
        """End the connection at once."""


class ClientResponse(ArrivingBody):
    """A response. Read all of it or close it: left half-read, it keeps its connection."""

    __slots__ = ("_default_limit", "_line", "peer_certificate", "status")

    def __init__(
        self, status: int, headers: Headers, line: ResponseSource, default_limit: int
    ) -> None:
        super().__init__(headers, line)
        self.status = status
        self.peer_certificate = line.peer_certificate
        """The server's certificate (DER), or None without TLS."""
        self._line = line
        self._default_limit = default_limit

    async def read(self, limit: int | None = None) -> bytes:
        """Return the whole body; one longer than the limit is given up, not cut."""
        limit = self._default_limit if limit is None else limit
        if self._ended and self._held <= limit:
            return self.arrived()
        parts = [self.arrived()]
        room = limit - len(parts[0])
        try:
            while room >= 0 and (part := await self.take()):
                parts.append(part)
                room -= len(part)
        except BaseException:
            await self.aclose()
            raise
        if room < 0:
            await self.aclose()
            raise WireError("body", f"{self._line.name}: the answer is longer than {limit} bytes")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def aclose(self) -> None:
        """Give up what has not arrived, and the connection with it; harmless when all has."""
        if not self._ended:
            self.fail(WireError("body", "the answer was closed before its end"))
            self._line.drop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Answer {self.status}>"


_MOST_INTERIM: Final = 16
"""Answers of the 100s before the real one."""


class ResponseSink(ResponseSource, Protocol):
    """Takes an answer as soon as its head is complete."""

    def answered(self, answer: ClientResponse) -> None:
        """Take the answer; its body follows."""


class ClientResponseReader:
    """Parses one connection's answers, each after `expect`."""

    __slots__ = (
        "_asker",
        "_body_parts",
        "_chunked",
        "_error",
        "_fed",
        "_feeding",
        "_fields",
        "_got",
        "_head_only",
        "_in_head",
        "_interim",
        "_limits",
        "_parser",
        "_until_close",
        "answer",
        "finished",
        "keeps_alive",
        "on_body",
        "surplus",
    )

    def __init__(self, limits: PoolLimits, asker: ResponseSink) -> None:
        self._limits = limits
        self._asker = asker
        self._body_parts: list[bytes] = []
        self.on_body = self._body_parts.append
        """Collects the body; the parser calls it."""
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._fields: list[tuple[bytes, bytes]] = []
        self._error: WireError | None = None
        self._in_head = self._chunked = self._until_close = False
        self.surplus = False
        """Whether more came than an answer."""
        self.expect(head_only=False)

    def expect(self, *, head_only: bool) -> None:
        """Be ready for the next answer."""
        self.answer: ClientResponse | None = None
        """The answer whose head is there."""
        self.finished = False
        """Whether all of it is there."""
        self.keeps_alive = False
        self._head_only = head_only
        self._fed = self._feeding = self._got = self._interim = 0
        self._body_parts.clear()

    def close(self) -> None:
        """Let go of the parser, which refers back to this reader."""
        self._parser = None

    def feed(self, data: bytes) -> None:
        """Parse some bytes, or raise `WireError`."""
        if self._parser is None:
            return
        self._feeding = len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.finished:
                if self._body_parts:
                    self._pass_on()
                raise (self._error or self._malformed(str(error))) from None
            self.surplus = True
        if not self.finished:
            if self._body_parts:
                self._pass_on()
            self._bound(len(data))

    def ended(self) -> bool:
        """Take the end of the connection; tell whether it is the end of the answer as well."""
        if self.answer is None or not self._until_close or self.finished:
            return False
        self.finished = True
        self.keeps_alive = False
        self.answer.end()
        return True

    def _bound(self, fed: int) -> None:
        """Bound what the parser has not told of: an endless head, endless chunk framing."""
        self._fed += fed
        if self.answer is None:
            if self._fed > self._limits.head + FREE_OVERHEAD:
                raise self._malformed(f"the head is longer than {self._limits.head} bytes")
        elif self._chunked and self._fed > OVERHEAD_RATE * self._got + FREE_OVERHEAD:
            raise self._malformed("far more chunk framing than body")

    # What the parser calls; errors pass through it and are raised again by `feed`.

    def on_message_begin(self) -> None:
        """A head begins; after the answer it is nobody's."""
        self._in_head = True
        self._fields = []
        if self.finished:
            self.surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header; trailers are dropped."""
        if self._in_head:
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Check the head and hand the answer on."""
        self._in_head = False
        parser = self._parser
        if self.finished or parser is None:
            return
        status = parser.get_status_code()
        headers = Headers(self._fields)
        self._check(status, headers)
        if status < 200:
            return
        index = headers.index
        self._chunked = b"transfer-encoding" in index
        self._until_close = not (
            self._chunked or b"content-length" in index or status in BODILESS or self._head_only
        )
        self.keeps_alive = parser.should_keep_alive()
        self._fed = 0
        self.answer = ClientResponse(status, headers, self._asker, self._limits.body)
        if self._head_only:
            # The parser takes no notice of HEAD and waits for a body: it cannot be used again.
            self.finished = self.surplus = True
            self.answer.end()
        self._asker.answered(self.answer)

    def on_message_complete(self) -> None:
        """Note the end of the answer; interim ones have none."""
        if self.answer is not None and not self.finished:
            self.finished = True
            if self._got:
                if self._body_parts:
                    self._pass_on()
                self.answer.end()
            else:
                self.answer.put_all(b"".join(self._body_parts))
                self._body_parts.clear()

    def _pass_on(self) -> None:
        """Pass on what has come of the body."""
        parts = self._body_parts
        part = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        if self.answer is not None:
            self._got += len(part)
            self.answer.put(part)

    def _check(self, status: int, headers: Headers) -> None:
        limits = self._limits
        if not 100 <= status <= 599 or status == 101:
            self._refuse(f"status {status} answers nothing that was asked")
        if status < 200:
            self._interim += 1
            if self._interim > _MOST_INTERIM:
                self._refuse("interim answers without end")
        if len(headers) > limits.headers:
            self._refuse(f"more than {limits.headers} headers")
        if self._fed + self._feeding > limits.head and headers.size > limits.head:
            self._refuse(f"the headers are longer than {limits.head} bytes")
        encoding = headers.index.get(b"transfer-encoding")
        if encoding is not None and (
            encoding.rstrip(b" \t").lower() != b"chunked"
            or b"transfer-encoding" in headers.repeated
        ):
            self._refuse("a transfer encoding other than `chunked`")

    def _refuse(self, what: str) -> NoReturn:
        self._error = self._malformed(what)
        raise self._error

    def _malformed(self, what: str) -> WireError:
        phase: Phase = "head" if self.answer is None else "body"
        return WireError(phase, f"{self._asker.name}: malformed answer: {what}")

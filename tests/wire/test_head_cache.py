"""The head cache: a request matched without parsing equals what the parser would return."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.wire import Headers, HttpRequest, HttpResponse, RawHeaders, ServerLimits
from modelpact.wire.errors import HttpError
from modelpact.wire.request_reader import HttpRequestReader
from tests.wire.support import on_loop, raw, serving


class Sink:
    """Collects the requests of a reader."""

    peer = ("", 0)
    peer_certificate: bytes | None = None

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []

    def request_received(self, request: HttpRequest, expects_continue: bool) -> None:
        assert not expects_continue
        self.requests.append(request)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def request_body(self) -> None: ...


def post(body: bytes, length: bytes | None = None, *more: bytes) -> bytes:
    lines = [
        b"POST /a?b=c HTTP/1.1",
        b"Host: x",
        b"Connection: keep-alive",
        b"Content-Length: " + (b"%d" % len(body) if length is None else length),
        *more,
        b"X-After: 1",
        b"",
        body,
    ]
    return b"\r\n".join(lines)


def parts_of(request: HttpRequest) -> tuple[object, ...]:
    target = request.authority, request.path, request.query
    flags = request.complete, request.keep_alive, request.accepts_chunked
    return request.method, target, list(request.headers), request.read_nowait(), flags


def reader_with_cached_head(first: bytes, **limits: int) -> HttpRequestReader:
    sink = Sink()
    reader = HttpRequestReader(ServerLimits(**limits), sink)
    reader.feed(first)
    reader.cache_head(first, sink.requests[0])
    return reader


def parsed(data: bytes) -> list[HttpRequest]:
    sink = Sink()
    reader = HttpRequestReader(ServerLimits(), sink)
    try:
        reader.feed(data)
    except HttpError:
        return []
    return sink.requests if reader.at_start else []


@pytest.mark.parametrize("body", [b"first", b"other", b"", b"a longer body than the first" * 400])
def test_the_same_head_with_another_body_matches(body: bytes) -> None:
    request = reader_with_cached_head(post(b"first")).match_cached_head(post(body))
    assert request is not None
    assert parts_of(request) == parts_of(*parsed(post(body)))
    assert request.headers.get("content-length") == str(len(body))


LENGTHS = (b"5,5", b"+5", b"5 ", b" 5", b"0x5", b"5\t", b"", b"-5", b"5\r\nContent-Length: 5", b"\xb2")


@pytest.mark.parametrize("length", LENGTHS)
def test_a_length_with_other_characters_does_not_match(length: bytes) -> None:
    assert reader_with_cached_head(post(b"first")).match_cached_head(post(b"other", length)) is None


@pytest.mark.parametrize(
    "data",
    [
        post(b"other")[:-1],
        post(b"other") + b"x",
        post(b"other") + post(b"other"),
        post(b"other", b"6"),
        post(b"other", b"4"),
        post(b"other", None, b"Transfer-Encoding: chunked"),
        post(b"other", None, b"Content-Length: 5"),
        post(b"other").replace(b"POST", b"PUT"),
        post(b"other").replace(b"Host: x", b"Host: y"),
        b"\r\n" + post(b"other"),
        b"",
    ],
)
def test_other_data_does_not_match(data: bytes) -> None:
    assert reader_with_cached_head(post(b"first")).match_cached_head(data) is None


@pytest.mark.parametrize(
    "first",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2 \r\n\r\nab",
    ],
)
def test_only_plain_heads_are_cached(first: bytes) -> None:
    assert reader_with_cached_head(first).match_cached_head(first) is None


def test_the_limit_of_the_body_holds() -> None:
    reader = reader_with_cached_head(post(b"first"), body=100)
    assert reader.match_cached_head(post(b"x" * 100)) is not None
    assert reader.match_cached_head(post(b"x" * 101)) is None


def test_heads_that_never_match_are_no_longer_cached() -> None:
    sink = Sink()
    reader = HttpRequestReader(ServerLimits(), sink)
    for n in range(8):
        data = post(b"x", None, b"X-Id: %d" % n)
        reader.feed(data)
        reader.cache_head(data, sink.requests[-1])
    assert reader.match_cached_head(data) is None


PIECES = st.sampled_from(
    [b"\r\n", b"\r\n\r\n", b"Content-Length: 5", b"Content-Length: ", b"5", b"0", b":", b" ", b"x"]
)


@given(st.integers(0, 200), st.integers(0, 12), PIECES | st.binary(max_size=3), st.binary(max_size=12))
def test_a_matched_request_equals_the_parsed_one(at: int, removed: int, put: bytes, body: bytes) -> None:
    data = post(body)
    data = data[:at] + put + data[at + removed :]
    known = reader_with_cached_head(post(b"first")).match_cached_head(data)
    if known is not None:
        assert [parts_of(known)] == [parts_of(request) for request in parsed(data)]


@on_loop
async def test_a_connection_serves_cached_and_other_heads_in_turn() -> None:
    async def handler(request: HttpRequest) -> HttpResponse:
        length = request.headers.get("content-length") or "none"
        return HttpResponse(200, {"x-length": length}, await request.body())

    async with serving(handler) as server, raw(server.port) as peer:
        for n in range(20):
            body = b"x" * n
            await peer.send(post(body))
            head, got = await peer.response()
            assert (got, b"x-length: %d\r\n" % n in head) == (body, True)
            if n % 3 == 0:
                await peer.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b"x-length: none\r\n" in (await peer.response())[0]
            if n % 5 == 0:
                data = post(body) + post(b"two")
                await peer.send(data[:70])
                await asyncio.sleep(0)
                await peer.send(data[70:])
                assert (await peer.response())[1] == body
                assert (await peer.response())[1] == b"two"


def test_raw_headers_are_encoded_once_and_never_shown() -> None:
    lines = RawHeaders.encode({"a": "1", "b": "zwei"}).plus(RawHeaders.encode([("a", "2")]))
    assert bytes(lines) == b"a: 1\r\nb: zwei\r\na: 2\r\n"
    assert lines.pairs() == [("a", "1"), ("b", "zwei"), ("a", "2")]
    assert "zwei" not in f"{lines!r} {lines}"


def test_forwardable_headers_leave_out_the_named_ones_and_are_kept() -> None:
    fields = [
        (b"host", b"a"),
        (b"connection", b"close, X-Private"),
        (b"x-private", b"1"),
        (b"content-length", b"3"),
        (b"authorization", b"mine"),
        (b"x-kept", b"1"),
        (b"x-kept", b"2"),
    ]
    headers = Headers(fields)
    assert headers.forwardable().pairs() == [("authorization", "mine"), ("x-kept", "1"), ("x-kept", "2")]
    without = frozenset((b"authorization",))
    for _ in range(2):
        assert headers.forwardable(without).pairs() == [("x-kept", "1"), ("x-kept", "2")]
    longer = headers.with_length(b"10")
    assert longer.forwardable(without).pairs() == [("x-kept", "1"), ("x-kept", "2")]
    assert longer.get("content-length") == "10"
    assert headers.get("content-length") == "3"

"""Servers that reject, fail, hang, stall or lie: each has its error, and no key is shown."""

import asyncio
import socket
import time
from typing import Any

import pytest

from modelpact.conversation.response import Finish, TextDelta, collect
from modelpact.providers import ProviderError
from modelpact.providers.models import ApiKey, OpenAIChatAdapter, UpstreamError
from modelpact.providers.models.upstream import read_retry_after
from modelpact.vocabulary.errors import ModelpactError
from modelpact.wire import Headers, HttpRequest, HttpResponse, Timeouts, serve
from tests.fakes import Fail, Fault, Reply, cut, drip, flood, garbage, hang
from tests.fakes.loops import on_loop
from tests.providers.models.adapter_fixtures import APIS, KEY, ask, at, listed

both = pytest.mark.parametrize("api", APIS)


async def error_of(api: str, script: list[Any], *, streamed: bool = False, **how: Any) -> Any:
    async with at(api, script, **how) as (port, _):
        with pytest.raises(UpstreamError) as raised:
            await (listed(port, ask(api)) if streamed else port.complete(ask(api)))
    assert KEY not in str(raised.value)
    return raised.value


# Errors of the provider.


@both
@on_loop
async def test_retry_after_is_reported(api: str) -> None:
    for streamed in (False, True):
        error = await error_of(api, [Fail(429, retry_after=2)], streamed=streamed)
        assert (error.status, error.retry_after) == (429, 2.0)
        assert error.code in ("rate_limit_exceeded", "rate_limit_error")
        assert error.request_id.startswith("req_")


@both
@on_loop
async def test_a_wrong_key_is_not_repeated(api: str) -> None:
    wrong = "-".join(("sk", "ant", "ffffffffffffffff", "the-wrong-key"))
    async with at(api, key=wrong) as (port, _):
        with pytest.raises(ProviderError, match=r"401.*check the key") as raised:
            await port.complete(ask(api))
    assert wrong not in str(raised.value)
    assert "wrong-key" not in str(raised.value)


@on_loop
async def test_a_short_key_is_not_repeated_either() -> None:
    async with at("openai", key="hunter2") as (port, _):
        with pytest.raises(ProviderError) as raised:
            await port.complete(ask("openai"))
    assert "hunter2" not in str(raised.value)


@both
@on_loop
async def test_the_field_and_the_code_are_reported(api: str) -> None:
    async with at(api) as (port, _):
        with pytest.raises(UpstreamError) as raised:
            await port.complete(ask(api, max_tokens=900_000))
    assert raised.value.status == 400
    assert "max" in str(raised.value)
    if api == "openai":
        assert (raised.value.param, raised.value.code) == ("max_tokens", "invalid_value")


@both
@pytest.mark.parametrize("status", [500, 502, 529])
@on_loop
async def test_errors_of_the_server(api: str, status: int) -> None:
    error = await error_of(api, [Fail(status)])
    assert error.status == status


@both
@on_loop
async def test_pages_of_proxies(api: str) -> None:
    page = b"<html>Bad gateway, Bearer " + b"abcd1234" * 3 + b"</html>" + b"x" * 5_000
    error = await error_of(api, [Fail(502, body=page)])
    assert "Bad gateway" in str(error)
    assert "abcd1234" not in str(error)
    assert len(str(error)) < 900
    assert (await error_of(api, [Fail(503, body=b"")])).status == 503


@on_loop
async def test_redirects_are_not_followed() -> None:
    async def elsewhere(_: HttpRequest) -> HttpResponse:
        return HttpResponse(307, {"location": "https://evil.example/"})

    async with await serve(elsewhere, "127.0.0.1", 0) as server:
        port = OpenAIChatAdapter(f"http://127.0.0.1:{server.port}", ApiKey(KEY))
        with pytest.raises(UpstreamError, match="it redirects, and redirects are not followed"):
            await port.complete(ask("openai"))
        await port.aclose()


def test_retry_after_is_read_in_every_form() -> None:
    def wait(**fields: str) -> float | None:
        pairs = [(k.replace("_", "-").encode(), v.encode()) for k, v in fields.items()]
        return read_retry_after(Headers(pairs), now=784_111_777.0)

    assert wait(retry_after="3") == 3
    assert wait(retry_after="3", retry_after_ms="2500") == 2.5
    assert wait(retry_after="Sun, 06 Nov 1994 08:49:40 GMT") == 3
    assert wait(retry_after="Sun, 06 Nov 1994 08:00:00 GMT") == 0
    assert wait(retry_after="99999999") == 86_400
    for nonsense in ("soon", "-1", "nan", "inf", "1e9", ""):
        assert wait(retry_after=nonsense) is None
    assert wait() is None


@both
@pytest.mark.parametrize("temperature", [float("nan"), float("inf")])
@on_loop
async def test_numbers_that_json_does_not_have_are_not_sent(api: str, temperature: float) -> None:
    async with at(api) as (port, fake):
        with pytest.raises(ModelpactError):
            await port.complete(ask(api, temperature=temperature))
        assert fake.requests == []


# Faults on the way.


@both
@pytest.mark.parametrize("streamed", [False, True])
@on_loop
async def test_a_server_that_does_not_respond(api: str, streamed: bool) -> None:
    error = await error_of(api, [hang(-1)], streamed=streamed)
    assert error.code == "timeout"
    assert "no response within 0.5 s" in str(error)


@both
@pytest.mark.parametrize("streamed", [False, True])
@on_loop
async def test_a_server_that_stops_in_the_middle(api: str, streamed: bool) -> None:
    error = await error_of(api, [hang(3)], streamed=streamed)
    assert error.code == "timeout"
    assert "the server sent nothing for 0.5 s" in str(error)


@both
@pytest.mark.parametrize("streamed", [False, True])
@on_loop
async def test_a_connection_that_breaks(api: str, streamed: bool) -> None:
    error = await error_of(api, [cut(3)], streamed=streamed)
    assert error.code == "cut_off"


@both
@on_loop
async def test_a_stream_closed_early_ends_without_finish(api: str) -> None:
    async with at(api, [cut(3, clean=True)]) as (port, _):
        events = await listed(port, ask(api))
    assert collect(events) is None


@both
@on_loop
async def test_a_body_closed_early_is_malformed(api: str) -> None:
    error = await error_of(api, [cut(20, clean=True)])
    assert (error.code, "not JSON" in str(error)) == ("malformed", True)


@both
@on_loop
async def test_a_slow_response_is_accepted(api: str) -> None:
    slow = Timeouts(first_byte=5.0, between_bytes=5.0)
    script = [Reply("slow", fault=drip(0.001, 9)), Reply("slow", fault=drip(0.001, 9))]
    async with at(api, script, timeouts=slow) as (port, _):
        assert (await port.complete(ask(api))).text == "slow"
        streamed = collect(await listed(port, ask(api)))
        assert streamed is not None
        assert streamed.text == "slow"


@both
@on_loop
async def test_a_slow_response_times_out_in_total(api: str) -> None:
    short = Timeouts(first_byte=5.0, between_bytes=5.0, total=0.5)
    started = time.monotonic()
    error = await error_of(api, [drip(0.05)], streamed=True, timeouts=short)
    assert error.code == "timeout"
    assert time.monotonic() - started < 5


@both
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("data", [b"\x00\xff<html>", b"data: {\n\n", b"data: []\n\n", b'data: {"type":1}\n\n', b"{}"])
@on_loop
async def test_garbage(api: str, streamed: bool, data: bytes) -> None:
    async with at(api, [garbage(data, 2 if streamed else 0)]) as (port, _):
        work: Any = listed(port, ask(api)) if streamed else port.complete(ask(api))
        result: Any = (await asyncio.gather(work, return_exceptions=True))[0]
    if isinstance(result, UpstreamError):
        assert result.code == "malformed"
    else:
        assert streamed
        assert collect(result) is None


@both
@pytest.mark.parametrize("streamed", [False, True])
@on_loop
async def test_a_flood_is_bounded(api: str, streamed: bool) -> None:
    error = await error_of(api, [flood(50_000_000)], streamed=streamed, max_bytes=1_000_000)
    assert error.code == "malformed"
    assert "longer than 1000000 bytes" in str(error)


@both
@on_loop
async def test_an_error_in_the_middle_of_a_stream(api: str) -> None:
    error = {"error": {"type": "overloaded_error", "message": "busy"}, "type": "error"}

    def spoil(event: dict[str, Any]) -> Any:
        ends = ("content_block_stop", "response.output_text.done")
        late = event.get("type") in ends or any(choice["finish_reason"] for choice in event.get("choices", []))
        return error if late else event

    async with at(api, [Reply("x", patch=spoil)]) as (port, _):
        stream = port.stream(ask(api))
        assert await anext(stream) == TextDelta("x")
        with pytest.raises(UpstreamError, match="stopped with an error: busy") as raised:
            await anext(stream)
    assert raised.value.status == 529


@on_loop
async def test_a_response_that_is_not_a_stream() -> None:
    plain = Reply("x", headers={"content-type": "text/plain"})
    error = await error_of("openai", [plain], streamed=True)
    assert "expected a stream, got 'text/plain'" in str(error)


@on_loop
async def test_an_unrequested_content_encoding() -> None:
    error = await error_of("openai", [Reply("x", headers={"content-encoding": "br"})])
    assert "content encoding 'br'" in str(error)


# Connections.


@on_loop
async def test_an_address_without_a_server() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = OpenAIChatAdapter(f"http://127.0.0.1:{free.getsockname()[1]}", ApiKey(KEY))
        with pytest.raises(UpstreamError, match="cannot connect") as raised:
            await port.complete(ask("openai"))
        assert raised.value.code == "unreachable"
        await port.aclose()


@on_loop
async def test_a_connection_is_tried_twice_and_a_request_is_sent_once() -> None:
    from modelpact.wire import Client, WireError

    class Flaky(Client):
        tries = 0
        phase: Any = "connect"

        async def request(self, *args: Any, **how: Any) -> Any:
            self.tries += 1
            if self.tries == 1:
                raise WireError(self.phase, "refused")
            return await super().request(*args, **how)

    async with at("openai") as (_, fake), Flaky() as client:
        port = OpenAIChatAdapter(fake.base_url, ApiKey(KEY), client=client)
        assert (await port.complete(ask("openai"))).text == "You said: Hi"
        assert (client.tries, len(fake.requests)) == (2, 1)
    for phase in ("tls", "write", "first byte", "head"):
        async with at("openai") as (_, fake), Flaky() as client:
            client.phase = phase
            port = OpenAIChatAdapter(fake.base_url, ApiKey(KEY), client=client)
            with pytest.raises(UpstreamError):
                await port.complete(ask("openai"))
            assert client.tries == 1


@both
@on_loop
async def test_connections_are_reused(api: str) -> None:
    async with at(api) as (port, fake):
        for _ in range(3):
            await listed(port, ask(api))
            await port.complete(ask(api))
        assert fake.connections == 1


@both
@on_loop
async def test_many_at_once(api: str) -> None:
    async with at(api, timeouts=Timeouts()) as (port, fake):
        streams = [listed(port, ask(api, f"No. {number}")) for number in range(40)]
        wholes = [port.complete(ask(api, f"No. {number}")) for number in range(40)]
        responses = [collect(events) for events in await asyncio.gather(*streams)]
        responses += await asyncio.gather(*wholes)
        assert [item.text for item in responses if item is not None] == [
            f"You said: No. {number}" for number in (*range(40), *range(40))
        ]
        assert len(fake.requests) == 80


@both
@on_loop
async def test_closing_a_stream_closes_the_upstream(api: str) -> None:
    slow = Timeouts(first_byte=20.0, between_bytes=20.0)
    async with at(api, [hang(5)], timeouts=slow) as (port, fake):
        stream = port.stream(ask(api))
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        await _until(lambda: fake.gone == 1 and fake.connections == 0)


@both
@pytest.mark.parametrize("fault", [hang(-1), hang(5)])
@pytest.mark.parametrize("streamed", [False, True])
@on_loop
async def test_a_cancelled_call_closes_the_upstream(api: str, fault: Fault, streamed: bool) -> None:
    slow = Timeouts(first_byte=20.0, between_bytes=20.0)
    async with at(api, [fault], timeouts=slow) as (port, fake):
        work: Any = listed(port, ask(api)) if streamed else port.complete(ask(api))
        task = asyncio.ensure_future(work)
        await _until(lambda: len(fake.requests) == 1)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await _until(lambda: fake.gone == 1 and fake.connections == 0)


@on_loop
async def test_a_server_that_keeps_the_stream_open_after_the_last_event() -> None:
    async with at("openai", [Reply("x", fault=hang(6))]) as (port, _):
        started = time.monotonic()
        events = await listed(port, ask("openai"))
    assert isinstance(events[-1], Finish)
    assert time.monotonic() - started < 2


async def _until(true: Any) -> None:
    for _ in range(500):
        if true():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it never came to be")

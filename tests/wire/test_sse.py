"""Server-Sent Events. The quotations are from section 9.2 of the WHATWG HTML standard."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.vocabulary.errors import InputError
from modelpact.wire import EventParser, ServerSentEvent, WireError, write_comment, write_event


def _read(*chunks: bytes) -> list[ServerSentEvent]:
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [ServerSentEvent("a")]),
        (b"data:a\n\n", [ServerSentEvent("a")]),
        (b"data:  a\n\n", [ServerSentEvent(" a")]),
        (b"data: a\r\n\r\n", [ServerSentEvent("a")]),
        (b"data: a\r\r", [ServerSentEvent("a")]),
        (b"data: a\r\n\n", [ServerSentEvent("a")]),
        (b"data: a\n\r\ndata: b\n\n", [ServerSentEvent("a"), ServerSentEvent("b")]),
        (b"\xef\xbb\xbfdata: a\n\n", [ServerSentEvent("a")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [ServerSentEvent("YHOO\n+2\n10")]),
        (
            b": test stream\n\ndata: first\nid: 1\n\ndata:second\nid\n\ndata:  third\n",
            [ServerSentEvent("first", id="1"), ServerSentEvent("second")],
        ),
        (b"data\n\ndata\ndata\n\ndata:", [ServerSentEvent(""), ServerSentEvent("\n")]),
        (b"data:test\n\ndata: test\n\n", [ServerSentEvent("test"), ServerSentEvent("test")]),
        (b"event: add\ndata: 7\n\ndata: 8\n\n", [ServerSentEvent("7", "add"), ServerSentEvent("8")]),
        (b"event: add\n\ndata: 8\n\n", [ServerSentEvent("8")]),
        (b"id: 1\n\ndata: a\n\n", [ServerSentEvent("a", id="1")]),
        (b"id: 1\ndata: a\n\nid: 2\0\ndata: b\n\n", [ServerSentEvent("a", id="1"), ServerSentEvent("b", id="1")]),
        (b"Data: a\n\nother: b\n\n", []),
        (b" data: a\n\n", []),
        (b"data: a: b\n\n", [ServerSentEvent("a: b")]),
        (b"data: \xff\xe2\x82\n\n", [ServerSentEvent("\ufffd\ufffd")]),
        (b"data: a\n", []),
        (b"", []),
    ],
)
def test_rules_of_the_standard(stream: bytes, events: list[ServerSentEvent]) -> None:
    assert _read(stream) == events
    assert _read(*(stream[n : n + 1] for n in range(len(stream)))) == events


@pytest.mark.parametrize(
    ("value", "retry"), [(b"10", 10), (b"1.5", None), (b"-1", None), (b"", None), (b"9" * 99, None)]
)
def test_retry_consists_of_digits_only(value: bytes, retry: int | None) -> None:
    parser = EventParser()
    parser.feed(b"retry: " + value + b"\n")
    assert parser.retry == retry


STREAMS = st.lists(
    st.sampled_from(
        [b"data", b"event", b"id", b"retry", b":", b": ", b" ", b"\n", b"\r", b"\r\n", b"\n\n",
         b"a", b"7", b"\xef\xbb\xbf", b"\xc3", b"\xa9", b"\0", b"data: x\n", b"\r\r"]
    ),
    max_size=40,
).map(b"".join)  # fmt: skip


@given(STREAMS, st.lists(st.integers(0, 200), max_size=12))
def test_every_chunking_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(places)]
    assert _read(*pieces) == _read(stream)
    assert _read(*(bytes([byte]) for byte in stream)) == _read(stream)


@given(STREAMS)
def test_agrees_with_a_simple_parser(stream: bytes) -> None:
    assert _read(stream) == _plain(stream)


def _plain(stream: bytes) -> list[ServerSentEvent]:
    """Parse with the steps of the standard, over the decoded text."""
    text = stream.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]
    events: list[ServerSentEvent] = []
    data, kind, last = "", "", ""
    for line in lines:
        if line == "":
            if data:
                events.append(ServerSentEvent(data.removesuffix("\n"), kind or "message", last))
            data, kind = "", ""
        elif not line.startswith(":"):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                kind = value
            elif field == "data":
                data += value + "\n"
            elif field == "id" and "\0" not in value:
                last = value
    return events


ONE_LINE = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]))
TEXT = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]))


@given(TEXT, ONE_LINE, ONE_LINE)
def test_events_round_trip(data: str, event: str, id: str) -> None:
    written = write_comment("x") + write_event(data, event, id, retry=5)
    assert _read(written) == [ServerSentEvent(data, event or "message", id)]


@pytest.mark.parametrize("bad", [{"event": "a\nb"}, {"id": "a\rb"}, {"id": "a\0"}])
def test_values_that_would_forge_a_field_are_rejected(bad: dict[str, str]) -> None:
    with pytest.raises(InputError):
        write_event("data", **bad)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        write_comment("a\ndata: b")


def test_an_event_above_the_limit_is_an_error() -> None:
    for stream in (b"data: " + b"x" * 2_000, b"data: xxxxxxxx\n" * 200):
        pieces = [stream[n : n + 10] for n in range(0, len(stream), 10)]
        with pytest.raises(WireError, match="longer than 1000 bytes"):
            list(map(EventParser(limit=1_000).feed, pieces))
    parser = EventParser(limit=1_000)
    assert len(parser.feed(b"data: x\n\n" * 5_000)) == 5_000


@pytest.mark.parametrize("piece", [1, 4_096])
@pytest.mark.parametrize("line", [b"x", b"data: x\n", b"data: x\n\n", b"\r"])
def test_parsing_time_is_linear(line: bytes, piece: int) -> None:
    def seconds(size: int) -> float:
        stream = b"data: " + line * (size // len(line))
        pieces = [stream[n : n + piece] for n in range(0, len(stream), piece)]
        best = 9.0
        for _ in range(3):
            begin = time.process_time()
            _read(*pieces)
            best = min(best, time.process_time() - begin)
        return best

    small, large = seconds(10_000), seconds(160_000)
    assert large < 60 * small + 0.05

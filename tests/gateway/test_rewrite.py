"""Request bodies are forwarded byte for byte, but for what the plan changes."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from modelpact.conversation.openai_chat import wants_usage
from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.upstream.passthrough import rewrite_body
from tests.gateway.support import RunningGateway

FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
scalars = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner))
names = st.text(min_size=1).filter(lambda name: name not in {"model", "old", "new", "gone"})
bodies = st.dictionaries(names, values, max_size=5)


def written(body: dict[str, Any], separators: tuple[str, str], ascii_only: bool) -> bytes:
    return json.dumps(body, separators=separators, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")


spelling = st.tuples(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")]), st.booleans())


@given(bodies, spelling)
def test_a_body_without_changes_is_forwarded_as_it_is(body: Any, how: Any) -> None:
    body = {"model": "gpt-4o", **body}
    raw = written(body, *how)
    plan = Plan("forward", "yes", "gpt-4o", "openai", "gpt-4o", "openai-chat")
    assert rewrite_body(raw, body, plan, ask_usage=False) is raw


@given(bodies, spelling)
def test_only_planned_fields_change(body: Any, how: Any) -> None:
    """MP-A2: every other field keeps its place and its bytes, down to the digits of a number."""
    body = {"old": 1.50, **body, "model": "fast", "gone": 0.2}
    raw = written(body, *how)
    plan = Plan(
        "forward", "labelled", "fast", "openai", "gpt-4o", "openai-chat", renames=(("old", "new"),), drops=("gone",)
    )
    sent = FIELDS.decode(rewrite_body(raw, body, plan, ask_usage=True))
    before = FIELDS.decode(raw)
    assert bytes(sent.pop("model")) == b'"gpt-4o"'
    assert json.loads(bytes(sent.pop("stream_options"))) == {"include_usage": True}
    expected = {
        {"old": "new"}.get(name, name): bytes(value) for name, value in before.items() if name not in ("model", "gone")
    }
    assert {name: bytes(value) for name, value in sent.items()} == expected
    assert list(sent) == list(expected), "in the same order"


def test_numbers_and_escapes_arrive_as_they_were_written(gateway: RunningGateway) -> None:
    raw = (
        b'{ "messages":[{"content":"\\u00e9 \\/ \xc3\xa9","role":"user"}],'
        b' "temperature":1.0, "model":"gpt-4o","seed":12345678901234567 }'
    )
    assert gateway.ask("/v1/chat/completions", raw).status == 200
    assert gateway.openai.contents[-1] == raw
    prefixed = raw.replace(b'"gpt-4o"', b'"openai/gpt-4o"')
    assert gateway.ask("/v1/chat/completions", prefixed).status == 200
    sent = FIELDS.decode(gateway.openai.contents[-1])
    assert {name: bytes(value) for name, value in sent.items()} == {
        name: bytes(value) for name, value in FIELDS.decode(raw).items()
    }


def test_credentials_of_clients_are_not_forwarded(gateway: RunningGateway) -> None:
    headers = {"cookie": "c=1", "x-forwarded-for": "10.0.0.1", "openai-organization": "org"}
    assert gateway.chat("gpt-4o", headers).status == 200
    seen = gateway.openai.requests[-1].headers
    assert gateway.key not in json.dumps(dict(seen))
    assert not {"cookie", "x-forwarded-for", "openai-organization"} & set(seen)


def test_usage_is_requested_for_streams_and_reported(gateway: RunningGateway) -> None:
    quiet = gateway.chat("gpt-4o", stream=True)
    assert quiet.headers["modelpact-added"] == "stream_options.include_usage"
    assert gateway.openai.bodies[-1]["stream_options"] == {"include_usage": True}
    assert all(event == "[DONE]" or event["choices"] for _, event in quiet.events)
    with_usage = gateway.chat("gpt-4o", stream=True, stream_options={"include_usage": True})
    assert "modelpact-added" not in with_usage.headers
    assert with_usage.events[-2][1]["usage"]["total_tokens"] > 0


def test_who_wants_usage() -> None:
    assert wants_usage({"stream_options": {"include_usage": True}})
    unasked: list[Any] = [None, {}, {"include_usage": False}, []]
    for options in unasked:
        assert not wants_usage({"stream_options": options})

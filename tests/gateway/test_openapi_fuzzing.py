"""schemathesis on the OpenAPI document: no 500, and responses as documented."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from modelpact.gateway.routes import openapi
from tests.gateway.processes import TOKEN, Process, started

schema = schemathesis.openapi.from_dict(openapi(conformance=True))
CHATS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings")
WHATEVER = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with started(tmp_path_factory.mktemp("gateway"), "--conformance") as process:
        yield process


@schema.parametrize()
@WHATEVER
def test_no_documented_request_breaks_the_gateway(case: Any, gateway: Process) -> None:
    if isinstance(case.body, dict) and "model" in case.body and len(case.body) % 2:
        case.body["model"] = "mock/demo"
    check(case, gateway)


def check(case: Any, gateway: Process) -> Any:
    return case.call_and_validate(
        base_url=gateway.url,
        # A generated Host may be invalid: the HTTP server rejects it before any route is found.
        headers={"authorization": f"Bearer {TOKEN}", "host": gateway.url.removeprefix("http://")},
        checks=[not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance],
    )


@pytest.mark.parametrize("path", CHATS[:3])
def test_streams_match_the_document(path: str, gateway: Process) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    fields: dict[str, Any] = {"input": "Hi"} if path == "/v1/responses" else {"messages": messages, "max_tokens": 9}
    body: Any = {"model": "mock/demo", "stream": True, **fields}
    case = schema[path]["POST"].Case(body=body, media_type="application/json")
    answer = check(case, gateway)
    assert answer.status_code == 200
    assert answer.headers["content-type"][0].startswith("text/event-stream")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
FIELDS = [
    "messages",
    "input",
    "system",
    "tools",
    "tool_choice",
    "response_format",
    "stream",
    "stream_options",
    "max_tokens",
    "temperature",
    "stop",
    "thinking",
    "text",
    "modalities",
    "n",
    "instructions",
    "metadata",
    "functions",
]


@pytest.mark.parametrize("path", CHATS)
@WHATEVER
@given(fields=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4), text=st.text(max_size=20))
def test_no_value_of_a_field_breaks_the_gateway(path: str, fields: dict[str, Any], text: str, gateway: Process) -> None:
    """A request that would do, with anything at all in its fields."""
    body = {
        "model": "mock/demo",
        "messages": [{"role": "user", "content": text}],
        "input": text,
        "max_tokens": 5,
        **fields,
    }
    status, headers, answer = gateway.ask("POST", path, body)
    assert status < 500, answer
    if status == 200:
        assert headers["modelpact-verdict"] in ("yes", "labelled")
    else:
        assert answer["error"]["message"]


def test_the_document_needs_a_key(gateway: Process) -> None:
    assert gateway.ask("GET", "/openapi.json", authorization="Bearer no")[0] == 401
    status, _, document = gateway.ask("GET", "/openapi.json")
    assert (status, document) == (200, openapi(conformance=True))
    assert {"/v1/chat/completions", "/v1/runs", "/.well-known/openwop"} <= set(document["paths"])

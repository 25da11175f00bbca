"""Schemas of requests are linted for the target; their names are not kept."""

from typing import Any

import pytest

from tests.gateway.conftest import Serve
from tests.gateway.planners import SCHEMA, WEATHER
from tests.gateway.support import HI, RunningGateway

LOOSE: Any = {"type": "object", "properties": {"swordfish": {"type": "string"}}}
RULES = "closed-object, required-property"
WARNING = f"structured-output: the schema breaks rules of openai: {RULES}; `modelpact lint --for openai` says where"


OPTIONAL: Any = {**LOOSE, "additionalProperties": False}
"""Anthropic takes it, OpenAI does not: not every property is required."""
WORKLOADS = """
[workloads.extract]
model = "openai/gpt-4o"
needs = []
fallback = "anthropic/claude-opus-4-5"
[workloads.outages]
model = "openai/gpt-4o"
needs = []
fallback = "anthropic/claude-opus-4-5"
fallback_on = ["outage"]
[workloads.small]
model = "openai/gpt-4o"
needs = []
fallback = "local/small"
[models."local/small"]
structured_output = true
context_window = 2000
"""


def held_to(schema: Any, **more: Any) -> Any:
    fields = {"name": "answer", "schema": schema, "strict": True, **more}
    return {"type": "json_schema", "json_schema": fields}


def test_a_schema_that_the_vendor_rejects_is_a_warning(gateway: RunningGateway) -> None:
    answer = gateway.chat("gpt-4o", response_format=held_to(LOOSE))
    assert answer.headers["modelpact-verdict"] == "labelled"
    assert answer.headers["modelpact-warnings"] == WARNING
    assert answer.status == 400, "the vendor says where"
    again = gateway.chat("gpt-4o", response_format=held_to(LOOSE))
    assert again.headers["modelpact-warnings"] == WARNING
    assert len(gateway.events("negotiation.decided")) == 1, "one decision for both"
    files = b"".join(path.read_bytes() for path in gateway.path.parent.glob("ledger.db*"))
    assert b"swordfish" not in files


def test_an_accepted_schema_is_a_plain_yes(gateway: RunningGateway) -> None:
    answer = gateway.chat("gpt-4o", response_format=SCHEMA)
    assert (answer.status, answer.headers["modelpact-verdict"]) == (200, "yes")


def test_a_schema_that_is_not_strict_is_not_linted(gateway: RunningGateway) -> None:
    answer = gateway.chat("gpt-4o", response_format=held_to(LOOSE, strict=False))
    assert (answer.status, answer.headers["modelpact-verdict"]) == (200, "yes")


def test_the_rules_are_those_of_the_target(gateway: RunningGateway) -> None:
    """Anthropic takes optional properties, and no recursion; others have no profile."""
    fields = {"response_format": held_to(OPTIONAL), "max_tokens": 50}
    assert "warnings" in str(gateway.chat("gpt-4o", **fields).headers)
    assert "modelpact-warnings" not in gateway.chat("claude-opus-4-5", **fields).headers
    plan = gateway.ask("/v1/negotiate", {"model": "local/llama", "messages": HI, **fields}).json
    assert all("schema breaks" not in warning for warning in plan["warnings"])


def test_a_fallback_that_accepts_the_schema_serves(serve: Serve) -> None:
    """MP-A5: the fallback is negotiated and linted like the first model."""
    gateway = serve(WORKLOADS)
    for _ in range(2):
        answer = gateway.chat("workload/extract", response_format=held_to(OPTIONAL))
        assert (answer.status, answer.headers["modelpact-verdict"]) == (200, "labelled")
        assert answer.headers["modelpact-served-model"] == "anthropic/claude-opus-4-5"
        assert answer.headers["modelpact-substituted"] == (
            "openai/gpt-4o -> anthropic/claude-opus-4-5: the schema breaks rules of openai: required-property"
        )
        assert "modelpact-warnings" not in answer.headers
    assert gateway.openai.requests == []
    assert len(gateway.events("negotiation.decided")) == 1, "one decision for both"
    plain = gateway.chat("workload/extract", response_format=SCHEMA)
    assert plain.headers["modelpact-served-model"] == "openai/gpt-4o"


@pytest.mark.parametrize(
    ("workload", "schema", "more"),
    [
        ("extract", LOOSE, {}),  # Anthropic wants objects closed as well
        ("outages", OPTIONAL, {}),
        ("extract", OPTIONAL, {"store": True}),  # a field that Anthropic's API does not have
        ("small", OPTIONAL, {"messages": [{"role": "user", "content": "word " * 9_000}]}),
    ],
)
def test_a_fallback_that_also_rejects_the_schema_is_not_used(
    serve: Serve, workload: str, schema: Any, more: Any
) -> None:
    gateway = serve(WORKLOADS)
    answer = gateway.chat(f"workload/{workload}", response_format=held_to(schema), **more)
    assert answer.headers["modelpact-served-model"] == "openai/gpt-4o"
    assert "the schema breaks rules of openai" in answer.headers["modelpact-warnings"]


def test_a_vendor_without_a_profile_has_no_rules(serve: Serve) -> None:
    gateway = serve(WORKLOADS)
    answer = gateway.chat("workload/small", response_format=held_to(OPTIONAL))
    assert answer.headers["modelpact-served-model"] == "local/small"
    strict = {"modelpact-policy": "fallback=off"}
    answer = gateway.chat("workload/small", strict, response_format=held_to(OPTIONAL))
    assert answer.headers["modelpact-served-model"] == "openai/gpt-4o"


def test_schemas_of_the_other_apis_are_linted(gateway: RunningGateway) -> None:
    form = {"type": "json_schema", "name": "answer", "schema": LOOSE, "strict": True}
    body: Any = {"model": "gpt-4o", "input": "Hi", "text": {"format": form}}
    plan = gateway.ask("/v1/negotiate?api=openai-responses", body).json
    assert plan["warnings"] == [WARNING]
    held = {"format": {"type": "json_schema", "schema": LOOSE}}
    body = {"model": "claude-opus-4-5", "messages": HI, "max_tokens": 9, "output_config": held}
    (warning,) = gateway.ask("/v1/negotiate?api=anthropic", body).json["warnings"]
    assert "rules of anthropic: closed-object;" in warning


def test_an_emulated_schema_is_not_linted(serve: Serve) -> None:
    gateway = serve("[policy]\nemulate = true\n")
    body = {"model": "openai/text-only", "messages": HI, "response_format": held_to(LOOSE)}
    plan = gateway.ask("/v1/negotiate", body).json
    assert [item["capability"] for item in plan["emulated"]] == ["structured-output"]
    assert plan["warnings"] == []


@pytest.mark.parametrize("schema", [None, 5, "x", [], {"type": 7}, {"$ref": "#"}])
def test_an_invalid_schema_does_not_break_the_gateway(gateway: RunningGateway, schema: Any) -> None:
    answer = gateway.chat("gpt-4o", response_format=held_to(schema))
    assert answer.status in (200, 400)
    assert gateway.chat("gpt-4o", response_format=held_to(WEATHER)).status == 200


def test_negotiate_previews_an_untranslatable_request(gateway: RunningGateway) -> None:
    """`/v1/negotiate` says no to what would be refused, and why; the record names its event."""
    body = {"model": "claude-opus-4-5", "messages": HI, "max_tokens": 9, "store": True}
    plan = gateway.ask("/v1/negotiate", body).json
    assert (plan["verdict"], plan["plan"]) == ("no", "refuse")
    assert plan["diagnostic"]["cannotBeTold"] == "store: only openai-chat has this field"
    assert plan["diagnostic"]["wouldHelp"] == ["policy lossy"]
    assert gateway.events() == []
    refused = gateway.ask("/v1/chat/completions", body)
    assert (refused.status, refused.json["error"]["code"]) == (422, "cannot_carry")
    (event,) = gateway.events("negotiation.decided")
    assert refused.headers["modelpact-event"] == event.id
    assert gateway.anthropic.requests == []


def test_a_refusal_names_its_model_once(gateway: RunningGateway) -> None:
    answer = gateway.chat("gpt-5", temperature=0.2)
    assert answer.status == 422
    assert answer.json["error"]["message"].startswith("openai/gpt-5: has no temperature (")

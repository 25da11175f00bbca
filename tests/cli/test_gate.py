"""`modelpact gate`: one decision, JSON in and out (MP-J3)."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Run

BODY: dict[str, Any] = {
    "module": {
        "requiredModelCapabilities": ["structured-output"],
        "fallbackModel": {"provider": "openai", "model": "gpt-5"},
    },
    "activeProvider": "acme",
    "activeModel": "small",
    "substitutionSupported": True,
    "claims": {"openai/gpt-5": ["structured-output"]},
}


def ask(run: Run, **changes: Any) -> tuple[int, Any]:
    body = {key: value for key, value in {**BODY, **changes}.items() if value is not ...}
    result = run("gate", stdin=json.dumps(body))
    code = result.returncode
    return code, json.loads(result.stdout) if code < 2 else result.stderr


def test_a_substitution(run: Run) -> None:
    code, answer = ask(run)
    pair = {"fallbackProvider": "openai", "fallbackModel": "gpt-5"}
    original = {"originalProvider": "acme", "originalModel": "small"}
    missing = {"missingCapabilities": ["structured-output"]}
    assert code == 0
    assert answer == {
        "outcome": {"route": "substitute", **missing, **original, **pair},
        "event": {
            "type": "model.capability.substituted",
            "payload": {"nodeId": "test-node", **original, **pair, **missing},
        },
    }


def test_a_refusal_exits_1(run: Run) -> None:
    code, answer = ask(run, substitutionSupported=False, nodeId="n")
    assert code == 1
    assert answer["outcome"] == {
        "route": "refuse",
        "missingCapabilities": ["structured-output"],
        "fallbackAttempted": False,
    }
    assert answer["event"]["payload"]["nodeId"] == "n"


def test_a_dispatch_has_no_event(run: Run) -> None:
    claims = {"acme/small": ["structured-output"]}
    assert ask(run, claims=claims) == (0, {"outcome": {"route": "dispatch"}, "event": None})


def test_a_model_that_the_claims_do_not_list_has_none(run: Run) -> None:
    code, answer = ask(run, claims={})
    assert (code, answer["outcome"]["fallbackAttempted"]) == (1, True)


def test_credentials_default_to_the_supported_providers(run: Run) -> None:
    assert ask(run, supportedProviders=["openai"])[0] == 0
    code, answer = ask(run, supportedProviders=["openai"], credentials=[])
    assert (code, answer["outcome"]["fallbackAttempted"]) == (1, True)
    code, answer = ask(run, supportedProviders=["anthropic"])
    assert (code, answer["outcome"]["fallbackAttempted"]) == (1, False)


def test_without_claims_the_catalog_answers(run: Run) -> None:
    code, answer = ask(run, claims=..., activeProvider="openai", activeModel="gpt-3.5-turbo-0613", redact=True)
    assert code == 0
    assert answer["outcome"]["fallbackModel"] == "[REDACTED]"
    assert answer["outcome"]["originalModel"] == "gpt-3.5-turbo-0613"


def test_an_unregistered_capability_is_never_met(run: Run) -> None:
    module = {"requiredModelCapabilities": ["telepathy"]}
    code, answer = ask(run, module=module, claims={"acme/small": ["telepathy"]})
    assert (code, answer["outcome"]["missingCapabilities"]) == (1, ["telepathy"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activeProvider": 5}, "activeProvider: expected a text"),
        ({"activeModel": ...}, "activeModel: is missing"),
        ({"module": ...}, "module: expected an object"),
        ({"module": {"requiredModelCapabilities": "x"}}, "module.requiredModelCapabilities"),
        ({"module": {"fallbackModel": {"provider": "x"}}}, "module.fallbackModel.model"),
        ({"substitutionSupported": "yes"}, "substitutionSupported: expected true or false"),
        ({"claims": ["x"]}, "claims: expected an object"),
        ({"credentials": "openai"}, "credentials: expected a list"),
        ({"colour": "red"}, "no field 'colour'"),
    ],
)
def test_wrong_input_exits_2_and_says_where(run: Run, changes: Any, message: str) -> None:
    code, error = ask(run, **changes)
    assert code == 2
    assert message in error

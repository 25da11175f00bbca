"""Emulation in negotiation: emulated by us, with its label, where the need accepts it."""

import json
import subprocess
import sys
from typing import Any

import pytest

from modelpact import Needs, Policy, need, negotiate
from modelpact.emulation.emulator import emulator_strategies
from modelpact.emulation.strategies import default_strategies
from modelpact.negotiation import abp
from tests.conftest import claims

THINK = "system_prompt_injection: Think step by step before answering."
JSON = "post_processing: Parse and validate JSON from text response"
EMULATE = Policy(emulate=True)


@pytest.mark.parametrize("support", ["unsupported", "unknown"])
@pytest.mark.parametrize("name", list(emulator_strategies().labels))
def test_what_is_missing_becomes_emulated_by_us(name: str, support: str) -> None:
    """MP-N10: an unsupported or absent capability whose need accepts emulation."""
    needs = Needs([need(name, min_support="emulated")])
    verdict = negotiate(needs, claims({name: support}), EMULATE, strategies=emulator_strategies())
    (finding,) = verdict.findings
    assert verdict.ok
    assert finding.outcome == "emulated"
    assert finding.label == emulator_strategies().labels[name]


@pytest.mark.parametrize("support", ["unsupported", "unknown"])
def test_a_native_need_is_never_met_by_emulation(support: str) -> None:
    """MP-N8: emulation never satisfies a need for native support."""
    needs = Needs([need("tools", min_support="native")])
    verdict = negotiate(needs, claims({"tool-calling": support}), EMULATE, strategies=emulator_strategies())
    assert not verdict.ok
    assert verdict.findings[0].label == ""


def test_policy_turns_it_on() -> None:
    """MP-N11: emulate where policy says so; a refusal says what would help."""
    needs = Needs([need("tools", min_support="emulated")])
    verdict = negotiate(needs, claims({"tool-calling": "unsupported"}), strategies=emulator_strategies())
    assert not verdict.ok
    assert verdict.findings[0].label == emulator_strategies().labels["tool-calling"]


def test_a_model_that_can_is_not_emulated() -> None:
    verdict = negotiate(
        Needs([need("tools", min_support="emulated")]),
        claims({"tool-calling": "native"}),
        EMULATE,
        strategies=emulator_strategies(),
    )
    assert verdict.findings[0].outcome == "met"
    assert verdict.findings[0].label == ""


def required(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"required": [{"capability": name, "min_support": low} for name, low in pairs]}


REQUEST = {
    "manifest": {"streaming": "native", "structured_output_json_schema": "unsupported"},
    "requirements": required(
        ("streaming", "native"), ("extended_thinking", "emulated"), ("structured_output_json_schema", "emulated")
    ),
}


def test_the_decision_tree_with_emulation() -> None:
    """S002-6-1, S002-6-6: what can be emulated is emulated."""
    plain = abp.negotiate(REQUEST["manifest"], REQUEST["requirements"])
    assert plain.unsupported == ("extended_thinking", "structured_output_json_schema")
    with_ours = abp.negotiate(REQUEST["manifest"], REQUEST["requirements"], strategies=default_strategies())
    assert with_ours.is_compatible()
    assert with_ours.emulatable == ("extended_thinking", "structured_output_json_schema")


def run(*options: str, request: Any = REQUEST) -> tuple[int, Any, str]:
    done = subprocess.run(
        [sys.executable, "-m", "modelpact", "negotiate", "--dialect", "abp", *options],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return done.returncode, json.loads(done.stdout), done.stderr


def test_the_command_shows_it() -> None:
    """MP-J2: `negotiate --dialect abp --emulate --report` shows it."""
    code, report, _ = run("--emulate", "--report")
    assert code == 0
    assert report == {
        "compatible": True,
        "native_count": 1,
        "emulated_count": 2,
        "unsupported_count": 0,
        "summary": "1 native, 2 emulatable, 0 unsupported — fully compatible",
        "details": [
            ["Streaming", {"level": "native"}],
            ["ExtendedThinking", {"level": "emulated", "strategy": THINK}],
            ["StructuredOutputJsonSchema", {"level": "emulated", "strategy": JSON}],
        ],
    }
    assert run("--emulate")[1]["emulatable"] == ["extended_thinking", "structured_output_json_schema"]


def test_the_command_without_it() -> None:
    """S002-6-8: the plain result is the classification; `--emulate` adds emulation."""
    code, result, errors = run()
    assert (code, result["emulatable"]) == (1, [])
    assert "CAPABILITY_UNSUPPORTED" in errors


def test_what_cannot_be_emulated_stays_unsupported() -> None:
    request = {
        "manifest": {},
        "requirements": required(
            ("code_execution", "emulated"), ("tool_use", "emulated"), ("extended_thinking", "native")
        ),
    }
    code, result, _ = run("--emulate", request=request)
    assert code == 1
    assert result == {
        "native": [],
        "emulatable": [],
        "unsupported": ["code_execution", "tool_use", "extended_thinking"],
    }

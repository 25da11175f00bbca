"""The abp specification (docs/spec/abp.md): support levels, classification, the two reports."""

import json
from typing import Any

import msgspec
import pytest

from modelpact import InputError
from modelpact.negotiation.abp import (
    CompatibilityReport,
    NegotiationResult,
    SupportLevel,
    check_capability,
    generate_report,
    negotiate,
    read_manifest,
)
from modelpact.negotiation.negotiate import Strategies

RESTRICTED = {"restricted": {"reason": "sandboxed"}}
NOT_PRESENT = object()


def required(*capabilities: str, min_support: str = "emulated") -> dict[str, Any]:
    entries = [{"capability": name, "min_support": min_support} for name in capabilities]
    return {"required": entries}


def manifest(level: object, name: str = "tool_read") -> dict[str, Any]:
    return {} if level is NOT_PRESENT else {name: level}


@pytest.mark.parametrize(
    ("wire", "support", "reason"),
    [
        ("native", "native", None),
        ("emulated", "emulated", None),
        (RESTRICTED, "restricted", "sandboxed"),
        ("unsupported", "unsupported", None),
    ],
    ids=str,
)
def test_support_levels(wire: object, support: str, reason: str | None) -> None:
    """S002-2-1..4: four levels and how they are written."""
    claim = read_manifest({"streaming": wire}).claim("streaming")
    assert (claim.support, claim.reason) == (support, reason)


@pytest.mark.parametrize(
    ("min_support", "level", "satisfied"),
    [
        ("native", "native", True),
        ("native", "emulated", False),
        ("native", RESTRICTED, False),
        ("native", "unsupported", False),
        ("native", NOT_PRESENT, False),
        ("emulated", "native", True),
        ("emulated", "emulated", True),
        ("emulated", RESTRICTED, True),
        ("emulated", "unsupported", False),
        ("emulated", NOT_PRESENT, False),
    ],
)
def test_min_support_thresholds(min_support: str, level: object, satisfied: bool) -> None:
    """S002-2-5..7, S002-6-2..5: restricted satisfies emulated but not native."""
    result = negotiate(manifest(level), required("tool_read", min_support=min_support))
    assert result.is_compatible() is satisfied
    assert result.total() == 1


CLASSES = [
    pytest.param("native", "native", SupportLevel("native"), id="Native"),
    pytest.param("emulated", "emulatable", SupportLevel("emulated", "adapter"), id="Emulated"),
    pytest.param(RESTRICTED, "emulatable", SupportLevel("emulated", "restricted: sandboxed"), id="Restricted"),
    pytest.param("unsupported", "unsupported", SupportLevel("unsupported"), id="Unsupported"),
    pytest.param(NOT_PRESENT, "unsupported", SupportLevel("unsupported"), id="Not present"),
]


@pytest.mark.parametrize(("level", "bucket", "checked"), CLASSES)
def test_classification_rules(level: object, bucket: str, checked: SupportLevel) -> None:
    """S002-3-1..6, S002-2-8, S002-2-9, S002-11-1: manifest entry and list; restricted becomes
    emulated.
    """
    buckets: dict[str, list[str]] = {"native": [], "emulatable": [], "unsupported": []}
    result = negotiate(manifest(level), required("tool_read"))
    assert result.to_json() == {**buckets, bucket: ["tool_read"]}
    assert check_capability(manifest(level), "tool_read") == checked


def test_a_capability_below_its_minimum_is_unsupported_and_the_verdict_says_why() -> None:
    """S002-3-10: a capability below its minimum goes to unsupported."""
    result = negotiate({"tool_read": "emulated"}, required("tool_read", min_support="native"))
    assert result.unsupported == ("tool_read",)
    assert result.verdict is not None
    assert result.verdict.findings[0].reason == "below-support"


def test_the_example_of_the_flow() -> None:
    """S002-3-8, S002-4-1..3: Streaming native, ToolRead emulated, ToolEdit not in the manifest."""
    backend = {"streaming": "native", "tool_read": "emulated", "tool_bash": RESTRICTED}
    work_order = {
        "required": [
            {"capability": "streaming", "min_support": "native"},
            {"capability": "tool_read", "min_support": "emulated"},
            {"capability": "tool_edit", "min_support": "emulated"},
        ]
    }
    result = negotiate(backend, work_order)
    assert result.to_json() == {"native": ["streaming"], "emulatable": ["tool_read"], "unsupported": ["tool_edit"]}
    assert not result.is_compatible()
    assert result.total() == 3


EXAMPLE = {"streaming": "native", "tool_read": "native", "tool_write": "emulated"}
RESULT_JSON = """
{
  "native": ["streaming", "tool_read"],
  "emulatable": ["tool_write"],
  "unsupported": []
}
"""
REPORT_JSON = """
{
  "compatible": true,
  "native_count": 2,
  "emulated_count": 1,
  "unsupported_count": 0,
  "summary": "2 native, 1 emulatable, 0 unsupported — fully compatible",
  "details": [
    ["Streaming", {"level": "native"}],
    ["ToolRead", {"level": "native"}],
    ["ToolWrite", {"level": "emulated", "strategy": "adapter"}]
  ]
}
"""


def test_the_example_of_a_negotiation_result() -> None:
    """S002-10-1, S002-11-2: exactly, and in this order."""
    result = negotiate(EXAMPLE, required("streaming", "tool_read", "tool_write"))
    assert json.dumps(result.to_json()) == json.dumps(json.loads(RESULT_JSON))


def test_the_example_of_a_compatibility_report() -> None:
    """S002-10-2, S002-5-1..3, S002-10-4: exactly, and in this order."""
    result = negotiate(EXAMPLE, required("streaming", "tool_read", "tool_write"))
    written = msgspec.json.encode(generate_report(result)).decode()
    expected = json.dumps(json.loads(REPORT_JSON), ensure_ascii=False, separators=(",", ":"))
    assert written == expected


def test_an_incompatible_report() -> None:
    """S002-5-2: the summary ends in `fully compatible` or `incompatible`."""
    result = negotiate({"tool_bash": RESTRICTED}, required("tool_edit", "tool_bash"))
    assert generate_report(result) == CompatibilityReport(
        compatible=False,
        native_count=0,
        emulated_count=1,
        unsupported_count=1,
        summary="0 native, 1 emulatable, 1 unsupported — incompatible",
        details=(
            ("ToolBash", SupportLevel("emulated", "restricted: sandboxed")),
            ("ToolEdit", SupportLevel("unsupported")),
        ),
    )


def test_a_report_needs_no_more_than_the_three_lists() -> None:
    """S002-11-3: generate_report works from the result alone."""
    report = generate_report(NegotiationResult(("streaming",), ("tool_write",), ()))
    assert report.compatible
    assert report.details[1] == ("ToolWrite", SupportLevel("emulated", "adapter"))


def test_nothing_required_is_compatible() -> None:
    """S002-3-7: compatible if and only if `unsupported` is empty."""
    result = negotiate({}, required())
    assert result.is_compatible()
    assert result.total() == 0
    assert generate_report(result).summary == ("0 native, 0 emulatable, 0 unsupported — fully compatible")


STRATEGIES = Strategies({"reasoning": "think step by step"})


@pytest.mark.parametrize("level", ["unsupported", NOT_PRESENT], ids=["unsupported", "absent"])
def test_emulation_counts_only_on_request(level: object) -> None:
    """S002-6-8: the plain result is the classification; `--emulate` adds emulation."""
    claimed = manifest(level, "extended_thinking")
    wanted = required("extended_thinking")
    assert negotiate(claimed, wanted).unsupported == ("extended_thinking",)
    helped = negotiate(claimed, wanted, strategies=STRATEGIES)
    assert helped.emulatable == ("extended_thinking",)
    assert generate_report(helped).details == (("ExtendedThinking", SupportLevel("emulated", "think step by step")),)


def test_emulation_never_satisfies_native() -> None:
    """S002-6-3: emulated does not satisfy native."""
    wanted = required("extended_thinking", min_support="native")
    assert not negotiate({}, wanted, strategies=STRATEGIES).is_compatible()


def test_a_capability_without_a_strategy_stays_unsupported() -> None:
    """S002-6-1: what cannot be emulated fails the check before dispatch."""
    wanted = required("extended_thinking", "code_execution")
    helped = negotiate({}, wanted, strategies=STRATEGIES)
    assert helped.to_json() == {"native": [], "emulatable": ["extended_thinking"], "unsupported": ["code_execution"]}


def test_each_capability_stands_in_one_list_once() -> None:
    wanted = required("streaming", "streaming", "tool_read")
    result = negotiate({"streaming": "native"}, wanted)
    assert result.to_json()["native"] == ["streaming"]
    assert result.total() == 2


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {"bogus": "native"},
        {"Streaming": "native"},
        {"streaming": True},
        {"streaming": None},
        {"streaming": "Native"},
        {"streaming": "restricted"},
        {"streaming": "unknown"},
        {"streaming": {"restricted": "reason"}},
        {"streaming": {"restricted": {}}},
        {"streaming": {"restricted": {"reason": 5}}},
        {"streaming": {"restricted": {"reason": "x", "more": 1}}},
        {"streaming": {"native": {}}},
        {5: "native"},
    ],
    ids=str,
)
def test_a_manifest_of_another_form_is_an_input_error(wrong: Any) -> None:
    """MP-J2: anything but the forms of S002-2-1..4 is an input error."""
    with pytest.raises(InputError):
        negotiate(wrong, required("streaming"))
    with pytest.raises(InputError):
        check_capability(wrong, "streaming")


@pytest.mark.parametrize("name", ["bogus", "Streaming", "tool-read", ""])
def test_a_capability_outside_the_list_is_an_input_error(name: str) -> None:
    with pytest.raises(InputError):
        check_capability({}, name)

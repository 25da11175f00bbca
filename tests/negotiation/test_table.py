"""The negotiation table: level × what is claimed × policy; emulation and constraints."""

import pytest

from modelpact import Finding, Policy, Strategies, Verdict, diagnose, negotiate
from tests.conftest import claims

REFUSE = Policy(unknown="refuse")
PROBE = Policy(unknown="probe")
EMULATE = Policy(emulate=True)


def only(verdict: Verdict) -> Finding:
    (finding,) = verdict.findings
    return finding


TABLE = [
    # level, claim, refuse: (outcome, reason), probe: (outcome, reason)
    ("hard", "native", ("met", ""), ("met", "")),
    ("hard", "unsupported", ("missing", "unsupported"), ("missing", "unsupported")),
    ("hard", "unknown", ("missing", "unknown"), ("probe-pending", "unknown")),
    ("preferred", "native", ("met", ""), ("met", "")),
    *[("preferred", "unsupported", *[("preferred-unmet", "unsupported")] * 2)],
    ("preferred", "unknown", ("probe-pending", "unknown"), ("probe-pending", "unknown")),
    ("probed", "native", ("probe-pending", "probed"), ("probe-pending", "probed")),
    ("probed", "unsupported", ("probe-pending", "probed"), ("probe-pending", "probed")),
    ("probed", "unknown", ("probe-pending", "probed"), ("probe-pending", "probed")),
]


@pytest.mark.parametrize(("level", "claim", "refuse", "probe"), TABLE)
def test_the_table_for_flags(level: str, claim: str, refuse: object, probe: object) -> None:
    """MP-N2..4: the table of levels and claims, under both policies."""
    for policy, expected in ((REFUSE, refuse), (PROBE, probe)):
        verdict = negotiate(f"tools:{level}", claims({"tool-calling": claim}), policy)
        finding = only(verdict)
        assert (finding.outcome, finding.reason) == expected
        assert verdict.ok is (finding.outcome != "missing")


LIMITS = [
    ("hard", 200_000, "met", ""),
    ("hard", 199_999, "missing", "below-minimum"),
    ("preferred", 200_000, "met", ""),
    ("preferred", 199_999, "preferred-unmet", "below-minimum"),
    ("probed", 200_000, "met", ""),
    ("probed", 199_999, "probe-pending", "probed"),
]


@pytest.mark.parametrize("policy", [REFUSE, PROBE], ids=["refuse", "probe"])
@pytest.mark.parametrize("name", ["context-window", "max-output", "max-input"])
@pytest.mark.parametrize(("level", "has", "outcome", "reason"), LIMITS)
def test_the_table_for_limits(name: str, level: str, has: int, outcome: str, reason: str, policy: Policy) -> None:
    """MP-N4: a probed limit is met if the number suffices."""
    finding = only(negotiate(f"{name}>=200k:{level}", claims({name: has}), policy))
    assert (finding.outcome, finding.reason) == (outcome, reason)


@pytest.mark.parametrize("policy", [REFUSE, PROBE], ids=["refuse", "probe"])
@pytest.mark.parametrize("level", ["hard", "preferred", "probed"])
def test_an_unknown_context_window_is_always_pending(level: str, policy: Policy) -> None:
    """MP-N6: an unknown context window is always probe-pending."""
    for text in (f"context:{level}", f"context>=200k:{level}"):
        verdict = negotiate(text, claims({}), policy)
        assert only(verdict).outcome == "probe-pending"
        assert verdict.ok


def test_other_unknown_limits_follow_the_policy() -> None:
    assert only(negotiate("max-output>=5", claims({}), REFUSE)).outcome == "missing"
    assert only(negotiate("max-output>=5", claims({}), PROBE)).outcome == "probe-pending"


@pytest.mark.parametrize(
    ("claim", "minimum", "outcome", "label"),
    [
        ("native", "native", "met", ""),
        ("emulated", "native", "missing", ""),
        ("restricted", "native", "missing", ""),
        ("native", "emulated", "met", ""),
        ("emulated", "emulated", "met", "emulated by the provider"),
        ("restricted", "emulated", "met", "restricted: by policy"),
    ],
)
def test_minimum_support(claim: str, minimum: str, outcome: str, label: str) -> None:
    """MP-N7: native needs native; emulated accepts native, emulated and restricted."""
    finding = only(negotiate(f"tools>={minimum}", claims({"tool-calling": claim})))
    assert (finding.outcome, finding.label) == (outcome, label)
    assert finding.reason == ("below-support" if outcome == "missing" else "")


@pytest.mark.parametrize(
    ("has", "needs", "met"),
    [
        ("schema", "json-mode>=schema", True),
        ("schema", "json-mode>=object", True),
        ("object", "json-mode>=object", True),
        ("object", "json-mode>=schema", False),
        ("object", "json-mode", True),
    ],
)
def test_ordered_choices(has: str, needs: str, met: bool) -> None:
    """MP-W1: unavailable < object < schema."""
    assert negotiate(needs, claims({"json-mode": has})).ok is met


def test_an_unordered_choice_must_equal_the_required_value() -> None:
    claimed = claims({"token-limit-param": "max-tokens"})
    assert negotiate("token-limit-param=max-tokens", claimed).ok
    assert not negotiate("token-limit-param=max-output-tokens", claimed).ok


DERIVED = [
    ("long-context", {"context-window": 200_000}, "met"),
    ("long-context", {"context-window": 199_999}, "missing"),
    ("long-context", {}, "probe-pending"),
    ("multimodal", {"image-input": "native"}, "met"),
    ("multimodal", {"video-input": "native", "image-input": "unsupported"}, "met"),
    *[
        ("multimodal", dict.fromkeys(["image-input", "audio-input", "video-input"], bad), outcome)
        for bad, outcome in (("unsupported", "missing"), ("unknown", "probe-pending"))
    ],
    ("multimodal", {"image-input": "unsupported"}, "probe-pending"),
    ("discriminator-enum", {"structured-output": "native"}, "met"),
    ("discriminator-enum", {"structured-output": "unsupported"}, "missing"),
    ("json-mode>=schema", {"structured-output": "native"}, "met"),
    ("json-mode>=object", {"structured-output": "native"}, "met"),
    *[("json-mode>=schema", {"structured-output": "unsupported", "json-object": "native"}, "missing")],
    ("caching=prompt-caching", {"prompt-caching": "native"}, "met"),
]


@pytest.mark.parametrize(("text", "claimed", "outcome"), DERIVED)
def test_derived_capabilities(text: str, claimed: dict[str, object], outcome: str) -> None:
    """MP-W2: derived by a stated formula."""
    assert only(negotiate(text, claims(claimed), PROBE)).outcome == outcome


def test_multimodal_lists_its_kinds() -> None:
    """MP-W2: multimodal is any of image, audio and video input, with its kinds."""
    claimed = claims({"image-input": "native", "video-input": "native"})
    assert claimed.claim("multimodal").value == ("image", "video")


def test_a_step_of_json_mode_that_is_not_known_is_no_miss() -> None:
    """The schema step follows structured output: unknown there is unknown here."""
    claimed = claims({"json-object": "native"})
    assert only(negotiate("structured-output", claimed, PROBE)).outcome == "probe-pending"
    assert only(negotiate("json-mode>=schema", claimed, PROBE)).outcome == "probe-pending"


def test_a_model_with_both_kinds_of_caching_has_each() -> None:
    claimed = claims({"prompt-caching": "native", "context-caching": "native"})
    assert negotiate("caching=prompt-caching", claimed).ok
    assert negotiate("caching=context-caching", claimed).ok


LABELS = Strategies({"reasoning": "think step by step"})


@pytest.mark.parametrize("level", ["hard", "preferred"])
@pytest.mark.parametrize("claim", ["unsupported", "unknown"])
def test_a_missing_capability_is_emulated_if_the_policy_allows_it(claim: str, level: str) -> None:
    """MP-N10: emulated by us, with the label of the strategy."""
    verdict = negotiate(f"reasoning:{level}", claims({"reasoning": claim}), EMULATE, strategies=LABELS)
    assert only(verdict).outcome == "emulated"
    assert only(verdict).label == "think step by step"
    assert verdict.answer == "labelled"
    assert verdict.emulated == verdict.findings


def test_emulation_is_off_by_default_but_mentioned_in_the_finding() -> None:
    """MP-N11: a refusal says when emulation or a fallback would have helped."""
    finding = only(negotiate("reasoning", claims({"reasoning": "unsupported"}), strategies=LABELS))
    assert (finding.outcome, finding.label) == ("missing", "think step by step")


@pytest.mark.parametrize(
    ("text", "claimed"),
    [
        ("reasoning>=native", {"reasoning": "unsupported"}),
        ("seed", {"seed": "unsupported"}),
        ("reasoning>=native", {"reasoning": "emulated"}),
    ],
)
def test_emulation_requires_a_strategy_and_a_need_that_accepts_it(text: str, claimed: dict[str, object]) -> None:
    """MP-N8: emulation never satisfies a need for native support."""
    verdict = negotiate(text, claims(claimed), EMULATE, strategies=LABELS)
    assert only(verdict).outcome == "missing"
    assert only(verdict).label == ""


def test_a_supported_capability_is_not_emulated() -> None:
    for claim in ("native", "emulated", "restricted"):
        claimed = claims({"reasoning": claim})
        assert only(negotiate("reasoning", claimed, EMULATE, strategies=LABELS)).outcome == "met"


def test_the_answer_summarizes_the_findings() -> None:
    claimed = claims({"tool-calling": "native", "seed": "unsupported", "top-k": "restricted"})
    assert negotiate("tools", claimed).answer == "yes"
    assert negotiate("tools,top-k", claimed).answer == "labelled"
    assert negotiate("tools,seed:preferred", claimed).answer == "labelled"
    assert negotiate("tools,streaming:probed", claimed).answer == "labelled"
    assert negotiate("tools,seed", claimed).answer == "no"
    assert negotiate("", claimed).answer == "yes"


def test_every_rejected_or_warned_verdict_has_a_diagnostic() -> None:
    claimed = claims({"tool-calling": "native", "seed": "unsupported"})
    assert diagnose(negotiate("tools", claimed)) is None
    warned = diagnose(negotiate("seed:preferred", claimed))
    assert warned is not None
    assert (warned.target, warned.missing) == ("acme/model", ())
    rejected = diagnose(negotiate("tools,seed", claimed))
    assert rejected is not None
    assert [(miss.capability, miss.reason) for miss in rejected.missing] == [("seed", "unsupported")]

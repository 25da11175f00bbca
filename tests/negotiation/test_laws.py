"""The laws of negotiation, on needs and claims that nobody thought of."""

import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from modelpact import ModelpactError, Need, Needs, Policy, Verdict, default_catalog, need, negotiate
from modelpact.catalog.claim import Claim, Claims
from modelpact.negotiation.negotiate import NO_STRATEGIES, Strategies, decide
from tests.conftest import claims

FLAGS = (
    *("tool-calling", "structured-output", "json-object", "prompt-caching", "context-caching"),
    *("image-input", "audio-input", "video-input", "reasoning", "streaming"),
)
LIMITS = ("context-window", "max-output")
DERIVED = ("long-context", "multimodal", "discriminator-enum", "json-mode", "caching")
VALUES = (1, 100_000, 200_000, 1_000_000)
SUPPORTS = ("native", "emulated", "restricted", "unsupported", "unknown")
CONSTRAINTS = [
    ("structured-output", "tool-calling"),
    ("reasoning", "tool-calling"),
    ("image-input", "json-object", "streaming"),
]
STRATEGIES = Strategies({"reasoning": "think step by step", "structured-output": "parse and check"})

Stated = dict[str, Any]


@st.composite
def a_need(draw: st.DrawFn) -> Need:
    name = draw(st.sampled_from((*FLAGS, *LIMITS, *DERIVED)))
    minimum: Any = None
    if name in LIMITS:
        minimum = draw(st.sampled_from((None, *VALUES)))
    elif name == "json-mode":
        minimum = draw(st.sampled_from((None, "object", "schema")))
    elif name == "caching":
        minimum = "context-caching"
    return need(
        name,
        level=draw(st.sampled_from(("hard", "preferred", "probed"))),
        min_support=draw(st.sampled_from(("native", "emulated"))),
        minimum=minimum,
        required_by=draw(st.lists(st.sampled_from("ab"), max_size=2)),
    )


NEEDS = st.lists(a_need(), max_size=8)
SAID = st.fixed_dictionaries(
    {},
    optional={
        **{name: st.sampled_from(SUPPORTS) for name in FLAGS},
        **{name: st.sampled_from((*VALUES, "unknown")) for name in LIMITS},
    },
)
EXCLUDES = st.lists(st.sampled_from(CONSTRAINTS), unique=True)
POLICIES = st.builds(Policy, unknown=st.sampled_from(("refuse", "probe")), emulate=st.booleans())


def hard(text: str) -> list[Need]:
    return list(Needs(text))


@given(NEEDS, a_need(), SAID, EXCLUDES, POLICIES)
@example(
    hard("tools,structured-output"),
    Need("discriminator-enum", "preferred"),
    {"tool-calling": "native", "structured-output": "native"},
    CONSTRAINTS[:1],
    Policy(),
)
def test_adding_a_need_never_turns_a_no_into_a_yes(
    needs: list[Need], more: Need, claimed: Stated, excludes: list[Any], policy: Policy
) -> None:
    """MP-N14: adding a need never turns a no into a yes."""
    source = claims(claimed, excludes=excludes)
    if not negotiate(needs, source, policy, strategies=STRATEGIES).ok:
        assert not negotiate([*needs, more], source, policy, strategies=STRATEGIES).ok


BETTER = {
    "unsupported": ("emulated", "restricted", "native"),
    "emulated": ("native",),
    "restricted": ("native",),
    "unknown": ("native",),
    "native": ("native",),
}


@given(NEEDS, SAID, POLICIES, st.data())
def test_a_better_claim_never_turns_a_yes_into_a_no(
    needs: list[Need], claimed: Stated, policy: Policy, data: st.DataObject
) -> None:
    """MP-N15: without constraints, a better claim never turns a yes into a no."""
    name = data.draw(st.sampled_from((*FLAGS, *LIMITS)))
    before = claimed.get(name, "unknown")
    if name in LIMITS:
        better: Any = max(VALUES) if before == "unknown" else before + data.draw(st.integers(0, 9))
    else:
        better = data.draw(st.sampled_from(BETTER[before]))
    assert_no_worse(needs, claimed, {**claimed, name: better}, policy)


def assert_no_worse(needs: list[Need], claimed: Stated, better: Stated, policy: Policy) -> None:
    if negotiate(needs, claims(claimed), policy, strategies=STRATEGIES).ok:
        assert negotiate(needs, claims(better), policy, strategies=STRATEGIES).ok


@pytest.mark.parametrize(
    ("text", "claimed", "better"),
    [
        pytest.param(
            "caching=context-caching",
            {"context-caching": "native", "prompt-caching": "unsupported"},
            {"prompt-caching": "native"},
            id="a second kind of caching",
        ),
        pytest.param(
            "json-mode>=object>=native",
            {"json-object": "native", "structured-output": "unsupported"},
            {"structured-output": "restricted"},
            id="a schema mode with restrictions",
        ),
    ],
)
def test_a_better_claim_of_a_base_capability_never_makes_a_verdict_worse(
    text: str, claimed: Stated, better: Stated
) -> None:
    """MP-N15: also where a choice is derived from the flag that became better."""
    assert_no_worse(hard(text), claimed, {**claimed, **better}, Policy())


@given(NEEDS, SAID, EXCLUDES, POLICIES)
def test_findings_cover_every_merged_need_exactly_once(
    needs: list[Need], claimed: Stated, excludes: list[Any], policy: Policy
) -> None:
    """MP-N16: findings cover every merged need exactly once."""
    verdict = negotiate(needs, claims(claimed, excludes=excludes), policy)
    assert [finding.need for finding in verdict.findings] == list(Needs(needs))
    assert verdict.ok is not any(finding.outcome == "missing" for finding in verdict.findings)
    parts = (verdict.missing, verdict.warnings, verdict.emulated)
    assert sum(map(len, parts)) == sum(finding.outcome != "met" for finding in verdict.findings)


def without_order(verdict: Verdict) -> tuple[bool, dict[str, object]]:
    return verdict.ok, {
        finding.capability: (
            *(finding.outcome, finding.reason, finding.label, finding.conflicts, finding.claim),
            *(finding.need.level, finding.need.minimum, frozenset(finding.need.required_by)),
        )
        for finding in verdict.findings
    }


@given(NEEDS, SAID, EXCLUDES, POLICIES, st.randoms())
def test_the_order_of_needs_changes_only_the_order_of_findings(
    needs: list[Need], claimed: Stated, excludes: list[Any], policy: Policy, random: Any
) -> None:
    """MP-N16: the order of needs changes only the order of findings."""
    source = claims(claimed, excludes=excludes)
    shuffled = list(needs)
    random.shuffle(shuffled)
    first = negotiate(needs, source, policy, strategies=STRATEGIES)
    other = negotiate(shuffled, source, policy, strategies=STRATEGIES)
    assert without_order(first) == without_order(other)


@given(NEEDS, NEEDS, SAID, EXCLUDES, POLICIES)
def test_merging_before_or_while_negotiating_is_the_same(
    needs: list[Need], more: list[Need], claimed: Stated, excludes: list[Any], policy: Policy
) -> None:
    source = claims(claimed, excludes=excludes)
    expected = negotiate([*needs, *more], source, policy)
    assert negotiate(Needs(needs) + Needs(more), source, policy) == expected
    assert negotiate([*Needs(needs), *Needs(more)], source, policy) == expected
    assert negotiate([*needs, *more, *needs], source, policy) == expected


@given(NEEDS, POLICIES)
def test_the_memoized_verdict_equals_the_computed_one(needs: list[Need], policy: Policy) -> None:
    """MP-N1: negotiation is a pure, total, deterministic function."""
    target = default_catalog().resolve("openai", "gpt-4o")
    first = negotiate(needs, target, policy, strategies=STRATEGIES)
    again = negotiate(needs, target, policy, strategies=STRATEGIES)
    assert again is first
    assert decide(Needs(needs), target, policy, STRATEGIES) == first
    assert negotiate(needs, "openai/gpt-4o", policy, strategies=STRATEGIES) == first
    assert negotiate(needs, target, policy) == decide(Needs(needs), target, policy, NO_STRATEGIES)


JUNK = st.one_of(
    st.none(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=5),
    st.lists(st.integers() | st.text(max_size=8) | st.none(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


@given(JUNK)
@example(5)
@example(None)
@example(float("nan"))
def test_any_value_as_needs_raises_only_typed_errors(junk: Any) -> None:
    try:
        verdict = negotiate(junk, claims({}))
    except ModelpactError:
        return
    assert isinstance(verdict, Verdict)


@given(JUNK)
def test_any_value_as_target_raises_only_typed_errors(junk: Any) -> None:
    try:
        verdict = negotiate("tools", junk)
    except ModelpactError:
        return
    assert isinstance(verdict, Verdict)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), -1, 10**30, True, "many", (), ("a",), None, b"x"],
    ids=[*["nan", "inf", "negative", "huge", "bool", "text", "empty", "tuple", "none", "bytes"]],
)
@pytest.mark.parametrize("name", ["context-window", "json-mode", "tool-calling", "caching"])
def test_odd_values_in_claims_still_get_an_answer(name: str, value: Any) -> None:
    source = Claims([Claim(name, "native", value)], target="a/b")
    needs = ["context>=5", "json-mode>=object", "tools", "caching=prompt-caching", "long-context"]
    verdict = negotiate(needs, source)
    assert len(verdict.findings) == 5


def test_ten_thousand_needs_and_duplicates_are_answered_in_good_time() -> None:
    names = [f"x-host-acme-k{number}" for number in range(5_000)]
    started = time.perf_counter()
    verdict = negotiate([*names, *names], claims({}))
    assert time.perf_counter() - started < 5
    assert len(verdict.findings) == 5_000
    assert not verdict.ok


@pytest.mark.parametrize("name", ["工具", "tøøls", "𝓽ools", "\u202etools", "tools\x00", "\ud800", "🧰"], ids=ascii)
def test_unicode_names_are_typed_errors(name: str) -> None:
    with pytest.raises(ModelpactError):
        negotiate(name, claims({}))


@pytest.mark.parametrize(
    "target",
    ["工具/模型", "\ud800/\udfff", "a/\x00", "🧰/🧰", "a/" + "b" * 99_999],
    ids=["letters", "surrogates", "nul", "pictures", "long"],
)
def test_unicode_targets_are_answered(target: str) -> None:
    verdict = negotiate("tools,context>=5", target)
    assert verdict.target == target
    assert [finding.reason for finding in verdict.findings] == ["unknown", "unknown"]

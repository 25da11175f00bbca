"""Constraints: needs that are each met but exclude each other on a model."""

import pytest

from modelpact import Claims, negotiate
from tests.conftest import claims

BOTH = {"tool-calling": "native", "structured-output": "native"}
EXCLUDES = [("structured-output", "tool-calling")]


def gemini(**more: object) -> Claims:
    claimed = {**BOTH, **{name.replace("_", "-"): value for name, value in more.items()}}
    return claims(claimed, excludes=EXCLUDES)


def outcomes(text: str, claimed: Claims) -> dict[str, tuple[str, tuple[str, ...]]]:
    findings = negotiate(text, claimed).findings
    return {finding.capability: (finding.outcome, finding.conflicts) for finding in findings}


def test_each_alone_is_met() -> None:
    for name in BOTH:
        assert negotiate(name, gemini()).ok


def test_both_hard_are_a_miss_that_names_both() -> None:
    """MP-N13: needs that are each met but conflict are a miss that names both."""
    verdict = negotiate("tools,structured-output", gemini())
    assert not verdict.ok
    assert [finding.reason for finding in verdict.findings] == ["conflict", "conflict"]
    assert outcomes("tools,structured-output", gemini()) == {
        "tool-calling": ("missing", ("structured-output",)),
        "structured-output": ("missing", ("tool-calling",)),
    }


def test_a_preferred_need_gives_way_to_a_hard_one() -> None:
    assert outcomes("tools,structured-output:preferred", gemini()) == {
        "tool-calling": ("met", ()),
        "structured-output": ("preferred-unmet", ("tool-calling",)),
    }


def test_two_conflicting_preferred_needs_are_both_warnings() -> None:
    outcome = outcomes("tools:preferred,structured-output:preferred", gemini())
    assert {outcome for outcome, _ in outcome.values()} == {"preferred-unmet"}


def test_a_probed_need_excludes_nothing() -> None:
    outcome = outcomes("tools,structured-output:probed", gemini())
    assert outcome["tool-calling"] == ("met", ())


def test_an_unmet_need_excludes_nothing() -> None:
    claimed = claims({**BOTH, "tool-calling": "unsupported"}, excludes=EXCLUDES)
    outcome = outcomes("tools:preferred,structured-output", claimed)
    assert outcome["structured-output"] == ("met", ())


@pytest.mark.parametrize("derived", ["discriminator-enum", "json-mode>=schema"])
def test_constraints_see_through_derived_capabilities(derived: str) -> None:
    verdict = negotiate(f"tools,{derived}", gemini())
    assert not verdict.ok
    assert {finding.reason for finding in verdict.findings} == {"conflict"}


def test_json_object_mode_is_not_part_of_a_schema_constraint() -> None:
    assert negotiate("tools,json-mode>=object", gemini(json_object="native")).ok


def test_a_need_does_not_exclude_itself() -> None:
    assert negotiate("structured-output,discriminator-enum", gemini()).ok


def test_three_capabilities_may_exclude_each_other_only_together() -> None:
    names = ("seed", "top-k", "top-p")
    claimed = claims(dict.fromkeys(names, "native"), excludes=[names])
    assert negotiate("seed,top-k", claimed).ok
    outcome = outcomes("seed,top-k,top-p", claimed)
    assert outcome["seed"] == ("missing", ("top-k", "top-p"))


@pytest.mark.parametrize("extra", ["discriminator-enum:preferred", "json-mode>=schema:preferred"])
def test_a_preferred_need_does_not_hide_a_conflict_of_two_hard_needs(extra: str) -> None:
    """MP-N14: adding a need never turns a no into a yes."""
    assert not negotiate("tools,structured-output", gemini()).ok
    verdict = negotiate(f"tools,structured-output,{extra}", gemini())
    assert not verdict.ok
    assert [miss.capability for miss in verdict.missing] == ["tool-calling", "structured-output"]


def test_a_derived_capability_is_not_named_as_the_other_side_of_a_conflict() -> None:
    outcome = outcomes("tools,structured-output,discriminator-enum", gemini())
    assert outcome["structured-output"] == ("missing", ("tool-calling",))
    assert outcome["discriminator-enum"] == ("missing", ("tool-calling",))
    assert outcome["tool-calling"] == ("missing", ("discriminator-enum", "structured-output"))

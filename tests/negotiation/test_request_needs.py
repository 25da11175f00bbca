"""Needs that were read off a request: the policy has a rule of its own for unknown ones."""

from typing import Any

import pytest

from modelpact.needs.need import Needs
from modelpact.negotiation.negotiate import decide
from modelpact.negotiation.verdict import Policy, PolicySettings, Verdict
from modelpact.vocabulary.errors import InputError
from tests.conftest import claims

UNKNOWN = claims({"tool-calling": "unknown", "image-input": "unknown"})
DECLARED = Needs("tools")
REQUESTED = Needs("image-input")


def outcomes(verdict: Verdict) -> dict[str, str]:
    return {finding.capability: finding.outcome for finding in verdict.findings}


def test_the_default_refuses_unknown_declared_needs_and_probes_requested_ones() -> None:
    verdict = decide(DECLARED, UNKNOWN, Policy(), requested=REQUESTED)
    assert outcomes(verdict) == {"tool-calling": "missing", "image-input": "probe-pending"}
    assert not verdict.ok


@pytest.mark.parametrize("unknown", ["refuse", "probe"])
@pytest.mark.parametrize("in_request", ["refuse", "probe"])
def test_each_rule_applies_to_its_own_needs(unknown: Any, in_request: Any) -> None:
    words = {"refuse": "missing", "probe": "probe-pending"}
    policy = Policy(unknown, unknown_in_request=in_request)
    verdict = decide(DECLARED, UNKNOWN, policy, requested=REQUESTED)
    assert outcomes(verdict) == {"tool-calling": words[unknown], "image-input": words[in_request]}


def test_a_need_that_is_declared_and_requested_counts_as_declared() -> None:
    both = Needs([*DECLARED, *REQUESTED])
    verdict = decide(both, UNKNOWN, Policy(), requested=REQUESTED)
    assert set(outcomes(verdict).values()) == {"missing"}


def test_without_declared_needs_only_the_rule_for_requests_applies() -> None:
    assert decide(Needs(), UNKNOWN, Policy(), requested=REQUESTED).ok
    strict = Policy(unknown_in_request="refuse")
    assert not decide(Needs(), UNKNOWN, strict, requested=REQUESTED).ok


def test_a_known_miss_is_a_miss_under_every_rule() -> None:
    lacking = claims({"image-input": "unsupported"})
    policy = Policy("probe", unknown_in_request="probe")
    assert not decide(Needs(), lacking, policy, requested=REQUESTED).ok


def test_a_policy_keeps_its_settings() -> None:
    settings = PolicySettings("probe", True, "drop")
    assert Policy.of(settings).settings == settings


@pytest.mark.parametrize("field", [{"unknown_in_request": "maybe"}, {"fallback": "on"}, {"lossy": 1}])
def test_invalid_fields_are_rejected(field: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="policy: unknown_in_request is refuse or probe"):
        Policy(**field)

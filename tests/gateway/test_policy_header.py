"""The header `modelpact-policy` makes a policy stricter, never looser, unless the key allows it."""

from typing import Any

import pytest

from modelpact.configuration.config import Configuration, GatewaySettings
from modelpact.gateway.plan.plan import LOOSENABLE, apply_policy_header, configured_policy
from modelpact.negotiation.verdict import Policy, PolicySettings
from modelpact.vocabulary.errors import InputError

LOOSE = Policy("probe", True, "drop", unknown_in_request="probe", fallback=True, lossy=True)
FIELDS: dict[str, tuple[str, Any, Any]] = {
    "unknown": ("unknown", "refuse", "probe"),
    "emulate": ("emulate", False, True),
    "params": ("unsupported_params", "refuse", "drop"),
    "fallback": ("fallback", False, True),
    "lossy": ("lossy", False, True),
}
WORDS = {
    "unknown": ("refuse", "probe"),
    "emulate": ("off", "on"),
    "params": ("refuse", "drop"),
    "fallback": ("off", "on"),
    "lossy": ("off", "on"),
}


def test_the_settings_of_a_configuration_become_a_policy() -> None:
    lossy = Configuration(gateway=GatewaySettings(lossy=True))
    settings = PolicySettings("probe", True, "drop")
    assert configured_policy(lossy, Policy.of(settings)) == LOOSE
    assert configured_policy(Configuration(), Policy()) == Policy()
    assert LOOSE.settings == settings


@pytest.mark.parametrize("name", LOOSENABLE)
def test_every_part_can_be_made_stricter(name: str) -> None:
    field, strict, _ = FIELDS[name]
    policy = apply_policy_header(LOOSE, f"{name}={WORDS[name][0]}")
    assert getattr(policy, field) == strict


@pytest.mark.parametrize("name", LOOSENABLE)
def test_no_part_can_be_made_looser_without_permission(name: str) -> None:
    field, _, loose = FIELDS[name]
    strict_word, loose_word = WORDS[name]
    strict = apply_policy_header(Policy(), f"{name}={strict_word}")
    with pytest.raises(InputError, match="only be made stricter"):
        apply_policy_header(strict, f"{name}={loose_word}")
    policy = apply_policy_header(strict, f"{name}={loose_word}", [name])
    assert getattr(policy, field) == loose


def test_a_part_that_is_loose_already_may_be_repeated() -> None:
    assert apply_policy_header(LOOSE, "emulate=on") == LOOSE
    assert apply_policy_header(LOOSE, "unknown=probe") == LOOSE


def test_unknown_refused_by_a_header_holds_for_the_needs_of_the_request() -> None:
    assert apply_policy_header(Policy(), "unknown=refuse").unknown_in_request == "refuse"
    assert Policy().unknown_in_request == "probe"


def test_several_parts_in_any_spacing() -> None:
    policy = apply_policy_header(LOOSE, " Emulate = OFF ,params=refuse,")
    assert (policy.emulate, policy.unsupported_params, policy.lossy) == (False, "refuse", True)


@pytest.mark.parametrize("header", ["emulate", "emulate=maybe", "speed=high", "=on"])
def test_an_unreadable_header_is_an_error(header: str) -> None:
    with pytest.raises(InputError, match=r"modelpact-policy: .* is not one of unknown=refuse"):
        apply_policy_header(LOOSE, header)

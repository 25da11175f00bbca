"""Policy of a request: "headers make it stricter, never looser, unless the key allows more"."""

import pytest

from modelpact.gateway.plan.policy import LOOSENABLE, RequestPolicy, base_policy, with_header
from modelpact.negotiation.verdict import Policy
from modelpact.vocabulary.errors import InputError

LOOSE = RequestPolicy(unknown=True, emulate=True, drop_params=True, fallback=True, lossy=True)
FIELDS = {"params": "drop_params"}
WORDS = {
    "unknown": ("refuse", "probe"),
    "emulate": ("off", "on"),
    "params": ("refuse", "drop"),
    "fallback": ("off", "on"),
    "lossy": ("off", "on"),
}


def test_a_configuration_becomes_a_policy() -> None:
    made = base_policy(Policy("probe", True, "drop"), lossy=True)
    assert made == LOOSE
    assert base_policy(Policy(), lossy=False) == RequestPolicy()


@pytest.mark.parametrize("name", LOOSENABLE)
def test_every_part_can_be_made_stricter(name: str) -> None:
    strict, _ = WORDS[name]
    made = with_header(LOOSE, f"{name}={strict}")
    assert getattr(made, FIELDS.get(name, name)) is False


@pytest.mark.parametrize("name", LOOSENABLE)
def test_no_part_can_be_made_looser_without_leave(name: str) -> None:
    field = FIELDS.get(name, name)
    strict = with_header(RequestPolicy(), f"{name}={WORDS[name][0]}")
    with pytest.raises(InputError, match="only be made stricter"):
        with_header(strict, f"{name}={WORDS[name][1]}")
    assert getattr(with_header(strict, f"{name}={WORDS[name][1]}", [name]), field) is True


def test_what_is_loose_already_may_be_said_again() -> None:
    assert with_header(LOOSE, "emulate=on") == LOOSE


def test_unknown_refused_by_a_request_holds_for_its_own_needs() -> None:
    assert with_header(RequestPolicy(), "unknown=refuse").strict_unknown
    assert not RequestPolicy().strict_unknown


def test_several_parts_in_any_spacing() -> None:
    made = with_header(LOOSE, " Emulate = OFF ,params=refuse,")
    assert (made.emulate, made.drop_params, made.lossy) == (False, False, True)


@pytest.mark.parametrize("header", ["emulate", "emulate=maybe", "speed=high", "=on"])
def test_what_cannot_be_read_is_told(header: str) -> None:
    with pytest.raises(InputError, match=r"modelpact-policy: .* is not one of unknown=refuse"):
        with_header(LOOSE, header)

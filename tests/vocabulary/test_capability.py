"""Capabilities: ids, kinds, formulas, aliases and hosts' extensions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.vocabulary.capability import (
    ALIASES,
    CAPABILITIES,
    MODALITIES,
    PARAMETERS,
    SUPPORTS,
    capability,
    find_capability,
    is_host_extension,
    satisfies,
)
from modelpact.vocabulary.errors import InputError, UnknownCapability


def test_ids_are_kebab_case_and_unique() -> None:
    """MP-W3: canonical ids are kebab-case."""
    for name, entry in CAPABILITIES.items():
        assert entry.id == name
        assert name == name.lower()
        assert all(part.isalnum() for part in name.split("-"))
        assert entry.meaning


def test_every_capability_is_a_flag_a_limit_or_a_choice() -> None:
    """MP-W1: a flag, a limit or a choice."""
    for entry in CAPABILITIES.values():
        assert entry.kind in ("flag", "limit", "choice")
        assert bool(entry.unit) == (entry.kind == "limit")
        assert bool(entry.choices) == (entry.kind == "choice")


@pytest.mark.parametrize("name", ["context-window", "max-input", "max-output"])
def test_the_limits_are_in_tokens(name: str) -> None:
    assert (CAPABILITIES[name].kind, CAPABILITIES[name].unit) == ("limit", "tokens")


def test_only_json_mode_is_an_ordered_choice() -> None:
    """MP-W1, S004-4-7: unavailable < object < schema; caching has no order."""
    assert CAPABILITIES["json-mode"].choices == ("unavailable", "object", "schema")
    ordered = {entry.id for entry in CAPABILITIES.values() if entry.ordered}
    assert ordered == {"json-mode"}


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("long-context", "context-window ≥ 200,000"),
        ("multimodal", "any of image-input, audio-input, video-input"),
        ("discriminator-enum", "follows structured-output"),
    ],
)
def test_derived_capabilities_state_their_formula(name: str, formula: str) -> None:
    """MP-W2: derived by a stated formula."""
    assert str(CAPABILITIES[name].formula) == formula


def test_fields_beside_the_nine_of_nika() -> None:
    """S004-4-10: what the nine fields lack are fields of ours."""
    ours = {
        "context-window",
        "max-output",
        "temperature",
        "stop-sequences",
        "system-messages",
        "logprobs",
        "seed",
        "n",
        "reasoning",
    }
    assert ours <= set(CAPABILITIES)


def test_every_parameter_and_both_ways_of_every_modality_are_capabilities() -> None:
    for name in PARAMETERS:
        assert name in CAPABILITIES
    for name in MODALITIES:
        assert f"{name}-input" in CAPABILITIES
        assert f"{name}-output" in CAPABILITIES


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        ("tool-calling", "tool-calling"),
        ("toolCalling", "tool-calling"),
        ("tool_calling", "tool-calling"),
        ("ToolUse", "tool-calling"),
        ("Tool Calling", "tool-calling"),
        (" tools ", "tool-calling"),
        ("function-calling", "tool-calling"),
        ("context", "context-window"),
        ("contextWindow", "context-window"),
        ("vision", "image-input"),
        ("extended_thinking", "reasoning"),
        ("structured_output_json_schema", "structured-output"),
        ("seed_determinism", "seed"),
        ("stop", "stop-sequences"),
    ],
)
def test_people_and_dialects_may_spell_it_their_way(spelled: str, expected: str) -> None:
    assert capability(spelled).id == expected


def test_aliases_lead_to_capabilities_and_hide_none() -> None:
    for alias, expected in ALIASES.items():
        assert expected in CAPABILITIES
        assert alias not in CAPABILITIES


@pytest.mark.parametrize("name", ["x-host-acme-sketch", "x-host-a-b-c-d2", "x-host-acme-a1"])
def test_hosts_extend_the_vocabulary(name: str) -> None:
    """MP-W3, S001-C6: hosts extend the vocabulary with x-host-<host>-<key>."""
    assert capability(name).id == name
    assert capability(name).group == "host"
    assert capability(name) == capability(name)


@pytest.mark.parametrize(
    "name", ["x-host-", "x-host-acme", "x-host-acme-", "x-host--key", "X-host-acme-key", "x-host-a-b\n"]
)
def test_what_lacks_host_or_key_is_no_extension(name: str) -> None:
    assert not is_host_extension(name)
    with pytest.raises(UnknownCapability):
        capability(name)


def test_a_host_extension_of_any_length_is_no_way_in() -> None:
    assert find_capability("x-host-acme-" + "k" * 10_000) is None


@pytest.mark.parametrize(
    ("wrong", "near"), [("tool-caling", "tool-calling"), ("strutured-output", "structured-output"), ("toolz", "tools")]
)
def test_a_typo_is_told_the_nearest_names(wrong: str, near: str) -> None:
    with pytest.raises(UnknownCapability) as caught:
        capability(wrong)
    assert near in caught.value.nearest
    assert near in str(caught.value)
    assert repr(wrong) in str(caught.value)


@pytest.mark.parametrize("wrong", [None, 5, 1.5, b"streaming", [], object()])
def test_what_is_no_string_is_no_name(wrong: object) -> None:
    with pytest.raises(InputError):
        capability(wrong)  # type: ignore[arg-type]


@given(st.text(max_size=300))
def test_any_text_is_found_or_refused_with_a_typed_error(text: str) -> None:
    match = find_capability(text)
    if match is not None:
        assert capability(text) == match
        return
    with pytest.raises(UnknownCapability) as caught:
        capability(text)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("minimum", "enough"), [("native", {"native"}), ("emulated", {"native", "emulated", "restricted"})]
)
def test_minimum_support(minimum: str, enough: set[str]) -> None:
    """S002-2-5, S002-2-6: native only; native, emulated or restricted."""
    assert {support for support in SUPPORTS if satisfies(support, minimum)} == enough  # type: ignore[arg-type]

"""Dialects: closed lists of names, exact round trips, errors that name the nearest."""

from typing import Any

import pytest

from modelpact.vocabulary import CAPABILITIES, DIALECTS, Dialect, UnknownName, dialect
from modelpact.vocabulary.dialects import pascal_case

STUD = {
    "streaming": "streaming",
    "toolCalling": "tool-calling",
    "structuredOutput": "structured-output",
    "multimodal": "multimodal",
    "reasoning": "reasoning",
    "contextWindow": "context-window",
    "promptCaching": "prompt-caching",
}
OPENWOP = {
    "structured-output": "structured-output",
    "discriminator-enum": "discriminator-enum",
    "long-context": "long-context",
    "reasoning": "reasoning",
    "function-calling": "tool-calling",
}
ABP = [
    *["streaming", "tool_read", "tool_write", "tool_edit", "tool_bash", "tool_glob", "tool_grep"],
    *["tool_web_search", "tool_web_fetch", "tool_ask_user", "hooks_pre_tool_use"],
    *["hooks_post_tool_use", "session_resume", "session_fork", "checkpointing"],
    *["structured_output_json_schema", "mcp_client", "mcp_server", "tool_use"],
    *["extended_thinking", "image_input", "pdf_input", "code_execution", "logprobs"],
    *["seed_determinism", "stop_sequences"],
]
NIKA_PARAMETERS = [
    *["parallel-tool-calls", "reasoning-effort", "thinking-budget", "prompt-caching"],
    *["file-search", "web-search", "streaming-thinking", "batch-api", "context-caching"],
    *["predicted-outputs", "computer-use", "citations", "include-reasoning"],
]
NIKA_MODALITIES = ["text", "image", "audio", "video", "pdf", "embedding", "speech", "image-gen"]


def test_stud_has_the_seven_capabilities_of_seed_000() -> None:
    """Seed 000, Declared capabilities: "The common v1 capabilities" are seven."""
    assert dict(dialect("stud").ids) == STUD


def test_stud_has_three_multimodal_kinds() -> None:
    """Seed 000, MultimodalKinds: "image, audio, video"."""
    kinds = {"image": "image-input", "audio": "audio-input", "video": "video-input"}
    assert dict(dialect("stud multimodal kind").ids) == kinds


def test_openwop_has_the_five_reserved_ids_of_seed_001() -> None:
    """Seed 001, §B: the ids a host may advertise, beside x-host ones."""
    assert dict(dialect("openwop").ids) == OPENWOP


def test_abp_has_26_names() -> None:
    """Seed 002 writes capabilities in snake_case: "streaming", "tool_read", "tool_write"."""
    assert list(dialect("abp").ids) == ABP
    assert len(ABP) == 26


@pytest.mark.parametrize(
    ("wire", "meant"),
    [
        ("structured_output_json_schema", "structured-output"),
        ("tool_use", "tool-calling"),
        ("extended_thinking", "reasoning"),
        ("seed_determinism", "seed"),
        ("tool_read", "tool-read"),
        ("code_execution", "code-execution"),
    ],
)
def test_abp_names_mean_canonical_capabilities(wire: str, meant: str) -> None:
    assert dialect("abp").read(wire).id == meant


def test_nika_has_13_parameters() -> None:
    """Seed 004: "Supported parameter vocabulary (13)"; "The vocabulary is closed"."""
    assert list(dialect("nika parameter").ids) == NIKA_PARAMETERS
    assert len(NIKA_PARAMETERS) == 13


@pytest.mark.parametrize("way", ["input", "output"])
def test_nika_has_8_modalities(way: str) -> None:
    """Seed 004: "Modality vocabulary (8)"."""
    expected = {name: f"{name}-{way}" for name in NIKA_MODALITIES}
    assert dict(dialect(f"nika {way} modality").ids) == expected


def test_nika_fields_that_are_one_capability() -> None:
    """Seed 004, Capability fields: nine, of which three are lists."""
    assert set(dialect("nika field").ids) == {
        *["token_limit_param", "tool_calling", "parallel_tool_calls"],
        *["streaming", "json_mode", "caching"],
    }


CELLS = [(one, wire) for one in DIALECTS.values() for wire in one.ids]


@pytest.mark.parametrize(("one", "wire"), CELLS, ids=lambda cell: getattr(cell, "name", cell))
def test_names_round_trip(one: Dialect, wire: str) -> None:
    found = one.read(wire)
    assert found is CAPABILITIES[found.id]
    assert one.write(found.id) == wire
    assert one.knows(found.id)


@pytest.mark.parametrize("one", DIALECTS.values(), ids=lambda one: str(one.name))
def test_lists_are_closed(one: Dialect) -> None:
    wrongs: list[Any] = ["", "bogus", " streaming", "x-host-", None, 5, []]
    for wrong in wrongs:
        with pytest.raises(UnknownName):
            one.read(wrong)


@pytest.mark.parametrize(
    ("name", "wrong", "near"),
    [
        ("stud", "tool_calling", "toolCalling"),
        ("stud", "contextwindow", "contextWindow"),
        ("openwop", "tool-calling", "function-calling"),
        ("abp", "ToolRead", "tool_read"),
        ("nika parameter", "prompt_caching", "prompt-caching"),
        ("nika input modality", "images", "image"),
    ],
)
def test_an_unknown_name_is_told_the_nearest(name: str, wrong: str, near: str) -> None:
    with pytest.raises(UnknownName) as caught:
        dialect(name).read(wrong)
    assert near in caught.value.nearest
    assert near in str(caught.value)


def test_only_openwop_takes_hosts_extensions() -> None:
    """DESIGN, Dispatch gate: "An id outside the registry that is not x-host-… is an error"."""
    name = "x-host-acme-sketch"
    assert dialect("openwop").read(name).id == name
    assert dialect("openwop").write(name) == name
    assert dialect("openwop").knows(name)
    for other in DIALECTS.values():
        if other.name != "openwop":
            assert not other.knows(name)
            with pytest.raises(UnknownName):
                other.read(name)
            with pytest.raises(UnknownName):
                other.write(name)


def test_a_capability_without_a_name_in_a_dialect_is_an_error() -> None:
    assert not dialect("stud").knows("citations")
    with pytest.raises(UnknownName, match="stud"):
        dialect("stud").write("citations")


def test_an_unknown_dialect_is_told_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        dialect("stut")
    assert caught.value.nearest == ("stud",)


@pytest.mark.parametrize(
    ("wire", "shown"),
    [
        ("streaming", "Streaming"),
        ("tool_read", "ToolRead"),
        ("structured_output_json_schema", "StructuredOutputJsonSchema"),
        ("extended_thinking", "ExtendedThinking"),
    ],
)
def test_reports_spell_abp_names_in_pascal_case(wire: str, shown: str) -> None:
    """Seed 002, CompatibilityReport: details name "ToolRead"; "StructuredOutputJsonSchema"."""
    assert pascal_case(wire) == shown

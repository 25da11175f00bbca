"""Dialects: closed lists of names, exact round trips, errors that name the nearest."""

from typing import Any

import pytest

from modelpact.vocabulary.capability import CAPABILITIES
from modelpact.vocabulary.dialects import DIALECTS, Dialect, dialect, pascal_case
from modelpact.vocabulary.errors import UnknownName

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


def test_stud_has_the_seven_capabilities() -> None:
    """S000-2-3: the seven capabilities."""
    assert dict(dialect("stud").ids) == STUD


def test_stud_has_three_multimodal_kinds() -> None:
    """S000-2-6: image, audio, video."""
    kinds = {"image": "image-input", "audio": "audio-input", "video": "video-input"}
    assert dict(dialect("stud multimodal kind").ids) == kinds


def test_openwop_has_the_five_reserved_ids() -> None:
    """S001-C1..6: the five reserved identifiers."""
    assert dict(dialect("openwop").ids) == OPENWOP


def test_abp_has_26_names() -> None:
    """S002-10-4: capabilities are written in snake case."""
    assert list(dialect("abp").ids) == ABP
    assert len(ABP) == 26


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        ("structured_output_json_schema", "structured-output"),
        ("tool_use", "tool-calling"),
        ("extended_thinking", "reasoning"),
        ("seed_determinism", "seed"),
        ("tool_read", "tool-read"),
        ("code_execution", "code-execution"),
    ],
)
def test_abp_names_mean_canonical_capabilities(wire: str, expected: str) -> None:
    assert dialect("abp").read(wire).id == expected


def test_nika_has_13_parameters() -> None:
    """S004-5-1: a closed list of 13 parameters."""
    assert list(dialect("nika parameter").ids) == NIKA_PARAMETERS
    assert len(NIKA_PARAMETERS) == 13


@pytest.mark.parametrize("way", ["input", "output"])
def test_nika_has_8_modalities(way: str) -> None:
    """S004-6-1: eight modalities."""
    expected = {name: f"{name}-{way}" for name in NIKA_MODALITIES}
    assert dict(dialect(f"nika {way} modality").ids) == expected


def test_nika_fields_that_are_one_capability() -> None:
    """S004-4-1..9: nine fields, of which three are lists."""
    assert set(dialect("nika field").ids) == {
        *["token_limit_param", "tool_calling", "parallel_tool_calls"],
        *["streaming", "json_mode", "caching"],
    }


CELLS = [(dialect, wire) for dialect in DIALECTS.values() for wire in dialect.ids]


@pytest.mark.parametrize(("names", "wire"), CELLS, ids=lambda cell: getattr(cell, "name", cell))
def test_names_round_trip(names: Dialect, wire: str) -> None:
    entry = names.read(wire)
    assert entry is CAPABILITIES[entry.id]
    assert names.write(entry.id) == wire
    assert names.knows(entry.id)


@pytest.mark.parametrize("names", DIALECTS.values(), ids=lambda names: str(names.name))
def test_lists_are_closed(names: Dialect) -> None:
    wrongs: list[Any] = ["", "bogus", " streaming", "x-host-", None, 5, []]
    for wrong in wrongs:
        with pytest.raises(UnknownName):
            names.read(wrong)


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
    """S001-B15: an id that is neither reserved nor x-host-… is an error."""
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
    ("wire", "expected"),
    [
        ("streaming", "Streaming"),
        ("tool_read", "ToolRead"),
        ("structured_output_json_schema", "StructuredOutputJsonSchema"),
        ("extended_thinking", "ExtendedThinking"),
    ],
)
def test_reports_spell_abp_names_in_pascal_case(wire: str, expected: str) -> None:
    """S002-10-4: reports write names in Pascal case."""
    assert pascal_case(wire) == expected

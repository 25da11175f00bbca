"""Dialects: the names that each specification has for capabilities.

A dialect is a closed list of names; only `openwop` also allows extensions of hosts. The nika
specification has four lists of names. Some names are in two lists, so each list is a dialect.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from modelpact.vocabulary.capability import (
    CAPABILITIES,
    MODALITIES,
    PARAMETERS,
    Capability,
    capability,
    is_host_extension,
)
from modelpact.vocabulary.errors import UnknownName


class Dialect(msgspec.Struct, frozen=True):
    """The names of one specification, and the id of the capability that each one means."""

    name: str
    ids: Mapping[str, str]
    extensible: bool = False

    def read(self, wire: str) -> Capability:
        """Return the capability that this dialect calls `wire`."""
        known = self.ids.get(wire) if isinstance(wire, str) else None
        if known is not None:
            return CAPABILITIES[known]
        if self.extensible and isinstance(wire, str) and is_host_extension(wire):
            return capability(wire)
        hint = "or x-host-<host>-<key>" if self.extensible else "the list is closed"
        raise UnknownName(f"{self.name} capability", wire, self.ids, hint)

    def write(self, name: str) -> str:
        """Return the name that this dialect has for a capability id."""
        for wire, known in self.ids.items():
            if known == name:
                return wire
        if self.extensible and is_host_extension(name):
            return name
        raise UnknownName(f"capability in {self.name}", name, self.ids.values())

    def knows(self, name: str) -> bool:
        """Whether the dialect has a name for a capability id."""
        return name in self.ids.values() or (self.extensible and is_host_extension(name))


_ABP_OTHER_NAMES = {
    "structured_output_json_schema": "structured-output",
    "tool_use": "tool-calling",
    "extended_thinking": "reasoning",
    "seed_determinism": "seed",
}
_ABP_NAMES = [
    "streaming",
    "tool_read",
    "tool_write",
    "tool_edit",
    "tool_bash",
    "tool_glob",
    "tool_grep",
    "tool_web_search",
    "tool_web_fetch",
    "tool_ask_user",
    "hooks_pre_tool_use",
    "hooks_post_tool_use",
    "session_resume",
    "session_fork",
    "checkpointing",
    "structured_output_json_schema",
    "mcp_client",
    "mcp_server",
    "tool_use",
    "extended_thinking",
    "image_input",
    "pdf_input",
    "code_execution",
    "logprobs",
    "seed_determinism",
    "stop_sequences",
]

STUD: Final = Dialect(
    "stud",
    {
        "streaming": "streaming",
        "toolCalling": "tool-calling",
        "structuredOutput": "structured-output",
        "multimodal": "multimodal",
        "reasoning": "reasoning",
        "contextWindow": "context-window",
        "promptCaching": "prompt-caching",
    },
)
STUD_KINDS: Final = Dialect(
    "stud multimodal kind", {"image": "image-input", "audio": "audio-input", "video": "video-input"}
)
OPENWOP: Final = Dialect(
    "openwop",
    {
        "structured-output": "structured-output",
        "discriminator-enum": "discriminator-enum",
        "long-context": "long-context",
        "reasoning": "reasoning",
        "function-calling": "tool-calling",
    },
    extensible=True,
)
ABP: Final = Dialect("abp", {name: _ABP_OTHER_NAMES.get(name, name.replace("_", "-")) for name in _ABP_NAMES})
NIKA_FIELDS: Final = Dialect(
    "nika field",
    {
        "token_limit_param": "token-limit-param",
        "tool_calling": "tool-calling",
        "parallel_tool_calls": "parallel-tool-calls",
        "streaming": "streaming",
        "json_mode": "json-mode",
        "caching": "caching",
    },
)
NIKA_PARAMETERS: Final = Dialect("nika parameter", {name: name for name in PARAMETERS})
NIKA_INPUT: Final = Dialect("nika input modality", {name: f"{name}-input" for name in MODALITIES})
NIKA_OUTPUT: Final = Dialect("nika output modality", {name: f"{name}-output" for name in MODALITIES})

DIALECTS: Final[dict[str, Dialect]] = {
    entry.name: entry
    for entry in (STUD, STUD_KINDS, OPENWOP, ABP, NIKA_FIELDS, NIKA_PARAMETERS, NIKA_INPUT, NIKA_OUTPUT)
}


def dialect(name: str) -> Dialect:
    """Return the dialect with that name."""
    known = DIALECTS.get(name)
    if known is None:
        raise UnknownName("dialect", name, DIALECTS)
    return known


def pascal_case(wire: str) -> str:
    """Write an `abp` name as its reports do: `tool_read` becomes `ToolRead`."""
    return "".join(part.capitalize() for part in wire.split("_"))

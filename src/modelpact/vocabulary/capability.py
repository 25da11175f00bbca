"""Capabilities: what models can do, how well they support it, and the names people use for it."""

import re
from typing import Final, Literal

import msgspec

from modelpact.vocabulary.errors import UnknownCapability

Support = Literal["native", "emulated", "restricted", "unsupported", "unknown"]
MinSupport = Literal["native", "emulated"]
Kind = Literal["flag", "limit", "choice"]
Group = Literal["model", "modality", "parameter", "agent", "host"]

SUPPORTS: Final[tuple[Support, ...]] = ("native", "emulated", "restricted", "unsupported", "unknown")
MIN_SUPPORTS: Final[tuple[MinSupport, ...]] = ("native", "emulated")
_SATISFYING: Final[dict[str, frozenset[str]]] = {
    "native": frozenset({"native"}),
    "emulated": frozenset({"native", "emulated", "restricted"}),
}


class AtLeast(msgspec.Struct, frozen=True, tag="at-least"):
    """A flag that holds when a limit is at least `minimum`."""

    base: str
    minimum: int

    def __str__(self) -> str:
        return f"{self.base} ≥ {self.minimum:,}"


class AnyOf(msgspec.Struct, frozen=True, tag="any-of"):
    """A flag that holds when any of the other flags holds; its value lists those that hold."""

    bases: tuple[str, ...]

    def __str__(self) -> str:
        return f"any of {', '.join(self.bases)}"


class SameAs(msgspec.Struct, frozen=True, tag="same-as"):
    """A flag that holds exactly when another flag holds."""

    base: str

    def __str__(self) -> str:
        return f"follows {self.base}"


class Ladder(msgspec.Struct, frozen=True, tag="ladder"):
    """A choice: the value of the first step whose flag holds, or the floor if none holds."""

    steps: tuple[tuple[str, str], ...]
    floor: str

    def __str__(self) -> str:
        return ", ".join(f"{value} with {base}" for value, base in self.steps)


Formula = AtLeast | AnyOf | SameAs | Ladder


class Capability(msgspec.Struct, frozen=True):
    """A named thing that a model can do."""

    id: str
    meaning: str
    kind: Kind = "flag"
    group: Group = "model"
    unit: str = ""
    choices: tuple[str, ...] = ()
    ordered: bool = False
    formula: Formula | None = None

    def __str__(self) -> str:
        return self.id


MODALITIES: Final = ("text", "image", "audio", "video", "pdf", "embedding", "speech", "image-gen")
"""The eight modalities of the nika specification, for input and output alike."""

PARAMETERS: Final = {
    "parallel-tool-calls": "several tools invoked in one step",
    "reasoning-effort": "a setting for how much the model reasons",
    "thinking-budget": "a limit on thinking tokens",
    "prompt-caching": "prompt prefixes cached between requests",
    "file-search": "the provider's own file search tool",
    "web-search": "the provider's own web search tool",
    "streaming-thinking": "reasoning tokens streamed separately from the answer",
    "batch-api": "requests in batches that are answered later",
    "context-caching": "contexts cached by name",
    "predicted-outputs": "a predicted output that speeds up the answer",
    "computer-use": "the provider's own computer use tool",
    "citations": "citations of sources in the answer",
    "include-reasoning": "reasoning included in the answer by a flag",
}
"""The closed list of 13 parameters of the nika specification."""

_MODEL = [
    Capability("streaming", "the response is streamed while it is generated"),
    Capability("tool-calling", "structured tool calls that a program can parse"),
    Capability("tool-choice", "the caller may force or forbid a tool"),
    Capability("structured-output", "output that the provider guarantees to match a JSON Schema"),
    Capability("json-object", "output that the provider guarantees to be a JSON object"),
    Capability(
        "json-mode",
        "which JSON output the provider guarantees",
        kind="choice",
        choices=("unavailable", "object", "schema"),
        ordered=True,
        formula=Ladder((("schema", "structured-output"), ("object", "json-object")), "unavailable"),
    ),
    Capability(
        "discriminator-enum",
        "single-value string enums that tell the branches of anyOf apart",
        formula=SameAs("structured-output"),
    ),
    Capability("reasoning", "the model's own reasoning or thinking tokens"),
    Capability("context-window", "prompt and answer together", kind="limit", unit="tokens"),
    Capability("max-input", "the longest prompt", kind="limit", unit="tokens"),
    Capability("max-output", "the longest answer", kind="limit", unit="tokens"),
    Capability(
        "long-context", "a context window of 200,000 tokens or more", formula=AtLeast("context-window", 200_000)
    ),
    Capability(
        "multimodal",
        "input other than text: image, audio or video",
        formula=AnyOf(("image-input", "audio-input", "video-input")),
    ),
    Capability(
        "caching",
        "which kind of caching the provider offers",
        kind="choice",
        choices=("none", "prompt-caching", "context-caching"),
        formula=Ladder((("prompt-caching", "prompt-caching"), ("context-caching", "context-caching")), "none"),
    ),
    Capability(
        "token-limit-param",
        "the name of the parameter that limits the answer",
        kind="choice",
        choices=("max-tokens", "max-completion-tokens", "max-output-tokens"),
    ),
    Capability("system-messages", "instructions separate from the conversation"),
    Capability("assistant-prefill", "the caller may begin the answer"),
    Capability("code-execution", "code run in the provider's sandbox"),
    Capability("temperature", "the temperature can be set"),
    Capability("top-p", "nucleus sampling can be set"),
    Capability("top-k", "top-k sampling can be set"),
    Capability("stop-sequences", "texts set by the caller at which the answer stops"),
    Capability("logprobs", "token probabilities with the answer"),
    Capability("seed", "a seed for repeatable sampling"),
    Capability("n", "several answers to one request"),
    Capability("frequency-penalty", "the frequency penalty can be set"),
    Capability("presence-penalty", "the presence penalty can be set"),
    Capability("logit-bias", "token biases can be set"),
]

_AGENT = {
    "tool-read": "reads files",
    "tool-write": "writes files",
    "tool-edit": "edits files",
    "tool-bash": "runs shell commands",
    "tool-glob": "finds files by pattern",
    "tool-grep": "searches in files",
    "tool-web-search": "searches the web",
    "tool-web-fetch": "fetches web pages",
    "tool-ask-user": "asks the user",
    "hooks-pre-tool-use": "hooks before a tool is used",
    "hooks-post-tool-use": "hooks after a tool was used",
    "session-resume": "sessions can be resumed",
    "session-fork": "sessions can be forked",
    "checkpointing": "the state can be saved and restored",
    "mcp-client": "uses MCP servers",
    "mcp-server": "serves MCP clients",
}


def _make_table() -> dict[str, Capability]:
    table = {entry.id: entry for entry in _MODEL}
    for modality in MODALITIES:
        for direction in ("input", "output"):
            name = f"{modality}-{direction}"
            table[name] = Capability(name, f"{modality} as {direction}", group="modality")
    for name, meaning in PARAMETERS.items():
        table.setdefault(name, Capability(name, meaning, group="parameter"))
    for name, meaning in _AGENT.items():
        table[name] = Capability(name, f"the agent backend {meaning}", group="agent")
    return table


CAPABILITIES: Final[dict[str, Capability]] = _make_table()
"""Every canonical capability by its id."""

ALIASES: Final[dict[str, str]] = {
    "tools": "tool-calling",
    "tool-use": "tool-calling",
    "function-calling": "tool-calling",
    "functions": "tool-calling",
    "parallel-tools": "parallel-tool-calls",
    "json-schema": "structured-output",
    "structured-outputs": "structured-output",
    "structured-output-json-schema": "structured-output",
    "response-schema": "structured-output",
    "thinking": "reasoning",
    "extended-thinking": "reasoning",
    "context": "context-window",
    "output-tokens": "max-output",
    "input-tokens": "max-input",
    "vision": "image-input",
    "image": "image-input",
    "audio": "audio-input",
    "video": "video-input",
    "pdf": "pdf-input",
    "speech": "speech-output",
    "embedding": "embedding-output",
    "embeddings": "embedding-output",
    "image-gen": "image-gen-output",
    "stop": "stop-sequences",
    "system": "system-messages",
    "prefill": "assistant-prefill",
    "seed-determinism": "seed",
}
"""Common names of capabilities, beside the ids and the names of the dialects."""

_HOST_ID = re.compile(r"x-host-[a-z][a-z0-9-]*-[a-z][a-z0-9-]*")
_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_MAX_NAME_LENGTH = 128


def satisfies(support: Support, minimum: MinSupport) -> bool:
    """Whether `support` is at least `minimum`: `restricted` is enough for `emulated` only."""
    return support in _SATISFYING[minimum]


def is_host_extension(name: str) -> bool:
    """Whether the name has the form `x-host-<host>-<key>`."""
    return len(name) <= _MAX_NAME_LENGTH and _HOST_ID.fullmatch(name) is not None


def find_capability(name: str) -> Capability | None:
    """Return the capability with that id, alias or dialect name, or None."""
    entry = CAPABILITIES.get(name)
    if entry is not None:
        return entry
    if len(name) > _MAX_NAME_LENGTH:
        return None
    if is_host_extension(name):
        return Capability(name, "an extension of a host", group="host")
    form = _CAMEL.sub(r"-\1", name.strip()).lower().replace("_", "-").replace(" ", "-")
    return CAPABILITIES.get(ALIASES.get(form, form))


def capability(name: str) -> Capability:
    """Return the capability with that name, or raise `UnknownCapability` with the nearest names."""
    if not isinstance(name, str):
        raise UnknownCapability("capability", name, (), "the name of a capability is a string")
    entry = find_capability(name)
    if entry is None:
        raise UnknownCapability(
            "capability", name, (*CAPABILITIES, *ALIASES), "write capabilities of your host as x-host-<host>-<key>"
        )
    return entry

"""How well something is supported, and when that is enough."""

import re
from typing import Final, Literal

import msgspec

from modelpact.vocabulary.errors import UnknownCapability

Support = Literal["native", "emulated", "restricted", "unsupported", "unknown"]
MinSupport = Literal["native", "emulated"]

SUPPORTS: Final[tuple[Support, ...]] = (
    "native",
    "emulated",
    "restricted",
    "unsupported",
    "unknown",
)
MIN_SUPPORTS: Final[tuple[MinSupport, ...]] = ("native", "emulated")

_SATISFIED_BY: Final[dict[str, frozenset[str]]] = {
    "native": frozenset({"native"}),
    "emulated": frozenset({"native", "emulated", "restricted"}),
}


def satisfies(support: Support, minimum: MinSupport) -> bool:
    """Tell whether `support` is at least `minimum`: `restricted` is enough for `emulated` only."""
    return support in _SATISFIED_BY[minimum]


Kind = Literal["flag", "limit", "choice"]
Group = Literal["model", "modality", "parameter", "agent", "host"]


class AtLeast(msgspec.Struct, frozen=True, tag="at-least"):
    """A flag that holds when a limit is at least `minimum`."""

    base: str
    minimum: int

    def __str__(self) -> str:
        return f"{self.base} ≥ {self.minimum:,}"


class AnyOf(msgspec.Struct, frozen=True, tag="any-of"):
    """A flag that holds when any of the others does; its value is those that do."""

    bases: tuple[str, ...]

    def __str__(self) -> str:
        return f"any of {', '.join(self.bases)}"


class SameAs(msgspec.Struct, frozen=True, tag="same-as"):
    """A flag that holds exactly when another one does."""

    base: str

    def __str__(self) -> str:
        return f"follows {self.base}"


class Ladder(msgspec.Struct, frozen=True, tag="ladder"):
    """A choice whose value is the first step whose flag holds, else the floor."""

    steps: tuple[tuple[str, str], ...]
    floor: str

    def __str__(self) -> str:
        return ", ".join(f"{value} with {base}" for value, base in self.steps)


Formula = AtLeast | AnyOf | SameAs | Ladder


class Capability(msgspec.Struct, frozen=True):
    """A named thing that a model can do. Two capabilities are the same when their ids are."""

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
"""Seed 004's eight modalities, for input and output alike."""

PARAMETERS: Final = {
    "parallel-tool-calls": "several tools invoked in one step",
    "reasoning-effort": "a setting for how much the model reasons",
    "thinking-budget": "a limit on thinking tokens",
    "prompt-caching": "prompt prefixes cached between requests",
    "file-search": "the provider's own file search tool",
    "web-search": "the provider's own web search tool",
    "streaming-thinking": "reasoning tokens streamed apart from the answer",
    "batch-api": "requests in batches, answered later",
    "context-caching": "contexts cached by name",
    "predicted-outputs": "a predicted output that speeds up the answer",
    "computer-use": "the provider's own computer use tool",
    "citations": "citations of sources in the answer",
    "include-reasoning": "reasoning included in the answer by a flag",
}
"""Seed 004's closed list of 13 parameters."""

_MODEL = [
    Capability("streaming", "the answer arrives in pieces, as it is made"),
    Capability("tool-calling", "structured tool calls that a program can parse"),
    Capability("tool-choice", "the caller may force or forbid a tool"),
    Capability("structured-output", "output that the provider holds to a JSON Schema"),
    Capability("json-object", "output that the provider holds to some JSON object"),
    Capability(
        "json-mode",
        "how far the provider holds output to JSON",
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
        "long-context",
        "a context window of 200,000 tokens or more",
        formula=AtLeast("context-window", 200_000),
    ),
    Capability(
        "multimodal",
        "input other than text: image, audio or video",
        formula=AnyOf(("image-input", "audio-input", "video-input")),
    ),
    Capability(
        "caching",
        "which kind of caching there is",
        kind="choice",
        choices=("none", "prompt-caching", "context-caching"),
        formula=Ladder(
            (("prompt-caching", "prompt-caching"), ("context-caching", "context-caching")), "none"
        ),
    ),
    Capability(
        "token-limit-param",
        "the name of the parameter that limits the answer",
        kind="choice",
        choices=("max-tokens", "max-completion-tokens", "max-output-tokens"),
    ),
    Capability("system-messages", "instructions apart from the conversation"),
    Capability("assistant-prefill", "the caller may begin the answer"),
    Capability("code-execution", "code run in the provider's sandbox"),
    Capability("temperature", "the temperature can be set"),
    Capability("top-p", "nucleus sampling can be set"),
    Capability("top-k", "top-k sampling can be set"),
    Capability("stop-sequences", "the caller's texts at which the answer stops"),
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


def _all() -> dict[str, Capability]:
    table = {one.id: one for one in _MODEL}
    for modality in MODALITIES:
        for way in ("input", "output"):
            name = f"{modality}-{way}"
            table[name] = Capability(name, f"{modality} as {way}", group="modality")
    for name, meaning in PARAMETERS.items():
        table.setdefault(name, Capability(name, meaning, group="parameter"))
    for name, meaning in _AGENT.items():
        table[name] = Capability(name, f"the agent backend {meaning}", group="agent")
    return table


CAPABILITIES: Final[dict[str, Capability]] = _all()
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
"""Names that people write, beside the ids and the dialects' own names."""

_HOST_ID = re.compile(r"x-host-[a-z][a-z0-9-]*-[a-z][a-z0-9-]*")
_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_LONGEST_NAME = 128


def is_host_extension(name: str) -> bool:
    """Tell whether the name has the form `x-host-<host>-<key>`."""
    return len(name) <= _LONGEST_NAME and _HOST_ID.fullmatch(name) is not None


def find_capability(name: str) -> Capability | None:
    """Return the capability of that id, alias or dialect spelling, or None."""
    found = CAPABILITIES.get(name)
    if found is not None:
        return found
    if len(name) > _LONGEST_NAME:
        return None
    if is_host_extension(name):
        return Capability(name, "a host's own extension", group="host")
    form = _CAMEL.sub(r"-\1", name.strip()).lower().replace("_", "-").replace(" ", "-")
    return CAPABILITIES.get(ALIASES.get(form, form))


def capability(name: str) -> Capability:
    """Return the capability of that name, or raise `UnknownCapability` with the nearest ones."""
    if not isinstance(name, str):
        raise UnknownCapability("capability", name, (), "a capability's name is a string")
    found = find_capability(name)
    if found is None:
        raise UnknownCapability(
            "capability",
            name,
            (*CAPABILITIES, *ALIASES),
            "hosts' own capabilities are written x-host-<host>-<key>",
        )
    return found

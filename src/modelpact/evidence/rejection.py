"""What a rejected request teaches: a pure reading of the upstream's error, careful to learn little.

Something is learned only if the request used a capability, the server rejected the request itself,
and its message says that the model or the server lacks that capability. Rate limits, bad keys,
outages, content filters and mistakes in the request teach nothing.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.catalog.statement import EFFORTS
from modelpact.conversation.message import ImageBlock, TextBlock, ToolResultBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Request
from modelpact.evidence.observation import Observation, detail_line
from modelpact.vocabulary.errors import InputError

_MAX_MESSAGE: Final = 2_000
"""Characters of a message that are read."""
_MAX_REQUEST_TEXT: Final = 200_000
"""Characters of each text of the request that are compared with the message."""
_MIN_ECHO: Final = 24
"""Characters of a request's text from which a repetition in the message is no coincidence."""
_MIN_LIMIT: Final = 256
"""Tokens. No model has a smaller limit, so a smaller number means something else."""
_REJECTION_STATUSES: Final = frozenset({400, 404, 413, 415, 422})
_PARAMETER_CODES: Final = frozenset({"unsupported_parameter", "unknown_parameter"})
_LIMITS: Final = frozenset({"context-window", "max-input", "max-output"})
"""Capabilities that bound every request."""
_ADAPTER_PREFIX: Final = re.compile(r"^.{1,80}? answered \d{3}(?: \([^)]{0,80}\))?: ")
"""What an adapter writes before it quotes the upstream."""
_QUOTED: Final = re.compile(
    r"(?<![A-Za-z0-9])(?<!\"msg\":)(?<!\"msg\": )(?:"
    r"\"[^\"\s]{0,200}\s[^\"]*(?:\"|$)|'[^'\s]{0,200}\s[^']*(?:'(?![A-Za-z])|$)"
    r"|`[^`\s]{0,200}\s[^`]*(?:`|$)|“[^”]*(?:”|$)|«[^»]*(?:»|$))"
)
"""Quotations of more than one word, also truncated ones: not the server's own words."""
_MODEL: Final = r"(?=[\w.:/-]{0,100}\d)(?=[\w.:/]{1,100}[-:/])[A-Za-z0-9][\w.:/-]{2,100}"
_NAMED_MODEL: Final = re.compile(
    rf"\bmodels?(?: named)?[ :]\s?['\"`]?(?P<named>{_MODEL})"
    rf"|^['\"`]?(?P<first>{_MODEL})['\"`]? (?:is|does|do|cannot|can)",
    re.IGNORECASE,
)
"""A model name in a message: it has a digit, and a dash, colon or slash."""
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_WORDS: Final = re.compile(r"[a-z]+")
_PLACEHOLDERS: Final = {
    "{FIELD}": r"[\"'`\[]*(?P<field>[A-Za-z][A-Za-z0-9_.]{0,60}?(?:\[\d+\]\.role)?)[\"'`\]]*",
    "{NUMBER}": r"(?P<limit>\d[\d,_]{0,14})",
    "{NOT}": r"(?:does not|doesn['’]t|do not|don['’]t|cannot|can['’]t)",
}
"""What the placeholders in `rejection_patterns.toml` stand for."""

_Learned = tuple[str, int | str | tuple[str, ...] | None]
"""A capability, and its value; None where the capability is missing."""


class RejectionPattern(msgspec.Struct, frozen=True):
    """One wording with which servers reject requests. `rejection_patterns.toml` lists them."""

    pattern: str
    example: str
    teaches: str
    """What the example teaches: a capability that is missing, or `capability=value`."""
    capability: str = ""
    value: str = ""
    statuses: tuple[int, ...] = (400, 422)

    def search(self, text: str) -> re.Match[str] | None:
        """Search a message for the pattern."""
        return re.search(self.pattern, text, re.IGNORECASE)  # re caches compiled patterns


class RejectionPatterns(msgspec.Struct, frozen=True):
    """The content of `rejection_patterns.toml`."""

    patterns: tuple[RejectionPattern, ...]
    fields: dict[str, str]
    """Request fields, and the capability that is missing if a server rejects one."""
    uninformative: re.Pattern[str]
    """Words of failures that say nothing about what the model can do."""
    conditional: re.Pattern[str]
    """Words of rejections that hold only in a combination, or that blame the request."""


@cache
def rejection_patterns() -> RejectionPatterns:
    """Return the patterns. The file is read on the first call."""
    text = Path(__file__).with_name("rejection_patterns.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    for entry in data["patterns"]:
        for placeholder, expression in _PLACEHOLDERS.items():
            entry["pattern"] = entry["pattern"].replace(placeholder, expression)
    return RejectionPatterns(
        msgspec.convert(data["patterns"], tuple[RejectionPattern, ...]),
        data["fields"],
        re.compile("|".join(data["uninformative"]), re.IGNORECASE),
        re.compile("|".join(data["conditional"]), re.IGNORECASE),
    )


class Rejection(msgspec.Struct, frozen=True, omit_defaults=True):
    """An upstream's error: its status, its message, and the request field that it names."""

    message: str
    status: int | None = None
    code: str = ""
    param: str = ""
    capability: str = ""
    """The missing capability, if the provider names one in modelpact's vocabulary."""

    @classmethod
    def from_error(cls, error: BaseException) -> "Rejection":
        """Read a rejection from an error, or from its cause if that has the upstream's status."""
        cause = error.__cause__
        source = cause if cause is not None and hasattr(cause, "status") else error
        status = getattr(source, "status", None)
        return cls(
            _ADAPTER_PREFIX.sub("", str(source), count=1),
            status if isinstance(status, int) else None,
            *(_text(getattr(source, name, "")) for name in ("code", "param", "capability")),
        )

    @property
    def is_informative(self) -> bool:
        """Whether the upstream rejected the request itself, for what it asks."""
        if self.status not in _REJECTION_STATUSES:
            return False
        text = f"{self.code} {self.message[:_MAX_MESSAGE]}"
        return rejection_patterns().uninformative.search(text) is None


def learn_from_rejection(
    error: Rejection | BaseException, request: Request, provider: str, model: str
) -> tuple[Observation, ...]:
    """Return what a rejection teaches about a model: mostly nothing. Never raises."""
    rejection = error if isinstance(error, Rejection) else Rejection.from_error(error)
    if not rejection.is_informative:
        return ()
    own_texts = _request_texts(request)
    message = _without_quotes(rejection.message, own_texts)
    if _names_another_model(message, model):
        return ()
    quoteless = msgspec.structs.replace(rejection, message=message)
    learned = (
        _by_capability(quoteless, request) or _by_pattern(quoteless, request, own_texts) or _by_code(quoteless, request)
    )
    if learned is None or (isinstance(learned[1], int) and learned[1] < _MIN_LIMIT):
        return ()
    name, value = learned
    try:
        return (
            Observation(
                provider,
                model,
                name,
                "unsupported" if value is None else "native",
                value,
                "use",
                detail_line(f"rejected: {rejection.message}"),
            ),
        )
    except InputError:
        return ()


def _uses_capability(request: Request, name: str) -> bool:
    """Tell whether a request uses a capability. Only what it uses can be rejected."""
    if name in _LIMITS:
        return True
    is_used = _USES.get(name)
    if is_used is not None and is_used(request):
        return True
    fields = rejection_patterns().fields
    return any(fields.get(field) == name for field in request.extras)


def _by_capability(rejection: Rejection, request: Request) -> _Learned | None:
    name = rejection.capability
    return (name, None) if _uses_capability(request, name) else None


def _by_pattern(rejection: Rejection, request: Request, own_texts: tuple[str, ...]) -> _Learned | None:
    text = rejection.message[:_MAX_MESSAGE]
    is_conditional = rejection_patterns().conditional.search(text) is not None
    for pattern in rejection_patterns().patterns:
        if rejection.status not in pattern.statuses:
            continue
        match = pattern.search(text)
        if match is None or _is_echo(match[0], own_texts):
            continue
        learned = _read_match(pattern, match, request)
        if learned is None or not _uses_capability(request, learned[0]):
            continue
        if not is_conditional or isinstance(learned[1], int):
            return learned
    return None


def _by_code(rejection: Rejection, request: Request) -> _Learned | None:
    if rejection.code not in _PARAMETER_CODES:
        return None
    if rejection_patterns().conditional.search(rejection.message[:_MAX_MESSAGE]):
        return None
    learned = _from_field(rejection.param, request)
    return learned if learned is not None and _uses_capability(request, learned[0]) else None


def _request_texts(request: Request) -> tuple[str, ...]:
    """Return the texts of a request in lower case. A server may repeat them in its message."""
    blocks = [block for message in request.messages for block in message.content]
    inner = [part for block in blocks for part in (block.content if isinstance(block, ToolResultBlock) else (block,))]
    texts = [part.text for part in inner if isinstance(part, TextBlock)]
    texts += [tool.description for tool in request.tools]
    texts += request.stop
    texts += [value for value in request.extras.values() if isinstance(value, str)]
    return tuple(_normalise(text[:_MAX_REQUEST_TEXT]) for text in texts if text)


def _without_quotes(message: str, own_texts: tuple[str, ...]) -> str:
    """Remove what the server only repeats: texts of the request, and quoted sentences."""
    text = " ".join(message[:_MAX_MESSAGE].split())
    for own_text in own_texts:
        if len(own_text) >= _MIN_ECHO:
            text = re.sub(re.escape(own_text), "…", text, flags=re.IGNORECASE)
    return _QUOTED.sub("…", text)


def _names_another_model(text: str, model: str) -> bool:
    wanted = model.lower()
    names = [(match["named"] or match["first"]).lower() for match in _NAMED_MODEL.finditer(text)]
    return any(name not in wanted and wanted not in name for name in names)


def _is_echo(words: str, own_texts: tuple[str, ...]) -> bool:
    stripped = _normalise(words).strip(" .,'\"`")
    return any(stripped in text for text in own_texts)


def _normalise(text: str) -> str:
    return " ".join(text.lower().split())


def _read_match(pattern: RejectionPattern, match: re.Match[str], request: Request) -> _Learned | None:
    groups = match.groupdict()
    if "limit" in groups:
        return pattern.capability, int(groups["limit"].replace(",", "").replace("_", ""))
    if "values" in groups:
        listed = set(_WORDS.findall(groups["values"].lower()))
        efforts = tuple(effort for effort in EFFORTS if effort in listed)
        return (pattern.capability, efforts) if efforts else None
    if "field" in groups:
        return _from_field(groups["field"], request)
    return _resolve_output(pattern.capability, pattern.value, request)


def _from_field(field: str, request: Request) -> _Learned | None:
    path = _CAMEL.sub(r"_\1", field).lower().removeprefix("body.").rstrip(".")
    fields = rejection_patterns().fields
    name = fields.get(path) or fields.get(path.partition(".")[0])
    if name is None:
        return None
    # A server without max_completion_tokens has the older name.
    return _resolve_output(name, "max-tokens" if name == "token-limit-param" else "", request)


def _resolve_output(name: str, value: str, request: Request) -> _Learned:
    """Replace `output` with the output capability that the request asks for."""
    if name == "output":
        name = "structured-output" if isinstance(request.output, JsonSchema) else "json-object"
    return name, value or None


def _has_image(request: Request) -> bool:
    for message in request.messages:
        for block in message.content:
            inner = block.content if isinstance(block, ToolResultBlock) else (block,)
            if any(isinstance(part, ImageBlock) for part in inner):
                return True
    return False


_USES: Final[Mapping[str, Callable[[Request], Any]]] = {
    "token-limit-param": lambda request: request.max_tokens is not None,
    "temperature": lambda request: request.temperature is not None,
    "top-p": lambda request: request.top_p is not None,
    "top-k": lambda request: request.top_k is not None,
    "stop-sequences": lambda request: request.stop,
    "tool-calling": lambda request: request.tools,
    "tool-choice": lambda request: request.tool_choice is not None,
    "parallel-tool-calls": lambda request: request.parallel_tool_calls is not None,
    "structured-output": lambda request: isinstance(request.output, JsonSchema),
    "json-object": lambda request: isinstance(request.output, JsonObject),
    "reasoning": lambda request: request.reasoning is not None,
    "reasoning-effort": lambda request: request.reasoning is not None and request.reasoning.effort,
    "thinking-budget": lambda request: request.reasoning is not None and request.reasoning.budget_tokens is not None,
    "streaming": lambda request: request.stream,
    "image-input": _has_image,
    "system-messages": lambda request: any(message.role == "system" for message in request.messages),
    "assistant-prefill": lambda request: bool(request.messages) and request.messages[-1].role == "assistant",
    "prompt-caching": lambda request: any(
        "cache_control" in msgspec.json.encode(block).decode()
        for message in request.messages
        for block in message.content
    ),
}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

"""What an upstream's refusal teaches: a pure reading of its words, careful not to learn too much.

Something is learned only where the request used it, the server refused the request as such, and
its words say that the model or the server does not have it. Rate limits, bad keys, outages,
filters and mistakes of our own teach nothing.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from modelpact.catalog.statement import EFFORTS
from modelpact.conversation.message import ImageBlock, TextBlock, ToolResultBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Request
from modelpact.evidence.observation import Observation, shortened
from modelpact.evidence.rejection_patterns import (
    CONDITIONAL,
    FIELDS,
    NAMED_MODEL,
    NEVER,
    QUOTED,
    SIGNS,
    RejectionPattern,
)
from modelpact.vocabulary.errors import InputError

_LONGEST_READ: Final = 2_000
_LONGEST_OWN: Final = 200_000
_LONG_ENOUGH: Final = 24
"""Characters of a text that nobody says twice by chance."""
_LEAST_LIMIT: Final = 256
"""Tokens: no model has less room, so that a smaller number was not meant for one."""
_REFUSALS: Final = frozenset({400, 404, 413, 415, 422})
_BY_CODE: Final = frozenset({"unsupported_parameter", "unknown_parameter"})
_LIMITS: Final = frozenset({"context-window", "max-input", "max-output"})
"""What every request is measured against."""
_ANSWERED: Final = re.compile(r"^.{1,80}? answered \d{3}(?: \([^)]{0,80}\))?: ")
"""What an adapter says before it quotes an upstream."""
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_WORDS: Final = re.compile(r"[a-z]+")


class Rejection(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an upstream said when it refused: its status, its words, the field that it blames."""

    message: str
    status: int | None = None
    code: str = ""
    param: str = ""
    capability: str = ""
    """What is missing, where the provider says so in our own words."""

    @classmethod
    def of(cls, error: BaseException) -> "Rejection":
        """Read a rejection off an error; what it was raised from says more, where there is any."""
        cause = error.__cause__
        found = cause if cause is not None and hasattr(cause, "status") else error
        status = getattr(found, "status", None)
        return cls(
            _ANSWERED.sub("", str(found), count=1),
            status if isinstance(status, int) else None,
            *(_text(getattr(found, name, "")) for name in ("code", "param", "capability")),
        )

    @property
    def tells(self) -> bool:
        """Whether this refuses the request itself, for what it asks."""
        said = f"{self.code} {self.message[:_LONGEST_READ]}"
        return self.status in _REFUSALS and NEVER.search(said) is None


def learn_from_rejection(
    error: Rejection | BaseException, request: Request, provider: str, model: str
) -> tuple[Observation, ...]:
    """Return what a refusal teaches of a model; mostly nothing. Never raises."""
    said = error if isinstance(error, Rejection) else Rejection.of(error)
    if not said.tells:
        return ()
    own = _own_texts(request)
    heard = msgspec.structs.replace(said, message=_without_quotes(said.message, own))
    if _names_another(heard.message, model):
        return ()
    found = (
        _by_own_words(heard, request) or _by_signs(heard, request, own) or _by_code(heard, request)
    )
    if found is None or (isinstance(found[1], int) and found[1] < _LEAST_LIMIT):
        return ()
    name, value = found
    try:
        return (
            Observation(
                provider,
                model,
                name,
                "unsupported" if value is None else "native",
                value,
                "use",
                shortened(f"rejected: {said.message}"),
            ),
        )
    except InputError:
        return ()


_Taught = tuple[str, int | str | tuple[str, ...] | None]


def _by_own_words(said: Rejection, request: Request) -> _Taught | None:
    return (said.capability, None) if used(request, said.capability) else None


def _own_texts(request: Request) -> tuple[str, ...]:
    """Return what the request itself says, in small letters: a server may say it again."""
    blocks = [block for message in request.messages for block in message.content]
    inner = [
        one
        for block in blocks
        for one in (block.content if isinstance(block, ToolResultBlock) else (block,))
    ]
    texts = [one.text for one in inner if isinstance(one, TextBlock)]
    texts += [one.description for one in request.tools]
    texts += request.stop
    texts += [one for one in request.extras.values() if isinstance(one, str)]
    return tuple(_plain(one[:_LONGEST_OWN]) for one in texts if one)


def _without_quotes(message: str, own: tuple[str, ...]) -> str:
    """Take out what a server only repeats: whole texts of the request, and quoted sentences."""
    text = " ".join(message[:_LONGEST_READ].split())
    for one in own:
        if len(one) >= _LONG_ENOUGH:
            text = re.sub(re.escape(one), "…", text, flags=re.IGNORECASE)
    return QUOTED.sub("…", text)


def _names_another(text: str, model: str) -> bool:
    """Tell whether a message speaks of a model that is not the one that was asked."""
    wanted = model.lower()
    named = [(one["named"] or one["first"]).lower() for one in NAMED_MODEL.finditer(text)]
    return any(one not in wanted and wanted not in one for one in named)


def _is_said(words: str, own: tuple[str, ...]) -> bool:
    sought = _plain(words).strip(" .,'\"`")
    return any(sought in one for one in own)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _by_signs(said: Rejection, request: Request, own: tuple[str, ...]) -> _Taught | None:
    text = said.message[:_LONGEST_READ]
    conditional = CONDITIONAL.search(text) is not None
    for sign in SIGNS:
        if said.status not in sign.statuses:
            continue
        match = sign.search(text)
        if match is None or _is_said(match[0], own):
            continue
        taught = _read(sign, match, request)
        if taught is None or not used(request, taught[0]):
            continue
        if not conditional or isinstance(taught[1], int):
            return taught
    return None


def _by_code(said: Rejection, request: Request) -> _Taught | None:
    if said.code not in _BY_CODE or CONDITIONAL.search(said.message[:_LONGEST_READ]):
        return None
    taught = _of_field(said.param, request)
    return taught if taught is not None and used(request, taught[0]) else None


def _read(sign: RejectionPattern, match: re.Match[str], request: Request) -> _Taught | None:
    groups = match.groupdict()
    if "limit" in groups:
        return sign.capability, int(groups["limit"].replace(",", "").replace("_", ""))
    if "values" in groups:
        listed = set(_WORDS.findall(groups["values"].lower()))
        efforts = tuple(one for one in EFFORTS if one in listed)
        return (sign.capability, efforts) if efforts else None
    if "field" in groups:
        return _of_field(groups["field"], request)
    return _resolved(sign.capability, sign.value, request)


def _of_field(field: str, request: Request) -> _Taught | None:
    path = _CAMEL.sub(r"_\1", field).lower().removeprefix("body.").rstrip(".")
    name = FIELDS.get(path) or FIELDS.get(path.partition(".")[0])
    if name is None:
        return None
    # A server that has no max_completion_tokens has the older name.
    return _resolved(name, "max-tokens" if name == "token-limit-param" else "", request)


def _resolved(name: str, value: str, request: Request) -> _Taught:
    if name == "output":
        name = "structured-output" if isinstance(request.output, JsonSchema) else "json-object"
    return name, value or None


def used(request: Request, name: str) -> bool:
    """Tell whether a request asks for a capability: only what was asked for can be refused."""
    if name in _LIMITS:
        return True
    look = _USES.get(name)
    if look is not None and look(request):
        return True
    return any(FIELDS.get(field) == name for field in request.extras)


def _has_image(request: Request) -> bool:
    for message in request.messages:
        for block in message.content:
            inner = block.content if isinstance(block, ToolResultBlock) else (block,)
            if any(isinstance(one, ImageBlock) for one in inner):
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
    "thinking-budget": lambda request: (
        request.reasoning is not None and request.reasoning.budget_tokens is not None
    ),
    "streaming": lambda request: request.stream,
    "image-input": _has_image,
    "system-messages": lambda request: any(one.role == "system" for one in request.messages),
    "assistant-prefill": lambda request: (
        bool(request.messages) and request.messages[-1].role == "assistant"
    ),
    "prompt-caching": lambda request: any(
        "cache_control" in msgspec.json.encode(block).decode()
        for message in request.messages
        for block in message.content
    ),
}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

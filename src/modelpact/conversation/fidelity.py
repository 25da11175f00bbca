"""Fidelity: what is lost when a request or response is translated from one API to another.

Writers never drop anything silently: each thing that the target API cannot express is a `Loss`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from modelpact.conversation.fields import message_spelling, spelling_of
from modelpact.conversation.message import Block, OtherBlock
from modelpact.conversation.request import Tool

APIS: Final = ("openai-chat", "openai-responses", "anthropic")
"""The APIs that this package translates between; `codecs.py` has the functions of each."""

RESPONSES: Final = "openai-responses"
SHARED: Final = (
    *("metadata", "service_tier", "prompt_cache_key", "prompt_cache_retention"),
    *("safety_identifier", "user"),
)
"""Fields of requests that mean the same in both APIs."""

CHAT_UNSUPPORTED: Final[Mapping[str, str]] = {
    "n": "this API returns one response",
    "modalities": "this API responds with text only",
    "audio": "this API responds with text only",
    "web_search_options": "in this API, web search is a tool",
    "functions": "functions are deprecated: use tools",
    "function_call": "functions are deprecated: use tools",
    "tool_choice": "this API does not have this choice of tools",
    "response_format": "this API does not have this format",
}
"""Fields of Chat Completions without which a request means something else in other APIs."""
CHAT_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "n": (1,),
    "logprobs": (False,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "modalities": (["text"],),
    "response_format": ({"type": "text"},),
    "stream_options": ({}, {"include_usage": True}, {"include_usage": False}),
}
"""Values of Chat Completions that ask for what other APIs do anyway."""

_LOGPROBS: Final = "message.output_text.logprobs"
_STATE: Final = "is stored on another server: send it in full"
_RESPONSES_UNSUPPORTED: Final[Mapping[str, str]] = {
    "previous_response_id": f"the earlier response {_STATE}",
    "conversation": f"the conversation {_STATE}",
    "prompt": f"the prompt {_STATE}",
    "background": "this API responds at once, not in the background",
    "top_logprobs": "token probabilities are not translated back",
    "tool_choice": "this API does not have this choice of tools",
    "moderation": "this API does not moderate its input",
}
_RESPONSES_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "background": (False,),
    "include": ([],),
    "metadata": ({},),
    "service_tier": ("auto",),
    "store": (False,),
    "stream_options": ({},),
    "top_logprobs": (0,),
    "truncation": ("disabled",),
}

Fidelity = Literal["lossless", "lossy", "unsupported"]


class Loss(msgspec.Struct, frozen=True):
    """One thing that could not be translated.

    `lossy`: it is left out, and the request still means nearly the same. `unsupported`: the request
    would mean something else, so do not send it. `path` is the place in the `Request`,
    and `what` says what is lost and why.
    """

    path: str
    fidelity: Literal["lossy", "unsupported"]
    what: str


class TranslatedBody(msgspec.Struct, frozen=True):
    """A body in the format of an API, and what it could not express."""

    body: dict[str, Any]
    losses: tuple[Loss, ...] = ()

    @property
    def fidelity(self) -> Fidelity:
        """What remains after all losses: the worst of them."""
        kinds = {loss.fidelity for loss in self.losses}
        if "unsupported" in kinds:
            return "unsupported"
        return "lossy" if kinds else "lossless"


class LossRecorder:
    """Records losses while a body is written for an API.

    `same_api` is true if what is written was read from that API.
    """

    def __init__(self, api: str, source: str = "") -> None:
        self.api = api
        self.same_api = source == api
        self.losses: list[Loss] = []

    def lossy(self, path: str, what: str) -> None:
        """Record something that is left out."""
        self.losses.append(Loss(path, "lossy", what))

    def unsupported(self, path: str, what: str) -> None:
        """Record something without which the request would mean something else."""
        self.losses.append(Loss(path, "unsupported", what))

    def unsupported_block(self, block: Block, path: str) -> None:
        """Record a block of a kind that this API does not have."""
        kind = block.content.get("type", "foreign") if isinstance(block, OtherBlock) else "foreign"
        self.unsupported(path, f"this API has no {kind!s:.60} block")

    def add(self, losses: Iterable[Loss], prefix: str, replacement: str) -> None:
        """Record losses of a part of the body, with its path in place of the prefix."""
        for loss in losses:
            path = replacement + loss.path.removeprefix(prefix)
            self.losses.append(Loss(path, loss.fidelity, loss.what))

    def own_fields(self, extra: Mapping[str, Any], path: str, shared: Collection[str] = ()) -> dict[str, Any]:
        """Return the fields of an `extra` that belong to this API; record those of other APIs.

        `shared` are fields of other APIs that mean the same in this one.
        """
        own = dict(extra.get(self.api, {}))
        for api, fields in extra.items():
            if api == self.api or api.endswith(" spelling") or not isinstance(fields, Mapping):
                continue
            for name, value in fields.items():
                if name in shared:
                    own.setdefault(name, value)
                elif value is not None:
                    self.lossy(f"{path}.{name}", f"only {api} has this field")
        return own

    def foreign_fields(self, metadata: Mapping[str, Any], path: str) -> None:
        """Record the fields of a message that only another API has."""
        for api in APIS:
            if api != self.api:
                extra = message_spelling(metadata, api).get("extra", {})
                fields = {name: value for name, value in extra.items() if value != []}
                self.own_fields({api: fields}, path)

    def translated(self, body: dict[str, Any]) -> TranslatedBody:
        """Return the body together with the losses so far."""
        return TranslatedBody(body, tuple(self.losses))


def write_tools(
    tools: Iterable[Tool],
    losses: LossRecorder,
    read: Callable[[Mapping[str, Any], str], Tool],
    write: Callable[[Tool, LossRecorder], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Write tools: as they were spelled if `read` still reads them so, else with `write`."""
    written: list[dict[str, Any]] = []
    for tool in tools:
        original = spelling_of(tool.extra, losses.api)
        if original and read(original, "tools") == tool:
            written.append(original)
        elif tool.builtin:
            reason = f"only another API has the tool {tool.builtin:.60}"
            losses.unsupported(f"tools.{tool.name}", reason)
        else:
            written.append(write(tool, losses))
    return written


def translate_responses_extras(
    extras: Mapping[str, Any], losses: LossRecorder, names: Mapping[str, str]
) -> dict[str, Any]:
    """Return the fields of a Responses request that another API has too; record the others.

    `names` are the other API's names of these fields. Fields inside `text` and `reasoning` go by
    a path, such as `text.verbosity`.
    """
    flat: dict[str, Any] = {}
    for name, value in extras.items():
        if isinstance(value, Mapping) and name in ("text", "reasoning"):
            flat |= {f"{name}.{inner}": inner_value for inner, inner_value in value.items()}
        else:
            flat[name] = value
    translated: dict[str, Any] = {}
    for name, value in flat.items():
        if value is None or value in _RESPONSES_NEUTRAL.get(name, ()):
            continue
        if name in names:
            translated[names[name]] = value
        elif name in _RESPONSES_UNSUPPORTED:
            losses.unsupported(name, _RESPONSES_UNSUPPORTED[name])
        elif name == "text.format":
            if value != {"type": "text"}:
                losses.unsupported(name, "this API does not have this format")
        elif name == "include" and isinstance(value, list) and _LOGPROBS in value:
            losses.unsupported(name, _RESPONSES_UNSUPPORTED["top_logprobs"])
        else:
            losses.lossy(name, f"only {RESPONSES} has this field")
    return translated

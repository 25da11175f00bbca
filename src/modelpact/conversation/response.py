"""Responses of a model: whole, as a stream of events, or as an error; independent of any API."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from modelpact.conversation.message import Block, OtherBlock, TextBlock, ThinkingBlock, ToolUseBlock
from modelpact.vocabulary.errors import ModelpactError

StopReason = Literal["end", "length", "stop_sequence", "tool_use", "refusal", "unknown"]
REFUSED: Final[dict[str, Any]] = {"openai-chat spelling": {"part": "refusal"}}
"""The `extra` of a text in which the model refuses to respond."""
_STATUSES: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class Usage(msgspec.Struct, frozen=True):
    """Token counts. `input` includes cached tokens, and `output` includes reasoning tokens."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.reasoning + other.reasoning,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


class Response(msgspec.Struct, frozen=True, omit_defaults=True):
    """One whole response. `extra` holds what only one API has, by the name of the API."""

    content: tuple[Block, ...] = ()
    stop_reason: StopReason = "end"
    stop_sequence: str = ""
    usage: Usage = Usage()
    model: str = ""
    id: str = ""
    extra: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """The joined text of all text blocks."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def thinking(self) -> str:
        """The joined text of all thinking blocks."""
        return "".join(block.thinking for block in self.content if isinstance(block, ThinkingBlock))

    @property
    def tool_calls(self) -> tuple[ToolUseBlock, ...]:
        """The tool calls of the model."""
        return tuple(block for block in self.content if isinstance(block, ToolUseBlock))

    @property
    def finish(self) -> "Finish":
        """The event that ends the response in a stream."""
        return Finish(self.stop_reason, self.stop_sequence, self.usage, self.model, self.id, self.extra)


class TextDelta(msgspec.Struct, frozen=True, tag="text", omit_defaults=True):
    """A piece of the text of a response, or of the text of a refusal."""

    text: str
    refusal: bool = False


class ThinkingDelta(msgspec.Struct, frozen=True, tag="thinking"):
    """A piece of the thinking."""

    thinking: str


class BlockEnd(msgspec.Struct, frozen=True, tag="block_end", omit_defaults=True):
    """The end of a text or thinking block that has extra fields, or that another one follows."""

    signature: str = ""
    extra: dict[str, Any] = {}


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call"):
    """A whole tool call."""

    call: ToolUseBlock


class OpaqueBlock(msgspec.Struct, frozen=True, tag="block"):
    """A whole block of a kind that only one API has."""

    block: OtherBlock


class Finish(msgspec.Struct, frozen=True, tag="finish"):
    """The end of a stream. A stream without it was cut off."""

    stop_reason: StopReason = "end"
    stop_sequence: str = ""
    usage: Usage = Usage()
    model: str = ""
    id: str = ""
    extra: dict[str, Any] = {}


StreamEvent = TextDelta | ThinkingDelta | BlockEnd | ToolCall | OpaqueBlock | Finish


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The error that an API reports; `kind` is its `type`, `param` the field that it blames."""

    message: str
    kind: str = ""
    code: str = ""
    param: str = ""

    @property
    def status(self) -> int | None:
        """The HTTP status that belongs to the kind of error, if it is known."""
        return _STATUSES.get(self.code) or _STATUSES.get(self.kind)


class ResponseError(ModelpactError):
    """An API sent an error in place of a response, or in the middle of a stream."""

    def __init__(self, body: ErrorBody) -> None:
        self.body = body
        super().__init__(f"the response is an error: {body.message or body.kind}")


_PLAIN_END: Final = BlockEnd()


def collect(events: Iterable[StreamEvent]) -> Response | None:
    """Join a stream into a response, or return None if the stream was cut off."""
    content: list[Block] = []
    finish: Finish | None = None
    kind: tuple[type, bool] | None = None
    pieces: list[str] = []

    def close(end: BlockEnd) -> None:
        nonlocal kind, pieces
        if kind is None:
            return
        text, (delta_type, refused) = "".join(pieces), kind
        if delta_type is ThinkingDelta:
            content.append(ThinkingBlock(text, end.signature, end.extra))
        else:
            content.append(TextBlock(text, end.extra or (REFUSED if refused else {})))
        kind, pieces = None, []

    for event in events:
        if isinstance(event, (TextDelta, ThinkingDelta)):
            event_kind = (type(event), isinstance(event, TextDelta) and event.refusal)
            if event_kind != kind:
                close(_PLAIN_END)
                kind = event_kind
            pieces.append(event.text if isinstance(event, TextDelta) else event.thinking)
            continue
        close(event if isinstance(event, BlockEnd) else _PLAIN_END)
        if isinstance(event, ToolCall):
            content.append(event.call)
        elif isinstance(event, OpaqueBlock):
            content.append(event.block)
        elif isinstance(event, Finish):
            finish = event
    close(_PLAIN_END)
    if finish is None:
        return None
    return Response(
        tuple(content), finish.stop_reason, finish.stop_sequence, finish.usage, finish.model, finish.id, finish.extra
    )


def response_events(response: Response) -> Iterator[StreamEvent]:
    """Yield a whole response as a stream with one delta for each block."""
    for block in response.content:
        if isinstance(block, TextBlock):
            yield TextDelta(block.text, block.extra == REFUSED)
            yield BlockEnd(extra={} if block.extra == REFUSED else block.extra)
        elif isinstance(block, ThinkingBlock):
            yield ThinkingDelta(block.thinking)
            yield BlockEnd(block.signature, block.extra)
        elif isinstance(block, ToolUseBlock):
            yield ToolCall(block)
        elif isinstance(block, OtherBlock):
            yield OpaqueBlock(block)
    yield response.finish


def read_error(body: Any) -> ErrorBody | None:
    """Read an error body of any of the APIs, or of servers that resemble them.

    Return None for a body that is not an error.
    """
    if not isinstance(body, Mapping):
        return None
    error = body.get("error", body if "message" in body and "choices" not in body else None)
    if isinstance(error, str):
        return ErrorBody(error)
    if not isinstance(error, Mapping) or not isinstance(error.get("message"), str):
        return None
    code = error.get("code")
    return ErrorBody(
        error["message"],
        _string(error.get("type")),
        str(code) if isinstance(code, int) else _string(code),
        _string(error.get("param")),
    )


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""

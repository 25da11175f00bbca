"""Requests and responses as JSON: the input and output of a chat in the provider contract."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.conversation.message import Conversation, Message, check_values, read_conversation, write_conversation
from modelpact.conversation.request import JsonObject, JsonSchema, Reasoning, Request, TokenLimitParam, Tool, ToolChoice
from modelpact.conversation.response import Response, StreamEvent
from modelpact.vocabulary.errors import InputError

CHAT: Final = "urn:modelpact:model:chat"
"""The kind of the capability that answers a conversation."""
_SCHEMAS: Final = json.loads(Path(__file__).with_name("chat_schemas.json").read_bytes())
INPUT: Final[dict[str, Any]] = _SCHEMAS["input"]
"""The schema of a chat's input: a `Request`."""
OUTPUT: Final[dict[str, Any]] = _SCHEMAS["output"]
"""The schema of a chat's output: a `Response`, and what its API could not express."""
_UNCONVERTED: Final = ("max_tokens", "temperature", "top_p", "top_k", "parallel_tool_calls")


def read_request(value: Any) -> Request:
    """Read a request; errors name the field."""
    if not isinstance(value, Mapping):
        raise InputError(f"request: expected an object, not {type(value).__name__}")
    check_values(value, "request")
    for name in value:
        if name not in INPUT["properties"]:
            raise InputError(f"request: no field {name!r:.60}")
    fields: dict[str, Any] = {name: value[name] for name in _UNCONVERTED if name in value}
    for name, kind in (
        ("model", str),
        ("tools", tuple[Tool, ...]),
        ("tool_choice", ToolChoice),
        ("reasoning", Reasoning),
        ("stop", tuple[str, ...]),
        ("token_limit_param", TokenLimitParam),
        ("api", str),
        ("extras", dict[str, Any]),
        ("spelling", dict[str, Any]),
    ):
        if name in value:
            try:
                fields[name] = msgspec.convert(value[name], kind)
            except msgspec.ValidationError as error:
                raise InputError(f"request.{name}: {error}") from None
    if "model" not in fields:
        raise InputError("request.model: expected the name of a model")
    if "output" in value:
        fields["output"] = _read_output(value["output"])
    conversation = read_conversation({"messages": value.get("messages")})
    return Request(messages=tuple(conversation.messages), **fields)


def write_request(request: Request) -> dict[str, Any]:
    """Write a request; whether it is streamed depends on how it is invoked."""
    plain: dict[str, Any] = msgspec.to_builtins(
        msgspec.structs.replace(request, messages=(), output=None, stream=False)
    )
    plain["messages"] = write_conversation(Conversation(list(request.messages)))["messages"]
    if isinstance(request.output, JsonObject):
        plain["output"] = {"type": "json_object"}
    elif isinstance(request.output, JsonSchema):
        plain["output"] = {"type": "json_schema", **msgspec.to_builtins(request.output)}
    return plain


def write_response(response: Response) -> dict[str, Any]:
    """Write a response."""
    plain: dict[str, Any] = msgspec.to_builtins(response)
    conversation = write_conversation(Conversation([Message("assistant", response.content)]))
    return {
        **plain,
        "content": conversation["messages"][0]["content"],
        "stop_reason": response.stop_reason,
        "usage": msgspec.to_builtins(response.usage),
    }


def read_response(value: Mapping[str, Any]) -> Response:
    """Read a response."""
    (message,) = read_conversation({"messages": [{"role": "assistant", "content": value.get("content", [])}]}).messages
    fields = {name: field for name, field in value.items() if name not in ("content", "losses")}
    try:
        plain = msgspec.convert(fields, Response)
    except msgspec.ValidationError as error:
        raise InputError(f"response: {error}") from None
    return msgspec.structs.replace(plain, content=message.content)


def write_event(event: StreamEvent) -> dict[str, Any]:
    """Write an event of a stream, its kind under `type`."""
    plain: dict[str, Any] = msgspec.to_builtins(event)
    return plain


def read_event(value: Any) -> StreamEvent:
    """Read an event of a stream."""
    try:
        return msgspec.convert(value, StreamEvent)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise InputError(f"event: {error}") from None


def _read_output(value: Any) -> JsonObject | JsonSchema:
    if not isinstance(value, Mapping) or value.get("type") not in ("json_object", "json_schema"):
        raise InputError("request.output.type: expected json_object or json_schema")
    if value["type"] == "json_object":
        return JsonObject()
    fields = {name: field for name, field in value.items() if name != "type"}
    try:
        return msgspec.convert(fields, JsonSchema)
    except msgspec.ValidationError as error:
        raise InputError(f"request.output: {error}") from None

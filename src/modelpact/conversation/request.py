"""Requests: a conversation and the settings of one call, independent of any API."""

from typing import Any, Literal

import msgspec

from modelpact.conversation.message import Message

TokenLimitParam = Literal["max-tokens", "max-completion-tokens", "max-output-tokens"]


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that the model may call. `parameters` is a JSON Schema."""

    name: str
    parameters: dict[str, Any] = {}
    description: str = ""
    strict: bool | None = None
    extra: dict[str, Any] = {}

    @property
    def builtin(self) -> str:
        """The kind of a tool that the provider runs, or an empty string for a function."""
        return next((kind for key, kind in self.extra.items() if key.endswith(" kind")), "")


class ToolChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether the model may, must or must not call a tool, and which."""

    mode: Literal["auto", "none", "required", "tool"]
    name: str = ""


class JsonObject(msgspec.Struct, frozen=True):
    """The response must be a JSON object."""


class JsonSchema(msgspec.Struct, frozen=True, omit_defaults=True):
    """The response must be JSON that is valid against a schema."""

    schema: dict[str, Any]
    name: str = "answer"
    description: str = ""
    strict: bool | None = None


class Reasoning(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much the model should reason: an effort, or a budget of tokens."""

    effort: str = ""
    budget_tokens: int | None = None
    extra: dict[str, Any] = {}


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request to a model.

    `extras` are the fields of the body that only the API named in `api` has.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    output: JsonObject | JsonSchema | None = None
    reasoning: Reasoning | None = None
    max_tokens: int | None = None
    token_limit_param: TokenLimitParam = "max-tokens"
    temperature: float | int | None = None
    top_p: float | int | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    api: str = ""
    extras: dict[str, Any] = {}
    spelling: dict[str, Any] = {}
    """How the body expressed what it could express in several ways; see `fields`."""

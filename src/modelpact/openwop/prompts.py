"""Prompts: a node's configuration made into a request, for the model that will be called."""

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.message import Message, TextBlock
from modelpact.conversation.request import JsonSchema, Request
from modelpact.emulation.validation import Schema
from modelpact.openwop.builtin import ENVELOPES
from modelpact.vocabulary.errors import InputError, UnknownName, brief

MAX_PROMPT: Final = 4_000_000
"""Characters that a request's texts may have once their values are filled in."""
_PLACEHOLDER: Final = re.compile(r"\{\{\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*\}\}")
_FIELDS: Final = ("prompt", "system", "schema", "envelope", "maxTokens", "temperature")
_MAX_TOKENS: Final = 2**31


def check_config(config: Mapping[str, Any], where: str) -> None:
    """Raise if no run could use a node's configuration.

    A missing prompt is accepted here. It is an error only when the node is executed.
    """
    for key in config:
        if key not in _FIELDS:
            raise InputError(
                f"{where}: unknown field {brief(key)}; the fields are {', '.join(_FIELDS)}"
            )
    for name in ("prompt", "system"):
        if not isinstance(config.get(name, ""), str):
            raise InputError(f"{where}.{name}: expected a text, not {brief(config[name])}")
    limit, temperature = config.get("maxTokens"), config.get("temperature")
    if limit is not None and (type(limit) is not int or not 0 < limit < _MAX_TOKENS):
        raise InputError(f"{where}.maxTokens: expected a number above zero, not {brief(limit)}")
    if temperature is not None and (
        type(temperature) not in (int, float) or not math.isfinite(temperature)
    ):
        raise InputError(f"{where}.temperature: expected a number, not {brief(temperature)}")
    if "envelope" in config and "schema" in config:
        raise InputError(f"{where}: envelope and schema exclude each other; leave one out")
    if "envelope" in config:
        kind = config["envelope"]
        if not isinstance(kind, str) or kind not in ENVELOPES:
            raise UnknownName(f"envelope at {where}.envelope:", kind, ENVELOPES)
    if "schema" in config:
        if not isinstance(config["schema"], dict):
            value = brief(config["schema"])
            raise InputError(f"{where}.schema: expected a JSON Schema, not {value}")
        Schema(config["schema"], f"{where}.schema")


def resolve_prompt(
    config: Mapping[str, Any], values: Mapping[str, Any], model: str, limit: int = MAX_PROMPT
) -> Request:
    """Return the request of a node with a checked configuration.

    `{{name}}` in a prompt is replaced by an input of the run, or by the output of the node of that
    name. Raise if the texts exceed `limit` characters.
    """
    if not config.get("prompt"):
        raise InputError("config.prompt: expected the text of the prompt")
    prompt = _fill(config["prompt"], values, "prompt", limit)
    messages = [Message("user", (TextBlock(prompt),))]
    if config.get("system"):
        system = _fill(config["system"], values, "system", limit - len(prompt))
        messages.insert(0, Message("system", (TextBlock(system),)))
    return Request(
        model,
        tuple(messages),
        output=_output(config),
        max_tokens=config.get("maxTokens"),
        temperature=config.get("temperature"),
    )


def _output(config: Mapping[str, Any]) -> JsonSchema | None:
    if "envelope" in config:
        kind: str = config["envelope"]
        return JsonSchema(ENVELOPES[kind], kind.replace(".", "_"), strict=True)
    return JsonSchema(config["schema"], strict=True) if "schema" in config else None


def _fill(text: str, values: Mapping[str, Any], where: str, limit: int) -> str:
    """Replace the placeholders of a text. The length is checked before the text is built."""
    texts: dict[str, str] = {}
    length = len(text)
    for match in _PLACEHOLDER.finditer(text):
        name = match[1]
        if name not in texts:
            if name not in values:
                raise UnknownName(f"name in config.{where}:", name, values)
            texts[name] = _to_text(values[name])
        length += len(texts[name]) - len(match[0])
    if length > limit:
        raise InputError(
            f"config.{where}: has {length:,} characters with its values; {limit:,} are left of the "
            f"{MAX_PROMPT:,} that a node may have and of what its run may have"
        )
    return _PLACEHOLDER.sub(lambda match: texts[match[1]], text)


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

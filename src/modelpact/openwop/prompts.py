"""Prompts: a node's configuration made into a request, for the model that will really be called."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.conversation.message import Message, TextBlock
from modelpact.conversation.request import JsonSchema, Request
from modelpact.openwop.envelopes import ENVELOPES
from modelpact.vocabulary.errors import InputError, UnknownName, brief

_PLACE: Final = re.compile(r"\{\{\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*\}\}")
_FIELDS: Final = ("prompt", "system", "schema", "envelope", "maxTokens", "temperature")


def resolve_prompt(config: Mapping[str, Any], values: Mapping[str, Any], model: str) -> Request:
    """Return the request that a node's configuration asks for.

    `{{name}}` in a prompt is an input of the run, or the output of the node of that name.
    """
    for key in config:
        if key not in _FIELDS:
            raise InputError(f"config: no field {brief(key)}; there are {', '.join(_FIELDS)}")
    prompt = config.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        raise InputError("config.prompt: expected the text of the prompt")
    system = config.get("system", "")
    if not isinstance(system, str):
        raise InputError("config.system: expected a text")
    messages = [Message("user", (TextBlock(_filled(prompt, values, "prompt")),))]
    if system:
        messages.insert(0, Message("system", (TextBlock(_filled(system, values, "system")),)))
    limit, temperature = config.get("maxTokens"), config.get("temperature")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise InputError(f"config.maxTokens: expected a number above zero, not {brief(limit)}")
    if temperature is not None and type(temperature) not in (int, float):
        raise InputError(f"config.temperature: expected a number, not {brief(temperature)}")
    return Request(
        model, tuple(messages), output=_output(config), max_tokens=limit, temperature=temperature
    )


def _output(config: Mapping[str, Any]) -> JsonSchema | None:
    if "envelope" in config and "schema" in config:
        raise InputError("config: envelope and schema exclude each other; leave one out")
    if "envelope" in config:
        kind = config["envelope"]
        if not isinstance(kind, str) or kind not in ENVELOPES:
            raise UnknownName("envelope", kind, ENVELOPES)
        return JsonSchema(ENVELOPES[kind], kind.replace(".", "_"), strict=True)
    if "schema" not in config:
        return None
    schema = config["schema"]
    if not isinstance(schema, dict):
        raise InputError(f"config.schema: expected a JSON Schema, not {brief(schema)}")
    return JsonSchema(schema, strict=True)


def _filled(text: str, values: Mapping[str, Any], where: str) -> str:
    def fill(found: re.Match[str]) -> str:
        name = found[1]
        if name not in values:
            raise UnknownName(f"name in config.{where}:", name, values)
        value = values[name]
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()

    return _PLACE.sub(fill, text)

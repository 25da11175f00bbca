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

LONGEST_PROMPT: Final = 4_000_000
"""Characters that a request's texts may have once their values are filled in."""


_PLACE: Final = re.compile(r"\{\{\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*\}\}")


_FIELDS: Final = ("prompt", "system", "schema", "envelope", "maxTokens", "temperature")


_MOST_TOKENS: Final = 2**31


def check_config(config: Mapping[str, Any], where: str) -> None:
    """Refuse a configuration that no run could use, whatever its values are.

    A missing prompt is let be: it matters only once the gate has let the node through.
    """
    for key in config:
        if key not in _FIELDS:
            raise InputError(f"{where}: no field {brief(key)}; there are {', '.join(_FIELDS)}")
    for name in ("prompt", "system"):
        if not isinstance(config.get(name, ""), str):
            raise InputError(f"{where}.{name}: expected a text, not {brief(config[name])}")
    limit, temperature = config.get("maxTokens"), config.get("temperature")
    if limit is not None and (type(limit) is not int or not 0 < limit < _MOST_TOKENS):
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
            told = brief(config["schema"])
            raise InputError(f"{where}.schema: expected a JSON Schema, not {told}")
        Schema(config["schema"], f"{where}.schema")


def resolve_prompt(
    config: Mapping[str, Any], values: Mapping[str, Any], model: str, most: int = LONGEST_PROMPT
) -> Request:
    """Return the request that a node's configuration, which was checked, asks for.

    `{{name}}` in a prompt is an input of the run, or the output of the node of that name. No more
    than so many characters come of it.
    """
    if not config.get("prompt"):
        raise InputError("config.prompt: expected the text of the prompt")
    prompt = _filled(config["prompt"], values, "prompt", most)
    messages = [Message("user", (TextBlock(prompt),))]
    if config.get("system"):
        system = _filled(config["system"], values, "system", most - len(prompt))
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


def _filled(text: str, values: Mapping[str, Any], where: str, most: int) -> str:
    """Fill values in; how long that gets is added up before it is made."""
    written: dict[str, str] = {}
    length = len(text)
    for found in _PLACE.finditer(text):
        name = found[1]
        if name not in written:
            if name not in values:
                raise UnknownName(f"name in config.{where}:", name, values)
            written[name] = _written(values[name])
        length += len(written[name]) - len(found[0])
    if length > most:
        raise InputError(
            f"config.{where}: has {length:,} characters with its values; the most that is left of "
            f"{LONGEST_PROMPT:,} for a node, and of what its run may have, is {most:,}"
        )
    return _PLACE.sub(lambda found: written[found[1]], text)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

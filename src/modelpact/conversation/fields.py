"""Read the fields of the APIs' bodies. Every error names the field and what was expected.

A body often has several ways to express one thing: content as a string or as a list of parts, a
field that is null or absent. The way that a body chose is its *spelling*. Readers keep the spelling
beside what they read, under the name of the API, so that writers can produce the same body again.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.strict_json import parse_json


def read_object(value: Any, where: str) -> dict[str, Any]:
    """Return an object, or raise an error that names the place."""
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected an object, not {type(value).__name__}")
    return value


def read_objects(value: Any, where: str) -> list[dict[str, Any]]:
    """Return a list of objects, or raise an error that names the place."""
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list, not {type(value).__name__}")
    return [read_object(item, f"{where}[{index}]") for index, item in enumerate(value)]


def read_strings(value: Any, where: str) -> list[str]:
    """Return a list of strings, or raise an error that names the place."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise InputError(f"{where}: expected a list of strings")
    return list(value)


def required_string(data: Mapping[str, Any], name: str, where: str) -> str:
    """Return a field that must be a string."""
    value = data.get(name)
    if not isinstance(value, str):
        raise InputError(f"{where}.{name}: expected a string, not {type(value).__name__}")
    return value


def optional_field(data: Mapping[str, Any], name: str, kind: type | tuple[type, ...], expected: str) -> Any:
    """Return a field of the given type, or None if it is absent or null; a bool is no number."""
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{name}: expected {expected}, not {type(value).__name__}")
    return value


def optional_string(data: Mapping[str, Any], name: str) -> str:
    """Return a field that is a string, or an empty string if it is absent or null."""
    return optional_field(data, name, str, "a string") or ""


def optional_bool(data: Mapping[str, Any], name: str) -> bool | None:
    """Return a field that is true or false, or None if it is absent or null."""
    value: bool | None = optional_field(data, name, bool, "true or false")
    return value


def optional_int(data: Mapping[str, Any], name: str) -> int | None:
    """Return a field that is an integer, or None if it is absent or null."""
    value: int | None = optional_field(data, name, int, "an integer")
    return value


def optional_number(data: Mapping[str, Any], name: str) -> float | int | None:
    """Return a field that is a number, or None if it is absent or null."""
    value: float | int | None = optional_field(data, name, (int, float), "a number")
    return value


def optional_schema(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is a JSON Schema, or an empty one if it is absent or null."""
    return optional_field(data, name, dict, "a JSON Schema") or {}


def token_count(data: Mapping[str, Any], name: str, where: str) -> int:
    """Return a number of tokens; a missing one is 0."""
    value = data.get(name)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{where}.{name}: expected a number of tokens, not {brief(value)}")
    return value


def token_details(data: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """Return the details of a token count, or an empty object if there are none."""
    details = data.get(name)
    return {} if details is None else read_object(details, f"{where}.{name}")


def without(data: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the fields that are not among the names."""
    return {name: value for name, value in data.items() if name not in names}


def split_body(
    body: Mapping[str, Any], modelled: Collection[str], spelled: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Split a request body into the fields that `Request` models, all others, and a spelling.

    The spelling has those of the `spelled` fields that are there but empty.
    """
    extras = {name: value for name, value in body.items() if name not in modelled or value is None}
    fields = without(body, extras)
    empty = {name: fields[name] for name in spelled if name in fields and not fields[name]}
    return fields, extras, empty


def make_extra(api: str, fields: Mapping[str, Any], spelling: Any = None) -> dict[str, Any]:
    """Return the `extra` of a block or tool: fields that only this API has, and its spelling."""
    extra: dict[str, Any] = {api: dict(fields)} if fields else {}
    if spelling:
        extra[f"{api} spelling"] = spelling
    return extra


def spelling_of(extra: Mapping[str, Any], api: str) -> Any:
    """Return how an API spelled a block or tool, or an empty object."""
    return extra.get(f"{api} spelling") or {}


def message_spelling(metadata: Mapping[str, Any], api: str) -> Mapping[str, Any]:
    """Return how an API spelled a message; metadata that callers made themselves is ignored."""
    spelling = metadata.get(api)
    if not isinstance(spelling, Mapping) or not isinstance(spelling.get("extra", {}), Mapping):
        return {}
    return spelling


def parse_data_url(url: str) -> tuple[str, str] | None:
    """Split `data:TYPE;base64,DATA` into type and data, or return None for any other URL."""
    if not url.startswith("data:"):
        return None
    head, comma, data = url[5:].partition(",")
    kind, semicolon, encoding = head.partition(";")
    if not comma or not semicolon or encoding != "base64" or not data:
        return None
    return kind, data


def write_data_url(media_type: str, data: str) -> str:
    """Write base64 data as a URL."""
    return f"data:{media_type};base64,{data}"


def parse_event(data: str) -> dict[str, Any]:
    """Parse the data of one event of a stream, which must be an object."""
    try:
        event = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"stream: not JSON: {error}: {data!r:.80}") from None
    except UnicodeEncodeError:
        raise InputError("stream: not valid Unicode") from None
    return read_object(event, "stream")


def read_arguments(raw: str) -> Any:
    """Parse the arguments of a call; return None if they are not JSON that other APIs accept."""
    try:
        return parse_json(raw.encode(), "arguments")
    except (InputError, UnicodeEncodeError):
        return None


def write_arguments(arguments: Any, path: str) -> str:
    """Write the arguments of a call as JSON, or raise an error that names the place."""
    try:
        return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}.input: cannot be written as JSON: {error}") from None

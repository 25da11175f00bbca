"""What the readers of the APIs' bodies share."""

from collections.abc import Collection, Mapping
from typing import Any

from modelpact.vocabulary.errors import InputError


def checked(body: Any, where: str) -> dict[str, Any]:
    """Return an object, or raise an error that names the place."""
    if not isinstance(body, dict):
        raise InputError(f"{where}: expected an object, not {type(body).__name__}")
    return body


def objects(value: Any, where: str) -> list[dict[str, Any]]:
    """Return a list of objects, or raise an error that names the place."""
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list, not {type(value).__name__}")
    return [checked(one, f"{where}[{place}]") for place, one in enumerate(value)]


def listed(value: Any, where: str) -> list[str]:
    """Return a list of texts, or raise an error that names the place."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise InputError(f"{where}: expected a list of texts")
    return list(value)


def text_field(data: Mapping[str, Any], name: str, where: str) -> str:
    """Return a field that must be a text."""
    value = data.get(name)
    if not isinstance(value, str):
        raise InputError(f"{where}.{name}: expected a text, not {type(value).__name__}")
    return value


def typed(data: Mapping[str, Any], name: str, kind: type | tuple[type, ...], what: str) -> Any:
    """Return a field of that kind, or None where it is absent; a bool is no number."""
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{name}: expected {what}, not {type(value).__name__}")
    return value


def rest(data: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the fields that are not known."""
    return {key: value for key, value in data.items() if key not in known}


def kept(api: str, fields: Mapping[str, Any], spelling: Any = None) -> dict[str, Any]:
    """Return what a block or tool says beside the model: an API's own fields, and its spelling."""
    found: dict[str, Any] = {api: dict(fields)} if fields else {}
    if spelling:
        found[f"{api} spelling"] = spelling
    return found


def spelled(extra: Mapping[str, Any], api: str) -> Any:
    """Return how an API spelled a block or tool, or an empty object."""
    return extra.get(f"{api} spelling") or {}


def said_by(metadata: Mapping[str, Any], api: str) -> Mapping[str, Any]:
    """Return how an API spelled a message; metadata of the caller's own making is left alone."""
    said = metadata.get(api)
    if not isinstance(said, Mapping) or not isinstance(said.get("extra", {}), Mapping):
        return {}
    return said


def from_data_url(url: str) -> tuple[str, str] | None:
    """Split `data:TYPE;base64,DATA` into type and data, or return None."""
    if not url.startswith("data:"):
        return None
    head, comma, data = url[5:].partition(",")
    kind, semicolon, encoding = head.partition(";")
    if not comma or not semicolon or encoding != "base64" or not data:
        return None
    return kind, data


def data_url(media_type: str, data: str) -> str:
    """Write base64 data as a URL."""
    return f"data:{media_type};base64,{data}"

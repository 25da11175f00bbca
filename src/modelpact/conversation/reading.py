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


def rest(data: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the fields that are not known."""
    return {key: value for key, value in data.items() if key not in known}


def from_data_url(url: str) -> tuple[str, str] | None:
    """Split `data:TYPE;base64,DATA` into type and data, or return None."""
    if not url.startswith("data:"):
        return None
    head, comma, data = url[5:].partition(",")
    kind, semicolon, encoding = head.partition(";")
    if not comma or not semicolon or encoding != "base64":
        return None
    return kind, data


def data_url(media_type: str, data: str) -> str:
    """Write base64 data as a URL."""
    return f"data:{media_type};base64,{data}"

"""`[providers]` and `[models]`: how providers are reached, and what is known of models."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from modelpact.catalog.catalog import Overlay
from modelpact.catalog.statement import statement_problems
from modelpact.configuration.config import FILE_NAME, ProviderSettings
from modelpact.configuration.reader import Reader, no_such

_NUMBERS: Final = ("timeout", "connections", "stream_usage")


def read_provider(reader: Reader, name: str, entry: Mapping[str, Any]) -> ProviderSettings | None:
    """Read how a provider is reached."""
    before = len(reader.problems)
    place = ["providers", name]
    known = [one.name for one in msgspec.structs.fields(ProviderSettings)]
    for key, value in entry.items():
        if key not in known:
            reader.wrong([*place, key], no_such("key", key, known))
        elif key in ("kind", "base_url") and not isinstance(value, str):
            reader.wrong([*place, key], "expected a string")
    kind = entry.get("kind", "")
    if isinstance(kind, str):
        _check_kind(reader, place, name, kind)
    secret = reader.secret([*place, "api_key"], entry["api_key"]) if "api_key" in entry else None
    rest = {key: entry[key] for key in _NUMBERS if key in entry}
    settings = reader.fields(place, rest, ProviderSettings)
    if settings.timeout <= 0 or settings.connections < 1:
        reader.wrong(place, "timeout and connections are numbers above zero")
    if len(reader.problems) > before:
        return None
    return msgspec.structs.replace(
        settings, kind=kind, base_url=entry.get("base_url", ""), api_key=secret
    )


def _check_kind(reader: Reader, place: list[str], name: str, kind: str) -> None:
    names = reader.catalog.providers.names
    if kind and reader.catalog.providers.find(kind) is None:
        reader.wrong([*place, "kind"], no_such("provider", kind, names))
    elif not kind and reader.catalog.providers.find(name) is None:
        hint = 'give kind = "…", the provider that it behaves like (such as vllm or openai)'
        reader.wrong(place, f"{no_such('provider', name, names)}, or {hint}")


def read_models(
    reader: Reader, content: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, str], Overlay]]:
    """Read what the operator knows of models."""
    for name, entry in reader.table(content, "models"):
        place = ["models", name]
        key = reader.target(place, name)
        fields = {field: value for field, value in entry.items() if field != "same_as"}
        for field, message in statement_problems(fields):
            reader.wrong([*place, field], message)
        same_as = entry.get("same_as", "")
        if same_as:
            same = reader.target([*place, "same_as"], same_as)
            same_as = "" if same is None else "/".join(same)
        if key is not None:
            yield key, Overlay(fields, FILE_NAME, same_as)

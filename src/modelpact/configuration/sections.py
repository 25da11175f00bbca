"""`[providers]` and `[models]`: how providers are reached, and what is known of models."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from modelpact.catalog.catalog import Overlay
from modelpact.catalog.statement import statement_problems
from modelpact.configuration.config import FILE_NAME, FallbackOn, ProviderSettings, Workload
from modelpact.configuration.toml_reader import SectionReader, no_such
from modelpact.needs.need import Need, Needs, need
from modelpact.needs.node_modules import ManifestError, Pack, read_pack
from modelpact.negotiation.verdict import Policy
from modelpact.vocabulary.errors import InputError, Problem, brief
from modelpact.vocabulary.strict_json import parse_json

_NUMBERS: Final = ("timeout", "connections", "stream_usage")


def read_provider(
    reader: SectionReader, name: str, entry: Mapping[str, Any]
) -> ProviderSettings | None:
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


def _check_kind(reader: SectionReader, place: list[str], name: str, kind: str) -> None:
    names = reader.catalog.providers.names
    if kind and reader.catalog.providers.find(kind) is None:
        reader.wrong([*place, "kind"], no_such("provider", kind, names))
    elif not kind and reader.catalog.providers.find(name) is None:
        hint = 'give kind = "…", the provider that it behaves like (such as vllm or openai)'
        reader.wrong(place, f"{no_such('provider', name, names)}, or {hint}")


def read_models(
    reader: SectionReader, content: Mapping[str, Any]
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


_LARGEST: Final = 4 * 1024 * 1024


def load_pack(name: str | Path, folder: Path | None = None, *, gating: bool = True) -> Pack:
    """Load a pack manifest; a relative name is looked up from the folder."""
    path = Path(name) if folder is None else folder / name
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror or error}") from None
    if len(data) > _LARGEST:
        raise _wrong(path, f"is larger than {_LARGEST // 1024 // 1024} MiB")
    try:
        content = _parsed(path, data)
    except (InputError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(path, f"not a manifest: {error}") from None
    return read_pack(content, str(path), gating=gating)


def _parsed(path: Path, data: bytes) -> Any:
    if path.suffix == ".toml":
        return tomllib.loads(data.decode("utf-8"))
    return parse_json(data, path.name)


def _wrong(path: Path, message: str) -> ManifestError:
    return ManifestError([Problem(str(path), "", message)])


NEED_FIELDS: Final = ("capability", "level", "minimum", "min_support", "required_by")
_FIELDS: Final = ("model", "needs", "fallback", "fallback_on", "policy")


def read_workload(reader: SectionReader, name: str, entry: Mapping[str, Any]) -> Workload | None:
    """Read a piece of work."""
    before = len(reader.problems)
    place = ["workloads", name]
    for key in entry:
        if key not in _FIELDS:
            reader.wrong([*place, key], no_such("key", key, _FIELDS))
    if "model" not in entry:
        reader.wrong(place, "model is missing: the PROVIDER/MODEL that the work runs on")
    model = reader.target([*place, "model"], entry["model"]) if "model" in entry else None
    fallback = None
    if "fallback" in entry:
        fallback = reader.target([*place, "fallback"], entry["fallback"])
    needs = read_needs(reader, [*place, "needs"], entry.get("needs", []), name)
    on = _fallback_on(reader, place, entry)
    policy = None
    if "policy" in entry:
        policy = reader.fields([*place, "policy"], reader.object([*place, "policy"], entry), Policy)
    if len(reader.problems) > before or model is None or needs is None:
        return None
    return Workload(
        name,
        "/".join(model),
        needs,
        None if fallback is None else "/".join(fallback),
        reader.lines.of(place),
        on,
        policy,
    )


def _fallback_on(
    reader: SectionReader, place: list[str], entry: Mapping[str, Any]
) -> tuple[FallbackOn, ...]:
    if "fallback_on" not in entry:
        return ("capability",)
    if "fallback" not in entry:
        reader.wrong([*place, "fallback_on"], "there is no fallback that it could be about")
    try:
        return msgspec.convert(entry["fallback_on"], tuple[FallbackOn, ...])
    except msgspec.ValidationError:
        known = ", ".join(get_args(FallbackOn))
        reader.wrong([*place, "fallback_on"], f"expected a list of some of {known}")
        return ("capability",)


def read_needs(reader: SectionReader, place: list[str], listed: Any, name: str) -> Needs | None:
    """Read a list of needs, each wrong one told for itself."""
    if not isinstance(listed, list):
        reader.wrong(place, 'expected a list such as ["tools", "context>=200k"]')
        return None
    found: list[Need] = []
    for entry in listed:
        try:
            found.append(_need(entry, name))
        except InputError as error:
            reader.wrong(place, str(error))
    try:
        return Needs(found)
    except InputError as error:
        reader.wrong(place, str(error))
        return None


def _need(entry: Any, workload: str) -> Need:
    if isinstance(entry, str):
        return Need.parse(entry, required_by=(workload,))
    if not isinstance(entry, dict):
        raise InputError(f"a need is a text or a table, not {brief(entry)}")
    for key in entry:
        if key not in NEED_FIELDS:
            raise InputError(no_such("key of a need", key, NEED_FIELDS))
    if not isinstance(entry.get("capability"), str):
        raise InputError("a need's table names its capability")
    given = {key: value for key, value in entry.items() if key != "capability"}
    given.setdefault("required_by", workload)
    return need(entry["capability"], **given)

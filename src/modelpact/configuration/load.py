"""Finds, reads and checks a `modelpact.toml` and the pack manifests that it names.

All problems of a file are reported at once.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import urlsplit

import msgspec

from modelpact.catalog.catalog import Catalog, Overlay, default_catalog
from modelpact.catalog.statement import statement_problems
from modelpact.configuration.config import (
    FILE_NAME,
    STANDARD_PROFILE,
    Configuration,
    ContractSettings,
    FallbackOn,
    GatewaySettings,
    HostSettings,
    MachineSettings,
    NeedSettings,
    ProfileSettings,
    ProviderSettings,
    StoreSettings,
    Workload,
    WorkloadSettings,
)
from modelpact.configuration.reader import SectionReader, unknown_name
from modelpact.needs.dialects import ManifestError, Pack, read_pack
from modelpact.needs.need import Need, Needs, need
from modelpact.negotiation.verdict import Policy, PolicySettings
from modelpact.vocabulary.errors import ConfigurationError, InputError, Problem, brief
from modelpact.vocabulary.strict_json import parse_json

SECTIONS: Final = tuple(name for name in Configuration.__struct_fields__ if name != "path")

_MAX_PACK_BYTES: Final = 4 * 1024 * 1024


def find_configuration(start: Path | None = None) -> Path | None:
    """Return the nearest `modelpact.toml` in the folder or one above it, or None."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
    return None


def load_configuration(path: Path | str | None = None, *, start: Path | None = None) -> Configuration:
    """Load the given file, else the nearest one, else the defaults."""
    try:
        file = Path(path) if path is not None else find_configuration(start)
        if file is None:
            return Configuration()
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError([Problem(str(path or file), "", "not UTF-8")]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        problem = Problem(str(path or FILE_NAME), "", f"cannot be read: {reason}")
        raise ConfigurationError([problem]) from None
    return read_configuration(text, path=file)


def read_configuration(text: str, *, path: Path | None = None, catalog: Catalog | None = None) -> Configuration:
    """Read a configuration from its text; raise `ConfigurationError` with all problems."""
    file = FILE_NAME if path is None else str(path)
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        message = "nested too deeply" if isinstance(error, RecursionError) else f"not TOML: {error}"
        raise ConfigurationError([Problem(file, "", message)]) from None
    reader = SectionReader(text, file, catalog or default_catalog())
    reader.report_unprintable(content)
    configuration = Configuration() if reader.problems else _read_sections(reader, content, path)
    if reader.problems:
        raise ConfigurationError(sorted(reader.problems, key=lambda problem: problem.line or 0))
    return configuration


def load_pack(name: str | Path, folder: Path | None = None, *, gating: bool = True) -> Pack:
    """Load a pack manifest, JSON or TOML. A relative name is relative to the folder."""
    path = Path(name) if folder is None else folder / name
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_PACK_BYTES + 1)
    except OSError as error:
        raise _pack_error(path, f"cannot be read: {error.strerror or error}") from None
    if len(data) > _MAX_PACK_BYTES:
        raise _pack_error(path, f"is larger than {_MAX_PACK_BYTES // 1024 // 1024} MiB")
    try:
        if path.suffix == ".toml":
            content: Any = tomllib.loads(data.decode("utf-8"))
        else:
            content = parse_json(data, path.name)
    except (InputError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _pack_error(path, f"not a manifest: {error}") from None
    return read_pack(content, str(path), gating=gating)


def _pack_error(path: Path, message: str) -> ManifestError:
    return ManifestError([Problem(str(path), "", message)])


def _read_sections(reader: SectionReader, content: Mapping[str, Any], path: Path | None) -> Configuration:
    for name in content:
        if name not in SECTIONS:
            reader.report([name], unknown_name("section", name, SECTIONS))
    for name, entry in reader.sections(content, "providers"):  # the other sections name them
        settings = _read_provider(reader, name, entry)
        if settings is not None:
            reader.providers[name] = settings
    workloads = {
        name: workload
        for name, entry in reader.sections(content, "workloads")
        if (workload := _read_workload(reader, name, entry)) is not None
    }
    profiles = {
        name: reader.fields(["profiles", name], entry, ProfileSettings)
        for name, entry in reader.sections(content, "profiles")
    }
    return Configuration(
        path=path,
        store=reader.section(content, "store", StoreSettings) if "store" in content else None,
        policy=Policy.of(reader.section(content, "policy", PolicySettings)),
        providers=reader.providers,
        models=dict(_read_models(reader, content)),
        workloads=workloads,
        profiles=profiles,
        contract=_read_contract(reader, content, (STANDARD_PROFILE, *profiles)),
        host=_read_host(reader, content),
        gateway=_read_gateway(reader, content),
        machines={name: _read_machine(reader, name, entry) for name, entry in reader.sections(content, "machines")},
    )


def _read_contract(reader: SectionReader, content: Mapping[str, Any], profiles: tuple[str, ...]) -> ContractSettings:
    contract = reader.section(content, "contract", ContractSettings)
    if contract.profile not in profiles:
        message = unknown_name("profile", contract.profile, profiles)
        reader.report(["contract", "profile"], message)
    return contract


def _read_provider(reader: SectionReader, name: str, entry: Mapping[str, Any]) -> ProviderSettings | None:
    """Read `[providers.NAME]`; None if there are problems."""
    count = len(reader.problems)
    path = ["providers", name]
    settings = reader.fields(path, entry, ProviderSettings)
    if isinstance(entry.get("kind", ""), str):
        _check_kind(reader, path, settings.kind)
    return settings if len(reader.problems) == count else None


def _check_kind(reader: SectionReader, path: list[str], kind: str) -> None:
    """Check that the provider's kind, or else its name, is a provider of the catalog."""
    name = path[-1]
    providers = reader.catalog.providers
    if kind and providers.find(kind) is None:
        reader.report([*path, "kind"], unknown_name("provider", kind, providers.names))
    elif not kind and providers.find(name) is None:
        hint = 'set kind = "…" to the provider whose API it shares, such as vllm or openai'
        reader.report(path, f"{unknown_name('provider', name, providers.names)}, or {hint}")


def _read_models(reader: SectionReader, content: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Overlay]]:
    """Read each `[models."PROVIDER/MODEL"]`: the operator's own facts about a model."""
    for name, entry in reader.sections(content, "models"):
        path = ["models", name]
        target = reader.target(path, name)
        fields = _without(entry, "same_as")
        for field, message in statement_problems(fields):
            reader.report([*path, field], message)
        same_as = ""
        if entry.get("same_as"):
            original = reader.target([*path, "same_as"], entry["same_as"])
            same_as = "" if original is None else "/".join(original)
        if target is not None:
            yield target, Overlay(fields, FILE_NAME, same_as)


def _read_workload(reader: SectionReader, name: str, entry: Mapping[str, Any]) -> Workload | None:
    """Read `[workloads.NAME]`; None if there are problems."""
    count = len(reader.problems)
    path = ["workloads", name]
    reader.check_keys(path, entry, WorkloadSettings)
    if "model" not in entry:
        reader.report(path, "model is missing: write the PROVIDER/MODEL that it runs on")
    model = reader.target([*path, "model"], entry["model"]) if "model" in entry else None
    fallback = None
    if "fallback" in entry:
        fallback = reader.target([*path, "fallback"], entry["fallback"])
    elif "fallback_on" in entry:
        reader.report([*path, "fallback_on"], "there is no fallback: add one, or remove this key")
    needs = _read_needs(reader, [*path, "needs"], entry.get("needs", []), name)
    fallback_on: tuple[FallbackOn, ...] = ("capability",)
    if "fallback_on" in entry:
        fallback_on = _read_fallback_on(reader, [*path, "fallback_on"], entry["fallback_on"])
    policy = None
    if "policy" in entry:
        policy_path, table = [*path, "policy"], entry["policy"]
        if isinstance(table, dict):
            policy = Policy.of(reader.fields(policy_path, table, PolicySettings))
        else:
            reader.report(policy_path, "expected a table of keys and values")
    if len(reader.problems) > count or model is None or needs is None:
        return None
    return Workload(
        name=name,
        model="/".join(model),
        needs=needs,
        fallback=None if fallback is None else "/".join(fallback),
        line=reader.lines.line_of(path),
        fallback_on=fallback_on,
        policy=policy,
    )


def _read_fallback_on(reader: SectionReader, path: list[str], value: Any) -> tuple[FallbackOn, ...]:
    try:
        return msgspec.convert(value, tuple[FallbackOn, ...])
    except msgspec.ValidationError:
        reader.report(path, f"expected a list of some of {', '.join(get_args(FallbackOn))}")
        return ("capability",)


def _read_needs(reader: SectionReader, path: list[str], entries: Any, required_by: str) -> Needs | None:
    """Read a list of needs; each bad need is a problem of its own."""
    if not isinstance(entries, list):
        reader.report(path, 'expected a list such as ["tools", "context>=200k"]')
        return None
    needs: list[Need] = []
    for entry in entries:
        try:
            needs.append(_read_need(entry, required_by))
        except InputError as error:
            reader.report(path, str(error))
    try:
        return Needs(needs)
    except InputError as error:
        reader.report(path, str(error))
        return None


def _read_need(entry: Any, required_by: str) -> Need:
    if isinstance(entry, str):
        return Need.parse(entry, required_by=(required_by,))
    if not isinstance(entry, dict):
        raise InputError(f"a need is a string or a table, not {brief(entry)}")
    known = NeedSettings.__struct_fields__
    for key in entry:
        if key not in known:
            raise InputError(unknown_name("key of a need", key, known))
    if not isinstance(entry.get("capability"), str):
        raise InputError("a need written as a table must name its capability")
    options = {"required_by": required_by, **_without(entry, "capability")}
    return need(entry["capability"], **options)


def _read_machine(reader: SectionReader, name: str, entry: Mapping[str, Any]) -> MachineSettings:
    """Read `[machines.NAME]`. A session checks the contract version when it attaches it."""
    path = ["machines", name]
    machine = reader.fields(path, entry, MachineSettings)
    _read_needs(reader, [*path, "needs"], list(machine.needs), name)
    for stage in machine.stages:
        _read_needs(reader, [*path, "stages", "needs"], list(stage.needs), stage.name)
    return machine


def _read_host(reader: SectionReader, content: Mapping[str, Any]) -> HostSettings:
    """Read `[host]`: its model must have a known provider."""
    settings = reader.section(content, "host", HostSettings)
    reader.target(["host", "model"], settings.model)
    return settings


def _read_gateway(reader: SectionReader, content: Mapping[str, Any]) -> GatewaySettings:
    """Read `[gateway]`: aliases and the default provider must lead to known providers."""
    settings = reader.section(content, "gateway", GatewaySettings)
    for name, target in settings.aliases.items():
        reader.target(["gateway", "aliases", name], target)
    provider = settings.provider
    if provider and provider not in reader.providers and reader.catalog.find_provider(provider) is None:
        message = unknown_name("provider", provider, reader.provider_names)
        reader.report(["gateway", "provider"], message)
    if settings.telemetry and not _is_http_url(settings.telemetry):
        message = 'expected the address of a collector, such as "http://127.0.0.1:4318"'
        reader.report(["gateway", "telemetry"], message)
    return settings


def _is_http_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _without(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != key}

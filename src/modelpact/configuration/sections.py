"""Reads the sections of a `modelpact.toml` that need more than a conversion to their type."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args
from urllib.parse import urlsplit

import msgspec

from modelpact.catalog.catalog import Overlay
from modelpact.catalog.statement import statement_problems
from modelpact.configuration.config import (
    FILE_NAME,
    FallbackOn,
    GatewaySettings,
    HostSettings,
    MachineSettings,
    NeedSettings,
    ProviderSettings,
    Workload,
    WorkloadSettings,
)
from modelpact.configuration.reader import SectionReader, unknown_name
from modelpact.needs.need import Need, Needs, need
from modelpact.negotiation.verdict import Policy, PolicySettings
from modelpact.vocabulary.errors import InputError, brief


def read_provider(
    reader: SectionReader, name: str, entry: Mapping[str, Any]
) -> ProviderSettings | None:
    """Read `[providers.NAME]`; None if there are problems."""
    count = len(reader.problems)
    path = ["providers", name]
    secret = reader.secret([*path, "api_key"], entry["api_key"]) if "api_key" in entry else None
    settings = reader.fields(path, _without(entry, "api_key"), ProviderSettings)
    if isinstance(entry.get("kind", ""), str):
        _check_kind(reader, path, settings.kind)
    if len(reader.problems) > count:
        return None
    return msgspec.structs.replace(settings, api_key=secret)


def _check_kind(reader: SectionReader, path: list[str], kind: str) -> None:
    """Check that the provider's kind, or else its name, is a provider of the catalog."""
    name = path[-1]
    providers = reader.catalog.providers
    if kind and providers.find(kind) is None:
        reader.report([*path, "kind"], unknown_name("provider", kind, providers.names))
    elif not kind and providers.find(name) is None:
        hint = 'set kind = "…" to the provider whose API it shares, such as vllm or openai'
        reader.report(path, f"{unknown_name('provider', name, providers.names)}, or {hint}")


def read_models(
    reader: SectionReader, content: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, str], Overlay]]:
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


def read_workload(reader: SectionReader, name: str, entry: Mapping[str, Any]) -> Workload | None:
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
    needs = read_needs(reader, [*path, "needs"], entry.get("needs", []), name)
    fallback_on: tuple[FallbackOn, ...] = ("capability",)
    if "fallback_on" in entry:
        fallback_on = _read_fallback_on(reader, [*path, "fallback_on"], entry["fallback_on"])
    policy = None
    if "policy" in entry:
        policy_path = [*path, "policy"]
        table = reader.table(policy_path, entry["policy"])
        policy = Policy.of(reader.fields(policy_path, table, PolicySettings))
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


def read_needs(
    reader: SectionReader, path: list[str], entries: Any, required_by: str
) -> Needs | None:
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


def read_machine(reader: SectionReader, name: str, entry: Mapping[str, Any]) -> MachineSettings:
    """Read `[machines.NAME]`. A session checks the contract version when it attaches it."""
    path = ["machines", name]
    machine = reader.fields(path, entry, MachineSettings)
    read_needs(reader, [*path, "needs"], list(machine.needs), name)
    for stage in machine.stages:
        read_needs(reader, [*path, "stages", "needs"], list(stage.needs), stage.name)
    return machine


def read_host(reader: SectionReader, content: Mapping[str, Any]) -> HostSettings:
    """Read `[host]`: its token is a secret and its model must have a known provider."""
    entry = content.get("host", {})
    if not isinstance(entry, dict):
        reader.report(["host"], "expected a section [host]")
        return HostSettings()
    token = reader.secret(["host", "token"], entry["token"]) if "token" in entry else None
    settings = reader.fields(["host"], _without(entry, "token"), HostSettings)
    reader.target(["host", "model"], settings.model)
    return msgspec.structs.replace(settings, token=token)


def read_gateway(reader: SectionReader, content: Mapping[str, Any]) -> GatewaySettings:
    """Read `[gateway]`: aliases and the default provider must lead to known providers."""
    settings = reader.section(content, "gateway", GatewaySettings)
    for name, target in settings.aliases.items():
        reader.target(["gateway", "aliases", name], target)
    provider = settings.provider
    if (
        provider
        and provider not in reader.providers
        and reader.catalog.find_provider(provider) is None
    ):
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

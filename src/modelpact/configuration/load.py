"""Loading: a `modelpact.toml` is found, read and checked; all problems are told at once."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.configuration.config import (
    FILE_NAME,
    STANDARD_PROFILE,
    Configuration,
    ContractSettings,
    GatewaySettings,
    HostSettings,
    MachineSettings,
    ProfileSettings,
    StoreSettings,
)
from modelpact.configuration.sections import read_models, read_needs, read_provider, read_workload
from modelpact.configuration.toml_reader import SectionReader, no_such
from modelpact.negotiation.verdict import Policy
from modelpact.vocabulary.errors import ConfigurationError, Problem

SECTIONS: Final = (
    "store",
    "policy",
    "providers",
    "models",
    "workloads",
    "profiles",
    "contract",
    "host",
    "gateway",
    "machines",
)


def find_configuration(start: Path | None = None) -> Path | None:
    """Return the nearest `modelpact.toml`, from the folder upward, or None."""
    folder = (start or Path.cwd()).resolve()
    for one in (folder, *folder.parents):
        if (one / FILE_NAME).is_file():
            return one / FILE_NAME
    return None


def load_configuration(
    path: Path | str | None = None, *, start: Path | None = None
) -> Configuration:
    """Load the named file, else the nearest one, else the defaults."""
    try:
        found = Path(path) if path is not None else find_configuration(start)
        if found is None:
            return Configuration()
        text = found.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError([Problem(str(path or found), "", "not UTF-8")]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        problem = Problem(str(path or FILE_NAME), "", f"cannot be read: {reason}")
        raise ConfigurationError([problem]) from None
    return read_configuration(text, path=found)


def read_configuration(
    text: str, *, path: Path | None = None, catalog: Catalog | None = None
) -> Configuration:
    """Read a configuration from its text; raise `ConfigurationError` with all problems."""
    file = FILE_NAME if path is None else str(path)
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        message = "nested too deeply" if isinstance(error, RecursionError) else f"not TOML: {error}"
        raise ConfigurationError([Problem(file, "", message)]) from None
    reader = SectionReader(text, file, catalog or default_catalog())
    reader.look_for_unseen(content)
    configuration = Configuration() if reader.problems else _read(reader, content, path)
    if reader.problems:
        raise ConfigurationError(sorted(reader.problems, key=lambda one: one.line or 0))
    return configuration


def _read(reader: SectionReader, content: Mapping[str, Any], path: Path | None) -> Configuration:
    """Read section by section: providers first, since models and workloads name them."""
    for name in content:
        if name not in SECTIONS:
            reader.wrong([name], no_such("section", name, SECTIONS))
    store = reader.section(content, "store", StoreSettings, StoreSettings())
    policy = reader.section(content, "policy", Policy, Policy())
    for name, entry in reader.table(content, "providers"):
        settings = read_provider(reader, name, entry)
        if settings is not None:
            reader.providers[name] = settings
    models = dict(read_models(reader, content))
    workloads = {
        name: workload
        for name, entry in reader.table(content, "workloads")
        if (workload := read_workload(reader, name, entry)) is not None
    }
    profiles = {
        name: reader.fields(["profiles", name], entry, ProfileSettings)
        for name, entry in reader.table(content, "profiles")
    }
    contract = reader.section(content, "contract", ContractSettings, ContractSettings())
    named = (STANDARD_PROFILE, *profiles)
    if contract.profile not in named:
        reader.wrong(["contract", "profile"], no_such("profile", contract.profile, named))
    machines = {
        name: _read_machine(reader, name, entry)
        for name, entry in reader.table(content, "machines")
    }
    return Configuration(
        path,
        store,
        policy,
        reader.providers,
        models,
        workloads,
        profiles,
        contract,
        _read_host(reader, content),
        _read_gateway(reader, content),
        machines,
    )


def _read_machine(reader: SectionReader, name: str, entry: Mapping[str, Any]) -> MachineSettings:
    """Read a state machine; which contract it is for is looked at when it is attached."""
    place = ["machines", name]
    found = reader.fields(place, entry, MachineSettings)
    read_needs(reader, [*place, "needs"], list(found.needs), name)
    for stage in found.stages:
        read_needs(reader, [*place, "stages", "needs"], list(stage.needs), stage.name)
    return found


def _read_host(reader: SectionReader, content: Mapping[str, Any]) -> HostSettings:
    """Read `[host]`; its token is a secret, its model must be one that can be named."""
    given = content.get("host", {})
    if not isinstance(given, dict):
        reader.wrong(["host"], "expected a section [host]")
        return HostSettings()
    token = reader.secret(["host", "token"], given["token"]) if "token" in given else None
    plain = {key: value for key, value in given.items() if key != "token"}
    settings = reader.fields(["host"], plain, HostSettings)
    reader.target(["host", "model"], settings.model)
    return msgspec.structs.replace(settings, token=token)


def _read_gateway(reader: SectionReader, content: Mapping[str, Any]) -> GatewaySettings:
    """Read `[gateway]`; what its names mean must be there to be meant."""
    settings = reader.section(content, "gateway", GatewaySettings, GatewaySettings())
    for name, target in settings.aliases.items():
        reader.target(["gateway", "aliases", name], target)
    provider = settings.provider
    if provider and provider not in reader.providers:
        names = (*reader.providers, *reader.catalog.providers.names)
        if reader.catalog.find_provider(provider) is None:
            reader.wrong(["gateway", "provider"], no_such("provider", provider, names))
    if settings.telemetry and not _is_address(settings.telemetry):
        told = 'expected the address of a collector, such as "http://127.0.0.1:4318"'
        reader.wrong(["gateway", "telemetry"], told)
    return settings


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False

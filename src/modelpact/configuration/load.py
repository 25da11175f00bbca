"""Finds, reads and checks a `modelpact.toml`. All problems are reported at once."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from modelpact.catalog.catalog import Catalog, default_catalog
from modelpact.configuration.config import (
    FILE_NAME,
    STANDARD_PROFILE,
    Configuration,
    ContractSettings,
    ProfileSettings,
    StoreSettings,
)
from modelpact.configuration.reader import SectionReader, unknown_name
from modelpact.configuration.sections import (
    read_gateway,
    read_host,
    read_machine,
    read_models,
    read_provider,
    read_workload,
)
from modelpact.negotiation.verdict import Policy, PolicySettings
from modelpact.vocabulary.errors import ConfigurationError, Problem

SECTIONS: Final = tuple(name for name in Configuration.__struct_fields__ if name != "path")


def find_configuration(start: Path | None = None) -> Path | None:
    """Return the nearest `modelpact.toml` in the folder or one above it, or None."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
    return None


def load_configuration(
    path: Path | str | None = None, *, start: Path | None = None
) -> Configuration:
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
    reader.report_unprintable(content)
    configuration = Configuration() if reader.problems else _read_sections(reader, content, path)
    if reader.problems:
        raise ConfigurationError(sorted(reader.problems, key=lambda problem: problem.line or 0))
    return configuration


def _read_sections(
    reader: SectionReader, content: Mapping[str, Any], path: Path | None
) -> Configuration:
    for name in content:
        if name not in SECTIONS:
            reader.report([name], unknown_name("section", name, SECTIONS))
    for name, entry in reader.sections(content, "providers"):  # the other sections name them
        settings = read_provider(reader, name, entry)
        if settings is not None:
            reader.providers[name] = settings
    workloads = {
        name: workload
        for name, entry in reader.sections(content, "workloads")
        if (workload := read_workload(reader, name, entry)) is not None
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
        models=dict(read_models(reader, content)),
        workloads=workloads,
        profiles=profiles,
        contract=_read_contract(reader, content, (STANDARD_PROFILE, *profiles)),
        host=read_host(reader, content),
        gateway=read_gateway(reader, content),
        machines={
            name: read_machine(reader, name, entry)
            for name, entry in reader.sections(content, "machines")
        },
    )


def _read_contract(
    reader: SectionReader, content: Mapping[str, Any], profiles: tuple[str, ...]
) -> ContractSettings:
    contract = reader.section(content, "contract", ContractSettings)
    if contract.profile not in profiles:
        message = unknown_name("profile", contract.profile, profiles)
        reader.report(["contract", "profile"], message)
    return contract

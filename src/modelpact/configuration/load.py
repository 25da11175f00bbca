"""Loading: a `modelpact.toml` is found, read and checked; all problems are told at once."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import msgspec

from modelpact.catalog.catalog import Catalog, Overlay, default_catalog
from modelpact.catalog.statement import statement_problems
from modelpact.configuration.config import (
    STANDARD_PROFILE,
    Configuration,
    ContractSettings,
    FallbackOn,
    GatewaySettings,
    HostSettings,
    MachineSettings,
    ProfileSettings,
    ProviderSettings,
    SecretRef,
    StoreSettings,
    Workload,
)
from modelpact.configuration.lines import Lines
from modelpact.needs.need import Need, Needs, need
from modelpact.negotiation.verdict import Policy
from modelpact.vocabulary.errors import ConfigurationError, InputError, Problem, brief, nearest
from modelpact.vocabulary.redaction import redact_text

FILE_NAME: Final = "modelpact.toml"
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
WORKLOAD_FIELDS: Final = ("model", "needs", "fallback", "fallback_on", "policy")
NEED_FIELDS: Final = ("capability", "level", "minimum", "min_support", "required_by")

_PROVIDER_NUMBERS: Final = ("timeout", "connections", "stream_usage")
_ENV: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

T = TypeVar("T")


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
    reader = _Reader(text, file, catalog or default_catalog())
    configuration = reader.read(content, path)
    if reader.problems:
        raise ConfigurationError(sorted(reader.problems, key=lambda one: one.line or 0))
    return configuration


class _Reader:
    """Reads section by section and collects what is wrong."""

    def __init__(self, text: str, file: str, catalog: Catalog) -> None:
        self.lines = Lines(text)
        self.file = file
        self.catalog = catalog
        self.problems: list[Problem] = []
        self.providers: dict[str, ProviderSettings] = {}

    def wrong(self, path: Sequence[str], message: str) -> None:
        where = redact_text(".".join(_quoted(key) for key in path))
        self.problems.append(Problem(self.file, where, redact_text(message), self.lines.of(path)))

    def read(self, content: Mapping[str, Any], path: Path | None) -> Configuration:
        for name in content:
            if name not in SECTIONS:
                self.wrong([name], _no_such("section", name, SECTIONS))
        store = self.section(content, "store", StoreSettings, StoreSettings())
        policy = self.section(content, "policy", Policy, Policy())
        for name, entry in self.table(content, "providers"):
            settings = self.provider(name, entry)
            if settings is not None:
                self.providers[name] = settings
        models = dict(self.models(content))
        workloads = {
            name: workload
            for name, entry in self.table(content, "workloads")
            if (workload := self.workload(name, entry)) is not None
        }
        profiles = {
            name: self.fields(["profiles", name], entry, ProfileSettings)
            for name, entry in self.table(content, "profiles")
        }
        contract = self.section(content, "contract", ContractSettings, ContractSettings())
        named = (STANDARD_PROFILE, *profiles)
        if contract.profile not in named:
            self.wrong(["contract", "profile"], _no_such("profile", contract.profile, named))
        host = self.host(content)
        gateway = self.section(content, "gateway", GatewaySettings, GatewaySettings())
        for name, target in gateway.aliases.items():
            self.target(["gateway", "aliases", name], target)
        if gateway.provider and self.catalog.find_provider(gateway.provider) is None:
            names = (*self.providers, *self.catalog.providers.names)
            if gateway.provider not in self.providers:
                self.wrong(["gateway", "provider"], _no_such("provider", gateway.provider, names))
        machines = {
            name: self.machine(name, entry) for name, entry in self.table(content, "machines")
        }
        return Configuration(
            path,
            store,
            policy,
            self.providers,
            models,
            workloads,
            profiles,
            contract,
            host,
            gateway,
            machines,
        )

    def host(self, content: Mapping[str, Any]) -> HostSettings:
        """Read `[host]`; its token is a secret, its model must be one that can be named."""
        given = content.get("host", {})
        if not isinstance(given, dict):
            self.wrong(["host"], "expected a section [host]")
            return HostSettings()
        token = self.secret(["host", "token"], given["token"]) if "token" in given else None
        plain = {key: value for key, value in given.items() if key != "token"}
        settings = self.fields(["host"], plain, HostSettings)
        self.target(["host", "model"], settings.model)
        return msgspec.structs.replace(settings, token=token)

    def section(self, content: Mapping[str, Any], name: str, kind: type[T], default: T) -> T:
        """Read a section of fixed keys."""
        given = content.get(name, {})
        if not isinstance(given, dict):
            self.wrong([name], f"expected a section [{name}]")
            return default
        return self.fields([name], given, kind)

    def fields(self, place: list[str], given: Mapping[str, Any], kind: type[T]) -> T:
        """Read fixed keys, each wrong one told for itself."""
        fields: dict[str, Any] = {}
        for one in msgspec.structs.fields(kind):  # type: ignore[arg-type]
            if one.name in given:
                try:
                    fields[one.name] = msgspec.convert(given[one.name], one.type)
                except msgspec.ValidationError as error:
                    self.wrong([*place, one.name], _readable(error, one.type))
        known = [one.name for one in msgspec.structs.fields(kind)]  # type: ignore[arg-type]
        for key in given:
            if key not in known:
                self.wrong([*place, key], _no_such("key", key, known))
        return kind(**fields)

    def table(self, content: Mapping[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        given = content.get(name, {})
        if not isinstance(given, dict):
            self.wrong([name], f"expected sections [{name}.NAME]")
            return
        for key, entry in given.items():
            if isinstance(entry, dict):
                yield key, entry
            else:
                self.wrong([name, key], f"expected a section [{name}.{_quoted(key)}]")

    def provider(self, name: str, entry: Mapping[str, Any]) -> ProviderSettings | None:
        before = len(self.problems)
        place = ["providers", name]
        known = [one.name for one in msgspec.structs.fields(ProviderSettings)]
        for key, value in entry.items():
            if key not in known:
                self.wrong([*place, key], _no_such("key", key, known))
            elif key in ("kind", "base_url") and not isinstance(value, str):
                self.wrong([*place, key], "expected a string")
        kind = entry.get("kind", "")
        if isinstance(kind, str):
            self.check_kind(place, name, kind)
        secret = self.secret([*place, "api_key"], entry["api_key"]) if "api_key" in entry else None
        rest = {key: entry[key] for key in _PROVIDER_NUMBERS if key in entry}
        settings = self.fields(place, rest, ProviderSettings)
        if settings.timeout <= 0 or settings.connections < 1:
            self.wrong(place, "timeout and connections are numbers above zero")
        if len(self.problems) > before:
            return None
        return msgspec.structs.replace(
            settings, kind=kind, base_url=entry.get("base_url", ""), api_key=secret
        )

    def check_kind(self, place: list[str], name: str, kind: str) -> None:
        names = self.catalog.providers.names
        if kind and self.catalog.providers.find(kind) is None:
            self.wrong([*place, "kind"], _no_such("provider", kind, names))
        elif not kind and self.catalog.providers.find(name) is None:
            hint = 'give kind = "…", the provider that it behaves like (such as vllm or openai)'
            self.wrong(place, f"{_no_such('provider', name, names)}, or {hint}")

    def secret(self, place: list[str], value: Any) -> SecretRef | None:
        if isinstance(value, str):
            self.wrong(place, 'a key never stands in the file: write { env = "NAME" }')
            return None
        try:
            found = msgspec.convert(value, SecretRef)
        except msgspec.ValidationError:
            found = SecretRef()
        if bool(found.env) == bool(found.file) or (found.env and not _ENV.fullmatch(found.env)):
            self.wrong(place, 'expected { env = "NAME" } or { file = "PATH" }')
            return None
        return found

    def models(self, content: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Overlay]]:
        for name, entry in self.table(content, "models"):
            place = ["models", name]
            key = self.target(place, name)
            fields = {field: value for field, value in entry.items() if field != "same_as"}
            for field, message in statement_problems(fields):
                self.wrong([*place, field], message)
            same_as = entry.get("same_as", "")
            if same_as:
                same = self.target([*place, "same_as"], same_as)
                same_as = "" if same is None else "/".join(same)
            if key is not None:
                yield key, Overlay(fields, FILE_NAME, same_as)

    def target(self, place: list[str], target: Any) -> tuple[str, str] | None:
        """Check a PROVIDER/MODEL and return it with the provider's own id."""
        try:
            provider, model = self.catalog.split(target)
        except InputError as error:
            self.wrong(place, str(error))
            return None
        if provider in self.providers:
            return provider, model
        found = self.catalog.providers.find(provider)
        if found is None:
            names = (*self.providers, *self.catalog.providers.names)
            self.wrong(place, _no_such("provider", provider, names))
            return None
        return found.id, model

    def workload(self, name: str, entry: Mapping[str, Any]) -> Workload | None:
        before = len(self.problems)
        place = ["workloads", name]
        for key in entry:
            if key not in WORKLOAD_FIELDS:
                self.wrong([*place, key], _no_such("key", key, WORKLOAD_FIELDS))
        if "model" not in entry:
            self.wrong(place, "model is missing: the PROVIDER/MODEL that the work runs on")
        model = self.target([*place, "model"], entry["model"]) if "model" in entry else None
        fallback = None
        if "fallback" in entry:
            fallback = self.target([*place, "fallback"], entry["fallback"])
        needs = self.needs([*place, "needs"], entry.get("needs", []), name)
        on = self.fallback_on(place, entry)
        policy = None
        if "policy" in entry:
            policy = self.fields([*place, "policy"], self.object([*place, "policy"], entry), Policy)
        if len(self.problems) > before or model is None or needs is None:
            return None
        return Workload(
            name,
            "/".join(model),
            needs,
            None if fallback is None else "/".join(fallback),
            self.lines.of(place),
            on,
            policy,
        )

    def object(self, place: list[str], entry: Mapping[str, Any]) -> Mapping[str, Any]:
        given = entry[place[-1]]
        if isinstance(given, dict):
            return given
        self.wrong(place, "expected a table of keys and values")
        return {}

    def fallback_on(self, place: list[str], entry: Mapping[str, Any]) -> tuple[FallbackOn, ...]:
        if "fallback_on" not in entry:
            return ("capability",)
        if "fallback" not in entry:
            self.wrong([*place, "fallback_on"], "there is no fallback that it could be about")
        try:
            return msgspec.convert(entry["fallback_on"], tuple[FallbackOn, ...])
        except msgspec.ValidationError:
            known = ", ".join(get_args(FallbackOn))
            self.wrong([*place, "fallback_on"], f"expected a list of some of {known}")
            return ("capability",)

    def machine(self, name: str, entry: Mapping[str, Any]) -> MachineSettings:
        """Read a state machine; which contract it is for is looked at when it is attached."""
        place = ["machines", name]
        found = self.fields(place, entry, MachineSettings)
        self.needs([*place, "needs"], list(found.needs), name)
        for stage in found.stages:
            self.needs([*place, "stages", "needs"], list(stage.needs), stage.name)
        return found

    def needs(self, place: list[str], listed: Any, name: str) -> Needs | None:
        if not isinstance(listed, list):
            self.wrong(place, 'expected a list such as ["tools", "context>=200k"]')
            return None
        found: list[Need] = []
        for entry in listed:
            try:
                found.append(_need(entry, name))
            except InputError as error:
                self.wrong(place, str(error))
        try:
            return Needs(found)
        except InputError as error:
            self.wrong(place, str(error))
            return None


def _need(entry: Any, workload: str) -> Need:
    if isinstance(entry, str):
        return Need.parse(entry, required_by=(workload,))
    if not isinstance(entry, dict):
        raise InputError(f"a need is a text or a table, not {brief(entry)}")
    for key in entry:
        if key not in NEED_FIELDS:
            raise InputError(_no_such("key of a need", key, NEED_FIELDS))
    if not isinstance(entry.get("capability"), str):
        raise InputError("a need's table names its capability")
    given = {key: value for key, value in entry.items() if key != "capability"}
    given.setdefault("required_by", workload)
    return need(entry["capability"], **given)


def _no_such(what: str, name: str, known: Sequence[str]) -> str:
    close = nearest(name, known)
    if close:
        return f"unknown {what} {name!r}; did you mean {close[0]!r}?"
    listed = f"; there are {', '.join(known)}" if len(known) <= 12 else ""
    return f"unknown {what} {name!r}{listed}"


def _readable(error: msgspec.ValidationError, kind: Any) -> str:
    choices = getattr(kind, "__args__", ())
    if choices and all(isinstance(one, str) for one in choices):
        return f"expected one of {', '.join(choices)}"
    return str(error).lower().replace("`", "")


def _quoted(key: str) -> str:
    plain = key.replace("-", "").replace("_", "").isalnum() and key.isascii()
    return key if plain else f'"{key}"'

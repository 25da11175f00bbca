"""Extensions: state machines, context providers and hooks, and the required set that they form.

They are plain values. The store keeps them with the session, so you can resume it without them. The
required set is what the parts of a session need of its model, each need with its sources.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeVar

import msgspec

from modelpact.configuration.config import Configuration
from modelpact.needs.need import Level, Need, Needs, need
from modelpact.sessions.errors import LoadError
from modelpact.sessions.versions import CONTRACT_VERSION, VersionRange
from modelpact.vocabulary.errors import InputError, InvalidNeed, UnknownName, brief

Content = Literal["text", "tool-hint", "resource-binding"]
DeclaredNeed = Need | str
"""A need, or its text. In a text, the minimum support is native unless it says otherwise."""

LARGE_TOKENS: Final = 4_096
"""Tokens from which a contribution to the context is large. Every chat model holds less."""

_CONTRACT_1: Final = "^1.0"
_MAX_TOKENS: Final = 10**12
_BUNDLED: Final = Path(__file__).parent / "bundled"
_MAX_BYTES: Final = 256 * 1024
_STATES_SUPPORT: Final = re.compile(r"(?:>=|≥)\s*(?:native|emulated)\b")
_USED_BY_TOOLS: Final = frozenset({"tool-hint", "resource-binding"})


class Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A stage of a state machine, and its needs."""

    name: str
    needs: tuple[DeclaredNeed, ...] = ()


class Extension(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a session that declares needs."""

    type_name: ClassVar[str]
    name: str

    @property
    def label(self) -> str:
        """Its name in `required_by` and in errors."""
        return f"{self.type_name}:{self.name}"


class StateMachine(Extension, frozen=True):
    """A state machine. Its stages end with strict tool calls, so it always needs tool calling."""

    type_name = "state-machine"
    stages: tuple[Stage, ...] = ()
    needs: tuple[DeclaredNeed, ...] = ()
    contract: str = _CONTRACT_1


class ContextProvider(Extension, frozen=True):
    """Something that adds content to the context: its kinds, and at most how many tokens."""

    type_name = "context-provider"
    produces: tuple[Content, ...] = ("text",)
    tokens: int = 0
    level: Level = "hard"
    """The level of the needs that follow from `produces` and `tokens`."""
    needs: tuple[DeclaredNeed, ...] = ()
    contract: str = _CONTRACT_1


class Hook(Extension, frozen=True):
    """Something that observes, guards or transforms events of one kind."""

    type_name = "hook"
    kind: Literal["observe", "guard", "transform"]
    on: Literal["tokens", "messages", "tools"]
    level: Level = "hard"
    needs: tuple[DeclaredNeed, ...] = ()
    contract: str = _CONTRACT_1


class SecurityMode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How tool calls are authorised, and whether the workflows depend on them."""

    mode: Literal["ask", "allowlist", "open"] = "ask"
    tool_oriented: bool = False

    @property
    def label(self) -> str:
        """Its name in `required_by`."""
        return f"security:{self.mode}"


E = TypeVar("E", StateMachine, ContextProvider, Hook)
V = TypeVar("V", StateMachine, ContextProvider, Hook, SecurityMode)
_KINDS: Final = {
    StateMachine: "state machine",
    ContextProvider: "context provider",
    Hook: "hook",
    SecurityMode: "security mode",
}


def load(kind: type[E], value: Any) -> E:
    """Check an extension, or the mapping of its fields, and return it.

    Raise `LoadError` if it was written for another contract version.
    """
    extension = read(kind, value)
    label = extension.label
    _check_name(extension.name, f"{_KINDS[kind]}: name")
    if isinstance(extension, StateMachine):
        seen: set[str] = set()
        for index, stage in enumerate(extension.stages):
            _check_name(stage.name, f"{label}: stages[{index}].name")
            if stage.name in seen:
                raise InputError(f"{label}: stages[{index}].name: {stage.name} is there twice")
            seen.add(stage.name)
    if isinstance(extension, ContextProvider) and not 0 <= extension.tokens <= _MAX_TOKENS:
        raise InputError(f"{label}: tokens: expected a number from 0 to {_MAX_TOKENS:,}, not {extension.tokens}")
    try:
        wanted = VersionRange.parse(extension.contract)
    except InputError as error:
        raise InputError(f"{label}: contract: {error}") from None
    if CONTRACT_VERSION not in wanted:
        raise LoadError(label, extension.contract, str(CONTRACT_VERSION))
    return extension


def load_all(kind: type[E], values: Any) -> tuple[E, ...]:
    """Check several extensions of one kind. Their names must differ."""
    if isinstance(values, (str, bytes, dict, msgspec.Struct)) or not hasattr(values, "__iter__"):
        raise InputError(f"{_KINDS[kind]}s: expected several, not {brief(values)}")
    extensions = tuple(load(kind, value) for value in values)
    seen: set[str] = set()
    for extension in extensions:
        if extension.name in seen:
            raise InputError(f"{extension.label} is there twice: names must differ")
        seen.add(extension.name)
    return extensions


def read(kind: type[V], value: Any) -> V:
    """Check the fields of a value or a mapping, and return the value."""
    try:
        return msgspec.convert(msgspec.to_builtins(value), kind)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{_KINDS[kind]}: {error}: {brief(value)}") from None


def list_machines(configuration: Configuration) -> tuple[StateMachine, ...]:
    """Return the configured and the bundled state machines. Their contracts are not checked."""
    machines = {
        name: msgspec.convert({"name": name, **msgspec.to_builtins(settings)}, StateMachine)
        for name, settings in configuration.machines.items()
    }
    for path in sorted(_BUNDLED.glob("*.toml")):
        if path.stem not in machines:
            machines[path.stem] = msgspec.convert(_read_file(path), StateMachine)
    return tuple(machines.values())


def find_machine(name: str, configuration: Configuration) -> StateMachine:
    """Load a state machine by its name, or by the path of a TOML file.

    Raise `LoadError` if it was written for another contract version.
    """
    known = {machine.name: machine for machine in list_machines(configuration)}
    if name in known:
        return load(StateMachine, known[name])
    if name.endswith(".toml"):
        return load(StateMachine, _read_file(Path(name).expanduser()))
    raise UnknownName("state machine", name, known, "or name a TOML file")


def required_set(
    machine: StateMachine | None = None,
    context_providers: Iterable[ContextProvider] = (),
    hooks: Iterable[Hook] = (),
    security: SecurityMode | None = None,
    inherited: Iterable[Need] = (),
) -> Needs:
    """Compute the required set from its four sources and the inherited needs."""
    needs = list(inherited)
    if machine is not None:
        needs += _machine_needs(machine)
    providers = tuple(context_providers)
    for provider in providers:
        if _USED_BY_TOOLS.intersection(provider.produces):
            needs.append(_native_need("tool-calling", provider.level, provider.label))
        needs += _declared_needs(provider.needs, provider.label)
    needs += _window_needs(providers)
    for hook in hooks:
        if hook.on == "tokens" and hook.kind != "observe":
            needs.append(_native_need("streaming", hook.level, hook.label))
        needs += _declared_needs(hook.needs, hook.label)
    if security is not None and security.mode == "allowlist" and security.tool_oriented:
        needs.append(_native_need("tool-calling", "hard", security.label))
    return Needs(needs)


def _check_name(name: str, where: str) -> None:
    if not 0 < len(name) <= 120 or not name.isprintable():
        raise InputError(f"{where}: expected 1 to 120 visible characters, not {brief(name)}")


def _read_file(path: Path) -> dict[str, Any]:
    """Read a file with the keys of `[machines.NAME]`. The name defaults to that of the file."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise InputError(f"{path} is larger than {_MAX_BYTES // 1024} KiB")
        return {"name": path.stem, **tomllib.loads(data.decode("utf-8"))}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None


def _machine_needs(machine: StateMachine) -> Iterator[Need]:
    yield _native_need("tool-calling", "hard", machine.label)
    yield from _declared_needs(machine.needs, machine.label)
    for stage in machine.stages:
        yield from _declared_needs(stage.needs, f"{machine.label}/{stage.name}")


def _window_needs(providers: Iterable[ContextProvider]) -> list[Need]:
    """Require a window that holds all large contributions together, at each one's level."""
    large = [provider for provider in providers if provider.tokens >= LARGE_TOKENS]
    if not large:
        return []
    total = sum(provider.tokens for provider in large)
    return [
        need("context-window", level=provider.level, min_support="native", minimum=total, required_by=provider.label)
        for provider in large
    ]


def _native_need(name: str, level: Level, source: str) -> Need:
    return Need(name, level, "native", None, (source,))


def _declared_needs(declared: Iterable[DeclaredNeed], source: str) -> Iterator[Need]:
    for index, item in enumerate(declared):
        try:
            if isinstance(item, str):
                parsed = Need.parse(item, required_by=(source,))
                if not _STATES_SUPPORT.search(item):
                    parsed = msgspec.structs.replace(parsed, min_support="native")
                yield parsed
            else:
                yield need(
                    item.capability,
                    level=item.level,
                    min_support=item.min_support,
                    minimum=item.minimum,
                    required_by=(source,),
                )
        except InputError as error:
            raise InvalidNeed(f"{source}: needs[{index}]: {error}") from None

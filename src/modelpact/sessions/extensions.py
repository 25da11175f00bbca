"""Extensions: state machines, context providers and hooks, with the needs they declare.

They are plain values. The store keeps them with the session, so you can resume it without them.
"""

from typing import Any, Final, Literal, TypeVar

import msgspec

from modelpact.needs.need import Level, Need
from modelpact.sessions.errors import LoadError
from modelpact.sessions.versions import CONTRACT_VERSION, VersionRange
from modelpact.vocabulary.errors import InputError, brief

Content = Literal["text", "tool-hint", "resource-binding"]
DeclaredNeed = Need | str
"""A need, or its text. In a text, the minimum support is native unless it says otherwise."""

_CONTRACT_1: Final = "^1.0"
_MAX_TOKENS: Final = 10**12


class Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A stage of a state machine, and its needs."""

    name: str
    needs: tuple[DeclaredNeed, ...] = ()


class StateMachine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A state machine. Its stages end with strict tool calls, so it always needs tool calling."""

    name: str
    stages: tuple[Stage, ...] = ()
    needs: tuple[DeclaredNeed, ...] = ()
    contract: str = _CONTRACT_1

    @property
    def label(self) -> str:
        """Its name in `required_by` and in errors."""
        return f"state-machine:{self.name}"


class ContextProvider(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that adds content to the context: its kinds, and at most how many tokens."""

    name: str
    produces: tuple[Content, ...] = ("text",)
    tokens: int = 0
    level: Level = "hard"
    """The level of the needs that follow from `produces` and `tokens`."""
    needs: tuple[DeclaredNeed, ...] = ()
    contract: str = _CONTRACT_1

    @property
    def label(self) -> str:
        """Its name in `required_by` and in errors."""
        return f"context-provider:{self.name}"


class Hook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that observes, guards or transforms events of one kind."""

    name: str
    kind: Literal["observe", "guard", "transform"]
    on: Literal["tokens", "messages", "tools"]
    level: Level = "hard"
    needs: tuple[DeclaredNeed, ...] = ()
    contract: str = _CONTRACT_1

    @property
    def label(self) -> str:
        """Its name in `required_by` and in errors."""
        return f"hook:{self.name}"


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
        raise InputError(
            f"{label}: tokens: expected a number from 0 to {_MAX_TOKENS:,}, not {extension.tokens}"
        )
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


def _check_name(name: str, where: str) -> None:
    if not 0 < len(name) <= 120 or not name.isprintable():
        raise InputError(f"{where}: expected 1 to 120 visible characters, not {brief(name)}")

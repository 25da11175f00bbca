"""Extensions: what contributes to a session's required set, as declared by their authors.

They are values: a session keeps them in the store, so that it can be resumed without them.
"""

from typing import Any, Final, Literal, TypeVar

import msgspec

from modelpact.needs.need import Level, Need
from modelpact.sessions.errors import LoadError
from modelpact.sessions.versions import CONTRACT_VERSION, VersionRange
from modelpact.vocabulary.errors import InputError, brief

Content = Literal["text", "tool-hint", "resource-binding"]
Declared = Need | str
"""A need, or its text; in a text, minimum support is native unless it says otherwise."""

_ANY_1: Final = "^1.0"


class Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A stage of a state machine, and what it relies on."""

    name: str
    needs: tuple[Declared, ...] = ()


class StateMachine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A state machine: its stages end with strict tool calls, so it always needs tool calling."""

    name: str
    stages: tuple[Stage, ...] = ()
    needs: tuple[Declared, ...] = ()
    contract: str = _ANY_1

    @property
    def label(self) -> str:
        """Who it is, in `required_by` and in errors."""
        return f"state-machine:{self.name}"


class ContextProvider(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What puts content into the context: of which kinds, and at most how many tokens of it."""

    name: str
    produces: tuple[Content, ...] = ("text",)
    tokens: int = 0
    level: Level = "hard"
    """How much it matters that the model can make use of the content."""
    needs: tuple[Declared, ...] = ()
    contract: str = _ANY_1

    @property
    def label(self) -> str:
        """Who it is, in `required_by` and in errors."""
        return f"context-provider:{self.name}"


class Hook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What watches, guards or transforms events of one kind."""

    name: str
    kind: Literal["observe", "guard", "transform"]
    on: Literal["tokens", "messages", "tools"]
    level: Level = "hard"
    needs: tuple[Declared, ...] = ()
    contract: str = _ANY_1

    @property
    def label(self) -> str:
        """Who it is, in `required_by` and in errors."""
        return f"hook:{self.name}"


class SecurityMode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How tool calls are let through, and whether the workflows are made of them."""

    mode: Literal["ask", "allowlist", "open"] = "ask"
    tool_oriented: bool = False

    @property
    def label(self) -> str:
        """Who it is, in `required_by`."""
        return f"security:{self.mode}"


Extension = StateMachine | ContextProvider | Hook
E = TypeVar("E", StateMachine, ContextProvider, Hook)
V = TypeVar("V", StateMachine, ContextProvider, Hook, SecurityMode)
_KINDS: Final = {
    StateMachine: "state machine",
    ContextProvider: "context provider",
    Hook: "hook",
    SecurityMode: "security mode",
}


def load(kind: type[E], given: Any) -> E:
    """Return the extension, checked; a mapping of its fields will do as well.

    `LoadError` where it was written for another contract.
    """
    made = read(kind, given)
    _check_name(made.name, f"{_KINDS[kind]}: name")
    if isinstance(made, StateMachine):
        seen: set[str] = set()
        for place, stage in enumerate(made.stages):
            _check_name(stage.name, f"{made.label}: stages[{place}].name")
            if stage.name in seen:
                raise InputError(f"{made.label}: stages[{place}].name: {stage.name} is there twice")
            seen.add(stage.name)
    if isinstance(made, ContextProvider) and not 0 <= made.tokens <= 10**12:
        raise InputError(f"{made.label}: tokens: expected a number of tokens, not {made.tokens}")
    try:
        wanted = VersionRange.parse(made.contract)
    except InputError as error:
        raise InputError(f"{made.label}: contract: {error}") from None
    if CONTRACT_VERSION not in wanted:
        raise LoadError(made.label, made.contract, str(CONTRACT_VERSION))
    return made


def load_all(kind: type[E], given: Any) -> tuple[E, ...]:
    """Return several extensions of a kind, checked; each name stands once."""
    if isinstance(given, (str, bytes, dict, msgspec.Struct)) or not hasattr(given, "__iter__"):
        raise InputError(f"{_KINDS[kind]}s: expected several, not {brief(given)}")
    made = tuple(load(kind, one) for one in given)
    seen: set[str] = set()
    for one in made:
        if one.name in seen:
            raise InputError(f"{one.label} is there twice: names tell extensions apart")
        seen.add(one.name)
    return made


def read(kind: type[V], given: Any) -> V:
    """Make a value of its fields, or check one that was made by hand; errors name the field."""
    try:
        return msgspec.convert(msgspec.to_builtins(given), kind)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{_KINDS[kind]}: {error}: {brief(given)}") from None


def _check_name(name: str, where: str) -> None:
    if not 0 < len(name) <= 120 or not name.isprintable():
        raise InputError(f"{where}: expected 1 to 120 visible characters, not {brief(name)}")

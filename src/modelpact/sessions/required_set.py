"""The required set: what the parts of a session need of its model, each need with its sources."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from modelpact.needs.need import Level, Need, Needs, need
from modelpact.sessions.extensions import (
    ContextProvider,
    DeclaredNeed,
    Hook,
    SecurityMode,
    StateMachine,
)
from modelpact.vocabulary.errors import InputError, InvalidNeed

LARGE_TOKENS: Final = 4_096
"""Tokens from which a contribution to the context is large. Every chat model holds less."""

_STATES_SUPPORT: Final = re.compile(r"(?:>=|≥)\s*(?:native|emulated)\b")
_USED_BY_TOOLS: Final = frozenset({"tool-hint", "resource-binding"})


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
        need(
            "context-window",
            level=provider.level,
            min_support="native",
            minimum=total,
            required_by=provider.label,
        )
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

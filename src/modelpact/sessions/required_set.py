"""The required set: what a session's parts need of its model, and which of them needs what."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from modelpact.needs.need import Level, Need, Needs, need
from modelpact.sessions.extensions import (
    ContextProvider,
    Declared,
    Hook,
    SecurityMode,
    StateMachine,
)
from modelpact.vocabulary.errors import InputError, InvalidNeed

LARGE: Final = 4_096
"""Tokens above which a contribution to the context is large: every chat model holds less."""

_SAYS_SUPPORT: Final = re.compile(r"(?:>=|≥)\s*(?:native|emulated)\b")
_BY_TOOLS: Final = frozenset({"tool-hint", "resource-binding"})


def required_set(
    machine: StateMachine | None = None,
    context_providers: Iterable[ContextProvider] = (),
    hooks: Iterable[Hook] = (),
    security: SecurityMode | None = None,
    inherited: Iterable[Need] = (),
) -> Needs:
    """Compute the required set from its four sources, and from the parent of a subagent."""
    needs = list(inherited)
    if machine is not None:
        needs += _of_machine(machine)
    providers = tuple(context_providers)
    for provider in providers:
        if _BY_TOOLS.intersection(provider.produces):
            needs.append(_native("tool-calling", provider.level, provider.label))
        needs += _declared(provider.needs, provider.label)
    needs += _window(providers)
    for hook in hooks:
        if hook.on == "tokens" and hook.kind != "observe":
            needs.append(_native("streaming", hook.level, hook.label))
        needs += _declared(hook.needs, hook.label)
    if security is not None and security.mode == "allowlist" and security.tool_oriented:
        needs.append(_native("tool-calling", "hard", security.label))
    return Needs(needs)


def _of_machine(machine: StateMachine) -> Iterator[Need]:
    yield _native("tool-calling", "hard", machine.label)
    yield from _declared(machine.needs, machine.label)
    for stage in machine.stages:
        yield from _declared(stage.needs, f"{machine.label}/{stage.name}")


def _window(providers: Iterable[ContextProvider]) -> list[Need]:
    """Ask for a window that holds all large contributions together, at the strictest level."""
    large = [one for one in providers if one.tokens >= LARGE]
    if not large:
        return []
    total = sum(one.tokens for one in large)
    return [
        need(
            "context-window",
            level=one.level,
            min_support="native",
            minimum=total,
            required_by=one.label,
        )
        for one in large
    ]


def _native(name: str, level: Level, by: str) -> Need:
    return Need(name, level, "native", None, (by,))


def _declared(needs: Iterable[Declared], by: str) -> Iterator[Need]:
    for place, one in enumerate(needs):
        try:
            if isinstance(one, str):
                made = Need.parse(one, required_by=(by,))
                if not _SAYS_SUPPORT.search(one):
                    made = msgspec.structs.replace(made, min_support="native")
                yield made
            else:
                yield need(
                    one.capability,
                    level=one.level,
                    min_support=one.min_support,
                    minimum=one.minimum,
                    required_by=(by,),
                )
        except InputError as error:
            raise InvalidNeed(f"{by}: needs[{place}]: {error}") from None

"""Schemas: what an answer is to be held to, linted for the vendor who would do so.

Only the rules that a schema breaks are told. Its names are the client's, and are kept nowhere.
"""

import asyncio
import hashlib
from typing import Any, Final

import msgspec

from modelpact.needs.requests import RequestApi
from modelpact.schemas.lint import lint_schema
from modelpact.vocabulary.errors import InputError

PROFILES: Final = {"openai": "openai", "anthropic": "anthropic", "gemini": "gemini"}
"""The linter's profiles, by the provider whose servers they are about."""
_MOST_REMEMBERED: Final = 1_000
_MOST_RULES: Final = 5


class SchemaLinter:
    """Lints schemas, each once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], tuple[str, ...]] = {}

    async def broken(self, profile: str, schema: Any) -> tuple[str, ...]:
        """Return the rules of a profile that a schema breaks."""
        key = (profile, hashlib.sha256(msgspec.json.encode(schema)).digest())
        found = self._known.get(key)
        if found is None:
            found = await asyncio.to_thread(_broken, profile, schema)
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found


def _broken(profile: str, schema: Any) -> tuple[str, ...]:
    try:
        found = {one.rule for one in lint_schema(schema, profile).errors}
    except InputError:
        return ("no-schema",)
    return tuple(sorted(found))


def wanted_schema(api: RequestApi, body: dict[str, Any], profile: str) -> Any:
    """Return the schema that an answer is to be held to, or None; OpenAI's may be mere hints."""
    if api == "openai-chat":
        form = _inner(body, "response_format", "json_schema")
    elif api == "openai-responses":
        form = _inner(body, "text", "format")
    else:
        form = _inner(body, "output_config", "format") or _inner(body, "output_format")
    if api != "anthropic" and profile == "openai" and form.get("strict") is not True:
        return None
    return form.get("schema")


def _inner(body: dict[str, Any], *path: str) -> dict[str, Any]:
    found: Any = body
    for name in path:
        found = found.get(name) if type(found) is dict else None
    return found if type(found) is dict else {}


def breaking(profile: str, rules: tuple[str, ...]) -> str:
    """Say that a schema breaks rules."""
    named = ", ".join(rules[:_MOST_RULES])
    more = f" and {len(rules) - _MOST_RULES} more" if len(rules) > _MOST_RULES else ""
    return f"the schema breaks rules of {profile}: {named}{more}"


def schema_warning(profile: str, rules: tuple[str, ...]) -> str:
    """Say that a schema breaks rules, and how to find out where."""
    where = f"`modelpact lint --for {profile}` says where"
    return f"structured-output: {breaking(profile, rules)}; {where}"

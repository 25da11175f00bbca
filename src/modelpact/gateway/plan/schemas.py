"""Schemas of requests: whether the vendor's servers will accept them.

Only the names of the broken rules are reported. The names in a schema belong to the client and are
not kept.
"""

import asyncio
import hashlib
from typing import Any, Final

import msgspec

from modelpact.needs.requests import RequestApi
from modelpact.schemas.lint import lint_schema
from modelpact.vocabulary.errors import InputError
from modelpact.vocabulary.memo import BoundedMemo

PROFILES: Final = {"openai": "openai", "anthropic": "anthropic", "gemini": "gemini"}
"""The linter's profiles, by the provider whose servers they describe."""
_MAX_SCHEMAS: Final = 1_000
_MAX_RULES_NAMED: Final = 5


class SchemaLinter:
    """Lints the schemas of requests, each schema once."""

    def __init__(self) -> None:
        self._results: BoundedMemo[tuple[str, bytes], tuple[str, ...]] = BoundedMemo(_MAX_SCHEMAS)

    async def broken_rules(self, profile: str, schema: Any) -> tuple[str, ...]:
        """Return the rules of a profile that a schema breaks."""
        key = (profile, hashlib.sha256(msgspec.json.encode(schema)).digest())
        rules = self._results.get(key)
        if rules is None:
            rules = await asyncio.to_thread(_broken_rules, profile, schema)
            self._results[key] = rules
        return rules


def answer_schema(api: RequestApi, body: dict[str, Any], profile: str) -> Any:
    """Return the schema that an answer must follow, or None.

    OpenAI enforces a schema only where the request says `strict`.
    """
    if api == "openai-chat":
        output_format = _object_at(body, "response_format", "json_schema")
    elif api == "openai-responses":
        output_format = _object_at(body, "text", "format")
    else:
        output_format = _object_at(body, "output_config", "format")
        output_format = output_format or _object_at(body, "output_format")
    if api != "anthropic" and profile == "openai" and output_format.get("strict") is not True:
        return None
    return output_format.get("schema")


def describe_broken_rules(profile: str, rules: tuple[str, ...]) -> str:
    """Say which rules of a vendor a schema breaks."""
    named = ", ".join(rules[:_MAX_RULES_NAMED])
    more = f" and {len(rules) - _MAX_RULES_NAMED} more" if len(rules) > _MAX_RULES_NAMED else ""
    return f"the schema breaks rules of {profile}: {named}{more}"


def schema_warning(profile: str, rules: tuple[str, ...]) -> str:
    """Warn that a schema breaks rules, and say how to find out where."""
    where = f"`modelpact lint --for {profile}` says where"
    return f"structured-output: {describe_broken_rules(profile, rules)}; {where}"


def _broken_rules(profile: str, schema: Any) -> tuple[str, ...]:
    try:
        rules = {problem.rule for problem in lint_schema(schema, profile).errors}
    except InputError:
        return ("no-schema",)
    return tuple(sorted(rules))


def _object_at(body: dict[str, Any], *path: str) -> dict[str, Any]:
    value: Any = body
    for name in path:
        value = value.get(name) if type(value) is dict else None
    return value if type(value) is dict else {}

"""The JSON Schema of `modelpact.toml`, for editors; the same rules as the loader's."""

from pathlib import Path
from typing import Any, get_args

from modelpact.catalog.statement import FIELDS, LIST_FIELDS
from modelpact.configuration.config import FallbackOn
from modelpact.configuration.sections import NEED_FIELDS
from modelpact.needs.need import LEVELS
from modelpact.vocabulary.capability import CAPABILITIES, MIN_SUPPORTS

SHIPPED = Path(__file__).parent / "modelpact.schema.json"
"""The schema as a file, for editors: `modelpact check --schema` prints the same."""

_TARGET = {"type": "string", "pattern": "^[^/]+/.+$", "description": "PROVIDER/MODEL"}
_TEXT = {"type": "string"}


def configuration_schema() -> dict[str, Any]:
    """Return the schema as data."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "modelpact.toml",
        **_closed(
            {
                "store": _closed({"url": _TEXT}),
                "policy": _policy(),
                "providers": {"type": "object", "additionalProperties": _provider()},
                "models": {"type": "object", "additionalProperties": _model()},
                "workloads": {"type": "object", "additionalProperties": _workload()},
                "profiles": {"type": "object", "additionalProperties": _profile()},
                "contract": _closed(
                    {"profile": _TEXT, "plain_http": {"type": "array", "items": _TEXT}}
                ),
                "host": _host(),
                "gateway": _gateway(),
                "machines": {"type": "object", "additionalProperties": _machine()},
            }
        ),
    }


def _closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }
    if required:
        schema["required"] = list(required)
    return schema


def _policy() -> dict[str, Any]:
    return _closed(
        {
            "unknown": {"enum": ["refuse", "probe"]},
            "emulate": {"type": "boolean"},
            "unsupported_params": {"enum": ["refuse", "drop"]},
        }
    )


def _gateway() -> dict[str, Any]:
    flags = {key: {"type": "boolean"} for key in ("lossy", "keep_content")}
    aliases = {"type": "object", "additionalProperties": _TARGET}
    texts = dict.fromkeys(("name", "provider", "telemetry"), _TEXT)
    return _closed({**texts, "aliases": aliases, **flags})


def _secret() -> dict[str, Any]:
    return {"oneOf": [_closed({"env": _TEXT}, "env"), _closed({"file": _TEXT}, "file")]}


def _provider() -> dict[str, Any]:
    return _closed(
        {
            "kind": _TEXT,
            "base_url": _TEXT,
            "api_key": _secret(),
            "timeout": {"type": "number", "exclusiveMinimum": 0},
            "connections": {"type": "integer", "minimum": 1},
            "stream_usage": {"type": "boolean"},
        }
    )


def _host() -> dict[str, Any]:
    flags = {key: {"type": "boolean"} for key in ("gating", "substitution", "redact_fallback")}
    packs = {"type": "array", "items": _TEXT}
    return _closed({"name": _TEXT, "model": _TARGET, "packs": packs, **flags, "token": _secret()})


def _machine() -> dict[str, Any]:
    needs = {"type": "array", "items": _TEXT}
    stage = _closed({"name": _TEXT, "needs": needs}, "name")
    return _closed({"contract": _TEXT, "needs": needs, "stages": {"type": "array", "items": stage}})


def _profile() -> dict[str, Any]:
    return _closed(
        {
            "on_deregistration": {"enum": ["drain", "cancel"]},
            "on_violation": {"enum": ["flag", "deregister"]},
            "require_identity": {"type": "boolean"},
        }
    )


def _model() -> dict[str, Any]:
    properties: dict[str, Any] = {"same_as": _TARGET}
    properties |= {field: _field(field) for field in sorted(FIELDS)}
    schema = _closed(properties)
    schema["patternProperties"] = {"^x-host-[a-z][a-z0-9-]*-[a-z][a-z0-9-]*$": _flag()}
    return schema


def _field(field: str) -> dict[str, Any]:
    if field in LIST_FIELDS:
        listed: dict[str, Any] = {
            "type": "array",
            "items": {"enum": list(LIST_FIELDS[field])},
            "uniqueItems": True,
        }
        if field == "input_modalities":
            listed["contains"] = {"const": "text"}
        return listed
    info = CAPABILITIES[field.replace("_", "-")]
    if info.kind == "limit":
        return {"anyOf": [{"type": "integer", "minimum": 1}, {"const": "unknown"}]}
    if info.kind == "choice":
        return {"enum": list(info.choices)}
    if field == "reasoning_effort":
        levels = {"type": "array", "items": _TEXT, "minItems": 1}
        return {"anyOf": [_flag(), levels]}
    return _flag()


def _flag() -> dict[str, Any]:
    reason = _closed({"reason": _TEXT}, "reason")
    restricted = _closed({"restricted": {"anyOf": [_TEXT, reason]}}, "restricted")
    words = {"enum": ["native", "emulated", "unsupported", "unknown"]}
    return {"anyOf": [{"type": "boolean"}, words, restricted]}


def _workload() -> dict[str, Any]:
    fields: dict[str, Any] = dict.fromkeys(NEED_FIELDS, _TEXT)
    fields |= {
        "level": {"enum": list(LEVELS)},
        "min_support": {"enum": list(MIN_SUPPORTS)},
        "minimum": {"type": ["integer", "string"]},
    }
    needs = {"type": "array", "items": {"anyOf": [_TEXT, _closed(fields, "capability")]}}
    on = {"type": "array", "items": {"enum": list(get_args(FallbackOn))}}
    return _closed(
        {
            "model": _TARGET,
            "needs": needs,
            "fallback": _TARGET,
            "fallback_on": on,
            "policy": _policy(),
        },
        "model",
    )

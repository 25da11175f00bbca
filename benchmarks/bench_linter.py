"""The linter: a 1,000-property schema, beside parsing and meta-validating it; linear in size."""

import json
import time
from collections.abc import Callable
from typing import Any

import jsonschema_rs

from modelpact.schemas.fix import fix_schema
from modelpact.schemas.lint import lint_schema
from rows import Row, emit
from timing import per_round, settle

ROUNDS = 25
ROOM = 1.3
"""How much a property may cost in a schema eight times as large, to call that linear."""
EVERY = ("variants", "tier1", "openai", "anthropic", "gemini")


def schema(properties: int) -> dict[str, Any]:
    """Return objects of ten fields each, every second one a variant behind a reference."""
    defs = {}
    for number in range(properties // 10):
        fields: dict[str, Any] = {f"field_{n}": {"type": "string", "description": "What it is."} for n in range(9)}
        kind = {"type": "string", "enum": [f"kind_{number}"]}
        defs[f"Shape{number}"] = {
            "type": "object",
            "additionalProperties": False,
            "required": ["kind", *fields],
            "properties": {"kind": kind, **fields},
        }
    items = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in defs]}
    root = {
        "type": "object",
        "additionalProperties": False,
        "required": ["steps"],
        "properties": {"steps": {"type": "array", "items": items}},
        "$defs": defs,
    }
    made: dict[str, Any] = json.loads(json.dumps(root))
    return made


def timed(call: Callable[[], object]) -> Callable[[], float]:
    def one_round() -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    return one_round


def main() -> None:
    small, large = schema(1_000), schema(8_000)
    text = json.dumps(small)
    assert lint_schema(small, "openai").ok
    opened = json.loads(text.replace('"additionalProperties": false, ', ""))
    settle()
    found = per_round(
        {
            "openai": timed(lambda: lint_schema(small, "openai")),
            "every": timed(lambda: lint_schema(small, EVERY)),
            "large": timed(lambda: lint_schema(large, EVERY)),
            "open": timed(lambda: lint_schema(opened, EVERY)),
            "fix": timed(lambda: fix_schema(opened, "openai")),
            "parse": timed(lambda: json.loads(text)),
            "meta": timed(lambda: jsonschema_rs.meta.is_valid(small)),
            "compile": timed(lambda: jsonschema_rs.validator_for(small)),
        },
        ROUNDS,
    )
    each = found["openai"] / 1_000 * 1e6
    emit(
        Row(
            "lint 1,000 properties for one vendor",
            found["openai"],
            found["compile"],
            "jsonschema-rs compiling it",
            kind="at most",
        ),
        Row(
            "lint 1,000 properties for all profiles", found["every"], found["parse"], "json.loads of it", kind="at most"
        ),
        Row(
            "lint 1,000 properties for all profiles",
            found["every"],
            found["meta"],
            "jsonschema-rs against the meta-schema",
            kind="at most",
        ),
        Row(
            "lint 1,000 properties with 100 findings",
            found["open"],
            found["every"],
            "without a finding",
            kind="at most",
        ),
        Row("rewrite 1,000 properties", found["fix"], found["every"], "lint for all profiles", kind="at most"),
        Row(
            "a property of 8,000",
            found["large"] / 8_000,
            found["every"] / 1_000,
            "a property of 1,000",
            "s",
            "at most",
            ROOM,
        ),
        note=(
            f"Least CPU time of {ROUNDS} interleaved rounds. For one vendor a property costs "
            f"{each:.1f} µs, its description, enum and reference included."
        ),
    )


if __name__ == "__main__":
    main()

"""Small schemas that ask for much work or memory."""

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import modelpact as mp
from modelpact.schemas.fix import fix_schema
from modelpact.schemas.lint import lint_schema
from tests.schemas.examples import closed, holding

TEXT = {"type": "string"}
KIND = {"type": "string", "enum": ["a"]}


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of the fastest of three."""
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def test_rewriting_is_linear_in_optional_properties() -> None:
    def optional(count: int) -> dict[str, Any]:
        return {"type": "object", "properties": {f"p{n}": TEXT for n in range(count)}}

    few, many = optional(250), optional(2_000)
    assert seconds(lambda: fix_schema(many)) < 24 * seconds(lambda: fix_schema(few))
    assert fix_schema(many).schema["required"] == list(many["properties"])


def test_names_that_every_finding_would_repeat() -> None:
    inner = {f"p{n}": {"type": "string", "minLength": 1} for n in range(4_000)}
    schema = {"properties": {"A" * 100_000: {"type": "object", "properties": inner}}}
    tracemalloc.start()
    try:
        with pytest.raises(mp.InputError, match="more than 5,000 characters") as error:
            lint_schema(schema)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert len(str(error.value)) < 300


def test_findings_end_somewhere() -> None:
    schema = closed({f"p{n}": {**TEXT, "minLength": 1} for n in range(12_000)})
    report = lint_schema(schema)
    assert len(report.findings) == 10_001
    assert report.findings[-1].message == "more than 10,000 findings; the rest is left out"
    notes = holding({"type": "array", "items": {"anyOf": []}})
    notes["properties"]["x"]["items"]["anyOf"] = [{"const": str(n)} for n in range(12_000)]
    assert not lint_schema(notes).ok
    fixed = fix_schema(notes)
    assert (fixed.changes, fixed.schema) == ((), notes)
    assert fixed.kept[0].message == "there are too many findings to rewrite any of them"


def test_many_references_to_one_branch() -> None:
    literals = closed({f"k{n}": KIND for n in range(1_000)})

    def union(references: int, *more: Any) -> dict[str, Any]:
        branches = [{"$ref": "#/$defs/A"} for _ in range(references)]
        return holding({"anyOf": [*branches, *more]}, **{"$defs": {"A": literals}})

    for more in ([], [{"type": "object"}]):
        few, many = union(1_000, *more), union(8_000, *more)
        base = seconds(lambda few=few: lint_schema(few))  # type: ignore[misc]
        assert seconds(lambda many=many: lint_schema(many)) < 24 * base  # type: ignore[misc]
    assert "variant-literal-twice" in [error.rule for error in lint_schema(union(8_000)).errors]


def test_literals_count_as_work() -> None:
    more = {f"k{n}": KIND for n in range(500)}
    shared = {name: closed({"kind": {"type": "string", "enum": [name]}, **more}) for name in "ab"}
    refs = [{"$ref": f"#/$defs/{name}"} for name in "ab"]
    unions = {f"u{n}": {"anyOf": refs} for n in range(3_000)}
    with pytest.raises(mp.InputError, match="unions within unions"):
        lint_schema(closed(unions, **{"$defs": shared}), "variants")


def test_references_that_say_more_and_lead_back() -> None:
    defs = {f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{m}", "required": [str(n)]} for m in range(12)]} for n in range(12)}
    with pytest.raises(mp.InputError, match="unions within unions"):
        lint_schema(holding({"$ref": "#/$defs/D0"}, **{"$defs": defs}))


def test_values_of_an_enum_that_many_unions_refer_to() -> None:
    values = {name: {"enum": [f"{name}{n}" for n in range(20_000)]} for name in "ab"}
    refs = [{"$ref": f"#/$defs/{name}"} for name in "ab"]
    unions = {f"u{n}": {"oneOf": refs} for n in range(200)}
    with pytest.raises(mp.InputError, match="unions within unions"):
        fix_schema(closed(unions, **{"$defs": values}))

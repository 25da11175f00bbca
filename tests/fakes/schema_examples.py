"""Values that match a JSON Schema: small ones, made without chance."""

from typing import Any


def instance(schema: Any, root: Any = None, depth: int = 0) -> Any:
    """Return a minimal value for a schema of the kind that strict outputs allow."""
    root = schema if root is None else root
    if schema is True or schema == {}:
        return {} if depth == 0 else "x"
    if depth > 60:
        raise ValueError("the schema has no finite value")
    for special in (_fixed, _combined):
        example = special(schema, root, depth)
        if example is not None:
            return example[0]
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    kind = min(kinds, key=_SIMPLEST.index) if isinstance(kinds, list) else kinds
    return _MAKERS[kind](schema, root, depth)


def _fixed(schema: dict[str, Any], root: Any, depth: int) -> tuple[Any] | None:
    if "const" in schema:
        return (schema["const"],)
    if "enum" in schema:
        return (schema["enum"][0],)
    if "$ref" in schema:
        target = root
        for step in schema["$ref"].removeprefix("#").split("/")[1:]:
            target = target[step.replace("~1", "/").replace("~0", "~")]
        return (instance(target, root, depth + 1),)
    return None


def _combined(schema: dict[str, Any], root: Any, depth: int) -> tuple[Any] | None:
    for name in ("anyOf", "oneOf"):
        if name in schema:
            choices = schema[name]
            simplest = [choice for choice in choices if choice.get("type") == "null"] or choices
            for one in simplest:
                try:
                    return (instance({**_beside(schema, name), **one}, root, depth + 1),)
                except ValueError:
                    continue
            raise ValueError("no choice has a finite value")
    if "allOf" in schema:
        merged: dict[str, Any] = _beside(schema, "allOf")
        for one in schema["allOf"]:
            merged = {
                **merged,
                **one,
                "properties": {**merged.get("properties", {}), **one.get("properties", {})},
                "required": [*merged.get("required", []), *one.get("required", [])],
            }
        return (instance(merged, root, depth + 1),)
    return None


def _beside(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in (name, "$defs")}


def _object(schema: dict[str, Any], root: Any, depth: int) -> Any:
    properties = schema.get("properties", {})
    return {
        name: instance(properties.get(name, True), root, depth + 1)
        for name in dict.fromkeys(schema.get("required", []))
    }


def _array(schema: dict[str, Any], root: Any, depth: int) -> Any:
    count = schema.get("minItems", 0)
    return [instance(schema.get("items", True), root, depth + 1) for _ in range(count)]


_FORMATS = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "duration": "P1D",
    "email": "a@example.com",
    "hostname": "example.com",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def _string(schema: dict[str, Any], root: Any, depth: int) -> Any:
    example = _FORMATS.get(schema.get("format", ""), "x")
    least = schema.get("minLength", 0)
    if len(example) < least:
        example = example * least
    return example[: schema.get("maxLength", len(example))]


def _number(schema: dict[str, Any], root: Any, depth: int) -> Any:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    if "exclusiveMinimum" in schema:
        low = low + 1
    high = schema.get("maximum", schema.get("exclusiveMaximum", max(low, 0)))
    value = low if low > 0 else min(0, high)
    if "minimum" in schema or "exclusiveMinimum" in schema:
        value = max(value, low)
    step = schema.get("multipleOf")
    if step:
        value = -(-value // step) * step
    return int(value) if schema.get("type") == "integer" or value == int(value) else value


def _boolean(schema: dict[str, Any], root: Any, depth: int) -> Any:
    return False


def _null(schema: dict[str, Any], root: Any, depth: int) -> Any:
    return None


_MAKERS = {
    "object": _object,
    "array": _array,
    "string": _string,
    "number": _number,
    "integer": _number,
    "boolean": _boolean,
    "null": _null,
}
_SIMPLEST = ["null", "boolean", "integer", "number", "string", "array", "object"]

"""Read a schema: visit every subschema once, and name the place of what is not a schema.

Only schemas are visited: the contents of `enum`, `const`, `default` and `examples` are data, and a
property may have any name. The target of a reference is looked up and never visited again, so that
the work is linear in the size of the schema.
"""

# The readers of keywords share one signature, and not all of them use all arguments.
# ruff: noqa: ARG001

from collections.abc import Callable
from typing import Any, Final

from modelpact.schemas.document import Document, SchemaNode, fragment_steps, is_object
from modelpact.vocabulary.errors import InputError, brief

MAX_DEPTH: Final = 200
"""The most levels of nested schemas; no vendor accepts more than a tenth of that."""
MAX_SCHEMAS: Final = 200_000
"""The most subschemas; no vendor accepts more than 5,000 properties."""
_DEFINITION_DEPTH: Final = -1_000_000
"""The depth of a definition, which becomes part of the root only through references."""
MAX_POINTER: Final = 5_000
"""The most characters of a pointer to a schema; every finding repeats its pointer."""
_KEYWORD_LENGTH: Final = 12
"""The approximate length of a keyword in a pointer."""
TYPES: Final = frozenset(["object", "array", "string", "number", "integer", "boolean", "null"])


def schema_of(source: Any) -> dict[str, Any]:
    """Return a schema object; for a Pydantic model, its schema."""
    make = getattr(source, "model_json_schema", None)
    if isinstance(source, type) and callable(make):
        source = make()
    if isinstance(source, bool):
        raise InputError(
            f'the schema {str(source).lower()} describes nothing; expected an object such as {{"type": "object", …}}'
        )
    if not isinstance(source, dict):
        raise InputError(f"a JSON Schema is an object, not {type(source).__name__}")
    return source


def read_document(source: Any) -> Document:
    """Read a schema, or raise an error that says where it is not valid."""
    document = Document(schema_of(source))
    stack = [SchemaNode(document.root, None, ())]
    resolved = 0
    while True:
        while stack:
            _read(document, stack.pop(), stack)
        while resolved < len(document.refs) and not stack:
            stack += _unvisited_target(document, document.refs[resolved])
            resolved += 1
        if not stack:
            break
    for node in document.refs:
        document.follow(node.schema)
    return document


def _unvisited_target(document: Document, node: SchemaNode) -> list[SchemaNode]:
    """Return the target of a reference if it is in a place that is not visited for schemas."""
    ref = node.schema["$ref"]
    target = document.target(ref)
    if not isinstance(target, dict) or id(target) in document.by_id:
        return []
    return [SchemaNode(target, None, fragment_steps(ref[1:]) or (), length=len(ref))]


def _read(document: Document, node: SchemaNode, stack: list[SchemaNode]) -> None:
    schema = node.schema
    node.number = len(document.nodes)
    if node.level > MAX_DEPTH:
        raise InputError(_too_deep(node))
    if node.parent is not None:
        last = node.steps[-1]
        node.length = node.parent.length + (len(last) if last.__class__ is str else 1) + _KEYWORD_LENGTH
    if node.length > MAX_POINTER:
        raise InputError(
            f"the path {node.path()[:100]}… has more than {MAX_POINTER:,} characters; no vendor accepts such names"
        )
    if node.number == MAX_SCHEMAS:
        raise InputError(f"more than {MAX_SCHEMAS:,} subschemas; no vendor accepts 5,001 properties")
    document.nodes.append(node)
    document.by_id.setdefault(id(schema), node)
    if not node.inner:
        node.depth = _DEFINITION_DEPTH
    elif node.parent is not None:
        node.depth = node.parent.depth
    kind = schema.get("type")
    if kind == "object" if kind.__class__ is str else is_object(schema):
        node.depth += 1
        document.objects.append(node)
    children: list[SchemaNode] = []
    for key, value in schema.items():
        reader = _READERS.get(key)
        if reader is not None:
            reader(document, node, key, value, children)
    if children:
        children.reverse()
        stack += children


def _too_deep(node: SchemaNode) -> str:
    above = node.parent
    while above is not None:
        if above.schema is node.schema:
            return f"the schema contains itself, at {node.path()[:200]}; use $ref for recursion"
        above = above.parent
    return f"schemas are nested more than {MAX_DEPTH} deep, at {node.path()[:100]}…"


def _invalid(node: SchemaNode, step: str | tuple[str | int, ...], expected: str, value: Any) -> InputError:
    where = node.path(*(step if isinstance(step, tuple) else (step,)))
    shortened = where if len(where) <= 200 else f"{where[:199]}…"
    return InputError(f"not a JSON Schema: {shortened}: expected {expected}, not {brief(value, 60)}")


Reader = Callable[[Document, SchemaNode, str, Any, list[SchemaNode]], None]


def _add(
    document: Document, node: SchemaNode, steps: tuple[str | int, ...], value: Any, children: list[SchemaNode]
) -> None:
    if isinstance(value, dict):
        children.append(SchemaNode(value, node, steps, node.level + 1))
    elif isinstance(value, bool):
        document.booleans.append(SchemaNode({}, node, steps))
    else:
        raise _invalid(node, steps, "a schema", value)


def _read_properties(document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]) -> None:
    if not isinstance(value, dict):
        raise _invalid(node, key, "an object of schemas", value)
    names = node.schema.get("required")
    required = frozenset(filter(_is_string, names)) if isinstance(names, list) else frozenset()
    level = node.level + 1
    for name, schema in value.items():
        if type(schema) is dict:
            children.append(SchemaNode(schema, node, (key, name), level, name not in required))
        elif not isinstance(name, str):
            raise _invalid(node, key, "names that are strings", name)
        else:
            _add(document, node, (key, name), schema, children)


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _read_map(document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]) -> None:
    if not isinstance(value, dict):
        raise _invalid(node, key, "an object of schemas", value)
    for name, schema in value.items():
        _add(document, node, (key, str(name)), schema, children)


def _read_definitions(document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]) -> None:
    if not isinstance(value, dict):
        raise _invalid(node, key, "an object of schemas", value)
    for name, schema in value.items():
        if isinstance(schema, dict):
            step = (key, str(name))
            children.append(SchemaNode(schema, node, step, node.level + 1, inner=False))
        else:
            _add(document, node, (key, str(name)), schema, children)


def _read_list(document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]) -> None:
    if not isinstance(value, list) or not value:
        raise _invalid(node, key, "a list of schemas", value)
    for index, schema in enumerate(value):
        _add(document, node, (key, index), schema, children)


def _read_union(document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]) -> None:
    _read_list(document, node, key, value, children)
    document.unions.append(node)


def _read_single(document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]) -> None:
    _add(document, node, (key,), value, children)


def _read_items(document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]) -> None:
    if isinstance(value, list):
        document.tuples.append(node)
        for index, item in enumerate(value):
            _add(document, node, (key, index), item, children)
    else:
        _add(document, node, (key,), value, children)


def _read_schema_or_bool(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    if not isinstance(value, bool):
        _add(document, node, (key,), value, children)


def _read_dependencies(document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]) -> None:
    if not isinstance(value, dict):
        raise _invalid(node, key, "an object", value)
    for name, inner in value.items():
        if not isinstance(inner, list):
            _add(document, node, (key, str(name)), inner, children)


def _read_ref(document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]) -> None:
    if not isinstance(value, str):
        raise _invalid(node, key, "a string", value)
    document.refs.append(node)


def _read_anchor(document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]) -> None:
    if not isinstance(value, str):
        raise _invalid(node, key, "a string", value)
    document.anchors.setdefault(value, node.schema)


def _read_type(document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]) -> None:
    if isinstance(value, str):
        if value in TYPES:
            return
    elif isinstance(value, list) and value and all(_is_string(name) and name in TYPES for name in value):
        return
    raise _invalid(node, key, f"one or more of {', '.join(sorted(TYPES))}", value)


def _read_required(document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]) -> None:
    if isinstance(value, bool):
        return  # the form before draft 04, which is ignored
    if not isinstance(value, list) or not all(map(_is_string, value)):
        raise _invalid(node, key, "a list of names", value)


def _read_enum(document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]) -> None:
    if not isinstance(value, list) or not value:
        raise _invalid(node, key, "a list of values", value)


_READERS: Final[dict[str, Reader]] = {
    "$ref": _read_ref,
    "$anchor": _read_anchor,
    "$dynamicAnchor": _read_anchor,
    "type": _read_type,
    "required": _read_required,
    "enum": _read_enum,
    "properties": _read_properties,
    "patternProperties": _read_map,
    "dependentSchemas": _read_map,
    "$defs": _read_definitions,
    "definitions": _read_definitions,
    "anyOf": _read_union,
    "oneOf": _read_union,
    "allOf": _read_list,
    "prefixItems": _read_list,
    "items": _read_items,
    "dependencies": _read_dependencies,
    "additionalProperties": _read_schema_or_bool,
    "additionalItems": _read_schema_or_bool,
    "unevaluatedProperties": _read_schema_or_bool,
    "unevaluatedItems": _read_schema_or_bool,
    "not": _read_single,
    "if": _read_single,
    "then": _read_single,
    "else": _read_single,
    "contains": _read_single,
    "propertyNames": _read_single,
    "contentSchema": _read_single,
}
"""How to read each keyword that contains schemas, or that a rule checks."""

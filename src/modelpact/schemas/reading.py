"""Reading a schema: every subschema once, with an error that names the place where it is none.

Only schemas are walked: what stands in `enum`, `const`, `default` or `examples` is data, and a
property may have any name. A reference is followed by looking its target up, never by walking it
again, so that the work is linear in the size of the schema.
"""

# The readers of keywords share one signature, whether or not they use all of it.
# ruff: noqa: ARG001

from collections.abc import Callable
from typing import Any, Final

from modelpact.schemas.document import Document, SchemaNode, fragment_steps, is_object
from modelpact.vocabulary.errors import InputError, brief

DEEPEST: Final = 200
"""Levels of schemas in schemas; no vendor takes more than a tenth of that."""
LARGEST: Final = 200_000
"""Schemas in a schema, each place counted; no vendor takes more than 5,000 properties."""
_APART: Final = -1_000_000
"""The depth from which a definition counts: only what refers to it makes it part of the root."""
LONGEST: Final = 5_000
"""Characters of the pointer to a schema; every finding in it repeats them."""
_WORD: Final = 12
"""About the characters of a keyword in a pointer."""
TYPES: Final = frozenset(["object", "array", "string", "number", "integer", "boolean", "null"])


def schema_of(source: Any) -> dict[str, Any]:
    """Return the schema of what was handed in: an object, or a Pydantic model's."""
    make = getattr(source, "model_json_schema", None)
    if isinstance(source, type) and callable(make):
        source = make()
    if isinstance(source, bool):
        raise InputError(
            f"the schema {str(source).lower()} describes nothing; expected an object such as "
            '{"type": "object", …}'
        )
    if not isinstance(source, dict):
        raise InputError(f"a JSON Schema is an object, not {type(source).__name__}")
    return source


def read_document(source: Any) -> Document:
    """Read a schema, or raise an error that says where it is none."""
    document = Document(schema_of(source))
    stack = [SchemaNode(document.root, None, ())]
    resolved = 0
    while True:
        while stack:
            _read(document, stack.pop(), stack)
        while resolved < len(document.refs) and not stack:
            stack += _unread(document, document.refs[resolved])
            resolved += 1
        if not stack:
            break
    for node in document.refs:
        document.follow(node.schema)
    return document


def _unread(document: Document, node: SchemaNode) -> list[SchemaNode]:
    """Return the target of a reference where it stands in a place that is not read for schemas."""
    ref = node.schema["$ref"]
    target = document.target(ref)
    if not isinstance(target, dict) or id(target) in document.by_id:
        return []
    return [SchemaNode(target, None, fragment_steps(ref[1:]) or (), length=len(ref))]


def _read(document: Document, node: SchemaNode, stack: list[SchemaNode]) -> None:
    schema = node.schema
    node.number = len(document.nodes)
    if node.level > DEEPEST:
        raise InputError(_too_deep(node))
    if node.parent is not None:
        last = node.steps[-1]
        node.length = node.parent.length + (len(last) if last.__class__ is str else 1) + _WORD
    if node.length > LONGEST:
        raise InputError(
            f"the names on the way to {node.path()[:100]}… have more than {LONGEST:,} characters; "
            "no vendor takes such names"
        )
    if node.number == LARGEST:
        raise InputError(f"more than {LARGEST:,} schemas in one; no vendor takes 5,001 properties")
    document.nodes.append(node)
    document.by_id.setdefault(id(schema), node)
    if not node.inner:
        node.depth = _APART
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
    return f"schemas are nested more than {DEEPEST} deep, at {node.path()[:100]}…"


def _wrong(
    node: SchemaNode, step: str | tuple[str | int, ...], expected: str, value: Any
) -> InputError:
    where = node.path(*(step if isinstance(step, tuple) else (step,)))
    place = where if len(where) <= 200 else f"{where[:199]}…"
    return InputError(f"not a JSON Schema: {place}: expected {expected}, not {brief(value, 60)}")


Reader = Callable[[Document, SchemaNode, str, Any, list[SchemaNode]], None]


def _add(
    document: Document,
    node: SchemaNode,
    steps: tuple[str | int, ...],
    value: Any,
    children: list[SchemaNode],
) -> None:
    if isinstance(value, dict):
        children.append(SchemaNode(value, node, steps, node.level + 1))
    elif isinstance(value, bool):
        document.booleans.append(SchemaNode({}, node, steps))
    else:
        raise _wrong(node, steps, "a schema", value)


def _properties(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    if not isinstance(value, dict):
        raise _wrong(node, key, "an object of schemas", value)
    listed = node.schema.get("required")
    required = frozenset(filter(_is_text, listed)) if isinstance(listed, list) else frozenset()
    level = node.level + 1
    for name, one in value.items():
        if type(one) is dict:
            children.append(SchemaNode(one, node, (key, name), level, name not in required))
        elif not isinstance(name, str):
            raise _wrong(node, key, "names that are texts", name)
        else:
            _add(document, node, (key, name), one, children)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _map(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    if not isinstance(value, dict):
        raise _wrong(node, key, "an object of schemas", value)
    for name, one in value.items():
        _add(document, node, (key, str(name)), one, children)


def _definitions(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    if not isinstance(value, dict):
        raise _wrong(node, key, "an object of schemas", value)
    for name, one in value.items():
        if isinstance(one, dict):
            children.append(SchemaNode(one, node, (key, str(name)), node.level + 1, inner=False))
        else:
            _add(document, node, (key, str(name)), one, children)


def _list(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    if not isinstance(value, list) or not value:
        raise _wrong(node, key, "a list of schemas", value)
    for place, one in enumerate(value):
        _add(document, node, (key, place), one, children)


def _union(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    _list(document, node, key, value, children)
    document.unions.append(node)


def _single(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    _add(document, node, (key,), value, children)


def _items(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    if isinstance(value, list):
        document.tuples.append(node)
        for place, one in enumerate(value):
            _add(document, node, (key, place), one, children)
    else:
        _add(document, node, (key,), value, children)


def _open(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    if not isinstance(value, bool):
        _add(document, node, (key,), value, children)


def _dependencies(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    if not isinstance(value, dict):
        raise _wrong(node, key, "an object", value)
    for name, one in value.items():
        if not isinstance(one, list):
            _add(document, node, (key, str(name)), one, children)


def _ref(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    if not isinstance(value, str):
        raise _wrong(node, key, "a text", value)
    document.refs.append(node)


def _anchor(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    if not isinstance(value, str):
        raise _wrong(node, key, "a text", value)
    document.anchors.setdefault(value, node.schema)


def _type(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    if isinstance(value, str):
        if value in TYPES:
            return
    elif isinstance(value, list) and value and all(_is_text(one) and one in TYPES for one in value):
        return
    raise _wrong(node, key, f"one or more of {', '.join(sorted(TYPES))}", value)


def _required(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    if isinstance(value, bool):
        return  # drafts before 04 wrote it so; it says nothing here
    if not isinstance(value, list) or not all(map(_is_text, value)):
        raise _wrong(node, key, "a list of names", value)


def _enum(
    document: Document, node: SchemaNode, key: str, value: Any, children: list[SchemaNode]
) -> None:
    if not isinstance(value, list) or not value:
        raise _wrong(node, key, "a list of values", value)


_READERS: Final[dict[str, Reader]] = {
    "$ref": _ref,
    "$anchor": _anchor,
    "$dynamicAnchor": _anchor,
    "type": _type,
    "required": _required,
    "enum": _enum,
    "properties": _properties,
    "patternProperties": _map,
    "dependentSchemas": _map,
    "$defs": _definitions,
    "definitions": _definitions,
    "anyOf": _union,
    "oneOf": _union,
    "allOf": _list,
    "prefixItems": _list,
    "items": _items,
    "dependencies": _dependencies,
    "additionalProperties": _open,
    "additionalItems": _open,
    "unevaluatedProperties": _open,
    "unevaluatedItems": _open,
    "not": _single,
    "if": _single,
    "then": _single,
    "else": _single,
    "contains": _single,
    "propertyNames": _single,
    "contentSchema": _single,
}
"""How each keyword that holds schemas, or that the rules look at, is read."""

"""Strict shapes of request bodies: what is wrong first, and where. Each fake has words for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]


@dataclass
class Wrong(Exception):
    """The first thing that is wrong: `kind` of mistake, the place, what was expected and found.

    Kinds: unknown, missing, type, value, below, above, short, long.
    """

    kind: str
    path: Path
    expected: Any = None
    found: Any = None
    noun: str = ""


class Shape:
    """Something that a value must be."""

    noun = "value"
    types: tuple[type, ...] = (object,)

    def __init__(self, *, null: bool = False) -> None:
        self.null = null

    def check(self, value: Any, path: Path) -> None:
        if value is None and self.null:
            return
        wrong = isinstance(value, bool) and bool not in self.types and object not in self.types
        if wrong or not isinstance(value, self.types):
            raise Wrong("type", path, self.noun, value)
        self.inside(value, path)

    def inside(self, value: Any, path: Path) -> None:
        """Check more than the type."""


class Anything(Shape):
    pass


class Flag(Shape):
    noun = "boolean"
    types = (bool,)


class Text(Shape):
    noun = "string"
    types = (str,)

    def __init__(self, *, least: int = 0, most: int | None = None, null: bool = False) -> None:
        super().__init__(null=null)
        self.least, self.most = least, most

    def inside(self, value: str, path: Path) -> None:
        if len(value) < self.least:
            raise Wrong("short", path, self.least, len(value), "string")
        if self.most is not None and len(value) > self.most:
            raise Wrong("long", path, self.most, len(value), "string")


class One(Shape):
    noun = "string"
    types = (str,)

    def __init__(self, *choices: str, null: bool = False) -> None:
        super().__init__(null=null)
        self.choices = choices

    def inside(self, value: str, path: Path) -> None:
        if value not in self.choices:
            raise Wrong("value", path, self.choices, value)


class Number(Shape):
    noun = "number"
    types: tuple[type, ...] = (int, float)
    word = "decimal"

    def __init__(self, least: float | None = None, most: float | None = None, *, null: bool = False) -> None:
        super().__init__(null=null)
        self.least, self.most = least, most

    def inside(self, value: float, path: Path) -> None:
        if self.least is not None and value < self.least:
            raise Wrong("below", path, self.least, value, self.word)
        if self.most is not None and value > self.most:
            raise Wrong("above", path, self.most, value, self.word)


class Whole(Number):
    noun = "integer"
    types = (int,)
    word = "integer"


class Many(Shape):
    noun = "array"
    types = (list,)

    def __init__(self, of: Shape, *, least: int = 0, most: int | None = None, null: bool = False) -> None:
        super().__init__(null=null)
        self.of, self.least, self.most = of, least, most

    def inside(self, value: list[Any], path: Path) -> None:
        if len(value) < self.least:
            raise Wrong("short", path, self.least, len(value), "array")
        if self.most is not None and len(value) > self.most:
            raise Wrong("long", path, self.most, len(value), "array")
        for place, one in enumerate(value):
            self.of.check(one, (*path, place))


class Open(Shape):
    """An object with any fields."""

    noun = "object"
    types = (dict,)


class Thing(Shape):
    """An object with these fields and no other."""

    noun = "object"
    types = (dict,)

    def __init__(self, fields: Mapping[str, Shape], required: Sequence[str] = (), *, null: bool = False) -> None:
        super().__init__(null=null)
        self.fields, self.required = fields, required

    def inside(self, value: dict[str, Any], path: Path) -> None:
        for name in self.required:
            if name not in value:
                raise Wrong("missing", (*path, name))
        for name, one in value.items():
            shape = self.fields.get(name)
            if shape is None:
                raise Wrong("unknown", (*path, name))
            shape.check(one, (*path, name))


class Tagged(Shape):
    """An object whose shape one of its fields tells; `step` puts the tag into the path."""

    noun = "object"
    types = (dict,)

    def __init__(
        self,
        shapes: Mapping[str, Shape],
        *,
        tag: str = "type",
        default: str | None = None,
        step: bool = False,
        null: bool = False,
    ) -> None:
        super().__init__(null=null)
        self.shapes, self.tag, self.default, self.step = shapes, tag, default, step

    def inside(self, value: dict[str, Any], path: Path) -> None:
        kind = value.get(self.tag, self.default)
        if kind is None:
            raise Wrong("missing", (*path, self.tag))
        shape = self.shapes.get(kind) if isinstance(kind, str) else None
        if shape is None:
            raise Wrong("value", (*path, self.tag), tuple(self.shapes), kind)
        shape.check(value, (*path, kind) if self.step else path)


class Either(Shape):
    """One of several shapes, told apart by their types."""

    def __init__(self, *shapes: Shape, null: bool = False) -> None:
        super().__init__(null=null)
        self.shapes = shapes
        self.noun = " or ".join(shape.noun for shape in shapes)

    def inside(self, value: Any, path: Path) -> None:
        for shape in self.shapes:
            flag = isinstance(value, bool) and bool not in shape.types
            if isinstance(value, shape.types) and not flag:
                shape.check(value, path)
                return
        raise Wrong("type", path, self.noun, value)


def json_type(value: Any) -> str:
    """Return what JSON calls a value."""
    for kind, name in (
        (bool, "boolean"),
        (int, "integer"),
        (float, "decimal number"),
        (str, "string"),
        (list, "array"),
        (dict, "object"),
    ):
        if isinstance(value, kind):
            return name
    return "null"

"""How deeply objects nest, and which schemas contain themselves, through references too."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from modelpact.schemas.document import Document, SchemaNode, is_object
from modelpact.schemas.profile import Ask, SchemaLimits
from modelpact.schemas.report import FindingCollector

_OPEN, _DONE = 1, 2


class Nesting:
    """The graph of what holds what. A definition counts where it is referred to.

    Only objects, references and what they lead to are in it: nothing else nests or leads back.
    """

    def __init__(
        self, document: Document, skip: Callable[[SchemaNode], bool] | None = None
    ) -> None:
        self.nodes = document.nodes
        self.skip = skip
        self.below: dict[int, list[int]] = {0: []}
        targets = [document.node_of(document.target(one.schema["$ref"])) for one in document.refs]
        kept = [*document.objects, *document.refs, *(one for one in targets if one is not None)]
        self.below |= {node.number: [] for node in kept}
        above: dict[int, int | None] = {}
        for number in self.below:
            holder = self._holder(self.nodes[number], above)
            if holder is not None:
                self.below[holder].append(number)
        for node, target in zip(document.refs, targets, strict=True):
            if target is not None:
                self.below[node.number].append(target.number)
        self.heights = dict.fromkeys(self.below, 0)
        self.loops: list[SchemaNode] = []
        """Nodes that lead back to something that they are in."""
        self._measure()

    def _holder(self, node: SchemaNode, above: dict[int, int | None]) -> int | None:
        """Return the nearest node of the graph that holds this one; `above` remembers."""
        passed = []
        found: int | None = None
        while node.parent is not None and node.inner and not (self.skip and self.skip(node)):
            if node.number in above:
                found = above[node.number]
                break
            passed.append(node.number)
            node = node.parent
            if node.number in self.below:
                found = node.number
                break
        for number in passed:
            above[number] = found
        return found

    def _measure(self) -> None:
        state: dict[int, int] = {}
        for start in self.below:
            if start not in state:
                self._descend(start, state)

    def _descend(self, start: int, state: dict[int, int]) -> None:
        stack = [(start, iter(self.below[start]))]
        state[start] = _OPEN
        while stack:
            number, rest = stack[-1]
            for inner in rest:
                known = state.get(inner)
                if known == _OPEN:
                    self.loops.append(self.nodes[number])
                elif known is None:
                    state[inner] = _OPEN
                    stack.append((inner, iter(self.below[inner])))
                    break
            else:
                stack.pop()
                state[number] = _DONE
                highest = max((self.heights[inner] for inner in self.below[number]), default=0)
                self.heights[number] = highest + is_object(self.nodes[number].schema)

    def deepest(self) -> tuple[int, SchemaNode]:
        """Return how many objects are in one another from the root on, and the innermost one."""
        number = innermost = 0
        passed = {0}
        while True:
            if is_object(self.nodes[number].schema):
                innermost = number
            inner = [one for one in self.below[number] if one not in passed]
            if not inner:
                return self.heights[0], self.nodes[innermost]
            number = max(inner, key=self.heights.__getitem__)
            passed.add(number)


class Totals(msgspec.Struct):
    """What is counted over a whole schema."""

    properties: int = 0
    enum_values: int = 0
    names_text: int = 0
    unions: int = 0
    optionals: int = 0


def check_limits(document: Document, report: FindingCollector) -> None:
    """Find what is too deep, too many, too long, or endless."""
    profiles = report.ruleset.profiles
    nesting = Nesting(document) if document.refs else None
    if nesting is not None and nesting.loops:
        _check_recursion(document, nesting, report)
    if any(one.limits.depth is not None for one in profiles):
        depth, innermost = nesting.deepest() if nesting else _deepest(document)
        for one in profiles:
            if one.limits.depth is not None and depth > one.limits.depth:
                message = f"objects are nested {depth} deep; {one.id} takes {one.limits.depth}"
                report.add("depth", innermost.path(), message, Ask("error", (one.id,)))
    counted = [one for one in profiles if one.limits != SchemaLimits()]
    if counted:
        totals = _count(document)
        for one in counted:
            _compare(document, totals, one.id, one.limits, report)


def _deepest(document: Document) -> tuple[int, SchemaNode]:
    """Return how many objects are in one another, and the innermost; there are no references."""
    node = max(document.objects, key=lambda one: one.depth, default=document.nodes[0])
    return node.depth, node


def _check_recursion(document: Document, nesting: Nesting, report: FindingCollector) -> None:
    for node in nesting.loops:
        report.add("recursion", _loop_path(node), "the schema contains itself through this")
    if report.asked("recursion-required"):
        for node in Nesting(document, skip=lambda one: one.optional).loops:
            report.add(
                "recursion-required",
                _loop_path(node),
                "the schema contains itself through this, and no property on the way may be "
                "left out; a nullable one is not enough",
            )


def _loop_path(node: SchemaNode) -> str:
    return node.path("$ref") if "$ref" in node.schema else node.path()


_COUNTED: Final = frozenset(["properties", "enum", "const", "anyOf"])


def _count(document: Document) -> Totals:
    totals = Totals()
    for node in document.nodes:
        schema = node.schema
        if node.inner and _COUNTED.isdisjoint(schema) and schema.get("type").__class__ is not list:
            continue
        properties = schema.get("properties")
        if properties is not None:
            totals.properties += len(properties)
            totals.names_text += sum(map(len, properties))
            required = schema.get("required")
            if isinstance(required, list):
                totals.optionals += len(properties.keys() - set(required))
            else:
                totals.optionals += len(properties)
        values = schema.get("enum")
        if values is not None:
            totals.enum_values += len(values)
            totals.names_text += _text(values)
        if "const" in schema:
            totals.names_text += _text([schema["const"]])
        if not node.inner:
            totals.names_text += len(str(node.steps[-1]))
        if "anyOf" in schema or len(_listed(schema.get("type"))) > 1:
            totals.unions += 1
    return totals


def _listed(types: Any) -> list[str]:
    return types if isinstance(types, list) else []


def _text(values: Iterable[Any]) -> int:
    return sum(len(one) for one in values if isinstance(one, str))


_TOTALS: Final = {
    "properties": ("properties", "{:,} properties in all"),
    "enum_values": ("enum-values", "{:,} enum values in all"),
    "names_text": ("names-text", "{:,} characters of names, enum and const values in all"),
    "unions": ("unions", "{:,} unions (anyOf, or several types) in all"),
    "optionals": ("optionals", "{:,} properties in all are not required"),
}


def _compare(
    document: Document, totals: Totals, name: str, limits: SchemaLimits, report: FindingCollector
) -> None:
    ask = Ask("error", (name,))
    for field, (rule, words) in _TOTALS.items():
        most, found = getattr(limits, field), getattr(totals, field)
        if most is not None and found > most:
            report.add(rule, "", f"{words.format(found)}; {name} takes {most:,}", ask)
    if limits.long_enum_values is None or totals.enum_values <= limits.long_enum_values:
        return
    for node in document.nodes:
        values = node.schema.get("enum")
        if values is None or len(values) <= limits.long_enum_values:
            continue
        size = _text(values)
        if limits.long_enum_text is not None and size > limits.long_enum_text:
            message = (
                f"{len(values):,} values of {size:,} characters; {name} takes "
                f"{limits.long_enum_text:,} in an enum of more than {limits.long_enum_values}"
            )
            report.add("enum-text", node.path("enum"), message, ask)

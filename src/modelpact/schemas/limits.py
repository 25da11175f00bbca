"""Limits: how deep and large a schema is, and whether it contains itself."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from modelpact.schemas.document import Document, SchemaNode, is_object
from modelpact.schemas.profile import Requirement, SchemaLimits
from modelpact.schemas.report import FindingCollector

_VISITING, _DONE = 1, 2
_TOTALS: Final = {
    "properties": ("properties", "{:,} properties in total"),
    "enum_values": ("enum-values", "{:,} enum values in total"),
    "names_text": ("names-text", "{:,} characters of names, enum and const values in total"),
    "unions": ("unions", "{:,} unions (anyOf, or several types) in total"),
    "optionals": ("optionals", "{:,} optional properties in total"),
}
_COUNTED: Final = frozenset(["properties", "enum", "const", "anyOf"])


class NestingGraph:
    """The graph of which node contains which. A definition counts where it is referred to.

    The graph has only objects, references and their targets: nothing else nests or refers back.
    """

    def __init__(self, document: Document, skip: Callable[[SchemaNode], bool] | None = None) -> None:
        self.nodes = document.nodes
        self.skip = skip
        self.below: dict[int, list[int]] = {0: []}
        targets = [document.node_of(document.target(ref.schema["$ref"])) for ref in document.refs]
        known_targets = [target for target in targets if target is not None]
        nodes = [*document.objects, *document.refs, *known_targets]
        self.below |= {node.number: [] for node in nodes}
        containers: dict[int, int | None] = {}
        for number in self.below:
            container = self._container(self.nodes[number], containers)
            if container is not None:
                self.below[container].append(number)
        for node, target in zip(document.refs, targets, strict=True):
            if target is not None:
                self.below[node.number].append(target.number)
        self.heights = dict.fromkeys(self.below, 0)
        self.loops: list[SchemaNode] = []
        """Nodes that refer back to something that contains them."""
        self._measure()

    def _container(self, node: SchemaNode, containers: dict[int, int | None]) -> int | None:
        """Return the nearest node of the graph that contains this one; keep it in `containers`."""
        passed = []
        container: int | None = None
        while node.parent is not None and node.inner and not (self.skip and self.skip(node)):
            if node.number in containers:
                container = containers[node.number]
                break
            passed.append(node.number)
            node = node.parent
            if node.number in self.below:
                container = node.number
                break
        for number in passed:
            containers[number] = container
        return container

    def _measure(self) -> None:
        state: dict[int, int] = {}
        for start in self.below:
            if start not in state:
                self._descend(start, state)

    def _descend(self, start: int, state: dict[int, int]) -> None:
        stack = [(start, iter(self.below[start]))]
        state[start] = _VISITING
        while stack:
            number, rest = stack[-1]
            for inner in rest:
                known = state.get(inner)
                if known == _VISITING:
                    self.loops.append(self.nodes[number])
                elif known is None:
                    state[inner] = _VISITING
                    stack.append((inner, iter(self.below[inner])))
                    break
            else:
                stack.pop()
                state[number] = _DONE
                highest = max((self.heights[inner] for inner in self.below[number]), default=0)
                self.heights[number] = highest + is_object(self.nodes[number].schema)

    def deepest(self) -> tuple[int, SchemaNode]:
        """Return how deep objects are nested from the root on, and the innermost object."""
        number = innermost = 0
        passed = {0}
        while True:
            if is_object(self.nodes[number].schema):
                innermost = number
            inner = [child for child in self.below[number] if child not in passed]
            if not inner:
                return self.heights[0], self.nodes[innermost]
            number = max(inner, key=self.heights.__getitem__)
            passed.add(number)


class SchemaTotals(msgspec.Struct):
    """The counts of a whole schema."""

    properties: int = 0
    enum_values: int = 0
    names_text: int = 0
    unions: int = 0
    optionals: int = 0


def check_limits(document: Document, report: FindingCollector) -> None:
    """Check the depth, the counts and the recursion of a schema."""
    profiles = report.ruleset.profiles
    nesting = NestingGraph(document) if document.refs else None
    if nesting is not None and nesting.loops:
        _check_recursion(document, nesting, report)
    if any(profile.limits.depth is not None for profile in profiles):
        depth, innermost = nesting.deepest() if nesting else _deepest(document)
        for profile in profiles:
            limit = profile.limits.depth
            if limit is not None and depth > limit:
                message = f"objects are nested {depth} deep; {profile.id} allows {limit}"
                requirement = Requirement("error", (profile.id,))
                report.add("depth", innermost.path(), message, requirement)
    limited = [profile for profile in profiles if profile.limits != SchemaLimits()]
    if limited:
        totals = _count(document)
        for profile in limited:
            _compare(document, totals, profile.id, profile.limits, report)


def _deepest(document: Document) -> tuple[int, SchemaNode]:
    """Return the same as `NestingGraph.deepest` for a document without references."""
    node = max(document.objects, key=lambda entry: entry.depth, default=document.nodes[0])
    return node.depth, node


def _check_recursion(document: Document, nesting: NestingGraph, report: FindingCollector) -> None:
    for node in nesting.loops:
        report.add("recursion", _loop_path(node), "the schema contains itself through this reference")
    if report.requires("recursion-required"):
        for node in NestingGraph(document, skip=lambda entry: entry.optional).loops:
            report.add(
                "recursion-required",
                _loop_path(node),
                "the schema contains itself through this reference, and no property on the path "
                "is optional; a nullable one is not enough",
            )


def _loop_path(node: SchemaNode) -> str:
    return node.path("$ref") if "$ref" in node.schema else node.path()


def _count(document: Document) -> SchemaTotals:
    totals = SchemaTotals()
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
            totals.names_text += _text_length(values)
        if "const" in schema:
            totals.names_text += _text_length([schema["const"]])
        if not node.inner:
            totals.names_text += len(str(node.steps[-1]))
        if "anyOf" in schema or len(_as_list(schema.get("type"))) > 1:
            totals.unions += 1
    return totals


def _as_list(types: Any) -> list[str]:
    return types if isinstance(types, list) else []


def _text_length(values: Iterable[Any]) -> int:
    return sum(len(value) for value in values if isinstance(value, str))


def _compare(
    document: Document, totals: SchemaTotals, name: str, limits: SchemaLimits, report: FindingCollector
) -> None:
    requirement = Requirement("error", (name,))
    for field, (rule, template) in _TOTALS.items():
        limit, total = getattr(limits, field), getattr(totals, field)
        if limit is not None and total > limit:
            report.add(rule, "", f"{template.format(total)}; {name} allows {limit:,}", requirement)
    if limits.long_enum_values is None or totals.enum_values <= limits.long_enum_values:
        return
    for node in document.nodes:
        values = node.schema.get("enum")
        if values is None or len(values) <= limits.long_enum_values:
            continue
        size = _text_length(values)
        if limits.long_enum_text is not None and size > limits.long_enum_text:
            message = (
                f"{len(values):,} values of {size:,} characters; {name} allows "
                f"{limits.long_enum_text:,} in an enum of more than {limits.long_enum_values}"
            )
            report.add("enum-text", node.path("enum"), message, requirement)

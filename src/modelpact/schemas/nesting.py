"""How deeply objects nest, and which schemas contain themselves, through references too."""

from collections.abc import Callable

from modelpact.schemas.document import Document, Node, is_object

_OPEN, _DONE = 1, 2


class Nesting:
    """The graph of what holds what. A definition counts where it is referred to.

    Only objects, references and what they lead to are in it: nothing else nests or leads back.
    """

    def __init__(self, document: Document, skip: Callable[[Node], bool] | None = None) -> None:
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
        self.loops: list[Node] = []
        """Nodes that lead back to something that they are in."""
        self._measure()

    def _holder(self, node: Node, above: dict[int, int | None]) -> int | None:
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

    def deepest(self) -> tuple[int, Node]:
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

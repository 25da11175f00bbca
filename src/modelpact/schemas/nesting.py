"""How deeply objects nest, and which schemas contain themselves, through references too."""

from collections.abc import Callable

from modelpact.schemas.document import Document, Node, is_object

_NEW, _OPEN, _DONE = 0, 1, 2


class Nesting:
    """The graph of what holds what. A definition counts where it is referred to."""

    def __init__(self, document: Document, skip: Callable[[Node], bool] | None = None) -> None:
        self.nodes = document.nodes
        self.below: list[list[int]] = [[] for _ in self.nodes]
        for node in self.nodes:
            if node.parent is not None and node.inner and not (skip and skip(node)):
                self.below[node.parent.number].append(node.number)
        for node in document.refs:
            target = document.node_of(document.target(node.schema["$ref"]))
            if target is not None:
                self.below[node.number].append(target.number)
        self.heights = [0] * len(self.nodes)
        self.loops: list[Node] = []
        """Nodes that lead back to something that they are in."""
        self._measure()

    def _measure(self) -> None:
        state = bytearray(len(self.nodes))
        for start in range(len(self.nodes)):
            if state[start] == _NEW:
                self._descend(start, state)

    def _descend(self, start: int, state: bytearray) -> None:
        stack = [(start, iter(self.below[start]))]
        state[start] = _OPEN
        while stack:
            number, rest = stack[-1]
            for inner in rest:
                if state[inner] == _OPEN:
                    self.loops.append(self.nodes[number])
                elif state[inner] == _NEW:
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

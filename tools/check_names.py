"""Check the names and the folders of the source tree; `make lint` runs it.

- A class name is used once, private classes included: a reader who searches for it finds one thing.
- A folder has at most 20 modules.
- Words that say nothing about a value are no identifiers.
"""

import ast
import io
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "modelpact"
MOST_MODULES = 20
VAGUE_WORDS = frozenset(["told", "said", "meant", "unheard"])


def main() -> int:
    """Print every problem and return the exit code."""
    modules = sorted(SOURCE.rglob("*.py"))
    problems = [*repeated_classes(modules), *crowded_folders(modules), *vague_names(modules)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def repeated_classes(modules: list[Path]) -> Iterator[str]:
    """Yield each class name that two classes share."""
    places = defaultdict(list)
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{name_of(module)}:{node.lineno}")
    for name, lines in sorted(places.items()):
        if len(lines) > 1:
            yield f"class {name} is defined {len(lines)} times: {', '.join(lines)}"


def crowded_folders(modules: list[Path]) -> Iterator[str]:
    """Yield each folder with too many modules."""
    counts: defaultdict[Path, int] = defaultdict(int)
    for module in modules:
        counts[module.parent] += module.name != "__init__.py"
    for folder, count in sorted(counts.items()):
        if count > MOST_MODULES:
            yield f"{name_of(folder)} has {count} modules; at most {MOST_MODULES} are allowed"


def vague_names(modules: list[Path]) -> Iterator[str]:
    """Yield each identifier that has a vague word in it."""
    for module in modules:
        source = io.StringIO(module.read_text(encoding="utf-8"))
        for token in tokenize.generate_tokens(source.readline):
            if token.type == tokenize.NAME:
                for word in VAGUE_WORDS.intersection(token.string.lower().split("_")):
                    yield f"{name_of(module)}:{token.start[0]}: {token.string}: “{word}” is vague"


def name_of(path: Path) -> str:
    """Return a path as it stands in the repository."""
    return path.relative_to(SOURCE.parents[1]).as_posix()


if __name__ == "__main__":
    sys.exit(main())

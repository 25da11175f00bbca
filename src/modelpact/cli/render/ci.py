"""Where JSON pointers stand in a text: line and column, for editors and CI systems."""

import bisect
import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from modelpact._version import __version__
from modelpact.schemas.document import steps_of

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


_HERE: Final = None
"""The key under which a tree of wanted places has the pointer of a place itself."""


class _Open:
    """An object or array that is being read: what is wanted in it, and in its next value."""

    __slots__ = ("count", "inside", "is_object", "keyed", "wanted")

    def __init__(self, wanted: dict[Any, Any], is_object: bool) -> None:
        self.wanted, self.is_object = wanted, is_object
        self.inside: dict[Any, Any] = {}
        self.keyed = False
        self.count = 0


def _tree(wanted: Collection[str]) -> dict[Any, Any]:
    """Return pointers as a tree of their steps, so that no pointer is made for every value."""
    root: dict[Any, Any] = {}
    for path in wanted:
        here = root
        for step in steps_of(path):
            here = here.setdefault(step, {})
        here[_HERE] = path
    return root


def places(text: str, wanted: Collection[str]) -> dict[str, tuple[int, int]]:
    """Return line and column, from 1, of each pointer that the text has; a field's are its key's.

    The text must be valid JSON.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found: dict[str, tuple[int, int]] = {}
    stack: list[_Open] = []

    def note(tree: dict[Any, Any], offset: int) -> None:
        where = tree.get(_HERE)
        if where is not None and where not in found:
            line = bisect.bisect_right(starts, offset)
            found[where] = (line, offset - starts[line - 1] + 1)

    for token in _TOKEN.finditer(text):
        sign, inside = token[0], stack[-1] if stack else None
        if sign in ",:":
            continue
        if sign in "]}":
            stack.pop()
            continue
        if inside is None:
            here = _tree(wanted)
            note(here, token.start())
        elif inside.is_object and not inside.keyed:
            inside.keyed = True
            inside.inside = inside.wanted.get(json.loads(sign, strict=False), {})
            note(inside.inside, token.start())
            continue
        elif inside.is_object:
            here, inside.keyed = inside.inside, False
        else:
            here = inside.wanted.get(str(inside.count), {})
            inside.count += 1
            note(here, token.start())
        if sign in "[{":
            stack.append(_Open(here, sign == "{"))
    return found


_RULE = "workload-does-not-fit"


def sarif(findings: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a SARIF 2.1.0 log with a result for each problem."""
    rules = {_RULE: "A workload's model does not meet its needs."}
    return sarif_log(rules, [_result(one) for one in findings if one["problem"]])


def sarif_log(rules: Mapping[str, str], results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a SARIF 2.1.0 log of results that name rules."""
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "modelpact",
                        "version": __version__,
                        "rules": [
                            {"id": rule, "shortDescription": {"text": text}}
                            for rule, text in rules.items()
                        ],
                    }
                },
                "results": list(results),
            }
        ],
    }


def _result(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "ruleId": _RULE,
        "level": "error" if one["fatal"] else "warning",
        "message": {"text": f"{one['name']}: {one['problem']}. " + "; ".join(one["details"])},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": one["file"]},
                    "region": {"startLine": one["line"]},
                }
            }
        ],
    }


def ci_path(path: Path) -> str:
    """Write a path as CI systems want it: from the working directory, with slashes."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def junit(suite: str, findings: Sequence[dict[str, Any]]) -> str:
    """Return a JUnit report with a test case for each workload."""
    failures = sum(1 for one in findings if one["problem"])
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name={quoteattr(suite)} tests="{len(findings)}" failures="{failures}">',
    ]
    for one in findings:
        case = f'  <testcase classname="modelpact" name={quoteattr(one["name"])}'
        if one["problem"]:
            details = escape("\n".join(one["details"]))
            lines += [
                f"{case}>",
                f"    <failure message={quoteattr(one['problem'])}>{details}</failure>",
                "  </testcase>",
            ]
        else:
            lines.append(f"{case}/>")
    lines.append("</testsuite>")
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", "\n".join(lines))

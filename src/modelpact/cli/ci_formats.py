"""Formats that CI systems read: SARIF and JUnit."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from modelpact._version import __version__

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

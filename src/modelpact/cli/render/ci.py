"""Reports in the formats of CI systems: SARIF and JUnit, and the paths in them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact._version import __version__

_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_WORKLOAD_RULE: Final = "workload-does-not-fit"


class WorkloadReport(msgspec.Struct, frozen=True):
    """What a CI system is told about one workload. `problem` is empty if it fits."""

    name: str
    problem: str
    fatal: bool
    details: Sequence[str]
    file: str
    line: int


def ci_path(path: Path) -> str:
    """Write a path as CI systems expect it: relative to the working directory, with slashes."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def sarif_log(rules: Mapping[str, str], results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a SARIF 2.1.0 log; `rules` has a description for each rule of the results."""
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


def sarif_location(uri: str, **region: int) -> dict[str, Any]:
    """Return a location in a file; the region is `startLine` and the like."""
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def workloads_sarif(reports: Sequence[WorkloadReport]) -> dict[str, Any]:
    """Return a SARIF log with a result for each workload that has a problem."""
    results = [
        {
            "ruleId": _WORKLOAD_RULE,
            "level": "error" if report.fatal else "warning",
            "message": {"text": f"{report.name}: {report.problem}. " + "; ".join(report.details)},
            "locations": [sarif_location(report.file, startLine=report.line)],
        }
        for report in reports
        if report.problem
    ]
    return sarif_log({_WORKLOAD_RULE: "A workload's model does not meet its needs."}, results)


def workloads_junit(suite: str, reports: Sequence[WorkloadReport]) -> str:
    """Return a JUnit report with a test case for each workload."""
    from xml.sax.saxutils import escape, quoteattr  # imports ssl and all of urllib

    failures = sum(1 for report in reports if report.problem)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name={quoteattr(suite)} tests="{len(reports)}" failures="{failures}">',
    ]
    for report in reports:
        case = f'  <testcase classname="modelpact" name={quoteattr(report.name)}'
        if report.problem:
            details = escape("\n".join(report.details))
            lines += [
                f"{case}>",
                f"    <failure message={quoteattr(report.problem)}>{details}</failure>",
                "  </testcase>",
            ]
        else:
            lines.append(f"{case}/>")
    lines.append("</testsuite>")
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", "\n".join(lines))

"""Reports in the formats of CI systems: SARIF and JUnit, and the paths in them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from modelpact._version import __version__

if TYPE_CHECKING:
    from modelpact.configuration.check import WorkloadCheck

_NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_WORKLOAD_RULE: Final = "workload-does-not-fit"


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
                        "rules": [{"id": rule, "shortDescription": {"text": text}} for rule, text in rules.items()],
                    }
                },
                "results": list(results),
            }
        ],
    }


def sarif_location(uri: str, **region: int) -> dict[str, Any]:
    """Return a location in a file; the region is `startLine` and the like."""
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def workloads_sarif(checks: Sequence["WorkloadCheck"], path: Path) -> dict[str, Any]:
    """Return a SARIF log with a result for each workload of the file that has a problem."""
    results = [
        {
            "ruleId": _WORKLOAD_RULE,
            "level": "warning" if check.runs else "error",
            "message": {"text": f"{check.workload.name}: {check.problem}. {'; '.join(_details(check))}"},
            "locations": [sarif_location(ci_path(path), startLine=check.workload.line or 1)],
        }
        for check in checks
        if check.problem
    ]
    return sarif_log({_WORKLOAD_RULE: "A workload's model does not meet its needs."}, results)


def workloads_junit(checks: Sequence["WorkloadCheck"]) -> str:
    """Return a JUnit report with a test case for each workload."""
    from xml.sax.saxutils import escape, quoteattr  # imports ssl and all of urllib

    failures = sum(1 for check in checks if check.problem)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name="modelpact check" tests="{len(checks)}" failures="{failures}">',
    ]
    for check in checks:
        case = f'  <testcase classname="modelpact" name={quoteattr(check.workload.name)}'
        if check.problem:
            details = escape("\n".join(_details(check)))
            lines += [
                f"{case}>",
                f"    <failure message={quoteattr(check.problem)}>{details}</failure>",
                "  </testcase>",
            ]
        else:
            lines.append(f"{case}/>")
    lines.append("</testsuite>")
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", "\n".join(lines))


def _details(check: "WorkloadCheck") -> list[str]:
    """Return what a workload's model and fallback miss, and a model that fits."""
    details = [f"{miss.capability} {miss.sentence()}" for miss in check.verdict.missing]
    if check.fallback is not None:
        details += [f"fallback: {miss.capability} {miss.sentence()}" for miss in check.fallback.missing]
    if check.diagnostic is not None and check.diagnostic.suggestion:
        details.append(f"suggestion: {check.diagnostic.suggestion}")
    return details

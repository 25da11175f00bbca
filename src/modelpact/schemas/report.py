"""The findings of the linter."""

from typing import Final

import msgspec

from modelpact.schemas.profile import Level, Requirement, Ruleset

MAX_FINDINGS: Final = 10_000


class SchemaFinding(msgspec.Struct, frozen=True):
    """One finding: a broken rule, its place and its profiles. A note is not a failure."""

    rule: str
    path: str
    """A JSON pointer into the schema; the empty string is the root."""
    message: str
    profiles: tuple[str, ...]
    level: Level = "error"

    def __str__(self) -> str:
        return f"{self.path or '(root)'}: {self.message} [{self.rule}]"


class LintReport(msgspec.Struct, frozen=True):
    """All findings in a schema. A report is true if it is `ok`."""

    findings: tuple[SchemaFinding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return not self.errors

    @property
    def errors(self) -> tuple[SchemaFinding, ...]:
        """The findings that are errors."""
        return tuple(finding for finding in self.findings if finding.level == "error")

    @property
    def notes(self) -> tuple[SchemaFinding, ...]:
        """The findings that are notes."""
        return tuple(finding for finding in self.findings if finding.level == "note")

    def __bool__(self) -> bool:
        return self.ok


class TooManyFindings(Exception):
    """There are more findings than a report may have."""


class FindingCollector:
    """Collects the findings of one run, in their order."""

    __slots__ = ("_findings", "ruleset")

    def __init__(self, ruleset: Ruleset) -> None:
        self.ruleset = ruleset
        self._findings: dict[tuple[str, str, str], Requirement] = {}

    def requires(self, rule: str) -> bool:
        """Whether a profile requires a rule."""
        return rule in self.ruleset.requirements

    def add(self, rule: str, path: str, message: str, requirement: Requirement | None = None) -> None:
        """Add a finding if a profile requires the rule; raise `TooManyFindings` at the limit."""
        requirement = requirement or self.ruleset.requirements.get(rule)
        if requirement is None:
            return
        earlier = self._findings.get((rule, path, message))
        if earlier is not None and earlier.level == requirement.level:
            more = tuple(name for name in requirement.profiles if name not in earlier.profiles)
            requirement = Requirement(requirement.level, (*earlier.profiles, *more))
        elif earlier is None and len(self._findings) >= MAX_FINDINGS:
            raise TooManyFindings
        self._findings[rule, path, message] = requirement

    def add_truncation(self) -> None:
        """Add an error that findings are left out: they may be worse than those that are kept."""
        message = f"more than {MAX_FINDINGS:,} findings; the rest is left out"
        self._findings["findings", "", message] = Requirement("error", self.ruleset.names())

    def report(self) -> LintReport:
        """Return the findings as a report."""
        return LintReport(
            tuple(
                SchemaFinding(rule, path, message, requirement.profiles, requirement.level)
                for (rule, path, message), requirement in self._findings.items()
            )
        )

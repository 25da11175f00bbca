"""What the linter finds."""

from typing import Literal

import msgspec

Level = Literal["error", "note"]


class SchemaFinding(msgspec.Struct, frozen=True):
    """One finding: the rule, where, in words, for which profiles. A note does not make it fail."""

    rule: str
    path: str
    """A JSON pointer into the schema; empty is the root."""
    message: str
    profiles: tuple[str, ...]
    level: Level = "error"

    def __str__(self) -> str:
        return f"{self.path or '(root)'}: {self.message} [{self.rule}]"


class LintReport(msgspec.Struct, frozen=True):
    """Everything that was found in a schema; `if report:` is `if report.ok:`."""

    findings: tuple[SchemaFinding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return not self.errors

    @property
    def errors(self) -> tuple[SchemaFinding, ...]:
        """The findings that are errors."""
        return tuple(one for one in self.findings if one.level == "error")

    @property
    def notes(self) -> tuple[SchemaFinding, ...]:
        """The findings that are notes."""
        return tuple(one for one in self.findings if one.level == "note")

    def __bool__(self) -> bool:
        return self.ok

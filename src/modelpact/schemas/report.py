"""What the linter finds."""

from typing import Final

import msgspec

from modelpact.schemas.profile import Ask, Level, Ruleset


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


MOST_FINDINGS: Final = 10_000


class TooMany(Exception):
    """There are more findings than anyone reads."""


class FindingCollector:
    """The findings of one walk, in the order in which they were made."""

    __slots__ = ("_found", "ruleset")

    def __init__(self, ruleset: Ruleset) -> None:
        self.ruleset = ruleset
        self._found: dict[tuple[str, str, str], Ask] = {}

    def asked(self, rule: str) -> bool:
        """Tell whether a profile asks for a rule."""
        return rule in self.ruleset.asks

    def add(self, rule: str, path: str, message: str, ask: Ask | None = None) -> None:
        """Add a finding, where a profile asks for the rule; raise `TooMany` at the limit."""
        who = ask or self.ruleset.asks.get(rule)
        if who is None:
            return
        before = self._found.get((rule, path, message))
        if before is not None and before.level == who.level:
            more = tuple(name for name in who.profiles if name not in before.profiles)
            who = Ask(who.level, (*before.profiles, *more))
        elif before is None and len(self._found) >= MOST_FINDINGS:
            raise TooMany
        self._found[rule, path, message] = who

    def cut(self) -> None:
        """Say that there is more; it may be worse than what was found, so this is an error."""
        message = f"more than {MOST_FINDINGS:,} findings; the rest is not told"
        self._found["findings", "", message] = Ask("error", self.ruleset.names())

    def done(self) -> LintReport:
        """Return the findings."""
        return LintReport(
            tuple(
                SchemaFinding(rule, path, message, ask.profiles, ask.level)
                for (rule, path, message), ask in self._found.items()
            )
        )

"""Collecting findings: who asks for a rule is looked up, the same is said once."""

from typing import Final

from modelpact.schemas.finding import LintReport, SchemaFinding
from modelpact.schemas.profile import Ask, Ruleset

MOST_FINDINGS: Final = 10_000


class TooMany(Exception):
    """There are more findings than anyone reads."""


class Report:
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

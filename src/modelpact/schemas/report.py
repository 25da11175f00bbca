"""Collecting findings: who asks for a rule is looked up, the same is said once."""

from modelpact.schemas.finding import LintReport, SchemaFinding
from modelpact.schemas.profile import Ask, Ruleset


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
        """Add a finding, where a profile asks for the rule."""
        who = ask or self.ruleset.asks.get(rule)
        if who is None:
            return
        before = self._found.get((rule, path, message))
        if before is not None and before.level == who.level:
            more = tuple(name for name in who.profiles if name not in before.profiles)
            who = Ask(who.level, (*before.profiles, *more))
        self._found[rule, path, message] = who

    def done(self) -> LintReport:
        """Return the findings."""
        return LintReport(
            tuple(
                SchemaFinding(rule, path, message, ask.profiles, ask.level)
                for (rule, path, message), ask in self._found.items()
            )
        )

"""Running a probe: trial by trial, within its budget, until it is done or must stop."""

import secrets
from collections.abc import Callable
from typing import Any, Final

from modelpact.conversation.request import Request
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.evidence.rejection import Rejection, learn_from_rejection
from modelpact.probing.calls import (
    Budget,
    NotStreamed,
    ProbeCalls,
    ProbeStopped,
    UnreadableResponse,
)
from modelpact.probing.plan import ATTEMPTS, CONTEXT_WINDOW, ProbePlan
from modelpact.probing.report import ProbeReport, ProbeResult, claimed
from modelpact.probing.trials import Trial, TrialOutcome, without_effect
from modelpact.probing.window import find_window
from modelpact.vocabulary.capability import CAPABILITIES

_NEWER: Final = "max-completion-tokens"
Progress = Callable[[int, int, str], Any]
"""Told before each trial: how many are done, of how many, and what comes next."""


async def run_probe(
    models: ModelCaller,
    plan: ProbePlan,
    *,
    budget: Budget | None = None,
    on_progress: Progress | None = None,
) -> ProbeReport:
    """Carry a plan out, and report.

    Nothing is recorded as evidence: `record(ledger, *report.learned)` does that.
    """
    probe = Probe(models, plan, budget=budget, on_progress=on_progress)
    return probe.report(await probe.run())


class Probe:
    """A plan that is carried out. Every call is an invocation in the envelope `probe/<id>`."""

    def __init__(
        self,
        models: ModelCaller,
        plan: ProbePlan,
        *,
        budget: Budget | None = None,
        on_progress: Progress | None = None,
    ) -> None:
        self._plan = plan
        self._envelope = f"probe/{secrets.token_hex(8)}"
        provider = plan.resolution.provider_id
        self._calls = ProbeCalls(models, provider, self._envelope, budget or Budget())
        self._run = _Run(plan, self._calls, on_progress or (lambda *_: None))

    async def run(self) -> str:
        """Make every trial; return why that ended early, or an empty text."""
        return await self._run.all()

    def report(self, stopped: str) -> ProbeReport:
        """Report what has been found by now; `stopped` says why there is no more, if there is."""
        plan, calls = self._plan, self._calls
        transcript, digest = calls.transcript()
        return ProbeReport(
            plan.target,
            plan.resolution.provider_id,
            plan.resolution.model,
            self._envelope,
            self._run.results(stopped),
            calls.made,
            calls.spent if calls.priced else None,
            stopped,
            self._run.answered,
            transcript,
            digest,
        )


class _Run:
    def __init__(self, plan: ProbePlan, calls: ProbeCalls, on_progress: Progress) -> None:
        self._plan = plan
        self._calls = calls
        self._tell = on_progress
        self._found: dict[str, ProbeResult] = {}
        self.answered = False

    async def all(self) -> str:
        """Make every trial; return why that ended early, or an empty text."""
        total = 1 + len(self._plan.trials) + self._plan.window
        try:
            self._tell(0, total, "a plain answer")
            await self._begin()
            for done, trial in enumerate(self._plan.trials, 1):
                self._tell(done, total, trial.capability)
                if not self._settled(trial.capability):
                    await self._try(trial)
            if self._plan.window:
                self._tell(total - 1, total, CONTEXT_WINDOW)
                result, why = await find_window(self._calls, self._plan)
                self._found[CONTEXT_WINDOW] = result
                if why:
                    raise ProbeStopped(why)
        except (ProbeStopped, UnreadableResponse) as error:
            return str(error)
        self._tell(total, total, "")
        return ""

    async def _begin(self) -> None:
        """See that a plain request is answered, with either name of the token limit."""
        request = self._plan.first.request
        first = await self._calls.ask(request)
        if isinstance(first, Rejection) and self._plan.api == "openai-chat":
            usual = self._plan.resolution.claim("token-limit-param").value == _NEWER
            self._calls.limit_field = "max_tokens" if usual else "max_completion_tokens"
            again = await self._calls.ask(request)
            first = first if isinstance(again, Rejection) else again
        if isinstance(first, Rejection):
            raise ProbeStopped(f"a plain request is refused: {first.message}")
        self.answered = True

    def results(self, stopped: str) -> tuple[ProbeResult, ...]:
        """Return what was found, and what could not be, in the order of the plan."""
        why = "the probe ended before" if stopped else "nothing showed it"
        return tuple(
            self._found.get(name)
            or ProbeResult(name, "inconclusive", why, claimed(self._plan.resolution, name))
            for name in dict.fromkeys((*self._plan.capabilities, *self._found))
        )

    def _settled(self, name: str) -> bool:
        """Tell whether another trial of the same capability has already succeeded."""
        found = self._found.get(name)
        return found is not None and found.verdict == "supported"

    async def _try(self, trial: Trial) -> None:
        for _ in range(ATTEMPTS):
            try:
                outcome = await self._once(trial)
            except UnreadableResponse as error:
                outcome = TrialOutcome("inconclusive", str(error))
            if outcome.verdict != "ignored":
                break
        self._note(trial, outcome)

    async def _once(self, trial: Trial) -> TrialOutcome:
        try:
            seen = await self._calls.ask(trial.request, streamed=trial.streamed)
        except NotStreamed:
            return without_effect("a whole answer came where a stream was asked for")
        if not isinstance(seen, Rejection):
            outcome = trial.judged(seen)
            if outcome.verdict == "supported" and trial.control is not None:
                return await self._controlled(outcome, trial.control)
            return outcome
        found = self._plan.resolution
        for one in learn_from_rejection(seen, trial.request, found.provider_id, found.model):
            if one.capability != trial.capability and one.support == "unsupported":
                self._keep(one.capability, TrialOutcome("unsupported", one.detail), None)
        return TrialOutcome("unsupported", f"rejected: {seen.message}")

    async def _controlled(self, outcome: TrialOutcome, control: Request) -> TrialOutcome:
        """Believe that a parameter is heeded only where nonsense in its place is refused."""
        if isinstance(await self._calls.ask(control), Rejection):
            return outcome
        return TrialOutcome("inconclusive", "accepted, but so is nonsense in its place")

    def _note(self, trial: Trial, outcome: TrialOutcome) -> None:
        value = trial.value if outcome.verdict == "supported" else None
        if CAPABILITIES[trial.capability].kind == "choice" and value is None:
            # A name that does not work is no statement about the name that does.
            outcome = TrialOutcome("inconclusive", outcome.detail)
        self._keep(trial.capability, outcome, value)
        if outcome.verdict == "supported":
            for name in trial.shows:
                self._keep(name, outcome, None)

    def _keep(self, name: str, outcome: TrialOutcome, value: str | None) -> None:
        said = claimed(self._plan.resolution, name)
        self._found[name] = ProbeResult(name, outcome.verdict, outcome.detail, said, value)

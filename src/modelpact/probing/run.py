"""Running a probe: trial by trial, within its budget, until it is done or has to stop.

The report has what the probe found, beside what the catalog claims. The context window is found by
filling it: the answer must know a word from the prompt's start.
"""

import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec

from modelpact.catalog.claim import Claim
from modelpact.conversation.message import Message, TextBlock
from modelpact.conversation.request import Request
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.evidence import Observation, Rejection, learn_from_rejection
from modelpact.evidence.observation import detail_line
from modelpact.probing.calls import Budget, NotStreamed, ProbeCalls, ProbeStopped, UnreadableResponse
from modelpact.probing.plan import ATTEMPTS, CONTEXT_WINDOW, DEFAULT_WINDOW, WINDOW_CALLS, ProbePlan
from modelpact.probing.trials import Trial, TrialOutcome, TrialVerdict, ignored, supported
from modelpact.vocabulary.capability import CAPABILITIES

_NEWER_LIMIT: Final = "max-completion-tokens"
_SUPPORTED: Final = ("native", "emulated", "restricted")
_CODE_WORD: Final = "marzipan"
_FILLER: Final = "one two three four five six seven eight nine ten "
_FIRST_WINDOW: Final = 1_000
_WINDOW_TOLERANCE: Final = 0.1
"""How near the search comes to the real size: within a tenth."""
OnProgress = Callable[[int, int, str], Any]
"""Called before each trial with the number done, the total, and what comes next."""


class ProbeResult(msgspec.Struct, frozen=True):
    """What a probe found about one capability."""

    capability: str
    verdict: TrialVerdict
    detail: str
    claimed: Claim
    """What the catalog and the operator claim, without evidence."""
    value: int | str | None = None

    @property
    def supported(self) -> bool | None:
        """Whether the model has the capability; None if the probe could not tell."""
        return None if self.verdict == "inconclusive" else self.verdict == "supported"

    @property
    def observed_value(self) -> int | str | tuple[str, ...] | None:
        """The value to record. Levels in the catalog stay if the probe confirms the capability."""
        if self.value is not None or not self.supported:
            return self.value
        claimed = self.claimed.value
        return claimed if isinstance(claimed, tuple) and self.claimed.support == "native" else None

    @property
    def contradicts(self) -> bool:
        """Whether the catalog claims something else."""
        if self.supported is None or not self.claimed.known:
            return False
        if self.supported != (self.claimed.support in _SUPPORTED):
            return True
        return self.value is not None and self.value != self.claimed.value


class ProbeReport(msgspec.Struct, frozen=True):
    """What a probe found and what it cost, with the transcript of its calls."""

    target: str
    provider: str
    model: str
    envelope: str
    results: tuple[ProbeResult, ...]
    calls: int
    spent: int | None
    """In nano-dollars; None if the price is not known."""
    stopped: str
    """Why the probe ended early; empty if it did not."""
    answered: bool
    """Whether the model answered the plain call."""
    transcript: bytes
    """Canonical JSON of the requests and answers."""
    hash: str

    @property
    def contradictions(self) -> tuple[ProbeResult, ...]:
        """The results that contradict the catalog."""
        return tuple(result for result in self.results if result.contradicts)

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The conclusive results as observations, ready to be recorded."""
        return tuple(
            Observation(
                self.provider,
                self.model,
                result.capability,
                "native" if result.supported else "unsupported",
                result.observed_value,
                "probe",
                detail_line(result.detail),
                self.hash,
            )
            for result in self.results
            if result.supported is not None
        )

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "target": self.target,
            "results": [
                {
                    "capability": result.capability,
                    "verdict": result.verdict,
                    "detail": result.detail,
                    "value": result.value,
                    "claimed": msgspec.to_builtins(result.claimed),
                    "contradicts": result.contradicts,
                }
                for result in self.results
            ],
            "contradictions": [result.capability for result in self.contradictions],
            "calls": self.calls,
            "spentNanoUsd": self.spent,
            "stopped": self.stopped or None,
            "envelope": self.envelope,
            "transcript": self.hash,
        }


async def run_probe(
    models: ModelCaller, plan: ProbePlan, *, budget: Budget | None = None, on_progress: OnProgress | None = None
) -> ProbeReport:
    """Run a plan and return its report.

    The report is not recorded: `record(ledger, *report.observations)` does that.
    """
    probe = Probe(models, plan, budget=budget, on_progress=on_progress)
    return probe.report(await probe.run())


class Probe:
    """One run of a plan. Every call is an invocation in the envelope `probe/<id>`."""

    def __init__(
        self,
        models: ModelCaller,
        plan: ProbePlan,
        *,
        budget: Budget | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._plan = plan
        self._envelope = f"probe/{secrets.token_hex(8)}"
        provider = plan.resolution.provider_id
        self._calls = ProbeCalls(models, provider, self._envelope, budget or Budget())
        self._on_progress: OnProgress = on_progress or (lambda *_: None)
        self._results: dict[str, ProbeResult] = {}
        self._answered = False

    async def run(self) -> str:
        """Make every trial. Return why the probe ended early, or an empty string."""
        total = 1 + len(self._plan.trials) + self._plan.window
        try:
            self._on_progress(0, total, "a plain answer")
            await self._check_answers()
            for done, trial in enumerate(self._plan.trials, 1):
                self._on_progress(done, total, trial.capability)
                if not self._is_proved(trial.capability):
                    await self._try(trial)
            if self._plan.window:
                self._on_progress(total - 1, total, CONTEXT_WINDOW)
                await self._find_window()
        except (ProbeStopped, UnreadableResponse) as error:
            return str(error)
        self._on_progress(total, total, "")
        return ""

    def report(self, stopped: str) -> ProbeReport:
        """Return what has been found so far. `stopped` says why there is no more, if so."""
        plan, calls = self._plan, self._calls
        transcript, digest = calls.transcript()
        return ProbeReport(
            plan.target,
            plan.resolution.provider_id,
            plan.resolution.model,
            self._envelope,
            self._all_results(stopped),
            calls.count,
            calls.spent if calls.is_priced else None,
            stopped,
            self._answered,
            transcript,
            digest,
        )

    def _all_results(self, stopped: str) -> tuple[ProbeResult, ...]:
        """Return a result for every capability of the plan, in its order."""
        detail = "the probe ended before" if stopped else "nothing showed it"
        resolution = self._plan.resolution
        return tuple(
            self._results.get(name) or ProbeResult(name, "inconclusive", detail, resolution.without_evidence(name))
            for name in dict.fromkeys((*self._plan.capabilities, *self._results))
        )

    async def _check_answers(self) -> None:
        """Check that the model answers a plain request, with either token limit parameter."""
        request = self._plan.baseline.request
        answer = await self._calls.ask(request)
        if isinstance(answer, Rejection) and self._plan.api == "openai-chat":
            is_newer = self._plan.resolution.claim("token-limit-param").value == _NEWER_LIMIT
            self._calls.limit_field = "max_tokens" if is_newer else "max_completion_tokens"
            second = await self._calls.ask(request)
            answer = answer if isinstance(second, Rejection) else second
        if isinstance(answer, Rejection):
            raise ProbeStopped(f"a plain request is refused: {answer.message}")
        self._answered = True

    def _is_proved(self, name: str) -> bool:
        """Tell whether an earlier trial has proved a capability."""
        result = self._results.get(name)
        return result is not None and result.verdict == "supported"

    async def _try(self, trial: Trial) -> None:
        for _ in range(ATTEMPTS):
            try:
                outcome = await self._try_once(trial)
            except UnreadableResponse as error:
                outcome = TrialOutcome("inconclusive", str(error))
            if outcome.verdict != "ignored":
                break
        self._keep_outcome(trial, outcome)

    async def _try_once(self, trial: Trial) -> TrialOutcome:
        try:
            answer = await self._calls.ask(trial.request, streamed=trial.streamed)
        except NotStreamed:
            return ignored("a whole answer came where a stream was asked for")
        if not isinstance(answer, Rejection):
            outcome = trial.outcome(answer)
            if outcome.verdict == "supported" and trial.control is not None:
                return await self._check_control(outcome, trial.control)
            return outcome
        model = self._plan.resolution
        learned = learn_from_rejection(answer, trial.request, model.provider_id, model.model)
        for observation in learned:
            name = observation.capability
            if name != trial.capability and observation.support == "unsupported":
                self._keep(name, TrialOutcome("unsupported", observation.detail), None)
        return TrialOutcome("unsupported", f"rejected: {answer.message}")

    async def _find_window(self) -> None:
        """Search for the context window, and keep what is known if the search ends early."""
        search = _WindowSearch(self._calls, self._plan)
        try:
            await search.run()
        except (ProbeStopped, UnreadableResponse):
            self._keep(CONTEXT_WINDOW, *search.result())
            raise
        self._keep(CONTEXT_WINDOW, *search.result())

    async def _check_control(self, outcome: TrialOutcome, control: Request) -> TrialOutcome:
        """Accept that a parameter works only if the server rejects an invalid value for it."""
        if isinstance(await self._calls.ask(control), Rejection):
            return outcome
        return TrialOutcome("inconclusive", "accepted, but so is nonsense in its place")

    def _keep_outcome(self, trial: Trial, outcome: TrialOutcome) -> None:
        value = trial.value if outcome.verdict == "supported" else None
        if CAPABILITIES[trial.capability].kind == "choice" and value is None:
            # That one value does not work says nothing about which one does.
            outcome = TrialOutcome("inconclusive", outcome.detail)
        self._keep(trial.capability, outcome, value)
        if outcome.verdict == "supported":
            for name in trial.also_proves:
                self._keep(name, outcome, None)

    def _keep(self, name: str, outcome: TrialOutcome, value: int | str | None) -> None:
        claimed = self._plan.resolution.without_evidence(name)
        self._results[name] = ProbeResult(name, outcome.verdict, outcome.detail, claimed, value)


class _WindowSearch:
    """A search between the largest prompt that fits and the smallest that does not."""

    def __init__(self, calls: ProbeCalls, plan: ProbePlan) -> None:
        self._calls = calls
        self._plan = plan
        claim = plan.resolution.without_evidence(CONTEXT_WINDOW)
        self._guess = claim.value if isinstance(claim.value, int) else DEFAULT_WINDOW
        self._is_claimed = isinstance(claim.value, int) and claim.known
        self._chars_per_token = 4.0  # until the first usage tells
        self._largest_fit = 0
        self._smallest_miss: int | None = None
        self._stated: int | None = None
        """The limit that the server states in a rejection."""
        self._start_lost = False

    async def run(self) -> None:
        """Try smaller and larger prompts until the size is known closely enough."""
        await self._try(min(_FIRST_WINDOW, self._guess // 2))
        calls_left = WINDOW_CALLS - 1
        while calls_left and self._stated is None and not self._is_close():
            await self._try(self._next_size())
            calls_left -= 1

    def result(self) -> tuple[TrialOutcome, int | None]:
        """Return what is known so far, and the size if there is one."""
        if self._stated is not None:
            return supported("the server says so when it is exceeded"), self._stated
        if not self._largest_fit:
            return TrialOutcome("inconclusive", "no prompt was answered"), None
        fits = f"{self._largest_fit:,} tokens fit"
        if self._smallest_miss is None:
            detail = f"{fits}; more was not tried"
            if self._is_claimed and self._largest_fit < self._guess:
                return TrialOutcome("inconclusive", detail), None
            return supported(detail), self._largest_fit
        limit = "longer ones lose their start" if self._start_lost else "longer ones are refused"
        is_confirmed = self._is_claimed and self._largest_fit <= self._guess <= self._smallest_miss
        size = self._guess if is_confirmed else self._largest_fit
        return supported(f"{fits}; {limit}"), size

    def _next_size(self) -> int:
        if self._smallest_miss is not None:
            return (self._largest_fit + self._smallest_miss) // 2
        if self._largest_fit < self._guess * (1 - _WINDOW_TOLERANCE) * 0.98:
            return int(self._guess * (1 - _WINDOW_TOLERANCE))
        if self._largest_fit < self._guess:
            return int(self._guess * (1 + _WINDOW_TOLERANCE))
        return 2 * self._largest_fit

    def _is_close(self) -> bool:
        if self._smallest_miss is None:
            return False
        gap = self._smallest_miss - self._largest_fit
        return gap <= 2.2 * _WINDOW_TOLERANCE * self._smallest_miss

    async def _try(self, tokens: int) -> None:
        request = self._filled_request(tokens)
        answer = await self._calls.ask(request)
        if isinstance(answer, Rejection):
            model = self._plan.resolution
            learned = learn_from_rejection(answer, request, model.provider_id, model.model)
            for observation in learned:
                if observation.capability == CONTEXT_WINDOW and isinstance(observation.value, int):
                    self._stated = observation.value
            self._smallest_miss = min(tokens, self._smallest_miss or tokens)
            return
        counted = answer.response.usage.input
        if _CODE_WORD in answer.response.text.lower():
            self._largest_fit = max(self._largest_fit, counted or tokens)
            if counted:
                length = sum(len(message.text) for message in request.messages)
                self._chars_per_token = length / counted
        else:
            self._start_lost = True
            self._smallest_miss = min(tokens, self._smallest_miss or tokens)

    def _filled_request(self, tokens: int) -> Request:
        repetitions = max(1, int(tokens * self._chars_per_token / len(_FILLER)))
        text = (
            f"The code word is {_CODE_WORD}. Remember it. {_FILLER * repetitions}\n"
            "What is the code word? Answer with that word alone."
        )
        base = self._plan.baseline.request
        return Request(base.model, (Message("user", (TextBlock(text),)),), max_tokens=base.max_tokens, api=base.api)

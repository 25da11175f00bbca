"""The context window, found by filling it: the answer must know a word from the prompt's start."""

from typing import Final

from modelpact.conversation.message import Message, TextBlock
from modelpact.conversation.request import Request
from modelpact.evidence import Rejection, learn_from_rejection
from modelpact.probing.calls import ProbeCalls, ProbeStopped, UnreadableResponse
from modelpact.probing.plan import CONTEXT_WINDOW, DEFAULT_WINDOW, WINDOW_CALLS, ProbePlan
from modelpact.probing.trials import TrialOutcome, supported

_WORD: Final = "marzipan"
_FILLER: Final = "one two three four five six seven eight nine ten "
_FIRST_TOKENS: Final = 1_000
_TOLERANCE: Final = 0.1
"""How near the search comes to the real size: within a tenth."""


async def find_window(calls: ProbeCalls, plan: ProbePlan) -> tuple[TrialOutcome, int | None, str]:
    """Search for the window. Return the outcome, the size if it is known, and why it ended early.

    The last is empty if the search was completed.
    """
    search = _WindowSearch(calls, plan)
    stopped = ""
    try:
        await search.run()
    except (ProbeStopped, UnreadableResponse) as error:
        stopped = str(error)
    return *search.result(), stopped


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
        await self._try(min(_FIRST_TOKENS, self._guess // 2))
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
        if self._largest_fit < self._guess * (1 - _TOLERANCE) * 0.98:
            return int(self._guess * (1 - _TOLERANCE))
        if self._largest_fit < self._guess:
            return int(self._guess * (1 + _TOLERANCE))
        return 2 * self._largest_fit

    def _is_close(self) -> bool:
        if self._smallest_miss is None:
            return False
        gap = self._smallest_miss - self._largest_fit
        return gap <= 2.2 * _TOLERANCE * self._smallest_miss

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
        if _WORD in answer.response.text.lower():
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
            f"The code word is {_WORD}. Remember it. {_FILLER * repetitions}\n"
            "What is the code word? Answer with that word alone."
        )
        base = self._plan.baseline.request
        return Request(
            base.model,
            (Message("user", (TextBlock(text),)),),
            max_tokens=base.max_tokens,
            api=base.api,
        )

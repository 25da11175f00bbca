"""The context window, found by filling it: a word at the start that the answer must know."""

from typing import Final

from modelpact.conversation.message import Message, TextBlock
from modelpact.conversation.request import Request
from modelpact.evidence.rejection import Rejection, learn_from_rejection
from modelpact.probing.calls import ProbeCalls, ProbeStopped, UnreadableResponse
from modelpact.probing.plan import CONTEXT_WINDOW, USUAL_WINDOW, WINDOW_CALLS, ProbePlan
from modelpact.probing.report import ProbeResult, claimed

_WORD: Final = "marzipan"
_FILLER: Final = "one two three four five six seven eight nine ten "
_FIRST: Final = 1_000
_CLOSE: Final = 0.1
"""How near the search comes: within a tenth."""


async def find_window(calls: ProbeCalls, plan: ProbePlan) -> tuple[ProbeResult, str]:
    """Search for the window; also return why the search ended early, or an empty text."""
    search = _Search(calls, plan)
    try:
        return await search.run(), ""
    except (ProbeStopped, UnreadableResponse) as error:
        return search.result(), str(error)


class _Search:
    def __init__(self, calls: ProbeCalls, plan: ProbePlan) -> None:
        self._calls = calls
        self._plan = plan
        self._claim = claimed(plan.resolution, CONTEXT_WINDOW)
        value = self._claim.value
        self._guess = value if isinstance(value, int) else USUAL_WINDOW
        self._known = isinstance(value, int) and self._claim.known
        self._characters = 4.0  # a token's, until usage tells
        self._fits = 0
        self._over: int | None = None
        self._stated: int | None = None
        self._lost = False

    async def run(self) -> ProbeResult:
        """Fill less and more of the window until its size is known closely enough."""
        await self._try(min(_FIRST, self._guess // 2))
        left = WINDOW_CALLS - 1
        while left and self._stated is None and not self._near():
            await self._try(self._next())
            left -= 1
        return self.result()

    def _next(self) -> int:
        if self._over is not None:
            return (self._fits + self._over) // 2
        if self._fits < self._guess * (1 - _CLOSE) * 0.98:
            return int(self._guess * (1 - _CLOSE))
        if self._fits < self._guess:
            return int(self._guess * (1 + _CLOSE))
        return 2 * self._fits

    def _near(self) -> bool:
        if self._over is None:
            return False
        return self._over - self._fits <= 2.2 * _CLOSE * self._over

    async def _try(self, tokens: int) -> None:
        request = self._filled(tokens)
        seen = await self._calls.ask(request)
        if isinstance(seen, Rejection):
            names = (self._plan.resolution.provider_id, self._plan.resolution.model)
            for one in learn_from_rejection(seen, request, *names):
                if one.capability == CONTEXT_WINDOW and isinstance(one.value, int):
                    self._stated = one.value
            self._over = min(tokens, self._over or tokens)
            return
        counted = seen.response.usage.input
        if _WORD in seen.response.text.lower():
            self._fits = max(self._fits, counted or tokens)
            if counted:
                self._characters = sum(len(one.text) for one in request.messages) / counted
        else:
            self._lost = True
            self._over = min(tokens, self._over or tokens)

    def _filled(self, tokens: int) -> Request:
        size = max(1, int(tokens * self._characters / len(_FILLER)))
        text = (
            f"The code word is {_WORD}. Remember it. {_FILLER * size}\n"
            "What is the code word? Answer with that word alone."
        )
        base = self._plan.first.request
        return Request(
            base.model,
            (Message("user", (TextBlock(text),)),),
            max_tokens=base.max_tokens,
            api=base.api,
        )

    def result(self) -> ProbeResult:
        """Say what is known by now."""
        if self._stated is not None:
            return self._found(self._stated, "the server says so when it is exceeded")
        if not self._fits:
            return ProbeResult(
                CONTEXT_WINDOW, "inconclusive", "no prompt was answered", self._claim
            )
        how = "longer ones lose their start" if self._lost else "longer ones are refused"
        if self._over is None:
            if self._known and self._fits < self._guess:
                told = f"{self._fits:,} tokens fit; more was not tried"
                return ProbeResult(CONTEXT_WINDOW, "inconclusive", told, self._claim)
            return self._found(self._fits, f"{self._fits:,} tokens fit; more was not tried")
        if self._known and self._fits <= self._guess <= self._over:
            return self._found(self._guess, f"{self._fits:,} tokens fit; {how}")
        return self._found(self._fits, f"{self._fits:,} tokens fit; {how}")

    def _found(self, size: int, detail: str) -> ProbeResult:
        return ProbeResult(CONTEXT_WINDOW, "supported", detail, self._claim, size)

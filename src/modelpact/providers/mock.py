"""The mock: a scripted provider that can lack capabilities, and is strict about it."""

from collections.abc import AsyncIterator, Callable, Iterable

from modelpact.catalog.claim import ClaimSource
from modelpact.conversation.message import ImageBlock, TextBlock, ToolResultBlock, ToolUseBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Request
from modelpact.conversation.response import Response, StreamEvent, TextDelta, Usage, response_events
from modelpact.needs.token_estimate import tokens_for
from modelpact.providers.port import ProviderError, UnsupportedByProvider
from modelpact.vocabulary.capability import capability

Reply = str | Response | Exception
Script = Iterable["Reply | Callable[[Request], Reply]"]


class MockProvider:
    """Answers from a script, in order; without one it says back what the user said.

    `supports` are the capabilities that it has, by default all; a request that uses another is
    refused, as a real server refuses an unknown field. With `known` each of its models has what
    that says of it, and a window. `requests` are those that it has seen.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        supports: Iterable[str] | None = None,
        known: Callable[[str], ClaimSource] | None = None,
        token_limit_param: str | None = None,
        chunk: int = 7,
        cut_after: int | None = None,
    ) -> None:
        self._script = None if script is None else iter(script)
        self._supports = None if supports is None else {capability(one).id for one in supports}
        self._known = known
        self._token_limit_param = token_limit_param
        self._chunk = max(1, chunk)
        self._cut_after = cut_after
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Response:
        """Answer a request whole."""
        return self._answer(request)

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """Answer a request in small pieces; `cut_after` so many events the stream breaks off."""
        self._require("streaming", "stream", request.model)
        for number, event in enumerate(self._events(self._answer(request))):
            if self._cut_after is not None and number >= self._cut_after:
                return
            yield event

    def _events(self, response: Response) -> Iterable[StreamEvent]:
        for event in response_events(response):
            if isinstance(event, TextDelta):
                for start in range(0, len(event.text), self._chunk):
                    yield TextDelta(event.text[start : start + self._chunk], event.refusal)
            else:
                yield event

    def _answer(self, request: Request) -> Response:
        self._check(request)
        self.requests.append(request)
        reply = self._next(request)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Response):
            return reply
        return Response((TextBlock(reply),), usage=_usage(request, reply), model=request.model)

    def _next(self, request: Request) -> Reply:
        if self._script is None:
            said = [one.text for one in request.messages if one.role == "user" and one.text]
            return f"You said: {said[-1]}" if said else "You said nothing."
        try:
            step = next(self._script)
        except StopIteration:
            raise ProviderError("the mock's script is at its end") from None
        if isinstance(step, (str, Response, Exception)):
            return step
        return step(request)

    def _check(self, request: Request) -> None:
        """Refuse what the mock does not have."""
        if not request.messages:
            raise ProviderError("messages: at least one is needed", status=400)
        blocks = [block for message in request.messages for block in message.content]
        uses = {
            "tool-calling": bool(request.tools)
            or any(isinstance(block, (ToolUseBlock, ToolResultBlock)) for block in blocks),
            "tool-choice": request.tool_choice is not None,
            "structured-output": isinstance(request.output, JsonSchema),
            "json-object": isinstance(request.output, JsonObject),
            "reasoning": request.reasoning is not None,
            "stop-sequences": bool(request.stop),
            "streaming": request.stream,
            "system-messages": any(one.role == "system" for one in request.messages),
            "image-input": any(isinstance(block, ImageBlock) for block in blocks),
            "temperature": request.temperature is not None,
            "top-p": request.top_p is not None,
            "top-k": request.top_k is not None,
        }
        for name, used in uses.items():
            if used:
                self._require(name, name, request.model)
        self._check_window(request)
        wanted = self._token_limit_param
        if wanted and request.max_tokens is not None and request.token_limit_param != wanted:
            raise ProviderError(
                f"{request.token_limit_param}: use {wanted} with this model", status=400
            )

    def _require(self, name: str, field: str, model: str) -> None:
        lacking = self._supports is not None and name not in self._supports
        if self._known is not None and not lacking:
            lacking = self._known(model).claim(name).support == "unsupported"
        if lacking:
            raise UnsupportedByProvider(name, field)

    def _check_window(self, request: Request) -> None:
        window = None if self._known is None else self._known(request.model).claim("context-window")
        asked = _asked(request)
        if window is not None and isinstance(window.value, int) and asked > window.value:
            raise ProviderError(
                f"This model's maximum context length is {window.value} tokens. However, your "
                f"messages resulted in {asked} tokens. Please reduce the length of the messages.",
                status=400,
            )


def _usage(request: Request, answer: str) -> Usage:
    return Usage(_asked(request), tokens_for(len(answer)))


def _asked(request: Request) -> int:
    return tokens_for(sum(len(message.text) for message in request.messages))

"""The port, which is the interface of every model provider, and a mock provider for tests."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Protocol

from modelpact.catalog.claim import ClaimSource
from modelpact.conversation.message import ImageBlock, TextBlock, ToolResultBlock, ToolUseBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Request
from modelpact.conversation.response import Response, StreamEvent, TextDelta, Usage, response_events
from modelpact.needs.token_estimate import tokens_for
from modelpact.vocabulary.capability import capability
from modelpact.vocabulary.errors import ModelpactError

ScriptedReply = str | Response | Exception
Script = Iterable["ScriptedReply | Callable[[Request], ScriptedReply]"]


class ProviderError(ModelpactError):
    """A provider rejected a request or failed; `status` is its HTTP status, if any."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class UnsupportedByProvider(ProviderError):
    """A request uses a capability that the model does not have."""

    def __init__(self, capability: str, field: str) -> None:
        self.capability = capability
        super().__init__(f"{field}: the model does not support {capability}", status=400)


class ModelPort(Protocol):
    """A model provider. A stream that ends without `Finish` was cut off."""

    async def complete(self, request: Request) -> Response:
        """Return the whole response to a request."""

    def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """Yield the events of a streamed response."""


class MockProvider:
    """Responds from a script, in order. Without a script it echoes the last user message.

    `supports` lists the capabilities that it has, by default all; a request that uses another one
    is rejected, as real servers reject an unknown field. With `known`, the claims about each model
    decide instead, and its context window is enforced. `requests` collects all requests.
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
        self._supports = None if supports is None else {capability(name).id for name in supports}
        self._known = known
        self._token_limit_param = token_limit_param
        self._chunk = max(1, chunk)
        self._cut_after = cut_after
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Response:
        """Return the whole response to a request."""
        return self._respond(request)

    async def stream(self, request: Request) -> AsyncIterator[StreamEvent]:
        """Yield a response in small parts; end the stream early after `cut_after` events."""
        self._require("streaming", "stream", request.model)
        for number, event in enumerate(self._events(self._respond(request))):
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

    def _respond(self, request: Request) -> Response:
        self._check(request)
        self.requests.append(request)
        reply = self._next(request)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Response):
            return reply
        return Response((TextBlock(reply),), usage=_usage(request, reply), model=request.model)

    def _next(self, request: Request) -> ScriptedReply:
        if self._script is None:
            texts = [message.text for message in request.messages if message.role == "user" and message.text]
            return f"You said: {texts[-1]}" if texts else "You said nothing."
        try:
            step = next(self._script)
        except StopIteration:
            raise ProviderError("the script of the mock has ended") from None
        if isinstance(step, (str, Response, Exception)):
            return step
        return step(request)

    def _check(self, request: Request) -> None:
        """Reject a request that uses what the mock does not have."""
        if not request.messages:
            raise ProviderError("messages: expected at least one", status=400)
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
            "system-messages": any(message.role == "system" for message in request.messages),
            "image-input": any(isinstance(block, ImageBlock) for block in blocks),
            "temperature": request.temperature is not None,
            "top-p": request.top_p is not None,
            "top-k": request.top_k is not None,
        }
        for name, used in uses.items():
            if used:
                self._require(name, name, request.model)
        self._check_window(request)
        expected = self._token_limit_param
        if expected and request.max_tokens is not None and request.token_limit_param != expected:
            raise ProviderError(f"{request.token_limit_param}: use {expected} with this model", status=400)

    def _require(self, name: str, field: str, model: str) -> None:
        missing = self._supports is not None and name not in self._supports
        if self._known is not None and not missing:
            missing = self._known(model).claim(name).support == "unsupported"
        if missing:
            raise UnsupportedByProvider(name, field)

    def _check_window(self, request: Request) -> None:
        window = None if self._known is None else self._known(request.model).claim("context-window")
        tokens = _prompt_tokens(request)
        if window is not None and isinstance(window.value, int) and tokens > window.value:
            raise ProviderError(
                f"This model's maximum context length is {window.value} tokens. However, your "
                f"messages resulted in {tokens} tokens. Please reduce the length of the messages.",
                status=400,
            )


def _usage(request: Request, text: str) -> Usage:
    return Usage(_prompt_tokens(request), tokens_for(len(text)))


def _prompt_tokens(request: Request) -> int:
    return tokens_for(sum(len(message.text) for message in request.messages))

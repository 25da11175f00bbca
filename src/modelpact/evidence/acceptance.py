"""What an answer shows: only what could not have come about otherwise.

That a server took a parameter does not show that the model heeded it, so a seed, a temperature or
a schema in a request that went well teach nothing. A tool call, an answer in pieces and reasoning
that was done are there or are not.
"""

from collections.abc import Sequence

from modelpact.conversation.request import Request
from modelpact.conversation.response import (
    Response,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
)
from modelpact.evidence.learned import Learned


def what_use_shows(
    request: Request,
    response: Response,
    provider: str,
    model: str,
    *,
    events: Sequence[StreamEvent] = (),
) -> tuple[Learned, ...]:
    """Return what a good answer proves; `events` are those of a stream."""
    offered = {tool.name for tool in request.tools}
    proved = {
        "streaming": sum(isinstance(one, (TextDelta, ThinkingDelta, ToolCall)) for one in events)
        > 1,
        "tool-calling": any(call.name in offered for call in response.tool_calls),
        "reasoning": bool(response.usage.reasoning or response.thinking),
    }
    return tuple(
        Learned(provider, model, name, "native", origin="use", detail=_SEEN[name])
        for name, seen in proved.items()
        if seen
    )


_SEEN = {
    "streaming": "the answer came in pieces",
    "tool-calling": "the model called a tool that it was offered",
    "reasoning": "the answer came with reasoning",
}

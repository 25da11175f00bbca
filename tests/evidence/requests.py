"""Requests for the tests of rejections."""

from modelpact.conversation.message import ImageBlock, Message, TextBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Reasoning, Request, Tool, ToolChoice

PLAIN = Request("m", (Message("user", (TextBlock("Hello"),)),))


def using_everything(*, schema: bool = True) -> Request:
    """Return a request that uses every capability that a server can reject."""
    return Request(
        "m",
        (
            Message("system", (TextBlock("Be kind."),)),
            Message("user", (ImageBlock(url="https://example.com/cat.png"),)),
            Message("assistant", (TextBlock("A cat"),)),
        ),
        tools=(Tool("look"),),
        tool_choice=ToolChoice("auto"),
        parallel_tool_calls=True,
        output=JsonSchema({"type": "object"}) if schema else JsonObject(),
        reasoning=Reasoning("low", 1024),
        max_tokens=5,
        temperature=0.2,
        top_p=0.5,
        top_k=3,
        stop=("x",),
        stream=True,
        extras=dict.fromkeys(("seed", "logprobs", "frequency_penalty", "presence_penalty", "logit_bias", "n"), 1),
    )

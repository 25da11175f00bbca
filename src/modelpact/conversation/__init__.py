"""Conversations: messages, requests and responses, independent of any provider's API.

The packages `openai_chat`, `openai_responses` and `anthropic` read and write the bodies of one API
each; `codecs` is the table of them. Pure: nothing here does I/O.
"""

from modelpact.conversation.fidelity import Fidelity, Loss, TranslatedBody
from modelpact.conversation.message import (
    Block,
    Conversation,
    ImageBlock,
    Message,
    OtherBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    read_conversation,
    write_conversation,
)
from modelpact.conversation.request import (
    JsonObject,
    JsonSchema,
    Reasoning,
    Request,
    Tool,
    ToolChoice,
)
from modelpact.conversation.response import (
    BlockEnd,
    Finish,
    OpaqueBlock,
    Response,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    Usage,
)

__all__ = [
    "Block",
    "BlockEnd",
    "Conversation",
    "Fidelity",
    "Finish",
    "ImageBlock",
    "JsonObject",
    "JsonSchema",
    "Loss",
    "Message",
    "OpaqueBlock",
    "OtherBlock",
    "Reasoning",
    "Request",
    "Response",
    "StreamEvent",
    "TextBlock",
    "TextDelta",
    "ThinkingBlock",
    "ThinkingDelta",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "ToolResultBlock",
    "ToolUseBlock",
    "TranslatedBody",
    "Usage",
    "read_conversation",
    "write_conversation",
]

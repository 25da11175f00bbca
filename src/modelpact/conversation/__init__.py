"""Conversations: messages and blocks, requests and answers, and their APIs' spellings. Pure.

May import `vocabulary` only.
"""

from modelpact.conversation.anthropic import from_anthropic, to_anthropic
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
from modelpact.conversation.openai_chat import from_openai_chat, to_openai_chat
from modelpact.conversation.openai_responses import from_openai_responses, to_openai_responses
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
    "from_anthropic",
    "from_openai_chat",
    "from_openai_responses",
    "read_conversation",
    "to_anthropic",
    "to_openai_chat",
    "to_openai_responses",
    "write_conversation",
]

"""What rejected requests teach, and what they do not."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.conversation.message import Message, TextBlock
from modelpact.conversation.request import Request
from modelpact.evidence import Observation, Rejection, learn_from_rejection
from modelpact.evidence.rejection import RejectionPattern, rejection_patterns
from modelpact.providers.models import NotTranslatable, UpstreamError
from modelpact.providers.port import ProviderError, UnsupportedByProvider
from modelpact.vocabulary.capability import CAPABILITIES
from tests.evidence.requests import PLAIN, using_everything

PATTERNS = rejection_patterns().patterns
FIELDS = rejection_patterns().fields
EXAMPLES = [pattern.example for pattern in PATTERNS]
EVERY_PATTERN = pytest.mark.parametrize("pattern", PATTERNS, ids=[example[:50] for example in EXAMPLES])


def as_text(learned: tuple[Observation, ...]) -> str:
    """Write observations as `RejectionPattern.teaches` does."""
    parts = []
    for observation in learned:
        value = ",".join(observation.value) if isinstance(observation.value, tuple) else observation.value
        parts.append(observation.capability if value is None else f"{observation.capability}={value}")
    return " ".join(parts)


def teaches(message: str, status: int = 400, **more: Any) -> str:
    rejection = Rejection(message, status, **more)
    return as_text(learn_from_rejection(rejection, using_everything(), "local", model_in(message)))


def model_in(message: str) -> str:
    """Return the model that was asked: the one that the message names, if it names one."""
    return "grok-4" if "grok-4" in message else "m"


@EVERY_PATTERN
def test_every_pattern_teaches_what_its_example_says(pattern: RejectionPattern) -> None:
    request = using_everything(schema=pattern.teaches != "json-object")
    for status in pattern.statuses:
        rejection = Rejection(pattern.example, status)
        learned = learn_from_rejection(rejection, request, "local", model_in(pattern.example))
        assert as_text(learned) == pattern.teaches
        assert learned[0].origin == "use"
        assert learned[0].support == ("native" if "=" in pattern.teaches else "unsupported")


@EVERY_PATTERN
def test_only_what_the_request_uses_is_learned(pattern: RejectionPattern) -> None:
    """A message may quote a prompt: what the request did not use is not learned from it."""
    learned = learn_from_rejection(Rejection(pattern.example, 400), PLAIN, "local", "m")
    limits = ("context-window", "max-input", "max-output")
    assert all(observation.capability in limits for observation in learned)


@pytest.mark.parametrize("status", [None, 200, 401, 402, 403, 408, 409, 429, 500, 502, 503, 529])
def test_other_statuses_teach_nothing(status: int | None) -> None:
    for pattern in PATTERNS:
        rejection = Rejection(pattern.example, status)
        assert learn_from_rejection(rejection, using_everything(), "local", "m") == ()


@pytest.mark.parametrize(
    "message",
    [
        "Rate limit reached for gpt-4o: Limit 30000 tokens per min. Requested 40000.",
        "You exceeded your current quota, please check your plan and billing details.",
        "The response was filtered due to the prompt triggering Azure OpenAI's content management "
        "policy. Your tools is not supported in this model.",
        "Incorrect API key provided. Streaming is not supported.",
        "Your organization must be verified to stream this model. 'stream' does not support true",
        "The model `gpt-9` does not exist or you do not have access to it.",
        "x cannot express this request, nothing was sent: top_k: this API does not support tools",
    ],
)
def test_failures_that_are_not_about_the_model_teach_nothing(message: str) -> None:
    assert teaches(message) == ""


@pytest.mark.parametrize(
    "message",
    [
        "`temperature` may only be set to 1 when thinking is enabled.",
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        "This model doesn't support tool use in streaming mode.",
        "'tool_choice' is only allowed when 'tools' are specified.",
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
        "Thinking may not be enabled when tool_choice forces tool use.",
    ],
)
def test_a_rejected_combination_teaches_nothing_about_its_parts(message: str) -> None:
    assert teaches(message) == ""


@pytest.mark.parametrize(
    "message",
    [
        "Invalid schema for response_format 'answer': 'additionalProperties' is required to be "
        "supplied and to be false.",
        "Missing required parameter: 'messages'.",
        "Invalid type for 'temperature': expected a number, but got a string instead.",
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2.",
        "Tool choice 'nothing' not found in 'tools' parameter.",
        "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
        "We could not parse the JSON body of your request.",
        "Unknown parameter: 'mesages'.",
    ],
)
def test_mistakes_in_the_request_teach_nothing(message: str) -> None:
    assert teaches(message) == ""


@pytest.mark.parametrize(
    ("message", "status", "learned"),
    [
        ("No endpoints found that support tool use. Try disabling \"now\".", 404, "tool-calling"),
        ("codellama:latest does not support tools", 400, "tool-calling"),
        ("deepseek-reasoner does not support Function Calling", 400, "tool-calling"),
        ("This model doesn't support tool use.", 400, "tool-calling"),
        ("messages.0.content.0: this model does not support image input", 400, "image-input"),
        ("llava is not a multimodal model", 400, "image-input"),
        ("At most 0 image(s) may be provided in one request.", 400, "image-input"),
        ("thinking: claude-3-5-haiku does not support thinking", 400, "reasoning"),
        ("Unsupported value: 'messages[0].role' does not support 'system' with this model.", 400,
         "system-messages"),
        ("System role not supported", 400, "system-messages"),
        ("output_config.format: claude-x does not support output formats", 400,
         "structured-output"),
        ("'response_format.type' must be 'json_schema'", 400, ""),
        ("Model grok-4 does not support parameter presencePenalty.", 400, "presence-penalty"),
        ("Unrecognized request argument supplied: max_completion_tokens", 400,
         "token-limit-param=max-tokens"),
        ("This endpoint's maximum context length is 163,840 tokens. However, you requested about "
         "200000 tokens.", 400, "context-window=163840"),
        ("This model's maximum context length has been exceeded.", 400, ""),
        ("Input is too long for requested model.", 400, ""),
        ("1 validation error for ChatCompletionRequest\ntool_choice\n  Extra inputs are not "
         "permitted [type=extra_forbidden]", 400, "tool-choice"),
    ],
)  # fmt: skip
def test_messages_of_many_servers(message: str, status: int, learned: str) -> None:
    assert teaches(message, status) == learned


def test_a_named_field_is_enough_with_an_unsupported_parameter_code() -> None:
    fields: dict[str, Any] = {"code": "unsupported_parameter", "param": "top_p"}
    assert teaches("This is not possible here.", **fields) == "top-p"
    assert teaches("This is not possible here.", param="top_p") == ""


def test_a_rejection_is_read_from_the_error_that_was_raised() -> None:
    cause = UpstreamError(
        "local answered 400 (unsupported_value): Unsupported value: 'temperature' does not support "
        "0.2 with this model. Only the default (1) value is supported.",
        status=400,
        code="unsupported_value",
        param="temperature",
    )
    wrapped = ProviderError("the call failed")
    wrapped.__cause__ = cause
    for error in (cause, wrapped):
        (learned,) = learn_from_rejection(error, using_everything(), "local", "m")
        assert learned.capability == "temperature"
        assert learned.detail.startswith("rejected: Unsupported value: 'temperature'")


def test_a_request_that_was_never_sent_teaches_nothing() -> None:
    error = NotTranslatable("local", [])
    assert learn_from_rejection(error, using_everything(), "local", "m") == ()


def test_a_provider_may_name_the_missing_capability() -> None:
    error = UnsupportedByProvider("stop-sequences", "stop")
    (learned,) = learn_from_rejection(error, using_everything(), "mock", "m")
    assert (learned.capability, learned.support) == ("stop-sequences", "unsupported")
    assert learn_from_rejection(error, PLAIN, "mock", "m") == ()


def test_every_field_leads_to_a_capability() -> None:
    assert {name for name in FIELDS.values() if name != "output"} <= set(CAPABILITIES)


@given(
    message=st.one_of(st.text(max_size=300), st.sampled_from(EXAMPLES)),
    more=st.text(max_size=80),
    status=st.one_of(st.none(), st.sampled_from([400, 404, 413, 422, 429, 500]), st.integers()),
    code=st.text(max_size=20),
    param=st.one_of(st.text(max_size=30), st.sampled_from(sorted(FIELDS))),
    names=st.tuples(st.text(max_size=10), st.text(max_size=10)),
    capability=st.text(max_size=20),
)
def test_no_message_raises(
    message: str, more: str, status: int | None, code: str, param: str, names: tuple[str, str], capability: str
) -> None:
    """Whatever comes, what is learned is a valid statement of something that was used."""
    rejection = Rejection(f"{more}{message}{more}", status, code, param, capability)
    for observation in learn_from_rejection(rejection, using_everything(), *names):
        assert observation.capability in CAPABILITIES
        assert status in (400, 404, 413, 415, 422)


def test_a_long_message_is_read_quickly() -> None:
    for piece in ("unsupported parameter: ", "a" * 50 + ".", "' is not supported", "model "):
        assert teaches(piece * 20_000) == ""


def saying(text: str) -> Request:
    whole = using_everything()
    messages = (*whole.messages[:1], Message("user", (TextBlock(text),)))
    return msgspec.structs.replace(whole, messages=messages)


@EVERY_PATTERN
@pytest.mark.parametrize("frame", ["Invalid input: {}", "Could not parse: {}", "in '{}'"])
def test_the_text_of_the_request_teaches_nothing(pattern: RejectionPattern, frame: str) -> None:
    """MP-C10: A server that repeats the prompt must not teach what the prompt says."""
    request = saying(f"Please explain: {pattern.example} Thank you.")
    rejection = Rejection(frame.format(pattern.example), 400)
    assert learn_from_rejection(rejection, request, "local", model_in(pattern.example)) == ()


@pytest.mark.parametrize(
    "message",
    [
        'The document says "tools is not supported in this model." and cannot be read',
        "Bad text: 'streaming is not supported here, the maximum context length is 9000'",
        "Could not parse `what is this? tools is not supported in this model",
        "This prompt violates our policy: tools is not supported in this model",
        "Streaming is not supported with tools",
        "tools is not supported in this model together with a schema",
        "This model does not support images when a system prompt is given",
        "Tool choice is not supported by this model with streaming",
        "This model's maximum context length is 12 tokens.",
        "Your organization does not support streaming",
        "This account does not support tools",
        "Your plan does not support images",
        "This key does not support streaming",
        "The free tier does not support tools",
        "Model gpt-3.5-turbo does not support tools",
        "'qwen-7b' does not support thinking",
    ],
)
def test_messages_about_another_model_teach_nothing(message: str) -> None:
    learned = learn_from_rejection(Rejection(message, 400), using_everything(), "local", "gpt-4o")
    assert learned == ()


def test_a_longer_name_of_the_same_model_is_accepted() -> None:
    message = "Model gpt-4o-2024-08-06 does not support tools"
    learned = learn_from_rejection(Rejection(message, 400), using_everything(), "local", "gpt-4o")
    assert as_text(learned) == "tool-calling"

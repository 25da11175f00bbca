"""Trials: a trial is one call that shows whether a model has a capability, and its judge."""

import base64
import hashlib
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from modelpact.catalog.resolution import Resolution
from modelpact.conversation.message import Block, ImageBlock, Message, TextBlock
from modelpact.conversation.request import JsonObject, JsonSchema, Reasoning, Request, Tool, ToolChoice
from modelpact.conversation.response import Response
from modelpact.emulation.validation import Schema

ANSWER_TOKENS: Final = 96
"""The output tokens that a trial allows, apart from reasoning."""
_REASONING_TOKENS: Final = {"native": 1_024, "unknown": 512}
"""Output tokens added for reasoning, by what the catalog claims about it."""
_THINKING_BUDGET: Final = 1_024
_TOKEN_LIMIT: Final = 16
"""The output limit of the trials that check whether the model keeps to it."""
_TOOL: Final = Tool(
    "record_reading",
    {
        "type": "object",
        "properties": {"station": {"type": "string"}, "celsius": {"type": "integer"}},
        "required": ["station", "celsius"],
        "additionalProperties": False,
    },
    "Record the temperature that a station reads.",
)
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "zq_kind": {"type": "string", "enum": ["vorn", "plim"]},
        "zq_total": {"type": "integer"},
        "zq_parts": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["zq_kind", "zq_total", "zq_parts"],
    "additionalProperties": False,
}
"""A schema with names that no model would choose by itself."""
_PARAMETERS: Final[Mapping[str, Any]] = {
    "temperature": 0.5,
    "top-p": 0.5,
    "top-k": 5,
    "seed": 7,
    "frequency-penalty": 0.5,
    "presence-penalty": 0.5,
    "logit-bias": {"1": 1},
}
_NONSENSE: Final = "nonsense"
_NOT_OVER_ANTHROPIC: Final = frozenset(
    {"json-object", "token-limit-param", "logprobs", "seed", "frequency-penalty", "presence-penalty", "logit-bias"}
)
"""Capabilities that the Anthropic API has no field for."""
COLOURS: Final[dict[str, tuple[int, int, int]]] = {
    "red": (220, 20, 20),
    "green": (20, 160, 40),
    "blue": (20, 40, 220),
    "yellow": (250, 220, 20),
}
_PICTURE_SIDE: Final = 32
_COUNT: Final = "Count from 1 to 30 in digits, separated by spaces."
_HELLO: Final = "Say hello."


TrialVerdict = Literal["supported", "unsupported", "ignored", "inconclusive"]
"""`ignored`: the server accepted the request, but it had no effect. That is unsupported too."""


class ProbeResponse(msgspec.Struct, frozen=True):
    """A response, and the number of partials it was streamed in."""

    response: Response
    partials: int = 1


class TrialOutcome(msgspec.Struct, frozen=True):
    """What one trial showed."""

    verdict: TrialVerdict
    detail: str = ""


class Trial(msgspec.Struct, frozen=True):
    """One call for one capability. A good answer also proves the capabilities in `also_proves`.

    `value` is the capability's value if the trial succeeds. `control` has nonsense as the
    parameter's value: a server that accepts that too does not look at the parameter.
    """

    capability: str
    request: Request
    judge: Callable[[ProbeResponse], TrialOutcome]
    streamed: bool = False
    also_proves: tuple[str, ...] = ()
    control: Request | None = None
    value: str | None = None

    @property
    def proves(self) -> tuple[str, ...]:
        """The capabilities that a good answer proves."""
        return (self.capability, *self.also_proves)

    def outcome(self, answer: ProbeResponse) -> TrialOutcome:
        """Judge an answer. One that ended early proves nothing against the model."""
        outcome = self.judge(answer)
        if outcome.verdict != "ignored":
            return outcome
        response = answer.response
        if response.stop_reason == "length":
            limit = self.request.max_tokens
            return TrialOutcome("inconclusive", f"the answer was cut off at {limit} tokens")
        if response.stop_reason == "refusal":
            return TrialOutcome("inconclusive", "the model refused to answer")
        return outcome


def supported(detail: str) -> TrialOutcome:
    """Return the outcome of a trial that proves its capability."""
    return TrialOutcome("supported", detail)


def ignored(detail: str) -> TrialOutcome:
    """Return the outcome of a trial that was accepted but had no effect."""
    return TrialOutcome("ignored", f"silently ignored: {detail}")


def trials(resolution: Resolution, api: str) -> Iterator[Trial]:
    """Yield every trial that can be made over an API, the cheap and informative ones first."""
    builder = _TrialBuilder(resolution, api)
    built = (
        builder.streaming(),
        builder.system(),
        *builder.tools(),
        *builder.outputs(),
        builder.image(),
        *builder.reasoning(),
        *builder.token_limits(),
        *builder.parameters(),
    )
    for trial in built:
        if api == "anthropic" and trial.capability in _NOT_OVER_ANTHROPIC:
            continue
        yield trial


def baseline(resolution: Resolution, api: str) -> Trial:
    """Return the plain call that a model must answer before its capabilities are tried."""
    request = _TrialBuilder(resolution, api).plain("Reply with the word ok.")
    return Trial("", request, lambda _: supported("it answers"))


def picture(colour: str) -> str:
    """Return a small PNG of one colour, in base64."""
    row = b"\x00" + bytes(COLOURS[colour]) * _PICTURE_SIDE
    header = struct.pack(">IIBBBBB", _PICTURE_SIDE, _PICTURE_SIDE, 8, 2, 0, 0, 0)
    chunks = (
        _png_chunk(b"IHDR", header),
        _png_chunk(b"IDAT", zlib.compress(row * _PICTURE_SIDE, 9)),
        _png_chunk(b"IEND", b""),
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()


class _TrialBuilder:
    """Builds the trials of one model."""

    def __init__(self, resolution: Resolution, api: str) -> None:
        self.api = api
        self.target = resolution.target
        self._limit_param = resolution.claim("token-limit-param").value
        reasoning = _REASONING_TOKENS.get(resolution.claim("reasoning").support, 0)
        max_tokens = ANSWER_TOKENS + reasoning
        self._base = Request(resolution.model, (), max_tokens=max_tokens, api=api)

    def plain(self, text: str, **fields: Any) -> Request:
        """Return a request with one user message."""
        return self._request((Message("user", (TextBlock(text),)),), **fields)

    def _request(self, messages: tuple[Message, ...], **fields: Any) -> Request:
        return msgspec.structs.replace(self._base, messages=messages, **fields)

    def streaming(self) -> Trial:
        """Try whether the response is streamed in more than one partial."""

        def judge(answer: ProbeResponse) -> TrialOutcome:
            if answer.partials > 1:
                return supported("the response was streamed in several partials")
            return ignored("the whole answer came at once")

        return Trial("streaming", self.plain(_COUNT), judge, streamed=True)

    def system(self) -> Trial:
        """Try whether a system message is obeyed."""
        orders = "Whatever you are asked, answer with the single word plumage and nothing else."
        messages = (Message("system", (TextBlock(orders),)), Message("user", (TextBlock("What is two plus two?"),)))

        def judge(answer: ProbeResponse) -> TrialOutcome:
            if "plumage" in answer.response.text.lower():
                return supported("the instruction was obeyed")
            return ignored("the instruction was not obeyed")

        return Trial("system-messages", self._request(messages), judge)

    def tools(self) -> Iterator[Trial]:
        """Try whether tools are called: by choice, when forced, and several at once."""
        single = "Record this with the tool: station Kilo reads 17 degrees Celsius."
        double = "Record both with the tool at once: station Kilo reads 17, station Lima reads 23."
        yield Trial("tool-calling", self.plain(single, tools=(_TOOL,)), _tool_judge(1, 17))
        forced = self.plain(
            "Station Kilo reads 17 degrees Celsius. Say hello.", tools=(_TOOL,), tool_choice=ToolChoice("required")
        )
        yield Trial("tool-choice", forced, _tool_judge(1))
        several = self.plain(double, tools=(_TOOL,), parallel_tool_calls=True)
        yield Trial("parallel-tool-calls", several, _tool_judge(2))

    def outputs(self) -> Iterator[Trial]:
        """Try whether the answer keeps to a schema, and to a JSON object."""
        schema = Schema(_SCHEMA, "probe")

        def judge_schema(answer: ProbeResponse) -> TrialOutcome:
            value = _json(answer.response.text)
            if value is not None and schema.accepts(value):
                return supported("the answer kept to a schema that nobody would guess")
            return ignored("the answer did not keep to the schema")

        def judge_object(answer: ProbeResponse) -> TrialOutcome:
            if isinstance(_json(answer.response.text), dict):
                return supported("the answer was a JSON object")
            return ignored("the answer was not a JSON object")

        strict = self.plain("Tell me about a cat.", output=JsonSchema(_SCHEMA, strict=True))
        yield Trial("structured-output", strict, judge_schema)
        loose = self.plain("Name a fruit and its colour, in JSON.", output=JsonObject())
        yield Trial("json-object", loose, judge_object)

    def image(self) -> Trial:
        """Try whether the colour of a picture is recognised."""
        names = list(COLOURS)
        chosen = names[hashlib.sha256(self.target.encode()).digest()[0] % len(names)]
        question = (
            f"Which colour fills this picture: {', '.join(names)}? Answer with one word, or with "
            "the word none if you see no picture."
        )
        blocks: tuple[Block, ...] = (ImageBlock(data=picture(chosen), media_type="image/png"), TextBlock(question))

        def judge(answer: ProbeResponse) -> TrialOutcome:
            words = set(re.findall(r"[a-z]+", answer.response.text.lower()))
            if words & set(names) == {chosen}:
                return supported("the colour of a picture was seen")
            return ignored("the colour of a picture was not seen")

        return Trial("image-input", self._request((Message("user", blocks),)), judge)

    def reasoning(self) -> Iterator[Trial]:
        """Try whether the reasoning setting is accepted and the model reasons."""

        def judge(answer: ProbeResponse) -> TrialOutcome:
            if answer.response.usage.reasoning or answer.response.thinking:
                return supported("the answer came with reasoning")
            return ignored("no reasoning was seen")

        max_tokens = ANSWER_TOKENS + 2 * _THINKING_BUDGET
        puzzle = "A farmer has 17 sheep; all but 9 run away; then he buys 14. How many has he?"
        effort = self.plain(puzzle, reasoning=Reasoning("low"), max_tokens=max_tokens)
        if self.api != "anthropic":
            yield Trial("reasoning-effort", effort, judge, also_proves=("reasoning",))
            return
        budget = Reasoning(budget_tokens=_THINKING_BUDGET)
        thinking = self.plain(puzzle, reasoning=budget, max_tokens=max_tokens)
        yield Trial("thinking-budget", thinking, judge, also_proves=("reasoning",))
        nonsense = self.plain(puzzle, extras={"output_config": {"effort": _NONSENSE}})
        yield Trial("reasoning-effort", effort, _judge_accepted, control=nonsense)

    def token_limits(self) -> Iterator[Trial]:
        """Try which parameter limits the output. The catalog's comes first."""
        names = ["max-tokens", "max-completion-tokens"]
        if self._limit_param == names[1]:
            names.reverse()

        def judge(answer: ProbeResponse) -> TrialOutcome:
            response = answer.response
            is_short = 0 < response.usage.output <= _TOKEN_LIMIT and "30" not in response.text
            if response.stop_reason == "length" or is_short:
                return supported("the answer was cut at the limit")
            return ignored("the answer went past the limit")

        for name in names:
            limit = {name.replace("-", "_"): _TOKEN_LIMIT}
            request = self.plain(_COUNT, max_tokens=None, extras=limit)
            yield Trial("token-limit-param", request, judge, value=name)

    def parameters(self) -> Iterator[Trial]:
        """Try stop sequences, the sampling parameters, and log probabilities."""

        def judge_stop(answer: ProbeResponse) -> TrialOutcome:
            text = answer.response.text.lower()
            if "charlie" in text:
                return ignored("the answer went past the stop")
            if "bravo" in text:
                return supported("the answer ended at the stop")
            return TrialOutcome("inconclusive", "the answer was not the text that was asked for")

        def judge_logprobs(answer: ProbeResponse) -> TrialOutcome:
            choice = answer.response.extra.get(self.api, {}).get("choice", {})
            if choice.get("logprobs"):
                return supported("probabilities came with the answer")
            return ignored("no probabilities came with the answer")

        words = "Repeat these words exactly: alpha bravo charlie delta"
        yield Trial("stop-sequences", self.plain(words, stop=("charlie",)), judge_stop)
        for name, value in _PARAMETERS.items():
            field = name.replace("-", "_")
            # Request has fields for some parameters; the others are sent as they are.
            is_field = field in ("temperature", "top_p") or ((field, self.api) == ("top_k", "anthropic"))
            fields = {field: value} if is_field else {"extras": {field: value}}
            nonsense = self.plain(_HELLO, extras={field: _NONSENSE})
            yield Trial(name, self.plain(_HELLO, **fields), _judge_accepted, control=nonsense)
        yield Trial("logprobs", self.plain(_HELLO, extras={"logprobs": True}), judge_logprobs)


def _judge_accepted(_: ProbeResponse) -> TrialOutcome:
    return supported("accepted, and nonsense in its place is refused")


def _tool_judge(count: int, celsius: int | None = None) -> Callable[[ProbeResponse], TrialOutcome]:
    schema = Schema(_TOOL.parameters, "probe")

    def judge(answer: ProbeResponse) -> TrialOutcome:
        calls = [call for call in answer.response.tool_calls if call.name == _TOOL.name]
        if not calls:
            return ignored("prose came instead of a tool call")
        if not all(schema.accepts(call.input) for call in calls):
            return ignored("the arguments of the tool call are not valid")
        if len(calls) < count:
            return ignored("one tool call came where several were asked for")
        if celsius is not None and calls[0].input["celsius"] != celsius:
            return ignored("the arguments of the tool call are not those of the prompt")
        return supported("a valid tool call came" if count == 1 else "several valid tool calls came")

    return judge


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

"""Trials: one call that shows whether a model has a capability, and how its answer is judged."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from modelpact.catalog.resolution import Resolution
from modelpact.conversation.message import Block, ImageBlock, Message, TextBlock
from modelpact.conversation.request import (
    JsonObject,
    JsonSchema,
    Reasoning,
    Request,
    Tool,
    ToolChoice,
)
from modelpact.conversation.response import Response
from modelpact.emulation.validation import Schema
from modelpact.probing.picture import COLOURS, picture

Verdict = Literal["supported", "unsupported", "ignored", "inconclusive"]
"""`ignored`: the request was taken and the capability had no effect; that is unsupported too."""


class Seen(msgspec.Struct, frozen=True):
    """An answer, and in how many pieces it came."""

    response: Response
    pieces: int = 1


class TrialOutcome(msgspec.Struct, frozen=True):
    """What one trial showed."""

    verdict: Verdict
    detail: str = ""


class Trial(msgspec.Struct, frozen=True):
    """One call. `shows` are capabilities that a good answer proves beside the trial's own.

    `value` is what the capability's value is where the trial succeeds. `control` puts nonsense in
    the parameter's place: a server that takes that too does not look at the parameter.
    """

    capability: str
    request: Request
    judge: Callable[[Seen], TrialOutcome]
    streamed: bool = False
    shows: tuple[str, ...] = ()
    control: Request | None = None
    value: str | None = None

    def judged(self, seen: Seen) -> TrialOutcome:
        """Judge an answer; one that ended too early proves nothing against the model."""
        found = self.judge(seen)
        if found.verdict != "ignored":
            return found
        response = seen.response
        if response.stop_reason == "length":
            limit = self.request.max_tokens
            return TrialOutcome("inconclusive", f"the answer was cut off at {limit} tokens")
        if response.stop_reason == "refusal":
            return TrialOutcome("inconclusive", "the model refused to answer")
        return found


def good(detail: str) -> TrialOutcome:
    """Say that the capability is there."""
    return TrialOutcome("supported", detail)


def without_effect(detail: str) -> TrialOutcome:
    """Say that the request was taken, and nothing came of it."""
    return TrialOutcome("ignored", f"silently ignored: {detail}")


SHORT: Final = 96
"""Tokens that an answer may take."""
_ROOM: Final = {"native": 1_024, "unknown": 512}
"""Tokens that a model may think before it answers, by what is known of its reasoning."""
_BUDGET: Final = 1_024
_CUT: Final = 16
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
"""Names that no model would come upon by itself."""
_SETTINGS: Final[Mapping[str, Any]] = {
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
    {
        "json-object",
        "token-limit-param",
        "logprobs",
        "seed",
        "frequency-penalty",
        "presence-penalty",
        "logit-bias",
    }
)
"""What that API has no word for."""


def trials(found: Resolution, api: str) -> Iterator[Trial]:
    """Yield every trial that can be made over an API, the cheap and telling ones first."""
    ask = _Asking(found, api)
    made = (
        ask.streaming(),
        ask.system(),
        *ask.tools(),
        *ask.outputs(),
        ask.image(),
        *ask.reasoning(),
        *ask.token_limits(),
        *ask.parameters(),
    )
    for trial in made:
        if api == "anthropic" and trial.capability in _NOT_OVER_ANTHROPIC:
            continue
        yield trial


def baseline(found: Resolution, api: str) -> Trial:
    """Return the plain call that all others are compared with."""
    ask = _Asking(found, api)
    return Trial("", ask.plain("Reply with the word ok."), lambda _: good("it answers"))


class _Asking:
    """Makes requests for one model."""

    def __init__(self, found: Resolution, api: str) -> None:
        self.api = api
        self.target = found.target
        self._limit = found.claim("token-limit-param").value
        room = _ROOM.get(found.claim("reasoning").support, 0)
        self._base = Request(found.model, (), max_tokens=SHORT + room, api=api)

    def plain(self, text: str, **more: Any) -> Request:
        """Return a request that asks one thing."""
        return self._of((Message("user", (TextBlock(text),)),), **more)

    def _of(self, messages: tuple[Message, ...], **more: Any) -> Request:
        return msgspec.structs.replace(self._base, messages=messages, **more)

    def streaming(self) -> Trial:
        """Is the answer sent in pieces?"""

        def judge(seen: Seen) -> TrialOutcome:
            if seen.pieces > 1:
                return good("the answer came in pieces")
            return without_effect("the whole answer came at once")

        return Trial("streaming", self.plain(_COUNT), judge, streamed=True)

    def system(self) -> Trial:
        """Is a system message obeyed?"""
        orders = "Whatever you are asked, answer with the single word plumage and nothing else."
        messages = (
            Message("system", (TextBlock(orders),)),
            Message("user", (TextBlock("What is two plus two?"),)),
        )

        def judge(seen: Seen) -> TrialOutcome:
            if "plumage" in seen.response.text.lower():
                return good("the instruction was obeyed")
            return without_effect("the instruction was not obeyed")

        return Trial("system-messages", self._of(messages), judge)

    def tools(self) -> Iterator[Trial]:
        """Are tools called: by choice, by force, several at once?"""
        one = "Record this with the tool: station Kilo reads 17 degrees Celsius."
        two = "Record both with the tool at once: station Kilo reads 17, station Lima reads 23."
        yield Trial("tool-calling", self.plain(one, tools=(_TOOL,)), _called(1, 17))
        forced = self.plain(
            "Station Kilo reads 17 degrees Celsius. Say hello.",
            tools=(_TOOL,),
            tool_choice=ToolChoice("required"),
        )
        yield Trial("tool-choice", forced, _called(1))
        several = self.plain(two, tools=(_TOOL,), parallel_tool_calls=True)
        yield Trial("parallel-tool-calls", several, _called(2))

    def outputs(self) -> Iterator[Trial]:
        """Is the answer held to a schema, to a JSON object?"""
        schema = Schema(_SCHEMA, "probe")

        def to_schema(seen: Seen) -> TrialOutcome:
            value = _json(seen.response.text)
            if value is not None and schema.accepts(value):
                return good("the answer kept to a schema that nobody would guess")
            return without_effect("the answer did not keep to the schema")

        def to_object(seen: Seen) -> TrialOutcome:
            if isinstance(_json(seen.response.text), dict):
                return good("the answer was a JSON object")
            return without_effect("the answer was not a JSON object")

        held = JsonSchema(_SCHEMA, strict=True)
        yield Trial("structured-output", self.plain("Tell me about a cat.", output=held), to_schema)
        asked = self.plain("Name a fruit and its colour, in JSON.", output=JsonObject())
        yield Trial("json-object", asked, to_object)

    def image(self) -> Trial:
        """Is the colour of a picture seen?"""
        names = list(COLOURS)
        chosen = names[hashlib.sha256(self.target.encode()).digest()[0] % len(names)]
        question = (
            f"Which colour fills this picture: {', '.join(names)}? Answer with one word, or with "
            "the word none if you see no picture."
        )
        blocks: tuple[Block, ...] = (
            ImageBlock(data=picture(chosen), media_type="image/png"),
            TextBlock(question),
        )

        def judge(seen: Seen) -> TrialOutcome:
            said = set(re.findall(r"[a-z]+", seen.response.text.lower())) & set(names)
            if said == {chosen}:
                return good("the colour of a picture was seen")
            return without_effect("the colour of a picture was not seen")

        return Trial("image-input", self._of((Message("user", blocks),)), judge)

    def reasoning(self) -> Iterator[Trial]:
        """Is the setting for reasoning taken, and is there reasoning?"""

        def judge(seen: Seen) -> TrialOutcome:
            if seen.response.usage.reasoning or seen.response.thinking:
                return good("the answer came with reasoning")
            return without_effect("no reasoning was seen")

        size = SHORT + 2 * _BUDGET
        puzzle = "A farmer has 17 sheep; all but 9 run away; then he buys 14. How many has he?"
        effort = self.plain(puzzle, reasoning=Reasoning("low"), max_tokens=size)
        if self.api != "anthropic":
            yield Trial("reasoning-effort", effort, judge, shows=("reasoning",))
            return
        budget = Reasoning(budget_tokens=_BUDGET)
        thinking = self.plain(puzzle, reasoning=budget, max_tokens=size)
        yield Trial("thinking-budget", thinking, judge, shows=("reasoning",))
        nonsense = self.plain(puzzle, extras={"output_config": {"effort": _NONSENSE}})
        yield Trial("reasoning-effort", effort, _taken, control=nonsense)

    def token_limits(self) -> Iterator[Trial]:
        """What is the limit of the answer called? The catalog's name is tried first."""
        names = ["max-tokens", "max-completion-tokens"]
        if self._limit == names[1]:
            names.reverse()

        def judge(seen: Seen) -> TrialOutcome:
            response = seen.response
            short = 0 < response.usage.output <= _CUT and "30" not in response.text
            if response.stop_reason == "length" or short:
                return good("the answer was cut at the limit")
            return without_effect("the answer went past the limit")

        for name in names:
            limit = {name.replace("-", "_"): _CUT}
            request = self.plain(_COUNT, max_tokens=None, extras=limit)
            yield Trial("token-limit-param", request, judge, value=name)

    def parameters(self) -> Iterator[Trial]:
        """Is the stop heeded, are probabilities there, are the other parameters taken?"""

        def stopped(seen: Seen) -> TrialOutcome:
            text = seen.response.text.lower()
            if "charlie" in text:
                return without_effect("the answer went past the stop")
            if "bravo" in text:
                return good("the answer ended at the stop")
            return TrialOutcome("inconclusive", "the answer was not the text that was asked for")

        def probable(seen: Seen) -> TrialOutcome:
            told = seen.response.extra.get(self.api, {}).get("choice", {})
            if told.get("logprobs"):
                return good("probabilities came with the answer")
            return without_effect("no probabilities came with the answer")

        words = "Repeat these words exactly: alpha bravo charlie delta"
        yield Trial("stop-sequences", self.plain(words, stop=("charlie",)), stopped)
        for name, value in _SETTINGS.items():
            field = name.replace("-", "_")
            # The adapters' own words, but for what Chat Completions has no word for.
            own = field in ("temperature", "top_p") or (field, self.api) == ("top_k", "anthropic")
            how = {field: value} if own else {"extras": {field: value}}
            nonsense = self.plain(_HELLO, extras={field: _NONSENSE})
            yield Trial(name, self.plain(_HELLO, **how), _taken, control=nonsense)
        yield Trial("logprobs", self.plain(_HELLO, extras={"logprobs": True}), probable)


_COUNT: Final = "Count from 1 to 30 in digits, separated by spaces."
_HELLO: Final = "Say hello."


def _taken(_: Seen) -> TrialOutcome:
    return good("accepted, and nonsense in its place is refused")


def _called(count: int, celsius: int | None = None) -> Callable[[Seen], TrialOutcome]:
    schema = Schema(_TOOL.parameters, "probe")

    def judge(seen: Seen) -> TrialOutcome:
        calls = [one for one in seen.response.tool_calls if one.name == _TOOL.name]
        if not calls:
            return without_effect("prose came instead of a tool call")
        if not all(schema.accepts(one.input) for one in calls):
            return without_effect("the arguments of the tool call are not valid")
        if len(calls) < count:
            return without_effect("one tool call came where several were asked for")
        if celsius is not None and calls[0].input["celsius"] != celsius:
            return without_effect("the arguments of the tool call are not those of the prompt")
        return good("a valid tool call came" if count == 1 else "several valid tool calls came")

    return judge


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

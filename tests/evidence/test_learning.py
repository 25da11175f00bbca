"""The evidence learner: what calls teach is recorded, and what they refute is withdrawn."""

import asyncio

import pytest

from modelpact.conversation.message import Message, TextBlock
from modelpact.conversation.request import Request
from modelpact.conversation.response import Response, Usage
from modelpact.dispatch.model_caller import CallFailed, ModelCaller
from modelpact.evidence import EvidenceLearner, Observation, current_observations, read_evidence, record
from modelpact.ledger import Ledger
from modelpact.ledger.errors import LedgerUnavailable
from modelpact.providers.models.upstream import UpstreamError
from modelpact.providers.port import MockProvider
from modelpact.providers.runtime.runtime import Runtime
from tests.conftest import catalog, fact, lineage
from tests.fakes.loops import on_loop

WORDS = "This model's maximum context length is {} tokens. Reduce the length of the messages."
CATALOG = catalog(
    "",
    lineage(
        "one",
        fact("openai/gpt-9", tool_calling=True, context_window=128_000),
        fact("openai/gpt-old", tool_calling=False, context_window=4_096),
        fact("openai/gpt-dark", tool_calling=True),
    ),
)
ASK = Request("gpt-9", (Message("user", (TextBlock("Hi"),)),))


def answer(tokens: int, output: int = 10) -> Response:
    return Response((TextBlock("Well."),), usage=Usage(tokens - output, output))


def refusal(limit: int) -> UpstreamError:
    return UpstreamError(WORDS.format(limit), status=400, code="context_length_exceeded")


def window(model: str, value: int) -> Observation:
    return Observation("openai", model, "context-window", "native", value, "use")


@pytest.mark.parametrize(
    ("model", "learned", "tokens", "then"),
    [
        ("gpt-9", 8_192, 8_193, 128_000),
        ("gpt-9", 8_192, 8_192, 8_192),
        ("gpt-9", 8_192, 100, 8_192),
        ("gpt-old", 2_048, 3_000, 4_096),
        ("gpt-old", 2_048, 5_000, 5_000),
        ("gpt-dark", 8_192, 9_000, None),
    ],
)
def test_a_response_beyond_a_learned_limit_refutes_it(
    ledger: Ledger, model: str, learned: int, tokens: int, then: int | None
) -> None:
    """The catalog's limit applies again, unless the response exceeded that too."""
    record(ledger, window(model, learned))
    port = MockProvider([answer(tokens)])
    models = ModelCaller(Runtime(ledger), catalog=CATALOG, ports={"openai": port})
    asyncio.run(models.call("openai", Request(model, ASK.messages)))
    seen = CATALOG.extended(evidence=read_evidence(ledger)).resolve("openai", model)
    assert seen.claim("context-window").value == then


def test_the_event_has_the_reason_and_the_cause(ledger: Ledger) -> None:
    record(ledger, window("GPT-9", 8_192))
    models = ModelCaller(Runtime(ledger), catalog=CATALOG, ports={"openai": MockProvider([answer(9000)])})
    called = asyncio.run(models.call("openai", ASK))
    event = ledger.events("evidence/openai")[-1]
    assert event.type == "evidence.forgotten"
    assert event.cause == called.invocation.settled_by
    why = "an answer took 9,000 tokens, more than the 8,192 learned before"
    assert (event.payload["why"], event.payload["capabilities"]) == (why, ["context-window"])
    assert current_observations(ledger, "openai", "gpt-9") == ()


def test_withdrawn_evidence_may_be_learned_again(ledger: Ledger) -> None:
    port = MockProvider([refusal(8_192), answer(9_000), refusal(8_192)])
    models = ModelCaller(Runtime(ledger), catalog=CATALOG, ports={"openai": port})
    for expected in (8_192, None, 8_192):
        if expected is None:
            asyncio.run(models.call("openai", ASK))
        else:
            with pytest.raises(CallFailed):
                asyncio.run(models.call("openai", ASK))
        assert [observation.value for observation in current_observations(ledger, "openai", "gpt-9")] == (
            [expected] if expected else []
        )


def test_a_response_refutes_an_unsupported_capability(ledger: Ledger) -> None:
    record(ledger, Observation("openai", "gpt-dark", "streaming", "unsupported", origin="use"))
    port = MockProvider(["in several pieces"])
    models = ModelCaller(Runtime(ledger), catalog=CATALOG, ports={"openai": port})

    async def follow() -> None:
        async for _ in models.stream("openai", Request("gpt-dark", ASK.messages)):
            pass

    asyncio.run(follow())
    (observation,) = current_observations(ledger, "openai", "gpt-dark")
    assert (observation.capability, observation.support) == ("streaming", "native")


@on_loop
async def test_a_lesson_says_whether_the_evidence_changed(ledger: Ledger) -> None:
    learner, resolution = EvidenceLearner(ledger), CATALOG.resolve("openai", "gpt-9")
    lesson = await learner.observe_rejection(ASK, refusal(8_192), resolution)
    assert ([observation.value for observation in lesson.observations], lesson.changed) == ([8_192], True)
    lesson = await learner.observe_rejection(ASK, refusal(8_192), resolution)
    assert ([observation.value for observation in lesson.observations], lesson.changed) == ([8_192], False)
    lesson = await learner.observe_response(ASK, answer(100), resolution)
    assert (lesson.observations, lesson.changed) == ((), False)
    lesson = await learner.observe_response(ASK, answer(9_000), resolution)
    assert (lesson.observations, lesson.changed) == ((), True)
    assert current_observations(ledger, "openai", "gpt-9") == ()


@on_loop
async def test_what_the_catalog_knows_is_not_recorded(ledger: Ledger) -> None:
    resolution = CATALOG.resolve("openai", "gpt-9")
    lesson = await EvidenceLearner(ledger).observe_rejection(ASK, refusal(128_000), resolution)
    assert [observation.value for observation in lesson.observations] == [128_000]
    assert not lesson.changed
    assert ledger.events("evidence/openai") == []


@on_loop
async def test_a_ledger_that_cannot_be_written_costs_only_the_lesson(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise LedgerUnavailable("the store is away")

    monkeypatch.setattr(ledger, "write_async", fails)
    resolution = CATALOG.resolve("openai", "gpt-9")
    lesson = await EvidenceLearner(ledger).observe_rejection(ASK, refusal(8_192), resolution)
    assert ([observation.value for observation in lesson.observations], lesson.changed) == ([8_192], False)

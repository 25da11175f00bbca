"""Evidence that a later answer contradicts does not stand."""

import asyncio

import pytest

from modelpact.conversation import Message, Response, TextBlock, Usage
from modelpact.conversation.request import Request
from modelpact.dispatch.model_caller import CallFailed, ModelCaller
from modelpact.evidence import Observation, find_refuted, read_evidence, record, standing
from modelpact.ledger import Ledger
from modelpact.providers.mock import MockProvider
from modelpact.providers.models.errors import UpstreamError
from modelpact.providers.runtime.runtime import Runtime
from tests.conftest import catalog, fact, lineage

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
def test_a_success_beyond_a_learned_limit_supersedes_it(
    ledger: Ledger, model: str, learned: int, tokens: int, then: int | None
) -> None:
    """What the catalog says stands again; where that is less than what was seen, that stands."""
    record(ledger, window(model, learned))
    port = MockProvider([answer(tokens)])
    models = ModelCaller(Runtime(ledger), catalog=CATALOG, ports={"openai": port})
    asyncio.run(models.call("openai", Request(model, ASK.messages)))
    seen = CATALOG.extended(evidence=read_evidence(ledger)).resolve("openai", model)
    assert seen.claim("context-window").value == then


def test_the_trail_says_why_and_because_of_what(ledger: Ledger) -> None:
    record(ledger, window("GPT-9", 8_192))
    models = ModelCaller(
        Runtime(ledger), catalog=CATALOG, ports={"openai": MockProvider([answer(9000)])}
    )
    called = asyncio.run(models.call("openai", ASK))
    event = ledger.events("evidence/openai")[-1]
    assert event.type == "evidence.forgotten"
    assert event.cause == called.invocation.settled_by
    why = "an answer took 9,000 tokens, more than the 8,192 that were learned"
    assert (event.payload["why"], event.payload["capabilities"]) == (why, ["context-window"])
    assert standing(ledger, "openai", "gpt-9") == ()


def test_what_fell_may_be_learned_again(ledger: Ledger) -> None:
    port = MockProvider([refusal(8_192), answer(9_000), refusal(8_192)])
    models = ModelCaller(Runtime(ledger), catalog=CATALOG, ports={"openai": port})
    for expected in (8_192, None, 8_192):
        if expected is None:
            asyncio.run(models.call("openai", ASK))
        else:
            with pytest.raises(CallFailed):
                asyncio.run(models.call("openai", ASK))
        assert [one.value for one in standing(ledger, "openai", "gpt-9")] == (
            [expected] if expected else []
        )


def test_a_refusal_of_what_is_done_all_the_same_falls_too(ledger: Ledger) -> None:
    record(ledger, Observation("openai", "gpt-dark", "streaming", "unsupported", origin="use"))
    port = MockProvider(["in several pieces"])
    models = ModelCaller(Runtime(ledger), catalog=CATALOG, ports={"openai": port})

    async def follow() -> None:
        async for _ in models.stream("openai", Request("gpt-dark", ASK.messages)):
            pass

    asyncio.run(follow())
    (one,) = standing(ledger, "openai", "gpt-dark")
    assert (one.capability, one.support) == ("streaming", "native")


def test_other_limits_are_held_against_their_own_tokens() -> None:
    known = CATALOG.resolve("openai", "gpt-9")
    held = [
        Observation("openai", "gpt-9", "max-input", "native", 1_000, "use"),
        Observation("openai", "gpt-9", "max-output", "native", 500, "probe"),
    ]
    assert find_refuted(held, (), Usage(900, 400), known) == ()
    found = find_refuted(held, (), Usage(1_001, 501), known)
    assert [(one.before.capability, one.instead) for one in found] == [
        ("max-input", None),
        ("max-output", None),
    ]
    assert find_refuted(held, (), Usage(), known) == ()

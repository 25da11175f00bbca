"""Probes of fake servers that accept capabilities and ignore them, over real sockets."""

import json
from pathlib import Path
from typing import Any

import pytest

from modelpact.evidence import read_evidence, record
from modelpact.probing import Budget
from tests.fakes.anthropic import FakeAnthropic
from tests.fakes.anthropic_rules import Model as AnthropicModel
from tests.fakes.behaviours import obedient
from tests.fakes.loops import on_loop
from tests.fakes.openai import FakeOpenAI
from tests.fakes.openai_rules import Model
from tests.fakes.replies import Call, Fail, Reply, Step
from tests.probing.support import ledger, probe, verdicts

EVERYTHING = [
    "streaming",
    "system-messages",
    "tool-calling",
    "tool-choice",
    "parallel-tool-calls",
    "structured-output",
    "image-input",
    "stop-sequences",
    "temperature",
    "top-p",
]


def lying(**lies: Any) -> FakeOpenAI:
    """Return a fake server with a gpt-4o that ignores capabilities it accepts."""
    return FakeOpenAI(models=[Model("gpt-4o", **lies)], behaviour=obedient)


@on_loop
async def test_a_model_that_does_what_the_catalog_says(tmp_path: Path) -> None:
    async with FakeOpenAI(behaviour=obedient) as fake:
        report = await probe(fake, "gpt-4o", tmp_path)
    verdict_of = verdicts(report)
    assert {verdict_of[name] for name in (*EVERYTHING, "json-object", "logprobs", "seed")} == {"supported"}
    assert verdict_of["reasoning-effort"] == verdict_of["top-k"] == "unsupported"
    assert report.contradictions == ()
    assert report.stopped == ""
    assert report.spent


@on_loop
async def test_a_reasoning_model(tmp_path: Path) -> None:
    async with FakeOpenAI(behaviour=obedient) as fake:
        report = await probe(fake, "gpt-5", tmp_path)
    results = {result.capability: result for result in report.results}
    assert results["reasoning"].verdict == results["reasoning-effort"].verdict == "supported"
    assert results["temperature"].verdict == results["stop-sequences"].verdict == "unsupported"
    assert results["token-limit-param"].value == "max-completion-tokens"
    assert report.contradictions == ()
    (effort,) = [observation for observation in report.observations if observation.capability == "reasoning-effort"]
    assert effort.value == ("minimal", "low", "medium", "high")


@on_loop
async def test_a_model_over_the_anthropic_api(tmp_path: Path) -> None:
    async with FakeAnthropic(behaviour=obedient) as fake:
        report = await probe(fake, "claude-opus-4-5", tmp_path, kind="anthropic")
    verdict_of = verdicts(report)
    assert {verdict_of[name] for name in (*EVERYTHING, "reasoning", "thinking-budget", "top-k")} == {"supported"}
    assert "seed" not in verdict_of
    assert report.contradictions == ()


@pytest.mark.parametrize(
    ("field", "capability", "detail"),
    [
        ("system", "system-messages", "the instruction was not obeyed"),
        ("tools", "tool-calling", "prose came instead of a tool call"),
        ("response_format", "structured-output", "did not keep to the schema"),
        ("response_format", "json-object", "was not a JSON object"),
        ("stop", "stop-sequences", "went past the stop"),
        ("logprobs", "logprobs", "no probabilities"),
        ("stream", "streaming", "a whole answer came"),
    ],
)
def test_what_is_silently_ignored_is_unsupported(field: str, capability: str, detail: str, tmp_path: Path) -> None:
    """Accepted without effect is unsupported, with the reason "silently ignored"."""

    @on_loop
    async def run() -> None:
        ignored = ("tools", "tool_choice", "parallel_tool_calls") if field == "tools" else (field,)
        async with lying(ignores=(*ignored, "stream_options")) as fake:
            report = await probe(fake, "gpt-4o", tmp_path, [capability])
        (result,) = [result for result in report.results if result.capability == capability]
        assert result.verdict == "ignored"
        assert result.detail.startswith("silently ignored: ")
        assert detail in result.detail
        assert result.contradicts
        (learned,) = [observation for observation in report.observations if observation.capability == capability]
        assert learned.support == "unsupported"

    run()


@on_loop
async def test_a_parameter_that_accepts_nonsense_is_inconclusive(tmp_path: Path) -> None:
    async with lying(ignores=("temperature", "seed")) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["temperature", "seed", "top-p"])
    assert verdicts(report) == {"temperature": "inconclusive", "seed": "inconclusive", "top-p": "supported"}
    assert [observation.capability for observation in report.observations] == ["top-p"]


@on_loop
async def test_ignored_capabilities_over_the_anthropic_api(tmp_path: Path) -> None:
    model = AnthropicModel(
        "claude-opus-4-5", effort=True, ignores=("stop_sequences", "thinking", "tools", "tool_choice")
    )
    async with FakeAnthropic(models=[model], behaviour=obedient) as fake:
        report = await probe(fake, "claude-opus-4-5", tmp_path, kind="anthropic")
    verdict_of = verdicts(report)
    assert verdict_of["stop-sequences"] == verdict_of["thinking-budget"] == verdict_of["tool-calling"] == "ignored"
    assert verdict_of["reasoning"] == "inconclusive"


@on_loop
async def test_a_schema_that_the_answer_does_not_match(tmp_path: Path) -> None:
    def behaviour(body: dict[str, Any]) -> Step:
        schema = body.get("response_format", {}).get("type") == "json_schema"
        return Reply(text='{"zq_kind": "vorn", "zq_total": "many"}') if schema else obedient(body)

    async with FakeOpenAI(behaviour=behaviour) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["structured-output"])
    assert verdicts(report) == {"structured-output": "ignored"}


@on_loop
async def test_tool_calls_with_wrong_arguments_do_not_count(tmp_path: Path) -> None:
    def behaviour(body: dict[str, Any]) -> Step:
        call = Call("record_reading", arguments='{"station": 5}')
        return Reply(calls=(call,)) if body.get("tools") else obedient(body)

    async with FakeOpenAI(behaviour=behaviour) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["tools"])
    (result,) = report.results
    assert result.verdict == "ignored"
    assert "arguments" in result.detail


@on_loop
async def test_an_ignored_trial_is_repeated(tmp_path: Path) -> None:
    """A trial without effect is repeated before it counts."""
    moods = iter(["prose, this once"])

    def behaviour(body: dict[str, Any]) -> Step:
        mood = next(moods, None) if body.get("tools") else None
        return obedient(body) if mood is None else mood

    async with FakeOpenAI(behaviour=behaviour) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["tools"])
    assert verdicts(report) == {"tool-calling": "supported"}
    assert report.calls == 3


@on_loop
async def test_a_rejection_has_the_servers_message(tmp_path: Path) -> None:
    words = "registry.example/library/gpt-4o:latest does not support tools"
    async with lying(refuses={"tools": words}) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["tools", "seed"])
    results = {result.capability: result for result in report.results}
    assert results["tool-calling"].verdict == "unsupported"
    assert results["tool-calling"].detail == f"rejected: {words}"
    assert results["tool-calling"].contradicts
    assert not results["seed"].contradicts


@on_loop
async def test_the_token_limit_parameter_is_found(tmp_path: Path) -> None:
    words = "Unrecognized request argument supplied: max_tokens"
    async with lying(refuses={"max_tokens": words}) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["token-limit-param", "stop"])
    results = {result.capability: result for result in report.results}
    assert results["token-limit-param"].value == "max-completion-tokens"
    assert results["token-limit-param"].contradicts
    assert results["stop-sequences"].verdict == "supported"


@pytest.mark.parametrize("fail", [Fail(429), Fail(503), Fail(401)], ids=["rate limit", "outage", "key"])
def test_an_outage_makes_the_rest_inconclusive(fail: Fail, tmp_path: Path) -> None:
    @on_loop
    async def run() -> None:
        script: list[Step] = ["ok", Reply(calls=(Call("record_reading", {"station": "K", "celsius": 17}),)), fail]
        async with FakeOpenAI(script, behaviour=obedient) as fake:
            report = await probe(fake, "gpt-4o", tmp_path, ["tools", "stop", "image"])
        assert verdicts(report) == {
            "tool-calling": "supported",
            "image-input": "inconclusive",
            "stop-sequences": "inconclusive",
        }
        assert str(fail.status) in report.stopped
        assert [observation.capability for observation in report.observations] == ["tool-calling"]
        assert len(fake.requests) == 3

    run()


@on_loop
async def test_a_model_that_does_not_answer_is_not_judged(tmp_path: Path) -> None:
    async with FakeOpenAI() as fake:
        report = await probe(fake, "no-such-model", tmp_path)
    assert not report.answered
    assert report.observations == ()
    assert len(fake.requests) == 1


@on_loop
async def test_content_filters_prove_nothing(tmp_path: Path) -> None:
    filtered = Fail(400, "The response was filtered by the content management policy", code="x")
    async with FakeOpenAI(["ok", filtered], behaviour=obedient) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["stop"])
    assert verdicts(report) == {"stop-sequences": "inconclusive"}
    assert report.stopped == ""


@on_loop
async def test_an_answer_that_is_cut_off_proves_nothing(tmp_path: Path) -> None:
    def behaviour(body: dict[str, Any]) -> Step:
        return Reply(text="Well, let me see", stop="length") if body.get("tools") else "ok"

    async with FakeOpenAI(behaviour=behaviour) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["tools"])
    (result,) = report.results
    assert result.verdict == "inconclusive"
    assert "cut off" in result.detail


@on_loop
async def test_calls_are_bounded(tmp_path: Path) -> None:
    async with FakeOpenAI(behaviour=obedient) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, budget=Budget(3, 10**12))
    assert report.calls == len(fake.requests) == 3
    assert report.stopped == "the budget of 3 calls is used up"
    assert verdicts(report)["stop-sequences"] == "inconclusive"


@on_loop
async def test_money_is_bounded(tmp_path: Path) -> None:
    """A probe stops before a call that might exceed its budget."""
    budget = Budget(money=4_000_000)
    async with FakeOpenAI(behaviour=obedient) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, budget=budget)
    assert report.stopped == "the next call might exceed the budget"
    assert report.spent is not None
    assert 0 < report.spent <= budget.money


@on_loop
async def test_an_empty_budget_makes_no_call(tmp_path: Path) -> None:
    async with FakeOpenAI(behaviour=obedient) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, budget=Budget(money=0))
    assert (report.calls, len(fake.requests), report.answered) == (0, 0, False)


@on_loop
async def test_every_call_is_an_invocation_with_its_cost(tmp_path: Path) -> None:
    async with FakeOpenAI(behaviour=obedient) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["stop", "image"])
    assert report.envelope.startswith("probe/")
    with ledger(tmp_path) as opened_ledger:
        types = [event.type for event in opened_ledger.events(report.envelope)]
        invoked = opened_ledger.events(report.envelope)[0].payload
    assert types == ["capability.invoked", "capability.completed"] * report.calls
    assert invoked["attribution"]["intent"] == "probe"


@on_loop
async def test_the_hash_matches_the_transcript(tmp_path: Path) -> None:
    """Transcript hash: SHA-256 over canonical JSON of requests and answers."""
    import hashlib

    async with FakeOpenAI(behaviour=obedient) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["temperature"])
    assert report.hash == f"sha256:{hashlib.sha256(report.transcript).hexdigest()}"
    first, second, third = json.loads(report.transcript)
    assert first["request"]["messages"][0]["role"] == "user"
    assert second["request"]["temperature"] == "0.5"
    assert second["answer"]["content"][0]["text"] == "ok"
    assert "Invalid type" in third["error"]


@on_loop
async def test_results_are_evidence_for_the_next_negotiation(tmp_path: Path) -> None:
    from modelpact.catalog.catalog import default_catalog
    from modelpact.negotiation.negotiate import negotiate

    async with lying(ignores=("stop",)) as fake:
        report = await probe(fake, "gpt-4o", tmp_path, ["stop"])
    with ledger(tmp_path) as opened_ledger:
        record(opened_ledger, *report.observations)
        known = default_catalog().extended(configured={"local": "openai"}, evidence=read_evidence(opened_ledger))
    verdict = negotiate("stop-sequences", known.resolve("local", "gpt-4o"))
    assert not verdict.ok
    evidence = verdict.findings[0].claim.evidence
    assert evidence is not None
    assert (evidence.layer, evidence.rule, evidence.source) == ("evidence", "probe", report.hash)

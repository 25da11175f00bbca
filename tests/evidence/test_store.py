"""Evidence in the ledger, in either store, and as the catalog's fifth layer."""

import asyncio
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.catalog.statement import compile_statement
from modelpact.evidence import Observation, forget, read_evidence, record, record_async
from modelpact.evidence.observation import detail_line
from modelpact.ledger import Ledger
from modelpact.negotiation.negotiate import negotiate
from modelpact.negotiation.search import find_models
from modelpact.vocabulary.capability import CAPABILITIES, Capability
from modelpact.vocabulary.errors import InputError
from tests.conftest import catalog, fact, lineage

DAY = 86_400 * 1_000_000_000
NO_TOOLS = Observation("openai", "gpt-9", "tool-calling", "unsupported", origin="use", detail="rejected: no tools")
CATALOG = catalog("", lineage("one", fact("openai/gpt-9", tool_calling=True, context_window=128_000)))


def test_an_observation_is_an_event_and_a_current_row(ledger: Ledger) -> None:
    (event,) = record(ledger, NO_TOOLS)
    assert event.id == "evidence/openai:1"
    assert event.type == "evidence.recorded"
    assert event.payload["detail"] == "rejected: no tools"
    ((target, layers),) = read_evidence(ledger).items()
    assert target == ("openai", "gpt-9")
    (layer,) = layers
    assert layer.fields == {"tool_calling": False}
    assert (layer.evidence.layer, layer.evidence.rule) == ("evidence", "use")
    assert layer.evidence.source == event.id


def test_evidence_overrules_the_catalog_and_says_so(ledger: Ledger) -> None:
    """MP-C1: evidence is layer 5, above facts and corrections."""
    record(ledger, NO_TOOLS, Observation("openai", "GPT-9", "context-window", "native", 8_192))
    seen = CATALOG.extended(evidence=read_evidence(ledger)).resolve("openai", "gpt-9")
    claim = seen.claim("tool-calling")
    assert (claim.support, claim.reason) == ("unsupported", "rejected: no tools")
    assert claim.evidence is not None
    assert claim.evidence.date
    before = seen.overruled("tool-calling")
    assert before is not None
    assert before.support == "native"
    assert seen.claim("context-window").value == 8_192
    assert seen.without_evidence("context-window").value == 128_000
    assert seen.without_evidence("long-context").support == "unsupported"
    assert seen.overruled("streaming") is None
    assert negotiate("tools", seen).missing[0].sentence() == "is not supported (rejected: no tools)"


def test_the_operator_overrules_evidence(ledger: Ledger) -> None:
    """MP-C1: the operator's overlay is above evidence."""
    from modelpact.catalog.catalog import Overlay

    record(ledger, NO_TOOLS)
    overlay = {("openai", "gpt-9"): Overlay({"tool_calling": True}, "modelpact.toml")}
    seen = CATALOG.extended(evidence=read_evidence(ledger), overlay=overlay)
    assert seen.resolve("openai", "gpt-9").claim("tool-calling").support == "native"


def test_search_uses_the_evidence(ledger: Ledger) -> None:
    assert find_models("tools", catalog=CATALOG) == ["openai/gpt-9"]
    record(ledger, NO_TOOLS)
    assert find_models("tools", catalog=CATALOG.extended(evidence=read_evidence(ledger))) == []


def test_the_newest_observation_is_current(ledger: Ledger) -> None:
    record(ledger, NO_TOOLS)
    again = Observation("openai", "gpt-9", "tool-calling", "native", origin="probe", detail="it called")
    asyncio.run(record_async(ledger, again, cause="evidence/openai:1"))
    ((layer,),) = read_evidence(ledger).values()
    assert layer.fields == {"tool_calling": True}
    assert [event.cause for event in ledger.events("evidence/openai")] == [None, "evidence/openai:1"]


def test_no_observations_write_nothing(ledger: Ledger) -> None:
    assert record(ledger) == []
    assert asyncio.run(record_async(ledger)) == []
    assert ledger.envelopes() == []


def test_the_same_observation_from_use_is_written_once_a_day(url: str) -> None:
    times = count(5 * DAY, DAY // 4)
    with Ledger.open(url, clock=lambda: next(times)) as ledger:
        for _ in range(12):
            record(ledger, NO_TOOLS)
        days = {event.time // DAY for event in ledger.events("evidence/openai")}
        assert len(ledger.events("evidence/openai")) == len(days)


def test_one_probe_is_one_layer(ledger: Ledger) -> None:
    transcript = f"sha256:{'a' * 64}"
    record(
        ledger,
        *(
            Observation("openai", "gpt-9", name, "native", transcript=transcript)
            for name in ("streaming", "seed", "image-input")
        ),
    )
    ((layer,),) = read_evidence(ledger).values()
    assert layer.fields == {"streaming": True, "seed": True, "image_input": True}
    assert layer.evidence.source == transcript


def test_evidence_can_be_dropped_and_its_events_stay(ledger: Ledger) -> None:
    record(ledger, NO_TOOLS, Observation("openai", "gpt-9", "seed", "native"))
    record(ledger, Observation("openai", "gpt-10", "seed", "native"))
    assert forget(ledger, "openai/GPT-9", ["tools"]) == 1
    assert forget(ledger, "openai/gpt-9") == 1
    assert forget(ledger, "openai/gpt-9") == 0
    assert list(read_evidence(ledger)) == [("openai", "gpt-10")]
    assert [event.type for event in ledger.events("evidence/openai")][-1] == "evidence.forgotten"
    with pytest.raises(InputError, match="PROVIDER/MODEL"):
        forget(ledger, "gpt-9")


def sample(info: Capability) -> Observation | None:
    if info.formula is not None:
        return None
    values: dict[str, int | str] = {"limit": 4_096, "choice": "max-tokens"}
    value = values.get(info.kind)
    return Observation("openai", "gpt-9", info.id, "native", value)


@pytest.mark.parametrize("name", sorted(CAPABILITIES))
def test_every_capability_that_is_not_derived_can_be_observed(name: str) -> None:
    info = CAPABILITIES[name]
    learned = sample(info)
    if learned is None:
        with pytest.raises(InputError, match="is derived"):
            Observation("openai", "gpt-9", name, "native")
        return
    assert compile_statement({learned.field: learned.field_value})[name] == learned.stated
    if info.kind == "flag":
        refused = Observation("openai", "gpt-9", name, "unsupported")
        assert compile_statement({refused.field: refused.field_value})[name] == refused.stated


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"provider": ""}, "provider"),
        ({"provider": "a/b"}, "slash"),
        ({"model": "a b"}, "space or a control character"),
        ({"capability": "tools"}, "write tool-calling"),
        ({"support": "maybe"}, "native or unsupported"),
        ({"origin": "rumour"}, "probe or use"),
        ({"capability": "context-window"}, "needs a value"),
        ({"capability": "context-window", "value": -1}, "number from 1"),
        ({"capability": "context-window", "support": "unsupported", "value": 5}, "only a flag"),
        ({"capability": "token-limit-param", "value": "limit"}, "expected one of"),
        ({"detail": "two\nlines"}, "one line"),
        ({"detail": "x" * 301}, "one line"),
        ({"transcript": "abc"}, "sha256"),
    ],
)
def test_invalid_observations_are_rejected(fields: dict[str, str], error: str) -> None:
    plain = {"provider": "p", "model": "m", "capability": "seed", "support": "native"}
    with pytest.raises(InputError, match=error):
        Observation(**{**plain, **fields})  # type: ignore[arg-type]


@given(st.text(max_size=1_000))
def test_any_text_can_be_a_detail(text: str) -> None:
    Observation("p", "m", "seed", "native", detail=detail_line(text))

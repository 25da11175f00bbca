"""OpenTelemetry: spans and metrics reach a collector, with the verdict and without a prompt."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelpact.configuration import read_configuration
from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.telemetry import Telemetry
from modelpact.ledger.costs import Attribution, CostLine
from modelpact.providers.contract import Invocation
from modelpact.vocabulary.errors import ConfigurationError
from tests.gateway.collector import Collector, values
from tests.gateway.processes import CHAT, Upstream, chat_body, started, until

SERVER, CLIENT, ERROR = 2, 3, 2
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
SECRET = "the prompt that nobody else sees"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector().listening() as listening:
        yield listening


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream("one").in_thread() as listening:
        yield listening


def configure(folder: Path, upstream: Upstream, collector: Collector | None) -> None:
    sent = "" if collector is None else f'[gateway]\ntelemetry = "{collector.address}"\n'
    (folder / "modelpact.toml").write_text(
        f'{sent}[providers.here]\nkind = "openai"\nbase_url = "{upstream.base_url}"\n'
        '[providers.nowhere]\nkind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n'
        '[workloads.work]\nmodel = "nowhere/gpt-4o"\nneeds = ["tools"]\n'
        'fallback = "here/gpt-4o"\nfallback_on = ["outage"]\n'
    )


def test_a_request_is_a_span_under_its_clients(collector: Collector, upstream: Upstream, tmp_path: Path) -> None:
    configure(tmp_path, upstream, collector)
    with started(tmp_path, "--notice", "0") as gateway:
        body = chat_body("here/gpt-4o", temperature=0.5, max_tokens=50)
        body["messages"][0]["content"] = SECRET
        parent = f"00-{TRACE}-{PARENT}-01"
        status, headers, _ = gateway.ask("POST", CHAT, body, traceparent=parent)
        assert status == 200
        gateway.signal(signal.SIGTERM)
        assert gateway.wait() == 0
    ((served, request),) = collector.of_kind(SERVER)
    ((called, call),) = collector.of_kind(CLIENT)
    assert (served.trace_id.hex(), served.parent_span_id.hex()) == (TRACE, PARENT)
    assert (called.trace_id, called.parent_span_id) == (served.trace_id, served.span_id)
    assert served.name == f"POST {CHAT}"
    assert request["http.response.status_code"] == 200
    assert request["modelpact.verdict"] == headers["modelpact-verdict"]
    assert request["modelpact.requested_model"] == request["modelpact.served_model"] == "here/gpt-4o"
    assert request["modelpact.key"] == "operator"
    assert called.name == "chat gpt-4o"
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.model": "gpt-4o",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 3,
        "modelpact.invocation": headers["modelpact-invocation"],
    }
    assert expected.items() <= call.items()
    assert call["modelpact.cost_usd"] == float(headers["modelpact-cost-usd"])
    assert collector.resources[0]["service.name"] == "modelpact"
    assert SECRET.encode() not in collector.raw

    (duration,) = collector.metrics["gen_ai.client.operation.duration"]
    assert duration.count == 1
    assert values(duration.attributes)["gen_ai.provider.name"] == "openai"
    usage = collector.metrics["gen_ai.client.token.usage"]
    tokens = {values(point.attributes)["gen_ai.token.type"]: point.sum for point in usage}
    assert tokens == {"input": 11, "output": 3}
    (requests,) = collector.metrics["modelpact.requests"]
    assert requests.as_int == 1


def test_refusals_fallbacks_and_streams(collector: Collector, upstream: Upstream, tmp_path: Path) -> None:
    configure(tmp_path, upstream, collector)
    with started(tmp_path, "--notice", "0") as gateway:
        assert gateway.chat("here/gpt-4o", top_k=5)[0] == 422
        assert gateway.chat("workload/work")[0] == 200
        assert gateway.chat("here/gpt-4o", stream=True)[0] == 200
        gateway.signal(signal.SIGTERM)
        assert gateway.wait() == 0
    refused, substituted, streamed = collector.of_kind(SERVER)
    assert refused[1]["modelpact.verdict"] == "no"
    assert refused[1]["http.response.status_code"] == 422
    assert substituted[1]["modelpact.workload"] == "work"
    assert substituted[1]["modelpact.served_model"] == "here/gpt-4o"
    assert streamed[0].end_time_unix_nano > streamed[0].start_time_unix_nano
    lost, instead, stream = collector.of_kind(CLIENT)
    assert (lost[0].status.code, lost[1]["error.type"]) == (ERROR, "unreachable")
    assert lost[0].parent_span_id == instead[0].parent_span_id == substituted[0].span_id
    assert instead[1]["modelpact.substituted_for"] == "nowhere/gpt-4o"
    assert stream[0].parent_span_id == streamed[0].span_id
    assert stream[1]["gen_ai.usage.output_tokens"] == 3
    assert stream[1]["modelpact.stream"] is True
    counted = {
        values(point.attributes)["modelpact.verdict"]: point.as_int for point in collector.metrics["modelpact.requests"]
    }
    assert counted == {"no": 1, "labelled": 1, "yes": 1}


def test_a_reload_can_turn_it_on(collector: Collector, upstream: Upstream, tmp_path: Path) -> None:
    configure(tmp_path, upstream, None)
    with started(tmp_path, "--notice", "0") as gateway:
        assert gateway.chat("mock/demo")[0] == 200
        configure(tmp_path, upstream, collector)
        gateway.reload()
        assert gateway.chat("mock/demo")[0] == 200
        configure(tmp_path, upstream, None)
        gateway.reload()
        until(lambda: len(collector.of_kind(SERVER)) == 1, "what was left is sent")
        assert gateway.chat("mock/demo")[0] == 200


def test_a_collector_that_is_not_there_disturbs_nobody(upstream: Upstream, tmp_path: Path) -> None:
    nobody = Collector()
    nobody.address = "http://127.0.0.1:9"
    configure(tmp_path, upstream, nobody)
    with started(tmp_path, "--notice", "0") as gateway:
        assert gateway.chat("here/gpt-4o")[0] == 200


def test_it_is_not_imported_unless_it_is_wanted() -> None:
    code = "import sys, modelpact.cli.commands.serve; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("address", ["collector:4318", "ftp://x", "http://", "http://x:99999"])
def test_an_address_that_is_none_is_told(address: str) -> None:
    with pytest.raises(ConfigurationError, match="address of a collector"):
        read_configuration(f'[gateway]\ntelemetry = "{address}"\n')


def test_names_that_are_made_up_are_not_counted_without_end(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a series of numbers that is kept and sent for as long as the process lives."""
    monkeypatch.setattr("modelpact.gateway.telemetry._MAX_SERIES", 3)
    telemetry = Telemetry(collector.address, "gateway")
    for number in range(10):
        plan = Plan("forward", "yes", f"x/{number}", "x", f"model-{number}")
        event, attribution = f"e:{number}", Attribution("x", plan.model)
        call = Invocation(event, "x", "chat", "sync", "open", None, "e", event, 0, attribution=attribution)
        telemetry.call_opened(plan, call, ())
        telemetry.call_ended(call, (CostLine("tokens.input", 1),), "")
    asyncio.run(telemetry.aclose())
    for name in ("gen_ai.client.operation.duration", "gen_ai.client.token.usage"):
        items = [values(point.attributes)["gen_ai.request.model"] for point in collector.metrics[name]]
        assert sorted(items) == ["_OTHER", "model-0", "model-1", "model-2"]

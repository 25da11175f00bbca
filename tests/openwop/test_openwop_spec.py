"""The openwop specification (docs/spec/openwop.md) over real HTTP, on both stores."""

from typing import Any

import jsonschema_rs
import pytest

from modelpact.configuration import Configuration
from modelpact.ledger.ledger import Ledger
from modelpact.needs.dialects import read_pack
from modelpact.openwop.documents import read_schema
from modelpact.providers.port import MockProvider
from tests.openwop.conftest import PACK, with_host
from tests.openwop.support import HostClient, serving, types

PAYLOADS = read_schema("run-event-payloads")
Ports = dict[str, MockProvider]


def check_payload(event: dict[str, Any]) -> None:
    """Validate a `model.capability.*` payload against the schema that ships."""
    name = PAYLOADS["_typeIndex"][event["type"]]["$ref"].rpartition("/")[2]
    jsonschema_rs.validator_for(PAYLOADS["$defs"][name]).validate(event["payload"])


def think(host: HostClient, **more: Any) -> str:
    return host.start(workflowId="acme.think", inputs={"what": "home"}, **more)


def test_all_met_dispatches_normally(host: HostClient, ports: Ports) -> None:
    """S001-B8, S001-B7: on the provider and model that the run chose (S001-W6), without an event
    about it.
    """
    run = think(host, configurable={"ai": {"provider": "big", "model": "other"}})
    assert host.finished(run)["status"] == "completed"
    events = host.events(run)
    assert types(events) == ["run.started", "node.started", "provider.usage", "node.completed", "run.completed"]
    assert events[3]["payload"]["output"] == "You said: Think of home"
    assert [request.model for request in ports["big"].requests] == ["other"]
    assert ports["small"].requests == []


def test_a_substituted_run_really_ran_on_the_fallback(host: HostClient, ports: Ports) -> None:
    """S001-B9, S001-D1..5, S001-Q4, S001-W12, S001-T2: substitute, emit the event, dispatch with
    the fallback.
    """
    run = think(host)
    assert host.finished(run)["status"] == "completed"
    events = host.events(run)
    assert types(events)[2:5] == ["model.capability.substituted", "provider.usage", "node.completed"]
    check_payload(events[2])
    assert events[2]["payload"] == {
        "nodeId": "first",
        "originalProvider": "small",
        "originalModel": "lean",
        "fallbackProvider": "big",
        "fallbackModel": "full",
        "missingCapabilities": ["reasoning"],
    }
    usage = events[3]["payload"]
    assert (usage["provider"], usage["model"]) == ("big", "full"), "who was charged"
    assert [request.model for request in ports["big"].requests] == ["full"]
    assert ports["small"].requests == []


def test_without_a_fallback_the_node_is_refused(host: HostClient, ports: Ports) -> None:
    """S001-B10, S001-B6, S001-B14, S001-D6, S001-D8, S001-W11, S001-T3: emit `insufficient` and
    refuse.
    """
    run = host.start(workflowId="conformance-model-capability-insufficient")
    ended = host.finished(run)
    assert ended["status"] == "failed"
    assert ended["error"]["code"] == "capability_not_provided"
    events = host.events(run)
    assert types(events) == [
        "run.started",
        "node.started",
        "model.capability.insufficient",
        "node.failed",
        "run.failed",
    ]
    check_payload(events[2])
    assert events[2]["payload"] == {
        "nodeId": "insufficient-node",
        "provider": "small",
        "model": "lean",
        "missingCapabilities": ["x-host-modelpact-unprovided"],
        "fallbackAttempted": False,
    }
    failed = events[3]["payload"]
    assert set(failed) == {"nodeId", "error"}
    assert failed["error"]["code"] == "capability_not_provided"
    assert ports["small"].requests == ports["big"].requests == []


@pytest.mark.parametrize(
    ("fallback", "attempted"),
    [
        ({"provider": "locked", "model": "gpt-5"}, True),
        ({"provider": "elsewhere", "model": "x"}, False),
        ({"provider": "small", "model": "lean"}, True),
    ],
    ids=["no credential", "provider not supported", "lacks it too"],
)
def test_a_fallback_that_cannot_be_used(
    host: HostClient, ports: Ports, fallback: dict[str, str], attempted: bool
) -> None:
    """S001-D7, S001-Q3, S001-B5: `fallbackAttempted`; no recursion."""
    node = {
        "nodeId": "n",
        "typeId": "vendor.acme.plain",
        "config": {"prompt": "Hi"},
        "requiredModelCapabilities": ["reasoning"],
        "fallbackModel": fallback,
    }
    run = host.start(nodes=[node])
    assert host.finished(run)["error"]["code"] == "capability_not_provided"
    (event,) = [event for event in host.events(run) if event["type"].startswith("model.")]
    assert event["payload"]["fallbackAttempted"] is attempted
    assert ports["small"].requests == ports["big"].requests == []


def test_the_retry_policy_of_a_run_may_intervene(host: HostClient, ports: Ports) -> None:
    """S001-B11: the run fails unless its retry policy intervenes."""
    node = {
        "nodeId": "n",
        "typeId": "vendor.acme.plain",
        "config": {"prompt": "Hi"},
        "requiredModelCapabilities": ["reasoning"],
    }
    retry = {"onCapabilityNotProvided": [{"provider": "big", "model": "full"}]}
    run = host.start(nodes=[node], retryPolicy=retry)
    assert host.finished(run)["status"] == "completed"
    assert types(host.events(run))[2:6] == [
        "model.capability.insufficient",
        "node.retried",
        "provider.usage",
        "node.completed",
    ]
    assert len(ports["big"].requests) == 1


def test_the_check_comes_before_prompt_resolution(host: HostClient) -> None:
    """S001-Q5, S001-B12: the capability check first, then prompt resolution."""
    node = {
        "nodeId": "n",
        "typeId": "vendor.acme.plain",
        "config": {"prompt": "Hi {{nobody}}"},
        "requiredModelCapabilities": ["reasoning"],
    }
    refused = host.finished(host.start(nodes=[node]))
    assert refused["error"]["code"] == "capability_not_provided"
    del node["requiredModelCapabilities"]
    unresolved = host.finished(host.start(nodes=[node]))
    assert unresolved["error"]["code"] == "prompt_not_resolved"
    assert "nobody" in unresolved["error"]["message"]


def test_each_dispatch_is_decided_on_its_own_module(host: HostClient, ports: Ports) -> None:
    """S001-E6, S001-W13: substitution is decided per NodeModule, not per host."""
    run = host.start(
        nodes=[
            {"nodeId": "a", "typeId": "vendor.acme.plain", "config": {"prompt": "One"}},
            {"nodeId": "b", "typeId": "vendor.acme.think", "config": {"prompt": "Two {{a}}"}},
            {"nodeId": "c", "typeId": "vendor.acme.plain", "config": {"prompt": "Three"}},
        ]
    )
    assert host.finished(run)["status"] == "completed"
    used = [event["payload"] for event in host.events(run) if event["type"] == "provider.usage"]
    assert [usage["provider"] for usage in used] == ["small", "big", "small"]
    assert ports["big"].requests[0].messages[0].text == "Two You said: One"


def test_advertised_is_what_registered_modules_reference(
    host: HostClient, ledger: Ledger, ports: Ports, configuration: Configuration
) -> None:
    """S001-C7..9: only the identifiers that the host really gates on."""
    _, discovery, _ = host.ask("GET", "/.well-known/openwop")
    _, nodes, _ = host.ask("GET", "/v1/host/sample/node-catalog")
    referenced = {name for node in nodes["nodes"] for name in node.get("requiredModelCapabilities", [])}
    assert set(discovery["modelCapabilities"]["advertised"]) == referenced
    assert referenced == {"structured-output", "reasoning", "x-host-modelpact-unprovided"}
    with serving(ledger, ports, configuration=with_host(configuration, name="bare")) as bare:
        _, without, _ = bare.ask("GET", "/.well-known/openwop")
        assert "reasoning" not in without["modelCapabilities"]["advertised"]


def test_the_discovery_document(host: HostClient) -> None:
    """S001-E1, S001-E4, S001-W1..4: `modelCapabilities` is closed; families stand at the root and
    are mirrored.
    """
    host.token = ""
    status, discovery, headers = host.ask("GET", "/.well-known/openwop")
    assert status == 200
    assert "max-age" in headers["cache-control"]
    assert discovery["protocolVersion"] == "1.0"
    jsonschema_rs.validator_for(read_schema("model-capabilities")).validate(discovery["modelCapabilities"])
    assert set(discovery["limits"]) == {"clarificationRounds", "schemaRounds", "envelopesPerTurn"}
    assert discovery["capabilities"]["modelCapabilities"] == discovery["modelCapabilities"]
    assert discovery["fixtures"] == ["conformance-model-capability-insufficient"]
    assert set(discovery["aiProviders"]["supported"]) == {"big", "locked", "mock", "small"}


def test_without_substitution_every_miss_is_refused(ledger: Ledger, ports: Ports, configuration: Configuration) -> None:
    """S001-E8, S001-E5: refuse even if a `fallbackModel` is declared."""
    settings = with_host(configuration, substitution=False)
    with serving(ledger, ports, configuration=settings, packs=(read_pack(PACK),)) as host:
        _, discovery, _ = host.ask("GET", "/.well-known/openwop")
        assert discovery["modelCapabilities"]["substitutionSupported"] is False
        run = think(host)
        assert host.finished(run)["error"]["code"] == "capability_not_provided"
        assert host.events(run)[2]["payload"]["fallbackAttempted"] is False
    assert ports["big"].requests == []


def test_a_host_that_does_not_gate_says_so_and_dispatches(
    ledger: Ledger, ports: Ports, configuration: Configuration
) -> None:
    """S001-E3, S001-E2: the fields are opaque metadata and dispatch proceeds."""
    settings = with_host(configuration, gating=False)
    opaque = read_pack(PACK, gating=False)
    with serving(ledger, ports, configuration=settings, packs=(opaque,)) as host:
        _, discovery, _ = host.ask("GET", "/.well-known/openwop")
        assert discovery["modelCapabilities"] == {"supported": False}
        run = think(host)
        assert host.finished(run)["status"] == "completed"
        assert not [event for event in types(host.events(run)) if event.startswith("model.")]
        _, nodes, _ = host.ask("GET", "/v1/host/sample/node-catalog")
        (listed,) = [node for node in nodes["nodes"] if node["typeId"] == "vendor.acme.think"]
        assert listed == PACK["nodes"][0], "unchanged"
    assert len(ports["small"].requests) == 1


def test_redaction_is_all_or_nothing_for_the_pair(ledger: Ledger, ports: Ports, configuration: Configuration) -> None:
    """S001-F1..3: both fields `[REDACTED]`; the others never."""
    settings = with_host(configuration, redact_fallback=True)
    with serving(ledger, ports, configuration=settings, packs=(read_pack(PACK),)) as host:
        run = think(host)
        assert host.finished(run)["status"] == "completed"
        event = host.events(run)[2]
    check_payload(event)
    assert event["payload"] == {
        "nodeId": "first",
        "originalProvider": "small",
        "originalModel": "lean",
        "fallbackProvider": "[REDACTED]",
        "fallbackModel": "[REDACTED]",
        "missingCapabilities": ["reasoning"],
    }
    assert len(ports["big"].requests) == 1


def test_core_ai_nodes_declare_their_capabilities(host: HostClient) -> None:
    """S001-T4, S001-W16, S001-W17: every `core.ai.*` module declares requiredModelCapabilities."""
    _, answer, _ = host.ask("GET", "/v1/host/sample/node-catalog")
    core = [node for node in answer["nodes"] if node["typeId"].startswith("core.ai.")]
    assert core
    module = jsonschema_rs.validator_for(read_schema("node-module"))
    for node in answer["nodes"]:
        module.validate(node)
        assert node.get("fallbackModel", {}) is not None
    assert all(node["requiredModelCapabilities"] for node in core)


def test_every_run_is_on_the_record_and_its_chain_verifies(host: HostClient, ledger: Ledger) -> None:
    run = think(host)
    host.finished(run)
    usage = next(event for event in ledger.events(f"run/{run}") if event.type == "provider.usage")
    walked = [event.type for event in ledger.cause_chain(usage.id)]
    assert walked == [
        "provider.usage",
        "capability.completed",
        "capability.invoked",
        "model.capability.substituted",
        "node.started",
        "run.started",
    ]

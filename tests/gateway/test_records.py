"""Every request is an invocation that is settled and paid for; prompts are not kept."""

import json

import pytest

from tests.cli.conftest import Run
from tests.fakes import Fail
from tests.gateway.conftest import Serve
from tests.gateway.planners import TOOLS
from tests.gateway.support import Answer, RunningGateway

PROMPT = "the password of the duke is swordfish"
MESSAGES = [{"role": "user", "content": PROMPT}]


def ask_each_way(gateway: RunningGateway) -> list[Answer]:
    gateway.openai.script.add("one", "two", Fail(400, "no"))
    return [
        gateway.chat("gpt-4o", messages=MESSAGES),
        gateway.chat("gpt-4o", messages=MESSAGES, stream=True),
        gateway.chat("gpt-4o", messages=MESSAGES),
        gateway.message("claude-opus-4-5", messages=MESSAGES),
        gateway.message("gpt-4o", messages=MESSAGES, stream=True),
        gateway.chat("openai/text-only", messages=MESSAGES, tools=TOOLS),
    ]


def test_every_request_is_one_settled_invocation(gateway: RunningGateway) -> None:
    answers = ask_each_way(gateway)
    assert [answer.status for answer in answers] == [200, 200, 400, 200, 200, 422]
    states = gateway.settled()
    assert [state for state, _ in states] == [*("completed", "completed", "failed", "completed", "completed")]
    ids = [answer.headers["modelpact-invocation"] for answer in answers[:-1]]
    assert ids == [invocation[0] for invocation in gateway.invocations()]
    assert "modelpact-invocation" not in answers[-1].headers, "nothing was sent"
    refused = [e for e in gateway.events("negotiation.decided") if e.payload["plan"] == "refuse"]
    assert answers[-1].headers["modelpact-event"] == refused[0].id


def test_each_invocation_follows_from_a_decision(gateway: RunningGateway) -> None:
    ask_each_way(gateway)
    gateway.settled()
    decisions = {event.id for event in gateway.events("negotiation.decided")}
    invoked = gateway.events("capability.invoked")
    assert len(invoked) == 5
    assert all(event.cause in decisions for event in invoked)


def test_the_audit_verifies_and_the_costs_add_up(gateway: RunningGateway, run: Run) -> None:
    answers = ask_each_way(gateway)
    gateway.settled()
    store = ["--store", f"sqlite:{gateway.path}"]
    verified = run("audit", "verify", *store)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    summed = run("costs", "--by", "model", "--json", *store)
    assert summed.returncode == 0, summed.stderr
    totals = json.dumps(json.loads(summed.stdout))
    assert "gpt-4o" in totals
    assert "claude-opus-4-5" in totals
    assert answers[0].headers["modelpact-cost-usd"]
    paid = [
        event.payload["cost"]
        for event in gateway.events("capability.completed")
        if event.cause == answers[0].headers["modelpact-invocation"]
    ]
    (money,) = [line for line in paid[0]["lines"] if line["unit"] == "currency"]
    assert money["amount"] == round(float(answers[0].headers["modelpact-cost-usd"]) * 1e9)


@pytest.mark.parametrize("keep", [False, True])
def test_prompts_and_answers_are_kept_only_on_request(serve: Serve, keep: bool) -> None:
    """MP-A6: the store has only the hashes of prompts."""
    gateway = serve(f"[gateway]\nkeep_content = {str(keep).lower()}\n")
    gateway.openai.script.add("the answer is trout")
    gateway.chat("gpt-4o", messages=MESSAGES)
    gateway.message("gpt-4o", messages=MESSAGES, stream=True)
    gateway.settled()
    files = b"".join(path.read_bytes() for path in gateway.path.parent.glob("ledger.db*"))
    assert (PROMPT.encode() in files) is keep
    assert (b"the answer is trout" in files) is keep


def test_costs_are_attributed_to_keys_and_workloads(serve: Serve) -> None:
    gateway = serve('[workloads.extract]\nmodel = "openai/gpt-4o"\nneeds = []\n')
    secret = gateway.new_key("app")
    gateway.chat("workload/extract", key=secret)
    (settled,) = gateway.events("capability.completed")
    attribution = settled.payload["cost"]["attribution"]
    assert attribution["function"] == "extract"
    assert attribution["worker"].startswith("key_")
    assert (attribution["provider"], attribution["model"]) == ("openai", "gpt-4o")
    assert "/extract/" in settled.envelope

"""Rejections by upstreams become evidence for the next negotiation."""

from tests.cli.conftest import Run
from tests.fakes import Fail
from tests.gateway.planners import TOOLS
from tests.gateway.support import RunningGateway, configured

NO_TOOLS = Fail(400, "tools is not supported in this model.", "invalid_request_error", "unsupported_parameter")


def test_a_rejection_is_learned_from(gateway: RunningGateway) -> None:
    """MP-A12: a rejection becomes evidence for the next negotiation."""
    gateway.openai.script.add(NO_TOOLS)
    assert gateway.chat("gpt-4o", tools=TOOLS).status == 400
    again = gateway.chat("gpt-4o", tools=TOOLS)
    assert (again.status, again.headers["modelpact-verdict"]) == (422, "no")
    assert "tool-calling" in again.json["error"]["message"]
    assert len(gateway.openai.requests) == 1, "nobody asks twice"
    assert gateway.openai.connections == 1, "its connections stay"


def test_learned_facts_are_listed(gateway: RunningGateway, run: Run) -> None:
    """`modelpact show` on the same store says so, and that use showed it."""
    gateway.openai.script.add(NO_TOOLS, NO_TOOLS)
    gateway.chat("gpt-4o", tools=TOOLS)
    gateway.chat("local/gpt-4o-mini", tools=TOOLS)
    folder = gateway.path.parent
    config = folder / "modelpact.toml"
    text = configured(gateway.openai, gateway.anthropic)
    config.write_text(f'{text}\n[store]\nurl = "sqlite:{gateway.path}"\n')
    for target in ("openai/gpt-4o", "local/gpt-4o-mini"):
        result = run("show", target, "--config", str(config))
        assert result.returncode == 0, result.stderr
        (line,) = [line for line in result.stdout.splitlines() if " tool-calling " in line]
        assert "unsupported" in line
        assert "use" in line


def test_a_translated_request_teaches_too(gateway: RunningGateway) -> None:
    gateway.openai.script.add(NO_TOOLS)
    tools = [{"name": "weather", "input_schema": {"type": "object", "properties": {}}}]
    assert gateway.message("gpt-4o", tools=tools).status == 400
    assert gateway.message("gpt-4o", tools=tools).status == 422


def test_outages_and_invalid_requests_teach_nothing(gateway: RunningGateway) -> None:
    gateway.openai.script.add(Fail(500, "tools is not supported"), Fail(400, "Odd messages."))
    gateway.chat("gpt-4o", tools=TOOLS)
    gateway.chat("gpt-4o", tools=TOOLS)
    assert gateway.chat("gpt-4o", tools=TOOLS).status == 200

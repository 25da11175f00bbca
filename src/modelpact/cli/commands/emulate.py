"""`modelpact emulate`: a conversation and capabilities in, the changed conversation out."""

import click
import msgspec

from modelpact.cli.options import json_only_option, print_json, read_json
from modelpact.conversation.message import read_conversation, write_conversation
from modelpact.emulation.strategies import EmulationConfig, EmulationEngine, read_config
from modelpact.vocabulary.errors import InputError

_FIELDS = ("capabilities", "conversation", "config")


@click.command("emulate")
@click.argument("file", required=False)
@click.option("--plan", "plan_only", is_flag=True, help="Only report what would be changed.")
@json_only_option
def command(file: str | None, plan_only: bool, as_json: bool) -> None:  # noqa: ARG001
    """Apply emulation strategies to a conversation.

    Reads JSON from FILE or standard input:

    \b
    {"capabilities": ["extended_thinking"],
     "conversation": {"messages": [
       {"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}}
    """
    request = read_json(file)
    if not isinstance(request, dict):
        raise InputError(f"expected an object with {', '.join(_FIELDS)}")
    for field in request:
        if field not in _FIELDS:
            raise InputError(f"unknown field {field!r:.60}; there are {', '.join(_FIELDS)}")
    capabilities = request.get("capabilities")
    if not isinstance(capabilities, list):
        raise InputError("capabilities: expected a list of names")
    conversation = read_conversation(request.get("conversation"))
    config = read_config(request["config"]) if "config" in request else EmulationConfig()
    engine = EmulationEngine(config)
    report = engine.plan(capabilities) if plan_only else engine.apply(capabilities, conversation)
    print_json(
        {
            "conversation": write_conversation(conversation),
            "report": msgspec.to_builtins(report),
        }
    )

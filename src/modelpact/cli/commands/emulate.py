"""`modelpact emulate`: conversation + capabilities in, conversation + report out."""

import click
import msgspec

from modelpact.cli.options import print_json, read_json
from modelpact.conversation.message import read_conversation, write_conversation
from modelpact.emulation.strategies import EmulationConfig, EmulationEngine, read_config
from modelpact.vocabulary.errors import InputError

_FIELDS = ("capabilities", "conversation", "config")


@click.command("emulate", short_help="Apply emulation strategies to a conversation; JSON.")
@click.argument("file", required=False)
@click.option("--plan", "dry", is_flag=True, help="Report what would be done and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="JSON is the only form; for uniformity.")
def command(file: str | None, dry: bool, as_json: bool) -> None:  # noqa: ARG001
    """Apply emulation strategies to a conversation, from FILE or standard input.

    \b
    {"capabilities": ["extended_thinking"],
     "conversation": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}}
    """
    request = read_json(file)
    if not isinstance(request, dict):
        raise InputError(f"expected an object with {', '.join(_FIELDS)}")
    for field in request:
        if field not in _FIELDS:
            raise InputError(f"no field {field!r:.60}; there are {', '.join(_FIELDS)}")
    capabilities = request.get("capabilities")
    if not isinstance(capabilities, list):
        raise InputError("capabilities: expected a list of names")
    conversation = read_conversation(request.get("conversation"))
    config = read_config(request["config"]) if "config" in request else EmulationConfig()
    engine = EmulationEngine(config)
    report = engine.plan(capabilities) if dry else engine.apply(capabilities, conversation)
    print_json(
        {
            "conversation": write_conversation(conversation),
            "report": msgspec.to_builtins(report),
        }
    )

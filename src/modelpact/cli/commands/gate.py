"""`modelpact gate`: one dispatch decision, JSON in and out."""

from pathlib import Path

import click

from modelpact.cli.options import (
    config_option,
    json_only_option,
    load_catalog,
    print_json,
    read_json,
)
from modelpact.dispatch.gate import catalog_check, decide_json


@click.command("gate")
@click.argument("file", required=False)
@config_option
@json_only_option
def command(file: str | None, config_path: Path | None, as_json: bool) -> None:  # noqa: ARG001
    """Decide whether an OpenWOP node may run on its model.

    Reads JSON from FILE or standard input:

    \b
    {"module": {
       "requiredModelCapabilities": ["structured-output"],
       "fallbackModel": {"provider": "openai", "model": "gpt-5"}},
     "activeProvider": "ollama", "activeModel": "llama3.2",
     "substitutionSupported": true}

    Exits with 0 if the node is dispatched, on its model or on the fallback, and with 1 if it is
    refused.
    """
    _, catalog = load_catalog(config_path)
    decision = decide_json(
        read_json(file),
        lambda: catalog_check(catalog),
        lambda name: catalog.find_provider(name) is not None,
    )
    print_json(decision.to_json())
    raise SystemExit(1 if decision.route == "refuse" else 0)

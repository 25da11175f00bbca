"""`modelpact gate`: one dispatch decision, JSON in and out."""

from pathlib import Path

import click

from modelpact.cli.options import config_option, configured, print_json, read_json
from modelpact.dispatch.gate import catalog_check
from modelpact.dispatch.gate_json import decide_json


@click.command("gate", short_help="Decide on one dispatch of a node; JSON in and out.")
@click.argument("file", required=False)
@config_option
@click.option("--json", "as_json", is_flag=True, help="JSON is the only form; for uniformity.")
@click.pass_context
def command(ctx: click.Context, file: str | None, config_path: Path | None, as_json: bool) -> None:  # noqa: ARG001
    """Decide whether a node may run on its model, from FILE or standard input.

    \b
    {"module": {"requiredModelCapabilities": ["structured-output"],
                "fallbackModel": {"provider": "openai", "model": "gpt-5"}},
     "activeProvider": "ollama", "activeModel": "llama3.2", "substitutionSupported": true}

    Exits 0 when it is dispatched, on the active model or its fallback, and 1 when it is refused.
    """
    _, catalog = configured(config_path)
    decision = decide_json(
        read_json(file),
        lambda: catalog_check(catalog),
        lambda name: catalog.find_provider(name) is not None,
    )
    print_json(decision.to_json())
    ctx.exit(1 if decision.route == "refuse" else 0)

"""`python -m modelpact.cli.tour`: shows what modelpact does, with real commands."""

import shlex
from typing import Final

import click

from modelpact.cli.main import root
from modelpact.cli.render.terminal import paint

STEPS: Final = (
    (
        "What can a model do, and how do we know? (--trace adds the layers and rules.)",
        "show mistral/mistral-large-latest",
    ),
    (
        "An application states its needs. This model meets all of them:",
        "negotiate --target anthropic/claude-opus-4-5 "
        '--need "tools,structured-output,context>=200k,prompt-caching:preferred"',
    ),
    (
        "This one does not. You get every miss with its evidence, and a model that meets the "
        "needs. Nothing was sent to any provider.",
        'negotiate --target openai/gpt-4o-mini --need "tools,reasoning,context>=200k,logprobs,top-k:preferred"',
    ),
    (
        "No catalog lists this model. What is unknown is not a yes:",
        'negotiate --target openai/gpt-99-preview --need "tools,audio"',
    ),
    (
        "Which models would do, the cheapest first?",
        'models --need "tools,structured-output,context>=200k" --provider gemini --sort price --limit 8',
    ),
    ("What would a switch change?", "diff openai/gpt-4o openai/gpt-5"),
)


def main() -> None:
    """Run each step as a user would."""
    click.echo(paint("modelpact: a pact between an application and its models\n", "bold"))
    for number, (text, command) in enumerate(STEPS, 1):
        click.echo(paint(f"{number}. {text}", "cyan"))
        click.echo(paint(f"$ modelpact {command}", "bold"))
        try:
            root.main(args=shlex.split(command), prog_name="modelpact", standalone_mode=False)
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        click.echo(paint(f"(exit code {code})\n", "dim"))
    click.echo("Next: write a modelpact.toml and run `modelpact check`; README.md shows how.")


if __name__ == "__main__":
    main()

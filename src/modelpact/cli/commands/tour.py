"""`python -m modelpact.cli.commands.tour`: what modelpact does, shown with real commands."""

import click

from modelpact.cli.main import root
from modelpact.cli.render.tables import paint

STEPS = (
    (
        "What can a model do, and how is that known? Here only its trace of layers and rules is "
        "left out (--trace).",
        ["show", "mistral/mistral-large-latest"],
    ),
    (
        "An application says what it needs. This model can do it all:",
        [
            "negotiate",
            "--target",
            "anthropic/claude-opus-4-5",
            "--need",
            "tools,structured-output,context>=200k,prompt-caching:preferred",
        ],
    ),
    (
        "This one cannot: every miss is told at once, with how it is known, and a model that "
        "really meets the needs. Nothing was sent to anyone.",
        [
            "negotiate",
            "--target",
            "openai/gpt-4o-mini",
            "--need",
            "tools,reasoning,context>=200k,logprobs,top-k:preferred",
        ],
    ),
    (
        "A model that nobody lists is answered honestly: not known is not a yes.",
        ["negotiate", "--target", "openai/gpt-99-preview", "--need", "tools,audio"],
    ),
    (
        "Which models would do, the cheapest first?",
        [
            "models",
            "--need",
            "tools,structured-output,context>=200k",
            "--provider",
            "gemini",
            "--sort",
            "price",
            "--limit",
            "8",
        ],
    ),
    ("What would a switch change?", ["diff", "openai/gpt-4o", "openai/gpt-5"]),
)


def main() -> None:
    """Run each step as a user would."""
    click.echo(paint("modelpact: a pact between an application and its models\n", "bold"))
    for number, (said, args) in enumerate(STEPS, 1):
        click.echo(paint(f"{number}. {said}", "cyan"))
        quoted = [f'"{one}"' if "," in one or ">" in one else one for one in args]
        click.echo(paint(f"$ modelpact {' '.join(quoted)}", "bold"))
        try:
            root.main(args=args, prog_name="modelpact", standalone_mode=False)
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        click.echo(paint(f"(exit code {code})\n", "dim"))
    click.echo("Next: write a modelpact.toml and run `modelpact check`; README.md shows how.")


if __name__ == "__main__":
    main()

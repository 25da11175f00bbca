"""The gate: decisions on one dispatch, asked before and new, and linear in what is required."""

import modelpact
import peers
from modelpact.dispatch.gate import Gate, catalog_check
from modelpact.needs.dialects import FallbackModel, NodeModule
from rows import Row, emit
from timing import per_call, settle

FIVE = ("structured-output", "discriminator-enum", "long-context", "reasoning", "function-calling")
COUNTS = (4, 8, 16, 32)
ROOM = 1.25


def main() -> None:
    litellm = peers.load()
    gate = Gate(supported=("anthropic",))
    fits = NodeModule("core.ai.callPrompt", FIVE)
    swaps = NodeModule("core.ai.callPrompt", FIVE, FallbackModel("anthropic", "claude-opus-4-5"))
    sizes = {count: NodeModule("a.b", tuple(f"x-host-acme-k{one}" for one in range(count))) for count in COUNTS}

    def anew() -> None:
        Gate(catalog_check(catalog)).decide(fits, "anthropic", "claude-opus-4-5")

    catalog = modelpact.default_catalog()
    settle()
    target = "anthropic/claude-opus-4-5"
    work = {
        "dispatch": lambda: gate.decide(fits, "anthropic", "claude-opus-4-5"),
        "substitute": lambda: gate.decide(swaps, "openai", "gpt-4o-mini"),
        "anew": anew,
        "litellm": lambda: litellm.supports_function_calling(target),
    }
    for count, module in sizes.items():
        made = Gate(lambda _, __, required: required)
        work[str(count)] = lambda module=module, made=made: made.decide(module, "a", "b")
    found = per_call(work)
    each = {count: found[str(count)] / count for count in COUNTS}
    name = "one supports_function_calling, warm"
    emit(
        Row("a dispatch decided", found["dispatch"], found["litellm"], name, bar=10),
        Row("a substitution decided", found["substitute"], found["litellm"], name),
        Row("a dispatch, new question", found["anew"], found["litellm"], name),
        Row("a capability of 32", each[32], each[4], "a capability of 4", "s", "at most", ROOM),
        note=(
            f"{1 / found['dispatch']:,.0f} dispatches and {1 / found['substitute']:,.0f} "
            "substitutions decided a second on one core, five capabilities each."
        ),
    )


if __name__ == "__main__":
    main()

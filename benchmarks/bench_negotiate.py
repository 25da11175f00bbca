"""Negotiating: seven needs against a resolved model, a new question and one asked before."""

import modelpact
import peers
from modelpact.negotiation.negotiate import decide
from rows import Row, emit
from timing import per_call, settle

SEVEN = "tools,structured-output,streaming,image-input,reasoning,prompt-caching:preferred,context>=200k"
COUNTS = (7, 14, 28, 56)
ROOM = 1.25
"""How much a need may cost at 56 needs beside what it costs at 7, to call that linear."""


def main() -> None:
    litellm = peers.load()
    resolution = modelpact.resolve("anthropic", "claude-opus-4-5")
    policy = modelpact.Policy()
    seven = modelpact.Needs(SEVEN)
    plain = modelpact.resolve("mistral", "mistral-large-latest")
    assert not plain.constraints, "constraints cost once, not by the need: they would blur the line"
    sizes = {n: modelpact.Needs(list(modelpact.CAPABILITIES)[:n]) for n in COUNTS}
    negotiate = modelpact.negotiate
    negotiate(seven, resolution)
    for needs in sizes.values():
        negotiate(needs, plain)
    settle()
    target = "anthropic/claude-opus-4-5"
    work = {
        "decide": lambda: decide(seven, resolution, policy),
        "again": lambda: negotiate(seven, resolution),
        "again by name": lambda: negotiate(seven, target),
        "from text": lambda: decide(modelpact.Needs(SEVEN), resolution, policy),
        "litellm": lambda: litellm.supports_function_calling(target),
    }
    for count, needs in sizes.items():
        work[str(count)] = lambda needs=needs: decide(needs, plain, policy)
    found = per_call(work)
    each = {n: found[str(n)] / n for n in COUNTS}
    peer, name = found["litellm"], "one supports_function_calling, warm"
    emit(
        Row("7 needs, new question", found["decide"], peer, name, bar=3),
        Row("7 needs, asked before", found["again"], peer, name, bar=40),
        Row("7 needs, asked before, target as text", found["again by name"], peer, name),
        Row("7 needs, read from text, new question", found["from text"], peer, name),
        Row("a need among 56", each[56], each[7], "a need among 7", "s", "at most", ROOM),
        note=(
            "Least of 40 interleaved rounds. Time per need at "
            + ", ".join(f"{n} needs: {each[n] * 1e9:,.0f} ns" for n in COUNTS)
            + ". LiteLLM is asked of one capability: `supports_function_calling(PROVIDER/MODEL)`."
        ),
    )


if __name__ == "__main__":
    main()

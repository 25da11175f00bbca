"""Resolving: again, and for the first time, over every model that both sides know."""

import functools
import time

import modelpact
import peers
from rows import Row, emit
from timing import per_call, per_round, settle

SEVEN = (
    "tool-calling",
    "structured-output",
    "streaming",
    "image-input",
    "reasoning",
    "prompt-caching",
    "context-window",
)


@functools.cache
def _remembered(provider: str, model: str) -> object:
    return provider, model


def main() -> None:
    catalog = modelpact.default_catalog()
    everything = [(p, m) for p in catalog.models.providers for m in catalog.models.names(p)]
    start = time.perf_counter()
    for provider, model in everything:
        catalog.resolve(provider, model)
    very_first = (time.perf_counter() - start) / len(everything)

    litellm = peers.load()
    shared = []
    for name, entry in peers.models(litellm):
        found = catalog.find_provider(str(entry.get("litellm_provider")))
        model = name.removeprefix(f"{entry.get('litellm_provider')}/")
        if found is not None and catalog.models.find(found.id, model) is not None:
            shared.append((name, found.id, model))
    settle()

    def resolved() -> float:
        catalog._memo.clear()
        start = time.perf_counter()
        for _, provider, model in shared:
            catalog.resolve(provider, model)
        return (time.perf_counter() - start) / len(shared)

    def resolved_and_read() -> float:
        catalog._memo.clear()
        start = time.perf_counter()
        for _, provider, model in shared:
            one = catalog.resolve(provider, model)
            for name in SEVEN:
                one.claim(name)
        return (time.perf_counter() - start) / len(shared)

    def asked(question: object) -> float:
        peers.forget(litellm)
        start = time.perf_counter()
        for name, _, _ in shared:
            question(name)  # type: ignore[operator]
        return (time.perf_counter() - start) / len(shared)

    first = per_round(
        {
            "resolve": resolved,
            "resolve+7": resolved_and_read,
            "info": lambda: asked(litellm.get_model_info),
            "supports": lambda: asked(litellm.supports_function_calling),
        },
        rounds=12,
    )
    provider, model = "anthropic", "claude-opus-4-5"
    modelpact.resolve(provider, model)
    resolve = modelpact.resolve
    again = per_call(
        {
            "ours": lambda: resolve(provider, model),
            "cache": lambda: _remembered(provider, model),
            "nothing": lambda: (provider, model),
        }
    )
    ours, hit = (again[name] - again["nothing"] for name in ("ours", "cache"))
    info, supports = "get_model_info, uncached", "supports_function_calling, uncached"
    emit(
        Row("resolve again", ours, hit, "functools.cache hit", "s", "at most", 3),
        Row("first resolve", first["resolve"], first["info"], info, "s", "at least", 10),
        Row("first resolve", first["resolve"], first["supports"], supports, "s", "at least", 10),
        Row("first resolve + 7 claims", first["resolve+7"], first["info"], info),
        Row("first resolve + 7 claims", first["resolve+7"], first["supports"], supports),
        Row("very first resolve in a process", very_first, first["info"], info),
        note=(
            f"First resolves go over the {len(shared):,} models that both sides list; before each "
            "round both sides forget single models and keep their loaded tables; least of 12 "
            "interleaved rounds. `resolve again` and the cache hit are net of the loop and of the "
            f"lambda around both. The very first one is over all {len(everything):,} models "
            "of the catalog, with each provider's table unpacked and each rule compiled on the "
            "way. A model's facts are unpacked when its first claim is asked for, so that `first "
            "resolve + 7 claims` is what a whole answer costs."
        ),
    )


if __name__ == "__main__":
    main()

"""What a good answer refutes: limits that it went beyond, refusals of what it did all the same."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from modelpact.catalog.resolution import Resolution
from modelpact.conversation.response import Usage
from modelpact.evidence.learned import Learned

_TOKENS: Final = {
    "context-window": lambda used: used.input + used.output,
    "max-input": lambda used: used.input,
    "max-output": lambda used: used.output,
}


class Refuted(msgspec.Struct, frozen=True):
    """Evidence that an answer contradicts, and what is said in its place: more, or nothing."""

    before: Learned
    instead: Learned | None = None
    why: str = ""


def what_it_refutes(
    standing: Iterable[Learned], shown: Iterable[Learned], usage: Usage, known: Resolution
) -> tuple[Refuted, ...]:
    """Hold the evidence that stands against an answer: what it proves, and the tokens it took.

    Where the catalog without evidence agrees with the answer, or knows nothing, the evidence falls
    and that stands again; else what was seen is the new evidence.
    """
    proved = {one.capability: one for one in shown}
    found = (_refuted(one, proved, usage, known) for one in standing)
    return tuple(one for one in found if one is not None)


def _refuted(
    one: Learned, proved: Mapping[str, Learned], usage: Usage, known: Resolution
) -> Refuted | None:
    rest = known.without_evidence(one.capability)
    count = _TOKENS.get(one.capability)
    if count is not None and isinstance(one.value, int) and count(usage) > one.value:
        seen = count(usage)
        why = f"an answer took {seen:,} tokens, more than the {one.value:,} that were learned"
        if isinstance(rest.value, int) and rest.value < seen:
            name = (one.provider, one.model, one.capability)
            return Refuted(one, Learned(*name, "native", seen, "use", why), why)
        return Refuted(one, None, why)
    better = proved.get(one.capability)
    if one.support == "unsupported" and better is not None:
        return Refuted(one, None if rest.support == "native" else better, better.detail)
    return None

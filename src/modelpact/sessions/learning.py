"""What use teaches: a refusal at the point of use becomes evidence for the next negotiation."""

import datetime
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from modelpact.catalog.claim import Evidence
from modelpact.catalog.layer import Layer
from modelpact.catalog.statement import Stated
from modelpact.conversation.request import Request
from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.reader import Reader
from modelpact.providers.port import ProviderError, UnsupportedByProvider
from modelpact.vocabulary.support import Support

ENVELOPE: Final = "evidence"
_WINDOW: Final = re.compile(
    r"context[ _-]?(?:length|window)|prompt is too long|too many (?:input )?tokens", re.IGNORECASE
)
_WINDOW_OF: Final = re.compile(
    r"(?:maximum context length is|context (?:length|window) (?:is|of)|> )\s*([0-9][0-9,]{2,12})",
    re.IGNORECASE,
)


class Learned(msgspec.Struct, frozen=True):
    """What was learned of one capability of a model, by a probe or in use."""

    provider: str
    model: str
    capability: str
    support: Support
    value: int | str | None = None
    origin: Literal["probe", "use"] = "use"
    detail: str = ""
    transcript: str = ""


async def record_async(ledger: Ledger, *learned: Learned, cause: str | None = None) -> None:
    """Keep what was learned; it takes the place of what was known of the same before."""

    def work(tx: Transaction) -> None:
        tx.open_envelope(ENVELOPE, "evidence", "what probes and use showed")
        for one in learned:
            payload = {name: str(held) for name, held in msgspec.structs.asdict(one).items()}
            event = tx.append(Draft(ENVELOPE, "evidence.learned", payload, cause))
            key = (one.provider, one.model, one.capability)
            tx.execute(
                "DELETE FROM evidence WHERE provider = ? AND model = ? AND capability = ?", key
            )
            value = None if one.value is None else msgspec.json.encode(one.value).decode()
            tx.execute(
                "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(*key, one.support, value, one.origin, one.detail),
                    *(one.transcript, tx.now, event.id),
                ),
            )

    await ledger.write_async(work)


def read_evidence(reader: Reader) -> Mapping[tuple[str, str], tuple[Layer, ...]]:
    """Return what was learned, as layers for the catalog."""
    found: dict[tuple[str, str], tuple[Layer, ...]] = {}
    rows = reader.read(
        "SELECT provider, model, capability, support, value, origin, observed, event FROM evidence "
        "ORDER BY observed"
    )
    for provider, model, capability, support, value, origin, observed, event in rows:
        held: Any = None if value is None else msgspec.json.decode(value)
        day = datetime.datetime.fromtimestamp(observed / 1e9, datetime.UTC).date().isoformat()
        evidence = Evidence("evidence", f"learned by {origin}", event, day)
        layer = Layer(
            evidence,
            {capability: support if held is None else held},
            {capability: Stated(support, held)},
        )
        found[provider, model] = (*found.get((provider, model), ()), layer)
    return found


def what_it_teaches(error: ProviderError, request: Request) -> tuple[Learned, ...]:
    """Say what a refusal shows of the model; nothing where it is about something else."""
    origin = error.__cause__ if isinstance(error.__cause__, ProviderError) else error
    detail = str(origin)[:300]
    if isinstance(origin, UnsupportedByProvider):
        return (Learned("", request.model, origin.capability, "unsupported", detail=detail),)
    if origin.status in (400, 413, 422) and _WINDOW.search(detail):
        limit = _WINDOW_OF.search(detail)
        value = int(limit[1].replace(",", "")) if limit else None
        support: Support = "native" if value else "unknown"
        return (Learned("", request.model, "context-window", support, value, detail=detail),)
    return ()

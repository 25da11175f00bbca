"""Registrations as they come: read whole, checked, and everything that is wrong told at once."""

import re
from collections.abc import Iterator
from typing import Any, Final, get_args

import msgspec

from modelpact.emulation.validation import Schema
from modelpact.identity.keys import is_weak_key
from modelpact.ledger.costs import UNITS
from modelpact.providers.contract import Category, Offer, Rate, Registration, Semantics
from modelpact.vocabulary.errors import InputError, brief, nearest

_ID: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s]{1,200}")
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_IDENTITY: Final = re.compile(r"sha256:[0-9a-f]{64}")
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_BASE_URL: Final = re.compile(r"https?://[^\s?#@]{1,200}")
_LONGEST_NAME: Final = 200
_LONGEST_DELAY: Final = 10**12
_WORDS: Final = {
    "category": get_args(Category),
    "units": UNITS,
    "unit": UNITS,
    "semantics": get_args(Semantics),
}
"""The fields that take one of a few words."""
_PARTS: Final[dict[str, type[msgspec.Struct]]] = {"offers": Offer, "rates": Rate}
"""The fields that are lists of parts with fields of their own."""


def read_registration(data: Any, where: str = "registration") -> Registration:
    """Read and check a registration; the error tells all that is wrong, each with its field."""
    problems = list(_misread(data, Registration, where))
    if not problems:
        try:
            found = msgspec.convert(data, Registration)
        except (msgspec.ValidationError, RecursionError) as error:
            problems = [f"{where}: {error}"]
    if not problems:
        problems = list(_wrong(found, where))
    _raise(problems)
    return found


def check_registration(one: Registration) -> None:
    """Check what types alone cannot."""
    _raise(list(_wrong(one, "registration")))


def _raise(problems: list[str]) -> None:
    if len(problems) == 1:
        raise InputError(problems[0])
    if problems:
        raise InputError("\n  ".join([f"{len(problems)} problems:", *problems]))


def _misread(data: Any, kind: type[msgspec.Struct], where: str) -> Iterator[str]:
    """Yield what has not the form of a part: fields missing, unknown, or of the wrong type."""
    if not isinstance(data, dict):
        yield f"{where}: expected an object, not {brief(data)}"
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name in data:
        if name not in fields:
            close = nearest(name, fields) if isinstance(name, str) else ()
            meant = f"; did you mean {' or '.join(close)}?" if close else ""
            yield f"{where}: unknown field {brief(name)}{meant}"
    for name, field in fields.items():
        place = f"{where}.{name}"
        if name not in data:
            if field.required:
                words = f": one of {', '.join(_WORDS[name])}" if name in _WORDS else ""
                yield f"{place}: is missing{words}"
            continue
        part = _PARTS.get(name)
        if part is not None and isinstance(data[name], list):
            for number, one in enumerate(data[name]):
                yield from _misread(one, part, f"{place}[{number}]")
            continue
        try:
            msgspec.convert(data[name], field.type)
        except (msgspec.ValidationError, RecursionError) as error:
            words = f"; expected of {', '.join(_WORDS[name])}" if name in _WORDS else ""
            yield f"{place}: {error}{words}"


def _wrong(one: Registration, where: str) -> Iterator[str]:
    """Yield what is wrong with a registration that has the form of one."""
    if not _ID.fullmatch(one.id):
        yield f"{where}.id: expected lower-case letters, digits and dashes, not {brief(one.id)}"
    if not one.name.isprintable() or len(one.name) > _LONGEST_NAME:
        yield f"{where}.name: expected at most {_LONGEST_NAME} characters that can be shown"
    if one.category != "signal-source" and not one.offers:
        yield f"{where}.offers: at least one capability is needed"
    if not one.units:
        yield f"{where}.units: at least one of {', '.join(UNITS)}"
    if ("currency" in one.units) != bool(_CURRENCY.fullmatch(one.currency)):
        yield (
            f"{where}.currency: expected three capital letters where the units have currency, "
            f"and only there, not {brief(one.currency)}"
        )
    if one.max_latency_ms is None:
        if one.category == "signal-source":
            yield f"{where}.maxLatencyMs: a signal source declares its longest delay"
    elif not 0 < one.max_latency_ms <= _LONGEST_DELAY:
        yield f"{where}.maxLatencyMs: expected a number above zero, at most {_LONGEST_DELAY:,}"
    yield from _untrusted(one, where)
    seen: set[str] = set()
    for number, offer in enumerate(one.offers):
        yield from _wrong_offer(one, offer, f"{where}.offers[{number}]")
        if offer.kind in seen:
            yield f"{where}.offers[{number}].kind: {brief(offer.kind)} is offered twice"
        seen.add(offer.kind)


def _wrong_offer(one: Registration, offer: Offer, where: str) -> Iterator[str]:
    if not _URI.fullmatch(offer.kind) or not offer.kind.isprintable():
        yield f"{where}.kind: expected a URI, not {brief(offer.kind)}"
    if not all(line.isprintable() for line in offer.description.split("\n")):
        yield f"{where}.description: has characters that cannot be shown"
    if not offer.semantics or len(set(offer.semantics)) != len(offer.semantics):
        yield f"{where}.semantics: expected some of sync, async, streaming, each once"
    elif in_inbox(one) and offer.semantics != ("async",):
        yield (
            f"{where}.semantics: a human without a baseUrl answers from the inbox, later: "
            'expected ["async"]'
        )
    for way, schema in (("input", offer.input), ("output", offer.output)):
        try:
            Schema(schema, f"{where}.{way}")
        except InputError as error:
            yield str(error)
    for rate in offer.rates:
        if rate.unit not in one.units or rate.unit == "currency" or rate.pico < 0:
            yield f"{where}.rates: {rate.unit} is not a registered unit that can have a price"
    if offer.rates and "currency" not in one.units:
        yield f"{where}.rates: prices need currency among the units, and a currency"


def in_inbox(one: Registration) -> bool:
    """Tell whether a provider is a human who answers from the inbox."""
    return one.category == "human" and not one.base_url and not one.identity


def _untrusted(one: Registration, where: str) -> Iterator[str]:
    """Yield what is wrong with identity, key and address: who is reached has all of them."""
    if one.identity and not _IDENTITY.fullmatch(one.identity):
        yield f"{where}.identity: expected sha256: and 64 hex digits"
    if one.signing_key and not _KEY.fullmatch(one.signing_key):
        yield f"{where}.signingKey: expected an Ed25519 public key as 64 hex digits"
    elif one.signing_key and is_weak_key(bytes.fromhex(one.signing_key)):
        yield f"{where}.signingKey: a key of small order, for which anybody can sign"
    if one.identity and not one.signing_key:
        yield f"{where}.signingKey: who has an identity signs its answers"
    if not one.base_url:
        return
    yield from _unreachable(one.base_url, f"{where}.baseUrl")
    if not one.signing_key and not one.identity:
        yield f"{where}.signingKey: who is reached over a network signs its answers"
    if one.base_url.startswith("https:") and not one.identity:
        yield f"{where}.identity: needed with https, it is pinned"
    if one.base_url.startswith("http:") and one.identity:
        yield f"{where}.baseUrl: an identity is only proven with TLS: use https"


def _unreachable(url: str, where: str) -> Iterator[str]:
    from modelpact.wire.url import Url  # only who has an address pays for this import

    if not _BASE_URL.fullmatch(url):
        yield f"{where}: expected https://HOST:PORT, without a query, not {brief(url)}"
        return
    try:
        Url.parse(url)
    except InputError as error:
        yield f"{where}: {error}"

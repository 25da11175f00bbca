"""Reads and checks registrations, and reports everything that is wrong with one at once."""

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
_MAX_NAME_LENGTH: Final = 200
_MAX_LATENCY_MS: Final = 10**12
_CHOICES: Final = {"category": get_args(Category), "units": UNITS, "unit": UNITS, "semantics": get_args(Semantics)}
"""The fields that take one of a few values."""
_PARTS: Final[dict[str, type[msgspec.Struct]]] = {"offers": Offer, "rates": Rate}
"""The fields that are lists of objects."""


def read_registration(data: Any, where: str = "registration") -> Registration:
    """Read and check a registration; the error lists all problems, each with its field."""
    problems = list(_type_problems(data, Registration, where))
    if not problems:
        try:
            registration = msgspec.convert(data, Registration)
        except (msgspec.ValidationError, RecursionError) as error:
            problems = [f"{where}: {error}"]
    if not problems:
        problems = list(_problems(registration, where))
    _raise(problems)
    return registration


def check_registration(registration: Registration) -> None:
    """Check what types alone cannot; raise with all problems."""
    _raise(list(_problems(registration, "registration")))


def _raise(problems: list[str]) -> None:
    if len(problems) == 1:
        raise InputError(problems[0])
    if problems:
        raise InputError("\n  ".join([f"{len(problems)} problems:", *problems]))


def _type_problems(data: Any, kind: type[msgspec.Struct], where: str) -> Iterator[str]:
    """Yield the fields of an object that are missing, unknown, or of the wrong type."""
    if not isinstance(data, dict):
        yield f"{where}: expected an object, not {brief(data)}"
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name in data:
        if name not in fields:
            similar = nearest(name, fields) if isinstance(name, str) else ()
            hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
            yield f"{where}: unknown field {brief(name)}{hint}"
    for name, field in fields.items():
        place = f"{where}.{name}"
        if name not in data:
            if field.required:
                choices = f": one of {', '.join(_CHOICES[name])}" if name in _CHOICES else ""
                yield f"{place}: is missing{choices}"
            continue
        part = _PARTS.get(name)
        if part is not None and isinstance(data[name], list):
            for index, item in enumerate(data[name]):
                yield from _type_problems(item, part, f"{place}[{index}]")
            continue
        try:
            msgspec.convert(data[name], field.type)
        except (msgspec.ValidationError, RecursionError) as error:
            choices = f"; expected of {', '.join(_CHOICES[name])}" if name in _CHOICES else ""
            yield f"{place}: {error}{choices}"


def _problems(registration: Registration, where: str) -> Iterator[str]:
    """Yield what is wrong with a registration whose fields have the right types."""
    if not _ID.fullmatch(registration.id):
        expected = "expected lower-case letters, digits and dashes"
        yield f"{where}.id: {expected}, not {brief(registration.id)}"
    if not registration.name.isprintable() or len(registration.name) > _MAX_NAME_LENGTH:
        yield f"{where}.name: expected at most {_MAX_NAME_LENGTH} characters that can be shown"
    if registration.category != "signal-source" and not registration.offers:
        yield f"{where}.offers: at least one capability is needed"
    if not registration.units:
        yield f"{where}.units: at least one of {', '.join(UNITS)}"
    if ("currency" in registration.units) != bool(_CURRENCY.fullmatch(registration.currency)):
        yield (
            f"{where}.currency: expected three capital letters where the units have currency, "
            f"and only there, not {brief(registration.currency)}"
        )
    if registration.max_latency_ms is None:
        if registration.category == "signal-source":
            yield f"{where}.maxLatencyMs: a signal source declares its longest delay"
    elif not 0 < registration.max_latency_ms <= _MAX_LATENCY_MS:
        yield f"{where}.maxLatencyMs: expected a number above zero, at most {_MAX_LATENCY_MS:,}"
    yield from _trust_problems(registration, where)
    seen: set[str] = set()
    for index, offer in enumerate(registration.offers):
        yield from _offer_problems(registration, offer, f"{where}.offers[{index}]")
        if offer.kind in seen:
            yield f"{where}.offers[{index}].kind: {brief(offer.kind)} is offered twice"
        seen.add(offer.kind)


def _offer_problems(registration: Registration, offer: Offer, where: str) -> Iterator[str]:
    if not _URI.fullmatch(offer.kind) or not offer.kind.isprintable():
        yield f"{where}.kind: expected a URI, not {brief(offer.kind)}"
    if not all(line.isprintable() for line in offer.description.split("\n")):
        yield f"{where}.description: has characters that cannot be shown"
    if not offer.semantics or len(set(offer.semantics)) != len(offer.semantics):
        yield f"{where}.semantics: expected some of sync, async, streaming, each once"
    elif registration.in_inbox and offer.semantics != ("async",):
        yield (f'{where}.semantics: a human without a baseUrl answers from the inbox, later: expected ["async"]')
    for direction, schema in (("input", offer.input), ("output", offer.output)):
        try:
            Schema(schema, f"{where}.{direction}")
        except InputError as error:
            yield str(error)
    for rate in offer.rates:
        if rate.unit not in registration.units or rate.unit == "currency" or rate.pico < 0:
            yield f"{where}.rates: {rate.unit} is not a registered unit that can have a price"
    if offer.rates and "currency" not in registration.units:
        yield f"{where}.rates: prices need currency among the units, and a currency"


def _trust_problems(registration: Registration, where: str) -> Iterator[str]:
    """Yield what is wrong with identity, key and address; a remote provider needs all three."""
    if registration.identity and not _IDENTITY.fullmatch(registration.identity):
        yield f"{where}.identity: expected sha256: and 64 hex digits"
    if registration.signing_key and not _KEY.fullmatch(registration.signing_key):
        yield f"{where}.signingKey: expected an Ed25519 public key as 64 hex digits"
    elif registration.signing_key and is_weak_key(bytes.fromhex(registration.signing_key)):
        yield f"{where}.signingKey: a key of small order, for which anybody can sign"
    if registration.identity and not registration.signing_key:
        yield f"{where}.signingKey: a provider with an identity signs its answers"
    if not registration.base_url:
        return
    yield from _url_problems(registration.base_url, f"{where}.baseUrl")
    if not registration.signing_key and not registration.identity:
        yield f"{where}.signingKey: a provider that is reached over a network signs its answers"
    if registration.base_url.startswith("https:") and not registration.identity:
        yield f"{where}.identity: needed with https, it is pinned"
    if registration.base_url.startswith("http:") and registration.identity:
        yield f"{where}.baseUrl: an identity is only proven with TLS: use https"


def _url_problems(url: str, where: str) -> Iterator[str]:
    from modelpact.wire.url import Url  # most registrations have no address

    if not _BASE_URL.fullmatch(url):
        yield f"{where}: expected https://HOST:PORT, without a query, not {brief(url)}"
        return
    try:
        Url.parse(url)
    except InputError as error:
        yield f"{where}: {error}"

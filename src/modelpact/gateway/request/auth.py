"""Callers: what the head of a request says, read once for all requests that come with it."""

from typing import Final

import msgspec

from modelpact.gateway.errors import GatewayError
from modelpact.gateway.keys import ClientKey, ClientKeys
from modelpact.gateway.plan.policy import HEADER
from modelpact.gateway.reports import wants_report
from modelpact.gateway.upstream.endpoints import Endpoint
from modelpact.vocabulary.errors import InputError
from modelpact.wire import RawHeaders
from modelpact.wire.headers import Headers

WORKLOAD_HEADER: Final = "modelpact-workload"


class Caller(msgspec.Struct):
    """Whose requests these are, and what their head asks for."""

    keys: ClientKeys
    """The keys among which theirs was found: it holds for as long as these do."""
    key: ClientKey
    workload: str
    policy: str
    report: bool
    _shown: tuple[Endpoint, RawHeaders] | None = None

    def shown(self, upstream: Endpoint, headers: Headers) -> RawHeaders:
        """Return the head that an upstream is shown."""
        if self._shown is None or self._shown[0] is not upstream:
            self._shown = (upstream, RawHeaders.encode(upstream.shown(headers)))
        return self._shown[1]


def caller_of(headers: Headers, keys: ClientKeys) -> Caller:
    """Return who calls, or refuse them."""
    known = headers.memo
    if type(known) is Caller and known.keys is keys:
        return known
    caller = headers.memo = Caller(
        keys,
        key_of(headers, keys),
        _workload(headers),
        # Said twice, both are heard: together they can only be stricter.
        ", ".join(headers.all(HEADER)),
        wants_report(headers),
    )
    return caller


def _workload(headers: Headers) -> str:
    named = set(headers.all(WORKLOAD_HEADER))
    if len(named) > 1:
        raise InputError(f"{WORKLOAD_HEADER}: it is there twice, and names two")
    return named.pop() if named else ""


def key_of(headers: Headers, keys: ClientKeys) -> ClientKey:
    """Return the key that a client shows, or refuse it."""
    shown = headers.get("x-api-key")
    if shown is None:
        scheme, _, shown = (headers.get("authorization") or "").partition(" ")
        if scheme.lower() != "bearer":
            shown = ""
    found = keys.find(shown.strip()) if shown else None
    if found is None:
        raise GatewayError(
            401,
            "invalid_api_key",
            "show a key of this gateway: Authorization: Bearer KEY, or x-api-key: KEY; "
            "`modelpact keys create` makes one",
        )
    return found

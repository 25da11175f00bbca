"""Authentication: the caller behind a request, and what its headers ask of the gateway."""

from typing import Final, Protocol

import msgspec

from modelpact.gateway.errors import GatewayError
from modelpact.gateway.keys import ClientKey, ClientKeys
from modelpact.gateway.plan.plan import HeaderPairs
from modelpact.gateway.plan.policy import POLICY_HEADER
from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.memo import BoundedMemo
from modelpact.wire.headers import Headers, RawHeaders

WORKLOAD_HEADER: Final = "modelpact-workload"
REPORT_HEADER: Final = "modelpact-report"
_MAX_REMEMBERED_HEAD: Final = 8_192
"""The longest request head, in bytes, that is worth remembering."""


class HeaderSource(Protocol):
    """An upstream, as far as the headers that it receives are concerned."""

    def request_headers(self, client_headers: Headers) -> HeaderPairs:
        """Return the headers to send, made of the gateway's own and some of the client's."""


class Caller(msgspec.Struct):
    """A client's key, and what the head of its requests asks for."""

    key: ClientKey
    workload: str
    policy: str
    """The value of `modelpact-policy`."""
    report: bool
    """Whether the report is wanted in the body of the response, too."""
    _upstream_headers: tuple[HeaderSource, RawHeaders] | None = None

    def headers_for(self, upstream: HeaderSource, client_headers: Headers) -> RawHeaders:
        """Return the headers to send to an upstream, written once for all requests."""
        if self._upstream_headers is None or self._upstream_headers[0] is not upstream:
            written = RawHeaders.encode(upstream.request_headers(client_headers))
            self._upstream_headers = (upstream, written)
        return self._upstream_headers[1]


class Authenticator:
    """Finds the caller of a request among the keys that are in force.

    It remembers callers by the head of their requests, because clients repeat theirs. When the keys
    change, make a new authenticator.
    """

    def __init__(self, keys: ClientKeys) -> None:
        self.keys = keys
        self._callers: BoundedMemo[bytes, Caller] = BoundedMemo()

    def caller(self, headers: Headers) -> Caller:
        """Return the caller of a request, or raise a `GatewayError` with status 401."""
        head = headers.signature
        caller = self._callers.get(head)
        if caller is None:
            caller = Caller(
                self.key(headers),
                _workload(headers),
                # A header that is there twice counts twice: together both can only be stricter.
                ", ".join(headers.all(POLICY_HEADER)),
                _wants_report(headers),
            )
            if len(head) <= _MAX_REMEMBERED_HEAD:
                self._callers[head] = caller
        return caller

    def key(self, headers: Headers) -> ClientKey:
        """Return the key that a client sends, or raise a `GatewayError` with status 401."""
        secret = headers.get("x-api-key")
        if secret is None:
            scheme, _, secret = (headers.get("authorization") or "").partition(" ")
            if scheme.lower() != "bearer":
                secret = ""
        key = self.keys.find(secret.strip()) if secret else None
        if key is None:
            raise GatewayError(
                401,
                "invalid_api_key",
                "send a key of this gateway: Authorization: Bearer KEY, or x-api-key: KEY; "
                "`modelpact keys create` creates one",
            )
        return key


def _workload(headers: Headers) -> str:
    names = set(headers.all(WORKLOAD_HEADER))
    if len(names) > 1:
        raise InputError(f"{WORKLOAD_HEADER}: it is there twice, and names two")
    return names.pop() if names else ""


def _wants_report(headers: Headers) -> bool:
    value = headers.get(REPORT_HEADER)
    if value is None:
        return False
    if value.strip().lower() != "body":
        raise InputError(f"{REPORT_HEADER}: expected body, not {brief(value)}")
    return True

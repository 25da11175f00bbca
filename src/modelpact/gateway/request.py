"""Reading: the caller of a request, and what its headers and its body ask for."""

from typing import Any, Final, Protocol

import msgspec

from modelpact.gateway.keys import ClientKey, ClientKeys
from modelpact.gateway.plan.model_names import WORKLOAD_PREFIX, ResolvedName, UnknownModel
from modelpact.gateway.plan.plan import POLICY_HEADER, PlanKey, apply_policy_header
from modelpact.gateway.plan.planner import Planner
from modelpact.gateway.responses import GatewayError
from modelpact.needs.requests import RequestApi, read_features
from modelpact.vocabulary.errors import InputError, brief
from modelpact.vocabulary.memo import BoundedMemo
from modelpact.vocabulary.strict_json import parse_json
from modelpact.wire.headers import HeaderPairs, Headers, RawHeaders

WORKLOAD_HEADER: Final = "modelpact-workload"
REPORT_HEADER: Final = "modelpact-report"
_MAX_NAME_LENGTH: Final = 500
_MAX_CACHED_HEAD_BYTES: Final = 8_192
"""Callers with longer headers are not cached: the cache is bounded by entries, not by bytes."""


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


class IncomingRequest(msgspec.Struct, frozen=True):
    """A request as it was read: its caller, its body, and what its plan depends on."""

    api: RequestApi
    caller: Caller
    headers: Headers
    raw: bytes
    body: dict[str, Any]
    """`raw`, decoded."""
    plan_key: PlanKey

    @property
    def stream(self) -> bool:
        """Whether the client wants a stream."""
        return self.plan_key.features.stream


class Authenticator:
    """Finds the caller of a request among the keys that are in force.

    It caches callers by their headers, because clients send the same ones again and again. When the
    keys change, make a new authenticator.
    """

    def __init__(self, keys: ClientKeys) -> None:
        self.keys = keys
        self._callers: BoundedMemo[bytes, Caller] = BoundedMemo()

    def caller(self, headers: Headers) -> Caller:
        """Return the caller of a request, or raise a `GatewayError` with status 401."""
        cache_key = headers.cache_key
        caller = self._callers.get(cache_key)
        if caller is None:
            caller = Caller(
                self.key(headers),
                _workload(headers),
                # A repeated header applies once per value: each can only make the policy stricter.
                ", ".join(headers.all(POLICY_HEADER)),
                _wants_report(headers),
            )
            if len(cache_key) <= _MAX_CACHED_HEAD_BYTES:
                self._callers[cache_key] = caller
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


def read_request(planner: Planner, api: RequestApi, caller: Caller, headers: Headers, raw: bytes) -> IncomingRequest:
    """Read a request, and check that its key may ask for the model that it names."""
    body = parse_json(raw, "the body")
    features = read_features(api, body)
    name: str = body["model"]
    if len(name) > _MAX_NAME_LENGTH or not name.isprintable():
        # Not every store can hold such a text, and a request that is sent must be recorded.
        raise UnknownModel(f"{brief(name)}: no model has such a name")
    workload, key = caller.workload, caller.key
    policy = planner.policy
    if workload or name.startswith(WORKLOAD_PREFIX):
        policy = planner.workload_policy(workload or name.removeprefix(WORKLOAD_PREFIX))
    if caller.policy:
        policy = apply_policy_header(policy, caller.policy, key.settings.loosen)
    if key.settings.models and not _check_access(planner, key, name, workload):
        policy = msgspec.structs.replace(policy, fallback=False)
    plan_key = PlanKey(name, workload, features, policy)
    return IncomingRequest(api, caller, headers, raw, body, plan_key)


def _workload(headers: Headers) -> str:
    names = set(headers.all(WORKLOAD_HEADER))
    if len(names) > 1:
        listed = " and ".join(brief(name) for name in sorted(names))
        raise InputError(f"{WORKLOAD_HEADER}: sent with different values, {listed}: send one")
    return names.pop() if names else ""


def _wants_report(headers: Headers) -> bool:
    value = headers.get(REPORT_HEADER)
    if value is None:
        return False
    if value.strip().lower() != "body":
        raise InputError(f"{REPORT_HEADER}: expected body, not {brief(value)}")
    return True


def _check_access(planner: Planner, key: ClientKey, model: str, workload: str) -> bool:
    """Refuse a model that a key does not allow; tell whether the key allows the fallback, too.

    A key that allows a workload by its name allows all of it. Any other key must allow the model of
    the workload, and the fallback's model for the fallback.
    """
    allows_fallback = True
    for name in (model, f"{WORKLOAD_PREFIX}{workload}") if workload else (model,):
        if key.allows(name):
            continue
        resolved = planner.names.resolve(name)
        if not key.allows(resolved.target):
            allowed = ", ".join(key.settings.models)
            message = f"the key {key.name} is not for {name}; it is for {allowed}"
            raise GatewayError(403, "model_not_allowed", message)
        fallback = None if resolved.workload is None else resolved.workload.fallback
        if fallback is not None:
            target = ResolvedName(*planner.models.catalog.split(fallback)).target
            allows_fallback = allows_fallback and key.allows(target)
    return allows_fallback

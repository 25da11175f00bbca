"""The registry of providers, kept in the store of the ledger."""

import asyncio
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

import msgspec

from modelpact.ledger.event import Draft, Event, Precondition
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.reader import LedgerReader
from modelpact.ledger.stores.base import Params, Row
from modelpact.providers.contract import (
    ComplianceProfile,
    ContractError,
    DeregistrationPolicy,
    Invocation,
    Registration,
)
from modelpact.providers.models.endpoints import check_plain_http
from modelpact.providers.runtime.registration import check_registration
from modelpact.vocabulary.memo import BoundedMemo

ENVELOPE = "registry"
"""The envelope of registrations and deregistrations."""
RELEASED: Final = "released"
"""The state of a name that an operator gave up: any provider may register under it."""
DeregisteredState = Literal["deregistered", "expelled", "released"]

_REGISTRATION: Final = msgspec.json.Decoder(Registration)
_MAX_EARLIER: Final = 1_024


class Registered(NamedTuple):
    """An active provider, and the event of its registration."""

    registration: Registration
    event: str
    precondition: Precondition
    """What must hold for an invocation: the provider is still registered by this event."""


class Registry:
    """The registered providers. Nothing is routed to one that is not active.

    Active providers are cached. `check_current` tells in a transaction whether a cached
    registration still holds.
    """

    def __init__(self, ledger: Ledger, profile: ComplianceProfile, plain_http: frozenset[str] = frozenset()) -> None:
        self._ledger = ledger
        self._profile = profile
        self._plain_http = plain_http
        self._cache: dict[str, Registered] = {}
        self._earlier: BoundedMemo[str, Registration] = BoundedMemo(_MAX_EARLIER)
        """Registrations by the event that recorded them."""
        self._unsubscribe = ledger.bus.subscribe(self._invalidate, "provider.")

    def close(self) -> None:
        """Unsubscribe from the bus."""
        self._unsubscribe()

    def _invalidate(self, event: Event) -> None:
        """Drop a provider that changed from the cache; called by the ledger's thread."""
        if event.type != "provider.flagged":
            self._cache.pop(str(event.payload.get("provider")), None)

    def register(self, registration: Registration, *, cause: str | None = None, by_provider: bool = False) -> Event:
        """Register a provider, or register it again with the same identity.

        `by_provider` says that the provider registers itself: it cannot do so after it was
        deregistered for a violation. A name that was deregistered belongs to its identity until an
        operator registers another provider under it, or releases it.
        """
        return self._ledger.write(self.registration_work(registration, cause=cause, by_provider=by_provider))

    def registration_work(
        self,
        registration: Registration,
        *,
        cause: str | None = None,
        by_provider: bool = False,
        name_certified: bool = True,
        rotation_signed: Callable[[Registration], bool] = lambda before: False,  # noqa: ARG005
    ) -> Callable[[Transaction], Event]:
        """Check a registration and return the work that stores it.

        A provider may change its identity if it keeps its signing key and that key signed the new
        registration: `rotation_signed` is called with the registration so far. Without
        `name_certified` the certificate does not name the provider: it cannot take a free name.
        """
        check_registration(registration)
        plain = check_plain_http(registration.base_url, self._plain_http)
        if self._profile.require_identity and not (registration.identity and registration.signing_key):
            raise ContractError(
                "identity_required",
                f"the profile {self._profile.name} takes no provider without an identity and a signing key",
            )

        def work(tx: Transaction) -> Event:
            rows = tx.execute("SELECT registration, state FROM providers WHERE id = ?", (registration.id,))
            before, state = (_REGISTRATION.decode(rows[0][0]), rows[0][1]) if rows else (None, "")
            pinned = before if state == "active" or (by_provider and state != RELEASED) else None
            rotated = None
            if pinned is not None and pinned.identity != registration.identity:
                rotated = pinned.identity
                if pinned.signing_key != registration.signing_key or not rotation_signed(pinned):
                    raise ContractError("identity_mismatch", _name_taken(registration.id, state))
            if pinned is None and not name_certified:
                raise ContractError(
                    "identity_mismatch",
                    f"your certificate does not say modelpact:provider:{registration.id}: an "
                    "operator registers you first, with `modelpact providers register`",
                )
            if state == "expelled" and by_provider:
                raise ContractError(
                    "expelled",
                    f"{registration.id} was deregistered for a violation: an operator registers it "
                    "again, with `modelpact providers register`",
                )
            tx.open_envelope(ENVELOPE, "registry", "providers")
            text = msgspec.json.encode(registration).decode()
            payload = {"provider": registration.id, "registration": text}
            event = tx.append(Draft(ENVELOPE, "provider.registered", payload, cause))
            tx.cache((_CURRENT_FACT, registration.id), event.id)
            tx.execute("DELETE FROM providers WHERE id = ?", (registration.id,))
            tx.execute(
                "INSERT INTO providers VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
                (registration.id, registration.category, "active", registration.identity, text, event.id, tx.now),
            )
            if rotated is not None:
                keys = {"provider": registration.id, "from": rotated, "to": registration.identity}
                tx.append(Draft(ENVELOPE, "key.rotated", keys, event.id))
            if plain is not None:
                allowed = {"provider": registration.id, "host": plain}
                tx.append(Draft(ENVELOPE, "upstream.allowed", allowed, event.id))
            return event

        return work

    def find(self, provider: str) -> tuple[Registration, str] | None:
        """Return a provider's registration and state, or None."""
        return find_provider(self._ledger, provider)

    def status(self, provider: str) -> tuple[str, str]:
        """Return the state of a provider that was registered, and the event of its registration."""
        rows = self._ledger.read("SELECT state, event FROM providers WHERE id = ?", (provider,))
        return str(rows[0][0]), str(rows[0][1])

    def registration_for(self, invocation: Invocation) -> Registration:
        """Return the registration under which an invocation was made; this blocks while it reads.

        The response and the cost are validated against that registration, whatever its
        provider offers since. Only address and keys are the current ones. A provider that took
        over the name with another identity is not its provider.
        """
        current = self.find(invocation.provider)
        original = self._recorded(invocation.registered)
        if current is None or original is None:  # it was never stored, or is archived
            if current is None and original is None:
                message = f"no provider {invocation.provider!r:.80} is registered"
                raise ContractError("unknown_provider", message)
            return original or current[0]  # type: ignore[index]
        now = current[0]
        same_key = original.signing_key and original.signing_key == now.signing_key
        if now.identity != original.identity and not same_key:
            return original
        return msgspec.structs.replace(
            original, identity=now.identity, signing_key=now.signing_key, base_url=now.base_url
        )

    def _recorded(self, event_id: str) -> Registration | None:
        """Return the registration that an event recorded, or None if the event is not here."""
        registration = self._earlier.get(event_id)
        if registration is None and event_id:
            event = self._ledger.event(event_id)
            if event is None:
                return None
            registration = _REGISTRATION.decode(event.payload["registration"])
            self._earlier[event_id] = registration
        return registration

    def active(self, provider: str) -> Registered:
        """Return an active provider as the store has it, or raise."""
        rows = []
        if provider.isprintable():
            rows = self._ledger.read("SELECT registration, state, event FROM providers WHERE id = ?", (provider,))
        if not rows:
            raise ContractError("unknown_provider", f"no provider {provider!r:.80} is registered")
        registration, state, event = rows[0]
        if state != "active":
            raise ContractError("provider_deregistered", f"{provider} is {state}; nothing is routed to it")
        precondition = Precondition((_CURRENT_FACT, provider), _REGISTERED_SQL, (provider,), event)
        return Registered(_REGISTRATION.decode(registration), event, precondition)

    def cached(self, provider: str) -> Registered | None:
        """Return an active provider as it was when it was last fetched, or None."""
        return self._cache.get(provider)

    async def fetch(self, provider: str) -> Registered:
        """Read an active provider without blocking the loop, and cache it; or raise."""
        self._cache.pop(provider, None)
        registered = await asyncio.to_thread(self.active, provider)
        self._cache[provider] = registered
        return registered

    def find_by_identity(self, identity: str) -> list[tuple[Registration, str]]:
        """Return the providers that are registered with this identity."""
        rows = self._ledger.read(
            "SELECT registration, state FROM providers WHERE identity = ? ORDER BY id", (identity,)
        )
        return [(_REGISTRATION.decode(row[0]), str(row[1])) for row in rows]


def find_provider(reader: LedgerReader, provider: str) -> tuple[Registration, str] | None:
    """Return a provider's registration and state, or None."""
    if not provider.isprintable():  # no store holds such names, and some fail when asked
        return None
    rows = reader.read("SELECT registration, state FROM providers WHERE id = ?", (provider,))
    return (_REGISTRATION.decode(rows[0][0]), str(rows[0][1])) if rows else None


def list_providers(reader: LedgerReader) -> list[tuple[Registration, str]]:
    """Return every provider with its state."""
    rows = reader.read("SELECT registration, state FROM providers ORDER BY id")
    return [(_REGISTRATION.decode(row[0]), str(row[1])) for row in rows]


def count_open(execute: Callable[[str, Params], list[Row]], provider: str) -> int:
    """Return how many invocations of a provider are open."""
    sql = "SELECT COUNT(*) FROM invocations WHERE provider = ? AND state = 'open'"
    return int(execute(sql, (provider,))[0][0])


def list_violations(reader: LedgerReader, provider: str) -> list[Event]:
    """Return the events that flagged a violation of the contract by a provider."""
    violations, after = [], 0
    while events := reader.events(ENVELOPE, after=after):
        after = events[-1].sequence
        violations += [
            event for event in events if event.type == "provider.flagged" and event.payload.get("provider") == provider
        ]
    return violations


_CURRENT_FACT: Final = "current registration"
_FROM_STATES: Final[dict[DeregisteredState, str]] = {
    "deregistered": "('active')",
    "expelled": "('active', 'deregistered')",
    "released": "('active', 'deregistered', 'expelled')",
}
"""The states from which a provider may come into each of these, as SQL."""


_REGISTERED_SQL: Final = "SELECT event FROM providers WHERE id = ? AND state = 'active'"


def check_current(tx: Transaction, provider: str, event: str) -> None:
    """Raise unless a provider is active with the registration that this event recorded."""
    current = tx.cached((_CURRENT_FACT, provider))
    if current is None:
        rows = tx.query(_REGISTERED_SQL, (provider,))
        if not rows:
            raise ContractError("provider_deregistered", f"{provider} is not active; nothing is routed to it")
        current = rows[0][0]
        tx.cache((_CURRENT_FACT, provider), current)
    if current != event:
        raise ContractError("registration_changed", f"{provider} has registered anew meanwhile")


def mark_deregistered(
    tx: Transaction,
    provider: str,
    reason: str,
    cause: str | None,
    policy: DeregistrationPolicy,
    state: DeregisteredState = "deregistered",
) -> Event | None:
    """Deregister a provider within a transaction; None if its state does not allow it.

    A provider that was deregistered can still be expelled, and its name released.
    """
    changed = tx.execute_update(
        f"UPDATE providers SET state = ?, deregistered = ? WHERE id = ? AND state IN {_FROM_STATES[state]}",
        (state, tx.now, provider),
    )
    if not changed:
        return None
    tx.cache((_CURRENT_FACT, provider), None)
    registered = tx.execute("SELECT event FROM providers WHERE id = ?", (provider,))[0][0]
    payload = {
        "provider": provider,
        "registered": registered,
        "reason": reason,
        "state": state,
        "policy": policy,
        "open": count_open(tx.execute, provider),
    }
    return tx.append(Draft(ENVELOPE, "provider.deregistered", payload, cause))


def deregistrations(tx: Transaction) -> list[Event]:
    """Return the events by which providers were deregistered in a transaction."""
    return [event for event in tx.events if event.type == "provider.deregistered"]


def flag(tx: Transaction, provider: str, violation: str, detail: str, cause: str | None) -> Event:
    """Flag a violation of the contract within a transaction."""
    payload = {"provider": provider, "violation": violation, "detail": detail[:500]}
    tx.open_envelope(ENVELOPE, "registry", "providers")
    return tx.append(Draft(ENVELOPE, "provider.flagged", payload, cause))


def _name_taken(provider: str, state: str) -> str:
    """Say why a name is not available."""
    if state == "active":
        return (
            f"{provider} is registered with another identity, and its signing key did not sign "
            "this; deregister it first"
        )
    return (
        f"{provider} is {state}, and its name is kept for its identity, whose signing key did not "
        f"sign this; an operator gives it away with `modelpact providers deregister {provider} "
        "--release`"
    )

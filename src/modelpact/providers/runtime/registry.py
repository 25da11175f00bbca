"""The registry: which providers are registered, kept in the ledger's store."""

import asyncio
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

import msgspec

from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.prepared import Precondition
from modelpact.ledger.reader import LedgerReader
from modelpact.providers.contract import (
    ComplianceProfile,
    ContractError,
    DeregistrationPolicy,
    Invocation,
    Registration,
)
from modelpact.providers.models.endpoints import plain_upstream
from modelpact.providers.runtime.registration import check_registration

ENVELOPE = "registry"
"""The envelope in which providers come and go."""
RELEASED: Final = "released"
"""The state of a name that an operator lets anybody have."""
Gone = Literal["deregistered", "expelled", "released"]

_REGISTRATION: Final = msgspec.json.Decoder(Registration)
_MOST_KEPT: Final = 1_024


class Registered(NamedTuple):
    """An active provider, and the event of its registration."""

    registration: Registration
    event: str


class Registry:
    """Providers, registered and persisted. Nothing is routed to one that is not active.

    Active ones are remembered; whether what is remembered still holds, `check_current` tells in
    the transaction that relies on it.
    """

    def __init__(
        self, ledger: Ledger, profile: ComplianceProfile, plain_http: frozenset[str] = frozenset()
    ) -> None:
        self._ledger = ledger
        self._profile = profile
        self._plain_http = plain_http
        self._remembered: dict[str, Registered] = {}
        self._earlier: dict[str, Registration] = {}
        self._stop = ledger.bus.subscribe(self._heard, "provider.")

    def close(self) -> None:
        """Listen to the bus no longer."""
        self._stop()

    def _heard(self, event: Event) -> None:
        """Forget a provider that came anew or went; called by the ledger's thread."""
        if event.type != "provider.flagged":
            self._remembered.pop(str(event.payload.get("provider")), None)

    def register(
        self, registration: Registration, *, cause: str | None = None, by_itself: bool = False
    ) -> Event:
        """Register a provider, or register it anew with the same identity.

        Who was deregistered for a violation does not come back by itself, and a name that was
        deregistered keeps its identity until an operator gives it to another or releases it.
        """
        return self._ledger.write(self.registering(registration, cause=cause, by_itself=by_itself))

    def registering(
        self,
        registration: Registration,
        *,
        cause: str | None = None,
        by_itself: bool = False,
        named: bool = True,
        vouched: Callable[[Registration], bool] = lambda before: False,  # noqa: ARG005
    ) -> Callable[[Transaction], Event]:
        """Check a registration and return the work that keeps it.

        A provider changes its identity only if `vouched` says of its registration so far that its
        signing key signed for that; the signing key stays the same then. One whose certificate is
        not `named` for it takes no name that is not its own already.
        """
        check_registration(registration)
        plain = plain_upstream(registration.base_url, self._plain_http)
        if self._profile.require_identity and not (
            registration.identity and registration.signing_key
        ):
            raise ContractError(
                "identity_required",
                f"the profile {self._profile.name} takes no provider without an identity and a "
                "signing key",
            )

        def work(tx: Transaction) -> Event:
            rows = tx.execute(
                "SELECT registration, state FROM providers WHERE id = ?", (registration.id,)
            )
            before, state = (_REGISTRATION.decode(rows[0][0]), rows[0][1]) if rows else (None, "")
            pinned = before if state == "active" or (by_itself and state != RELEASED) else None
            rotated = None
            if pinned is not None and pinned.identity != registration.identity:
                rotated = pinned.identity
                if pinned.signing_key != registration.signing_key or not vouched(pinned):
                    raise ContractError("identity_mismatch", _taken(registration.id, state))
            if pinned is None and not named:
                raise ContractError(
                    "identity_mismatch",
                    f"your certificate does not say modelpact:provider:{registration.id}: an "
                    "operator registers you first, with `modelpact providers register`",
                )
            if state == "expelled" and by_itself:
                raise ContractError(
                    "expelled",
                    f"{registration.id} was deregistered for a violation: an operator registers it "
                    "again, with `modelpact providers register`",
                )
            tx.open_envelope(ENVELOPE, "registry", "providers")
            text = msgspec.json.encode(registration).decode()
            payload = {"provider": registration.id, "registration": text}
            event = tx.append(Draft(ENVELOPE, "provider.registered", payload, cause))
            tx.cache((_CURRENT, registration.id), event.id)
            tx.execute("DELETE FROM providers WHERE id = ?", (registration.id,))
            tx.execute(
                "INSERT INTO providers VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
                (
                    registration.id,
                    registration.category,
                    "active",
                    registration.identity,
                    text,
                    event.id,
                    tx.now,
                ),
            )
            if rotated is not None:
                keys = {
                    "provider": registration.id,
                    "from": rotated,
                    "to": registration.identity,
                }
                tx.append(Draft(ENVELOPE, "key.rotated", keys, event.id))
            if plain is not None:
                allowed = {"provider": registration.id, "host": plain}
                tx.append(Draft(ENVELOPE, "upstream.allowed", allowed, event.id))
            return event

        return work

    def find(self, provider: str) -> tuple[Registration, str] | None:
        """Return a provider's registration and state, or None."""
        return find_provider(self._ledger, provider)

    def standing(self, provider: str) -> tuple[str, str]:
        """Return the state of a provider that was registered, and the event of its registration."""
        rows = self._ledger.read("SELECT state, event FROM providers WHERE id = ?", (provider,))
        return str(rows[0][0]), str(rows[0][1])

    def under_which(self, invocation: Invocation) -> Registration:
        """Return the registration under which an invocation was made; this blocks while it reads.

        Whatever its provider offers since, it is answered, judged and paid for by that one; only
        where the provider is, and its keys, are as of now. Another who has its name since is not
        its provider.
        """
        known = self.find(invocation.provider)
        made = self._made(invocation.registered)
        if known is None or made is None:  # it was never kept, or is in an archive only
            if known is None and made is None:
                what = f"no provider {invocation.provider!r:.80} is registered"
                raise ContractError("unknown_provider", what)
            return made or known[0]  # type: ignore[index]
        now = known[0]
        signs = made.signing_key and made.signing_key == now.signing_key
        if now.identity != made.identity and not signs:
            return made
        return msgspec.structs.replace(
            made, identity=now.identity, signing_key=now.signing_key, base_url=now.base_url
        )

    def _made(self, event: str) -> Registration | None:
        """Return the registration that an event recorded, if it is at hand."""
        found = self._earlier.get(event)
        if found is None and event:
            recorded = self._ledger.event(event)
            if recorded is None:
                return None
            found = _REGISTRATION.decode(recorded.payload["registration"])
            if len(self._earlier) >= _MOST_KEPT:
                self._earlier.clear()
            self._earlier[event] = found
        return found

    def active(self, provider: str) -> Registered:
        """Return an active provider as the store has it, or raise."""
        rows = []
        if provider.isprintable():
            rows = self._ledger.read(
                "SELECT registration, state, event FROM providers WHERE id = ?", (provider,)
            )
        if not rows:
            raise ContractError("unknown_provider", f"no provider {provider!r:.80} is registered")
        registration, state, event = rows[0]
        if state != "active":
            raise ContractError(
                "provider_deregistered", f"{provider} is {state}; nothing is routed to it"
            )
        return Registered(_REGISTRATION.decode(registration), event)

    def remembered(self, provider: str) -> Registered | None:
        """Return an active provider as it was when it was last looked up, if it was."""
        return self._remembered.get(provider)

    async def looked_up(self, provider: str) -> Registered:
        """Look an active provider up without blocking the loop, and remember it; or raise."""
        self._remembered.pop(provider, None)
        found = await asyncio.to_thread(self.active, provider)
        self._remembered[provider] = found
        return found

    def of_identity(self, identity: str) -> list[tuple[Registration, str]]:
        """Return the providers that are registered with this identity."""
        rows = self._ledger.read(
            "SELECT registration, state FROM providers WHERE identity = ? ORDER BY id", (identity,)
        )
        return [(_REGISTRATION.decode(row[0]), str(row[1])) for row in rows]

    def listed(self) -> list[tuple[Registration, str]]:
        """Return every provider with its state."""
        return list_providers(self._ledger)


def find_provider(reader: LedgerReader, provider: str) -> tuple[Registration, str] | None:
    """Return a provider's registration and state, or None."""
    if not provider.isprintable():  # such a name no store has, nor takes for a question
        return None
    rows = reader.read("SELECT registration, state FROM providers WHERE id = ?", (provider,))
    return (_REGISTRATION.decode(rows[0][0]), str(rows[0][1])) if rows else None


def list_providers(reader: LedgerReader) -> list[tuple[Registration, str]]:
    """Return every provider with its state."""
    rows = reader.read("SELECT registration, state FROM providers ORDER BY id")
    return [(_REGISTRATION.decode(row[0]), str(row[1])) for row in rows]


_CURRENT: Final = "current registration"
_FROM: Final[dict[Gone, str]] = {
    "deregistered": "('active')",
    "expelled": "('active', 'deregistered')",
    "released": "('active', 'deregistered', 'expelled')",
}
"""The states from which a provider comes into each of these."""


_REGISTERED: Final = "SELECT event FROM providers WHERE id = ? AND state = 'active'"


def check_current(tx: Transaction, provider: str, event: str) -> None:
    """Raise unless a provider is active with the registration that this event recorded."""
    current = tx.cached((_CURRENT, provider))
    if current is None:
        rows = tx.query(_REGISTERED, (provider,))
        if not rows:
            raise ContractError(
                "provider_deregistered", f"{provider} is not active; nothing is routed to it"
            )
        current = rows[0][0]
        tx.cache((_CURRENT, provider), current)
    if current != event:
        raise ContractError("registration_changed", f"{provider} has registered anew meanwhile")


def as_registered(provider: str, event: str) -> Precondition:
    """Return what must be so for an invocation: its provider is registered as that event says."""
    return Precondition((_CURRENT, provider), _REGISTERED, (provider,), event)


def mark_deregistered(
    tx: Transaction,
    provider: str,
    reason: str,
    cause: str | None,
    policy: DeregistrationPolicy,
    state: Gone = "deregistered",
) -> Event | None:
    """Take a provider out of routing, in a transaction of the caller's; None if it is not in.

    One that is gone by itself can still be expelled, and its name released.
    """
    changed = tx.execute_update(
        "UPDATE providers SET state = ?, deregistered = ? "
        f"WHERE id = ? AND state IN {_FROM[state]}",
        (state, tx.now, provider),
    )
    if not changed:
        return None
    tx.cache((_CURRENT, provider), None)
    registered = tx.execute("SELECT event FROM providers WHERE id = ?", (provider,))[0][0]
    waiting = tx.execute(
        "SELECT COUNT(*) FROM invocations WHERE provider = ? AND state = 'open'", (provider,)
    )[0][0]
    payload = {
        "provider": provider,
        "registered": registered,
        "reason": reason,
        "state": state,
        "policy": policy,
        "open": waiting,
    }
    return tx.append(Draft(ENVELOPE, "provider.deregistered", payload, cause))


def departures(tx: Transaction) -> list[Event]:
    """Return the events by which providers were deregistered in a transaction."""
    return [event for event in tx.events if event.type == "provider.deregistered"]


def flag(tx: Transaction, provider: str, violation: str, detail: str, cause: str | None) -> Event:
    """Flag a violation of the contract, in a transaction of the caller's."""
    payload = {"provider": provider, "violation": violation, "detail": detail[:500]}
    tx.open_envelope(ENVELOPE, "registry", "providers")
    return tx.append(Draft(ENVELOPE, "provider.flagged", payload, cause))


def _taken(provider: str, state: str) -> str:
    """Say why a name is not to be had."""
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

"""The registry: which providers are registered, kept in the ledger's store."""

from collections.abc import Callable

import msgspec

from modelpact.ledger.event import Draft, Event
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.reader import Reader
from modelpact.providers.contract import (
    ContractError,
    Profile,
    Registration,
    check_registration,
)
from modelpact.providers.upstreams import plain_upstream

ENVELOPE = "registry"
"""The envelope in which providers come and go."""

_REGISTRATION = msgspec.json.Decoder(Registration)


class Registry:
    """Providers, registered and persisted. Nothing is routed to one that is not active."""

    def __init__(
        self, ledger: Ledger, profile: Profile, plain_http: frozenset[str] = frozenset()
    ) -> None:
        self._ledger = ledger
        self._profile = profile
        self._plain_http = plain_http

    def register(
        self, registration: Registration, *, cause: str | None = None, by_itself: bool = False
    ) -> Event:
        """Register a provider, or register it anew with the same identity.

        Who was deregistered for a violation does not come back by itself.
        """
        return self._ledger.write(self.registering(registration, cause=cause, by_itself=by_itself))

    def registering(
        self, registration: Registration, *, cause: str | None = None, by_itself: bool = False
    ) -> Callable[[Transaction], Event]:
        """Check a registration and return the work that keeps it."""
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
            before = tx.execute(
                "SELECT identity, state FROM providers WHERE id = ?", (registration.id,)
            )
            if before and before[0][1] == "active" and before[0][0] != registration.identity:
                raise ContractError(
                    "identity_mismatch",
                    f"{registration.id} is registered with another identity; deregister it first",
                )
            if before and before[0][1] == "expelled" and by_itself:
                raise ContractError(
                    "expelled",
                    f"{registration.id} was deregistered for a violation: an operator registers it "
                    "again, with `modelpact providers register`",
                )
            tx.open_envelope(ENVELOPE, "registry", "providers")
            payload = {"provider": registration.id, "registration": _plain(registration)}
            event = tx.append(Draft(ENVELOPE, "provider.registered", payload, cause))
            tx.execute("DELETE FROM providers WHERE id = ?", (registration.id,))
            tx.execute(
                "INSERT INTO providers VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
                (
                    registration.id,
                    registration.category,
                    "active",
                    registration.identity,
                    msgspec.json.encode(registration).decode(),
                    event.id,
                    tx.now,
                ),
            )
            if plain is not None:
                allowed = {"provider": registration.id, "host": plain}
                tx.append(Draft(ENVELOPE, "upstream.allowed", allowed, event.id))
            return event

        return work

    def find(self, provider: str) -> tuple[Registration, str] | None:
        """Return a provider's registration and state, or None."""
        return find_provider(self._ledger, provider)

    def active(self, provider: str) -> Registration:
        """Return the registration of an active provider, or raise."""
        found = self.find(provider)
        if found is None:
            raise ContractError("unknown_provider", f"no provider {provider!r:.80} is registered")
        registration, state = found
        if state != "active":
            raise ContractError(
                "provider_deregistered", f"{provider} is {state}; nothing is routed to it"
            )
        return registration

    def of_identity(self, identity: str) -> list[tuple[Registration, str]]:
        """Return the providers that are registered with this identity."""
        rows = self._ledger.read(
            "SELECT registration, state FROM providers WHERE identity = ? ORDER BY id", (identity,)
        )
        return [(_REGISTRATION.decode(row[0]), str(row[1])) for row in rows]

    def listed(self) -> list[tuple[Registration, str]]:
        """Return every provider with its state."""
        return list_providers(self._ledger)


def find_provider(reader: Reader, provider: str) -> tuple[Registration, str] | None:
    """Return a provider's registration and state, or None."""
    rows = reader.read("SELECT registration, state FROM providers WHERE id = ?", (provider,))
    return (_REGISTRATION.decode(rows[0][0]), str(rows[0][1])) if rows else None


def list_providers(reader: Reader) -> list[tuple[Registration, str]]:
    """Return every provider with its state."""
    rows = reader.read("SELECT registration, state FROM providers ORDER BY id")
    return [(_REGISTRATION.decode(row[0]), str(row[1])) for row in rows]


def mark_deregistered(
    tx: Transaction, provider: str, reason: str, cause: str | None, state: str = "deregistered"
) -> Event | None:
    """Take a provider out of routing, in a transaction of the caller's; None if it is not in."""
    changed = tx.changed(
        "UPDATE providers SET state = ?, deregistered = ? WHERE id = ? AND state = 'active'",
        (state, tx.now, provider),
    )
    if not changed:
        return None
    payload = {"provider": provider, "reason": reason}
    return tx.append(Draft(ENVELOPE, "provider.deregistered", payload, cause))


def flag(tx: Transaction, provider: str, violation: str, detail: str, cause: str | None) -> Event:
    """Flag a violation of the contract, in a transaction of the caller's."""
    payload = {"provider": provider, "violation": violation, "detail": detail[:500]}
    tx.open_envelope(ENVELOPE, "registry", "providers")
    return tx.append(Draft(ENVELOPE, "provider.flagged", payload, cause))


def _plain(registration: Registration) -> object:
    return msgspec.to_builtins(registration)

"""Client keys: who may use the gateway, for what, and how much. Only their hashes are stored."""

import fnmatch
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from modelpact.gateway.plan.policy import LOOSENABLE
from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.reader import LedgerReader
from modelpact.vocabulary.errors import InputError, brief

ENVELOPE: Final = "keys"
PREFIX: Final = "mp-"
Period = Literal["day", "month", "all"]
PERIODS: Final[tuple[Period, ...]] = ("day", "month", "all")


class KeySettings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a key may do. Empty means everything that the gateway may."""

    models: tuple[str, ...] = ()
    """Patterns of what may be asked for: `openai/*`, `workload/extract`."""
    budget: int | None = None
    """Nano-dollars that may be spent in a period."""
    period: Period = "month"
    rate: int | None = None
    """Requests a minute."""
    loosen: tuple[str, ...] = ()
    """Parts of policy that its requests may loosen."""


class ClientKey(msgspec.Struct, frozen=True):
    """A key as the gateway knows it."""

    id: str
    name: str
    settings: KeySettings
    created: int
    revoked: int | None = None

    def allows(self, name: str) -> bool:
        """Tell whether a model or workload may be asked for."""
        patterns = self.settings.models
        return not patterns or any(fnmatch.fnmatchcase(name, one) for one in patterns)


def create_key(ledger: Ledger, name: str, settings: KeySettings) -> tuple[ClientKey, str]:
    """Make a key and return it with its secret, which is told this once."""
    if not name or not name.isprintable() or len(name) > 100:
        raise InputError(f"name: expected 1 to 100 visible characters, not {brief(name)}")
    for part in settings.loosen:
        if part not in LOOSENABLE:
            raise InputError(f"loosen: {brief(part)} is not one of {', '.join(LOOSENABLE)}")
    for amount, what in ((settings.budget, "budget"), (settings.rate, "rate")):
        if amount is not None and amount <= 0:
            raise InputError(f"{what}: expected a number above zero")
    identity = f"key_{secrets.token_hex(6)}"
    secret = made_up()

    def work(tx: Transaction) -> ClientKey:
        made = ClientKey(identity, name, settings, tx.now)
        tx.execute(
            "INSERT INTO client_keys VALUES (?, ?, ?, ?, ?, NULL)",
            (identity, digest(secret), name, msgspec.json.encode(settings).decode(), tx.now),
        )
        tx.open_envelope(ENVELOPE, "keys", "client keys")
        payload = {"key": identity, "name": name, "settings": msgspec.to_builtins(settings)}
        tx.append(Draft(ENVELOPE, "key.created", payload))
        return made

    return ledger.write(work), secret


def made_up() -> str:
    """Return what a client shows for a new key."""
    return f"{PREFIX}{secrets.token_urlsafe(32)}"


def revoke_key(ledger: Ledger, identity: str) -> ClientKey:
    """Revoke a key, by its id or its name where only one has it."""
    found = [one for one in list_keys(ledger) if identity in (one.id, one.name)]
    live = [one for one in found if one.revoked is None]
    if not live:
        state = (
            "is revoked already" if found else "is not a key here; `modelpact keys list` shows all"
        )
        raise InputError(f"{brief(identity)} {state}")
    if len(live) > 1:
        raise InputError(f"several keys are called {brief(identity)}; name one by its id")
    key = live[0]

    def work(tx: Transaction) -> ClientKey:
        tx.execute("UPDATE client_keys SET revoked = ? WHERE id = ?", (tx.now, key.id))
        tx.open_envelope(ENVELOPE, "keys", "client keys")
        tx.append(Draft(ENVELOPE, "key.revoked", {"key": key.id, "name": key.name}))
        return msgspec.structs.replace(key, revoked=tx.now)

    return ledger.write(work)


def list_keys(reader: LedgerReader) -> list[ClientKey]:
    """Return all keys, the newest first."""
    return [key for _, key in _rows(reader)]


def _rows(reader: LedgerReader) -> list[tuple[str, ClientKey]]:
    rows = reader.read(
        "SELECT digest, id, name, settings, created, revoked FROM client_keys "
        "ORDER BY created DESC, id"
    )
    return [
        (row[0], ClientKey(row[1], row[2], _SETTINGS.decode(row[3]), row[4], row[5]))
        for row in rows
    ]


_SETTINGS: Final = msgspec.json.Decoder(KeySettings)
_LED_BY: Final = 8
"""Digits of a hash that lead to the few keys whose hashes are then compared in constant time."""


class ClientKeys:
    """The keys that are in force, looked up by what a client shows."""

    def __init__(self, keys: Mapping[str, ClientKey]) -> None:
        self._keys: dict[str, list[tuple[str, ClientKey]]] = {}
        self._by_id: dict[str, ClientKey] = {}
        for held, key in keys.items():
            self.add(held, key)

    @classmethod
    def load(cls, reader: LedgerReader) -> "ClientKeys":
        """Load the keys that are not revoked."""
        return cls({held: key for held, key in _rows(reader) if key.revoked is None})

    def find(self, shown: str) -> ClientKey | None:
        """Return the key that a client shows, or None."""
        held = digest(shown)
        for known, key in self._keys.get(held[:_LED_BY], ()):
            if hmac.compare_digest(known, held):
                return key
        return None

    def by_id(self, identity: str) -> ClientKey | None:
        """Return the key of that id, or None."""
        return self._by_id.get(identity)

    def add(self, held: str, key: ClientKey) -> None:
        """Take a key in that is not in the store, by its hash."""
        self._keys.setdefault(held[:_LED_BY], []).append((held, key))
        self._by_id[key.id] = key

    def __len__(self) -> int:
        return len(self._by_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClientKeys) and self._keys == other._keys

    __hash__ = None  # type: ignore[assignment]


def digest(secret: str) -> str:
    """Return what is stored of a key. It is random and long, so one round is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


class RateLimiter:
    """Requests a minute, by key: a bucket that fills evenly. Each process counts for itself."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, key: ClientKey, now: float | None = None) -> float:
        """Take one request out; return 0, or the seconds after which there is one again."""
        rate = key.settings.rate
        if rate is None:
            return 0.0
        now = time.monotonic() if now is None else now
        level, before = self._buckets.get(key.id, (float(rate), now))
        level = min(float(rate), level + (now - before) * rate / 60)
        if level < 1:
            self._buckets[key.id] = (level, now)
            return (1 - level) * 60 / rate
        self._buckets[key.id] = (level - 1, now)
        return 0.0

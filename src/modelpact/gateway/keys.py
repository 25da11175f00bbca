"""Client keys: the secrets of the gateway's clients, and the models, rate and budget of each."""

import fnmatch
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

Period = Literal["day", "month", "all"]
PERIODS: Final[tuple[Period, ...]] = ("day", "month", "all")
_SECRET_PREFIX: Final = "mp-"
_BUCKET_DIGITS: Final = 8
"""Digits of a digest that select the few keys to compare with in constant time."""


class KeySettings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a key allows. The defaults allow everything that the gateway does."""

    models: tuple[str, ...] = ()
    """Patterns of the names that may be requested: `openai/*`, `workload/extract`."""
    budget: int | None = None
    """Nano-dollars that may be spent in a period."""
    period: Period = "month"
    rate: int | None = None
    """Requests a minute."""
    loosen: tuple[str, ...] = ()
    """Parts of the policy that its requests may loosen."""


class ClientKey(msgspec.Struct, frozen=True):
    """A key, without its secret."""

    id: str
    name: str
    settings: KeySettings
    created: int
    revoked: int | None = None

    def allows(self, name: str) -> bool:
        """Tell whether a model or workload may be requested."""
        patterns = self.settings.models
        return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


class ClientKeys:
    """The keys that are in force, indexed by their secret."""

    def __init__(self, keys: Mapping[str, ClientKey]) -> None:
        """Take keys by the digest of their secret."""
        self._buckets: dict[str, list[tuple[str, ClientKey]]] = {}
        self._by_id: dict[str, ClientKey] = {}
        for secret_digest, key in keys.items():
            self.add(secret_digest, key)

    def find(self, secret: str) -> ClientKey | None:
        """Return the key with that secret, or None."""
        wanted = digest(secret)
        for secret_digest, key in self._buckets.get(wanted[:_BUCKET_DIGITS], ()):
            if hmac.compare_digest(secret_digest, wanted):
                return key
        return None

    def by_id(self, key_id: str) -> ClientKey | None:
        """Return the key with that id, or None."""
        return self._by_id.get(key_id)

    def add(self, secret_digest: str, key: ClientKey) -> None:
        """Add a key that is not in the store."""
        self._buckets.setdefault(secret_digest[:_BUCKET_DIGITS], []).append((secret_digest, key))
        self._by_id[key.id] = key

    def __len__(self) -> int:
        return len(self._by_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClientKeys) and self._buckets == other._buckets

    __hash__ = None  # type: ignore[assignment]


class RateLimiter:
    """Limits requests a minute by key: a token bucket that fills evenly.

    Each process counts for itself.
    """

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, key: ClientKey, now: float | None = None) -> float:
        """Take one request out of the bucket; return 0, or the seconds until there is one."""
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


def generate_secret() -> str:
    """Return the secret of a new key."""
    return f"{_SECRET_PREFIX}{secrets.token_urlsafe(32)}"


def digest(secret: str) -> str:
    """Return what is stored of a secret. It is random and long, so one round is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()

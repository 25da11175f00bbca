"""The store of client keys. It contains their digests only, never their secrets."""

import secrets
from typing import Final

import msgspec

from modelpact.gateway.keys import ClientKey, ClientKeys, KeySettings, digest, generate_secret
from modelpact.gateway.plan.plan import LOOSENABLE
from modelpact.ledger.event import Draft
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.reader import LedgerReader
from modelpact.vocabulary.errors import InputError, brief

_ENVELOPE: Final = "keys"
_MAX_NAME_LENGTH: Final = 100
_SETTINGS: Final = msgspec.json.Decoder(KeySettings)


def create_key(ledger: Ledger, name: str, settings: KeySettings) -> tuple[ClientKey, str]:
    """Create a key; return it and its secret, which cannot be read again."""
    if not name or not name.isprintable() or len(name) > _MAX_NAME_LENGTH:
        raise InputError(f"name: expected 1 to 100 visible characters, not {brief(name)}")
    for part in settings.loosen:
        if part not in LOOSENABLE:
            raise InputError(f"loosen: {brief(part)} is not one of {', '.join(LOOSENABLE)}")
    for amount, setting in ((settings.budget, "budget"), (settings.rate, "rate")):
        if amount is not None and amount <= 0:
            raise InputError(f"{setting}: expected a number above zero")
    key_id = f"key_{secrets.token_hex(6)}"
    secret = generate_secret()

    def work(tx: Transaction) -> ClientKey:
        tx.execute(
            "INSERT INTO client_keys VALUES (?, ?, ?, ?, ?, NULL)",
            (key_id, digest(secret), name, msgspec.json.encode(settings).decode(), tx.now),
        )
        tx.open_envelope(_ENVELOPE, "keys", "client keys")
        payload = {"key": key_id, "name": name, "settings": msgspec.to_builtins(settings)}
        tx.append(Draft(_ENVELOPE, "key.created", payload))
        return ClientKey(key_id, name, settings, tx.now)

    return ledger.write(work), secret


def revoke_key(ledger: Ledger, id_or_name: str) -> ClientKey:
    """Revoke a key by its id, or by its name where only one key in force has it."""
    matches = [key for key in list_keys(ledger) if id_or_name in (key.id, key.name)]
    in_force = [key for key in matches if key.revoked is None]
    if not in_force:
        problem = "is revoked already" if matches else "is not a key here; `modelpact keys list` shows all"
        raise InputError(f"{brief(id_or_name)} {problem}")
    if len(in_force) > 1:
        raise InputError(f"several keys are called {brief(id_or_name)}; name one by its id")
    key = in_force[0]

    def work(tx: Transaction) -> ClientKey:
        tx.execute("UPDATE client_keys SET revoked = ? WHERE id = ?", (tx.now, key.id))
        tx.open_envelope(_ENVELOPE, "keys", "client keys")
        tx.append(Draft(_ENVELOPE, "key.revoked", {"key": key.id, "name": key.name}))
        return msgspec.structs.replace(key, revoked=tx.now)

    return ledger.write(work)


def list_keys(reader: LedgerReader) -> list[ClientKey]:
    """Return all keys, revoked ones too, the newest first."""
    return [key for _, key in _stored_keys(reader)]


def load_keys(reader: LedgerReader) -> ClientKeys:
    """Return the keys that are in force."""
    stored = _stored_keys(reader)
    return ClientKeys({secret_digest: key for secret_digest, key in stored if key.revoked is None})


def _stored_keys(reader: LedgerReader) -> list[tuple[str, ClientKey]]:
    rows = reader.read("SELECT digest, id, name, settings, created, revoked FROM client_keys ORDER BY created DESC, id")
    return [
        (secret_digest, ClientKey(key_id, name, _SETTINGS.decode(settings), created, revoked))
        for secret_digest, key_id, name, settings, created, revoked in rows
    ]

"""Ed25519 keys, signatures, and lists of public keys to verify them with.

The signature of a body is a header that ties the body to one invocation and one place in its
sequence:

    Modelpact-Signature: v1;key=KEY_ID;seq=N;time=SECONDS;sig=HEX

`sig` is Ed25519 over the lines `modelpact/response/v1`, invocation id, `N`, `SECONDS` and the
SHA-256 of the body in hex. The invocation id and the hash are not sent: the verifier uses its own
invocation and the body that it received, so that a signature is valid for no other.
"""

import hashlib
import re
import time as clock
from itertools import pairwise
from typing import Any, Final, Literal, Protocol

import msgspec

from modelpact.identity.errors import BadSignature, IdentityError, UntrustedKeys
from modelpact.vocabulary.errors import InputError, brief

Purpose = Literal["data", "handover", "response"]

FORMAT: Final = "modelpact-public-keys/1"
SIGNATURE_HEADER: Final = "Modelpact-Signature"
MAX_AGE: Final = 300.0
_SIGNATURE: Final = re.compile(r"([0-9a-f]{16}):([0-9a-f]{128})")
_NUMBER: Final = r"(0|[1-9][0-9]{0,14})"
_VALUE: Final = re.compile(rf"v1;key=([0-9a-f]{{16}});seq={_NUMBER};time={_NUMBER};sig=([0-9a-f]{{128}})")
_INVOCATION: Final = re.compile(r"[!-~]{1,256}")
_RAW: Final = re.compile(r"[0-9a-f]{64}")
_HANDOVER: Final = re.compile(r"[0-9a-f]{128}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_PRIME: Final = 2**255 - 19
_SMALL_ORDER: Final = frozenset(
    number.to_bytes(32, "little")
    for number in (
        *(0, 1, _PRIME - 1, _PRIME, _PRIME + 1),
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
    )
)
"""The points of order 1, 2, 4 and 8, in every encoding, without the sign bit."""


class Signature(msgspec.Struct, frozen=True):
    """An Ed25519 signature and the id of its key; as text `KEY_ID:HEX`."""

    key_id: str
    value: bytes

    def __str__(self) -> str:
        return f"{self.key_id}:{self.value.hex()}"

    @classmethod
    def parse(cls, text: str) -> "Signature":
        """Parse `KEY_ID:HEX`, the only spelling of a signature."""
        match = _SIGNATURE.fullmatch(text)
        if not match:
            raise InputError(f"{brief(text)} is not a signature: expected KEY_ID:HEX")
        return cls(match[1], bytes.fromhex(match[2]))


class BodySignature(msgspec.Struct, frozen=True):
    """The contents of a valid signature."""

    key_id: str
    sequence: int
    time: int


class Signer(Protocol):
    """A signing key, or a keyring that signs with its current key."""

    @property
    def key_id(self) -> str:
        """The id of the key that signs."""

    def sign(self, data: bytes, *, purpose: Purpose = "data") -> Signature:
        """Sign bytes for a purpose."""


class SigningKey:
    """A private key. Its representation does not reveal it."""

    __slots__ = ("_private", "key_id", "raw_public")

    def __init__(self, private: Any) -> None:
        self._private = private
        self.raw_public: bytes = private.public_key().public_bytes_raw()
        self.key_id = _key_id(self.raw_public)

    def __repr__(self) -> str:
        return f"<SigningKey {self.key_id}>"

    @classmethod
    def generate(cls) -> "SigningKey":
        """Return a new key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, pem: bytes, where: object) -> "SigningKey":
        """Read a PKCS8 PEM; errors name `where`."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            private = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise IdentityError(f"{where} is not an unencrypted private key in PEM") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise IdentityError(f"{where} is not an Ed25519 key")
        return cls(private)

    def to_pem(self) -> bytes:
        """Return the private key as PKCS8 PEM, for a private file only."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        pem: bytes = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return pem

    def sign(self, data: bytes, *, purpose: Purpose = "data") -> Signature:
        """Sign bytes for a purpose."""
        return Signature(self.key_id, self._private.sign(_signed_message(purpose, data)))


class PublicKey(msgspec.Struct, frozen=True):
    """A public key, when it was created, and the signature of its predecessor."""

    raw: bytes
    created: str
    handover: bytes | None = None

    @property
    def key_id(self) -> str:
        """The id of the key."""
        return _key_id(self.raw)

    def handover_statement(self, predecessor: str) -> bytes:
        """Return the statement that the predecessor signs to hand over to this key."""
        return f"{predecessor}\n{self.raw.hex()}\n{self.created}\n".encode()


class _KeyEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key_id: str
    algorithm: Literal["ed25519"]
    public_key: str
    created: str
    handover: str | None


class _KeyList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal["modelpact-public-keys/1"]
    keys: tuple[_KeyEntry, ...]


class PublicKeys:
    """The public keys of one signer, oldest first; each is signed by the one before it."""

    __slots__ = ("_by_id", "keys")

    def __init__(self, keys: tuple[PublicKey, ...]) -> None:
        if not keys:
            raise InputError("there is no public key in the list")
        self.keys = keys
        self._by_id = {key.key_id: key for key in keys}
        if len(self._by_id) != len(keys):
            raise InputError("a public key is in the list twice")
        weak = next((key.key_id for key in keys if is_weak_key(key.raw)), "")
        if weak:
            raise InputError(f"key {weak} has small order: anybody can sign for it")
        for older, newer in pairwise(keys):
            statement = _signed_message("handover", newer.handover_statement(older.key_id))
            if not _is_valid(older.raw, statement, newer.handover):
                raise InputError(
                    f"key {newer.key_id} is not signed by its predecessor {older.key_id}: "
                    f"get the list from its owner again"
                )

    def __repr__(self) -> str:
        return f"<PublicKeys {' '.join(self._by_id)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKeys) and self.keys == other.keys

    def __hash__(self) -> int:
        return hash(self.keys)

    @property
    def current(self) -> PublicKey:
        """The current key."""
        return self.keys[-1]

    def find(self, key_id: str) -> PublicKey | None:
        """Return the key with an id, or None."""
        return self._by_id.get(key_id)

    @classmethod
    def parse(cls, data: bytes | str, where: object = "the list of public keys") -> "PublicKeys":
        """Read an export and verify every handover in it."""
        try:
            listed = msgspec.json.decode(data, type=_KeyList)
            return cls(tuple(_read_key(entry) for entry in listed.keys))
        except (msgspec.DecodeError, UnicodeDecodeError, InputError) as error:
            raise InputError(f"{where} cannot be used: {error}") from None

    def to_json(self) -> bytes:
        """Return the export, for verification elsewhere; `parse` reads it."""
        listed = _KeyList(
            FORMAT,
            tuple(
                _KeyEntry(
                    key.key_id,
                    "ed25519",
                    key.raw.hex(),
                    key.created,
                    None if key.handover is None else key.handover.hex(),
                )
                for key in self.keys
            ),
        )
        return msgspec.json.format(msgspec.json.encode(listed), indent=2) + b"\n"

    def extended_by(self, offered: "PublicKeys") -> "PublicKeys":
        """Return this trusted list with the newer keys of an offered list.

        The lists must share a key and agree from there on. An offered list that differs was made
        with a stolen or restored key: a retired key can no longer hand over.
        """
        raws = [key.raw for key in offered.keys]
        start = next((index for index, key in enumerate(self.keys) if key.raw in raws), None)
        if start is None:
            raise UntrustedKeys(
                f"none of the offered keys is trusted (trusted: {self.current.key_id}, "
                f"offered: {offered.current.key_id}): compare them with their owner"
            )
        own = self.keys[start:]
        others = offered.keys[raws.index(own[0].raw) :]
        for trusted, claimed in zip(own, others, strict=False):
            if trusted.raw != claimed.raw:
                raise UntrustedKeys(
                    f"key {claimed.key_id} is offered in place of the trusted {trusted.key_id}: "
                    f"a retired key was used again; compare the keys with their owner"
                )
        return PublicKeys((*self.keys, *others[len(own) :]))


def is_weak_key(raw: bytes) -> bool:
    """Tell whether a public key has small order, so that one signature is valid for all data."""
    return len(raw) == 32 and bytes([*raw[:31], raw[31] & 0x7F]) in _SMALL_ORDER


def verify(public_keys: PublicKeys, data: object, signature: object, *, purpose: Purpose = "data") -> bool:
    """Tell whether one of the keys signed these bytes for a purpose; malformed values are not.

    Nothing here is secret, so the comparison need not take constant time.
    """
    if not isinstance(signature, Signature) or not isinstance(data, bytes | bytearray | memoryview):
        return False
    key = public_keys.find(signature.key_id) if isinstance(signature.key_id, str) else None
    return key is not None and _is_valid(key.raw, _signed_message(purpose, bytes(data)), signature.value)


def sign_body(key: Signer, invocation_id: str, body: bytes, *, sequence: int = 0, time: float | None = None) -> str:
    """Return the value of the header for response number `sequence` of an invocation."""
    if not _INVOCATION.fullmatch(invocation_id):
        raise InputError(
            f"invocation id {brief(invocation_id)} cannot be signed: "
            f"expected 1 to 256 visible ASCII characters without spaces"
        )
    seconds = int(clock.time() if time is None else time)
    if not 0 <= sequence < 10**15 or not 0 <= seconds < 10**15:
        raise InputError(f"sequence {sequence} or time {seconds} is out of range")
    signature = key.sign(_signed_data(invocation_id, sequence, seconds, body), purpose="response")
    value = signature.value.hex()
    return f"v1;key={signature.key_id};seq={sequence};time={seconds};sig={value}"


def verify_body(
    public_keys: PublicKeys,
    invocation_id: str,
    body: bytes,
    header: str | None,
    *,
    sequence: int = 0,
    now: float | None = None,
    max_age: float | None = MAX_AGE,
) -> BodySignature:
    """Verify a signature and return its contents, or raise `BadSignature` with the reason.

    `sequence` is the number that this response must have. `max_age` is the allowed difference
    between the clocks in seconds; None ignores the time, for responses from the past.
    """
    match = _VALUE.fullmatch(header) if isinstance(header, str) else None
    if not match or not _INVOCATION.fullmatch(invocation_id):
        raise BadSignature("malformed", f"the response has no valid {SIGNATURE_HEADER} header")
    contents = BodySignature(match[1], int(match[2]), int(match[3]))
    if public_keys.find(contents.key_id) is None:
        raise BadSignature("unknown-key", f"the response is signed by key {contents.key_id}, which is not trusted")
    signature = Signature(contents.key_id, bytes.fromhex(match[4]))
    signed = _signed_data(invocation_id, contents.sequence, contents.time, body)
    if not verify(public_keys, signed, signature, purpose="response"):
        raise BadSignature(
            "mismatch", f"the signature of key {contents.key_id} is not for this body and invocation {invocation_id}"
        )
    if contents.sequence != sequence:
        raise BadSignature("out-of-order", f"got response {contents.sequence}, expected {sequence}")
    age = (clock.time() if now is None else now) - contents.time
    if max_age is not None and not -max_age <= age <= max_age:
        raise BadSignature("stale", f"the response was signed {age:.0f} s ago: compare the clocks")
    return contents


def _key_id(raw: bytes) -> str:
    """Return the id of a public key."""
    return hashlib.sha256(raw).hexdigest()[:16]


def _signed_message(purpose: Purpose, data: bytes) -> bytes:
    """Return the bytes to sign: they include the purpose, so that it cannot be exchanged."""
    return b"modelpact/%s/v1\n%s" % (purpose.encode(), data)


def _signed_data(invocation_id: str, sequence: int, seconds: int, body: bytes) -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    return f"{invocation_id}\n{sequence}\n{seconds}\n{digest}\n".encode()


def _read_key(entry: _KeyEntry) -> PublicKey:
    handover = entry.handover
    if (
        not _RAW.fullmatch(entry.public_key)
        or not _TIME.fullmatch(entry.created)
        or (handover is not None and not _HANDOVER.fullmatch(handover))
    ):
        raise InputError(f"key {brief(entry.key_id)} is malformed")
    key = PublicKey(
        bytes.fromhex(entry.public_key), entry.created, None if handover is None else bytes.fromhex(handover)
    )
    if key.key_id != entry.key_id:
        raise InputError(f"key {brief(entry.key_id)} has the public key of {key.key_id}")
    return key


def _is_valid(raw: bytes, signed: bytes, value: object) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not isinstance(value, bytes) or len(value) != 64:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(value, signed)
    except (InvalidSignature, ValueError):
        return False
    return True

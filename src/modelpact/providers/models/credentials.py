"""Hiding a key in what others say: whole or in part, and in the spellings that echo it."""

import base64
import hmac
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from modelpact.catalog.provider import Provider
from modelpact.configuration.config import ProviderSettings, SecretRef
from modelpact.providers.models.endpoints import find_address
from modelpact.vocabulary.errors import ModelpactError
from modelpact.vocabulary.redaction import REDACTED

_SHORTEST: Final = 8
"""So many characters of a key in a row are taken for a part of it."""
_ESCAPED: Final = re.compile(r"%([0-9a-fA-F]{2})|\\u00([0-9a-fA-F]{2})|\s+|.", re.DOTALL)


def hidden(text: str, key: str) -> str:
    """Return a text without a key: in any case, cut, split by space, escaped, or in base64."""
    if not key:
        return text
    if len(key) < _SHORTEST:
        return text.replace(key, REDACTED)
    letters: list[str] = []
    places: list[tuple[int, int]] = []
    for found in _ESCAPED.finditer(text):
        code = found[1] or found[2]
        letter = chr(int(code, 16)) if code else found[0]
        if not letter.isspace():
            letters.append(letter.lower() if len(letter.lower()) == 1 else letter)
            places.append(found.span())
    plain, parts = "".join(letters), _parts(key)
    shown, done, at = [], 0, 0
    while at + _SHORTEST <= len(plain):
        if plain[at : at + _SHORTEST] not in parts:
            at += 1
            continue
        end = at + _SHORTEST
        while end < len(plain) and plain[end - _SHORTEST + 1 : end + 1] in parts:
            end += 1
        shown += [text[done : places[at][0]], REDACTED]
        done, at = places[end - 1][1], end
    return "".join([*shown, text[done:]])


@lru_cache(maxsize=64)
def _parts(key: str) -> frozenset[str]:
    """Return every run of characters by which a key is known, in lower case."""
    data = key.encode("utf-8", "replace")
    spelled = [key]
    for shift in range(3):  # where it may begin within the three bytes that base64 takes at once
        whole = base64.b64encode(b"\0" * shift + data).decode().rstrip("=")
        inner = whole[4:-1] if shift else whole[:-1]  # its edges depend on what stands beside it
        spelled += [inner, inner.replace("+", "-").replace("/", "_")]
    return frozenset(
        one[at : at + _SHORTEST].lower()
        for one in spelled
        for at in range(len(one) - _SHORTEST + 1)
    )


_LONGEST: Final = 16_384


class MissingKey(ModelpactError):
    """A key that is not where it should be; the message says where that is."""


class ApiKey:
    """A secret. Only `reveal` tells it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the key itself, to be sent and not to be kept."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ApiKey):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((ApiKey, self._value))

    def __repr__(self) -> str:
        return "Key(…)" if self._value else "Key()"

    def __reduce__(self) -> str:
        raise TypeError("a key is not pickled")


NO_KEY: Final = ApiKey("")


def resolve_key(
    settings: ProviderSettings | None,
    provider: Provider | None,
    *,
    name: str = "",
    environment: Mapping[str, str] | None = None,
) -> ApiKey:
    """Return a provider's key, an empty one where none is needed, or raise `MissingKey`.

    What the settings name must be there. Without settings it is looked for in the variables that
    the catalog knows, but only where requests go to the provider's own address, or to the one that
    the same environment names: a key is never sent to another server than the one that it is for.
    """
    env = os.environ if environment is None else environment
    name = name or ("the provider" if provider is None else provider.id)
    if settings is not None and settings.api_key is not None:
        return read_secret(settings.api_key, name, env)
    elsewhere = settings is not None and settings.base_url and not _same(settings, provider)
    if provider is None or elsewhere:
        return NO_KEY
    for variable in provider.key_env:
        if value := env.get(variable, "").strip():
            return _checked(value, f"{name}: the key in {variable}")
    if provider.kind != "cloud" or not provider.key_env:
        return NO_KEY
    if find_address(settings, provider, env).variable:
        return NO_KEY  # a server of one's own may want none; one that does will say so
    raise MissingKey(
        f"{name}: no key: set {' or '.join(provider.key_env)}, or write api_key = "
        f'{{ env = "NAME" }} or {{ file = "PATH" }} under [providers.{name}]'
    )


def _same(settings: ProviderSettings, provider: Provider | None) -> bool:
    return provider is not None and settings.base_url.rstrip("/") == provider.base_url.rstrip("/")


def read_secret(ref: SecretRef, name: str, environment: Mapping[str, str] | None = None) -> ApiKey:
    """Return the secret that a reference leads to, or raise `MissingKey`."""
    env = os.environ if environment is None else environment
    if ref.env:
        value = env.get(ref.env, "").strip()
        if not value:
            state = "is empty" if ref.env in env else "is not set"
            raise MissingKey(f"{name}: no key: the variable {ref.env} {state}; set it to the key")
        return _checked(value, f"{name}: the key in {ref.env}")
    path = Path(ref.file).expanduser()
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST + 1)
    except OSError as error:
        raise MissingKey(
            f"{name}: no key: {path} cannot be read: {error.strerror or error}"
        ) from None
    if not content.strip():
        raise MissingKey(f"{name}: no key: {path} is empty; put the key there")
    if len(content) > _LONGEST:
        raise MissingKey(f"{name}: {path} is too long for a key")
    return _checked(content.decode("utf-8", "replace").strip(), f"{name}: the key in {path}")


def _checked(value: str, where: str) -> ApiKey:
    if not value.isascii() or not value.isprintable() or " " in value:
        raise MissingKey(f"{where} has characters that a key cannot have; write the key alone")
    return ApiKey(value)

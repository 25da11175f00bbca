"""API keys: where they come from, and how they are removed from text."""

import base64
import hmac
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from modelpact.catalog.provider import ProviderEntry
from modelpact.configuration.config import ProviderSettings, SecretRef
from modelpact.providers.models.endpoints import find_address
from modelpact.vocabulary.errors import ModelpactError
from modelpact.vocabulary.redaction import REDACTED

_MAX_KEY_FILE: Final = 16_384
_MIN_RUN: Final = 8
"""A run of this many characters of a key is treated as a part of the key."""
_ESCAPED: Final = re.compile(r"%([0-9a-fA-F]{2})|\\u00([0-9a-fA-F]{2})|\s+|.", re.DOTALL)


class MissingKey(ModelpactError):
    """A key is not where it should be; the message says where that is."""


class ApiKey:
    """A secret. Only `reveal` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the key itself, to send it."""
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
        return "ApiKey(…)" if self._value else "ApiKey()"

    def __reduce__(self) -> str:
        raise TypeError("an API key cannot be pickled")


NO_KEY: Final = ApiKey("")


def resolve_key(
    settings: ProviderSettings | None,
    provider: ProviderEntry | None,
    *,
    name: str = "",
    environment: Mapping[str, str] | None = None,
) -> ApiKey:
    """Return the key of a provider, `NO_KEY` if none is needed, or raise `MissingKey`.

    A key that the settings name must exist. Without settings, the key comes from the variables
    that the catalog lists, but only if requests go to the provider's own address or to the address
    that the same environment sets: a key is never sent to a server that it is not for.
    """
    env = os.environ if environment is None else environment
    name = name or ("the provider" if provider is None else provider.id)
    if settings is not None and settings.api_key is not None:
        return read_secret(settings.api_key, name, env)
    if provider is None or _has_other_address(settings, provider):
        return NO_KEY
    for variable in provider.key_env:
        if value := env.get(variable, "").strip():
            return _check_key(value, f"{name}: the key in {variable}")
    if provider.kind != "cloud" or not provider.key_env:
        return NO_KEY
    if find_address(settings, provider, env).variable:
        return NO_KEY  # the operator's own server may need none; if it does, it says so
    raise MissingKey(
        f"{name}: no key: set {' or '.join(provider.key_env)}, or write api_key = "
        f'{{ env = "NAME" }} or {{ file = "PATH" }} under [providers.{name}]'
    )


def read_secret(ref: SecretRef, name: str, environment: Mapping[str, str] | None = None) -> ApiKey:
    """Return the secret that a reference points to, or raise `MissingKey`."""
    env = os.environ if environment is None else environment
    if ref.env:
        value = env.get(ref.env, "").strip()
        if not value:
            state = "is empty" if ref.env in env else "is not set"
            raise MissingKey(f"{name}: no key: the variable {ref.env} {state}; set it to the key")
        return _check_key(value, f"{name}: the key in {ref.env}")
    path = Path(ref.file).expanduser()
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_KEY_FILE + 1)
    except OSError as error:
        raise MissingKey(f"{name}: no key: {path} cannot be read: {error.strerror or error}") from None
    if not content.strip():
        raise MissingKey(f"{name}: no key: {path} is empty; put the key there")
    if len(content) > _MAX_KEY_FILE:
        raise MissingKey(f"{name}: {path} is too long for a key")
    return _check_key(content.decode("utf-8", "replace").strip(), f"{name}: the key in {path}")


def redact_key(text: str, key: str) -> str:
    """Return a text without a key, in whole or in part.

    The key is recognised in any case, split by white space, escaped, or in base64.
    """
    if not key:
        return text
    if len(key) < _MIN_RUN:
        return text.replace(key, REDACTED)
    letters: list[str] = []
    spans: list[tuple[int, int]] = []
    for match in _ESCAPED.finditer(text):
        code = match[1] or match[2]
        letter = chr(int(code, 16)) if code else match[0]
        if not letter.isspace():
            letters.append(letter.lower() if len(letter.lower()) == 1 else letter)
            spans.append(match.span())
    plain, runs = "".join(letters), _key_runs(key)
    parts: list[str] = []
    done = start = 0
    while start + _MIN_RUN <= len(plain):
        if plain[start : start + _MIN_RUN] not in runs:
            start += 1
            continue
        end = start + _MIN_RUN
        while end < len(plain) and plain[end - _MIN_RUN + 1 : end + 1] in runs:
            end += 1
        parts += [text[done : spans[start][0]], REDACTED]
        done, start = spans[end - 1][1], end
    return "".join([*parts, text[done:]])


@lru_cache(maxsize=64)
def _key_runs(key: str) -> frozenset[str]:
    """Return every run of `_MIN_RUN` characters of a key and its base64, in lower case."""
    data = key.encode("utf-8", "replace")
    spellings = [key]
    for shift in range(3):  # the key may begin at any of the three bytes that base64 encodes at once
        encoded = base64.b64encode(b"\0" * shift + data).decode().rstrip("=")
        inner = encoded[4:-1] if shift else encoded[:-1]  # the edges depend on the bytes beside it
        spellings += [inner, inner.replace("+", "-").replace("/", "_")]
    return frozenset(
        spelling[start : start + _MIN_RUN].lower()
        for spelling in spellings
        for start in range(len(spelling) - _MIN_RUN + 1)
    )


def _has_other_address(settings: ProviderSettings | None, provider: ProviderEntry) -> bool:
    if settings is None or not settings.base_url:
        return False
    return settings.base_url.rstrip("/") != provider.base_url.rstrip("/")


def _check_key(value: str, source: str) -> ApiKey:
    if not value.isascii() or not value.isprintable() or " " in value:
        raise MissingKey(f"{source} has characters that a key cannot have; write only the key")
    return ApiKey(value)

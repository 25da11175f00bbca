"""Keys: found where the configuration says, held so that they are never shown."""

import hmac
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from modelpact.catalog.provider import Provider
from modelpact.configuration.config import ProviderSettings, SecretRef
from modelpact.providers.adapters.addresses import find_address
from modelpact.vocabulary.errors import ModelpactError

_LONGEST: Final = 16_384


class MissingKey(ModelpactError):
    """A key that is not where it should be; the message says where that is."""


class Key:
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
        if not isinstance(other, Key):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Key, self._value))

    def __repr__(self) -> str:
        return "Key(…)" if self._value else "Key()"

    def __reduce__(self) -> str:
        raise TypeError("a key is not pickled")


NO_KEY: Final = Key("")


def resolve_key(
    settings: ProviderSettings | None,
    provider: Provider | None,
    *,
    name: str = "",
    environment: Mapping[str, str] | None = None,
) -> Key:
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


def read_secret(ref: SecretRef, name: str, environment: Mapping[str, str] | None = None) -> Key:
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


def _checked(value: str, where: str) -> Key:
    if not value.isascii() or not value.isprintable() or " " in value:
        raise MissingKey(f"{where} has characters that a key cannot have; write the key alone")
    return Key(value)

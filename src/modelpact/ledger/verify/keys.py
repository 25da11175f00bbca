"""The public keys that a verifier trusts, and the keys that replaced them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from modelpact.vocabulary.errors import InputError, ModelpactError

if TYPE_CHECKING:
    from modelpact.identity import PublicKeys


class TrustedKeys:
    """Lists of public keys, one for each signer."""

    def __init__(self, public_keys: "PublicKeys | Sequence[PublicKeys] | None") -> None:
        self.supplied = public_keys is not None
        """Whether the verifier named keys to trust. If not, those of the export are used."""
        listed = [] if public_keys is None else public_keys
        self._lists: list[PublicKeys] = (
            list(listed) if isinstance(listed, (list, tuple)) else [listed]  # type: ignore[list-item]
        )

    def add(self, offered: Sequence[dict[str, Any]]) -> str:
        """Take key lists that an export brings, as far as trusted keys handed over to them.

        Returns what is wrong with one of them, or an empty string.
        """
        from modelpact.identity import PublicKeys, UntrustedKeys

        for data in offered:
            try:
                keys = PublicKeys.parse(msgspec.json.encode(data))
            except InputError as error:
                return str(error)
            if not self.supplied:
                self._lists.append(keys)
                continue
            for index, trusted in enumerate(self._lists):
                if any(trusted.find(key.key_id) for key in keys.keys):
                    try:
                        self._lists[index] = trusted.extended_by(keys)
                    except UntrustedKeys as error:
                        return str(error)
        return ""

    def find(self, key_id: str) -> "PublicKeys | None":
        """Return the list that has a key, or None."""
        return next((keys for keys in self._lists if keys.find(key_id)), None)


def read_keys(data: bytes, where: object) -> "PublicKeys":
    """Parse public keys in the form that `modelpact identity export` prints."""
    from modelpact.identity import PublicKeys

    try:
        return PublicKeys.parse(data, where)
    except ModelpactError as error:
        raise InputError(str(error)) from None

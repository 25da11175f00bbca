"""The keys that a verifier trusts, and those to which they handed over."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from modelpact.vocabulary.errors import InputError, ModelpactError

if TYPE_CHECKING:
    from modelpact.identity import PublicKeys


class TrustedKeys:
    """Lists of public keys, each of one signer."""

    def __init__(self, public_keys: "PublicKeys | Sequence[PublicKeys] | None") -> None:
        self.given = public_keys is not None
        listed = [] if public_keys is None else public_keys
        self._lists: list[PublicKeys] = (
            list(listed) if isinstance(listed, (list, tuple)) else [listed]  # type: ignore[list-item]
        )

    def learn(self, offered: Sequence[dict[str, Any]]) -> str:
        """Follow rotations in lists that an export brings; return what is wrong with one, or ""."""
        from modelpact.identity import PublicKeys, UntrustedKeys

        for one in offered:
            try:
                keys = PublicKeys.parse(msgspec.json.encode(one))
            except InputError as error:
                return str(error)
            if not self.given:
                self._lists.append(keys)
                continue
            for place, known in enumerate(self._lists):
                if any(known.find(key.key_id) for key in keys.keys):
                    try:
                        self._lists[place] = known.carried_over(keys)
                    except UntrustedKeys as error:
                        return str(error)
        return ""

    def find(self, key_id: str) -> "PublicKeys | None":
        """Return the list that has the key, or None."""
        return next((one for one in self._lists if one.find(key_id)), None)


def read_keys(data: bytes, where: object) -> "PublicKeys":
    """Read public keys as `modelpact identity export` prints them."""
    from modelpact.identity import PublicKeys

    try:
        return PublicKeys.parse(data, where)
    except ModelpactError as error:
        raise InputError(str(error)) from None

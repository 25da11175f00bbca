"""Access: a bearer token, compared in constant time."""

import hashlib
import hmac

from modelpact.openwop.surface import Authorise
from modelpact.wire import Incoming


def one_token(token: str) -> Authorise:
    """Return what lets in whoever shows this token."""
    wanted = _digest(token)

    def authorise(request: Incoming) -> str | None:
        shown = request.headers.get("authorization") or ""
        scheme, _, given = shown.partition(" ")
        fits = hmac.compare_digest(_digest(given.strip()), wanted)
        return "" if fits and scheme.lower() == "bearer" else None

    return authorise


def _digest(text: str) -> bytes:
    """Return a digest: whatever is compared is of one length and tells nothing of the token."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()

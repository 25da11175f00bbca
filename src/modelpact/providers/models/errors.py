"""What goes wrong between an adapter and its upstream server."""

import re
import time
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from typing import Final

from modelpact.conversation.error_bodies import ErrorBody
from modelpact.conversation.fidelity import Loss
from modelpact.providers.models.credentials import hidden
from modelpact.providers.port import ProviderError
from modelpact.vocabulary.redaction import redact_text
from modelpact.wire import Headers

_MOST_SHOWN: Final = 600
_LONGEST_WAIT: Final = 86_400.0
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


class UpstreamError(ProviderError):
    """An upstream refused, failed or could not be reached.

    `status` is its HTTP status, `code` its own word for what is wrong (or ours: `timeout`,
    `unreachable`, `cut_off`, `malformed`, `not_streamed`), `param` the field it blames,
    `retry_after` the seconds after which it wants to be asked again.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str = "",
        param: str = "",
        retry_after: float | None = None,
        request_id: str = "",
    ) -> None:
        self.code = code
        self.param = param
        self.retry_after = retry_after
        self.request_id = request_id
        super().__init__(message, status=status)


class NotTranslatable(ProviderError):
    """A request that would mean something else in the API's words; nothing was sent."""

    def __init__(self, name: str, losses: Iterable[Loss]) -> None:
        self.losses = tuple(losses)
        told = "; ".join(f"{loss.path}: {loss.what}" for loss in self.losses)
        super().__init__(f"{name} cannot be asked this, nothing was sent: {told}", status=400)


def cleaned(text: str, key: str) -> str:
    """Return an upstream's words without secrets, our key before all, and not at any length."""
    text = redact_text(hidden(text[: 4 * _MOST_SHOWN + len(key)], key))
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


def refused(
    name: str, status: int, headers: Headers, said: ErrorBody | None, key: str
) -> UpstreamError:
    """Make the error of an answer that is not the one that was asked for."""
    told = "" if said is None else cleaned(said.message, key)
    if 300 <= status < 400:
        told = "it redirects elsewhere, which is not followed: set base_url to the right address"
    code = "" if said is None else cleaned(said.code or said.kind, key)
    blamed = f" ({code})" if code else ""
    told = told or "no reason given"
    if status in (401, 403):
        told = f"{told.removesuffix('.')}; check the key of {name}"
    request_id = headers.get("request-id") or headers.get("x-request-id") or ""
    return UpstreamError(
        f"{name} answered {status}{blamed}: {told}",
        status=status,
        code=code,
        param="" if said is None else cleaned(said.param, key),
        retry_after=read_retry_after(headers),
        request_id=cleaned(request_id, key),
    )


def read_retry_after(headers: Headers, now: float | None = None) -> float | None:
    """Return the seconds that an upstream wants to be left alone, or None."""
    for name, scale in (("retry-after-ms", 1_000.0), ("retry-after", 1.0)):
        value = (headers.get(name) or "").strip()
        if _SECONDS.fullmatch(value):
            return min(float(value) / scale, _LONGEST_WAIT)
    value = headers.get("retry-after") or ""
    try:
        when = parsedate_to_datetime(value).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(0.0, when - (time.time() if now is None else now)), _LONGEST_WAIT)

"""Errors between an adapter and its upstream server."""

import re
import time
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from typing import Final

from modelpact.conversation.fidelity import Loss
from modelpact.conversation.response import ErrorBody
from modelpact.providers.models.credentials import redact_key
from modelpact.providers.port import ProviderError
from modelpact.vocabulary.redaction import redact_text
from modelpact.wire import Headers

_MAX_SHOWN: Final = 600
_MAX_RETRY_AFTER: Final = 86_400.0
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


class UpstreamError(ProviderError):
    """An upstream server rejected a request, failed, or could not be reached.

    `status` is its HTTP status, `code` its own error code (or ours: `timeout`, `unreachable`,
    `cut_off`, `malformed`, `not_streamed`), `param` the field that it names, `retry_after` the
    seconds after which it accepts another attempt.
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
    """A request would mean something else in the API of the provider; nothing was sent."""

    def __init__(self, name: str, losses: Iterable[Loss]) -> None:
        self.losses = tuple(losses)
        reasons = "; ".join(f"{loss.path}: {loss.what}" for loss in self.losses)
        super().__init__(
            f"{name} cannot express this request, nothing was sent: {reasons}", status=400
        )


def redact_upstream(text: str, key: str) -> str:
    """Return the text of an upstream server without the key and other secrets, shortened."""
    text = redact_text(redact_key(text[: 4 * _MAX_SHOWN + len(key)], key))
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def error_from_response(
    name: str, status: int, headers: Headers, error: ErrorBody | None, key: str
) -> UpstreamError:
    """Return the error for a response with an error status."""
    message = "" if error is None else redact_upstream(error.message, key)
    if 300 <= status < 400:
        message = "it redirects, and redirects are not followed: set base_url to the new address"
    code = "" if error is None else redact_upstream(error.code or error.kind, key)
    named_code = f" ({code})" if code else ""
    message = message or "no reason given"
    if status in (401, 403):
        message = f"{message.removesuffix('.')}; check the key of {name}"
    request_id = headers.get("request-id") or headers.get("x-request-id") or ""
    return UpstreamError(
        f"{name} answered {status}{named_code}: {message}",
        status=status,
        code=code,
        param="" if error is None else redact_upstream(error.param, key),
        retry_after=read_retry_after(headers),
        request_id=redact_upstream(request_id, key),
    )


def read_retry_after(headers: Headers, now: float | None = None) -> float | None:
    """Return the seconds after which an upstream server accepts another attempt, or None."""
    for name, scale in (("retry-after-ms", 1_000.0), ("retry-after", 1.0)):
        value = (headers.get(name) or "").strip()
        if _SECONDS.fullmatch(value):
            return min(float(value) / scale, _MAX_RETRY_AFTER)
    value = headers.get("retry-after") or ""
    try:
        when = parsedate_to_datetime(value).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(0.0, when - (time.time() if now is None else now)), _MAX_RETRY_AFTER)

"""A cache of one request head: clients repeat theirs, and only the length of the body changes."""

import re
from typing import Final, Self

from modelpact.wire.messages import HttpRequest, PeerConnection

_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})\r\n", re.IGNORECASE)
_MAX_DIGITS: Final = 9
_MAX_HEAD: Final = 8_192
"""A longer head is not worth its memory."""
_NOT_CACHEABLE: Final = (b"expect", b"transfer-encoding", b"upgrade")
"""Headers of requests that are more than a head and a body of known length."""


class CachedHead:
    """A parsed head, split around the digits of its `content-length`.

    The same bytes parse to the same head, and other digits in that place mean another length and
    nothing else. A match needs the whole body and nothing after it; the parser handles the rest.
    """

    __slots__ = (
        "_after",
        "_before",
        "_digits",
        "_headers",
        "_method",
        "_search_end",
        "_start",
        "_target",
    )

    def __init__(self, before: bytes, after: bytes, request: HttpRequest) -> None:
        self._before = before
        self._after = after
        self._start = len(before)
        self._search_end = len(before) + _MAX_DIGITS + len(after)
        self._method = request.method
        self._target = request.authority, request.path, request.query
        self._headers = request.headers
        self._digits = request.headers.index[b"content-length"]

    @classmethod
    def from_request(cls, data: bytes, request: HttpRequest, limit: int) -> Self | None:
        """Return the head of a request that was parsed from exactly this data, if cacheable."""
        end = data.find(b"\r\n\r\n") + 4
        lengths = list(_LENGTH.finditer(data, 0, end))
        index = request.headers.index
        if (
            len(lengths) != 1
            or not 3 < end <= min(_MAX_HEAD, limit - _MAX_DIGITS)
            # The parser must have seen the head end in the same place.
            or end + int(lengths[0][1]) != len(data)
            or int(index.get(b"content-length", b"-1")) != int(lengths[0][1])
            or not (request.complete and request.keep_alive and request.accepts_chunked)
            or any(name in index for name in _NOT_CACHEABLE)
        ):
            return None
        return cls(data[: lengths[0].start(1)], data[lengths[0].end(1) : end], request)

    def match(self, data: bytes, max_body: int, connection: PeerConnection) -> HttpRequest | None:
        """Return the request if the data is this head and its whole body, else None."""
        if not data.startswith(self._before):
            return None
        end = data.find(self._after, self._start, self._search_end)
        digits = data[self._start : end]
        if end < 0 or not digits.isdigit():
            return None
        body = data[end + len(self._after) :]
        if not len(body) == int(digits) <= max_body:
            return None
        headers = self._headers
        if digits != self._digits:
            headers = self._headers = headers.with_length(digits)
            self._digits = digits
        return HttpRequest(self._method, self._target, headers, connection, True, True, body)

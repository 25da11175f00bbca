"""A head that was parsed before: clients repeat theirs, and only the length of the body changes."""

import re
from typing import Final, Self

from modelpact.wire.exchange import HttpRequest, Peer

_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})\r\n", re.IGNORECASE)
_MOST_DIGITS: Final = 9
_LONGEST: Final = 8_192
"""A longer head is not worth its memory."""
_ODD: Final = (b"expect", b"transfer-encoding", b"upgrade")
"""What makes a request more than a head and a body of known length."""


class CachedHead:
    """A head, cut in two where the digits of its length are.

    Bytes that were parsed and checked once mean the same when they come again, and other digits
    in the same place are another length and nothing else. It is known again only with all of its
    body and nothing after it: whatever else comes is for the parser.
    """

    __slots__ = (
        "_after",
        "_before",
        "_begin",
        "_digits",
        "_headers",
        "_method",
        "_most",
        "_target",
    )

    def __init__(self, before: bytes, after: bytes, first: HttpRequest) -> None:
        self._before = before
        self._after = after
        self._begin = len(before)
        self._most = len(before) + _MOST_DIGITS + len(after)
        self._method = first.method
        self._target = first.authority, first.path, first.query
        self._headers = first.headers
        self._digits = first.headers.index[b"content-length"]

    @classmethod
    def of(cls, data: bytes, request: HttpRequest, most: int) -> Self | None:
        """Return the head of a request that was parsed from all of the data, if it is plain."""
        end = data.find(b"\r\n\r\n") + 4
        lengths = list(_LENGTH.finditer(data, 0, end))
        index = request.headers.index
        if (
            len(lengths) != 1
            or not 3 < end <= min(_LONGEST, most - _MOST_DIGITS)
            # The parser must have seen the head end in the same place.
            or end + int(lengths[0][1]) != len(data)
            or int(index.get(b"content-length", b"-1")) != int(lengths[0][1])
            or not (request.complete and request.keep_alive and request.chunked_ok)
            or any(name in index for name in _ODD)
        ):
            return None
        return cls(data[: lengths[0].start(1)], data[lengths[0].end(1) : end], request)

    def again(self, data: bytes, most: int, sink: Peer) -> HttpRequest | None:
        """Return the request, if the data are this head and all of its body."""
        if not data.startswith(self._before):
            return None
        at = data.find(self._after, self._begin, self._most)
        digits = data[self._begin : at]
        if at < 0 or not digits.isdigit():
            return None
        body = data[at + len(self._after) :]
        if not len(body) == int(digits) <= most:
            return None
        headers = self._headers
        if digits != self._digits:
            headers = self._headers = headers.with_length(digits)
            self._digits = digits
        return HttpRequest(self._method, self._target, headers, sink, True, True, body)

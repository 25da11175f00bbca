"""Routes: which handler answers a method on a path."""

from collections.abc import Awaitable, Callable
from urllib.parse import unquote_to_bytes

from modelpact.wire.errors import HttpError
from modelpact.wire.exchange import HttpResponse

Answering = Callable[..., Awaitable[HttpResponse]]


class Routes:
    """Paths with `{}` for a segment that is handed to the handler.

    A path is cut at its slashes before it is decoded: an encoded slash never makes a segment.
    """

    def __init__(self, *routes: tuple[str, str, Answering]) -> None:
        self._fixed: dict[str, dict[str, Answering]] = {}
        self._open: list[tuple[list[str], dict[str, Answering]]] = []
        for method, path, answering in routes:
            self._methods(path)[method] = answering

    def _methods(self, path: str) -> dict[str, Answering]:
        if "{}" not in path:
            return self._fixed.setdefault(path, {})
        parts = path.split("/")
        for known, methods in self._open:
            if known == parts:
                return methods
        self._open.append((parts, {}))
        return self._open[-1][1]

    def find(self, method: str, path: str) -> tuple[Answering, tuple[str, ...]]:
        """Return the handler and the open segments; refuse with 404, or 405 and what is allowed."""
        methods = self._fixed.get(path)
        given: tuple[str, ...] = ()
        if methods is None:
            methods, given = self._matched(path)
        answering = methods.get(method)
        if answering is None and method == "HEAD":
            answering = methods.get("GET")
        if answering is None:
            raise HttpError(405, f"expected {' or '.join(sorted(methods))}")
        return answering, given

    def _matched(self, path: str) -> tuple[dict[str, Answering], tuple[str, ...]]:
        parts = path.split("/")
        for known, methods in self._open:
            if len(known) == len(parts) and all(
                one == "{}" or one == part for one, part in zip(known, parts, strict=True)
            ):
                given = [part for one, part in zip(known, parts, strict=True) if one == "{}"]
                return methods, tuple(map(_segment, given))
        raise HttpError(404, "no such path")


def _segment(raw: str) -> str:
    try:
        decoded = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise HttpError(400, "the path is not UTF-8") from None
    if not decoded or "\0" in decoded:
        raise HttpError(404, "no such path")
    return decoded

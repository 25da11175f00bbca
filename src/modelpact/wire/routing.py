"""Routes: which handler answers a method on a path."""

from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import unquote_to_bytes

from modelpact.wire.errors import HttpError
from modelpact.wire.messages import HttpResponse

RouteHandler = Callable[..., Awaitable[HttpResponse]]


class Routes:
    """A table of routes. In a path, `{}` matches one segment, which is passed to the handler.

    Paths are split at slashes before they are decoded: an encoded slash never makes a segment.
    """

    def __init__(self, *routes: tuple[str, str, RouteHandler]) -> None:
        """Each route is a method, a path and a handler."""
        self._fixed: dict[str, dict[str, RouteHandler]] = {}
        self._patterns: list[tuple[list[str], dict[str, RouteHandler]]] = []
        for method, path, handler in routes:
            self._methods(path)[method] = handler

    def find(self, method: str, path: str) -> tuple[RouteHandler, tuple[str, ...]]:
        """Return the handler and the matched segments; raise 404, or 405 with what is allowed."""
        methods = self._fixed.get(path)
        segments: tuple[str, ...] = ()
        if methods is None:
            methods, segments = self._match(path)
        handler = methods.get(method)
        if handler is None and method == "HEAD":
            handler = methods.get("GET")
        if handler is None:
            raise HttpError(405, f"expected {' or '.join(sorted(methods))}")
        return handler, segments

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Iterate over the method and path of each route."""
        for path, methods in self._fixed.items():
            yield from ((method, path) for method in methods)
        for parts, methods in self._patterns:
            yield from ((method, "/".join(parts)) for method in methods)

    def _methods(self, path: str) -> dict[str, RouteHandler]:
        if "{}" not in path:
            return self._fixed.setdefault(path, {})
        parts = path.split("/")
        for pattern, methods in self._patterns:
            if pattern == parts:
                return methods
        self._patterns.append((parts, {}))
        return self._patterns[-1][1]

    def _match(self, path: str) -> tuple[dict[str, RouteHandler], tuple[str, ...]]:
        parts = path.split("/")
        for pattern, methods in self._patterns:
            if len(pattern) == len(parts) and all(
                expected in ("{}", part) for expected, part in zip(pattern, parts, strict=True)
            ):
                segments = (
                    part for expected, part in zip(pattern, parts, strict=True) if expected == "{}"
                )
                return methods, tuple(map(_decode_segment, segments))
        raise HttpError(404, "no such path")


def _decode_segment(raw: str) -> str:
    try:
        decoded = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise HttpError(400, "the path is not UTF-8") from None
    if not decoded or "\0" in decoded:
        raise HttpError(404, "no such path")
    return decoded

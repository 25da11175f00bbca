"""Error bodies of the APIs, as responses and in the middle of streams."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.vocabulary.errors import ModelpactError

_STATUSES: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_ANTHROPIC_TYPES: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The error that an API reports; `kind` is its `type`, `param` the field that it blames."""

    message: str
    kind: str = ""
    code: str = ""
    param: str = ""

    @property
    def status(self) -> int | None:
        """The HTTP status that belongs to the kind of error, if it is known."""
        return _STATUSES.get(self.code) or _STATUSES.get(self.kind)


class ResponseError(ModelpactError):
    """An API sent an error in place of a response, or in the middle of a stream."""

    def __init__(self, body: ErrorBody) -> None:
        self.body = body
        super().__init__(f"the response is an error: {body.message or body.kind}")


def read_error(body: Any) -> ErrorBody | None:
    """Read an error body of any of the APIs, or of servers that resemble them.

    Return None for a body that is not an error.
    """
    if not isinstance(body, Mapping):
        return None
    error = body.get("error", body if "message" in body and "choices" not in body else None)
    if isinstance(error, str):
        return ErrorBody(error)
    if not isinstance(error, Mapping) or not isinstance(error.get("message"), str):
        return None
    code = error.get("code")
    return ErrorBody(
        error["message"],
        _string(error.get("type")),
        str(code) if isinstance(code, int) else _string(code),
        _string(error.get("param")),
    )


def write_openai_error(error: ErrorBody) -> dict[str, Any]:
    """Write an error body as OpenAI does; fields that are not known are null."""
    return {
        "error": {
            "message": error.message,
            "type": error.kind or "api_error",
            "param": error.param or None,
            "code": error.code or None,
        }
    }


def write_anthropic_error(error: ErrorBody, status: int, request_id: str = "") -> dict[str, Any]:
    """Write an error body as Anthropic does: the status decides the type."""
    kind = _ANTHROPIC_TYPES.get(status)
    if kind is None:
        kind = "invalid_request_error" if status < 500 else "api_error"
    body: dict[str, Any] = {"type": "error", "error": {"type": kind, "message": error.message}}
    return {**body, "request_id": request_id} if request_id else body


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""

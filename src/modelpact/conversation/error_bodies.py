"""Errors as the APIs spell them, in bodies and in the middle of streams."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelpact.vocabulary.errors import InputError, ModelpactError

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
_KINDS: Final[Mapping[int, str]] = {
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


class ApiError(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an API said was wrong; `kind` is its `type`, `param` the field that it blames."""

    message: str
    kind: str = ""
    code: str = ""
    param: str = ""

    @property
    def status(self) -> int | None:
        """The HTTP status that goes with the kind, where that is known."""
        return _STATUSES.get(self.code) or _STATUSES.get(self.kind)


class StreamBroken(ModelpactError):
    """A stream that brought an error where the answer should have gone on."""

    def __init__(self, said: ApiError) -> None:
        self.said = said
        super().__init__(f"the stream ended with an error: {said.message or said.kind}")


def read_error(body: Any) -> ApiError | None:
    """Read an error body of either API, or of the servers that resemble them; None for others."""
    if not isinstance(body, Mapping):
        return None
    said = body.get("error", body if "message" in body and "choices" not in body else None)
    if isinstance(said, str):
        return ApiError(said)
    if not isinstance(said, Mapping) or not isinstance(said.get("message"), str):
        return None
    code = said.get("code")
    return ApiError(
        said["message"],
        _text(said.get("type")),
        str(code) if isinstance(code, int) else _text(code),
        _text(said.get("param")),
    )


def write_openai_error(said: ApiError) -> dict[str, Any]:
    """Write an error body as OpenAI does; what is not known is null."""
    return {
        "error": {
            "message": said.message,
            "type": said.kind or "api_error",
            "param": said.param or None,
            "code": said.code or None,
        }
    }


def write_anthropic_error(said: ApiError, status: int, request_id: str = "") -> dict[str, Any]:
    """Write an error body as Anthropic does: its types go with the statuses."""
    kind = _KINDS.get(status) or ("invalid_request_error" if status < 500 else "api_error")
    body: dict[str, Any] = {"type": "error", "error": {"type": kind, "message": said.message}}
    return {**body, "request_id": request_id} if request_id else body


def parse(data: str, what: str) -> dict[str, Any]:
    """Parse the data of a stream's event, which must be an object."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{what}: not JSON: {error}: {data!r:.80}") from None
    except UnicodeEncodeError:
        raise InputError(f"{what}: not valid Unicode") from None
    if not isinstance(found, dict):
        raise InputError(f"{what}: expected an object, not {type(found).__name__}")
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

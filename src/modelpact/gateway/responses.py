"""Responses of the gateway: their type, and errors in the format of the client's API."""

from collections.abc import AsyncIterable, Iterable
from typing import Any, Final

import msgspec

from modelpact.conversation.anthropic.response import write_anthropic_error
from modelpact.conversation.openai_chat.response import write_openai_error
from modelpact.conversation.response import ErrorBody
from modelpact.gateway.errors import GatewayError, as_gateway_error
from modelpact.needs.requests import RequestApi
from modelpact.wire.headers import RawHeaders
from modelpact.wire.messages import HttpRequest, HttpResponse

JSON: Final = ("content-type", "application/json")


class GatewayResponse(HttpResponse):
    """A response, and the verdict in its head: `none` if nothing was negotiated."""

    __slots__ = ("verdict",)

    def __init__(
        self,
        status: int,
        headers: RawHeaders | Iterable[tuple[str, str]],
        body: bytes | AsyncIterable[bytes],
        verdict: str,
    ) -> None:
        HttpResponse.__init__(self, status, headers, body)
        self.verdict = verdict


def error_response(api: RequestApi, error: Exception, request: HttpRequest | None = None) -> GatewayResponse:
    """Return the response to an exception, in the format of an API."""
    error = as_gateway_error(error, request)
    headers = [JSON, *error.headers]
    body = error_body(api, error)
    verdict = "none"
    if error.plan is not None:
        verdict = error.plan.verdict
        headers += error.plan.headers()
        body["error"]["modelpact"] = error.plan.data()
        if error.plan.action == "refuse":
            body["error"]["type"] = error.code
    if error.retry_after is not None:
        headers.append(("retry-after", str(max(1, round(error.retry_after)))))
    return GatewayResponse(error.status, headers, msgspec.json.encode(body), verdict)


def error_body(api: RequestApi, error: GatewayError) -> dict[str, Any]:
    """Return the body of an error response in the format of an API."""
    detail = ErrorBody(error.message, error.code, error.code, error.param)
    if api == "anthropic":
        return write_anthropic_error(detail, error.status)
    return write_openai_error(detail)

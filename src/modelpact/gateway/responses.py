"""Responses of the gateway, and its errors: what each exception means to the client.

Errors are written in the format of the client's API.
"""

import logging
from collections.abc import AsyncIterable, Iterable
from typing import Any, Final

import msgspec

from modelpact.conversation.anthropic.response import write_anthropic_error
from modelpact.conversation.openai_chat.response import write_openai_error
from modelpact.conversation.response import ErrorBody
from modelpact.gateway.plan.model_names import UnknownModel
from modelpact.gateway.plan.plan import HeaderTuples, Plan
from modelpact.ledger.errors import LedgerError, SettlementNotRecorded
from modelpact.needs.requests import RequestApi
from modelpact.vocabulary.errors import InputError, ModelpactError
from modelpact.wire.errors import HttpError
from modelpact.wire.headers import RawHeaders
from modelpact.wire.messages import HttpRequest, HttpResponse

JSON: Final = ("content-type", "application/json")
REFUSED: Final = "capability_not_provided"
UNTRANSLATABLE: Final = "cannot_carry"
_LOG: Final = logging.getLogger("modelpact.gateway")
_HTTP_CODES: Final = {404: "not_found", 405: "method_not_allowed"}
_NOT_SETTLED: Final = "the provider answered, but that could not be recorded: "
_NOT_SENT: Final = "the ledger is not available, so nothing was sent: "
_RULES: Final[tuple[tuple[type[Exception], int, str, str], ...]] = (
    (UnknownModel, 404, "model_not_found", ""),
    (InputError, 400, "invalid_request_error", ""),
    (SettlementNotRecorded, 503, "ledger_unavailable", _NOT_SETTLED),
    (LedgerError, 503, "ledger_unavailable", _NOT_SENT),
)
"""By exception: the status, the code and the start of the message. The first match counts."""


class GatewayError(ModelpactError):
    """A request cannot be served. The client gets the status, the code and the message."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str = "",
        retry_after: float | None = None,
        headers: HeaderTuples = (),
        plan: Plan | None = None,
    ) -> None:
        """Describe an error. The response includes `plan` if there is one."""
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.headers = headers
        self.plan = plan
        super().__init__(message)


def refusal(plan: Plan, event: str) -> GatewayError:
    """Return the error for a plan that refuses: the reasons, and a model that meets the needs.

    `event` is the id of the event that records the refusal.
    """
    diagnostic = plan.diagnostic
    assert diagnostic is not None
    target = diagnostic.target
    if diagnostic.untranslatable:
        code = UNTRANSLATABLE
        message = f"the API of {target} cannot express the request: {diagnostic.untranslatable}."
        message += " Nothing was sent."
        if diagnostic.would_help:
            message += f" It would be sent without these parts under {diagnostic.would_help[0]}."
    else:
        code = REFUSED
        reasons = [item.message.removeprefix(f"{target} ") for item in diagnostic.missing]
        message = f"{target}: {'; '.join(reasons)}. Nothing was sent."
        if diagnostic.suggestion:
            message += f" {diagnostic.suggestion} would do."
    return GatewayError(422, code, message, headers=(("modelpact-event", event),), plan=plan)


def as_gateway_error(error: Exception, request: HttpRequest | None) -> GatewayError:
    """Convert an exception to an error for the client.

    An unexpected exception is a defect of the gateway: it is logged with the request.
    """
    if isinstance(error, GatewayError):
        return error
    if isinstance(error, HttpError):
        code = _HTTP_CODES.get(error.status, "refused")
        return GatewayError(error.status, code, error.reason)
    for kind, status, code, prefix in _RULES:
        if isinstance(error, kind):
            return GatewayError(status, code, f"{prefix}{error}")
    where = "a request" if request is None else f"{request.method} {request.path}"
    _LOG.error("%s failed", where, exc_info=error)
    message = "the gateway failed at this request; its log has more"
    return GatewayError(500, "internal_error", message)


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

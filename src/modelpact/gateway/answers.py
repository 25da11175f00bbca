"""Answers that the gateway itself gives: errors and refusals, in the words of the client's API."""

from typing import Any, Final

import msgspec

from modelpact.conversation.answers import ErrorSaid, write_anthropic_error, write_openai_error
from modelpact.gateway.plan import HeaderPairs, Plan
from modelpact.needs.requests import RequestApi
from modelpact.wire import Outgoing

JSON: Final = ("content-type", "application/json")
REFUSED: Final = "capability_not_provided"


class GatewayError(Exception):
    """An answer other than the model's: its status, code and message."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str = "",
        retry_after: float | None = None,
        headers: HeaderPairs = (),
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.headers = headers
        super().__init__(message)


def error_body(api: RequestApi, error: GatewayError) -> dict[str, Any]:
    """Write an error as the client's API has them."""
    said = ErrorSaid(error.message, error.code, error.code, error.param)
    if api == "anthropic":
        return write_anthropic_error(said, error.status)
    return write_openai_error(said)


def error_answer(api: RequestApi, error: GatewayError) -> Outgoing:
    """Answer with an error."""
    headers = [JSON, *error.headers]
    if error.retry_after is not None:
        headers.append(("retry-after", str(max(1, round(error.retry_after)))))
    return Outgoing(error.status, headers, msgspec.json.encode(error_body(api, error)))


def refusal(api: RequestApi, plan: Plan, event: str) -> Outgoing:
    """Answer that the model cannot do it: why, who needs it, and what would do."""
    diagnostic = plan.diagnostic or {}
    missing = [one["capability"] for one in diagnostic.get("missing", [])]
    better = diagnostic.get("suggestion")
    hint = f"; {better} would do" if better else ""
    message = f"{plan.requested} does not have {', '.join(missing)}{hint}. Nothing was sent."
    body = error_body(api, GatewayError(422, REFUSED, message))
    body["error"]["type"] = REFUSED
    body["error"]["modelpact"] = plan.data()
    headers = (JSON, *plan.headers(), ("modelpact-event", event))
    return Outgoing(422, headers, msgspec.json.encode(body))

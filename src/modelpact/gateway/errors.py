"""Answers that the gateway itself gives: errors and refusals, in the words of the client's API."""

from collections.abc import AsyncIterable, Iterable
from typing import Any, Final

import msgspec

from modelpact.conversation.error_bodies import ErrorBody, write_anthropic_error, write_openai_error
from modelpact.gateway.plan.plan import HeaderPairs, Plan
from modelpact.needs.requests import RequestApi
from modelpact.wire import HttpResponse, RawHeaders

JSON: Final = ("content-type", "application/json")
REFUSED: Final = "capability_not_provided"


class GatewayResponse(HttpResponse):
    """An answer, and the verdict that its head tells; `none` where nothing was negotiated."""

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
        plan: Plan | None = None,
    ) -> None:
        """`plan` is told in full, where there is one."""
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.headers = headers
        self.plan = plan
        super().__init__(message)


def error_body(api: RequestApi, error: GatewayError) -> dict[str, Any]:
    """Write an error as the client's API has them."""
    said = ErrorBody(error.message, error.code, error.code, error.param)
    if api == "anthropic":
        return write_anthropic_error(said, error.status)
    return write_openai_error(said)


def error_answer(api: RequestApi, error: GatewayError) -> GatewayResponse:
    """Answer with an error."""
    headers = [JSON, *error.headers]
    body = error_body(api, error)
    if error.plan is not None:
        headers += error.plan.headers()
        body["error"]["modelpact"] = error.plan.data()
    if error.plan is not None and error.plan.how == "refuse":
        body["error"]["type"] = error.code
    if error.retry_after is not None:
        headers.append(("retry-after", str(max(1, round(error.retry_after)))))
    verdict = "none" if error.plan is None else error.plan.answer
    return GatewayResponse(error.status, headers, msgspec.json.encode(body), verdict)


def refusal(api: RequestApi, plan: Plan, event: str) -> GatewayResponse:
    """Answer that the model cannot do it: why, who needs it, and what would do."""
    diagnostic = plan.diagnostic or {}
    target = diagnostic.get("target")
    missing = [one["message"].removeprefix(f"{target} ") for one in diagnostic.get("missing", [])]
    better = diagnostic.get("suggestion")
    hint = f" {better} would do." if better else ""
    message = f"{target}: {'; '.join(missing)}. Nothing was sent.{hint}"
    told = GatewayError(422, REFUSED, message, headers=(("modelpact-event", event),), plan=plan)
    return error_answer(api, told)


def cannot_carry(plan: Plan, why: str, helps: list[str] | None = None) -> GatewayError:
    """Refuse what cannot be said in the provider's API."""
    diagnostic = {
        "target": plan.target,
        "missing": [],
        "cannotBeTold": why,
        "previous": None,
        "suggestion": None,
        "wouldHelp": helps or [],
    }
    refused = msgspec.structs.replace(plan, how="refuse", answer="no", diagnostic=diagnostic)
    hint = f" It would be sent all the same under {', '.join(helps)}." if helps else ""
    message = f"{plan.target} cannot be told: {why}. Nothing was sent.{hint}"
    return GatewayError(422, "cannot_carry", message, plan=refused)

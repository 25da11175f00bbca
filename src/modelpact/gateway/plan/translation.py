"""Translation: whether a request can be expressed in the provider's API, and what would be lost."""

from typing import Any, Final

import msgspec

from modelpact.conversation.anthropic import DEFAULT_MAX_TOKENS
from modelpact.conversation.codecs import CODECS, request_losses
from modelpact.conversation.fidelity import Loss
from modelpact.conversation.request import Request
from modelpact.gateway.plan.plan import Plan
from modelpact.gateway.plan.sizing import MIN_BYTES_PER_TOKEN
from modelpact.needs.requests import CACHE_MARKER, RequestApi
from modelpact.needs.token_estimate import measure_body, prompt_tokens
from modelpact.negotiation.verdict import Diagnostic

_ESTIMATE_MARGIN: Final = 1.25
"""By how much a prompt may be longer than its estimate."""


class Translation(msgspec.Struct, frozen=True):
    """A request in the conversation model, as it is sent to a provider."""

    plan: Plan
    """The plan of the request, with a token limit that this prompt leaves room for."""
    request: Request
    losses: tuple[Loss, ...] = ()
    """What the provider's API cannot express, and is left out."""


class UntranslatableRequestError(Exception):
    """A request cannot be expressed in the provider's API; `refusal` is the plan to refuse it."""

    def __init__(self, refusal: Plan) -> None:
        self.refusal = refusal
        super().__init__(refusal.target)


def translate_request(plan: Plan, api: RequestApi, raw: bytes, body: dict[str, Any]) -> Translation:
    """Translate a request to the conversation model, as its plan says.

    Raise `UntranslatableRequestError` where the provider's API cannot express it and the policy
    does not allow the loss, and `InputError` where the body is not a request of its API.
    """
    codec = CODECS.get(api)
    if codec is None:
        raise _untranslatable(plan, f"it does not speak the {api} API")
    plan = _with_room(plan, raw, body)
    request = codec.read_request(
        {name: value for name, value in body.items() if name not in plan.drops}
    )
    request = msgspec.structs.replace(request, model=plan.model, **dict(plan.added))
    losses = request_losses(plan.api, request)
    fatal = [
        loss
        for loss in losses
        if loss.fidelity == "unsupported"
        or not (plan.policy.lossy or _is_dropped_marker(plan, loss))
    ]
    if fatal:
        helps = all(loss.fidelity == "lossy" for loss in fatal)
        raise _untranslatable(plan, describe_losses(fatal), ("policy lossy",) if helps else ())
    return Translation(plan, request, losses)


def describe_losses(losses: "tuple[Loss, ...] | list[Loss]") -> str:
    """Say what an API cannot express, and where that stands in the request."""
    return "; ".join(f"{loss.path}: {loss.what}" for loss in losses)


def _with_room(plan: Plan, raw: bytes, body: dict[str, Any]) -> Plan:
    """Return the plan with an added token limit that fits beside the prompt."""
    if not plan.added or plan.context_window is None:
        return plan
    ((name, limit),) = plan.added
    if limit + len(raw) // MIN_BYTES_PER_TOKEN <= plan.context_window:
        return plan
    tokens = prompt_tokens(measure_body(body)) * _ESTIMATE_MARGIN
    room = max(plan.context_window - int(tokens), DEFAULT_MAX_TOKENS)
    return msgspec.structs.replace(plan, added=((name, min(limit, room)),)).with_head()


def _is_dropped_marker(plan: Plan, loss: Loss) -> bool:
    """Tell whether a loss is a cache marker that the plan drops anyway, wherever it stands."""
    _, marker = CACHE_MARKER
    return marker in plan.drops and loss.path.rpartition(".")[2] == marker


def _untranslatable(
    plan: Plan, problem: str, would_help: tuple[str, ...] = ()
) -> UntranslatableRequestError:
    diagnostic = Diagnostic(plan.target, (), untranslatable=problem, would_help=would_help)
    return UntranslatableRequestError(
        msgspec.structs.replace(plan, action="refuse", answer="no", diagnostic=diagnostic)
    )

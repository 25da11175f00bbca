"""Error codes: one table across the dialects. `docs/errors.md` is written from it."""

from typing import Final

import msgspec


class Code(msgspec.Struct, frozen=True):
    """A code that a program may see, what causes it, and what to do about it."""

    code: str
    where: str
    cause: str
    remedy: str


_POINT_OF_USE: Final = (
    (
        "MissingStreaming",
        "An answer was to be streamed, and the model does not stream.",
        "Ask for it whole, or switch.",
    ),
    (
        "MissingToolCalling",
        "The request has tools, and the model calls none.",
        "Ask without tools, or switch.",
    ),
    (
        "MissingStructuredOutput",
        "The request asks for JSON, and the model is not held to it.",
        "Ask without, turn emulation on, or switch.",
    ),
    (
        "MissingMultimodal",
        "A message has an image, audio, video or PDF that the model does not take.",
        "Send text, or switch.",
    ),
    (
        "MissingReasoning",
        "The request asks for reasoning, and the model has none of its own.",
        "Ask without, turn emulation on, or switch.",
    ),
    (
        "ContextWindowTooSmall",
        "The conversation is longer than the model's context window.",
        "Shorten it, or switch.",
    ),
    (
        "MissingPromptCaching",
        "The request marks what to cache, and the model caches no prompts.",
        "Ask without, or switch.",
    ),
)

CODES: Final[tuple[Code, ...]] = (
    Code(
        "ProviderCapability/MissingCapability",
        "`stud`: `negotiate --dialect stud`, a rejected switch",
        "A hard need is not met: unsupported, below its minimum, in conflict, or not known while "
        "policy `unknown` is `refuse`.",
        "Take the suggestion, choose another model, lower the need's level, or state what you know "
        "of the model in `modelpact.toml`.",
    ),
    Code(
        "preferred-unmet",
        "`stud`: a warning",
        "A preferred need is not met; the work runs without it.",
        "Nothing, or choose a model that has it.",
    ),
    Code(
        "probe-pending",
        "`stud`: a warning",
        "Only use will show whether the model can do it.",
        "Probe the model, or state in `modelpact.toml` what you know.",
    ),
    Code(
        "Subagent/ModelCapabilityMismatch",
        "`stud`: a session that is spawned",
        "The model chosen for a subagent lacks what its parent requires; nothing was sent.",
        "Choose another model for it, or let it run on its parent's.",
    ),
    *(
        Code(f"ProviderCapability/{name}", "`stud`: a turn, at the point of use", cause, remedy)
        for name, cause, remedy in _POINT_OF_USE
    ),
    Code(
        "Load/ContractVersionMismatch",
        "`stud`: an extension of a session, when it is loaded",
        "It was written for another version of the session contract. This is not about models.",
        "Use a version of the extension that was written for this contract.",
    ),
    Code(
        "Session/ModelNoLongerFits",
        "a session that was resumed",
        "Its model lacks what is required, as evidence, catalog and configuration have it now.",
        "Switch to a model that fits; all that was said is kept, and nothing is sent before.",
    ),
    Code(
        "Session/MissingKey",
        "a session that is opened, switched, spawned or resumed",
        "The model fits, but its provider's key is not where it should be; nothing has changed.",
        "Set the variable, or `api_key` under `[providers.NAME]`; or choose another provider.",
    ),
    Code(
        "Session/Unreachable",
        "a session that is opened, switched, spawned or resumed",
        "The model fits, but nothing leads to its provider; nothing has changed.",
        "Configure the provider as the message says, or choose another one.",
    ),
    Code(
        "Session/UnsupportedParams",
        "a session's turn",
        "Parameters do not apply on the model, and policy `unsupported_params` is `refuse`.",
        "Take them out (None in `/params`), switch models, or set the policy to `drop`.",
    ),
    Code(
        "Session/Busy",
        "a session's turn",
        "A turn is under way, and a session takes one at a time.",
        "Wait for it, or spawn another session.",
    ),
    Code(
        "Session/Closed",
        "a session",
        "It was closed in this process.",
        "Resume it.",
    ),
    Code(
        "Session/Moved",
        "a session",
        "Another process changed it meanwhile; nothing was written.",
        "Resume it, and go on from where it is.",
    ),
    Code(
        "Session/Unknown",
        "a session that is resumed",
        "No session of that name is in the store.",
        "Look at which there are, and at whether it is the right store.",
    ),
    Code(
        "Session/Unreadable",
        "a session that is resumed",
        "Its row in the store was edited, or is of another version.",
        "Begin a new session; its events stay in the ledger.",
    ),
    Code(
        "CAPABILITY_UNSUPPORTED",
        "`abp`: `negotiate --dialect abp`, on standard error",
        "At least one required capability is not in the manifest, is unsupported there, or is "
        "below its `min_support`.",
        "Choose a backend whose manifest has it, or accept `emulated`.",
    ),
    Code(
        "capability_not_provided",
        "`openwop`: a refused dispatch",
        "The active model lacks a required capability and no declared fallback could stand in.",
        "Declare a `fallbackModel` that has every required capability, or run on another model.",
    ),
    Code(
        "capability_not_provided",
        "the gateway, 422: a refused request",
        "The model lacks what the request or its workload needs; nothing was sent.",
        "Take the suggestion, declare a `fallback`, or allow what `wouldHelp` names.",
    ),
    Code(
        "cannot_carry",
        "the gateway, 422: a refused request",
        "The provider's API has no words for part of the request; nothing was sent.",
        "Leave that out, ask in the provider's own API, or allow `lossy` where that would help.",
    ),
    Code(
        "invalid_api_key",
        "the gateway, 401",
        "No key of this gateway was shown, or one that was revoked. Not about a provider's key.",
        "Make one with `modelpact keys create`, and set it as the client's API key.",
    ),
    Code(
        "model_not_allowed",
        "the gateway, 403",
        "The key is not for this model.",
        "Ask for one that it is for: `GET /v1/models` has them.",
    ),
    Code(
        "model_not_found",
        "the gateway, 404",
        "Nobody here has the model, its provider's key is missing, or there is no such workload.",
        "Write PROVIDER/MODEL, or do as the message says.",
    ),
    Code(
        "rate_limit_exceeded",
        "the gateway, 429",
        "The key has asked too often.",
        "Wait as long as `Retry-After` says.",
    ),
    Code(
        "overloaded",
        "the gateway, 429",
        "As many requests as may wait for a connection to the provider are waiting; not sent.",
        "Wait as long as `Retry-After` says, or raise `connections` under `[providers.NAME]`.",
    ),
    Code(
        "unreachable",
        "the gateway, 502",
        "No connection to the provider could be made.",
        "Look at its `base_url`, or declare `outage` in `fallback_on`.",
    ),
    Code(
        "timeout",
        "the gateway, 504",
        "The provider did not begin to answer, or stood still, for its `timeout`.",
        "Ask again, or raise `timeout` under `[providers.NAME]`.",
    ),
    Code(
        "insufficient_quota",
        "the gateway, 429",
        "The key has spent its budget; what is under way counts by its estimate.",
        "Wait for the next period, or make a key with another budget.",
    ),
    Code(
        "ledger_unavailable",
        "the gateway, 503",
        "The record could not be written: nothing was sent, or the answer is held back.",
        "Look at the store; then ask again.",
    ),
    Code(
        "exit 1",
        "command line",
        "The answer is no: it does not fit, was refused, or there are findings.",
        "Read the diagnosis on standard output.",
    ),
    Code(
        "exit 2",
        "command line",
        "The command or its input is wrong; standard error says what, where and what to do.",
        "Correct the call or the file.",
    ),
)


def codes_markdown() -> str:
    """Return the table of `docs/errors.md`."""
    lines = ["| code | where | cause | remedy |", "|---|---|---|---|"]
    lines += [f"| `{one.code}` | {one.where} | {one.cause} | {one.remedy} |" for one in CODES]
    return "\n".join(lines) + "\n"

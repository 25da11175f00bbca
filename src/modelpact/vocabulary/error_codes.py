"""The error codes of all dialects in one table. `docs/errors.md` is generated from it."""

from typing import Final

import msgspec


class ErrorCode(msgspec.Struct, frozen=True):
    """A code that a program may see, its cause, and what to do about it."""

    code: str
    where: str
    cause: str
    remedy: str


_POINT_OF_USE: Final = (
    (
        "MissingStreaming",
        "You asked for a stream, and the model does not stream.",
        "Ask for the whole answer, or switch models.",
    ),
    (
        "MissingToolCalling",
        "The request has tools, and the model cannot call tools.",
        "Send it without tools, or switch models.",
    ),
    (
        "MissingStructuredOutput",
        "The request asks for JSON, and the provider does not guarantee it for this model.",
        "Send it without, turn emulation on, or switch models.",
    ),
    (
        "MissingMultimodal",
        "A message has an image, audio, video or PDF that the model does not accept.",
        "Send text, or switch models.",
    ),
    (
        "MissingReasoning",
        "The request asks for reasoning, and the model has no native reasoning.",
        "Send it without, turn emulation on, or switch models.",
    ),
    (
        "ContextWindowTooSmall",
        "The conversation is longer than the model's context window.",
        "Shorten it, or switch models.",
    ),
    (
        "MissingPromptCaching",
        "The request marks what to cache, and the model has no prompt caching.",
        "Send it without, or switch models.",
    ),
)

CODES: Final[tuple[ErrorCode, ...]] = (
    ErrorCode(
        "ProviderCapability/MissingCapability",
        "`stud`: `negotiate --dialect stud`, a rejected switch",
        "A hard need is not met: unsupported, below its minimum, in conflict, or unknown while "
        "policy `unknown` is `refuse`.",
        "Take the suggestion, choose another model, lower the level of the need, or state what you "
        "know of the model in `modelpact.toml`.",
    ),
    ErrorCode(
        "preferred-unmet",
        "`stud`: a warning",
        "A preferred need is not met. The work runs without it.",
        "Nothing, or choose a model that meets it.",
    ),
    ErrorCode(
        "probe-pending",
        "`stud`: a warning",
        "It is not known whether the model can do it. The first use will show.",
        "Probe the model, or state what you know in `modelpact.toml`.",
    ),
    ErrorCode(
        "Subagent/ModelCapabilityMismatch",
        "`stud`: a session that is spawned",
        "The model chosen for a subagent lacks what its parent requires. Nothing was sent.",
        "Choose another model for it, or let it run on its parent's model.",
    ),
    *(
        ErrorCode(
            f"ProviderCapability/{name}", "`stud`: a turn, at the point of use", cause, remedy
        )
        for name, cause, remedy in _POINT_OF_USE
    ),
    ErrorCode(
        "Load/ContractVersionMismatch",
        "`stud`: an extension of a session, when it is loaded",
        "The extension was written for another version of the session contract. This is not about "
        "models.",
        "Use a version of the extension that was written for this contract.",
    ),
    ErrorCode(
        "Session/ModelNoLongerFits",
        "a session that was resumed",
        "Its model now lacks what is required, by the current evidence, catalog and configuration.",
        "Switch to a model that fits. The conversation is kept; nothing is sent before that.",
    ),
    ErrorCode(
        "Session/MissingKey",
        "a session that is opened, switched, spawned or resumed",
        "The model fits, but the key of its provider is missing. Nothing has changed.",
        "Set the variable, or `api_key` under `[providers.NAME]`; or choose another provider.",
    ),
    ErrorCode(
        "Session/Unreachable",
        "a session that is opened, switched, spawned or resumed",
        "The model fits, but there is no adapter or address for its provider. Nothing has changed.",
        "Configure the provider as the message says, or choose another one.",
    ),
    ErrorCode(
        "Session/UnsupportedParams",
        "a turn of a session",
        "Parameters do not apply on the model, and policy `unsupported_params` is `refuse`.",
        "Remove them (None in `/params`), switch models, or set the policy to `drop`.",
    ),
    ErrorCode(
        "Session/Busy",
        "a turn of a session",
        "Another turn is running. A session runs one turn at a time.",
        "Wait for it, or spawn another session.",
    ),
    ErrorCode(
        "Session/Closed",
        "a session",
        "The session was closed in this process.",
        "Resume it.",
    ),
    ErrorCode(
        "Session/Moved",
        "a session",
        "Another process changed the session meanwhile. Nothing was written.",
        "Resume it, and continue from its new state.",
    ),
    ErrorCode(
        "Session/Unknown",
        "a session that is resumed",
        "The store has no session with that name.",
        "List the sessions, and check that it is the right store.",
    ),
    ErrorCode(
        "Session/Unreadable",
        "a session that is resumed",
        "Its row in the store was edited, or was written by another version.",
        "Begin a new session. The events of the old one stay in the ledger.",
    ),
    ErrorCode(
        "CAPABILITY_UNSUPPORTED",
        "`abp`: `negotiate --dialect abp`, on standard error",
        "At least one required capability is not in the manifest, is unsupported there, or is "
        "below its `min_support`.",
        "Choose a backend whose manifest has it, or accept `emulated`.",
    ),
    ErrorCode(
        "capability_not_provided",
        "`openwop`: a refused dispatch",
        "The active model lacks a required capability, and no declared fallback could replace it.",
        "Declare a `fallbackModel` that has every required capability, or run on another model.",
    ),
    ErrorCode(
        "capability_not_provided",
        "the gateway, 422: a refused request",
        "The model lacks what the request or its workload needs. Nothing was sent.",
        "Take the suggestion, declare a `fallback`, or allow what `wouldHelp` names.",
    ),
    ErrorCode(
        "cannot_carry",
        "the gateway, 422: a refused request",
        "The provider's API cannot express a part of the request. Nothing was sent.",
        "Leave that part out, use the provider's own API, or allow `lossy` where that would help.",
    ),
    ErrorCode(
        "invalid_api_key",
        "the gateway, 401",
        "The request has no key of this gateway, or a revoked one. This is not about a provider's "
        "key.",
        "Create a key with `modelpact keys create`, and set it as the client's API key.",
    ),
    ErrorCode(
        "model_not_allowed",
        "the gateway, 403",
        "The key does not allow this model.",
        "Use a model that it allows: `GET /v1/models` lists them.",
    ),
    ErrorCode(
        "model_not_found",
        "the gateway, 404",
        "No configured provider has the model, its provider's key is missing, or there is no such "
        "workload.",
        "Write PROVIDER/MODEL, or do what the message says.",
    ),
    ErrorCode(
        "rate_limit_exceeded",
        "the gateway, 429",
        "The key has sent too many requests.",
        "Wait as long as `Retry-After` says.",
    ),
    ErrorCode(
        "overloaded",
        "the gateway, 429",
        "Too many requests are waiting for a connection to the provider. Nothing was sent.",
        "Wait as long as `Retry-After` says, or raise `connections` under `[providers.NAME]`.",
    ),
    ErrorCode(
        "unreachable",
        "the gateway, 502",
        "The gateway could not connect to the provider.",
        "Check its `base_url`, or declare `outage` in `fallback_on`.",
    ),
    ErrorCode(
        "timeout",
        "the gateway, 504",
        "The provider sent nothing for longer than its `timeout`.",
        "Try again, or raise `timeout` under `[providers.NAME]`.",
    ),
    ErrorCode(
        "insufficient_quota",
        "the gateway, 429",
        "The key has spent its budget. Requests in progress count by their estimate.",
        "Wait for the next period, or create a key with another budget.",
    ),
    ErrorCode(
        "ledger_unavailable",
        "the gateway, 503",
        "The record could not be written. Nothing was sent, or the answer is withheld.",
        "Check the store, then try again.",
    ),
    ErrorCode(
        "exit 1",
        "command line",
        "The answer is no: the model does not fit, the work was refused, or there are findings.",
        "Read the diagnosis on standard output.",
    ),
    ErrorCode(
        "exit 2",
        "command line",
        "The command or its input is wrong. Standard error says what, where and what to do.",
        "Correct the command or the file.",
    ),
)


def codes_markdown() -> str:
    """Return the table of `docs/errors.md`."""
    lines = ["| code | where | cause | remedy |", "|---|---|---|---|"]
    lines += [
        f"| `{entry.code}` | {entry.where} | {entry.cause} | {entry.remedy} |" for entry in CODES
    ]
    return "\n".join(lines) + "\n"

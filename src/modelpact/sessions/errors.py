"""The errors of sessions. Each has an axis: it failed when loading, or at run time."""

from typing import Any, ClassVar, Final

from modelpact.negotiation.stud import missing_json, stud_name
from modelpact.negotiation.verdict import Diagnostic, ParamAffected, Verdict
from modelpact.providers.models.credentials import MissingKey
from modelpact.vocabulary.errors import InputError, ModelpactError, brief
from modelpact.vocabulary.redaction import redact_text

MISSING_CAPABILITY: Final = "ProviderCapability/MissingCapability"
_POINT_OF_USE_CODES: Final = {
    "streaming": "ProviderCapability/MissingStreaming",
    "tool-calling": "ProviderCapability/MissingToolCalling",
    "structured-output": "ProviderCapability/MissingStructuredOutput",
    "json-object": "ProviderCapability/MissingStructuredOutput",
    "multimodal": "ProviderCapability/MissingMultimodal",
    "image-input": "ProviderCapability/MissingMultimodal",
    "audio-input": "ProviderCapability/MissingMultimodal",
    "video-input": "ProviderCapability/MissingMultimodal",
    "pdf-input": "ProviderCapability/MissingMultimodal",
    "reasoning": "ProviderCapability/MissingReasoning",
    "context-window": "ProviderCapability/ContextWindowTooSmall",
    "max-input": "ProviderCapability/ContextWindowTooSmall",
    "prompt-caching": "ProviderCapability/MissingPromptCaching",
}


class SessionError(ModelpactError):
    """Something that a session cannot do. `code` classifies it, `context` has the details."""

    axis: ClassVar[str] = "runtime"
    """`runtime`: what the model can do. `load`: the contract version of an extension."""

    def __init__(self, code: str, message: str, context: dict[str, Any]) -> None:
        self.code = code
        self.context = context
        super().__init__(message)


class SwitchRejected(SessionError):
    """A model does not meet the required set. The session has not changed.

    Opening a session, a switch, `attach` and `reload` raise it.
    """

    default_code: ClassVar[str] = MISSING_CAPABILITY

    def __init__(self, verdict: Verdict, diagnostic: Diagnostic, trigger: str) -> None:
        self.verdict = verdict
        self.diagnostic = diagnostic
        self.trigger = trigger
        context = {
            "target": diagnostic.target,
            "previous": diagnostic.previous,
            "trigger": trigger,
            "missing": missing_json(diagnostic.missing),
        }
        lacks = "; ".join(
            f"{missing.capability} {missing.message}, required by {', '.join(missing.required_by) or 'you'}"
            for missing in diagnostic.missing
        )
        parts = (
            f"runtime capability: {self._summary()}: {lacks}",
            self._consequence(),
            f"{diagnostic.suggestion} fits" if diagnostic.suggestion else "",
            self.evidence_hint,
        )
        super().__init__(self.default_code, "; ".join(filter(None, parts)), context)

    def _summary(self) -> str:
        return f"{self.trigger} rejected, {self.diagnostic.target} does not fit"

    def _consequence(self) -> str:
        return _stays(self.diagnostic)

    @property
    def evidence_hint(self) -> str:
        """How to drop the evidence that the rejection rests on; empty if there is none."""
        learned = [
            finding.capability
            for finding in self.verdict.missing
            if finding.claim.evidence is not None and finding.claim.evidence.layer == "evidence"
        ]
        if not learned:
            return ""
        return (
            f"a call or a probe showed what is known of {', '.join(learned)}: "
            f"`modelpact probe {self.verdict.target} --forget` drops it"
        )


class SpawnRejected(SwitchRejected):
    """The model of a subagent does not meet its required set. Nothing was sent."""

    default_code = "Subagent/ModelCapabilityMismatch"


class NoLongerFits(SwitchRejected):
    """The model of a resumed session no longer meets the required set. Nothing is sent.

    The session keeps its messages, and goes on once you switch to a model that fits.
    """

    default_code = "Session/ModelNoLongerFits"

    def _summary(self) -> str:
        return f"the session was resumed, and {self.diagnostic.target} does not fit any more"

    def _consequence(self) -> str:
        return "nothing is sent until a model that fits is chosen, and nothing is lost"


class TargetUnreachable(SessionError, InputError):
    """A model fits, but its provider cannot be called. The session has not changed."""

    default_code: ClassVar[str] = "Session/Unreachable"

    def __init__(self, diagnostic: Diagnostic, trigger: str, cause: ModelpactError) -> None:
        self.diagnostic = diagnostic
        self.trigger = trigger
        context = {
            "target": diagnostic.target,
            "previous": diagnostic.previous,
            "trigger": trigger,
            "problem": redact_text(str(cause)),
        }
        message = f"{trigger} rejected, {diagnostic.target} cannot be called: {context['problem']}"
        if consequence := _stays(diagnostic):
            message += f"; {consequence}"
        super().__init__(self.default_code, message, context)


class KeyMissing(TargetUnreachable, MissingKey):
    """A model fits, but its provider's API key is missing. The session has not changed."""

    default_code = "Session/MissingKey"


def _stays(diagnostic: Diagnostic) -> str:
    return f"the session stays on {diagnostic.previous} as it was" if diagnostic.previous else ""


class CapabilityMissing(SessionError):
    """A request used a capability that the model does not have."""

    def __init__(self, target: str, capability: str, detail: str, param: str = "") -> None:
        self.capability = capability
        self.param = param
        """The parameter that uses the capability, if one does."""
        context = {"target": target, "capability": stud_name(capability), "detail": detail}
        code = _POINT_OF_USE_CODES.get(capability, MISSING_CAPABILITY)
        without = f"take {param} out of the parameters" if param else "ask without it"
        message = (
            f"runtime capability: {target} cannot be asked this: {capability}: {detail}; "
            f"switch to a model that has it, or {without}"
        )
        super().__init__(code, message, context)


def describe_param(param: ParamAffected) -> str:
    """Say which parameter is set, in which layer, and why it does not apply."""
    path = ".".join(param.param_path)
    return f"{path}={brief(param.current_value)} (from {param.source_layer}): {param.reason}"


class ParamsRefused(SessionError):
    """Parameters do not apply on the model, and the policy refuses them. Nothing was sent.

    `summary` lists them with their layers and reasons. The message adds what to do in Python.
    """

    def __init__(self, target: str, affected: tuple[ParamAffected, ...]) -> None:
        self.affected = affected
        self.names = tuple(dict.fromkeys(param.param_path[0] for param in affected))
        listed = [
            {"paramPath": list(param.param_path), "reason": param.reason, "sourceLayer": param.source_layer}
            for param in affected
        ]
        described = "; ".join(map(describe_param, affected))
        self.summary = f"nothing was sent, {target} does not take what is set: {described}"
        unset = ", ".join(f'"{name}": None' for name in self.names)
        message = (
            f"runtime capability: {self.summary}; remove them with set_params({{{unset}}}), "
            'switch models, or set unsupported_params = "drop" in the policy to send requests '
            "without them"
        )
        super().__init__("Session/UnsupportedParams", message, {"target": target, "params": listed})


class LoadError(SessionError, InputError):
    """An extension was written for another version of the contract. It was not loaded."""

    axis = "load"

    def __init__(self, extension: str, wanted: str, contract: str) -> None:
        message = (
            f"load-time contract version: {extension} is for contract {wanted}, this is "
            f"{contract}; use a version of it that was written for this contract; "
            "no other model would change that"
        )
        context = {"extension": extension, "wanted": wanted, "contract": contract}
        super().__init__("Load/ContractVersionMismatch", message, context)


class SessionBusy(SessionError):
    """A turn is running. A session runs one at a time."""

    def __init__(self, session: str) -> None:
        super().__init__("Session/Busy", f"session {session}: a turn is running; wait for it to end", {})


class SessionClosed(SessionError):
    """The session was closed in this process. It can be resumed."""

    def __init__(self, session: str) -> None:
        message = f"session {session} is closed; Session.resume({session!r}, …) takes it up again"
        super().__init__("Session/Closed", message, {"session": session})


class SessionMoved(SessionError):
    """Another process changed the session in the store. Nothing was written."""

    def __init__(self, session: str) -> None:
        message = (
            f"session {session} was changed elsewhere, nothing was written here; resume it to go on from where it is"
        )
        super().__init__("Session/Moved", message, {"session": session})


class UnreadableSession(SessionError, InputError):
    """A session's row in the store cannot be read."""

    def __init__(self, session: str, problem: str) -> None:
        message = (
            f"session {session} cannot be read: its row in the store was edited, or is of another "
            f"version ({redact_text(problem)[:200]}); begin a new one"
        )
        super().__init__("Session/Unreadable", message, {"session": session})


class UnknownSession(SessionError, InputError):
    """The store has no session with that id."""

    def __init__(self, session: object) -> None:
        super().__init__("Session/Unknown", f"no session {session!r:.80} in this store", {"session": str(session)})

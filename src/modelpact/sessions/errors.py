"""What sessions raise. Each says on which axis it failed: when loading, or at run time."""

from typing import Any, ClassVar, Final

from modelpact.negotiation.stud import wire
from modelpact.negotiation.verdict import Diagnostic, ParamAffected, Verdict
from modelpact.providers.models.credentials import MissingKey
from modelpact.vocabulary.errors import InputError, ModelpactError, brief
from modelpact.vocabulary.redaction import redact_text

MISSING: Final = "ProviderCapability/MissingCapability"
_POINT_OF_USE: Final = {
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
    """Something that a session cannot do; `code` says what, `context` holds the particulars."""

    axis: ClassVar[str] = "runtime"
    """`runtime`: what a model can do; `load`: which contract an extension was written for."""

    def __init__(self, code: str, message: str, context: dict[str, Any]) -> None:
        self.code = code
        self.context = context
        super().__init__(message)


class SwitchRejected(SessionError):
    """A model does not have what the session requires; the session is as it was before."""

    code_of: ClassVar[str] = MISSING

    def __init__(self, verdict: Verdict, diagnostic: Diagnostic, trigger: str) -> None:
        self.verdict = verdict
        self.diagnostic = diagnostic
        self.trigger = trigger
        missing = [
            {
                "capability": wire(one.capability),
                "requiredBy": list(one.required_by),
                "reason": one.reason,
            }
            for one in diagnostic.missing
        ]
        lacks = "; ".join(
            f"{one.capability} {one.message}, required by {', '.join(one.required_by) or 'you'}"
            for one in diagnostic.missing
        )
        context = {
            "target": diagnostic.target,
            "previous": diagnostic.previous,
            "trigger": trigger,
            "missing": missing,
        }
        message = f"runtime capability: {self._head(diagnostic, trigger)}: {lacks}"
        message += f"; {self._after(diagnostic)}" if self._after(diagnostic) else ""
        if diagnostic.suggestion:
            message += f"; {diagnostic.suggestion} would do"
        if self.evidence_hint:
            message += f"; {self.evidence_hint}"
        super().__init__(self.code_of, message, context)

    @staticmethod
    def _head(diagnostic: Diagnostic, trigger: str) -> str:
        return f"{trigger} rejected, {diagnostic.target} does not fit"

    @staticmethod
    def _after(diagnostic: Diagnostic) -> str:
        return _stays(diagnostic)

    @property
    def evidence_hint(self) -> str:
        """How to drop what use or a probe showed, where the refusal rests on that."""
        shown = [
            one.capability
            for one in self.verdict.missing
            if one.claim.evidence is not None and one.claim.evidence.layer == "evidence"
        ]
        if not shown:
            return ""
        return (
            f"what is known of {', '.join(shown)} was seen in use: "
            f"`modelpact probe {self.verdict.target} --forget` drops it"
        )


class SpawnRejected(SwitchRejected):
    """The model chosen for a subagent lacks what its parent requires; nothing was sent."""

    code_of = "Subagent/ModelCapabilityMismatch"


class NoLongerFits(SwitchRejected):
    """The model of a resumed session lacks what is required, as it is known now; nothing is sent.

    The session is there with all that was said: a model that fits lets it go on.
    """

    code_of = "Session/ModelNoLongerFits"

    @staticmethod
    def _head(diagnostic: Diagnostic, trigger: str) -> str:  # noqa: ARG004
        return f"the session was resumed, and {diagnostic.target} does not fit any more"

    @staticmethod
    def _after(diagnostic: Diagnostic) -> str:  # noqa: ARG004
        return "nothing is sent until a model that fits is chosen, and nothing is lost"


class TargetUnreachable(SessionError, InputError):
    """A model fits, and there is no way to its provider; the session is as it was before."""

    code_of: ClassVar[str] = "Session/Unreachable"

    def __init__(self, diagnostic: Diagnostic, trigger: str, cause: ModelpactError) -> None:
        self.diagnostic = diagnostic
        self.trigger = trigger
        context = {
            "target": diagnostic.target,
            "previous": diagnostic.previous,
            "trigger": trigger,
            "problem": redact_text(str(cause)),
        }
        message = (
            f"{trigger} rejected, there is no way to {diagnostic.target}: {context['problem']}"
        )
        message += f"; {_stays(diagnostic)}" if _stays(diagnostic) else ""
        super().__init__(self.code_of, message, context)


class KeyMissing(TargetUnreachable, MissingKey):
    """A model fits, and its provider's key is not where it should be; nothing has changed."""

    code_of = "Session/MissingKey"


def _stays(diagnostic: Diagnostic) -> str:
    return f"the session stays on {diagnostic.previous} as it was" if diagnostic.previous else ""


class CapabilityMissing(SessionError):
    """A capability was used that the model turned out not to have, or is known not to have."""

    def __init__(self, target: str, capability: str, detail: str, param: str = "") -> None:
        self.capability = capability
        self.param = param
        """The parameter that asks for it, where one does."""
        context = {"target": target, "capability": wire(capability), "detail": detail}
        code = _POINT_OF_USE.get(capability, MISSING)
        without = f"take {param} out of the parameters" if param else "ask without it"
        message = (
            f"runtime capability: {target} cannot be asked this: {capability}: {detail}; "
            f"switch to a model that has it, or {without}"
        )
        super().__init__(code, message, context)


def param_told(one: ParamAffected) -> str:
    """Say what is set, where, and why it does not apply."""
    path = ".".join(one.param_path)
    return f"{path}={brief(one.current_value)} (from {one.source_layer}): {one.reason}"


class ParamsRefused(SessionError):
    """Parameters that do not apply on the model, where policy says to refuse; nothing was sent.

    `summary` says which, from which layer and why; the message also what to do in Python.
    """

    def __init__(self, target: str, affected: tuple[ParamAffected, ...]) -> None:
        self.affected = affected
        self.names = tuple(dict.fromkeys(one.param_path[0] for one in affected))
        listed = [
            {
                "paramPath": list(one.param_path),
                "reason": one.reason,
                "sourceLayer": one.source_layer,
            }
            for one in affected
        ]
        told = "; ".join(map(param_told, affected))
        self.summary = f"nothing was sent, {target} does not take what is set: {told}"
        taken_out = ", ".join(f'"{name}": None' for name in self.names)
        message = (
            f"runtime capability: {self.summary}; take out with set_params({{{taken_out}}}), "
            'switch models, or have such parameters left out and told: unsupported_params = "drop" '
            "in the policy"
        )
        super().__init__("Session/UnsupportedParams", message, {"target": target, "params": listed})


class LoadError(SessionError, InputError):
    """An extension was written for another version of the contract; it was not loaded."""

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
    """A turn is under way: a session takes one at a time."""

    def __init__(self, session: str) -> None:
        super().__init__(
            "Session/Busy", f"session {session}: wait for the turn that is under way", {}
        )


class SessionClosed(SessionError):
    """The session was closed here; it can be resumed."""

    def __init__(self, session: str) -> None:
        message = f"session {session} is closed; Session.resume({session!r}, …) takes it up again"
        super().__init__("Session/Closed", message, {"session": session})


class SessionMoved(SessionError):
    """Somebody else changed the session in the store meanwhile; nothing was written."""

    def __init__(self, session: str) -> None:
        message = (
            f"session {session} was changed elsewhere, nothing was written here; "
            "resume it to go on from where it is"
        )
        super().__init__("Session/Moved", message, {"session": session})


class UnreadableSession(SessionError, InputError):
    """A session's row in the store is not what was written there."""

    def __init__(self, session: str, problem: str) -> None:
        message = (
            f"session {session} cannot be read: its row in the store was edited, or is of another "
            f"version ({redact_text(problem)[:200]}); begin a new one"
        )
        super().__init__("Session/Unreadable", message, {"session": session})


class UnknownSession(SessionError, InputError):
    """No session of that name is in the store."""

    def __init__(self, session: object) -> None:
        super().__init__(
            "Session/Unknown",
            f"no session {session!r:.80} in this store",
            {"session": str(session)},
        )

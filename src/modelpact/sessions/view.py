"""What a session says of itself: its model, what is required of it, what was said."""

from typing import Any

from modelpact.conversation.message import Message
from modelpact.needs.need import Needs
from modelpact.negotiation.parameters import (
    ParamFinding,
    effective_params,
    negotiate_parameters,
    params_affected,
)
from modelpact.negotiation.verdict import ParamAffected, Policy, Verdict
from modelpact.sessions import store as rows
from modelpact.sessions.conversation_log import ConversationLog
from modelpact.sessions.core import Core
from modelpact.sessions.errors import SessionError
from modelpact.sessions.extensions import ContextProvider, Hook, SecurityMode, StateMachine
from modelpact.sessions.store import TranscriptEntry


class View:
    """A session as it is; nothing here changes it."""

    def __init__(self, core: Core, talk: ConversationLog) -> None:
        self._core = core
        self._talk = talk

    @property
    def id(self) -> str:
        """The session's name."""
        return self._core.id

    @property
    def envelope(self) -> str:
        """The envelope of its events: `session/ID`."""
        return self._core.envelope

    @property
    def target(self) -> str:
        """The `provider/model` in use."""
        return self._core.standing.state.target

    @property
    def needs(self) -> Needs:
        """The required set; each need says who requires it."""
        return self._core.standing.needs

    @property
    def refusal(self) -> SessionError | None:
        """Why the model of a resumed session is sent nothing, or None."""
        return self._core.refusal

    @property
    def params(self) -> dict[str, Any]:
        """The parameters that hold: `/params` over `launch` over `defaultParams`."""
        return effective_params(self._core.standing.state.layers)

    @property
    def layers(self) -> dict[str, dict[str, Any]]:
        """The parameters by layer."""
        return {name: dict(held) for name, held in self._core.standing.state.layers.items()}

    @property
    def params_affected(self) -> tuple[ParamAffected, ...]:
        """The parameters that do not apply on the model in use."""
        resolution = self._core.knowledge.catalog().resolve(*self.target.split("/", 1))
        return params_affected(self._core.standing.state.layers, resolution)

    @property
    def params_unknown(self) -> tuple[ParamFinding, ...]:
        """The parameters that are sent though nobody knows whether they apply on the model."""
        resolution = self._core.knowledge.catalog().resolve(*self.target.split("/", 1))
        found = negotiate_parameters(self.params, resolution)
        return tuple(one for one in found if one.action == "unknown")

    @property
    def machine(self) -> StateMachine | None:
        """The attached state machine."""
        return self._core.standing.state.machine

    @property
    def context_providers(self) -> tuple[ContextProvider, ...]:
        """The active context providers."""
        return self._core.standing.state.context_providers

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The active hooks."""
        return self._core.standing.state.hooks

    @property
    def security(self) -> SecurityMode:
        """The security mode."""
        return self._core.standing.state.security

    @property
    def policy(self) -> Policy:
        """What to do about what is not known or not there."""
        return self._core.standing.state.policy

    @property
    def parent(self) -> str:
        """The session that spawned this one, or nothing."""
        return self._core.standing.state.parent

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was said and answered; this is what a model is sent with the next question."""
        return self._talk.history.messages

    @property
    def unanswered(self) -> tuple[Message, ...]:
        """Messages that got no answer: the call failed, or the process ended. Kept, not sent."""
        return self._talk.history.unanswered

    @property
    def transcript(self) -> tuple[TranscriptEntry, ...]:
        """Everything that was said, in order, unanswered messages in their places."""
        return rows.load_transcript(self._core.ledger, self.id)

    def fit(self, target: str, needs: Needs | None = None) -> Verdict:
        """Say how a model would fit the required set, or other needs; nothing is recorded."""
        wanted = self._core.knowledge.target(target, self.target.partition("/")[0])
        required = self.needs if needs is None else needs
        return self._core.knowledge.judge(required, wanted, self.policy).verdict

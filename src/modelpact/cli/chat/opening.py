"""Opens a chat's session, or resumes it."""

import secrets

import msgspec

from modelpact.cli.chat.holding import SessionHold
from modelpact.configuration import Configuration
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger.ledger import Ledger
from modelpact.needs.need import Needs
from modelpact.providers.contract import profile_in_force
from modelpact.providers.runtime.runtime import Runtime
from modelpact.sessions import (
    Session,
    first_model,
    list_sessions,
)
from modelpact.sessions.loop import run_sync
from modelpact.sessions.store import SessionStore
from modelpact.vocabulary.errors import InputError


class Opened(msgspec.Struct, frozen=True):
    """A session, the models that it calls, and the hold that this process has on it."""

    session: Session
    models: ModelCaller
    hold: SessionHold

    def close(self) -> None:
        """Close the session here, and let others talk in it."""
        try:
            self.session.close()
        finally:
            self.hold.release()


class Opener:
    """Opens sessions on one ledger, under one configuration and the same needs."""

    def __init__(self, ledger: Ledger, configuration: Configuration, needs: Needs) -> None:
        self.ledger = ledger
        self.configuration = configuration
        self.needs = needs

    def open(self, target: str | None = None) -> Opened:
        """Open a new session, by default on the first model that can be called."""
        name = secrets.token_hex(4)
        models = self._models(name)
        hold = SessionHold(self.ledger, name)
        try:
            session = Session.open(
                target or first_model(models),
                ledger=self.ledger,
                models=models,
                policy=self.configuration.policy,
                needs=self.needs,
                id=name,
            )
        except BaseException:
            hold.release()
            raise
        return Opened(session, models, hold)

    def resume(self, name: str) -> Opened:
        """Take a session up again, by default the one that was used last.

        A call that was under way when its process was killed is recorded as interrupted; one of a
        process that lives is let be, and so is its session.
        """
        name = name or self._last()
        models = self._models(name)
        SessionStore(self.ledger, name).load_state()  # one that there is not is not held
        hold = SessionHold(self.ledger, name)
        try:
            session = Session.resume(name, ledger=self.ledger, models=models)
            run_sync(models.runtime.recover())
        except BaseException:
            hold.release()
            raise
        return Opened(session, models, hold)

    def _last(self) -> str:
        for one in list_sessions(self.ledger):
            if one.readable and not one.parent:
                return one.id
        raise InputError("there is no session to resume yet: leave --resume out to begin one")

    def _models(self, session: str) -> ModelCaller:
        runtime = Runtime(
            self.ledger,
            name=f"chat/{session}",
            profile=profile_in_force(self.configuration),
            plain_http=frozenset(self.configuration.contract.plain_http),
        )
        return ModelCaller(runtime, configuration=self.configuration)

"""Opens and resumes the sessions of a chat. One process at a time may use a session."""

import secrets

import msgspec

from modelpact.cli.runtime import make_runtime
from modelpact.configuration import Configuration
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger.errors import NameTaken
from modelpact.ledger.ledger import Ledger
from modelpact.ledger.stores.base import Lease
from modelpact.needs.need import Needs
from modelpact.sessions import Session, first_model, list_sessions
from modelpact.sessions.loop import run_sync
from modelpact.sessions.store import SessionStore
from modelpact.vocabulary.errors import InputError


class OpenElsewhere(InputError):
    """Another process uses the session."""

    def __init__(self, session: str) -> None:
        super().__init__(
            f"session {session} is open in another process: leave it there first; "
            f"`modelpact audit show session/{session}` reads it meanwhile"
        )


class OpenSession(msgspec.Struct, frozen=True):
    """A session, the models that it calls, and the lease that keeps other processes out."""

    session: Session
    models: ModelCaller
    lease: Lease

    def check_lease(self) -> None:
        """Raise if another process has taken the session, after this one lost its database."""
        if not self.lease.is_held():
            raise OpenElsewhere(self.session.id)

    def close(self) -> None:
        """Close the session in this process, and let others use it."""
        try:
            self.session.close()
        finally:
            self.lease.release()


class SessionOpener:
    """Opens sessions on one ledger, with one configuration and the same needs."""

    def __init__(self, ledger: Ledger, configuration: Configuration, needs: Needs) -> None:
        self.ledger = ledger
        self.configuration = configuration
        self.needs = needs

    def open(self, target: str | None = None) -> OpenSession:
        """Open a new session, by default on the first model that can be called."""
        session_id = secrets.token_hex(4)
        models = self._models(session_id)
        lease = lease_session(self.ledger, session_id)
        try:
            session = Session.open(
                target or first_model(models),
                ledger=self.ledger,
                models=models,
                policy=self.configuration.policy,
                needs=self.needs,
                id=session_id,
            )
        except BaseException:
            lease.release()
            raise
        return OpenSession(session, models, lease)

    def resume(self, session_id: str) -> OpenSession:
        """Resume a session, by default the one that was used last.

        Calls that were running when its process was killed are recorded as interrupted. The lease
        makes sure that no other process is still waiting for them.
        """
        session_id = session_id or self._last_used()
        models = self._models(session_id)
        SessionStore(self.ledger, session_id).load_state()  # raises if there is no such session
        lease = lease_session(self.ledger, session_id)
        try:
            session = Session.resume(session_id, ledger=self.ledger, models=models)
            run_sync(models.runtime.recover())
        except BaseException:
            lease.release()
            raise
        return OpenSession(session, models, lease)

    def _last_used(self) -> str:
        for summary in list_sessions(self.ledger):
            if summary.readable and not summary.parent:
                return summary.id
        raise InputError("there is no session to resume yet: leave out --resume to start one")

    def _models(self, session_id: str) -> ModelCaller:
        runtime = make_runtime(self.ledger, self.configuration, f"chat/{session_id}")
        return ModelCaller(runtime, configuration=self.configuration)


def lease_session(ledger: Ledger, session_id: str) -> Lease:
    """Take the lease of a session; raise `OpenElsewhere` if another process has it."""
    try:
        return ledger.store.lease(f"session/{session_id}")
    except NameTaken:
        raise OpenElsewhere(session_id) from None

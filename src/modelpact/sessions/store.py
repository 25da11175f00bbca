"""The state of a session, and its rows in the ledger's tables `sessions` and `session_messages`."""

from typing import Any, Final

import msgspec

from modelpact.conversation.message import Message
from modelpact.ledger.ledger import Ledger, Transaction
from modelpact.ledger.reader import LedgerReader
from modelpact.needs.need import Need, Needs
from modelpact.negotiation.verdict import Policy
from modelpact.sessions.errors import SessionMoved, UnknownSession, UnreadableSession
from modelpact.sessions.extensions import ContextProvider, Hook, SecurityMode, StateMachine, required_set
from modelpact.vocabulary.errors import InputError, ModelpactError


class SessionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything about a session that a trigger may change. It is replaced as a whole."""

    target: str
    layers: dict[str, dict[str, Any]] = {}
    """The parameters by layer."""
    machine: StateMachine | None = None
    context_providers: tuple[ContextProvider, ...] = ()
    hooks: tuple[Hook, ...] = ()
    security: SecurityMode = SecurityMode()
    policy: Policy = Policy()
    inherited: tuple[Need, ...] = ()
    """The needs that `Session.open` was called with, or those of the parent session."""
    parent: str = ""
    choices: dict[str, str] = {}
    """The model last used at each provider."""

    @property
    def provider(self) -> str:
        """The provider of the model in use."""
        return self.target.partition("/")[0]

    def required(self) -> Needs:
        """Compute the required set."""
        return required_set(self.machine, self.context_providers, self.hooks, self.security, self.inherited)

    def with_target(self, target: str) -> "SessionState":
        """Return the state with another model in use."""
        provider, _, model = target.partition("/")
        return msgspec.structs.replace(self, target=target, choices={**self.choices, provider: model})


class CommittedState(msgspec.Struct, frozen=True):
    """The state in force, its required set, and the event that committed it."""

    state: SessionState
    needs: Needs
    event: str
    revision: int


class History(msgspec.Struct, frozen=True):
    """The messages of a session: those of answered turns, and those without an answer."""

    messages: tuple[Message, ...] = ()
    unanswered: tuple[Message, ...] = ()
    rows: int = 0
    turns: int = 0

    def with_messages(self, messages: tuple[Message, ...]) -> "History":
        """Return the history after a turn started with these messages."""
        return History(self.messages, (*self.unanswered, *messages), self.rows + len(messages), self.turns + 1)

    def with_response(self, messages: tuple[Message, ...], response: Message) -> "History":
        """Return the history after the model responded to the turn with these messages."""
        return History(
            (*self.messages, *messages, response),
            self.unanswered[: len(self.unanswered) - len(messages)],
            self.rows + 1,
            self.turns,
        )


class TranscriptEntry(msgspec.Struct, frozen=True):
    """A message of a session, its turn, and whether that turn was answered."""

    turn: int
    answered: bool
    message: Message


class SessionSummary(msgspec.Struct, frozen=True):
    """A session in the store. Times are in nanoseconds since 1970."""

    id: str
    target: str
    parent: str
    messages: int
    created: int
    updated: int
    readable: bool = True


_STATE: Final = msgspec.json.Decoder(SessionState)
_MESSAGE: Final = msgspec.json.Decoder(Message)
_encode: Final = msgspec.json.Encoder().encode


class SessionStore:
    """The rows of one session, and the envelope of its events.

    Another process may change the same session. The store remembers the events that committed the
    states it has written or read, and raises `SessionMoved` rather than write over another state.
    """

    def __init__(self, ledger: Ledger, id: str) -> None:
        self.ledger = ledger
        self.id = id
        self.envelope = f"session/{id}"
        self._known_events: set[str] = set()

    def load_state(self) -> CommittedState:
        """Return the state that was last committed."""
        sql = "SELECT state, event, revision FROM sessions WHERE id = ?"
        rows = self.ledger.read(sql, (self.id,))
        if not rows:
            raise UnknownSession(self.id)
        text, event, revision = rows[0]
        state = _read_state(self.id, text)
        self._known_events.add(event)
        return CommittedState(state, state.required(), event, revision)

    def load_history(self) -> History:
        """Return the messages of the session, those without an answer apart."""
        entries = self.load_transcript()
        return History(
            tuple(entry.message for entry in entries if entry.answered),
            tuple(entry.message for entry in entries if not entry.answered),
            len(entries),
            max((entry.turn for entry in entries), default=0),
        )

    def load_transcript(self) -> tuple[TranscriptEntry, ...]:
        """Return all messages of the session in order."""
        rows = self.ledger.read(
            "SELECT turn, answered, message FROM session_messages WHERE session = ? ORDER BY number", (self.id,)
        )
        return tuple(
            TranscriptEntry(turn, bool(answered), _MESSAGE.decode(message)) for turn, answered, message in rows
        )

    def insert(self, tx: Transaction, committed: CommittedState) -> None:
        """Insert the session. Raise if its id is taken."""
        if tx.execute("SELECT 1 FROM sessions WHERE id = ?", (self.id,)):
            raise InputError(f"there is a session {self.id} already: resume it, or choose another id")
        state = _encode(committed.state).decode()
        tx.execute(
            "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)",
            (self.id, self.envelope, state, committed.event, committed.revision, tx.now, tx.now),
        )
        self._known_events.add(committed.event)

    def replace(self, tx: Transaction, committed: CommittedState) -> None:
        """Replace the state. Raise `SessionMoved` if another process has replaced it meanwhile."""
        changed = tx.execute_update(
            "UPDATE sessions SET state = ?, event = ?, revision = ?, updated = ? WHERE id = ? AND revision = ?",
            (
                _encode(committed.state).decode(),
                committed.event,
                committed.revision,
                tx.now,
                self.id,
                committed.revision - 1,
            ),
        )
        if not changed:
            raise SessionMoved(self.id)
        self._known_events.add(committed.event)

    def add_messages(self, tx: Transaction, history: History, messages: tuple[Message, ...]) -> None:
        """Add the messages of a new turn, as unanswered. `history` is the one before them."""
        self._check_unmoved(tx, history)
        self._add(tx, history.rows, history.turns + 1, 0, messages)

    def add_response(self, tx: Transaction, history: History, message: Message) -> None:
        """Add the response to the current turn. `history` has the messages of that turn."""
        self._check_unmoved(tx, history)
        tx.execute("UPDATE session_messages SET answered = 1 WHERE session = ? AND turn = ?", (self.id, history.turns))
        self._add(tx, history.rows, history.turns, 1, (message,))

    def _check_unmoved(self, tx: Transaction, history: History) -> None:
        """Raise if another process has changed the state or added messages."""
        rows = tx.execute(
            "SELECT event, (SELECT COUNT(*) FROM session_messages m WHERE m.session = s.id) "
            "FROM sessions s WHERE id = ?",
            (self.id,),
        )
        if not rows or rows[0][0] not in self._known_events or rows[0][1] != history.rows:
            raise SessionMoved(self.id)

    def _add(self, tx: Transaction, after: int, turn: int, answered: int, messages: tuple[Message, ...]) -> None:
        for number, message in enumerate(messages, after + 1):
            tx.execute(
                "INSERT INTO session_messages VALUES (?, ?, ?, ?, ?)",
                (self.id, number, turn, answered, _encode(message).decode()),
            )
        tx.execute("UPDATE sessions SET updated = ? WHERE id = ?", (tx.now, self.id))


def list_sessions(reader: LedgerReader, limit: int = 20) -> list[SessionSummary]:
    """Return the sessions of a store, the last used first."""
    rows = reader.read(
        "SELECT id, state, (SELECT COUNT(*) FROM session_messages m WHERE m.session = s.id), "
        "created, updated FROM sessions s ORDER BY updated DESC, id LIMIT ?",
        (limit,),
    )
    summaries = []
    for id, text, messages, created, updated in rows:
        try:
            state = _read_state(id, text)
        except UnreadableSession:  # listed all the same, so that you can find it
            summaries.append(SessionSummary(id, "", "", messages, created, updated, readable=False))
            continue
        summary = SessionSummary(id, state.target, state.parent, messages, created, updated)
        summaries.append(summary)
    return summaries


def _read_state(session: str, text: str) -> SessionState:
    try:
        return _STATE.decode(text)
    except (msgspec.DecodeError, ModelpactError) as error:
        raise UnreadableSession(session, str(error)) from None

"""What a session is, and its rows in the store."""

from collections.abc import Collection
from typing import Any, Final

import msgspec

from modelpact.conversation.message import Message
from modelpact.ledger.ledger import Transaction
from modelpact.ledger.reader import LedgerReader
from modelpact.needs.need import Need, Needs
from modelpact.negotiation.verdict import Policy
from modelpact.sessions.errors import SessionMoved, UnknownSession, UnreadableSession
from modelpact.sessions.extensions import ContextProvider, Hook, SecurityMode, StateMachine
from modelpact.sessions.required_set import required_set
from modelpact.vocabulary.errors import InputError, ModelpactError


class SessionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything of a session that a trigger may change; it is replaced whole or not at all."""

    target: str
    layers: dict[str, dict[str, Any]] = {}
    machine: StateMachine | None = None
    context_providers: tuple[ContextProvider, ...] = ()
    hooks: tuple[Hook, ...] = ()
    security: SecurityMode = SecurityMode()
    policy: Policy = Policy()
    inherited: tuple[Need, ...] = ()
    """What was required from the start: by whoever opened the session, or by its parent."""
    parent: str = ""
    choices: dict[str, str] = {}
    """The model that was last used at each provider."""

    def required(self) -> Needs:
        """Compute the required set."""
        return required_set(
            self.machine, self.context_providers, self.hooks, self.security, self.inherited
        )

    def on(self, target: str) -> "SessionState":
        """Return the state with another model in use."""
        provider, _, model = target.partition("/")
        return msgspec.structs.replace(
            self, target=target, choices={**self.choices, provider: model}
        )


class CommittedState(msgspec.Struct, frozen=True):
    """The state in force, its required set, and the event that put it in force."""

    state: SessionState
    needs: Needs
    event: str
    revision: int


class History(msgspec.Struct, frozen=True):
    """What was said: the turns that were answered, and the messages that were not."""

    messages: tuple[Message, ...] = ()
    unanswered: tuple[Message, ...] = ()
    rows: int = 0
    turns: int = 0


class TranscriptEntry(msgspec.Struct, frozen=True):
    """A message of a session: in which turn it was said, and whether that turn has its answer."""

    turn: int
    answered: bool
    message: Message


class SessionSummary(msgspec.Struct, frozen=True):
    """A session in the store: times are in nanoseconds since 1970."""

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


def insert(tx: Transaction, session: str, envelope: str, state: SessionState, event: str) -> None:
    """Put a new session in; it must not be there yet."""
    if tx.execute("SELECT 1 FROM sessions WHERE id = ?", (session,)):
        raise InputError(f"there is a session {session} already: resume it, or choose another id")
    tx.execute(
        "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)",
        (session, envelope, _encode(state).decode(), event, 1, tx.now, tx.now),
    )


def replace(tx: Transaction, session: str, standing: CommittedState) -> None:
    """Put another state in force, unless somebody else has done so meanwhile."""
    changed = tx.execute_update(
        "UPDATE sessions SET state = ?, event = ?, revision = ?, updated = ? "
        "WHERE id = ? AND revision = ?",
        (
            _encode(standing.state).decode(),
            standing.event,
            standing.revision,
            tx.now,
            session,
            standing.revision - 1,
        ),
    )
    if not changed:
        raise SessionMoved(session)


def load_state(reader: LedgerReader, session: str) -> CommittedState:
    """Return the state of a session as it was last committed."""
    rows = reader.read("SELECT state, event, revision FROM sessions WHERE id = ?", (session,))
    if not rows:
        raise UnknownSession(session)
    state = _read(session, rows[0][0])
    return CommittedState(state, state.required(), rows[0][1], rows[0][2])


def load_history(reader: LedgerReader, session: str) -> History:
    """Return what was said in a session."""
    said = load_transcript(reader, session)
    return History(
        tuple(one.message for one in said if one.answered),
        tuple(one.message for one in said if not one.answered),
        len(said),
        max((one.turn for one in said), default=0),
    )


def load_transcript(reader: LedgerReader, session: str) -> tuple[TranscriptEntry, ...]:
    """Return everything that was said in a session, in order."""
    rows = reader.read(
        "SELECT turn, answered, message FROM session_messages WHERE session = ? ORDER BY number",
        (session,),
    )
    return tuple(
        TranscriptEntry(turn, bool(answered), _MESSAGE.decode(message))
        for turn, answered, message in rows
    )


def ask(
    tx: Transaction,
    session: str,
    history: History,
    messages: tuple[Message, ...],
    own: Collection[str],
) -> None:
    """Keep messages before they are sent; they stand as unanswered until they are answered.

    `own` are the events by which the asker knows the state in force: another one is news to it.
    """
    _check_unmoved(tx, session, history, own)
    _add(tx, session, history.rows, history.turns + 1, 0, messages)


def answer(
    tx: Transaction, session: str, history: History, message: Message, own: Collection[str]
) -> None:
    """Keep an answer; its turn is answered. `history` is the one with the question."""
    _check_unmoved(tx, session, history, own)
    tx.execute(
        "UPDATE session_messages SET answered = 1 WHERE session = ? AND turn = ?",
        (session, history.turns),
    )
    _add(tx, session, history.rows, history.turns, 1, (message,))


def _check_unmoved(tx: Transaction, session: str, history: History, own: Collection[str]) -> None:
    """Raise where somebody else put another state in force, or said something."""
    rows = tx.execute(
        "SELECT event, (SELECT COUNT(*) FROM session_messages m WHERE m.session = s.id) "
        "FROM sessions s WHERE id = ?",
        (session,),
    )
    if not rows or rows[0][0] not in own or rows[0][1] != history.rows:
        raise SessionMoved(session)


def _add(
    tx: Transaction,
    session: str,
    after: int,
    turn: int,
    answered: int,
    messages: tuple[Message, ...],
) -> None:
    for number, message in enumerate(messages, after + 1):
        tx.execute(
            "INSERT INTO session_messages VALUES (?, ?, ?, ?, ?)",
            (session, number, turn, answered, _encode(message).decode()),
        )
    tx.execute("UPDATE sessions SET updated = ? WHERE id = ?", (tx.now, session))


def list_sessions(reader: LedgerReader, limit: int = 20) -> list[SessionSummary]:
    """Return the sessions of a store, those that were used last first."""
    rows = reader.read(
        "SELECT id, state, (SELECT COUNT(*) FROM session_messages m WHERE m.session = s.id), "
        "created, updated FROM sessions s ORDER BY updated DESC, id LIMIT ?",
        (limit,),
    )
    found = []
    for name, text, messages, created, updated in rows:
        try:
            state = _read(name, text)
        except UnreadableSession:  # named all the same, so that it can be looked after
            found.append(SessionSummary(name, "", "", messages, created, updated, readable=False))
            continue
        found.append(SessionSummary(name, state.target, state.parent, messages, created, updated))
    return found


def _read(session: str, text: str) -> SessionState:
    try:
        return _STATE.decode(text)
    except (msgspec.DecodeError, ModelpactError) as error:
        raise UnreadableSession(session, str(error)) from None

"""Talking: messages to the model in use and its answers, one turn at a time."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing

from modelpact.conversation.message import Message, TextBlock
from modelpact.conversation.response import StreamEvent
from modelpact.sessions.core import Core
from modelpact.sessions.errors import SessionBusy
from modelpact.sessions.store import History
from modelpact.sessions.turn import Turn, TurnRunner
from modelpact.vocabulary.errors import InputError, brief

Sent = str | Message | Iterable[str | Message]


class ConversationLog:
    """What is said in a session, and what was said so far."""

    def __init__(self, core: Core, history: History) -> None:
        self._core = core
        self._talking = threading.Lock()
        self.history = history

    async def whole(self, messages: tuple[Message, ...]) -> Turn:
        """Ask the model and return its answer."""
        turn: StreamEvent | Turn | None = None
        async for piece in self.pieces(messages, streaming=False):
            turn = piece
        assert isinstance(turn, Turn)
        return turn

    async def pieces(
        self, messages: tuple[Message, ...], *, streaming: bool
    ) -> AsyncGenerator[StreamEvent | Turn, None]:
        """Ask the model and yield its answer, as it comes or not; the last thing is the turn."""
        self._core.current()
        if self._core.refusal is not None:
            await asyncio.to_thread(self._core.check_fit)
        if not self._talking.acquire(blocking=False):
            raise SessionBusy(self._core.id)
        asking = TurnRunner(self._core, self.history)
        try:
            async with aclosing(asking.run(messages, streaming=streaming)) as pieces:
                async for piece in pieces:
                    self.history = asking.history
                    yield piece
        finally:
            self.history = asking.history
            self._talking.release()


def read_messages(said: Sent) -> tuple[Message, ...]:
    """Return messages, checked: the last one is the user's or a tool's."""
    listed = [said] if isinstance(said, (str, Message)) else said
    if isinstance(listed, (bytes, Mapping)) or not isinstance(listed, Iterable):
        raise InputError(f"expected a text, a Message or several, not {brief(said)}")
    found: list[Message] = []
    for one in listed:
        if isinstance(one, str):
            if not one.strip():
                raise InputError("there is nothing to send: the text is empty")
            one = Message("user", (TextBlock(one),))
        if not isinstance(one, Message):
            raise InputError(f"a message is a text or a Message, not {brief(one)}")
        found.append(one)
    if not found or found[-1].role not in ("user", "tool"):
        raise InputError("the last message must be the user's or a tool's: a model answers it")
    return tuple(found)

"""The command `modelpact chat`: reads lines from a terminal or a pipe, and runs them."""

import asyncio
import contextlib
import io
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, aclosing
from types import FrameType
from typing import Final

import click
import msgspec

from modelpact.cli.chat.commands import Chat, session_json
from modelpact.cli.chat.output import (
    ChatMessage,
    ChatOutput,
    JsonOutput,
    TextOutput,
    label_lines,
    params_lines,
    refusal_message,
)
from modelpact.cli.chat.sessions import SessionOpener
from modelpact.cli.chat.tables import history_table, sessions_table
from modelpact.cli.options import LedgerSource, complete_target, ledger_options, need_option, read_needs
from modelpact.cli.render.terminal import paint
from modelpact.conversation.message import Message
from modelpact.conversation.response import response_events
from modelpact.needs.need import Needs
from modelpact.sessions import CapabilityMissing, SwitchRejected, Turn, list_sessions
from modelpact.vocabulary.errors import ModelpactError

ReadLine = Callable[[], Awaitable[str | None]]
"""Returns the next line, or None at the end."""

_RECENT_MESSAGES: Final = 6
"""How many messages a resumed session shows."""
_STOPPED: Final = ChatMessage(
    "stopped", "■ Stopped. The message is kept as unfinished, and is not sent with the next one."
)


@click.command("chat")
@click.option(
    "--model",
    metavar="PROVIDER/MODEL",
    help="The model to start with. By default the first of modelpact.toml that can be called, else mock/demo.",
    shell_complete=complete_target,
)
@need_option('What every model must meet, such as "tools,context>=200k"; repeatable.')
@click.option(
    "--resume",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[ID]",
    help="Resume a session, by default the one used last.",
)
@click.option("--list", "list_only", is_flag=True, help="List the sessions and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per turn or event.")
@ledger_options
def chat_command(
    model: str | None, needs: Sequence[str], resume: str | None, list_only: bool, as_json: bool, source: LedgerSource
) -> None:
    """Chat with a model in a session that is saved as it goes.

    /help lists the commands. Without a terminal, lines are read from standard input; the exit code
    is 0 if all of them succeeded, and 2 if one failed.
    """
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    output: ChatOutput = JsonOutput() if as_json else TextOutput(at_terminal=at_terminal)
    if list_only:
        with source.open_reader() as reader:
            output.message(sessions_table(list_sessions(reader)))
        return
    if resume is not None and needs:
        raise click.UsageError("--need is for a new session: a resumed one keeps its needs.")
    with source.open_ledger() as ledger:
        required = Needs(msgspec.structs.replace(need, required_by=("you",)) for need in read_needs(needs))
        opener = SessionOpener(ledger, source.configuration(), required)
        try:
            opened = opener.open(model) if resume is None else opener.resume(resume)
        except SwitchRejected as rejected:
            output.message(refusal_message(rejected))
            raise SystemExit(2) from None
        chat = Chat(opener, opened)
        try:
            code = asyncio.run(_run(chat, output, model, resume is not None, at_terminal))
        finally:
            chat.opened.close()
    raise SystemExit(code)


async def _run(chat: Chat, output: ChatOutput, model: str | None, resumed: bool, at_terminal: bool) -> int:
    """Run a chat to its end and return the exit code."""
    if at_terminal or isinstance(output, JsonOutput):
        output.message(_greeting(chat, resumed=resumed))
    succeeded = True
    refusal = chat.session.refusal
    if refusal is not None and model is None:  # a model that the user names is tried first
        output.message(chat.report(refusal))
    if model is not None and resumed:
        succeeded = _print(output, chat.command(f"/model {model}"))
    if at_terminal:
        # Only a chat on a terminal pays for this import.
        from modelpact.cli.chat.prompt import ChatPrompt, echo_off

        with _stop_on_interrupt() as running:
            await _read_lines(chat, output, ChatPrompt(chat).line, running, echo_off)
        hint = f"Saved. Continue with: modelpact chat --resume {chat.session.id}"
        click.echo(paint(hint, "dim"))
        return 0
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    running = RunningAnswer()
    succeeded &= await _read_lines(chat, output, _read_stdin, running, contextlib.nullcontext)
    return 0 if succeeded else 2


def _greeting(chat: Chat, *, resumed: bool) -> ChatMessage:
    session = chat.session
    head = "Resumed session" if resumed else "Session"
    target = paint(session.target, "cyan")
    lines = [f"{head} {session.id} on {target}.{chat.address_note} /help lists the commands."]
    if resumed:
        if session.refusal is None:
            lines += label_lines(session.fit(session.target))
        lines += params_lines(session.params_affected)
        lines.append(history_table(session, _RECENT_MESSAGES).text)
    count = len(session.unanswered)
    if count:
        subject = "One message has" if count == 1 else f"{count} messages have"
        lines.append(paint(f"{subject} no answer: kept, and not sent again.", "yellow"))
    return ChatMessage("session", "\n".join(lines), session_json(session, resumed=resumed))


class RunningAnswer:
    """The answer that is being received, if there is one."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Stop the answer, if there is one."""
        if self.task is not None:
            self.task.cancel()


@contextlib.contextmanager
def _stop_on_interrupt() -> Iterator[RunningAnswer]:
    """Let Ctrl-C stop the running answer, and never the program."""
    running, loop = RunningAnswer(), asyncio.get_running_loop()

    def interrupted(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        loop.call_soon_threadsafe(running.stop)

    previous = signal.signal(signal.SIGINT, interrupted)
    try:
        yield running
    finally:
        signal.signal(signal.SIGINT, previous)


async def _read_stdin() -> str | None:
    line = await asyncio.to_thread(sys.stdin.readline)
    return line.rstrip("\r\n") if line else None


async def _read_lines(
    chat: Chat,
    output: ChatOutput,
    read_line: ReadLine,
    running: RunningAnswer,
    while_answering: Callable[[], AbstractContextManager[None]],
) -> bool:
    """Run each line, a command or a message, to the end; return whether all succeeded."""
    succeeded = True
    while not chat.leaving and (line := await read_line()) is not None:
        if not line.strip():
            continue
        line = line.encode("utf-8", "replace").decode()  # a terminal may send invalid UTF-8
        if line.startswith("/") and not line.startswith("//"):
            succeeded &= _print(output, chat.command(line))
            continue
        message = chat.message(line.removeprefix("/") if line.startswith("//") else line)
        if message is None:
            continue
        with while_answering():
            running.task = asyncio.create_task(_answer(chat, output, message))
            try:
                await running.task
            except ModelpactError as error:
                succeeded &= _print(output, chat.report(error))
            except asyncio.CancelledError:
                if not running.task.cancelled():
                    raise
                _print(output, _STOPPED)
            finally:
                running.task = None
    return succeeded


def _print(output: ChatOutput, message: ChatMessage) -> bool:
    """Write a report and return whether it tells of success."""
    output.message(message)
    return not message.failed


async def _answer(chat: Chat, output: ChatOutput, message: Message) -> None:
    """Send a message and write the answer; without streaming if the model cannot stream."""
    chat.opened.check_lease()
    output.begin()
    try:
        async with aclosing(chat.session.stream(message)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Turn):
                    output.turn(chat.session, piece)
                else:
                    output.event(piece)
    except CapabilityMissing as missing:
        if missing.capability != "streaming":
            raise
        output.message(_not_streamed(chat.session.target, missing.code))
        turn = await chat.session.asend(message)
        for event in response_events(turn.response):
            output.event(event)
        output.turn(chat.session, turn)


def _not_streamed(target: str, code: str) -> ChatMessage:
    text = f"! {target} does not stream [{code}]: its answer comes all at once."
    return ChatMessage("notStreamed", paint(text, "dim"), {"target": target, "code": code})

"""How a chat's session is opened or taken up again."""

import asyncio
import contextlib
import io
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from types import FrameType

import click
import msgspec

from modelpact.cli.chat import tables
from modelpact.cli.chat.commands import Chat, session_data
from modelpact.cli.chat.messages import ChatMessage, labels, params_told, refused
from modelpact.cli.chat.opening import Opener
from modelpact.cli.chat.output import ChatOutput, JsonOutput, TextOutput
from modelpact.cli.options import complete_needs, complete_target, config_option, read_needs
from modelpact.cli.paths import open_ledger, open_reader, store_option
from modelpact.cli.render.tables import paint
from modelpact.configuration import load_configuration
from modelpact.conversation.message import Message
from modelpact.conversation.response import response_events
from modelpact.needs.need import Needs
from modelpact.sessions import (
    CapabilityMissing,
    SwitchRejected,
    Turn,
    list_sessions,
)
from modelpact.vocabulary.errors import ModelpactError

NextLine = Callable[[], Awaitable[str | None]]
_SHOWN_AGAIN = 6
"""Messages that are shown when a session is resumed."""
_STOPPED = ChatMessage(
    "stopped",
    "■ Stopped. The message is kept as unfinished, and not sent along with the next one.",
)


@click.command("chat", short_help="Talk to models; every switch is negotiated first.")
@click.option(
    "--model",
    metavar="PROVIDER/MODEL",
    help="The model to begin with; by default the first of modelpact.toml that can be called, "
    "else mock/demo.",
    shell_complete=complete_target,
)
@click.option(
    "--need",
    "needs",
    multiple=True,
    metavar="NEEDS",
    help='What every model must have: "tools,context>=200k".',
    shell_complete=complete_needs,
)
@click.option(
    "--resume",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[ID]",
    help="Take a session up again; by default the one that was used last.",
)
@click.option("--list", "listing", is_flag=True, help="List the sessions, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each turn or event.")
@store_option
@config_option
def command(
    model: str | None,
    needs: Sequence[str],
    resume: str | None,
    listing: bool,
    as_json: bool,
    store: str | None,
    config_path: Path | None,
) -> None:
    """Talk to a model in a session that is saved as it goes.

    /help lists the commands. Without a terminal, lines are read from standard input; the exit code
    is then 0 when all of them were carried out, and 2 when one was not.
    """
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    show: ChatOutput = JsonOutput() if as_json else TextOutput(at_terminal=at_terminal)
    if listing:
        with open_reader(store, config_path) as reader:
            show.told(tables.sessions(list_sessions(reader)))
        return
    if resume is not None and needs:
        raise click.UsageError("--need is for a new session: a resumed one has the needs it had.")
    with open_ledger(store, config_path) as ledger:
        opener = Opener(ledger, load_configuration(config_path), _yours(read_needs(needs)))
        try:
            opened = opener.open(model) if resume is None else opener.resume(resume)
        except SwitchRejected as rejected:
            show.told(refused(rejected))
            raise SystemExit(2) from None
        chat = Chat(opener, opened)
        try:
            code = asyncio.run(_run(chat, show, model, resume is not None, at_terminal))
        finally:
            chat.close()
    raise SystemExit(code)


def _yours(needs: Needs) -> Needs:
    return Needs(msgspec.structs.replace(one, required_by=("you",)) for one in needs)


async def _run(
    chat: Chat, show: ChatOutput, model: str | None, resumed: bool, at_terminal: bool
) -> int:
    if at_terminal or isinstance(show, JsonOutput):
        show.told(_greeting(chat, resumed=resumed))
    done = True
    refusal = chat.session.refusal
    if refusal is not None and model is None:  # else the one that is named is tried first
        show.told(chat.failed(refusal))
    if model is not None and resumed:
        done = _tell(show, chat.command(f"/model {model}"))
    if at_terminal:
        from modelpact.cli.chat.prompt import (
            ChatPrompt,
            quiet_keyboard,
        )  # the one who needs it pays

        with _interrupts() as stopping:
            await _talk(chat, show, ChatPrompt(chat).line, stopping, quiet_keyboard)
        click.echo(paint(f"Saved. Go on with: modelpact chat --resume {chat.session.id}", "dim"))
        return 0
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    done &= await _talk(chat, show, _piped, Stopping(), contextlib.nullcontext)
    return 0 if done else 2


def _greeting(chat: Chat, *, resumed: bool) -> ChatMessage:
    session = chat.session
    words = "Resumed session" if resumed else "Session"
    on = f"{words} {session.id} on {paint(session.target, 'cyan')}.{chat.where}"
    lines = [f"{on} /help lists the commands."]
    if resumed:
        if session.refusal is None:
            lines += labels(session.fit(session.target))
        told = params_told(session.params_affected)
        lines += [told] if told else []
        lines.append(tables.history(session, _SHOWN_AGAIN).text)
    left = len(session.unanswered)
    if left:
        what = "One message has" if left == 1 else f"{left} messages have"
        lines.append(paint(f"{what} no answer: kept, and not sent again by itself.", "yellow"))
    return ChatMessage("session", "\n".join(lines), session_data(session, resumed=resumed))


class Stopping:
    """The answer that is under way, if one is, so that it can be stopped."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Stop the answer; without one there is nothing to stop."""
        if self.task is not None:
            self.task.cancel()


@contextlib.contextmanager
def _interrupts() -> Iterator[Stopping]:
    """Let Ctrl-C stop the answer that is under way, and never the program."""
    stopping, loop = Stopping(), asyncio.get_running_loop()

    def interrupted(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        loop.call_soon_threadsafe(stopping.stop)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield stopping
    finally:
        signal.signal(signal.SIGINT, before)


async def _piped() -> str | None:
    line = await asyncio.to_thread(sys.stdin.readline)
    return line.rstrip("\r\n") if line else None


async def _talk(
    chat: Chat,
    show: ChatOutput,
    next_line: NextLine,
    stopping: Stopping,
    quietly: Callable[[], contextlib.AbstractContextManager[None]],
) -> bool:
    """Take lines until there are no more; return whether every one of them was carried out."""
    done = True
    while not chat.leaving and (line := await next_line()) is not None:
        if not line.strip():
            continue
        line = line.encode("utf-8", "replace").decode()  # what was typed may be no text at all
        if line.startswith("/") and not line.startswith("//"):
            done &= _tell(show, chat.command(line))
            continue
        message = chat.message(line.removeprefix("/") if line.startswith("//") else line)
        if message is None:
            continue
        with quietly():
            stopping.task = asyncio.create_task(_answer(chat, show, message))
            try:
                await stopping.task
            except ModelpactError as error:
                done &= _tell(show, chat.failed(error))
            except asyncio.CancelledError:
                if not stopping.task.cancelled():
                    raise
                _tell(show, _STOPPED)
            finally:
                stopping.task = None
    return done


def _tell(show: ChatOutput, told: ChatMessage) -> bool:
    show.told(told)
    return not told.failed


async def _answer(chat: Chat, show: ChatOutput, message: Message) -> None:
    show.begin()
    try:
        async with aclosing(chat.session.stream(message)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Turn):
                    show.turn(chat.session, piece)
                else:
                    show.event(piece)
    except CapabilityMissing as missing:
        if missing.capability != "streaming":
            raise
        show.told(_not_streamed(chat.session.target, missing.code))
        turn = await chat.session.asend(message)
        for event in response_events(turn.response):
            show.event(event)
        show.turn(chat.session, turn)


def _not_streamed(target: str, code: str) -> ChatMessage:
    text = f"! {target} does not stream [{code}]: its answer comes whole."
    return ChatMessage("notStreamed", paint(text, "dim"), {"target": target, "code": code})

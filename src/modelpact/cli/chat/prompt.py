"""The prompt of a chat on a terminal: line editing, history and completion.

Only a chat on a terminal imports this module, since prompt_toolkit is slow to import.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.color_depth import ColorDepth

from modelpact.catalog.snapshot import user_folder
from modelpact.cli.chat.commands import COMMANDS, Chat
from modelpact.cli.chat.output import fit_summary
from modelpact.cli.render.terminal import clip, escape, use_colour
from modelpact.sessions import find_candidates, list_machines
from modelpact.sessions.candidates import can_reach, reachable_providers
from modelpact.vocabulary.errors import ModelpactError

_COLOURS: Final = {"green": "ansigreen", "yellow": "ansiyellow", "red": "ansired"}
_PARAMETERS: Final = (
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "stop",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "tools",
    "tool_choice",
)
"""The parameters that completion offers; any other can be set as well."""
_FIT_COLUMNS: Final = 60
"""The width of the column that says how a model fits."""


class ChatPrompt:
    """Reads lines with editing and history."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._interrupted = False
        self._session: PromptSession[str] = PromptSession(
            history=_history(),
            completer=ThreadedCompleter(ChatCompleter(chat)),
            complete_while_typing=True,
            key_bindings=_keys(),
            multiline=True,
            reserve_space_for_menu=6,
            color_depth=None if use_colour() else ColorDepth.DEPTH_1_BIT,
        )

    async def line(self) -> str | None:
        """Return the next line, or None if the user leaves."""
        while True:
            prefill, self._chat.prefill = self._chat.prefill, ""
            try:
                line = await self._session.prompt_async(self._label(), default=prefill, handle_sigint=False)
            except EOFError:
                return None
            except KeyboardInterrupt:
                empty = not self._session.default_buffer.text.strip()
                if empty and self._interrupted:
                    return None
                self._interrupted = empty
                if empty:
                    print("Press Ctrl-C again, or Ctrl-D, to leave.")
                continue
            self._interrupted = False
            return line

    def _label(self) -> FormattedText:
        calls = self._chat.pending_calls
        name = f"result of {calls[0].name}" if calls else self._chat.session.target
        return FormattedText([("ansicyan", escape(name, "")), ("", " ❯ ")])


def _history() -> History:
    """Return the history of all chats of this user; if no file can be written, of this chat.

    Only the user can read the file.
    """
    path = user_folder() / "chat_history"
    try:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _keys() -> KeyBindings:
    """Return the key bindings: Enter sends, Alt-Enter starts a new line."""
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


class ChatCompleter(Completer):
    """Completes commands and their arguments; models are listed with how they fit."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002
    ) -> Iterator[Completion]:
        """Yield the completions of the text before the cursor."""
        text = document.text_before_cursor
        if not text.startswith("/") or text.startswith("//") or "\n" in text:
            return
        command, space, rest = text.partition(" ")
        with contextlib.suppress(ModelpactError):  # the command itself will report the error
            if not space:
                yield from _commands(command)
            elif command == "/model":
                yield from self._models(rest.lstrip())
            elif command == "/provider":
                yield from _plain(reachable_providers(self._chat.models), rest)
            elif command == "/sm":
                yield from self._machines(rest)
            elif command == "/params":
                yield from self._params(rest)
            elif command == "/audit":
                yield from _plain(("why",), rest)

    def _models(self, start: str) -> Iterator[Completion]:
        for candidate in find_candidates(self._chat.session, self._chat.models, start):
            mark, words, colour = fit_summary(candidate.verdict)
            if not can_reach(self._chat.models, candidate.target.partition("/")[0]):
                words += "; no key or address here"
            yield Completion(
                candidate.target,
                start_position=-len(start),
                display=FormattedText([(_COLOURS[colour], f"{mark} "), ("", candidate.target)]),
                display_meta=clip(words, _FIT_COLUMNS),
            )

    def _machines(self, rest: str) -> Iterator[Completion]:
        action, space, name = rest.partition(" ")
        if not space:
            yield from _plain(("attach", "detach"), action)
        elif action == "attach":
            machines = list_machines(self._chat.models.configuration)
            yield from _plain([machine.name for machine in machines], name)

    def _params(self, rest: str) -> Iterator[Completion]:
        word = rest.rpartition(" ")[2]
        if word.startswith("-"):
            yield from _plain([f"-{name}" for name in self._chat.session.params], word)
        elif "=" not in word:
            yield from _plain([f"{name}=" for name in _PARAMETERS], word)


def _commands(start: str) -> Iterator[Completion]:
    for name, (_, summary) in COMMANDS.items():
        if name.startswith(start):
            yield Completion(name, start_position=-len(start), display_meta=summary)


def _plain(names: "tuple[str, ...] | list[str]", start: str) -> Iterator[Completion]:
    for name in names:
        if name.startswith(start):
            yield Completion(name, start_position=-len(start))


@contextlib.contextmanager
def echo_off() -> Iterator[None]:
    """Keep keys that are typed during an answer out of it; the next prompt gets them."""
    try:
        import termios
    except ImportError:  # on Windows, echo stays on
        yield
        return
    stdin = sys.stdin.fileno()
    saved = termios.tcgetattr(stdin)
    silent = saved.copy()
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(stdin, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, saved)

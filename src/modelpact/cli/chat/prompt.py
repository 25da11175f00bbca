"""The prompt of a chat on a terminal: line editing, history, and completion that shows fit.

Only a chat on a terminal imports this: it is what needs prompt_toolkit.
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

from modelpact.catalog.paths import user_folder
from modelpact.cli.chat.commands import COMMANDS, Chat
from modelpact.cli.chat.messages import fit_words
from modelpact.cli.render.audit import visible
from modelpact.cli.render.tables import clip, colours
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
"""Those that are offered; any other may be set as well."""
_WORDS: Final = 60
"""Columns of the menu for how a model fits."""


class ChatPrompt:
    """Asks for lines; what was typed is kept in a file that only its owner reads."""

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
            color_depth=None if colours() else ColorDepth.DEPTH_1_BIT,
        )

    async def line(self) -> str | None:
        """Return the next line, or None when it is time to leave."""
        while True:
            proposal, self._chat.proposal = self._chat.proposal, ""
            try:
                found = await self._session.prompt_async(
                    self._label(), default=proposal, handle_sigint=False
                )
            except EOFError:
                return None
            except KeyboardInterrupt:
                empty = not self._session.default_buffer.text.strip()
                if empty and self._interrupted:
                    return None
                self._interrupted = empty
                if empty:
                    print("Ctrl-C again, or Ctrl-D, leaves.")
                continue
            self._interrupted = False
            return found

    def _label(self) -> FormattedText:
        calls = self._chat.waiting_calls
        name = f"result of {calls[0].name}" if calls else self._chat.session.target
        return FormattedText([("ansicyan", visible(name, "")), ("", " ❯ ")])


def _history() -> History:
    """Return the history of all chats of this user; without a place for it, that of this one."""
    path = user_folder() / "chat_history"
    try:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _keys() -> KeyBindings:
    """Enter sends, Alt-Enter breaks the line."""
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def break_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


class ChatCompleter(Completer):
    """Completes commands and what follows them; models with how they fit beside them."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002
    ) -> Iterator[Completion]:
        """Yield what the text before the cursor may become."""
        text = document.text_before_cursor
        if not text.startswith("/") or text.startswith("//") or "\n" in text:
            return
        command, space, rest = text.partition(" ")
        with contextlib.suppress(ModelpactError):  # a menu is no place for errors
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
        for one in find_candidates(self._chat.session, self._chat.models, start):
            mark, words, colour = fit_words(one.verdict)
            if not can_reach(self._chat.models, one.target.partition("/")[0]):
                words += "; no key or address here"
            yield Completion(
                one.target,
                start_position=-len(start),
                display=FormattedText([(_COLOURS[colour], f"{mark} "), ("", one.target)]),
                display_meta=clip(words, _WORDS),
            )

    def _machines(self, rest: str) -> Iterator[Completion]:
        what, space, name = rest.partition(" ")
        if not space:
            yield from _plain(("attach", "detach"), what)
        elif what == "attach":
            known = list_machines(self._chat.models.configuration)
            yield from _plain([one.name for one in known], name)

    def _params(self, rest: str) -> Iterator[Completion]:
        word = rest.rpartition(" ")[2]
        if word.startswith("-"):
            yield from _plain([f"-{name}" for name in self._chat.session.params], word)
        elif "=" not in word:
            yield from _plain([f"{name}=" for name in _PARAMETERS], word)


def _commands(start: str) -> Iterator[Completion]:
    for name, one in COMMANDS.items():
        if name.startswith(start):
            yield Completion(name, start_position=-len(start), display_meta=one.help)


def _plain(names: "tuple[str, ...] | list[str]", start: str) -> Iterator[Completion]:
    for name in names:
        if name.startswith(start):
            yield Completion(name, start_position=-len(start))


@contextlib.contextmanager
def quiet_keyboard() -> Iterator[None]:
    """Let what is typed during an answer not be echoed into it; it waits for the next prompt."""
    try:
        import termios
    except ImportError:  # Windows echoes
        yield
        return
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    quiet = before.copy()
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(stdin, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)

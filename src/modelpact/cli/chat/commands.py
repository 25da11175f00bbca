"""The commands of a chat, such as `/model`: each changes the session or shows a part of it."""

import json
from collections.abc import Callable
from typing import Any, Final

from modelpact.cli.chat.output import ChatMessage, error_message, refusal_message, switch_message
from modelpact.cli.chat.sessions import OpenSession, SessionOpener
from modelpact.cli.chat.tables import (
    audit_table,
    cost_table,
    history_table,
    machines_table,
    models_table,
    needs_table,
    params_table,
    providers_table,
)
from modelpact.cli.render.terminal import paint, table
from modelpact.cli.runtime import override_text
from modelpact.conversation.message import Message, TextBlock, ToolResultBlock, ToolUseBlock
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.needs.need import Needs
from modelpact.sessions import (
    Session,
    Switched,
    SwitchRejected,
    configured_candidates,
    find_candidates,
    find_machine,
    list_machines,
)
from modelpact.sessions.candidates import can_reach, reachable_providers
from modelpact.vocabulary.errors import InputError, ModelpactError, UnknownName, brief

_MAX_ALTERNATIVES: Final = 3
_KEYS_HELP: Final = (
    "Enter sends, Alt-Enter starts a new line, Tab completes. Ctrl-C stops an answer; at an empty "
    "prompt, Ctrl-C twice or Ctrl-D leaves."
)


COMMANDS: Final = {
    "/model": ("/model [PROVIDER/]MODEL", "switch models, negotiated first; alone: list candidates"),
    "/provider": ("/provider NAME", "switch to a model of a provider; alone: list providers"),
    "/sm": ("/sm attach NAME | detach", "attach or detach a state machine; alone: list them"),
    "/params": ("/params NAME=VALUE -NAME", "set and unset parameters; alone: list them"),
    "/needs": ("/needs", "list what is required, and whether the model meets it"),
    "/audit": ("/audit [why]", "list the last events; why: what led to the last one"),
    "/cost": ("/cost", "show what this session cost, by model"),
    "/history": ("/history", "show the messages of this session"),
    "/new": ("/new", "start a new session on the same model"),
    "/help": ("/help", "show this list"),
    "/quit": ("/quit", "leave; the session is always saved"),
}
"""The usage of each command, and what it does."""


class Chat:
    """The session in use, and the commands on it."""

    def __init__(self, opener: SessionOpener, opened: OpenSession) -> None:
        self.opener = opener
        self.opened = opened
        self.suggestion = ""
        """A model that fits and can be called, from the last refusal."""
        self.prefill = ""
        """What the next prompt starts with, for Enter to accept."""
        self.leaving = False
        self._tool_results: list[ToolResultBlock] = []
        self._commands: dict[str, Callable[[str], ChatMessage]] = {
            "/model": self._model,
            "/provider": self._provider,
            "/sm": self._machine,
            "/params": self._params,
            "/needs": lambda _: needs_table(self.session),
            "/audit": self._audit,
            "/cost": lambda _: cost_table(self.session, opener.ledger),
            "/history": lambda _: history_table(self.session),
            "/new": self._new,
            "/help": lambda _: _help(),
            "/quit": self._quit,
        }

    @property
    def session(self) -> Session:
        """The session in use."""
        return self.opened.session

    @property
    def models(self) -> ModelCaller:
        """The models that the session calls."""
        return self.opened.models

    @property
    def pending_calls(self) -> tuple[ToolUseBlock, ...]:
        """The tool calls of the last answer that have no result; the next line is one."""
        calls = [
            block
            for message in self.session.messages[-1:]
            for block in message.content
            if isinstance(block, ToolUseBlock)
        ]
        return tuple(calls[len(self._tool_results) :])

    def message(self, line: str) -> Message | None:
        """Return the message of a line, or None while results of tools are missing.

        A chat runs no tools: the user types their results.
        """
        calls = self.pending_calls
        if not calls:
            return Message("user", (TextBlock(line),))
        self._tool_results.append(ToolResultBlock(calls[0].id, (TextBlock(line),)))
        if len(calls) > 1:
            return None
        results, self._tool_results = tuple(self._tool_results), []
        return Message("tool", results)

    def command(self, line: str) -> ChatMessage:
        """Run a command; an error is reported and changes nothing."""
        name, _, arguments = line.strip().partition(" ")
        try:
            run = self._commands.get(name)
            if run is None:
                raise UnknownName("command", name, COMMANDS, "/help lists all, // sends a /")
            return run(arguments.strip())
        except ModelpactError as error:
            return self.report(error)

    def report(self, error: ModelpactError) -> ChatMessage:
        """Report an error; a refusal also names models that fit."""
        if isinstance(error, SwitchRejected):
            return self._report_refusal(error)
        return error_message(error)

    def _report_refusal(self, rejected: SwitchRejected) -> ChatMessage:
        suggestion = rejected.diagnostic.suggestion or ""
        provider = suggestion.partition("/")[0]
        unreachable = ""
        if suggestion and not can_reach(self.models, provider):
            unreachable = self._why_unreachable(provider)
        required = Needs(finding.need for finding in rejected.verdict.findings)
        mentioned = (self.session.target, rejected.diagnostic.target, suggestion)
        alternatives = tuple(
            candidate.target
            for candidate in configured_candidates(self.session, self.models, required)
            if candidate.verdict.ok and candidate.target not in mentioned
        )[:_MAX_ALTERNATIVES]
        usable = suggestion and not unreachable
        self.suggestion = suggestion if usable else next(iter(alternatives), "")
        return refusal_message(rejected, unreachable, alternatives)

    def _why_unreachable(self, provider: str) -> str:
        try:
            self.models.port(provider)
        except ModelpactError as error:
            return str(error)
        return ""

    def _model(self, name: str) -> ChatMessage:
        if name:
            return self._switched(self.session.switch_model(name))
        if not self.suggestion:
            return models_table(self.session, find_candidates(self.session, self.models, ""))
        self.prefill = f"/model {self.suggestion}"
        text = f"Suggested: {paint(self.suggestion, 'cyan')}. {self.prefill} switches to it."
        return ChatMessage("suggestion", text, {"suggestion": self.suggestion})

    def _provider(self, name: str) -> ChatMessage:
        if not name:
            return providers_table(self.session, self.models, reachable_providers(self.models))
        return self._switched(self.session.switch_provider(name))

    def _switched(self, switched: Switched) -> ChatMessage:
        self.suggestion = ""
        before = paint(f" (before: {switched.previous})", "dim")
        head = f"Now on {paint(switched.target, 'cyan')}{before}.{self.address_note}"
        return switch_message(switched, head)

    @property
    def address_note(self) -> str:
        """Where the provider in use is, if the environment sets its address; else empty."""
        address = self.models.env_overrides().get(self.session.target.partition("/")[0])
        return "" if address is None else f" It is {override_text(address)}."

    def _machine(self, arguments: str) -> ChatMessage:
        configuration = self.models.configuration
        action, _, name = arguments.partition(" ")
        if not action:
            return machines_table(list_machines(configuration), self.session.machine)
        if action == "attach" and name.strip():
            machine = find_machine(name.strip(), configuration)
            switched = self.session.attach(machine)
            head = f"{machine.name} is attached; /needs shows what it requires."
            return switch_message(switched, head)
        if action == "detach" and not name:
            self.session.detach()
            text = f"{paint('✓', 'green')} Detached; its needs are no longer required."
            return ChatMessage("detached", text)
        raise InputError(f"/sm {brief(arguments)}: write {COMMANDS['/sm'][0]}")

    def _params(self, arguments: str) -> ChatMessage:
        values, removed = parse_params(arguments)
        if not values and not removed:
            return params_table(self.session)
        own = self.session.layers.get("/params", {})
        effective = self.session.params
        for name in removed:
            if name not in own and name not in effective:
                names = ", ".join(effective) or "none"
                raise InputError(f"/params: {name} is not set; set are: {names}")
        unset = [name for name in removed if name in own]
        # A null hides the value of a lower layer.
        values |= {name: None for name in removed if name not in own}
        self.session.set_params(values, unset=unset)
        return params_table(self.session)

    def _audit(self, arguments: str) -> ChatMessage:
        if arguments not in ("", "why"):
            raise InputError(f"/audit {brief(arguments)}: write /audit or /audit why")
        return audit_table(self.session, self.opener.ledger, why=arguments == "why")

    def _new(self, arguments: str) -> ChatMessage:
        if arguments:
            raise InputError("/new takes no argument; use /model afterwards to switch")
        opened = self.opener.open(self.session.target)
        self.opened.close()
        self.opened = opened
        self.suggestion, self._tool_results = "", []
        text = f"{paint('✓', 'green')} A new session, {self.session.id}."
        return ChatMessage("session", text, session_json(self.session, resumed=False))

    def _quit(self, arguments: str) -> ChatMessage:
        if arguments:
            raise InputError("/quit takes no argument")
        self.leaving = True
        return ChatMessage("left", "", {"session": self.session.id})


def session_json(session: Session, *, resumed: bool) -> dict[str, Any]:
    """Return a session as JSON data."""
    return {
        "session": session.id,
        "target": session.target,
        "resumed": resumed,
        "unanswered": len(session.unanswered),
        "needs": [str(need) for need in session.needs],
    }


def parse_params(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse `temperature=0.2 stop=["a b"] -seed` into values to set and names to unset.

    A value is JSON, or else a plain word.
    """
    values: dict[str, Any] = {}
    removed: list[str] = []
    rest = text.strip()
    while rest:
        if rest.startswith("-"):
            name, _, rest = rest[1:].partition(" ")
            removed.append(name)
        else:
            name, equals, rest = rest.partition("=")
            if not equals or not name.strip() or " " in name.strip():
                raise InputError(f"/params {brief(text)}: write NAME=VALUE, or -NAME to unset")
            values[name.strip()], rest = _parse_value(rest)
        rest = rest.lstrip()
    return values, removed


def _parse_value(text: str) -> tuple[Any, str]:
    """Return the value at the start of a text, and the rest of the text."""
    try:
        value, end = json.JSONDecoder().raw_decode(text)
        if not text[end : end + 1].strip():
            return value, text[end:]
    except (ValueError, RecursionError):
        pass
    if text[:1] in "[{\"'":
        raise InputError(f"/params: {brief(text)} is not JSON")
    word, _, rest = text.partition(" ")
    return word, rest


def _help() -> ChatMessage:
    rows = [(paint(usage, "cyan"), summary) for usage, summary in COMMANDS.values()]
    text = f"{table(rows)}\n{paint(_KEYS_HELP, 'dim')}"
    usages = {name: usage for name, (usage, _) in COMMANDS.items()}
    return ChatMessage("help", text, {"commands": usages})

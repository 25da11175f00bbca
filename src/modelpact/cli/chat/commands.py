"""The commands of a chat: each is a trigger of the session, or a look at it."""

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from modelpact.cli.chat import tables
from modelpact.cli.chat.messages import ChatMessage, failed, refused, switched
from modelpact.cli.chat.opening import Opened, Opener
from modelpact.cli.paths import address_words
from modelpact.cli.render.tables import paint, table
from modelpact.conversation.message import Message, TextBlock, ToolResultBlock, ToolUseBlock
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

_AT_HAND: Final = 3


class Command(msgspec.Struct, frozen=True):
    """A command: how it is written, and what it does."""

    usage: str
    help: str


COMMANDS: Final = {
    "/model": Command("/model [PROVIDER/]MODEL", "switch models, negotiated first; alone: offers"),
    "/provider": Command("/provider NAME", "switch to a provider's model; alone: which there are"),
    "/sm": Command("/sm attach NAME | detach", "state machines; alone: which there are"),
    "/params": Command("/params NAME=VALUE -NAME", "set and unset parameters; alone: show them"),
    "/needs": Command("/needs", "what is required, by whom, and whether the model meets it"),
    "/audit": Command("/audit [why]", "the last events of this session; why: what led here"),
    "/cost": Command("/cost", "what this session cost, by model"),
    "/history": Command("/history", "what was said"),
    "/new": Command("/new", "begin a new session on the same model"),
    "/help": Command("/help", "this"),
    "/quit": Command("/quit", "leave; the session is saved, always"),
}


class Chat:
    """A session that is talked to, and what its commands do."""

    def __init__(self, opener: Opener, opened: Opened) -> None:
        self.opener = opener
        self._opened = opened
        self.session = opened.session
        self.models = opened.models
        self.suggestion = ""
        """What the last refusal suggested and can be called."""
        self.proposal = ""
        """What the next prompt begins with: an offer that is taken by Enter."""
        self.leaving = False
        self._results: list[ToolResultBlock] = []
        self._commands: dict[str, Callable[[str], ChatMessage]] = {
            "/model": self._model,
            "/provider": self._provider,
            "/sm": self._machine,
            "/params": self._params,
            "/needs": lambda _: tables.needs(self.session),
            "/audit": self._audit,
            "/cost": lambda _: tables.cost(self.session, opener.ledger),
            "/history": lambda _: tables.history(self.session),
            "/new": self._new,
            "/help": lambda _: _help(),
            "/quit": self._quit,
        }

    def close(self) -> None:
        """Close the session that is talked to."""
        self._opened.close()

    @property
    def waiting_calls(self) -> tuple[ToolUseBlock, ...]:
        """The tool calls of the last answer that have no result: what is said next is one."""
        last = self.session.messages[-1:]
        calls = [one for said in last for one in said.content if isinstance(one, ToolUseBlock)]
        return tuple(calls[len(self._results) :])

    def message(self, line: str) -> Message | None:
        """Return what a line says, or None where results of tools are still missing.

        A chat runs no tools: whoever sits at it plays them.
        """
        calls = self.waiting_calls
        if not calls:
            return Message("user", (TextBlock(line),))
        self._results.append(ToolResultBlock(calls[0].id, (TextBlock(line),)))
        if len(calls) > 1:
            return None
        results, self._results = tuple(self._results), []
        return Message("tool", results)

    def command(self, line: str) -> ChatMessage:
        """Carry out a command; what goes wrong is told, and changes nothing."""
        name, _, rest = line.strip().partition(" ")
        try:
            run = self._commands.get(name)
            if run is None:
                raise UnknownName("command", name, COMMANDS, "/help lists all, // sends a /")
            return run(rest.strip())
        except ModelpactError as error:
            return self.failed(error)

    def failed(self, error: ModelpactError) -> ChatMessage:
        """Tell of an error; of a refusal also what would do."""
        return self._refused(error) if isinstance(error, SwitchRejected) else failed(error)

    def _refused(self, rejected: SwitchRejected) -> ChatMessage:
        wanted = rejected.diagnostic.suggestion or ""
        no_way = ""
        if wanted and not can_reach(self.models, wanted.partition("/")[0]):
            no_way = self._no_way(wanted.partition("/")[0])
        required = Needs(one.need for one in rejected.verdict.findings)
        known = (self.session.target, rejected.diagnostic.target, wanted)
        near = tuple(
            one.target
            for one in configured_candidates(self.session, self.models, required)
            if one.verdict.ok and one.target not in known
        )[:_AT_HAND]
        self.suggestion = next(iter(near), "") if no_way or not wanted else wanted
        return refused(rejected, no_way, near)

    def _no_way(self, provider: str) -> str:
        try:
            self.models.port(provider)
        except ModelpactError as error:
            return str(error)
        return ""

    def _model(self, name: str) -> ChatMessage:
        if not name:
            if self.suggestion:
                self.proposal = f"/model {self.suggestion}"
                text = f"Suggested: {paint(self.suggestion, 'cyan')}. {self.proposal} takes it."
                return ChatMessage("suggestion", text, {"suggestion": self.suggestion})
            return tables.models(self.session, find_candidates(self.session, self.models, ""))
        return self._switched(self.session.switch_model(name))

    def _provider(self, name: str) -> ChatMessage:
        if not name:
            return tables.providers(self.session, self.models, reachable_providers(self.models))
        return self._switched(self.session.switch_provider(name))

    def _switched(self, done: Switched) -> ChatMessage:
        self.suggestion = ""
        head = f"Now on {paint(done.target, 'cyan')}{_before(done.previous)}.{self.where}"
        return switched(done, head)

    @property
    def where(self) -> str:
        """Where the provider in use is, if the environment says so; else nothing."""
        address = self.models.env_overrides().get(self.session.target.partition("/")[0])
        return "" if address is None else f" It is {address_words(address)}."

    def _machine(self, rest: str) -> ChatMessage:
        configuration = self.models.configuration
        what, _, name = rest.partition(" ")
        if not what:
            return tables.machines(list_machines(configuration), self.session.machine)
        if what == "attach" and name.strip():
            machine = find_machine(name.strip(), configuration)
            done = self.session.attach(machine)
            return switched(done, f"{machine.name} is attached; /needs shows what it requires.")
        if what == "detach" and not name:
            self.session.detach()
            text = f"{paint('✓', 'green')} Detached; what it required is required no longer."
            return ChatMessage("detached", text)
        raise InputError(f"/sm {brief(rest)}: write {COMMANDS['/sm'].usage}")

    def _params(self, rest: str) -> ChatMessage:
        given, taken = read_params(rest)
        if not given and not taken:
            return tables.params(self.session)
        own = self.session.layers.get("/params", {})
        held = self.session.params
        for name in taken:
            if name not in own and name not in held:
                raise InputError(f"/params: {name} is not set; set is {', '.join(held) or 'none'}")
        unset = [name for name in taken if name in own]
        given |= {name: None for name in taken if name not in own}  # hides the layers beneath
        self.session.set_params(given, unset=unset)
        return tables.params(self.session)

    def _audit(self, rest: str) -> ChatMessage:
        if rest not in ("", "why"):
            raise InputError(f"/audit {brief(rest)}: write /audit or /audit why")
        return tables.audit(self.session, self.opener.ledger, why=rest == "why")

    def _new(self, rest: str) -> ChatMessage:
        if rest:
            raise InputError("/new goes alone; /model switches afterwards")
        opened = self.opener.open(self.session.target)
        self.close()
        self._opened, self.session, self.models = opened, opened.session, opened.models
        self.suggestion, self._results = "", []
        text = f"{paint('✓', 'green')} A new session, {opened.session.id}."
        return ChatMessage("session", text, session_data(opened.session, resumed=False))

    def _quit(self, rest: str) -> ChatMessage:
        if rest:
            raise InputError("/quit goes alone")
        self.leaving = True
        return ChatMessage("left", "", {"session": self.session.id})


def session_data(session: Session, *, resumed: bool) -> dict[str, Any]:
    """Return a session for programs."""
    return {
        "session": session.id,
        "target": session.target,
        "resumed": resumed,
        "unanswered": len(session.unanswered),
        "needs": [str(one) for one in session.needs],
    }


def read_params(text: str) -> tuple[dict[str, Any], list[str]]:
    """Read `temperature=0.2 stop=["a b"] -seed`: values are JSON, or else plain words."""
    given: dict[str, Any] = {}
    taken: list[str] = []
    rest = text.strip()
    while rest:
        if rest.startswith("-"):
            word, _, rest = rest[1:].partition(" ")
            taken.append(word)
        else:
            name, equals, rest = rest.partition("=")
            if not equals or not name.strip() or " " in name.strip():
                raise InputError(f"/params {brief(text)}: write NAME=VALUE, or -NAME to unset")
            given[name.strip()], rest = _value(rest)
        rest = rest.lstrip()
    return given, taken


def _value(text: str) -> tuple[Any, str]:
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


def _before(previous: str) -> str:
    return paint(f" (before: {previous})", "dim")


def _help() -> ChatMessage:
    rows = [(paint(one.usage, "cyan"), one.help) for one in COMMANDS.values()]
    keys = paint(
        "Enter sends, Alt-Enter breaks the line, Tab completes. Ctrl-C stops an answer; twice at "
        "an empty prompt, or Ctrl-D, it leaves.",
        "dim",
    )
    data = {"commands": {name: one.usage for name, one in COMMANDS.items()}}
    return ChatMessage("help", table(rows) + f"\n{keys}", data)

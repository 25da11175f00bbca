"""What a fake answers: replies from a script, errors, and faults on the way."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Call:
    """A tool call that the fake makes; `arguments` is its text where it should not be JSON."""

    name: str
    input: Any = field(default_factory=dict)
    id: str = ""
    arguments: str | None = None


@dataclass(frozen=True)
class Fault:
    """How an answer goes wrong, after so many pieces of it: events, or bytes of a whole body."""

    kind: Literal["cut", "drip", "hang", "garbage", "flood"]
    after: int = 0
    seconds: float = 0.0
    data: bytes = b""
    size: int = 0
    clean: bool = False
    """A stream that is cut in order, as if nothing were missing."""


def cut(after: int = 0, *, clean: bool = False) -> Fault:
    """Break off: the connection is closed, or in order with `clean`."""
    return Fault("cut", after, clean=clean)


def drip(seconds: float, size: int = 1) -> Fault:
    """Send so few bytes at a time, with pauses."""
    return Fault("drip", seconds=seconds, size=size)


def hang(after: int = 0, seconds: float = 3600.0) -> Fault:
    """Stop sending, and keep the connection; before the head where `after` is below zero."""
    return Fault("hang", after, seconds=seconds)


def garbage(data: bytes = b"\x00\xff<html>", after: int = 0) -> Fault:
    """Send something else instead of the rest."""
    return Fault("garbage", after, data=data)


def flood(size: int) -> Fault:
    """Send so many bytes."""
    return Fault("flood", size=size)


@dataclass(frozen=True)
class Reply:
    """One answer. What is not said is made up from the request.

    `patch` changes the body, or each event of a stream, before it is sent: that is how to lie.
    `headers` are added to the answer's.
    """

    text: str | None = None
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    refusal: str = ""
    stop: str = ""
    usage: Mapping[str, Any] | None = None
    fault: Fault | None = None
    patch: Callable[[dict[str, Any]], Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fail:
    """An error answer. What is not said is what the API says with that status."""

    status: int
    message: str = ""
    kind: str = ""
    code: str | None = None
    retry_after: float | None = None
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


Step = str | Reply | Fail | Fault
Script = Iterable[Step | Callable[[dict[str, Any]], Step]]


class Scripted:
    """Hands out the steps of a script; at its end, and without one, answers are made up.

    A `behaviour` makes them up from the request.
    """

    def __init__(self, script: Script, behaviour: Callable[[dict[str, Any]], Step] | None = None) -> None:
        self._steps = list(script)
        self._behaviour = behaviour

    def add(self, *steps: Step | Callable[[dict[str, Any]], Step]) -> None:
        """Put more steps at the end."""
        self._steps += steps

    def next(self, body: dict[str, Any]) -> Reply | Fail:
        """Return the next step for a request."""
        step = self._steps.pop(0) if self._steps else self._behaviour or Reply()
        if callable(step):
            step = step(body)
        if isinstance(step, str):
            return Reply(text=step)
        if isinstance(step, Fault):
            return Reply(fault=step)
        return step

"""The bus: delivers every event to its listeners, in order, once the event is durable."""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final

from modelpact.ledger.event import Event

Listener = Callable[[Event], None]
_LOG: Final = logging.getLogger("modelpact.bus")


class Bus:
    """Delivers events to listeners. A listener that fails stops neither delivery nor writing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[tuple[str | None, Listener], ...] = ()
        self._has_listener: dict[str, bool] = {}
        """The answers of `has_listener` so far, by event type."""
        self.failures = 0
        """How many times a listener raised an exception."""

    def subscribe(self, listener: Listener, type_prefix: str | None = None) -> Callable[[], None]:
        """Call `listener` for every event whose type starts with `type_prefix`.

        Returns a function that ends the subscription.
        """
        subscription = (type_prefix, listener)
        with self._lock:
            self._listeners = (*self._listeners, subscription)
            self._has_listener = {}

        def unsubscribe() -> None:
            with self._lock:
                self._listeners = tuple(
                    other for other in self._listeners if other is not subscription
                )
                self._has_listener = {}

        return unsubscribe

    def has_listener(self, event_type: str) -> bool:
        """Tell whether any listener is subscribed to events of a type."""
        answers = self._has_listener
        answer = answers.get(event_type)
        if answer is None:
            answer = answers[event_type] = any(
                prefix is None or event_type.startswith(prefix) for prefix, _ in self._listeners
            )
        return answer

    def publish(self, events: Iterable[Event]) -> None:
        """Deliver events to their listeners, in order."""
        listeners = self._listeners
        if not listeners:
            return
        for event in events:
            for prefix, listener in listeners:
                if prefix is not None and not event.type.startswith(prefix):
                    continue
                try:
                    listener(event)
                except BaseException:  # even SystemExit must not end the thread that writes
                    self.failures += 1
                    _LOG.exception("a listener failed on %s", event.id)

"""The bus: listeners hear of every event after it is durable, in order."""

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
        self._heard: dict[str, bool] = {}
        """Whether somebody listens to a type, as far as that was asked."""
        self.failures = 0

    def subscribe(self, listener: Listener, type_prefix: str | None = None) -> Callable[[], None]:
        """Call the listener for every event (whose type begins so); return how to stop that."""
        entry = (type_prefix, listener)
        with self._lock:
            self._listeners = (*self._listeners, entry)
            self._heard = {}

        def unsubscribe() -> None:
            with self._lock:
                self._listeners = tuple(one for one in self._listeners if one is not entry)
                self._heard = {}

        return unsubscribe

    def hears(self, kind: str) -> bool:
        """Tell whether anybody listens to events of a type."""
        heard = self._heard
        found = heard.get(kind)
        if found is None:
            listeners = self._listeners
            found = any(prefix is None or kind.startswith(prefix) for prefix, _ in listeners)
            heard[kind] = found
        return found

    def publish(self, events: Iterable[Event]) -> None:
        """Tell the listeners of events, in order."""
        listeners = self._listeners
        if not listeners:
            return
        for event in events:
            for prefix, listener in listeners:
                if prefix is not None and not event.type.startswith(prefix):
                    continue
                try:
                    listener(event)
                except BaseException:  # even one that wants to exit must not take the writer along
                    self.failures += 1
                    _LOG.exception("a listener failed on %s", event.id)

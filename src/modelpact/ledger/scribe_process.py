"""The process that writes what a scribe sends it: all that waits shares one commit.

It ends when whoever started it closes the other end of their socket, or dies.
"""

import signal
import socket
import sys
from typing import Any, Final

import msgspec

from modelpact.ledger.placing import Line, Placing
from modelpact.ledger.store import Conflict, LedgerError, LedgerUncertain, open_store
from modelpact.ledger.transaction import Given, NotSo
from modelpact.ledger.wired import Kept, Lost, Stand, Write, framed, unframed

_READ: Final = 256 * 1024
_SENT: Final = msgspec.msgpack.Decoder(Write | Stand)


class _Server:
    def __init__(self, link: socket.socket, placing: Placing) -> None:
        self._link = link
        self._placing = placing
        self._failed = False
        """Whether what is sent is in vain until it was asked where the envelopes stand."""

    def serve(self) -> None:
        come = bytearray()
        while data := self._link.recv(_READ):
            come += data
            waiting: list[Write] = []
            for frame in unframed(come):
                sent = _SENT.decode(frame)
                if isinstance(sent, Write):
                    waiting.append(sent)
                    continue
                self._write(waiting)
                waiting = []
                self._stand(sent)
            self._write(waiting)

    def _write(self, waiting: list[Write]) -> None:
        if self._failed or not waiting:
            return
        lines: list[Line] = []
        givens: dict[tuple[str, ...], Given] = {}
        for one in waiting:
            lines += one.lines
            givens.update({given.fact: given for given in one.givens})
        self._answer(self._tried(len(waiting), lines, list(givens.values())))

    def _tried(self, count: int, lines: list[Line], givens: list[Given]) -> Kept | Lost:
        try:
            self._placing.put(lines, givens)
        except NotSo as error:
            lost = Lost("not so", str(error), error.fact)
        except Conflict as error:
            lost = Lost("conflict", str(error))
        except LedgerUncertain as error:
            lost = Lost("uncertain", str(error))
        except LedgerError as error:
            lost = Lost("unavailable", str(error))
        else:
            return Kept(count)
        self._failed = True
        return lost

    def _stand(self, asked: Stand) -> None:
        try:
            heads = [(name, *self._placing.head(name)[:3]) for name, *_ in asked.heads]
            there = [place for place in asked.events if self._placing.has(*place)]
        except LedgerError as error:
            self._answer(Lost("unavailable", str(error)))
            return
        self._failed = False
        self._answer(Stand(heads, there))

    def _answer(self, told: Any) -> None:
        self._link.sendall(framed(told))


def main() -> None:
    """Serve the socket that is standard input."""
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    link = socket.socket(fileno=0)
    placing = Placing(open_store(sys.argv[1]))
    try:
        _Server(link, placing).serve()
    except (ConnectionError, BrokenPipeError):
        pass  # whoever asked is gone
    finally:
        placing.close()


if __name__ == "__main__":
    main()

"""Sessions: a switch with thirty needs, its diagnostic and its audit record."""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import environment
from modelpact import CAPABILITIES, default_catalog
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger import Draft, Ledger
from modelpact.providers.port import MockProvider
from modelpact.providers.runtime.runtime import Runtime
from modelpact.sessions import ContextProvider, Session, StateMachine, SwitchRejected
from rows import Row, emit
from timing import per_round

SWITCHES = 200
ROUNDS = 7
ONE, OTHER, WORSE = "openai/gpt-4o", "openai/gpt-4.1", "openai/gpt-3.5-turbo-instruct"
PAYLOAD = {"target": OTHER, "previous": ONE, "trigger": "/model"}


def thirty_needs() -> list[ContextProvider]:
    """Needs that both models meet as far as they are hard; some preferred ones are unmet."""
    known = default_catalog()
    names = [capability.id for capability in CAPABILITIES.values() if capability.kind == "flag"]
    met = [n for n in names if all(known.resolve(m).claim(n).support == "native" for m in (ONE, OTHER))]
    unmet = [n for n in names if n not in met]
    needs = [*met[:20], "context>=100k", *(f"{name}:preferred" for name in unmet)][:31]
    return [ContextProvider(f"provider-{n}", needs=(need,)) for n, need in enumerate(needs)]


def opened(url: str) -> tuple[Ledger, Session]:
    ledger = Ledger.open(url)
    models = ModelCaller(Runtime(ledger), ports={"openai": MockProvider()})
    machine = StateMachine("bench", needs=("reasoning:probed",))
    providers = thirty_needs()
    session = Session.open(
        ONE,
        ledger=ledger,
        models=models,
        machine=machine,
        context_providers=providers,
        launch={"temperature": 0.5, "top_k": 4},
    )
    assert len(session.needs) >= 30
    return ledger, session


def switching(session: Session) -> Callable[[], float]:
    def one_round() -> float:
        start = time.perf_counter()
        for _ in range(SWITCHES // 2):
            assert session.switch_model(OTHER).diagnostic is not None
            session.switch_model(ONE)
        return (time.perf_counter() - start) / SWITCHES

    return one_round


def rejecting(session: Session) -> Callable[[], float]:
    def one_round() -> float:
        start = time.perf_counter()
        for _ in range(SWITCHES):
            try:
                session.switch_model(WORSE)
            except SwitchRejected:
                continue
            raise AssertionError("it should not fit")
        return (time.perf_counter() - start) / SWITCHES

    return one_round


def by_processor(one_round: Callable[[], float]) -> Callable[[], float]:
    """Count processor time instead, of all threads: what a busy machine does not change much."""

    def counted() -> float:
        start = time.process_time()
        one_round()
        return (time.process_time() - start) / SWITCHES

    return counted


def appending(ledger: Ledger) -> Callable[[], float]:
    def one_round() -> float:
        start = time.perf_counter()
        for _ in range(SWITCHES):
            ledger.append(Draft("bare", "session.switched", PAYLOAD))
        return (time.perf_counter() - start) / SWITCHES

    return one_round


def measured(folder: Path, where: str) -> list[Row]:
    ledger, session = opened(f"sqlite:{folder / 'sessions.db'}")
    with ledger:
        best = per_round(
            {
                "switch": switching(session),
                "reject": rejecting(session),
                "processor": by_processor(switching(session)),
                "append": appending(ledger),
            },
            rounds=ROUNDS,
        )
    bare = f"one bare append, {where}"
    spent = f"processor time of a switch, {where}"
    return [
        Row(f"switch, 30 needs, {where}", best["switch"], 1e-3, "a millisecond", bar=1),
        Row(spent, best["processor"], 1e-3, "a millisecond", bar=1),
        Row(f"switch, 30 needs, {where}", best["switch"], best["append"], bare, "s", "at most"),
        Row(f"rejected switch, 30 needs, {where}", best["reject"], 1e-3, "a millisecond", bar=1),
    ]


def main() -> None:
    base = environment.ROOT / ".bench"
    base.mkdir(exist_ok=True)
    disk = Path(tempfile.mkdtemp(dir=base, prefix="sessions-"))
    memory = Path("/dev/shm")
    rows = []
    try:
        rows += measured(disk, "on the disk")
        if memory.is_dir():
            folder = Path(tempfile.mkdtemp(dir=memory, prefix="modelpact-"))
            try:
                rows += measured(folder, "in memory")
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(disk, ignore_errors=True)
    emit(
        *rows,
        note=(
            "A switch negotiates thirty needs, makes the diagnostic, and commits the new state "
            "with its events in one transaction, `synchronous=FULL`. On the disk it waits until "
            "that is durable; in memory the same file lies in `/dev/shm`, where waiting is free. "
            f"Least of {ROUNDS} interleaved rounds of {SWITCHES}."
        ),
    )


if __name__ == "__main__":
    main()

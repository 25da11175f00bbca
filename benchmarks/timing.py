"""Measuring on a noisy machine: interleaved rounds, so that all subjects meet the same noise."""

import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

_WARMING = 32


def per_call(work: Mapping[str, Callable[[], object]], rounds: int = 40) -> dict[str, float]:
    """Return the seconds of one call of each: the least over interleaved rounds of many calls."""
    times = {name: _calls_for(call, 0.004) for name, call in work.items()}
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, call in work.items():
            best[name] = min(best[name], _timed(call, times[name]))
    return best


def per_round(work: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the least of what each says that a round of it took."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, one_round in work.items():
            best[name] = min(best[name], one_round())
    return best


def _calls_for(call: Callable[[], object], seconds: float) -> int:
    """Return how many calls fill a round.

    The call is warmed first and the quickest of three counts: a slow first call must not make
    rounds of a single call, which would time cold processor caches instead.
    """
    _timed(call, _WARMING)
    times = _WARMING
    while min(_timed(call, times) for _ in range(3)) * times < seconds:
        times *= 2
    return times


def _timed(call: Callable[[], object], times: int) -> float:
    turns = range(times)
    start = time.perf_counter()
    for _ in turns:
        call()
    return (time.perf_counter() - start) / times


def settle() -> None:
    """Take everything that is loaded out of the garbage collector's sight.

    Collections go on as always, but neither side pays for walking the other's tables.
    """
    gc.collect()
    gc.freeze()


def processes(commands: Mapping[str, Sequence[str]], counts: Mapping[str, int]) -> dict[str, list[float]]:
    """Return the wall times of fresh processes, interleaved; one run of each beforehand."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for command in commands.values():
        _process(command)
    for turn in range(max(counts.values())):
        for name, command in commands.items():
            if turn < counts[name]:
                times[name].append(_process(command))
    return times


def _process(command: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=tempfile.gettempdir())
    return time.perf_counter() - start


def answers(code: str, count: int) -> list[float]:
    """Return the number that a fresh process prints, from each of several processes."""
    return [float(_answer(code)) for _ in range(count)]


def _answer(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=tempfile.gettempdir(),
        env={**os.environ},
    ).stdout


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)

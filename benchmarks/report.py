"""The report: a table on the terminal and `docs/benchmarks.md`."""

import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rows import Row

HEADINGS = {
    "import": "Import",
    "resolve": "Resolve",
    "negotiate": "Negotiate",
    "gate": "The dispatch gate",
    "search": "Search",
    "show": "The command line",
    "emulation": "Emulation",
    "linter": "The linter",
    "memory": "Memory",
    "ledger": "The ledger",
    "invocations": "Invocations",
    "wire": "The wire",
    "sessions": "Sessions",
}
COLUMNS = ("what", "ours", "peer's", "peer", "ratio", "bar", "")


@dataclass(frozen=True)
class Result:
    """What one benchmark found, or why it did not run."""

    name: str
    rows: Sequence[Row] = field(default=())
    note: str = ""
    skipped: str = ""
    failed: str = ""

    @property
    def absent(self) -> str:
        """Why there are no figures, or an empty string."""
        return f"FAILED: {self.failed}" if self.failed else self.skipped and f"skipped: {self.skipped}"


def table(result: Result) -> str:
    """Return one benchmark's rows for a terminal."""
    if result.absent:
        return f"{HEADINGS[result.name]}\n  {result.absent}\n"
    lines = [COLUMNS, *(_cells(row) for row in result.rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(COLUMNS))]
    shown = ["  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    return "\n".join([HEADINGS[result.name], *shown, ""])


def summary(results: Sequence[Result]) -> str:
    """Say in a line how many bars were met, and name those that were not."""
    rows = [row for result in results for row in result.rows if row.bar is not None]
    missed = [row for row in rows if row.verdict == "MISSED"]
    text = f"{len(rows) - len(missed)} of {len(rows)} bars met"
    if missed:
        text += "; MISSED: " + "; ".join(f"{row.what} vs. {row.peer_name}" for row in missed)
    for kind in ("failed", "skipped"):
        named = [result.name for result in results if getattr(result, kind)]
        text += f"; {kind.upper()}: {', '.join(named)}" if named else ""
    return text


def document(results: Sequence[Result], versions: Mapping[str, str]) -> str:
    """Return the page for the documentation."""
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    parts = [
        "# Benchmarks",
        "`make bench` writes this page; do not edit it. Both sides run in one environment, in "
        "interleaved rounds, offline. Where the bar is `≤`, the ratio is ours over the peer's; "
        "where it is `≥`, the peer's over ours.",
        f"{datetime.date.today().isoformat()}, {platform.python_implementation()} "
        f"{platform.python_version()} on {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores; {listed}. Absolute times are this machine's; "
        "compare the ratios.",
        f"**{summary(results)}.**",
    ]
    for result in results:
        parts.append(f"## {HEADINGS[result.name]}")
        if result.absent:
            parts.append(result.absent)
            continue
        lines = [COLUMNS, ("---",) * len(COLUMNS), *(_cells(row) for row in result.rows)]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        parts.append(result.note)
    return "\n\n".join(parts) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    sign = "≤" if row.kind == "at most" else "≥"
    return (
        row.what,
        _shown(row.ours, row.unit),
        _shown(row.peer, row.unit),
        row.peer_name,
        f"{row.ratio:.2f}×" if row.ratio < 10 else f"{row.ratio:,.0f}×",
        "" if row.bar is None else f"{sign} {row.bar:g}×",
        row.verdict,
    )


def _shown(value: float, unit: str) -> str:
    if unit == "B":
        return f"{value / 2**20:.1f} MiB"
    for scale, name in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * scale >= 1:
            return f"{value * scale:.3g} {name}" if value * scale < 1000 else f"{value:.1f} s"
    return f"{value * 1e9:.0f} ns"

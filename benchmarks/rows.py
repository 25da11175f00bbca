"""Rows of the report: what was measured, ours beside a peer's, and the bar."""

import json
from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True)
class Row:
    """One comparison. `at most`: ours over theirs; `at least`: theirs over ours."""

    what: str
    ours: float
    peer: float
    peer_name: str
    unit: Literal["s", "B", "x"] = "s"
    kind: Literal["at most", "at least"] = "at least"
    bar: float | None = None
    """None: shown for context, no bar."""

    @property
    def ratio(self) -> float:
        """Ours over theirs, or theirs over ours: whichever the bar is about."""
        return self.ours / self.peer if self.kind == "at most" else self.peer / self.ours

    @property
    def verdict(self) -> str:
        """`pass`, `MISSED`, or a dash where there is no bar."""
        if self.bar is None:
            return "—"
        good = self.ratio <= self.bar if self.kind == "at most" else self.ratio >= self.bar
        return "pass" if good else "MISSED"


def emit(*rows: Row, note: str = "") -> None:
    """Print the rows for `run.py` to read."""
    print(json.dumps({"rows": [asdict(row) for row in rows], "note": note}))


def emit_skipped(reason: str) -> None:
    """Say that a benchmark cannot run yet."""
    print(json.dumps({"rows": [], "note": "", "skipped": reason}))

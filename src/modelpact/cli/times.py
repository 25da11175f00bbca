"""Times on the command line: how they are read, and how they are shown."""

import re
import time
from datetime import UTC, datetime
from typing import Final

from modelpact.vocabulary.errors import InputError, brief

_SECOND: Final = 10**9
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_AGO: Final = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)


def read_since(text: str, now: int | None = None) -> int:
    """Read `24h`, `7d`, a date or an ISO time (UTC unless it says otherwise) as nanoseconds."""
    ago = _AGO.fullmatch(text.strip())
    if ago:
        moment = time.time_ns() if now is None else now
        return moment - int(ago[1]) * _UNITS[ago[2]] * _SECOND
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(
            f"{brief(text)} is not a time: write 24h, 7d, 2026-11-01 or 2026-11-01T12:00:00Z"
        ) from None
    return from_datetime(found if found.tzinfo else found.replace(tzinfo=UTC))


def from_datetime(moment: datetime) -> int:
    """Return the nanoseconds of a moment, exactly."""
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000


def show_time(nanoseconds: int) -> str:
    """Write a time to the millisecond, in UTC."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{nanoseconds} ns"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest // 1_000_000:03d}"

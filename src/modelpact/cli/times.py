"""Times on the command line: reads them from options, and writes them in UTC."""

import re
import time
from datetime import UTC, datetime
from typing import Final

from modelpact.vocabulary.errors import InputError, brief

_SECOND: Final = 10**9
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_PERIOD: Final = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)


def parse_time(text: str, now: int | None = None) -> int:
    """Return the nanoseconds of `24h` (ago), `7d`, a date, or an ISO time, UTC by default."""
    period = _PERIOD.fullmatch(text.strip())
    if period:
        end = time.time_ns() if now is None else now
        return end - int(period[1]) * _UNIT_SECONDS[period[2]] * _SECOND
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(
            f"{brief(text)} is not a time: write 24h, 7d, 2026-11-01 or 2026-11-01T12:00:00Z"
        ) from None
    return _nanoseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _nanoseconds(moment: datetime) -> int:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000


def format_time(nanoseconds: int) -> str:
    """Write a time to the millisecond, in UTC."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{nanoseconds} ns"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest // 1_000_000:03d}"

"""The envelopes of a gateway: one for each process, workload and day."""

import datetime
import secrets
from typing import Final

_SECOND: Final = 1_000_000_000
_DAY_S: Final = 86_400


class DailyEnvelopes:
    """Names the envelopes that a gateway process writes to today."""

    def __init__(self, name: str) -> None:
        self._prefix = f"gateway/{name}-{secrets.token_hex(3)}/"
        self._day = ""
        self.until = 0
        """When today ends, in nanoseconds."""

    def rotate(self, now: int) -> None:
        """Begin the day of a time."""
        moment = datetime.datetime.fromtimestamp(now / 1e9, datetime.UTC)
        midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        self.until = (int(midnight.timestamp()) + _DAY_S) * _SECOND
        self._day = midnight.date().isoformat()

    def today(self, workload: str) -> str:
        """Return the envelope of a workload."""
        return f"{self._prefix}{workload}/{self._day}"

    def is_current(self, envelope: str) -> bool:
        """Tell whether more may be written to an envelope."""
        return envelope.endswith(self._day) and envelope.startswith(self._prefix)

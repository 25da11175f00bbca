"""Metrics: what the gateway did since it started, as Prometheus reads it."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """Counts requests by API, status and verdict, and how long their answers took to begin."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, int, str], int] = {}
        self._times: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        self.under_way = 0

    def count(self, api: str, status: int, verdict: str, seconds: float) -> None:
        """Count a request when its answer begins."""
        key = (api, status, verdict)
        self._requests[key] = self._requests.get(key, 0) + 1
        times = self._times.get(api)
        if times is None:
            times = self._times[api] = [0] * (len(_BUCKETS) + 1)
        times[bisect_left(_BUCKETS, seconds)] += 1
        self._sums[api] = self._sums.get(api, 0.0) + seconds

    def text(self, connections: int) -> str:
        """Write everything in Prometheus' text format."""
        return "\n".join([*self._lines(connections), ""])

    def _lines(self, connections: int) -> Iterator[str]:
        yield "# HELP modelpact_requests_total Requests by API, status and verdict."
        yield "# TYPE modelpact_requests_total counter"
        for (api, status, verdict), count in sorted(self._requests.items()):
            labels = f'api="{api}",status="{status}",verdict="{verdict}"'
            yield f"modelpact_requests_total{{{labels}}} {count}"
        yield "# HELP modelpact_answer_seconds Time until an answer begins."
        yield "# TYPE modelpact_answer_seconds histogram"
        for api, times in sorted(self._times.items()):
            total = 0
            for bound, count in zip((*map(str, _BUCKETS), "+Inf"), times, strict=True):
                total += count
                yield f'modelpact_answer_seconds_bucket{{api="{api}",le="{bound}"}} {total}'
            yield f'modelpact_answer_seconds_sum{{api="{api}"}} {self._sums[api]:.6f}'
            yield f'modelpact_answer_seconds_count{{api="{api}"}} {total}'
        yield "# HELP modelpact_requests_under_way Requests that wait for their answer to begin."
        yield "# TYPE modelpact_requests_under_way gauge"
        yield f"modelpact_requests_under_way {self.under_way}"
        yield "# HELP modelpact_connections Open connections of clients."
        yield "# TYPE modelpact_connections gauge"
        yield f"modelpact_connections {connections}"

"""A host on its own port, in a thread, and a client for it."""

import asyncio
import contextlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from modelpact.configuration import Configuration
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger.ledger import Ledger
from modelpact.needs.dialects import Pack
from modelpact.openwop.executor import Executor
from modelpact.openwop.host import Host, running_host
from modelpact.openwop.routes import Authorise, HostRoutes
from modelpact.providers.port import ModelPort
from modelpact.providers.runtime.runtime import Runtime
from modelpact.wire import EventParser, HttpRequest, serve

TOKEN = "t" * 12
JSON = {"content-type": "application/json"}


def one_token(request: HttpRequest) -> str | None:
    """Accept requests with the token."""
    return "" if request.headers.get("authorization") == f"Bearer {TOKEN}" else None


class HostClient:
    """Asks a host over real HTTP."""

    def __init__(self, url: str, token: str = TOKEN, host: Host | None = None) -> None:
        self.url = url
        self.token = token
        self._host = host

    @property
    def host(self) -> Host:
        """The host itself, where it runs in this process."""
        assert self._host is not None
        return self._host

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any, Mapping[str, str]]:
        """Return status, JSON body and headers."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {**JSON, **({"authorization": f"Bearer {self.token}"} if self.token else {})}
        request = urllib.request.Request(self.url + path, data, {**sent, **(headers or {})}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, _read(answer.read()), _lower(answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _read(error.read()), _lower(error.headers)

    def start(self, **body: Any) -> str:
        """Start a run and return its id."""
        status, answer, _ = self.ask("POST", "/v1/runs", body)
        assert status == 201, answer
        assert set(answer) == {"runId", "status"}
        run_id: str = answer["runId"]
        return run_id

    def finished(self, run: str) -> dict[str, Any]:
        """Follow a run to its end and return its snapshot."""
        self.stream(run)
        status, answer, _ = self.ask("GET", f"/v1/runs/{run}")
        assert status == 200
        assert answer["status"] in ("completed", "failed"), answer
        snapshot: dict[str, Any] = answer
        return snapshot

    def events(self, run: str) -> list[dict[str, Any]]:
        """Return a run's events as JSON."""
        status, answer, _ = self.ask("GET", f"/v1/runs/{run}/events", headers=_ACCEPT_JSON)
        assert status == 200
        events: list[dict[str, Any]] = answer["events"]
        return events

    def stream(self, run: str, last: str = "") -> list[dict[str, Any]]:
        """Read a run's events as a stream, until it ends."""
        headers = {"accept": "text/event-stream", "authorization": f"Bearer {self.token}"}
        if last:
            headers["last-event-id"] = last
        request = urllib.request.Request(f"{self.url}/v1/runs/{run}/events", None, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            events = EventParser().feed(answer.read())
        for event in events:
            data = json.loads(event.data)
            assert (event.event, event.id) == (data["type"], data["eventId"])
        return [json.loads(event.data) for event in events]


_ACCEPT_JSON = {"accept": "application/json"}


def types(events: list[dict[str, Any]]) -> list[str]:
    """Return the types of events, in order."""
    return [event["type"] for event in events]


@contextlib.contextmanager
def serving(
    ledger: Ledger,
    ports: Mapping[str, ModelPort],
    *,
    configuration: Configuration | None = None,
    packs: tuple[Pack, ...] = (),
    conformance: bool = False,
    executors: Mapping[str, Executor] | None = None,
    authorise: Authorise = one_token,
) -> Iterator[HostClient]:
    """Serve a host with these models from a thread of its own."""
    configuration = configuration or Configuration()

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[HostClient]:
        models = ModelCaller(Runtime(ledger), configuration=configuration, ports=ports, environment={})
        host = Host(ledger, models, settings=configuration.host, packs=packs, executors=executors)
        async with running_host(host):
            surface = HostRoutes(host, authorise, conformance=conformance)
            async with await serve(surface, "127.0.0.1", 0) as server:
                yield HostClient(f"http://127.0.0.1:{server.port}", host=host)

    with in_thread(opened) as client:
        yield client


@contextlib.contextmanager
def in_thread(opened: Callable[[], contextlib.AbstractAsyncContextManager[HostClient]]) -> Iterator[HostClient]:
    """Keep open on a loop in a thread what is to be asked from this one."""
    loop = asyncio.new_event_loop()
    started = threading.Event()
    shared: dict[str, Any] = {}

    async def run() -> None:
        stop = shared["stop"] = asyncio.Event()
        async with opened() as client:
            shared["client"] = client
            started.set()
            await stop.wait()

    def work() -> None:
        try:
            loop.run_until_complete(run())
        except BaseException as error:
            shared["error"] = error
            started.set()
            raise
        finally:
            loop.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert started.wait(30)
    if "error" in shared:
        raise shared["error"]
    try:
        yield shared["client"]
    finally:
        loop.call_soon_threadsafe(shared["stop"].set)
        thread.join(30)
        assert not thread.is_alive()


def _read(data: bytes) -> Any:
    return json.loads(data) if data else None


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}

"""Updates for one user: what is not a newer catalog is refused, and nothing outside is touched."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from modelpact.catalog.build import LINEAGES
from modelpact.catalog.update import update
from modelpact.vocabulary.errors import InputError, ProblemsError


def lineage(name: str = "litellm", date: str = "2099-01-01", rows: int = 5) -> bytes:
    header = {"lineage": name, "version": "1", "date": date, "licence": "MIT", "url": "x"}
    facts = [{"provider": "openai", "model": f"m{n}", "caps": {}} for n in range(rows)]
    return b"".join(json.dumps(row).encode() + b"\n" for row in (header, *facts))


def test_a_file_with_far_fewer_models_is_refused_unless_forced(tmp_path: Path) -> None:
    source = tmp_path / "litellm.jsonl"
    source.write_bytes(lineage())
    with pytest.raises(InputError, match="only 5 models"):
        update(str(source), folder=tmp_path / "user")
    assert not (tmp_path / "user").exists()
    assert update(str(source), folder=tmp_path / "user", force=True).rows == 5


@pytest.mark.parametrize("content", [b"{}", b'{"a": 5}', b"[]", b"[" * 100_000, b"\xff", b""])
def test_malformed_input_is_an_input_error(tmp_path: Path, content: bytes) -> None:
    source = tmp_path / "litellm.json"
    source.write_bytes(content)
    with pytest.raises((InputError, ProblemsError)):
        update(str(source), folder=tmp_path / "user")


@pytest.mark.parametrize(("name", "date"), [("../../pwned", "2099-01-01"), ("litellm", "zzzz")])
def test_a_lineage_header_with_a_path_or_an_invalid_date_is_refused(tmp_path: Path, name: str, date: str) -> None:
    source = tmp_path / "x.jsonl"
    source.write_bytes(lineage(name, date))
    with pytest.raises((InputError, ProblemsError)):
        update(str(source), folder=tmp_path / "deep" / "user", force=True)
    assert list(tmp_path.rglob("pwned*")) == []


@contextmanager
def server(status: int, headers: dict[str, str], body: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{served.server_address[1]}/litellm.jsonl"
        served.shutdown()
        thread.join()


def test_a_newer_file_over_http_from_this_machine(tmp_path: Path) -> None:
    body = (LINEAGES / "litellm.jsonl").read_bytes()
    with server(200, {"Content-Length": str(len(body))}, body) as url:
        assert update(url, folder=tmp_path / "user").lineage == "litellm"


def test_an_answer_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    with (
        server(200, {"Content-Length": "100"}, b"{}") as url,
        pytest.raises(InputError, match=r"cut off|cannot be fetched"),
    ):
        update(url, folder=tmp_path / "user")


def test_a_redirect_to_plain_http_is_not_followed(tmp_path: Path) -> None:
    with (
        server(302, {"Location": "http://127.0.0.2/x.json"}, b"") as url,
        pytest.raises(InputError, match="not followed"),
    ):
        update(url, folder=tmp_path / "user")


def test_a_password_in_a_url_is_not_shown(tmp_path: Path) -> None:
    password = "hunter" + "2" * 6
    with pytest.raises(InputError) as caught:
        update(f"http://user:{password}@example.org/x.json", folder=tmp_path)
    assert password not in str(caught.value)

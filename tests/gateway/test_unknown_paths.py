"""Errors on unknown paths have the format of the client's API."""

import pytest

from tests.gateway.support import RunningGateway

ANTHROPIC = {"anthropic-version": "2023-06-01"}


@pytest.mark.parametrize("path", ["/v1/messages/batches", "/v1/messages/", "/v1/messages/x/y"])
def test_errors_under_messages_have_anthropics_format(gateway: RunningGateway, path: str) -> None:
    answer = gateway.ask(path, {})
    assert answer.status == 404
    assert answer.json == {
        "type": "error",
        "error": {"type": "not_found_error", "message": f"POST {path}: no such path"},
    }


def test_errors_for_anthropic_clients_have_anthropics_format(gateway: RunningGateway) -> None:
    for path, status in (("/v1/files", 404), ("/v1/models/nobody-has-it", 404)):
        answer = gateway.ask(path, None, ANTHROPIC, method="GET")
        assert (answer.status, answer.json["type"]) == (status, "error")
    wrong = gateway.ask("/v1/messages", None, method="GET")
    assert (wrong.status, wrong.json["error"]["type"]) == (405, "invalid_request_error")


@pytest.mark.parametrize("path", ["/v1/files", "/v1/completions", "/v1", "/elsewhere", "/v1/run"])
def test_other_errors_have_openais_format(gateway: RunningGateway, path: str) -> None:
    answer = gateway.ask(path, {})
    assert (answer.status, answer.json["error"]["code"]) == (404, "not_found")
    assert answer.json["error"]["message"] == f"POST {path}: no such path"


@pytest.mark.parametrize("path", ["/v1/runs/x/y", "/v1/host/sample/x", "/.well-known/other"])
def test_errors_of_the_host_have_its_format(gateway: RunningGateway, path: str) -> None:
    answer = gateway.ask(path, None, method="GET")
    assert (answer.status, answer.json["error"]) == (404, "not_found")


@pytest.mark.parametrize("path", ["/v1/messages/batches", "/v1/files", "/elsewhere"])
def test_unknown_paths_need_a_key(gateway: RunningGateway, path: str) -> None:
    assert gateway.ask(path, {}, key="wrong").status == 401

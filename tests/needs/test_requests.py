"""What a chat request asks for: bodies that are none are told what is wrong."""

from typing import Any

import pytest

from modelpact.needs.requests import read_features
from modelpact.vocabulary.errors import InputError


@pytest.mark.parametrize("tools", [True, 3, "web_search", {"type": "function"}])
def test_tools_of_a_response_are_a_list(tools: Any) -> None:
    with pytest.raises(InputError, match="tools: expected a list"):
        read_features("openai-responses", {"model": "m", "input": "Hi", "tools": tools})


def test_hosted_tools_are_capabilities_of_their_own() -> None:
    tools = [{"type": "web_search"}, {"type": "function", "name": "now"}]
    features = read_features("openai-responses", {"model": "m", "input": "Hi", "tools": tools})
    assert features.uses == (("web-search", "tools"), ("tool-calling", "tools"))

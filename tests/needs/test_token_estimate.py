"""Token estimates: characters, images and limits of a request."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelpact.conversation.message import ImageBlock, Message, TextBlock
from modelpact.conversation.request import Request
from modelpact.needs.token_estimate import (
    TOKENS_PER_MEDIUM,
    TYPICAL_OUTPUT,
    RequestSize,
    expected_usage,
    measure_body,
    output_tokens,
    prompt_tokens,
    request_tokens,
    stream_tokens,
    tokens_for,
)


@given(st.integers(0, 10_000))
def test_four_characters_are_a_token_rounded_up(characters: int) -> None:
    assert tokens_for(characters) * 4 >= characters > (tokens_for(characters) - 1) * 4


def test_a_stream_has_at_least_one_token() -> None:
    assert (stream_tokens(0), stream_tokens(400)) == (1, 10)


def test_media_count_the_same_whatever_their_length() -> None:
    def body(data: str) -> dict[str, Any]:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        return {"messages": [{"role": "user", "content": [image]}]}

    assert measure_body(body("AAAA")) == measure_body(body("A" * 100_000))
    assert prompt_tokens(RequestSize(0, 2)) == 2 * TOKENS_PER_MEDIUM


def test_scripts_with_more_bytes_have_more_tokens() -> None:
    latin = measure_body({"input": "abcd"}).characters
    greek = measure_body({"input": "αβγδ"}).characters
    assert greek == 2 * latin


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_the_limit_of_a_body_is_read(name: str) -> None:
    assert measure_body({"input": "x", name: 7}).output == 7
    assert measure_body({"input": "x", name: "7"}).output is None


def test_an_answer_without_a_limit_has_a_typical_length() -> None:
    assert output_tokens(None, None) == TYPICAL_OUTPUT
    assert output_tokens(None, 100) == 100
    assert output_tokens(None, 100_000) == TYPICAL_OUTPUT
    assert output_tokens(5_000, 100) == 5_000


def test_a_request_in_the_conversation_model_is_estimated() -> None:
    image = ImageBlock(media_type="image/png", data="A" * 10_000)
    request = Request("m", (Message("user", (TextBlock("x" * 400), image)),))
    tokens = request_tokens(request)
    assert TOKENS_PER_MEDIUM + 100 <= tokens <= TOKENS_PER_MEDIUM + 120
    assert expected_usage(request, 50).output == 50

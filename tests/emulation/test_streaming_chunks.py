"""Chunks: pieces of words in any script that together are the text."""

import unicodedata
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given

from modelpact.emulation.streaming import split_chunks


@given(st.text())
def test_the_pieces_together_are_the_text(text: str) -> None:
    """MP-E7: the pieces, joined, equal the text."""
    assert "".join(split_chunks(text)) == text


@given(st.text())
def test_no_piece_is_empty(text: str) -> None:
    assert all(split_chunks(text))


@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=9)))
def test_short_words_stay_whole(words: list[str]) -> None:
    assert [piece.strip() for piece in split_chunks(" ".join(words))] == words


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000,
        "日本語の文章には空白がない。" * 40,
        "ภาษาไทยเขียนติดกัน" * 40,
        " " * 1_000,
        "\r\n" * 500,
        "👩‍👩‍👧‍👦" * 50,
        "👍🏽" * 100,
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f" * 30,
        "e\u0301\u0323" * 100,
        "한글" * 50,
        unicodedata.normalize("NFD", "한글" * 50),
        "क्षत्रिय" * 40,
    ],
)
def test_long_runs_are_cut_between_characters(text: str) -> None:
    pieces = list(split_chunks(text))
    assert "".join(pieces) == text
    assert len(pieces) > 1
    for piece in pieces[1:]:
        assert not unicodedata.combining(piece[0])
        assert piece[0] not in "\u200d\ufe0f\U0001f3fd\U000e0067\U000e007f"
    assert all(not (a[-1] == "\r" and b[0] == "\n") for a, b in pairwise(pieces))


def test_a_flag_is_never_halved() -> None:
    assert list(split_chunks("🇫🇷" * 30)) == ["🇫🇷" * 30]


def test_ten_megabytes_without_a_space() -> None:
    text = "a" * 10_000_000
    assert sum(len(piece) for piece in split_chunks(text)) == len(text)

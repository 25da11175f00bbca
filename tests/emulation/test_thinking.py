"""Thinking: split from the answer, the same however it is streamed."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from modelpact.emulation.streaming import THINKING_PROMPT, ThinkingSplitter, split_thinking
from tests.emulation.chunkings import chunked, every_chunking

Split = tuple[str, str]


def streamed(chunks: list[str]) -> Split:
    splitter = ThinkingSplitter()
    pieces = [piece for chunk in chunks for piece in splitter.feed(chunk)] + splitter.finish()
    assert all(text for _, text in pieces)
    thinking = "".join(text for is_thinking, text in pieces if is_thinking)
    return thinking, "".join(text for is_thinking, text in pieces if not is_thinking)


CASES: dict[str, tuple[str, Split]] = {
    "both": ("<thinking>Hm.</thinking>Yes.", ("Hm.", "Yes.")),
    "on lines": ("<thinking>\n\nA\n\nB\n\n</thinking>\n\nYes.\n", ("A\n\nB", "Yes.\n")),
    "space before": (" \n <thinking>Hm.</thinking> Yes.", ("Hm.", "Yes.")),
    "no thinking": ("Yes.", ("", "Yes.")),
    "no answer": ("<thinking>Hm.</thinking>\n", ("Hm.", "")),
    "empty thinking": ("<thinking>\n</thinking>Yes.", ("", "Yes.")),
    "nothing": ("", ("", "")),
    "space alone": (" \n", ("", " \n")),
    "cut off": ("<thinking>Hm. But\n", ("Hm. But\n", "")),
    "cut off in the tag": ("<thinking>Hm.</thin", ("Hm.</thin", "")),
    "cut off in the first tag": ("<thin", ("", "<thin")),
    "not at the beginning": ("Well, <thinking>Hm.</thinking>", ("", "Well, <thinking>Hm.</thinking>")),
    "nearly": ("<thinkin g>Hm.", ("", "<thinkin g>Hm.")),
    "a false end": ("<thinking>a</think b\n</thinking>Yes.", ("a</think b", "Yes.")),
    "twice": ("<thinking>A</thinking><thinking>B</thinking>Yes.", ("A", "<thinking>B</thinking>Yes.")),
    "inside one another": ("<thinking>A<thinking>B</thinking>Yes.", ("A<thinking>B", "Yes.")),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_split(text: str, expected: Split) -> None:
    assert split_thinking(text) == expected
    assert streamed(list(text)) == expected
    for start in range(len(text)):
        assert streamed([text[:start], text[start:]]) == expected


@pytest.mark.parametrize("text", ["<thinking>", "\n<thinkin", "a\n<thinking>"])
def test_every_chunking_of_a_beginning(text: str) -> None:
    for chunks in every_chunking(text):
        assert streamed(chunks) == split_thinking(text)


tagged = st.lists(
    st.sampled_from(["<thinking>", "</thinking>", "<", "</", "think", "\n", " ", "a", "é", "👩‍👧"]), max_size=12
).map("".join)


@given(chunked(st.one_of(tagged, tagged.map("<thinking>".__add__))))
def test_every_chunking_equals_one_shot(case: tuple[str, list[str]]) -> None:
    text, chunks = case
    assert streamed(chunks) == split_thinking(text)


@given(tagged)
def test_nothing_but_tags_and_space_is_lost(text: str) -> None:
    thinking, answer = split_thinking(text)
    left = text.replace("<thinking>", "", 1) if thinking or not answer else text
    for part in (thinking, answer):
        assert part in text
    assert len(thinking) + len(answer) <= len(text)
    assert left.replace("\n", "").replace(" ", "").startswith(thinking.replace("\n", "").replace(" ", ""))


def test_thinking_is_passed_on_as_it_comes() -> None:
    splitter = ThinkingSplitter()
    assert splitter.feed("<thinking>First") == [(True, "First")]
    assert splitter.feed(", then <") == [(True, ", then ")]
    assert splitter.feed("/thinking>A") == [(False, "A")]


def test_the_prompt_names_the_tags() -> None:
    """S002-9-1: the prompt, and where to put the thinking."""
    assert THINKING_PROMPT.startswith("Think step by step before answering.")
    assert "<thinking>" in THINKING_PROMPT
    assert "</thinking>" in THINKING_PROMPT


def test_endless_newlines_and_space_cost_in_proportion() -> None:
    """Quadratic work on a hundred thousand pieces would not come back in time."""
    assert streamed(["<thinking>a", *("\n" * 100_000), "b</thinking>"])[0] == f"a{chr(10) * 100_000}b"
    assert streamed([*(" " * 100_000), "Yes."]) == ("", f"{' ' * 100_000}Yes.")

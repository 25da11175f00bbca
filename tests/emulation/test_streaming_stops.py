"""Stop sequences: streamed text is cut exactly where a provider would have stopped."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from modelpact.emulation.streaming import StopScanner, first_stop
from modelpact.vocabulary.errors import InputError
from tests.emulation.chunkings import chunked, every_chunking

Cut = tuple[str, str]


def generated(text: str, stops: list[str]) -> Cut:
    """Write the text character by character, as a provider does, and stop when one is complete."""
    written = ""
    for character in text:
        written += character
        done = [stop for stop in stops if written.endswith(stop)]
        if done:
            stop = max(done, key=len)
            return written.removesuffix(stop), stop
    return written, ""


def at_once(text: str, stops: list[str]) -> Cut:
    cut = first_stop(text, stops)
    return (text, "") if cut is None else (text[: cut[0]], cut[1])


def streamed(chunks: list[str], stops: list[str]) -> Cut:
    scanner = StopScanner(stops)
    passed_on = "".join([scanner.feed(chunk) for chunk in chunks])
    return passed_on + scanner.finish(), scanner.stopped_by


CASES: dict[str, tuple[str, list[str], Cut]] = {
    "none": ("hello", ["X"], ("hello", "")),
    "at the end": ("hello\n", ["\n"], ("hello", "\n")),
    "in the middle": ("one END two", [" END"], ("one", " END")),
    "at the beginning": ("END", ["END"], ("", "END")),
    "the first of several": ("a b c", ["c", "b"], ("a ", "b")),
    "the one that ends first": ("xabcd", ["abcd", "bc"], ("xa", "bc")),
    "the longer of two that end together": ("xabc", ["bc", "abc", "c"], ("x", "abc")),
    "prefixes of one another": ("xaab", ["aa", "aab"], ("x", "aa")),
    "a false start": ("aaab", ["aab"], ("a", "aab")),
    "a false start at the end": ("see </", ["</s>"], ("see </", "")),
    "overlap with itself": ("abababac", ["ababac"], ("ab", "ababac")),
    "given twice": ("a.b", [".", "."], ("a", ".")),
    "outside the basic plane": ("hi 👩‍👩‍👧!", ["‍👧"], ("hi 👩‍👩", "‍👧")),
    "a combining mark": ("cafe\u0301", ["\u0301"], ("cafe", "\u0301")),
    "signs of patterns": ("a]^-\\b", ["]^-\\"], ("a", "]^-\\")),
}


@pytest.mark.parametrize(("text", "stops", "cut"), CASES.values(), ids=CASES)
def test_every_chunking_gives_the_same(text: str, stops: list[str], cut: Cut) -> None:
    """MP-E7: exact truncation, also across chunks."""
    assert generated(text, stops) == at_once(text, stops) == cut
    for chunks in every_chunking(text):
        assert streamed(chunks, stops) == cut, chunks


letters = st.text("ab", max_size=24)
stop_lists = st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=4)


@given(chunked(letters), stop_lists)
def test_stop_truncation_equals_the_one_shot_result(case: tuple[str, list[str]], stops: list[str]) -> None:
    """MP-E7: stop truncation is the same for every chunking."""
    text, chunks = case
    expected = generated(text, stops)
    assert at_once(text, stops) == expected
    assert streamed(chunks, stops) == expected


@given(chunked(st.text(max_size=20)), st.lists(st.text(min_size=1, max_size=3), min_size=1))
def test_any_characters(case: tuple[str, list[str]], stops: list[str]) -> None:
    text, chunks = case
    assert streamed(chunks, stops) == at_once(text, stops) == generated(text, stops)


@given(chunked(letters), stop_lists)
def test_nothing_that_was_passed_on_is_taken_back(case: tuple[str, list[str]], stops: list[str]) -> None:
    text, chunks = case
    whole = generated(text, stops)[0]
    scanner = StopScanner(stops)
    seen = ""
    for chunk in chunks:
        seen += scanner.feed(chunk)
        assert whole.startswith(seen)
    assert seen + scanner.finish() == whole


def test_no_more_is_held_back_than_may_be_a_stop() -> None:
    scanner = StopScanner(["STOP", "\n\n"])
    assert scanner.feed("all of it") == "all of it"
    assert scanner.feed("one\n") == "one"
    assert scanner.feed("two ST") == "\ntwo "
    assert scanner.feed("ART") == "START"


def test_after_the_stop_nothing_comes() -> None:
    scanner = StopScanner(["."])
    assert scanner.feed("a.b") == "a"
    assert scanner.feed("c") == scanner.finish() == ""
    assert scanner.stopped_by == "."


def test_without_stops_everything_passes() -> None:
    assert streamed(["a", "", "b"], []) == ("ab", "")


@pytest.mark.parametrize("stops", [[""], ["a", ""], [5], [None]])
def test_a_stop_is_a_text_that_is_not_empty(stops: list[str]) -> None:
    with pytest.raises(InputError, match="not empty"):
        StopScanner(stops)

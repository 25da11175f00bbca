"""JSON in prose: found wherever a model puts it, parsed strictly, and never a part of it."""

import json
import sys
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from modelpact.emulation import json_text
from modelpact.emulation.json_text import LARGEST_TEXT, NoJson, find_json, parse_strict

FOUND: dict[str, tuple[str, Any]] = {
    "alone": ('{"a": 1}', {"a": 1}),
    "with space around": ('\n\t {"a": 1} \n', {"a": 1}),
    "a list": ("[1, 2]", [1, 2]),
    "a number": ("42", 42),
    "a text": ('"yes"', "yes"),
    "null": ("null", None),
    "after prose": ('Here you are: {"a": 1}', {"a": 1}),
    "between prose": ('Sure!\n{"a": {"b": [1]}}\nHope it helps {or not}.', {"a": {"b": [1]}}),
    "in a fence": ('```\n{"a": 1}\n```', {"a": 1}),
    "in a named fence": ('So:\n```json\n{"a": 1}\n```\nDone.', {"a": 1}),
    "in a fence of capitals": ('```JSON  \r\n{"a": 1}\r\n```', {"a": 1}),
    "in a fence that does not end": ('```json\n{"a": 1}', {"a": 1}),
    "in a fence on one line": ('```json {"a": 1}```', {"a": 1}),
    "fences inside": ('```json\n{"code": "```py\\nx\\n```"}\n```', {"code": "```py\nx\n```"}),
    "after another language": ('```python\nx = [n for n in y]\n```\n{"a": 1}', {"a": 1}),
    "brackets inside texts": ('x {"a": "}]{["} y', {"a": "}]{["}),
    "quotes inside texts": (r'x {"a": "\"}\\"} y', {"a": '"}\\'}),
    "after a placeholder": ('Dear {name}, [see below]: {"a": 1}', {"a": 1}),
    "after quotes that do not end": ('The 5" screen: {"a": 1}', {"a": 1}),
    "after a broken try": ('{"a": 1,} - sorry: {"a": 2}', {"a": 2}),
    "after pseudo code": ('{a: {"b": 1}} means {"c": 2}', {"c": 2}),
    "with a byte order mark": ('\ufeff{"a": 1}', {"a": 1}),
    "any script": ('答え：{"町": "東京", "🙂": "שלום"}。', {"町": "東京", "🙂": "שלום"}),
    "escapes": (r'{"a": "\u00e9\ud83d\ude00"}', {"a": "é😀"}),
    "an empty object": ("so: {}", {}),
    "large numbers": ("[123456789012345678901234567890]", [123456789012345678901234567890]),
}


@pytest.mark.parametrize(("text", "value"), FOUND.values(), ids=FOUND)
def test_json_is_found(text: str, value: Any) -> None:
    match = find_json(text)
    assert match.value == value
    assert json.loads(match.text) == value
    assert match.text in text


NOT_FOUND: dict[str, tuple[str, str]] = {
    "nothing": ("", "empty"),
    "space": (" \n\u3000", "empty"),
    "prose": ("I would rather not.", "no JSON"),
    "brackets of prose": ("a [b] {c} (d)", "no JSON"),
    "cut off": ('{"a": {"b": 1}, "c": ', "not JSON"),
    "cut off in a text": ('Here: {"a": [{"b": 1}], "c": "x', "Unterminated"),
    "a key twice": ('{"a": 1, "b": {"c": 1}, "a": 2}', "the key 'a' occurs twice"),
    "a key twice inside": ('Hm: {"b": {"c": 1, "c": 1}}', "the key 'c' occurs twice"),
    "a trailing comma": ('{"a": {"b": 1},}', "not JSON"),
    "single quotes": ("{'a': {\"b\": 1}}", "not JSON"),
    "NaN": ('{"a": NaN}', "NaN is not JSON"),
    "infinity": ("[-Infinity]", "-Infinity is not JSON"),
    "too large a number": ('{"a": 1e999}', "too large"),
    "too long a number": (f"[{'9' * 5000}]", "cannot|can be read"),
    "two values": ("1 2", "no JSON"),
    "too deep": ("[" * 100_000, "nested too deeply"),
    "too deep, and closed": ("[" * 300 + "]" * 300, "nested too deeply"),
    "too deep objects": ('{"a":' * 5_000 + "1" + "}" * 5_000, "nested too deeply"),
}


@pytest.mark.parametrize(("text", "message"), NOT_FOUND.values(), ids=NOT_FOUND)
def test_no_json_says_why(text: str, message: str) -> None:
    with pytest.raises(NoJson, match=message):
        find_json(text)


def test_a_10_mb_answer_is_refused() -> None:
    """A response of 10 MB is refused."""
    with pytest.raises(NoJson, match="10,000,000 characters"):
        find_json("x" * 10_000_000)
    assert LARGEST_TEXT < 10_000_000


def test_of_several_the_wanted_one() -> None:
    text = 'As [1] says, e.g. {"a": "x"}:\n```json\n{"schema": true}\n```\n{"a": 1}'
    assert find_json(text).value == {"schema": True}
    assert find_json(text, lambda value: value == {"a": 1}).value == {"a": 1}
    assert find_json(text, lambda value: False).value == {"schema": True}


def test_nesting_within_reason_is_fine() -> None:
    text = "[" * 200 + "]" * 200
    assert find_json(f"so {text}").text == text


prose = st.text(st.characters(exclude_characters='{}[]`"', exclude_categories=["Cs"]), max_size=60)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
containers = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner), max_leaves=20
).filter(lambda value: isinstance(value, (dict, list)))


@given(prose, containers, prose, st.booleans(), st.sampled_from([None, 2]))
def test_any_json_in_prose_is_found(before: str, value: Any, after: str, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    match = find_json(f"{before}{text}{after}")
    assert match.value == value
    assert match.text == text


@given(prose, containers, prose, st.sampled_from(["", "json", " JSON"]), st.sampled_from(["\n", "\r\n"]))
def test_any_json_in_a_fence_is_found(before: str, value: Any, after: str, word: str, line: str) -> None:
    text = json.dumps(value)
    assert find_json(f"{before}```{word}{line}{text}{line}```{after}").value == value


pieces = st.lists(
    st.sampled_from(
        [
            "{",
            "}",
            "[",
            "]",
            '"',
            "\\",
            "```",
            "json",
            "\n",
            " ",
            ",",
            ":",
            "1",
            "-",
            "a",
            "null",
            "NaN",
            "'",
            "é",
            "\ud800",
            '{"a":',
            '"a"',
            "1e999",
            "\u0000",
            "😀",
        ]
    ),
    max_size=40,
).map("".join)


@given(st.one_of(st.text(), pieces))
@example("```")
@example("{" * 2000)
def test_nothing_but_no_json_is_raised(text: str) -> None:
    """Whatever is found stands in the answer, and is JSON to every strict reader."""
    try:
        match = find_json(text)
    except NoJson:
        return
    assert match.text in text
    assert parse_strict(match.text) == match.value == json.loads(match.text)


@given(containers, st.data())
def test_a_part_is_never_taken_for_the_answer(value: Any, data: st.DataObject) -> None:
    """An answer that was cut off is no answer, even where a part of it is JSON."""
    text = json.dumps(value)
    cut = data.draw(st.integers(1, max(1, len(text) - 1)))
    with pytest.raises(NoJson):
        find_json(text[:cut])


HOSTILE = {
    "brackets": lambda n: "x " + "[" * n,
    "brackets apart": lambda n: "[ a " * n,
    "braces": lambda n: "{" * n,
    "pairs": lambda n: "{a} " * n,
    "open texts": lambda n: 'x {"' * n,
    "escapes": lambda n: 'x {"a": "' + "\\" * n,
    "fence and space": lambda n: "x ```" + " " * n + "x",
    "fences": lambda n: "```json\n" * n,
    "backticks": lambda n: "`" * n,
    "space in brackets": lambda n: "x [" + " " * n + "x",
    "names": lambda n: "{" + "a" * n,
    "nearly": lambda n: "x [1 of] " * n,
    "quotes": lambda n: '"' * n,
    "keys": lambda n: '{"a":' * n,
    "members": lambda n: "[" + '{"a":1},' * n,
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_hostile_answers_cost_in_proportion(make: Any) -> None:
    """Lines of Python that run for an answer four times as long are at most about four times."""

    def steps(size: int) -> int:
        count = 0

        def trace(frame: Any, event: str, arg: Any) -> Any:
            nonlocal count
            if frame.f_code.co_filename == json_text.__file__:
                count += 1
            return trace

        text = make(size)
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            find_json(text)
        except NoJson:
            pass
        finally:
            sys.settrace(before)
        return count

    assert steps(8_000) <= 4 * steps(2_000) + 5_000


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_hostile_answers_of_a_megabyte_end(make: Any) -> None:
    """No expression of ours backtracks without end: quadratic work would not come back in time."""
    with pytest.raises(NoJson):
        find_json(make(250_000)[:1_000_000])

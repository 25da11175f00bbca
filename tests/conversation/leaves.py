"""Leaves of JSON: what must show up somewhere when a body is carried over."""

from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st

names = st.sampled_from(["cache_control", "note", "detail", "x", "openai-chat", "part", "type "])
scalars = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=5), st.floats(allow_nan=False))
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner), max_leaves=6
)


def leaves(value: Any) -> Iterator[Any]:
    """Yield every text and number in JSON; nulls, booleans and empty texts say nothing."""
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif value not in (None, "") and not isinstance(value, bool):
        yield value

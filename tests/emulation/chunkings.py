"""Texts cut in every way: what is streamed must not depend on where the pieces end."""

from itertools import combinations, pairwise

import hypothesis.strategies as st


def every_chunking(text: str) -> list[list[str]]:
    """Return all ways to cut a short text."""
    places = range(1, len(text))
    return [
        [text[start:end] for start, end in pairwise((0, *cuts, len(text)))]
        for count in range(len(text))
        for cuts in combinations(places, count)
    ] or [[]]


@st.composite
def chunked(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> tuple[str, list[str]]:
    """Return a text, and the text in pieces, some of them empty."""
    text = draw(texts)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return text, [text[start:end] for start, end in pairwise((0, *cuts, len(text)))]

"""How well something is supported, and when that is enough."""

from typing import Final, Literal

Support = Literal["native", "emulated", "restricted", "unsupported", "unknown"]
MinSupport = Literal["native", "emulated"]

SUPPORTS: Final[tuple[Support, ...]] = (
    "native",
    "emulated",
    "restricted",
    "unsupported",
    "unknown",
)
MIN_SUPPORTS: Final[tuple[MinSupport, ...]] = ("native", "emulated")

_SATISFIED_BY: Final[dict[str, frozenset[str]]] = {
    "native": frozenset({"native"}),
    "emulated": frozenset({"native", "emulated", "restricted"}),
}


def satisfies(support: Support, minimum: MinSupport) -> bool:
    """Tell whether `support` is at least `minimum`: `restricted` is enough for `emulated` only."""
    return support in _SATISFIED_BY[minimum]

"""Fidelity: what is lost when a request is carried from one API to another. Nothing is dropped
without a word.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

Fidelity = Literal["lossless", "lossy", "unsupported"]


class Loss(msgspec.Struct, frozen=True):
    """One thing that could not be carried over.

    `lossy`: left out, the request still means nearly the same. `unsupported`: the request would
    mean something else, so it should not be sent.
    """

    path: str
    fidelity: Literal["lossy", "unsupported"]
    what: str


class Carried(msgspec.Struct, frozen=True):
    """A body in an API's spelling, and what it could not say."""

    body: dict[str, Any]
    losses: tuple[Loss, ...] = ()

    @property
    def fidelity(self) -> Fidelity:
        """The worst of the losses."""
        return worst(self.losses)


def worst(losses: Iterable[Loss]) -> Fidelity:
    """Sum losses up."""
    kinds = {loss.fidelity for loss in losses}
    if "unsupported" in kinds:
        return "unsupported"
    return "lossy" if kinds else "lossless"


class Losses:
    """Collects losses while a body is written."""

    def __init__(self) -> None:
        self.listed: list[Loss] = []

    def lossy(self, path: str, what: str) -> None:
        """Note something that is left out."""
        self.listed.append(Loss(path, "lossy", what))

    def unsupported(self, path: str, what: str) -> None:
        """Note something without which the request would mean something else."""
        self.listed.append(Loss(path, "unsupported", what))

"""Fidelity: what is lost when a request is carried from one API to another. Nothing is dropped
without a word.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from modelpact.conversation.body_reader import said_by

APIS: Final = ("openai-chat", "openai-responses", "anthropic")

Fidelity = Literal["lossless", "lossy", "unsupported"]


class Loss(msgspec.Struct, frozen=True):
    """One thing that could not be carried over.

    `lossy`: left out, the request still means nearly the same. `unsupported`: the request would
    mean something else, so it should not be sent. `path` is the place in the `Request`.
    """

    path: str
    fidelity: Literal["lossy", "unsupported"]
    what: str


class TranslatedBody(msgspec.Struct, frozen=True):
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
    """Collects losses while a body is written for an API."""

    def __init__(self, api: str, source: str) -> None:
        self.api = api
        self.own = source == api
        self.listed: list[Loss] = []

    def lossy(self, path: str, what: str) -> None:
        """Note something that is left out."""
        self.listed.append(Loss(path, "lossy", what))

    def unsupported(self, path: str, what: str) -> None:
        """Note something without which the request would mean something else."""
        self.listed.append(Loss(path, "unsupported", what))

    def own_fields(
        self, extra: Mapping[str, Any], path: str, shared: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return the fields that this API keeps of an `extra`; those of another are noted.

        `shared` are fields of another API that mean the same here.
        """
        found = dict(extra.get(self.api, {}))
        for api, fields in extra.items():
            if api == self.api or api.endswith(" spelling") or not isinstance(fields, Mapping):
                continue
            for name, value in fields.items():
                if name in shared:
                    found.setdefault(name, value)
                elif value is not None:
                    self.lossy(f"{path}.{name}", f"only {api} has this field")
        return found

    def note_message(self, metadata: Mapping[str, Any], path: str) -> None:
        """Note the fields of a message that only another API has."""
        for api in APIS:
            if api != self.api:
                extra = said_by(metadata, api).get("extra", {})
                fields = {name: value for name, value in extra.items() if value != []}
                self.own_fields({api: fields}, path)

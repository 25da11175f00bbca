"""Fidelity: what is lost when a request or response is translated from one API to another.

Writers never drop anything silently: each thing that the target API cannot express is a `Loss`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from modelpact.conversation.fields import message_spelling

APIS: Final = ("openai-chat", "openai-responses", "anthropic")
"""The APIs that this package translates between; `codecs.py` has the functions of each."""

Fidelity = Literal["lossless", "lossy", "unsupported"]


class Loss(msgspec.Struct, frozen=True):
    """One thing that could not be translated.

    `lossy`: it is left out, and the request still means nearly the same. `unsupported`: the request
    would mean something else, so do not send it. `path` is the place in the `Request`.
    """

    path: str
    fidelity: Literal["lossy", "unsupported"]
    what: str


class TranslatedBody(msgspec.Struct, frozen=True):
    """A body in the format of an API, and what it could not express."""

    body: dict[str, Any]
    losses: tuple[Loss, ...] = ()

    @property
    def fidelity(self) -> Fidelity:
        """What remains after all losses: the worst of them."""
        kinds = {loss.fidelity for loss in self.losses}
        if "unsupported" in kinds:
            return "unsupported"
        return "lossy" if kinds else "lossless"


class LossRecorder:
    """Records losses while a body is written for an API.

    `same_api` is true if what is written was read from that API.
    """

    def __init__(self, api: str, source: str = "") -> None:
        self.api = api
        self.same_api = source == api
        self.losses: list[Loss] = []

    def lossy(self, path: str, what: str) -> None:
        """Record something that is left out."""
        self.losses.append(Loss(path, "lossy", what))

    def unsupported(self, path: str, what: str) -> None:
        """Record something without which the request would mean something else."""
        self.losses.append(Loss(path, "unsupported", what))

    def add(self, losses: Iterable[Loss], prefix: str, replacement: str) -> None:
        """Record losses of a part of the body, with its path in place of the prefix."""
        for loss in losses:
            path = replacement + loss.path.removeprefix(prefix)
            self.losses.append(Loss(path, loss.fidelity, loss.what))

    def own_fields(
        self, extra: Mapping[str, Any], path: str, shared: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return the fields of an `extra` that belong to this API; record those of other APIs.

        `shared` are fields of other APIs that mean the same in this one.
        """
        own = dict(extra.get(self.api, {}))
        for api, fields in extra.items():
            if api == self.api or api.endswith(" spelling") or not isinstance(fields, Mapping):
                continue
            for name, value in fields.items():
                if name in shared:
                    own.setdefault(name, value)
                elif value is not None:
                    self.lossy(f"{path}.{name}", f"only {api} has this field")
        return own

    def foreign_fields(self, metadata: Mapping[str, Any], path: str) -> None:
        """Record the fields of a message that only another API has."""
        for api in APIS:
            if api != self.api:
                extra = message_spelling(metadata, api).get("extra", {})
                fields = {name: value for name, value in extra.items() if value != []}
                self.own_fields({api: fields}, path)

    def translated(self, body: dict[str, Any]) -> TranslatedBody:
        """Return the body together with the losses so far."""
        return TranslatedBody(body, tuple(self.losses))

"""The snapshot: the catalog as one compact file, built from reviewable sources.

It is read in one piece and decoded as far as it is used: a provider's models when the first of
them is asked for, a model's record when it is resolved.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.catalog.facts import FLAGS, OTHERS, Lineage, Record
from modelpact.catalog.names import Names
from modelpact.catalog.provider import Provider
from modelpact.catalog.rules import Rule
from modelpact.vocabulary.errors import CatalogError, Problem

FORMAT: Final = 1
BUNDLED: Final = Path(__file__).parent / "data" / "catalog.msgpack"


class Content(msgspec.Struct, frozen=True):
    """What a snapshot file holds. `models` maps provider to a packed map of model to record."""

    format: int
    flags: tuple[str, ...]
    others: tuple[str, ...]
    lineages: tuple[Lineage, ...]
    providers: tuple[Provider, ...]
    names: Names
    defaults: dict[str, Any]
    rules: tuple[Rule, ...]
    corrections: tuple[Rule, ...]
    constraints: tuple[Rule, ...]
    models: dict[str, msgspec.Raw]
    index: msgspec.Raw


_CONTENT: Final = msgspec.msgpack.Decoder(Content)
_TABLE: Final = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_RECORD: Final = msgspec.msgpack.Decoder(Record)
_ENCODER: Final = msgspec.msgpack.Encoder()


def encode(value: object) -> bytes:
    """Encode a part of a snapshot."""
    return _ENCODER.encode(value)


def decode(data: bytes, file: str) -> Content:
    """Decode a snapshot, or raise a `CatalogError` that says what to do."""
    try:
        content = _CONTENT.decode(data)
    except msgspec.MsgspecError as error:
        problem = Problem(file, "", f"not a catalog snapshot of format {FORMAT}: {error}")
        raise CatalogError([problem]) from None
    if content.format != FORMAT or content.flags != FLAGS or content.others != OTHERS:
        message = "made by another version of modelpact; run `modelpact catalog build` again"
        raise CatalogError([Problem(file, "", message)])
    return content


def read(path: Path = BUNDLED) -> Content:
    """Read and decode a snapshot file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = Problem(path.name, "", f"cannot be read: {error.strerror or error}")
        raise CatalogError([problem]) from None
    return decode(data, path.name)


class Models:
    """The records of a snapshot, by provider and model."""

    __slots__ = ("_lowered", "_packed", "_tables")

    def __init__(self, packed: dict[str, msgspec.Raw]) -> None:
        self._packed = packed
        self._tables: dict[str, dict[str, msgspec.Raw]] = {}
        self._lowered: dict[str, dict[str, str]] = {}

    @property
    def providers(self) -> tuple[str, ...]:
        """The providers that have records."""
        return tuple(self._packed)

    def table(self, provider: str) -> dict[str, msgspec.Raw]:
        """Return one provider's packed records by model."""
        table = self._tables.get(provider)
        if table is None:
            packed = self._packed.get(provider)
            table = {} if packed is None else _TABLE.decode(packed)
            self._tables[provider] = table
        return table

    def find(self, provider: str, model: str) -> Record | None:
        """Return the record of that model, whatever the case of its letters, or None."""
        table = self.table(provider)
        raw = table.get(model)
        if raw is None and table:
            lowered = self._lowered.get(provider)
            if lowered is None:
                lowered = self._lowered[provider] = {name.lower(): name for name in table}
            spelled = lowered.get(model.lower())
            raw = None if spelled is None else table[spelled]
        return None if raw is None else _RECORD.decode(raw)

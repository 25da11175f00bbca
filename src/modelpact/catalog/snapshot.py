"""The snapshot: the catalog as one compact file, built from reviewable sources.

It is read in one piece and decoded as far as it is used: a provider's models when the first of
them is asked for, a model's record when it is resolved.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.catalog.facts import FLAGS, OTHERS, Lineage, ModelFacts
from modelpact.catalog.names import NameTables
from modelpact.catalog.provider import Provider
from modelpact.catalog.rules import Rule
from modelpact.vocabulary.errors import CatalogError, Problem

FORMAT: Final = 2
BUNDLED: Final = Path(__file__).parent / "data" / "catalog.msgpack"


class Content(msgspec.Struct, frozen=True):
    """What a snapshot file holds. `models` maps provider to its packed `Table`."""

    format: int
    flags: tuple[str, ...]
    others: tuple[str, ...]
    lineages: tuple[Lineage, ...]
    providers: tuple[Provider, ...]
    names: NameTables
    defaults: dict[str, Any]
    rules: tuple[Rule, ...]
    corrections: tuple[Rule, ...]
    constraints: tuple[Rule, ...]
    models: dict[str, msgspec.Raw]
    index: msgspec.Raw


class Table(msgspec.Struct, frozen=True, array_like=True):
    """One provider's models in order: their names, and their records still packed."""

    names: list[str]
    records: msgspec.Raw


_CONTENT: Final = msgspec.msgpack.Decoder(Content)
_TABLE: Final = msgspec.msgpack.Decoder(Table)
_RECORDS: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
_RECORD: Final = msgspec.msgpack.Decoder(ModelFacts)
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


class SnapshotModels:
    """The records of a snapshot, by provider and model, unpacked as far as they are asked for."""

    __slots__ = ("_lowered", "_packed", "_records", "_tables")

    def __init__(self, packed: dict[str, msgspec.Raw]) -> None:
        self._packed = packed
        self._tables: dict[str, Table] = {}
        self._records: dict[str, dict[str, msgspec.Raw]] = {}
        self._lowered: dict[str, dict[str, str]] = {}

    @property
    def providers(self) -> tuple[str, ...]:
        """The providers that have records."""
        return tuple(self._packed)

    def names(self, provider: str) -> list[str]:
        """Return the names of one provider's models, in the order of the index."""
        table = self._table(provider)
        return [] if table is None else table.names

    def _table(self, provider: str) -> Table | None:
        table = self._tables.get(provider)
        if table is None and provider in self._packed:
            with _whole():
                table = self._tables[provider] = _TABLE.decode(self._packed[provider])
        return table

    def packed(self, provider: str, model: str) -> msgspec.Raw | None:
        """Return the packed record of a model, whatever the case of its letters, or None."""
        records = self._records.get(provider)
        if records is None:
            table = self._table(provider)
            records = {}
            if table is not None:
                with _whole():
                    raws = _RECORDS.decode(table.records)
                    records = dict(zip(table.names, raws, strict=True))
            self._records[provider] = records
        raw = records.get(model)
        if raw is None and records:
            lowered = self._lowered.get(provider)
            if lowered is None:
                lowered = self._lowered[provider] = {name.lower(): name for name in records}
            spelled = lowered.get(model.lower())
            raw = None if spelled is None else records[spelled]
        return raw

    def find(self, provider: str, model: str) -> ModelFacts | None:
        """Return the record of a model, or None."""
        raw = self.packed(provider, model)
        return None if raw is None else unpack(raw)


def pack_table(records: dict[str, ModelFacts]) -> msgspec.Raw:
    """Pack one provider's records, sorted by name."""
    names = sorted(records)
    packed = encode([records[name] for name in names])
    return msgspec.Raw(encode(Table(names, msgspec.Raw(packed))))


def unpack(raw: msgspec.Raw) -> ModelFacts:
    """Decode one record."""
    with _whole():
        return _RECORD.decode(raw)


@contextmanager
def _whole() -> Iterator[None]:
    """Say so where a snapshot is broken inside."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError) as error:
        problem = Problem("the snapshot", "", f"broken: {error}; run `modelpact catalog build`")
        raise CatalogError([problem]) from None


def same_rules(one: Content, other: Content) -> bool:
    """Tell whether two snapshots were made with the same rules, names and providers."""
    parts = ("providers", "names", "defaults", "rules", "corrections", "constraints")
    return all(getattr(one, part) == getattr(other, part) for part in parts)

"""The snapshot: the catalog as one compact file, built from reviewable sources.

The file is read at once and decoded when it is used: the models of a provider when the first of
them is requested, the record of a model when it is resolved.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.catalog.facts import FLAGS, OTHERS, Lineage, ModelFacts
from modelpact.catalog.names import NameTables
from modelpact.catalog.provider import ProviderEntry
from modelpact.catalog.rules import Rule
from modelpact.vocabulary.errors import CatalogError, Problem

FORMAT: Final = 2
BUNDLED: Final = Path(__file__).parent / "data" / "catalog.msgpack"


class SnapshotContent(msgspec.Struct, frozen=True):
    """The content of a snapshot file. `models` maps a provider to its packed `ModelTable`."""

    format: int
    flags: tuple[str, ...]
    others: tuple[str, ...]
    lineages: tuple[Lineage, ...]
    providers: tuple[ProviderEntry, ...]
    names: NameTables
    defaults: dict[str, Any]
    rules: tuple[Rule, ...]
    corrections: tuple[Rule, ...]
    constraints: tuple[Rule, ...]
    models: dict[str, msgspec.Raw]
    index: msgspec.Raw


class ModelTable(msgspec.Struct, frozen=True, array_like=True):
    """The models of one provider in order: their names, and their packed records."""

    names: list[str]
    records: msgspec.Raw


_CONTENT: Final = msgspec.msgpack.Decoder(SnapshotContent)
_TABLE: Final = msgspec.msgpack.Decoder(ModelTable)
_RECORDS: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
_RECORD: Final = msgspec.msgpack.Decoder(ModelFacts)
_ENCODER: Final = msgspec.msgpack.Encoder()


def encode(value: object) -> bytes:
    """Encode a part of a snapshot."""
    return _ENCODER.encode(value)


def decode(data: bytes, file: str) -> SnapshotContent:
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


def read(path: Path = BUNDLED) -> SnapshotContent:
    """Read and decode a snapshot file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = Problem(path.name, "", f"cannot be read: {error.strerror or error}")
        raise CatalogError([problem]) from None
    return decode(data, path.name)


class SnapshotModels:
    """The records of a snapshot by provider and model, decoded when they are requested."""

    __slots__ = ("_lowered", "_packed", "_records", "_tables")

    def __init__(self, packed: dict[str, msgspec.Raw]) -> None:
        self._packed = packed
        self._tables: dict[str, ModelTable] = {}
        self._records: dict[str, dict[str, msgspec.Raw]] = {}
        self._lowered: dict[str, dict[str, str]] = {}

    @property
    def providers(self) -> tuple[str, ...]:
        """The providers that have records."""
        return tuple(self._packed)

    def names(self, provider: str) -> list[str]:
        """Return the names of a provider's models, in the order of the index."""
        table = self._table(provider)
        return [] if table is None else table.names

    def _table(self, provider: str) -> ModelTable | None:
        table = self._tables.get(provider)
        if table is None and provider in self._packed:
            with _report_broken():
                table = self._tables[provider] = _TABLE.decode(self._packed[provider])
        return table

    def packed(self, provider: str, model: str) -> msgspec.Raw | None:
        """Return the packed record of a model, or None; letter case does not matter."""
        records = self._records.get(provider)
        if records is None:
            table = self._table(provider)
            records = {}
            if table is not None:
                with _report_broken():
                    raws = _RECORDS.decode(table.records)
                    records = dict(zip(table.names, raws, strict=True))
            self._records[provider] = records
        raw = records.get(model)
        if raw is None and records:
            lowered = self._lowered.get(provider)
            if lowered is None:
                lowered = self._lowered[provider] = {name.lower(): name for name in records}
            name = lowered.get(model.lower())
            raw = None if name is None else records[name]
        return raw

    def find(self, provider: str, model: str) -> ModelFacts | None:
        """Return the record of a model, or None."""
        raw = self.packed(provider, model)
        return None if raw is None else unpack(raw)


def pack_table(records: dict[str, ModelFacts]) -> msgspec.Raw:
    """Pack the records of one provider, sorted by name."""
    names = sorted(records)
    packed = encode([records[name] for name in names])
    return msgspec.Raw(encode(ModelTable(names, msgspec.Raw(packed))))


def unpack(raw: msgspec.Raw) -> ModelFacts:
    """Decode one record."""
    with _report_broken():
        return _RECORD.decode(raw)


@contextmanager
def _report_broken() -> Iterator[None]:
    """Turn decoding errors into a `CatalogError` that says what to do."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError) as error:
        problem = Problem("the snapshot", "", f"broken: {error}; run `modelpact catalog build`")
        raise CatalogError([problem]) from None


def same_rules(first: SnapshotContent, second: SnapshotContent) -> bool:
    """Whether two snapshots were built with the same rules, names and providers."""
    parts = ("providers", "names", "defaults", "rules", "corrections", "constraints")
    return all(getattr(first, part) == getattr(second, part) for part in parts)

"""The snapshot: the catalog as one compact file, built from reviewable sources.

The file is read at once and decoded when it is used: the models of a provider when the first of
them is requested, the record of a model when it is resolved. It has an index: the capabilities of
all models as bit sets, with one bit for each model. A search is a few operations on large integers,
and only the models that it returns are resolved.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.catalog.claim import Claim
from modelpact.catalog.facts import FLAGS, OTHERS, Lineage, ModelFacts
from modelpact.catalog.provider import NameTables, ProviderEntry
from modelpact.catalog.rules import Rule
from modelpact.vocabulary.capability import CAPABILITIES, MinSupport
from modelpact.vocabulary.errors import CatalogError, Problem
from modelpact.vocabulary.memo import BoundedMemo

FORMAT: Final = 2
BUNDLED: Final = Path(__file__).parent / "data" / "catalog.msgpack"
INDEXED: Final = tuple(entry.id for entry in CAPABILITIES.values() if entry.kind == "flag" and entry.group != "agent")
LIMITS: Final = tuple(entry.id for entry in CAPABILITIES.values() if entry.kind == "limit")
_MEMO_ENTRIES: Final = 1_024


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


class IndexContent(msgspec.Struct, frozen=True):
    """The index as the snapshot stores it. Positions count the models of all providers in order."""

    counts: dict[str, int]
    native: dict[str, bytes]
    accepted: dict[str, bytes]
    limits: dict[str, list[int]]
    prices: list[int]
    retired: bytes
    constrained: dict[str, bytes] = {}


class Index:
    """Sets of models as bit sets: bit n is the model at position n."""

    __slots__ = ("_content", "_memo", "everything", "size")

    def __init__(self, content: IndexContent) -> None:
        self._content = content
        self.size = sum(content.counts.values())
        self.everything = (1 << self.size) - 1
        self._memo: BoundedMemo[tuple[str, object], int] = BoundedMemo(_MEMO_ENTRIES)

    def having(self, name: str, minimum: MinSupport) -> int:
        """Return the models whose support for a flag is at least `minimum`."""
        key = (name, minimum)
        models = self._memo.get(key)
        if models is None:
            content = self._content
            packed = (content.native if minimum == "native" else content.accepted).get(name, b"")
            models = self._memo[key] = int.from_bytes(packed, "little")
        return models

    def at_least(self, name: str, minimum: int) -> int:
        """Return the models whose limit is known to be at least `minimum`."""
        key = (name, minimum)
        models = self._memo.get(key)
        if models is None:
            values = self._content.limits[name]
            digits = "".join("1" if value >= minimum else "0" for value in reversed(values))
            models = int(digits or "0", 2) if minimum > 0 else self.everything
            self._memo[key] = models
        return models

    @property
    def retired(self) -> int:
        """The models that were deprecated or retired when the snapshot was built."""
        return int.from_bytes(self._content.retired, "little")

    def constrained_by(self, name: str) -> int:
        """Return the models that a constraint applies to."""
        return int.from_bytes(self._content.constrained.get(name, b""), "little")

    def of_provider(self, provider: str) -> int:
        """Return the models of one provider."""
        start = 0
        for name, count in self._content.counts.items():
            if name == provider:
                return ((1 << count) - 1) << start
            start += count
        return 0

    def positions(self, models: int) -> Iterator[int]:
        """Yield the positions of the bits that are set, in order."""
        digits = format(models, "b")[::-1]
        position = digits.find("1")
        while position >= 0:
            yield position
            position = digits.find("1", position + 1)

    def price(self, position: int) -> int:
        """Return the sum of input and output price of a model, or -1 if it is unknown."""
        return self._content.prices[position]

    def locate(self, positions: Iterable[int]) -> Iterator[tuple[int, str, int]]:
        """Yield (position, provider, index within the provider) for ascending positions."""
        spans = iter(self._content.counts.items())
        provider, count = next(spans, ("", 0))
        start = 0
        for position in positions:
            while position >= start + count:
                start += count
                provider, count = next(spans)
            yield position, provider, position - start


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


def pack_table(records: dict[str, ModelFacts]) -> msgspec.Raw:
    """Pack the records of one provider, sorted by name."""
    names = sorted(records)
    packed = encode([records[name] for name in names])
    return msgspec.Raw(encode(ModelTable(names, msgspec.Raw(packed))))


def unpack(raw: msgspec.Raw) -> ModelFacts:
    """Decode one record."""
    with _report_broken():
        return _RECORD.decode(raw)


def same_rules(first: SnapshotContent, second: SnapshotContent) -> bool:
    """Whether two snapshots were built with the same rules, names and providers."""
    parts = ("providers", "names", "defaults", "rules", "corrections", "constraints")
    return all(getattr(first, part) == getattr(second, part) for part in parts)


def pack(bits: Iterable[bool]) -> bytes:
    """Pack booleans into bytes, the first one in the lowest bit."""
    digits = "".join("1" if bit else "0" for bit in bits)[::-1]
    return int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "little")


def limit_value(claim: Claim) -> int:
    """Return a limit for the index: 0 if it is not known."""
    return claim.value if claim.known and isinstance(claim.value, int) else 0


def user_folder() -> Path:
    """Return the data folder of the current user, as is usual on each system."""
    configured = os.environ.get("MODELPACT_DATA")
    if configured:
        return Path(configured)
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home directory has no data
        return Path(os.devnull) / "modelpact"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData/Local")) / "modelpact"
    if sys.platform == "darwin":
        return home / "Library/Application Support/modelpact"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share") / "modelpact"


@contextmanager
def _report_broken() -> Iterator[None]:
    """Turn decoding errors into a `CatalogError` that says what to do."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError) as error:
        problem = Problem("the snapshot", "", f"broken: {error}; run `modelpact catalog build`")
        raise CatalogError([problem]) from None

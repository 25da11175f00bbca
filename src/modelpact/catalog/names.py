"""Names: the many spellings of one model lead to its vendor's own name for it.

`openrouter` writes `openai/o3`, `bedrock` `us.anthropic.claude-…-v1:0`, `vertex` `claude-…@2025…`,
`azure` `eu/gpt-4o`, `together` `meta-llama/Llama-…`. The family is what they have in common.
"""

import re

import msgspec

from modelpact.catalog.rules import Prefixes, ascii_lower

_BEDROCK_VERSION = re.compile(r"-v\d+$")
_DATE = re.compile(r"-(?:20\d{2}-?[01]\d-?[0-3]\d|[01]\d-?[0-3]\d|latest)$")
_NAMED_VERSIONS = ("default", "latest")


class NameTables(msgspec.Struct, frozen=True):
    """The tables of `names.toml`."""

    vendors: dict[str, str] = {}
    families: dict[str, str] = {}
    regions: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Path segments that say nothing of whose model it is."""


class Family(msgspec.Struct, frozen=True, gc=False):
    """The vendor of a model, where it can be told, and the vendor's own name for it."""

    vendor: str | None
    name: str


class Spelling:
    """Reads models' names by the tables of `names.toml`."""

    __slots__ = ("_families", "_names")

    def __init__(self, names: NameTables) -> None:
        self._names = names
        self._families = Prefixes(names.families)

    def family(self, model: str) -> Family:
        """Return whose model this is and what the vendor calls it."""
        names = self._names
        path, _, name = ascii_lower(model).rpartition("/")
        vendor = None
        for segment in path.split("/") if path else ():
            if segment in names.vendors:
                vendor = names.vendors[segment]
            elif segment not in names.paths and segment not in names.regions:
                return Family(None, ascii_lower(model))  # somebody else's, whatever it is called
        name, colon, _ = name.partition(":")
        head, dot, rest = name.partition(".")
        if dot and head in names.regions:
            name = rest
            head, dot, rest = name.partition(".")
        if dot and head in names.vendors:
            vendor, name = names.vendors[head], rest
            name = _BEDROCK_VERSION.sub("", name)
        elif colon:
            name = _BEDROCK_VERSION.sub("", name)
        if "@" in name:
            name, _, version = name.partition("@")
            if version and version not in _NAMED_VERSIONS:
                name = f"{name}-{version}"
        if vendor is None:
            place = self._families.longest(name)
            vendor = self._families.values[place] if place >= 0 else None
        return Family(vendor, name)


def spellings(name: str) -> tuple[str, ...]:
    """Return the names under which a vendor may list this model, the closest first."""
    dashed = name.replace(".", "-")
    undated = _DATE.sub("", name)
    found = [name, dashed, undated, undated.replace(".", "-")]
    return tuple(dict.fromkeys(one for one in found if one))

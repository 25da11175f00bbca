"""Profiles: what a vendor, or a subset that all of them take, asks of a schema. Versioned data."""

import functools
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

import msgspec

from modelpact.schemas.rules import KEYWORDS, RULES
from modelpact.vocabulary.errors import InputError, UnknownName

PROFILES: Final = ("variants", "tier1", "openai", "anthropic", "gemini")
DEFAULT_PROFILES: Final = ("tier1",)
_VALUE_WORDS: Final = frozenset(["format", "pattern", "minItems", "enum", "const"])
"""Keywords whose values some profiles look at."""
_DATA: Final = Path(__file__).parent / "data"
Level = Literal["error", "note"]


class Keywords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a profile says of keywords and their values; what it leaves out is free."""

    refused: tuple[str, ...] = ()
    refused_with_ref: tuple[str, ...] = ()
    """Refused where one of their schemas is a `$ref`."""
    noted: tuple[str, ...] = ()
    formats: tuple[str, ...] | None = None
    min_items: tuple[int, ...] | None = None
    refused_patterns: str | None = None
    """A regular expression of what a `pattern` must not use."""
    enum_types: tuple[str, ...] = ("string", "number", "boolean", "null")


class SchemaLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of something a schema may have; None is without a limit."""

    depth: int | None = None
    properties: int | None = None
    enum_values: int | None = None
    names_text: int | None = None
    """Characters of all property names, definition names, enum and const values."""
    long_enum_values: int | None = None
    """From more values than this, an enum's text is limited by `long_enum_text`."""
    long_enum_text: int | None = None
    unions: int | None = None
    optionals: int | None = None


class VendorProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One set of rules, with its version and where it is from."""

    id: str
    title: str
    version: str
    sources: tuple[str, ...]
    rules: dict[str, Level]
    includes: tuple[str, ...] = ()
    keywords: Keywords = Keywords()
    limits: SchemaLimits = SchemaLimits()


@functools.cache
def load_profile(name: str) -> VendorProfile:
    """Return a profile by its name, with what it includes."""
    if name not in PROFILES:
        raise UnknownName("profile", name, PROFILES, f"there are {', '.join(PROFILES)}")
    content = tomllib.loads((_DATA / f"{name}.toml").read_text(encoding="utf-8"))
    profile = msgspec.convert(content, VendorProfile)
    for inner in profile.includes:
        rules = {**load_profile(inner).rules, **profile.rules}
        profile = msgspec.structs.replace(profile, rules=rules)
    for rule in profile.rules:
        if rule not in RULES:
            raise UnknownName("rule", rule, RULES, f"in {name}.toml")
    for keyword in (*profile.keywords.refused, *profile.keywords.noted):
        if keyword not in KEYWORDS:
            raise UnknownName("keyword", keyword, KEYWORDS, f"in {name}.toml")
    return profile


class Ask(msgspec.Struct, frozen=True):
    """Who asks for a rule, and whether breaking it is an error or a note."""

    level: Level
    profiles: tuple[str, ...]


class Ruleset(msgspec.Struct, frozen=True):
    """Several profiles compiled for one walk over a schema."""

    profiles: tuple[VendorProfile, ...]
    asks: dict[str, Ask]
    """Rule → who asks for it; where one profile has an error, those with a note are left out."""
    refused: dict[str, Ask]
    """Keyword → who refuses it."""
    refused_with_ref: dict[str, Ask]
    formats: tuple[tuple[frozenset[str], Ask], ...]
    min_items: tuple[tuple[frozenset[int], Ask], ...]
    patterns: tuple[tuple[re.Pattern[str], Ask], ...]
    enums: tuple[tuple[frozenset[str], Ask], ...]
    watched: frozenset[str]
    """Keywords of which something is said."""

    def names(self) -> tuple[str, ...]:
        """Return the profiles' names."""
        return tuple(one.id for one in self.profiles)


def read_profiles(profiles: str | Iterable[str]) -> tuple[str, ...]:
    """Read the names of profiles, also `tier1,openai` in one text; each is kept once."""
    listed = [profiles] if isinstance(profiles, str) else list(profiles)
    names: dict[str, None] = {}
    for text in listed:
        if not isinstance(text, str):
            raise UnknownName("profile", text, PROFILES, f"there are {', '.join(PROFILES)}")
        for name in text.split(","):
            if name.strip():
                load_profile(name.strip())
                names[name.strip()] = None
    if not names:
        raise InputError(f"no profile is named; there are {', '.join(PROFILES)}")
    return tuple(names)


@functools.cache
def compile_profiles(names: tuple[str, ...]) -> Ruleset:
    """Compile profiles, once for each set of them."""
    profiles = tuple(load_profile(name) for name in names)
    asked = [(rule, level, one.id) for one in profiles for rule, level in one.rules.items()]
    words = [(word, "error", one.id) for one in profiles for word in one.keywords.refused]
    words += [(word, "note", one.id) for one in profiles for word in one.keywords.noted]
    words += [("oneOf", one.rules["one-of"], one.id) for one in profiles if "one-of" in one.rules]
    by_ref = [(word, "error", one.id) for one in profiles for word in one.keywords.refused_with_ref]
    asks = {**_asks(asked), "ref-dangling": Ask("error", names)}
    return Ruleset(
        profiles,
        asks,
        _asks(words),
        _asks(by_ref),
        formats=tuple(
            (frozenset(one.keywords.formats), Ask("error", (one.id,)))
            for one in profiles
            if one.keywords.formats is not None
        ),
        min_items=tuple(
            (frozenset(one.keywords.min_items), Ask("error", (one.id,)))
            for one in profiles
            if one.keywords.min_items is not None
        ),
        patterns=tuple(
            (re.compile(one.keywords.refused_patterns), Ask("error", (one.id,)))
            for one in profiles
            if one.keywords.refused_patterns is not None
        ),
        enums=tuple(
            (frozenset(one.keywords.enum_types), Ask("error", (one.id,)))
            for one in profiles
            if "enum-scalar" in one.rules
        ),
        watched=frozenset([what for what, _, _ in (*words, *by_ref)]) | _VALUE_WORDS,
    )


def _asks(said: Iterable[tuple[str, str, str]]) -> dict[str, Ask]:
    """Put together who says the same: errors before notes."""
    by_level: dict[str, dict[Level, list[str]]] = {}
    for what, level, name in said:
        by_level.setdefault(what, {}).setdefault(
            "error" if level == "error" else "note", []
        ).append(name)
    return {
        what: Ask("error", tuple(levels["error"]))
        if "error" in levels
        else Ask("note", tuple(levels["note"]))
        for what, levels in by_level.items()
    }

"""Rules of the linter, and profiles: the rules of a vendor, or of what all vendors accept."""

import functools
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

import msgspec

from modelpact.vocabulary.errors import InputError, UnknownName

PROFILES: Final = ("variants", "tier1", "openai", "anthropic", "gemini")
DEFAULT_PROFILES: Final = ("tier1",)
_VALUE_KEYWORDS: Final = frozenset(["format", "pattern", "minItems", "enum", "const"])
"""Keywords whose values some profiles check."""
_DATA: Final = Path(__file__).parent / "data"
Level = Literal["error", "note"]


class LintRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a rule requires, the keywords that break it if refused, and what to do about them."""

    requires: str
    keywords: tuple[str, ...] = ()
    advice: str = ""


class Keywords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a profile refuses of keywords and their values; everything else is allowed."""

    refused: tuple[str, ...] = ()
    refused_with_ref: tuple[str, ...] = ()
    """Refused if one of their schemas is a `$ref`."""
    noted: tuple[str, ...] = ()
    formats: tuple[str, ...] | None = None
    min_items: tuple[int, ...] | None = None
    refused_patterns: str | None = None
    """A regular expression for what a `pattern` must not use."""
    enum_types: tuple[str, ...] = ("string", "number", "boolean", "null")


class SchemaLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Upper limits of a schema; None is no limit."""

    depth: int | None = None
    properties: int | None = None
    enum_values: int | None = None
    names_text: int | None = None
    """Characters of all property names, definition names, enum and const values."""
    long_enum_values: int | None = None
    """An enum with more values than this has its text limited by `long_enum_text`."""
    long_enum_text: int | None = None
    unions: int | None = None
    optionals: int | None = None


class VendorProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One set of rules, with its version and its sources."""

    id: str
    title: str
    version: str
    sources: tuple[str, ...]
    rules: dict[str, Level]
    includes: tuple[str, ...] = ()
    keywords: Keywords = Keywords()
    limits: SchemaLimits = SchemaLimits()


class Requirement(msgspec.Struct, frozen=True):
    """The profiles that require a rule, and whether breaking it is an error or a note."""

    level: Level
    profiles: tuple[str, ...]


class Ruleset(msgspec.Struct, frozen=True):
    """Several profiles compiled for one walk over a schema."""

    profiles: tuple[VendorProfile, ...]
    requirements: dict[str, Requirement]
    """By rule. If a profile requires it as an error, profiles with a note are left out."""
    refused: dict[str, Requirement]
    """By keyword: the profiles that refuse it."""
    refused_with_ref: dict[str, Requirement]
    formats: tuple[tuple[frozenset[str], Requirement], ...]
    min_items: tuple[tuple[frozenset[int], Requirement], ...]
    patterns: tuple[tuple[re.Pattern[str], Requirement], ...]
    enums: tuple[tuple[frozenset[str], Requirement], ...]
    watched: frozenset[str]
    """All keywords that a profile refuses or checks."""

    def names(self) -> tuple[str, ...]:
        """Return the names of the profiles."""
        return tuple(profile.id for profile in self.profiles)


@functools.cache
def load_rules() -> dict[str, LintRule]:
    """Return every rule by its name, in the order of the documentation."""
    content = tomllib.loads((_DATA / "rules.toml").read_text(encoding="utf-8"))
    return msgspec.convert(content, dict[str, LintRule])


@functools.cache
def keyword_rules() -> dict[str, str]:
    """Return the rule that each keyword breaks if a profile refuses it."""
    return {keyword: name for name, rule in load_rules().items() for keyword in rule.keywords}


@functools.cache
def load_profile(name: str) -> VendorProfile:
    """Return a profile by its name, with the rules of the profiles that it includes."""
    if name not in PROFILES:
        raise UnknownName("profile", name, PROFILES, f"there are {', '.join(PROFILES)}")
    content = tomllib.loads((_DATA / f"{name}.toml").read_text(encoding="utf-8"))
    profile = msgspec.convert(content, VendorProfile)
    for inner in profile.includes:
        rules = {**load_profile(inner).rules, **profile.rules}
        profile = msgspec.structs.replace(profile, rules=rules)
    for rule in profile.rules:
        if rule not in load_rules():
            raise UnknownName("rule", rule, load_rules(), f"in {name}.toml")
    for keyword in (*profile.keywords.refused, *profile.keywords.noted):
        if keyword not in keyword_rules():
            raise UnknownName("keyword", keyword, keyword_rules(), f"in {name}.toml")
    return profile


def read_profiles(profiles: str | Iterable[str]) -> tuple[str, ...]:
    """Read the names of profiles; one string may have several, such as `tier1,openai`."""
    texts = [profiles] if isinstance(profiles, str) else list(profiles)
    names: dict[str, None] = {}
    for text in texts:
        if not isinstance(text, str):
            raise UnknownName("profile", text, PROFILES, f"there are {', '.join(PROFILES)}")
        for name in text.split(","):
            if name.strip():
                load_profile(name.strip())
                names[name.strip()] = None
    if not names:
        raise InputError(f"expected at least one profile; there are {', '.join(PROFILES)}")
    return tuple(names)


@functools.cache
def compile_profiles(names: tuple[str, ...]) -> Ruleset:
    """Compile profiles, once for each set of them."""
    profiles = tuple(load_profile(name) for name in names)
    rules: list[tuple[str, str, str]] = []
    keywords: list[tuple[str, str, str]] = []
    with_ref: list[tuple[str, str, str]] = []
    for profile in profiles:
        rules += [(rule, level, profile.id) for rule, level in profile.rules.items()]
        keywords += [(word, "error", profile.id) for word in profile.keywords.refused]
        keywords += [(word, "note", profile.id) for word in profile.keywords.noted]
        with_ref += [(word, "error", profile.id) for word in profile.keywords.refused_with_ref]
        if "one-of" in profile.rules:
            keywords.append(("oneOf", profile.rules["one-of"], profile.id))
    return Ruleset(
        profiles,
        {**_requirements(rules), "ref-dangling": Requirement("error", names)},
        _requirements(keywords),
        _requirements(with_ref),
        formats=tuple(
            (frozenset(profile.keywords.formats), Requirement("error", (profile.id,)))
            for profile in profiles
            if profile.keywords.formats is not None
        ),
        min_items=tuple(
            (frozenset(profile.keywords.min_items), Requirement("error", (profile.id,)))
            for profile in profiles
            if profile.keywords.min_items is not None
        ),
        patterns=tuple(
            (re.compile(profile.keywords.refused_patterns), Requirement("error", (profile.id,)))
            for profile in profiles
            if profile.keywords.refused_patterns is not None
        ),
        enums=tuple(
            (frozenset(profile.keywords.enum_types), Requirement("error", (profile.id,)))
            for profile in profiles
            if "enum-scalar" in profile.rules
        ),
        watched=frozenset(word for word, _, _ in (*keywords, *with_ref)) | _VALUE_KEYWORDS,
    )


def _requirements(entries: Iterable[tuple[str, str, str]]) -> dict[str, Requirement]:
    """Group (rule or keyword, level, profile) by rule or keyword; errors win over notes."""
    by_level: dict[str, dict[Level, list[str]]] = {}
    for subject, level, profile in entries:
        by_level.setdefault(subject, {}).setdefault("error" if level == "error" else "note", []).append(profile)
    return {
        subject: Requirement("error", tuple(levels["error"]))
        if "error" in levels
        else Requirement("note", tuple(levels["note"]))
        for subject, levels in by_level.items()
    }

"""The rules of the linter: what each requires, which keyword breaks it, and what to do."""

import functools
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

import msgspec

from modelpact.vocabulary.errors import InputError, UnknownName

RULES: Final = {
    "one-of": "oneOf is not used: write anyOf with a discriminator in each branch.",
    "variant-discriminator": "Every branch of a union has the same required discriminator.",
    "variant-field-presence": "A discriminator tells branches apart, not their fields.",
    "variant-value-shape": "A discriminator tells branches apart, not the types of values.",
    "variant-literal-twice": "No two branches of a union have the same discriminator literal.",
    "variant-discriminator-const": "A discriminator is an enum of one value, not a const.",
    "variant-discriminator-type": "A discriminator has type: string.",
    "variant-discriminator-name": "A discriminator with an unusual name is documented.",
    "variant-plain-values": "Plain values in a union differ by their JSON types.",
    "root-object": "The root has type: object.",
    "root-any-of": "The root is not a union.",
    "closed-object": "Every object has additionalProperties: false.",
    "required-property": "Every property is required; an optional one is nullable.",
    "required-unknown": "Every required name is a property.",
    "enum-scalar": "An enum lists plain values.",
    "enum-type": "An enum or const has a type.",
    "any-value": "Every schema restricts its values.",
    "ref-dangling": "Every reference has a target.",
    "ref-not-local": "References stay within the document.",
    "ref-not-defs": "References lead to an entry of $defs.",
    "ref-siblings": "A $ref has no other keywords beside it.",
    "recursion": "No schema contains itself.",
    "recursion-required": "A schema contains itself only through an optional property.",
    "all-of": "allOf is not used.",
    "not": "not is not used.",
    "conditional": "if, then and else are not used.",
    "dependency": "Properties do not depend on each other.",
    "pattern-properties": "Properties are listed by name.",
    "property-names": "propertyNames is not used.",
    "object-bounds": "The number of properties is not bounded.",
    "unevaluated": "unevaluatedProperties and unevaluatedItems are not used.",
    "tuple": "Arrays have one schema for all items.",
    "array-constraint": "Arrays are not constrained.",
    "string-constraint": "Strings are not constrained.",
    "number-constraint": "Numbers are not constrained.",
    "const": "An enum of one value is used instead of const.",
    "default": "default is not used.",
    "dynamic-ref": "References are plain $ref.",
    "depth": "Objects are not nested too deeply.",
    "properties": "There are not too many properties.",
    "enum-values": "There are not too many enum values.",
    "enum-text": "A long enum has short values.",
    "names-text": "Names and values are not too long in total.",
    "unions": "There are not too many unions.",
    "optionals": "There are not too many optional properties.",
    "findings": "There are not too many findings.",
}
"""Every rule, in the order of the documentation."""

KEYWORDS: Final = {
    "oneOf": "one-of",
    "allOf": "all-of",
    "not": "not",
    "if": "conditional",
    "then": "conditional",
    "else": "conditional",
    "dependentRequired": "dependency",
    "dependentSchemas": "dependency",
    "dependencies": "dependency",
    "patternProperties": "pattern-properties",
    "propertyNames": "property-names",
    "minProperties": "object-bounds",
    "maxProperties": "object-bounds",
    "unevaluatedProperties": "unevaluated",
    "unevaluatedItems": "unevaluated",
    "prefixItems": "tuple",
    "additionalItems": "tuple",
    "minItems": "array-constraint",
    "maxItems": "array-constraint",
    "uniqueItems": "array-constraint",
    "contains": "array-constraint",
    "minContains": "array-constraint",
    "maxContains": "array-constraint",
    "minLength": "string-constraint",
    "maxLength": "string-constraint",
    "pattern": "string-constraint",
    "format": "string-constraint",
    "minimum": "number-constraint",
    "maximum": "number-constraint",
    "exclusiveMinimum": "number-constraint",
    "exclusiveMaximum": "number-constraint",
    "multipleOf": "number-constraint",
    "const": "const",
    "default": "default",
    "$dynamicRef": "dynamic-ref",
    "$recursiveRef": "dynamic-ref",
}
"""The rule that each keyword breaks if a profile refuses it."""

ADVICE: Final = {
    "all-of": "merge its parts into one schema",
    "not": "describe the allowed values instead",
    "conditional": "write variants with a discriminator",
    "dependency": "write variants with a discriminator",
    "pattern-properties": "use an array of objects with a name and a value",
    "property-names": "list the properties",
    "object-bounds": "check the number in your code",
    "unevaluated": "use additionalProperties: false and items",
    "tuple": "use an object with one field for each position",
    "array-constraint": "state it in the description and check it in your code",
    "string-constraint": "state it in the description and check it in your code",
    "number-constraint": "state it in the description and check it in your code",
    "const": "use an enum of that one value",
    "default": "the model writes every field; some servers refuse a default",
    "dynamic-ref": "use $ref",
}
"""What to do about a refused keyword, by rule."""


PROFILES: Final = ("variants", "tier1", "openai", "anthropic", "gemini")
DEFAULT_PROFILES: Final = ("tier1",)
_VALUE_KEYWORDS: Final = frozenset(["format", "pattern", "minItems", "enum", "const"])
"""Keywords whose values some profiles check."""
_DATA: Final = Path(__file__).parent / "data"
Level = Literal["error", "note"]


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
        if rule not in RULES:
            raise UnknownName("rule", rule, RULES, f"in {name}.toml")
    for keyword in (*profile.keywords.refused, *profile.keywords.noted):
        if keyword not in KEYWORDS:
            raise UnknownName("keyword", keyword, KEYWORDS, f"in {name}.toml")
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
        by_level.setdefault(subject, {}).setdefault(
            "error" if level == "error" else "note", []
        ).append(profile)
    return {
        subject: Requirement("error", tuple(levels["error"]))
        if "error" in levels
        else Requirement("note", tuple(levels["note"]))
        for subject, levels in by_level.items()
    }

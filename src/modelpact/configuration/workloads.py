"""`[workloads]`: named pieces of work, their needs, models and fallbacks."""

from collections.abc import Mapping
from typing import Any, Final, get_args

import msgspec

from modelpact.configuration.config import FallbackOn, Workload
from modelpact.configuration.reader import Reader, no_such
from modelpact.needs.need import Need, Needs, need
from modelpact.negotiation.verdict import Policy
from modelpact.vocabulary.errors import InputError, brief

NEED_FIELDS: Final = ("capability", "level", "minimum", "min_support", "required_by")
_FIELDS: Final = ("model", "needs", "fallback", "fallback_on", "policy")


def read_workload(reader: Reader, name: str, entry: Mapping[str, Any]) -> Workload | None:
    """Read a piece of work."""
    before = len(reader.problems)
    place = ["workloads", name]
    for key in entry:
        if key not in _FIELDS:
            reader.wrong([*place, key], no_such("key", key, _FIELDS))
    if "model" not in entry:
        reader.wrong(place, "model is missing: the PROVIDER/MODEL that the work runs on")
    model = reader.target([*place, "model"], entry["model"]) if "model" in entry else None
    fallback = None
    if "fallback" in entry:
        fallback = reader.target([*place, "fallback"], entry["fallback"])
    needs = read_needs(reader, [*place, "needs"], entry.get("needs", []), name)
    on = _fallback_on(reader, place, entry)
    policy = None
    if "policy" in entry:
        policy = reader.fields([*place, "policy"], reader.object([*place, "policy"], entry), Policy)
    if len(reader.problems) > before or model is None or needs is None:
        return None
    return Workload(
        name,
        "/".join(model),
        needs,
        None if fallback is None else "/".join(fallback),
        reader.lines.of(place),
        on,
        policy,
    )


def _fallback_on(
    reader: Reader, place: list[str], entry: Mapping[str, Any]
) -> tuple[FallbackOn, ...]:
    if "fallback_on" not in entry:
        return ("capability",)
    if "fallback" not in entry:
        reader.wrong([*place, "fallback_on"], "there is no fallback that it could be about")
    try:
        return msgspec.convert(entry["fallback_on"], tuple[FallbackOn, ...])
    except msgspec.ValidationError:
        known = ", ".join(get_args(FallbackOn))
        reader.wrong([*place, "fallback_on"], f"expected a list of some of {known}")
        return ("capability",)


def read_needs(reader: Reader, place: list[str], listed: Any, name: str) -> Needs | None:
    """Read a list of needs, each wrong one told for itself."""
    if not isinstance(listed, list):
        reader.wrong(place, 'expected a list such as ["tools", "context>=200k"]')
        return None
    found: list[Need] = []
    for entry in listed:
        try:
            found.append(_need(entry, name))
        except InputError as error:
            reader.wrong(place, str(error))
    try:
        return Needs(found)
    except InputError as error:
        reader.wrong(place, str(error))
        return None


def _need(entry: Any, workload: str) -> Need:
    if isinstance(entry, str):
        return Need.parse(entry, required_by=(workload,))
    if not isinstance(entry, dict):
        raise InputError(f"a need is a text or a table, not {brief(entry)}")
    for key in entry:
        if key not in NEED_FIELDS:
            raise InputError(no_such("key of a need", key, NEED_FIELDS))
    if not isinstance(entry.get("capability"), str):
        raise InputError("a need's table names its capability")
    given = {key: value for key, value in entry.items() if key != "capability"}
    given.setdefault("required_by", workload)
    return need(entry["capability"], **given)

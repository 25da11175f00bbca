"""Validation: values against JSON Schemas, with findings that a model can act on."""

from typing import Any, Final

from modelpact.vocabulary.errors import InputError

_MOST_FINDINGS: Final = 10
_LARGEST: Final = 100_000
"""Parts that a schema may have when its references are followed."""


class Schema:
    """A compiled JSON Schema. References to other documents are refused, never fetched."""

    __slots__ = ("_validator", "document")

    def __init__(self, document: Any, where: str) -> None:
        if not isinstance(document, (dict, bool)):
            raise InputError(f"{where}: a JSON Schema is an object, not {type(document).__name__}")
        import jsonschema_rs  # a large module: only who validates pays for it

        self.document = document
        if _size(document) > _LARGEST:
            raise InputError(
                f"{where}: the schema's references make it larger than {_LARGEST:,} parts; "
                "use fewer references to definitions that refer on"
            )
        try:
            self._validator = jsonschema_rs.validator_for(document, retriever=_refuse)
        except RecursionError:
            raise InputError(f"{where}: the schema is nested too deeply") from None
        except (
            jsonschema_rs.ValidationError,
            jsonschema_rs.ReferencingError,
            ValueError,
        ) as error:
            raise InputError(f"{where}: not a JSON Schema: {_first_line(error)}") from None

    def accepts(self, value: Any) -> bool:
        """Tell whether a value is valid."""
        try:
            return bool(self._validator.is_valid(value))
        except (ValueError, RecursionError):
            return False

    def findings(self, value: Any) -> list[str]:
        """Return what is wrong with a value, each with its place; nothing when it is valid."""
        found: list[str] = []
        try:
            for error in self._validator.iter_errors(value):
                if len(found) == _MOST_FINDINGS:
                    found.append("and more")
                    break
                place = "".join(f"/{part}" for part in error.instance_path) or "the value itself"
                found.append(f"{place}: {_first_line(error)}")
        except (ValueError, RecursionError) as error:
            found.append(f"the value cannot be checked: {_first_line(error)}")
        return found


def _size(document: Any) -> int:
    """Return how many parts a schema has with its references followed, each once on a way.

    Definitions that refer to each other twice over double with every level: validators would try
    every way through them.
    """
    sizes: dict[int, int] = {}
    definitions = document if isinstance(document, dict) else {}

    def size(part: Any) -> int:
        if not isinstance(part, (dict, list)):
            return 0
        found = sizes.get(id(part))
        if found is None:
            sizes[id(part)] = 1  # while it is looked at: a reference back to itself adds nothing
            total = 1
            for one in part.values() if isinstance(part, dict) else part:
                total += size(one)
            reference = part.get("$ref") if isinstance(part, dict) else None
            if isinstance(reference, str) and reference.startswith("#/"):
                total += size(_target(definitions, reference))
            found = sizes[id(part)] = min(total, _LARGEST + 1)
        return found

    try:
        return size(document)
    except RecursionError:
        return 0  # too deep, which the validator says in its own words


def _target(document: Any, reference: str) -> Any:
    for name in reference[2:].split("/"):
        if not isinstance(document, dict):
            return None
        document = document.get(name.replace("~1", "/").replace("~0", "~"))
    return document


def _refuse(uri: str) -> Any:
    raise ValueError(f"references to other documents are not followed: {uri}")


def _first_line(error: BaseException) -> str:
    message = getattr(error, "message", "") or str(error)
    line = message.strip().splitlines()[0] if message.strip() else type(error).__name__
    return line if len(line) <= 300 else f"{line[:299]}…"

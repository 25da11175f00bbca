"""Validate values against JSON Schemas, with findings that a model can act on."""

from typing import Any, Final

from modelpact.vocabulary.errors import InputError

_MAX_FINDINGS: Final = 10
_MAX_SCHEMA_SIZE: Final = 100_000
"""The most parts that a schema may have with its references followed."""


class Schema:
    """A compiled JSON Schema. References to other documents are refused, never fetched."""

    __slots__ = ("_validator", "document")

    def __init__(self, document: Any, where: str) -> None:
        if not isinstance(document, (dict, bool)):
            raise InputError(f"{where}: a JSON Schema is an object, not {type(document).__name__}")
        import jsonschema_rs  # a large module: imported only when it is needed

        self.document = document
        if _size(document) > _MAX_SCHEMA_SIZE:
            raise InputError(
                f"{where}: with its references followed, the schema has more than "
                f"{_MAX_SCHEMA_SIZE:,} parts; use fewer references to definitions with references"
            )
        try:
            self._validator = jsonschema_rs.validator_for(document, retriever=_refuse)
        except RecursionError:
            raise InputError(f"{where}: the schema is nested too deeply") from None
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            raise InputError(f"{where}: not a JSON Schema: {_first_line(error)}") from None

    def accepts(self, value: Any) -> bool:
        """Whether a value is valid."""
        try:
            return bool(self._validator.is_valid(value))
        except (ValueError, RecursionError):
            return False

    def findings(self, value: Any) -> list[str]:
        """Return what is wrong with a value, each with its place; nothing if it is valid."""
        findings: list[str] = []
        try:
            for error in self._validator.iter_errors(value):
                if len(findings) == _MAX_FINDINGS:
                    findings.append("and more")
                    break
                path = "".join(f"/{part}" for part in error.instance_path) or "the value itself"
                findings.append(f"{path}: {_first_line(error)}")
        except (ValueError, RecursionError) as error:
            findings.append(f"the value cannot be checked: {_first_line(error)}")
        return findings


def _size(document: Any) -> int:
    """Return how many parts a schema has with its references followed.

    Each level of definitions that refer to the next one twice doubles the size, and validators
    would try every path through them. A reference back to itself adds nothing.
    """
    sizes: dict[int, int] = {}
    definitions = document if isinstance(document, dict) else {}

    def size(part: Any) -> int:
        if not isinstance(part, (dict, list)):
            return 0
        known = sizes.get(id(part))
        if known is None:
            sizes[id(part)] = 1  # until it is counted
            total = 1
            for child in part.values() if isinstance(part, dict) else part:
                total += size(child)
            reference = part.get("$ref") if isinstance(part, dict) else None
            if isinstance(reference, str) and reference.startswith("#/"):
                total += size(_target(definitions, reference))
            known = sizes[id(part)] = min(total, _MAX_SCHEMA_SIZE + 1)
        return known

    try:
        return size(document)
    except RecursionError:
        return 0  # the validator reports schemas that are nested too deeply


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

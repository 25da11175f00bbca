"""What `modelpact lint` reads: files, standard input, and models of Python modules."""

import importlib
import inspect
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec

from modelpact.cli.ci_formats import ci_path
from modelpact.cli.common import read_input
from modelpact.vocabulary.errors import InputError, brief, nearest
from modelpact.vocabulary.strict_json import parse_json

LARGEST: Final = 5_000_000
_MODEL: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_INDENT: Final = re.compile(r'\n([ \t]+)"')


class Source(msgspec.Struct, frozen=True):
    """A schema and where it is from."""

    name: str
    schema: Any
    text: str | None = None
    """Its JSON, where it was read from a text."""
    path: Path | None = None
    """The file that a rewrite goes to."""
    line: int = 1

    def rewritten(self, schema: dict[str, Any]) -> str:
        """Return a rewritten schema as text, in the style of the source."""
        text = self.text if self.text is not None else '{\n  "'
        indent = _INDENT.search(text)
        layout = indent[1] if indent else None
        try:
            made = json.dumps(schema, indent=layout, ensure_ascii=text.isascii())
            made.encode()
        except UnicodeEncodeError:
            made = json.dumps(schema, indent=layout)
        return made + "\n" if self.text is None or text.endswith("\n") else made


def read_source(name: str) -> Source:
    """Read a schema from a file, from standard input (`-`), or from `package.module:Model`."""
    if _MODEL.fullmatch(name) and not Path(name).exists():
        return _model(name)
    shown, data = read_input(name, LARGEST, "5 MB; no vendor takes a schema of that size")
    schema = parse_json(data.removeprefix(b"\xef\xbb\xbf"), shown)
    text = data.decode("utf-8-sig")
    if name == "-":
        return Source("<stdin>", schema, text)
    return Source(ci_path(Path(name)), schema, text, Path(name))


def write_source(path: Path, text: str) -> None:
    """Replace a file in one step, so that a crash leaves the old one or the new one."""
    target = path.resolve()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        Path(temporary).chmod(target.stat().st_mode & 0o777)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _model(name: str) -> Source:
    module_name, _, attributes = name.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InputError(_not_found(name, module_name, error)) from None
    except Exception as error:
        raise InputError(
            f"{name}: the module cannot be imported: {type(error).__name__}: {error}"
        ) from None
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            close = nearest(attribute, dir(found))
            meant = f"; did you mean {' or '.join(close)}?" if close else ""
            raise InputError(f"{name}: {module_name} has no {attribute!r}{meant}")
        found = getattr(found, attribute)
    file, line = _place(found, module_name)
    return Source(file or name, _schema_of(name, found), line=line)


def _not_found(name: str, module: str, error: ModuleNotFoundError) -> str:
    if error.name == "pydantic":
        return f"{name}: Pydantic is not installed here: pip install pydantic"
    if error.name and (module == error.name or module.startswith(f"{error.name}.")):
        return f"{name}: there is no file of that name and no module {error.name!r} from here"
    return f"{name}: {module} cannot be imported: no module {error.name!r}"


def _schema_of(name: str, found: Any) -> Any:
    if isinstance(found, dict):
        return found
    try:
        if callable(make := getattr(found, "model_json_schema", None)):
            return make()
        from pydantic import TypeAdapter

        return TypeAdapter(found).json_schema()
    except ModuleNotFoundError:
        raise InputError(f"{name}: Pydantic is not installed here: pip install pydantic") from None
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"{name}: expected a Pydantic model or a schema, not {brief(found)}: {first}"
        ) from None


def _place(found: Any, module: str) -> tuple[str, int]:
    """Return the file and line of a model, for those who show findings in files."""
    file = getattr(sys.modules.get(module), "__file__", None)
    line = 1
    try:
        file = inspect.getsourcefile(found) or file
        line = inspect.getsourcelines(found)[1]
    except (OSError, TypeError):
        pass
    return (ci_path(Path(file)) if file else ""), line

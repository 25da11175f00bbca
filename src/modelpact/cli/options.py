"""What the commands share: options, input, output."""

import codecs
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from modelpact.catalog.catalog import Catalog
from modelpact.catalog.provider import APIS
from modelpact.catalog.resolution import Resolution
from modelpact.cli.paths import configured_store
from modelpact.configuration import Configuration, load_configuration
from modelpact.needs.need import Needs
from modelpact.vocabulary.capability import ALIASES, CAPABILITIES
from modelpact.vocabulary.errors import InputError, ModelpactError, UnknownName, brief
from modelpact.vocabulary.strict_json import parse_json

F = TypeVar("F", bound=Callable[..., Any])

MAX_INPUT = 16 * 1024 * 1024


def config_option(function: F) -> F:
    """Add `--config FILE`."""
    return click.option(
        "--config",
        "config_path",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The modelpact.toml to use; by default the nearest one upward from here.",
    )(function)


def json_option(function: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(
        function
    )


def configured(config_path: Path | None) -> tuple[Configuration, Catalog]:
    """Load the configuration, the catalog under it, and what probes and use showed."""
    configuration = load_configuration(config_path)
    return configuration, with_evidence(configuration)


def with_evidence(configuration: Configuration) -> Catalog:
    """Return the catalog with the store's evidence; a store that cannot be read is told of."""
    catalog = configuration.catalog()
    url = configured_store(configuration)
    if url.startswith("sqlite:") and not Path(url.removeprefix("sqlite:")).is_file():
        return catalog
    from modelpact.evidence.store import read_evidence  # only who has a store pays for this
    from modelpact.ledger.reader import LedgerReader

    try:
        with LedgerReader.open(url) as reader:
            evidence = read_evidence(reader)
    except (ModelpactError, msgspec.MsgspecError) as error:
        click.echo(f"modelpact: evidence is left out: {error}", err=True)
        return catalog
    return catalog.extended(evidence=evidence) if evidence else catalog


def resolve_target(catalog: Catalog, target: str, api: str | None = None) -> Resolution:
    """Resolve PROVIDER/MODEL, or raise an error that names the nearest providers."""
    if not target.strip().isprintable():  # it is shown on a terminal, which would obey it
        raise InputError(f"{brief(target)} is not a target: write PROVIDER/MODEL, all visible")
    provider, model = catalog.split(target)
    if catalog.find_provider(provider) is None:
        names = (*catalog.configured, *catalog.providers.names)
        raise UnknownName("provider", provider, names, "`modelpact vocabulary providers` lists all")
    if api is not None and api not in APIS:
        raise UnknownName("API", api, APIS, f"there are {', '.join(APIS)}")
    return catalog.resolve(provider, model, api)


def complete_target(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Complete PROVIDER/MODEL in the shell."""
    from modelpact.catalog.catalog import default_catalog

    catalog = default_catalog()
    provider, slash, start = incomplete.partition("/")
    if not slash:
        return sorted(f"{one.id}/" for one in catalog.providers.all if one.id.startswith(provider))
    names = catalog.models.names(provider)
    return [f"{provider}/{name}" for name in sorted(names) if name.startswith(start)][:200]


def complete_needs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Complete the last of several needs in the shell."""
    done, comma, last = incomplete.rpartition(",")
    names = (*CAPABILITIES, *ALIASES)
    return sorted(f"{done}{comma}{name}" for name in names if name.startswith(last.strip()))


def read_needs(texts: Sequence[str]) -> Needs:
    """Read needs from options; an empty one is a mistake, not a need that is met."""
    needs = Needs([one for text in texts for one in Needs(text)])
    if texts and not needs:
        raise InputError('--need is empty: write needs such as "tools,context>=200k"')
    return needs


def print_json(data: Any) -> None:
    """Print data as JSON."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def read_json(file: str | None) -> Any:
    """Read JSON from a file, or from standard input when the file is `-` or left out."""
    name, data = read_input(file, MAX_INPUT, f"{MAX_INPUT // 1024 // 1024} MiB")
    return parse_json(data.removeprefix(codecs.BOM_UTF8), name)


def read_input(file: str | None, most: int, shown: str) -> tuple[str, bytes]:
    """Read a file or standard input, up to a size; return its name for messages and its bytes."""
    name = "standard input" if file in (None, "-") else str(file)
    try:
        if file in (None, "-"):
            data = sys.stdin.buffer.read(most + 1)
        else:
            with Path(str(file)).open("rb") as stream:
                data = stream.read(most + 1)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise InputError(f"{name} cannot be read: {said}") from None
    if len(data) > most:
        raise InputError(f"{name} is larger than {shown}")
    return name, data

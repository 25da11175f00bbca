"""Shared by all tests: fixtures for both stores, and helpers that build claims and catalogs."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from modelpact.catalog.build import Fact, LineageFacts, build
from modelpact.catalog.catalog import Catalog
from modelpact.catalog.claim import Claim, Claims, Constraint
from modelpact.catalog.facts import Lineage
from modelpact.catalog.provider import NameTables, ProviderEntry
from modelpact.catalog.snapshot import decode
from modelpact.catalog.sources import read_rules
from tests.stores import Counted, empty_schema, postgresql

# Tests use no settings and no data of the user who runs them.
for _variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
    os.environ.pop(_variable, None)
os.environ["MODELPACT_DATA"] = tempfile.mkdtemp(prefix="modelpact-tests-")
atexit.register(shutil.rmtree, os.environ["MODELPACT_DATA"], ignore_errors=True)

settings.register_profile("modelpact", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("modelpact")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """The PostgreSQL server of this test process."""
    with postgresql() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Any) -> str:
    return empty_schema(postgres)


@pytest.fixture
def counted(postgres: Any) -> Counted:
    """An empty schema in PostgreSQL that counts its connections."""
    return Counted(postgres)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store; each test runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'ledger.db'}"
    postgres_url: str = request.getfixturevalue("postgres_url")
    return postgres_url


PROVIDERS = (
    ProviderEntry("anthropic", "Anthropic", "cloud", "own", ("anthropic",), ("claude",)),
    ProviderEntry("azure", "Azure", "cloud", "relay", ("openai-chat",)),
    ProviderEntry("bedrock", "Bedrock", "cloud", "relay", ("anthropic",)),
    ProviderEntry("gemini", "Gemini", "cloud", "own", ("gemini", "openai-chat"), ("google",)),
    ProviderEntry("openai", "OpenAI", "cloud", "own", ("openai-chat", "openai-responses")),
    ProviderEntry("openrouter", "OpenRouter", "cloud", "relay", ("openai-chat",)),
    ProviderEntry("vertex", "Vertex", "cloud", "relay", ("gemini",)),
    ProviderEntry("vllm", "vLLM", "local", "weights", ("openai-chat",)),
)
"""Eight providers that cover every kind of provider and API."""

NAMES = NameTables(
    vendors={"anthropic": "anthropic", "openai": "openai", "google": "gemini"},
    families={"claude-": "anthropic", "gpt-": "openai", "o3": "openai", "gemini-": "gemini"},
    regions=("eu", "global", "us"),
)


def claims(
    supports: Mapping[str, object], *, target: str = "acme/model", excludes: Iterable[tuple[str, ...]] = ()
) -> Claims:
    """Make claims from support levels; a number or a choice is the value of a native claim."""
    constraints = tuple(Constraint(" with ".join(names), names) for names in excludes)
    listed = [_claim(name, value) for name, value in supports.items()]
    return Claims(listed, target=target, constraints=constraints)


def _claim(name: str, value: object) -> Claim:
    if value == "restricted":
        return Claim(name, "restricted", reason="by policy")
    if value in ("native", "emulated", "unsupported", "unknown"):
        return Claim(name, value)
    return Claim(name, "native", value)  # type: ignore[arg-type]


def lineage(name: str, *facts: Fact, date: str = "2026-01-01") -> LineageFacts:
    """Make a lineage of public facts."""
    return LineageFacts(Lineage(name, "1", date, "MIT", f"https://{name}.example"), facts)


def fact(target: str, price: Any = None, **caps: Any) -> Fact:
    """Make one fact of a lineage: a `provider/model` and its capabilities."""
    provider, _, model = target.partition("/")
    return Fact(provider, model, caps, price)


def catalog(rules: str = "", *lineages: LineageFacts, **more: Any) -> Catalog:
    """Make a catalog of the eight providers from rules in TOML and some facts."""
    sources = read_rules(rules, PROVIDERS)
    sources.names = NAMES
    return Catalog(decode(build(sources, lineages), "small"), **more)

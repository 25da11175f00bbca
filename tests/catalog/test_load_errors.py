"""Load-time checks: each fails loudly, names file, rule and field, and all are told at once."""

from pathlib import Path

import pytest

from modelpact import CatalogError
from modelpact.catalog.build import read_lineage, read_lineages
from modelpact.catalog.snapshot import decode, read
from modelpact.catalog.sources import Sources, read_rules, read_sources
from tests.conftest import PROVIDERS

ANY = 'match = { kind = "any" }'


def load(text: str) -> Sources:
    return read_rules(text, PROVIDERS, "some.toml")


def rule(body: str, name: str = "the rule") -> str:
    return f'[[rules]]\nname = "{name}"\n{body}\n'


def problems(text: str) -> list[str]:
    with pytest.raises(CatalogError) as caught:
        load(text)
    return [str(problem) for problem in caught.value.problems]


BAD_RULES = {
    "unknown provider": (
        f'{ANY}\nscope.providers = ["opnai"]\ncaps.seed = true',
        ["scope.providers", "opnai", "did you mean 'openai'"],
    ),
    "unknown API": (
        f'{ANY}\nscope.api_dialect = ["soap"]\ncaps.seed = true',
        ["scope.api_dialect", "soap", "openai-chat"],
    ),
    "unknown scope": (f"{ANY}\nscope.models = []\ncaps.seed = true", ["scope.models"]),
    "unknown parameter": (
        f'{ANY}\ncaps.supported_parameters = ["web-serch"]',
        ["caps.supported_parameters", "unknown parameter 'web-serch'", "web-search"],
    ),
    "unknown modality": (
        f'{ANY}\ncaps.input_modalities = ["text", "smell"]',
        ["caps.input_modalities", "unknown modality 'smell'"],
    ),
    "unknown output": (f'{ANY}\ncaps.output_modalities = ["smell"]', ["caps.output_modalities", "smell"]),
    "no text": (f'{ANY}\ncaps.input_modalities = ["image"]', ["caps.input_modalities", "text"]),
    "listed twice": (f'{ANY}\ncaps.input_modalities = ["text", "text"]', ["caps.input_modalities", "twice"]),
    "no such caps field": (f"{ANY}\ncaps.tool_caling = true", ["caps.tool_caling", "did you mean tool_calling"]),
    "no such field": (f"{ANY}\ncapz = 1\ncaps.seed = true", ["capz"]),
    "flag of a wrong type": (f"{ANY}\ncaps.streaming = 1", ["caps.streaming", "true, false"]),
    "flag of a wrong word": (f'{ANY}\ncaps.streaming = "yes"', ["caps.streaming", "native"]),
    "limit of a wrong type": (f'{ANY}\ncaps.context_window = "8k"', ["caps.context_window"]),
    "limit as truth": (f"{ANY}\ncaps.context_window = true", ["caps.context_window"]),
    "limit of nothing": (f"{ANY}\ncaps.context_window = 0", ["caps.context_window", "from 1"]),
    "limit as a fraction": (f"{ANY}\ncaps.max_output = 1.5", ["caps.max_output"]),
    "list of a wrong type": (f'{ANY}\ncaps.input_modalities = "text"', ["expected a list"]),
    "enum": (f'{ANY}\ncaps.json_mode = "xml"', ["caps.json_mode", "unavailable, object, schema"]),
    "enum of a wrong type": (f"{ANY}\ncaps.caching = []", ["caps.caching", "prompt-caching"]),
    "token limit": (f'{ANY}\ncaps.token_limit_param = "max_tokens"', ["caps.token_limit_param"]),
    "restricted without a reason": (f"{ANY}\ncaps.seed = {{ restricted = '' }}", ["caps.seed"]),
    "no match": ("caps.seed = true", ["match"]),
    "unknown match kind": ('match = { kind = "regex" }\ncaps.seed = true', ["match", "prefix_any"]),
    "match kind of a wrong type": ('match = { kind = ["any"] }\ncaps.seed = true', ["match", "prefix_any"]),
    "match of another kind": (
        'match = { kind = "exact", prefixes = ["a"] }\ncaps.seed = true',
        ["match.model", "match.prefixes"],
    ),
    "match without names": ('match = { kind = "prefix_any", prefixes = [] }\ncaps.seed = true', ["match.prefixes"]),
    "match with an empty name": ('match = { kind = "exact", model = "" }\ncaps.seed = true', ["match.model"]),
    "no caps": (ANY, ["caps"]),
    "source of a wrong type": (f"{ANY}\nsource = 5\ncaps.seed = true", ["source"]),
    "date of a wrong type": (f"{ANY}\ndate = 2026-01-01\ncaps.seed = true", ["date"]),
}


@pytest.mark.parametrize("kind", BAD_RULES)
def test_a_bad_rule_names_file_rule_and_field(kind: str) -> None:
    """S004-9-5, S004-9-1, S004-9-2, S004-6-2, S004-1-4, MP-C9: an error names file, rule and
    field.
    """
    body, words = BAD_RULES[kind]
    messages = "\n".join(problems(rule(body)))
    for word in ("some.toml", "the rule", *words):
        assert word in messages


def test_all_problems_are_reported_at_once() -> None:
    text = "\n".join(rule(body, name=kind) for kind, (body, _) in BAD_RULES.items())
    messages = "\n".join(problems(text))
    for kind in BAD_RULES:
        assert f"'{kind}'" in messages


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[defaults]\ntool_caling = true", "tool_caling"),
        ('[defaults]\ninput_modalities = ["image"]', "text"),
        ("defaults = 5", "defaults"),
        ("rules = 5", "rules"),
        ("rules = [1]", "rules"),
        ("[rulez]\na = 1", "rulez"),
        ("[[corrections]]\n" + ANY + "\ncaps.seed = true", "source"),
        ("[[constraints]]\n" + ANY + '\nexcludes = ["seed"]', "at least two"),
        ("[[constraints]]\n" + ANY + '\nexcludes = ["seed", "bogus"]', "bogus"),
        ("[[constraints]]\n" + ANY + '\nexcludes = ["seed", "tools"]', "tools"),
        ("[[constraints]]\n" + ANY + "\ncaps.seed = true", "excludes"),
        (rule(ANY + "\ncaps.seed = true") * 2, "used twice"),
        ("this is no TOML", "not TOML"),
    ],
)
def test_bad_tables_name_the_file(text: str, word: str) -> None:
    messages = "\n".join(problems(text))
    assert word in messages


def test_good_rules_are_read_in_order() -> None:
    text = rule(f"{ANY}\ncaps.seed = true", "a") + rule(f"{ANY}\ncaps.n = true", "b")
    assert [rule.name for rule in load(text).rules] == ["a", "b"]
    assert load("").rules == []


PROVIDER = """
[[providers]]
id = "acme"
name = "Acme"
kind = "cloud"
serves = "own"
apis = ["openai-chat"]
"""


def folder(tmp_path: Path, providers: str, names: str = "", rules: str = "") -> Path:
    (tmp_path / "rules").mkdir()
    (tmp_path / "providers.toml").write_text(providers, encoding="utf-8")
    (tmp_path / "names.toml").write_text(names, encoding="utf-8")
    (tmp_path / "rules" / "10-acme.toml").write_text(rules, encoding="utf-8")
    return tmp_path


def test_a_good_folder_is_read(tmp_path: Path) -> None:
    rules = rule(f'{ANY}\nscope.providers = ["acme"]\ncaps.seed = true')
    names = '[vendors]\n"acme-labs" = "acme"'
    sources = read_sources(folder(tmp_path, PROVIDER + 'tags = ["a", "b"]', names, rules))
    assert [provider.id for provider in sources.providers] == ["acme"]
    assert sources.names.vendors == {"acme-labs": "acme"}
    assert len(sources.rules) == 1


@pytest.mark.parametrize(
    ("providers", "words"),
    [
        (PROVIDER + 'tags = ["b", "a"]', ["tags", "sorted"]),
        (PROVIDER + 'tags = ["a", "a"]', ["tags", "duplicates"]),
        (PROVIDER + PROVIDER, ["acme", "already a name"]),
        (PROVIDER + 'aliases = ["acme"]', ["aliases", "already"]),
        (PROVIDER + 'nickname = "a"', ["nickname", "no such field"]),
        (PROVIDER.replace('"cloud"', '"cellar"'), ["kind"]),
        (PROVIDER.replace('["openai-chat"]', "[]"), ["apis"]),
        (PROVIDER.replace('["openai-chat"]', '["soap"]'), ["apis"]),
        (PROVIDER.replace('"acme"', '"Acme Inc"'), ["id"]),
        (PROVIDER.replace('"acme"', "5"), ["id"]),
        ("providers = 5", ["providers"]),
        ("providers = [5]", ["providers"]),
        ("not = toml = at all", ["not TOML"]),
    ],
)
def test_bad_providers_name_file_and_field(tmp_path: Path, providers: str, words: list[str]) -> None:
    """S004-9-3, S004-9-1: tags are sorted and free of duplicates; unknown ids fail the build."""
    with pytest.raises(CatalogError) as caught:
        read_sources(folder(tmp_path, providers))
    for word in ("providers.toml", *words):
        assert word in str(caught.value)


@pytest.mark.parametrize("names", ['[vendors]\nx = "nobody"', '[families]\n"x-" = "nobody"', "vendors = 5"])
def test_bad_names_name_the_file(tmp_path: Path, names: str) -> None:
    with pytest.raises(CatalogError, match=r"names\.toml"):
        read_sources(folder(tmp_path, PROVIDER, names))


def test_problems_of_several_files_are_reported_together(tmp_path: Path) -> None:
    bad = rule(f"{ANY}\ncaps.bogus = true")
    with pytest.raises(CatalogError) as caught:
        read_sources(folder(tmp_path, PROVIDER + 'tags = ["b", "a"]', '[vendors]\nx = "no"', bad))
    files = [problem.file for problem in caught.value.problems]
    assert sorted(files) == ["10-acme.toml", "names.toml", "providers.toml"]


def test_missing_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"providers\.toml.*cannot be read"):
        read_sources(tmp_path)
    with pytest.raises(CatalogError, match="no lineage files"):
        read_lineages(tmp_path)
    with pytest.raises(CatalogError, match="cannot be read"):
        read(tmp_path / "none.msgpack")


def test_the_bundled_sources_are_clean() -> None:
    assert len(read_sources().rules) > 100


HEADER = b'{"lineage":"l","version":"1","date":"2026-01-01","licence":"MIT","url":"u"}\n'


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", ["empty"]),
        (b"{}", [":1", "lineage"]),
        (HEADER + b"nonsense", [":2"]),
        (HEADER + b'{"provider":"a"}', [":2", "model"]),
        (HEADER + b'{"provider":"a","model":"m","caps":{"bogus":1}}', [":2", "a/m", "caps.bogus"]),
        (HEADER + b'{"provider":"a","model":"m","price":{"input":"1"}}', [":2", "price"]),
    ],
)
def test_invalid_lineage_lines_are_reported_by_line_number(data: bytes, words: list[str]) -> None:
    with pytest.raises(CatalogError) as caught:
        read_lineage(data, "l.jsonl")
    for word in ("l.jsonl", *words):
        assert word in str(caught.value)


def test_bytes_that_are_not_a_snapshot_are_reported() -> None:
    for data in (b"", b"nonsense", b"\x80", b"\xc1" * 50):
        with pytest.raises(CatalogError, match="not a catalog snapshot"):
            decode(data, "x.msgpack")

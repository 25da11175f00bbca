"""`modelpact lint`: sources, formats, rewriting, exit codes, bad input told in a line."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from modelpact.cli.render.lint import json_positions
from tests.cli.conftest import Run
from tests.schemas.examples import closed, holding, spec_example, variant

TEXT = {"type": "string"}
CLEAN = closed({"name": TEXT})
SARIF_REQUIRED = {"ruleId", "level", "message", "locations"}
MODELS = """
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Circle(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["circle"]


class Square(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["square"]


class Drawing(BaseModel):
    model_config = ConfigDict(extra="forbid")
    shape: Annotated[Circle | Square, Field(discriminator="kind")]
    note: str | None = None


SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}
NUMBER = 5
"""


def put(folder: Path, name: str, schema: Any, indent: int | None = 2) -> str:
    (folder / name).write_text(json.dumps(schema, indent=indent) + "\n", encoding="utf-8")
    return name


def test_the_exit_code_is_1_if_there_are_errors(run: Run, tmp_path: Path) -> None:
    """MP-I1: exit code 0 is clean, 1 is findings."""
    done = run("lint", put(tmp_path, "a.json", spec_example()), "--for", "variants")
    assert (done.returncode, done.stdout) == (0, "1 schema: nothing found\n")
    done = run("lint", "a.json", "--for", "variants,tier1")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "a.json:8:5: error required-property /properties/reasoning: 'reasoning' is not required; "
        'list it, and allow "null" if it is optional [tier1]',
        "1 schema: 1 error; --fix may rewrite 1",
    ]


def test_the_json_shape(run: Run, tmp_path: Path) -> None:
    """MP-J5: `lint` gives `{"ok", "findings": [{"rule", "path", "message", "profiles"}]}`."""
    name = put(tmp_path, "a.json", spec_example())
    data = json.loads(run("lint", name, "--json").stdout)
    assert data["ok"] is False
    (finding,) = data["findings"]
    assert finding["rule"] == "required-property"
    assert finding["path"] == "/properties/reasoning"
    assert finding["profiles"] == ["tier1"]
    assert "not required" in finding["message"]
    assert (finding["level"], finding["file"], finding["line"], finding["column"]) == ("error", "a.json", 8, 5)
    assert json.loads(run("lint", name, "--for", "variants", "--format", "json").stdout) == {"ok": True, "findings": []}


def test_notes_do_not_fail(run: Run, tmp_path: Path) -> None:
    schema = holding({"anyOf": [variant("a", "shape"), variant("b", "shape")]})
    done = run("lint", put(tmp_path, "a.json", schema), "--json")
    data = json.loads(done.stdout)
    assert (done.returncode, data["ok"]) == (0, True)
    assert [(finding["rule"], finding["level"]) for finding in data["findings"]] == [
        ("variant-discriminator-name", "note")
    ]


def test_several_files_and_standard_input(run: Run, tmp_path: Path) -> None:
    names = [put(tmp_path, "a.json", CLEAN), put(tmp_path, "b c.json", {"type": "string"})]
    done = run("lint", *names, "-", stdin=json.dumps({"type": "string"}))
    assert done.returncode == 1
    assert [line.split(": ")[0] for line in done.stdout.splitlines()] == ["b c.json:1:1", "<stdin>:1:1", "3 schemas"]


def test_sarif(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my schemas").mkdir()
    name = put(tmp_path / "my schemas", "a.json", holding({"oneOf": [TEXT]}))
    done = run("lint", f"my schemas/{name}", "--format", "sarif")
    assert done.returncode == 1
    log = json.loads(done.stdout)
    assert log["version"] == "2.1.0"
    (result,) = log["runs"][0]["results"]
    assert result.keys() >= SARIF_REQUIRED
    assert result["ruleId"] == "one-of"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "my%20schemas/a.json"
    assert place["region"] == {"startLine": 9, "startColumn": 7}
    assert [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]] == ["one-of"]


def test_github(run: Run, tmp_path: Path) -> None:
    name = put(tmp_path, "a,b.json", closed({"100%": {**TEXT, "format": "email"}}))
    done = run("lint", name, "--format", "github")
    assert done.stdout == (
        "::error file=a%2Cb.json,line=10,col=7,title=string-constraint::"
        "/properties/100%25/format: format is not supported: state it in the description and "
        "check it in your code [tier1]\n"
    )


def test_fix_rewrites_in_place(run: Run, tmp_path: Path) -> None:
    """As ruff does: files are rewritten; what remains is reported and decides the exit code."""
    name = put(tmp_path, "a.json", spec_example(), indent=4)
    (tmp_path / name).chmod(0o640)
    done = run("lint", name, "--fix")
    assert done.returncode == 0
    assert "fixed 'reasoning' is now required" in done.stdout
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert json.loads(text) == {**spec_example(), "required": ["reasoning", "steps"]}
    assert text.startswith('{\n    "type"')
    assert text.endswith("}\n")
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == [name]
    assert run("lint", name, "--fix").stdout == "1 schema: nothing found; 0 rewrites\n"
    assert (tmp_path / name).read_text(encoding="utf-8") == text


def test_fix_reports_what_it_cannot_rewrite(run: Run, tmp_path: Path) -> None:
    name = put(tmp_path, "a.json", holding({"oneOf": [TEXT, {**TEXT, "minLength": 2}]}))
    done = run("lint", name, "--fix", "--for", "variants")
    assert done.returncode == 1
    assert "a.json: /properties/x/oneOf: not rewritten: a value could match several branches" in (done.stdout)


def test_fix_of_standard_input_prints_the_schema(run: Run) -> None:
    done = run("lint", "-", "--fix", stdin=json.dumps(spec_example()))
    assert json.loads(done.stdout)["required"] == ["reasoning", "steps"]
    assert "fixed 'reasoning'" in done.stderr
    data = json.loads(run("lint", "-", "--fix", "--json", stdin=json.dumps(spec_example())).stdout)
    assert data["schemas"]["<stdin>"]["required"] == ["reasoning", "steps"]
    assert [change["rule"] for change in data["changes"]] == ["required-property"]
    assert data["kept"] == []


def test_nothing_is_written_when_one_input_is_bad(run: Run, tmp_path: Path) -> None:
    name = put(tmp_path, "a.json", spec_example())
    before = (tmp_path / name).read_text(encoding="utf-8")
    assert run("lint", name, "missing.json", "--fix").returncode == 2
    assert (tmp_path / name).read_text(encoding="utf-8") == before


def test_pydantic_models(run: Run, tmp_path: Path) -> None:
    """MP-L3: "Pydantic models are accepted as `package.module:Model`"."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "models.py").write_text(MODELS, encoding="utf-8")
    done = run("lint", "shop.models:Drawing", "--json")
    data = json.loads(done.stdout)
    assert done.returncode == 1
    assert {finding["rule"] for finding in data["findings"]} >= {"one-of", "required-property"}
    assert {(finding["file"], finding["line"]) for finding in data["findings"]} == {("shop/models.py", 17)}
    done = run("lint", "shop.models:Drawing", "--fix")
    assert done.returncode == 0
    assert "anyOf" in json.loads(done.stdout)["properties"]["shape"]
    assert run("lint", "shop.models:SCHEMA").returncode == 0


def test_unknown_models_are_reported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    (tmp_path / "broken.py").write_text("raise RuntimeError('no')", encoding="utf-8")
    (tmp_path / "needy.py").write_text("import pydantic", encoding="utf-8")
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "pydantic.py").write_text(
        "raise ModuleNotFoundError('x', name='pydantic')", encoding="utf-8"
    )
    for name, message in {
        "nothing:Model": "neither a file of that name nor a module 'nothing'",
        "models:Drawin": "models has no 'Drawin'; did you mean Drawing",
        "models:NUMBER": "expected a Pydantic model or a schema, not 5",
        "broken:Model": "cannot be imported: RuntimeError: no",
    }.items():
        done = run("lint", name)
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    done = run("lint", "needy:Model", PYTHONPATH=str(tmp_path / "hidden"))
    assert "Pydantic is not installed here: pip install pydantic" in done.stderr


def test_the_profiles_are_listed_with_their_sources(run: Run) -> None:
    """MP-L2: "Vendor profiles are versioned data with their limits, dates and sources"."""
    data = json.loads(run("lint", "--profiles", "--json").stdout)
    assert [entry["id"] for entry in data["profiles"]] == ["variants", "tier1", "openai", "anthropic", "gemini"]
    assert all(entry["version"] and entry["sources"] for entry in data["profiles"])
    assert "2026-" in run("lint", "--profiles").stdout


BAD: dict[str, tuple[str, str]] = {
    "not JSON": ("{", "standard input is not JSON"),
    "nothing": ("", "standard input is not JSON"),
    "a key twice": ('{"type": "object", "type": "object"}', "the key 'type' occurs twice"),
    "NaN": ('{"minimum": NaN}', "NaN is not JSON"),
    "not a schema": ("[]", "a JSON Schema is an object, not list"),
    "a wrong keyword": ('{"type": 3}', "/type: expected one or more of"),
    "cyclic": ('{"$ref": "#"}', "refers only to itself"),
    "endless nesting": ('{"items":' * 100_000, "nested too deeply"),
    "deep nesting": ('{"items":' * 300 + "{}" + "}" * 300, "nested more than 200 deep"),
    "5 MB": ('{"title": "' + "x" * 5_000_000 + '"}', "is larger than 5 MB"),
}


@pytest.mark.parametrize(("stdin", "message"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("more", [(), ("--fix",)], ids=["lint", "fix"])
def test_bad_input_is_an_error_in_one_line(run: Run, stdin: str, message: str, more: tuple[str, ...]) -> None:
    """MP-L3: "Input that is not JSON, not a schema, cyclic or very large gets a clear error"."""
    done = run("lint", "-", *more, stdin=stdin)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 400


def test_wrong_usage(run: Run) -> None:
    assert run("lint").returncode == 2
    done = run("lint", "-", "--for", "opnai", stdin="{}")
    assert (done.returncode, "did you mean openai" in done.stderr) == (2, True)


def test_positions_of_pointers() -> None:
    text = '{\n  "a": {"b/c": [1, {"\\u0064~": null}]},\n  "x": "}{,:["\n}'
    expected = ["", "/a", "/a/b~1c", "/a/b~1c/1", "/a/b~1c/1/d~0", "/x", "/y"]
    assert json_positions(text, expected) == {
        "": (1, 1),
        "/a": (2, 3),
        "/a/b~1c": (2, 9),
        "/a/b~1c/1": (2, 20),
        "/a/b~1c/1/d~0": (2, 21),
        "/x": (3, 3),
    }


def test_positions_are_found_without_a_pointer_per_value() -> None:
    """A long name is not repeated for each of the values in it."""
    inner = ", ".join(f'"k{n}": 0' for n in range(20_000))
    text = f'{{"{"A" * 200_000}": {{{inner}}}, "b": [0, {{"c~/d": 1}}]}}'
    start = time.process_time()
    assert json_positions(text, {"/b/1/c~0~1d", "/b/0", "/none"}).keys() == {"/b/1/c~0~1d", "/b/0"}
    assert time.process_time() - start < 1

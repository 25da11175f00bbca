"""Reading genai-prices without running it."""

import zipfile
from pathlib import Path

import pytest

from modelpact.catalog.lineages.genai_prices import extract
from modelpact.catalog.lineages.rows import Extraction, Row, encode

PROVIDERS = {"x-ai": "xai", "twin": "xai"}


def package(tmp_path: Path, models: str, provider: str = "x-ai") -> Path:
    folder = tmp_path / "genai_prices"
    folder.mkdir(exist_ok=True)
    (tmp_path / "genai_prices-1.2.3.dist-info").mkdir(exist_ok=True)
    (folder / "data.py").write_text(
        '"""Data."""\nimport no_such_module\nfrom .types import *\n__all__ = ("providers",)\n'
        f"providers: list[Provider] = [Provider(id='{provider}', name='X',\n"
        "    price_comments='Prices as of 2026-10-14, retires on 2026-12-31.',\n"
        f"    models=[{models}])]\n"
    )
    return folder


def read(tmp_path: Path, models: str) -> Extraction:
    return extract(package(tmp_path, models), PROVIDERS)


def only_row(tmp_path: Path, more: str) -> Row:
    model = f"ModelInfo(id='m', match=ClauseEquals(equals='m'), {more})"
    return read(tmp_path, model).rows[0]


def test_prices_window_status_and_match_are_kept(tmp_path: Path) -> None:
    result = read(
        tmp_path,
        """ModelInfo(
            id='grok', name='Grok',
            match=ClauseOr(or_=[ClauseStartsWith(starts_with='grok-'),
                ClauseAnd(and_=[ClauseContains(contains='g'), ClauseRegex(regex='^g.k$'),
                    ClauseEndsWith(ends_with='k')])]),
            context_window=256000, deprecated=True,
            prices=ModelPrice(input_mtok=Decimal('0.0375'), output_mtok=Decimal('15'),
                cache_read_mtok=None, input_audio_mtok=Decimal('9')))""",
    )
    assert result.rows == [
        {
            "provider": "xai",
            "model": "grok",
            "caps": {"context_window": 256_000},
            "match": {
                "or": [{"starts_with": "grok-"}, {"and": [{"contains": "g"}, {"regex": "^g.k$"}, {"ends_with": "k"}]}]
            },
            "price": {"input": 37_500, "output": 15_000_000},
            "status": "deprecated",
        }
    ]


def test_tiers_of_several_prices_are_joined(tmp_path: Path) -> None:
    tiered = "TieredPrices(base=Decimal('{}'), tiers=[Tier(start={}, price=Decimal('{}'))])"
    prices = f"prices=ModelPrice(input_mtok={tiered.format(1, 100, 2)}, output_mtok={tiered.format(4, 200, 8)})"
    assert only_row(tmp_path, prices)["price"] == {
        "input": 1_000_000,
        "output": 4_000_000,
        "tiers": [[100, {"input": 2_000_000, "output": 4_000_000}], [200, {"input": 2_000_000, "output": 8_000_000}]],
    }


CONDITIONAL = """prices=[
    ConditionalPrice(constraint=None, prices=ModelPrice(input_mtok=Decimal('1'))),
    ConditionalPrice(constraint=StartDateConstraint(start_date=datetime.date(2026, 10, 1)),
        prices=ModelPrice(input_mtok=Decimal('2'))),
    ConditionalPrice(constraint=StartDateConstraint(start_date=datetime.date(2027, 1, 1)),
        prices=ModelPrice(input_mtok=Decimal('3'))),
    ConditionalPrice(constraint=TimeOfDateConstraint(
        start_time=datetime.time(0, 30, tzinfo=datetime.UTC)),
        prices=ModelPrice(input_mtok=Decimal('4')))]"""


@pytest.mark.parametrize(("day", "price"), [("", 2), ("2026-09-30", 1), ("2026-10-01", 2), ("2027-01-01", 3)])
def test_the_price_in_force_on_the_day_counts(tmp_path: Path, day: str, price: int) -> None:
    model = f"ModelInfo(id='m', match=ClauseEquals(equals='m'), {CONDITIONAL})"
    rows = extract(package(tmp_path, model), PROVIDERS, day=day).rows
    assert rows[0]["price"] == {"input": price * 1_000_000}


def test_the_header_dates_from_the_last_check_in_the_data(tmp_path: Path) -> None:
    header = read(tmp_path, "").header
    assert (header["version"], header["date"]) == ("1.2.3", "2026-10-14")


def test_empty_and_unreadable_rows_are_reported(tmp_path: Path) -> None:
    result = read(
        tmp_path,
        """ModelInfo(id='empty', match=ClauseEquals(equals='e'), prices=ModelPrice()),
        ModelInfo(id='window', match=ClauseEquals(equals='e'), context_window='big'),
        ModelInfo(id='price', match=ClauseEquals(equals='e'),
            prices=ModelPrice(input_mtok='free')),
        ModelInfo(id='clause', match=ClauseMagic(magic='e'), context_window=1)""",
    )
    assert result.rows == []
    assert {each.name: each.reason for each in result.skipped} == {
        "x-ai/empty": "no token price and no context window",
        "x-ai/window": "context_window is str",
        "x-ai/price": "input_mtok is str",
        "x-ai/clause": "match is ClauseMagic",
    }


def test_unknown_providers_are_counted(tmp_path: Path) -> None:
    models = "ModelInfo(id='m', match=ClauseEquals(equals='m'), context_window=1)"
    assert extract(package(tmp_path, models, "nobody"), PROVIDERS).unmapped == {"nobody": 1}


def test_a_wheel_reads_like_the_package_byte_for_byte(tmp_path: Path) -> None:
    models = "ModelInfo(id='m', match=ClauseEquals(equals='m'), context_window=1, prices=[])"
    folder = package(tmp_path, models)
    wheel = tmp_path / "genai_prices-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(folder / "data.py", "genai_prices/data.py")
    first, second = extract(folder, PROVIDERS), extract(wheel, PROVIDERS)
    assert first.rows
    assert encode(first.header, first.rows) == encode(second.header, second.rows)


def test_a_module_without_providers_is_an_error(tmp_path: Path) -> None:
    folder = package(tmp_path, "")
    (folder / "data.py").write_text("nothing = 1\n")
    with pytest.raises(ValueError, match="no list of providers"):
        extract(folder, PROVIDERS)

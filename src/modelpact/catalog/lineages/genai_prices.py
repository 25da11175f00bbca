"""Read genai-prices from its wheel or package folder, without running its code."""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from modelpact.catalog.lineages.rows import (
    BadRowError,
    Collector,
    Extraction,
    Prices,
    Row,
    join_prices,
    pico_per_million,
    token_count,
    typed_bool,
)

URL = "https://github.com/pydantic/genai-prices"

_PRICES = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
}
_CLAUSES = {
    "ClauseStartsWith": "starts_with",
    "ClauseEndsWith": "ends_with",
    "ClauseContains": "contains",
    "ClauseRegex": "regex",
    "ClauseEquals": "equals",
}
_JOINS = {"ClauseOr": "or", "ClauseAnd": "and"}
_CHECKED_ON = re.compile(r"\b(?:as of|accessed|checked|observed|verified)\b[^.]{0,60}?\b(20\d\d-\d\d-\d\d)")
_CLASS = "$"
"""The key of the class name in a table that represents a constructor call."""


def extract(path: Path, providers: Mapping[str, str], *, day: str = "") -> Extraction:
    """Read every provider's prices; `providers` maps its provider ids to canonical ids.

    Prices are those in force on `day`, by default the newest day the data says it was checked.
    """
    text, version = _read(path)
    day = day or max(_CHECKED_ON.findall(text), default="")
    order = {name: index for index, name in enumerate(providers)}
    out = Collector(providers)
    for entry in _providers(text):
        source = str(entry["id"])
        for model in entry.get("models") or ():
            name = f"{source}/{model['id']}"
            provider = out.provider(source)
            if provider is None:
                continue
            try:
                row = _row(provider, model, day)
            except BadRowError as reason:
                out.skip(name, str(reason))
                continue
            out.add(name, row, (order[source], name))
    header = {"lineage": "genai-prices", "version": version, "date": day, "licence": "MIT", "url": URL}
    return out.finish(header)


def _row(provider: str, model: Row, day: str) -> Row:
    caps: Row = {}
    window = model.get("context_window")
    if window is not None:
        count = token_count(window, "context_window")
        if count:
            caps["context_window"] = count
    row: Row = {"provider": provider, "model": model["id"], "caps": caps, "match": _clause(model["match"])}
    price = _price(_in_force(model.get("prices"), day))
    if price:
        row["price"] = price
    if model.get("deprecated") is not None and typed_bool(model["deprecated"], "deprecated"):
        row["status"] = "deprecated"
    if not caps and "price" not in row and "status" not in row:
        raise BadRowError("no token price and no context window")
    return row


def _clause(clause: Row) -> Row:
    """Return a match clause in genai-prices' own JSON form."""
    kind = clause.get(_CLASS, "")
    if kind in _JOINS:
        name = _JOINS[kind]
        return {name: [_clause(inner) for inner in clause[f"{name}_"]]}
    if kind not in _CLAUSES:
        raise BadRowError(f"match is {kind}")
    name = _CLAUSES[kind]
    return {name: clause[name]}


def _in_force(prices: object, day: str) -> Row:
    """Return the prices in force on a day: the last that have begun, at any time of that day."""
    if isinstance(prices, dict):
        return prices
    if not isinstance(prices, list):
        raise BadRowError(f"prices is {type(prices).__name__}")
    current: Row = {}
    for entry in prices:
        constraint = entry.get("constraint")
        if constraint is None:
            begun = True
        elif constraint[_CLASS] == "StartDateConstraint":
            begun = constraint["start_date"].isoformat() <= day
        else:
            begun = False
        if begun:
            current = entry["prices"]
    return current


def _price(prices: Row) -> Row | None:
    base: Prices = {}
    tiers: dict[int, Prices] = {}
    for name, field in _PRICES.items():
        value = prices.get(name)
        if value is None:
            continue
        if not isinstance(value, dict):
            base[field] = pico_per_million(value, name)
            continue
        base[field] = pico_per_million(value["base"], name)
        for tier in value["tiers"]:
            tiers.setdefault(tier["start"], {})[field] = pico_per_million(tier["price"], name)
    return join_prices(base, tiers)


def _providers(text: str) -> list[Row]:
    """Return the `providers` list of the data module as plain tables."""
    for statement in ast.parse(text).body:
        targets = (
            [statement.target]
            if isinstance(statement, ast.AnnAssign)
            else statement.targets
            if isinstance(statement, ast.Assign)
            else []
        )
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        value = getattr(statement, "value", None)
        if names == ["providers"] and isinstance(value, ast.expr):
            entries = _plain(value)
            if isinstance(entries, list):
                return entries
    raise ValueError("no list of providers in the data module")


def _plain(node: ast.expr) -> Any:
    """Turn constructor calls into tables, with the class name as a field; run nothing."""
    if isinstance(node, ast.List | ast.Tuple):
        return [_plain(element) for element in node.elts]
    if isinstance(node, ast.Dict) and None not in node.keys:
        pairs = zip(node.keys, node.values, strict=True)
        return {_plain(key): _plain(value) for key, value in pairs if key is not None}
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        if called == "Decimal":
            return Decimal(ast.literal_eval(node.args[0]))
        if called == "datetime.date":
            year, month, day = (int(ast.literal_eval(argument)) for argument in node.args)
            return date(year, month, day)
        table = {str(keyword.arg): _plain(keyword.value) for keyword in node.keywords}
        return {_CLASS: called, **table}
    if isinstance(node, ast.Name | ast.Attribute):
        return ast.unparse(node)
    return ast.literal_eval(node)


def _read(path: Path) -> tuple[str, str]:
    """Return the data module's text and the package version."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel.read("genai_prices/data.py").decode(), path.name.split("-")[1]
    infos = sorted(path.parent.glob("genai_prices-*.dist-info"))
    version = infos[-1].name.removesuffix(".dist-info").split("-")[1] if infos else ""
    return (path / "data.py").read_text(encoding="utf-8"), version

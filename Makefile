# Everything runs in the project's own environment; `make run` and `make test` set it up.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: run tour test test-all lint bench bench-gateway catalog clean

run: $(STAMP)
	@$(BIN)/modelpact serve --key

# What modelpact does, shown with real commands.
tour: $(STAMP)
	@$(BIN)/python -m modelpact.cli.commands.tour

test: $(STAMP)
	$(BIN)/pytest -n auto -m "not slow"

test-all: $(STAMP)
	$(BIN)/pytest -n auto -m slow

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

# The gateway beside LiteLLM's proxy and Portkey's gateway, under wrk.
bench-gateway: $(STAMP)
	cd benchmarks && ../$(BIN)/python -m gateway.compare

# Rebuild the shipped snapshot from the reviewable sources.
catalog: $(STAMP)
	$(BIN)/modelpact catalog build

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(STAMP)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

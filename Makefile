# Every target runs in the project's own environment, .venv, and creates it on first use.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: run tour test test-all lint format wheel bench bench-gateway catalog clean

# Start the gateway with a new key, and print a curl command that works.
run: $(STAMP)
	@$(BIN)/modelpact serve --key

# Show what modelpact does, with real commands.
tour: $(STAMP)
	@$(BIN)/python -m modelpact.cli.tour

# The tests that run in a few minutes.
test: $(STAMP)
	$(BIN)/pytest -n auto -m "not slow"

# All tests. The slow ones measure time and memory, so only the others run under coverage.
test-all: $(STAMP)
	$(BIN)/pytest -n auto -m "not slow" --cov=modelpact --cov-report=
	@echo "Coverage: $$($(BIN)/coverage report --format=total) % of lines"
	$(BIN)/pytest -n auto -m slow

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/check_names.py

# Apply what ruff can correct by itself.
format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Build the wheel and the source distribution into dist/.
wheel: $(STAMP)
	$(BIN)/python -m build

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

# Compare the gateway with LiteLLM's proxy and Portkey's gateway, under wrk.
bench-gateway: $(STAMP)
	cd benchmarks && ../$(BIN)/python -m gateway.compare

# Rebuild the shipped catalog snapshot from its sources.
catalog: $(STAMP)
	$(BIN)/modelpact catalog build

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(STAMP)

clean:
	rm -rf $(VENV) build dist .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# Everything that a person or a CI run does with this tree. `make help` lists it.
# A target sets up what it needs: the only requirements are Python 3.11 or newer and one way to a Kafka broker.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
ARGS ?=
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run test check bench soak clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(STAMP) ## Start a broker, the gate and all the rest; Ctrl-C stops them (ONCE=1: one round, then end)
	@exec $(BIN)/joingate up $(if $(filter-out 0,$(ONCE)),--once) $(ARGS)

test: $(STAMP) ## Run the tests, but for the slow ones (ARGS='-k ledger' and the like are passed on)
	@exec $(BIN)/python -m pytest -n $(WORKERS) -m "not slow" $(ARGS)

check: $(STAMP) ## Lint, formatting and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(STAMP) ## Measure throughput beside its peers on this machine
	@exec $(BIN)/python -m benchmarks $(ARGS)

soak: $(STAMP) ## Run the slow tests: long runs, crashes, broker outages
	@exec $(BIN)/python -m pytest -m slow $(ARGS)

clean: ## Remove the virtual environment, builds and caches
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Only a changed pyproject.toml installs again: the install is editable, so code needs none.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "joingate: Python 3.11 or newer is needed: install it, or name it with PYTHON=/path/to/python3." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "joingate: Python's venv module is needed: install it (on Debian: python3-venv)." >&2; exit 1; }
	@echo "joingate: installing into $(VENV), which takes a minute the first time" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --root-user-action=ignore -e '.[all,dev]'
	@touch $@

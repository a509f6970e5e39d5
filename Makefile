# make demo | test | check | docs | bench | clean. Everything runs in .venv, which is made where it is missing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check docs bench clean

demo: $(VENV)/.for-use
	$(BIN)/csrr demo

test: $(VENV)/.for-dev
	$(BIN)/python -m pytest

check: $(VENV)/.for-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

docs: $(VENV)/.for-dev
	$(BIN)/python docs/write_docstrings.py
	$(BIN)/python docs/from_results.py

bench: $(VENV)/.for-bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

# The stamps say what the environment was made fit for; a change of pyproject.toml makes them stale.
$(VENV)/.for-use: pyproject.toml $(VENV)/pyvenv.cfg
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.for-dev: pyproject.toml $(VENV)/pyvenv.cfg
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ $(VENV)/.for-use

$(VENV)/.for-bench: pyproject.toml $(VENV)/pyvenv.cfg
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@ $(VENV)/.for-use

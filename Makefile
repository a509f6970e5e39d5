# make demo | demo-serve | test | test-durations | check | fuzz | docs | docs-site | bench | package | lock | audit | sbom | clean. Everything runs in .venv, which is made where it is missing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Two tests at a time; those of a file stay together, with what they share.
TESTS := $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: demo demo-serve test test-durations check fuzz docs docs-site bench package lock audit sbom clean

demo: $(VENV)/.for-use
	$(BIN)/csrr demo

test: $(VENV)/.for-dev
	$(TESTS)

# A shop of made-up clicks on the air, with its lists in PostgreSQL where that is installed, else in SQLite.
demo-serve: $(VENV)/.for-dev
	$(BIN)/python examples/demo_serve.py

# One test at a time, and the fifty slowest of them.
test-durations: $(VENV)/.for-dev
	$(BIN)/python -m pytest --durations 50 --durations-min 0

check: $(VENV)/.for-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(TESTS)

# Attacks on models, readers and fits, so long in all; or make fuzz FUZZ="--cases 100000 --seconds 1e6".
FUZZ ?= --seconds 600
fuzz: $(VENV)/.for-dev
	$(BIN)/python -m fuzz tables logs items models fits $(FUZZ)

docs: $(VENV)/.for-dev
	$(BIN)/python docs/write_docstrings.py
	$(BIN)/python docs/from_results.py
	$(BIN)/python -m docs.make.figures
	$(MAKE) docs-site

# The site, in build/site/index.html. A test builds it too.
docs-site: $(VENV)/.for-dev
	$(BIN)/python -m sphinx --quiet --builder html --fail-on-warning --keep-going --jobs auto --doctree-dir build/site-cache docs build/site

bench: $(VENV)/.for-bench
	$(BIN)/python -m benchmarks

# The wheel and the source archive, in dist, after a test that installs and uses them.
package: $(VENV)/.for-dev
	$(BIN)/python -m pytest tests/test_package.py
	rm -rf dist
	$(BIN)/python -m hatchling build

# Anew: the newest versions that pyproject.toml allows, with their checksums.
lock: $(VENV)/pyvenv.cfg
	$(BIN)/python .ci/lock.py

# Known weaknesses of what is locked; the list of them is on the network.
audit: $(VENV)/.for-audit
	$(VENV)/audit/bin/pip-audit --strict --requirement requirements-dev.txt --no-deps --disable-pip \
	    || { echo "make audit: a weakness is listed above, or the list could not be reached: it needs the network" >&2; exit 1; }

# What is installed, as CycloneDX has it.
sbom: $(VENV)/.for-audit
	$(VENV)/audit/bin/cyclonedx-py requirements requirements-dev.txt --output-file sbom.json

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

# The stamps say what the environment was made fit for; a change of pyproject.toml makes them stale.
$(VENV)/.for-use: pyproject.toml $(VENV)/pyvenv.cfg
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

# The lock names the files for one Python and one system; elsewhere pyproject.toml says what will do.
$(VENV)/.for-dev: pyproject.toml requirements-dev.txt $(VENV)/pyvenv.cfg
	if grep -q "^# .*Python $$($(BIN)/python -c 'import sys; print("%d.%d, %s" % (*sys.version_info[:2], sys.platform))')\." \
	    requirements-dev.txt && [ "$$(uname -m)" = x86_64 ]; then \
	    $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt && \
	    $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	else \
	    $(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'; \
	fi
	touch $@ $(VENV)/.for-use

$(VENV)/.for-audit: requirements-audit.txt $(VENV)/pyvenv.cfg
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-audit.txt
	touch $@

$(VENV)/.for-bench: pyproject.toml $(VENV)/pyvenv.cfg
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@ $(VENV)/.for-use

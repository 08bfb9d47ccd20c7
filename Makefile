# make run    set everything up and watch the agents on this machine, and the bundled samples
# make test   set everything up and run the tests
# make test-slow   the tests that take longer, among them real servers and kills at any moment
# make lint   the checks that the tests do not make
# make bench  set everything up and measure what predictions cost here

ifndef PYTHON
PYTHON := $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
endif
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test test-slow lint bench samples certify clean

run: $(VENV)/.run
	$(BIN)/verifierd run --config deploy/quickstart.toml

test: $(VENV)/.dev
	$(BIN)/pytest -n auto --dist loadgroup

test-slow: $(VENV)/.dev
	$(BIN)/pytest -n auto -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# What predictions cost here. With a real model: make bench MODEL=NAME.
bench: $(VENV)/.run
	$(BIN)/verifierd bench speed $(if $(MODEL),--model $(MODEL))

# Record the bundled sample trajectories anew, from real shells.
samples: $(VENV)/.dev
	$(BIN)/python -m verifierd.replay.record --out replay/trajectories

# Certify the virtual shell anew against the real one; minutes.
certify: $(VENV)/.dev
	$(BIN)/python -m verifierd.replay.certify --out policies/shell/gnu.toml

clean:
	rm -rf $(VENV) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "verifierd needs Python 3.11 or newer; install it, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python's venv module is missing; on Debian and Ubuntu: sudo apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'

$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@ $(VENV)/.run

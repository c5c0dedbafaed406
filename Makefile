# make demo   learn 2048 in a minute and watch it play
# make test   all tests
# make lint   style and types
#
# The set-up is shared: each part is installed once, and again when pyproject.toml changes.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test slow lint clean

demo: $(VENV)/examples.done
	$(BIN)/python examples/quickstart.py $(ARGS)

test: $(VENV)/dev.done
	$(BIN)/python -m pytest $(ARGS)

slow: $(VENV)/dev.done
	$(BIN)/python -m pytest -m slow $(ARGS)

lint: $(VENV)/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

$(VENV)/examples.done: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --editable ".[examples]"
	@touch $@

# torch first, in its CPU build: stable-baselines3 alone would bring the one for GPUs
$(VENV)/dev.done: $(VENV)/examples.done
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --editable ".[all]" --group dev
	@touch $@

clean:
	rm -rf $(VENV) build dist out *.egg-info

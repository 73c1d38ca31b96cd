# Every target sets up what it needs. The program `gke-inference` does the work.
.DEFAULT_GOAL := help
# always write bytecode; without it each preview compiles the SDKs again
export PYTHONDONTWRITEBYTECODE :=
STACK ?= local
SCENARIO ?=
OVER_QUOTA ?=
CAN_SET_UP := scripts/develop/before_setup.py
PYTHON ?= $(or $(shell for p in python3.13 python3.12 python3.11 python3; do $$p $(CAN_SET_UP) --quiet 2>/dev/null && echo $$p && break; done),python3)
BIN := .venv/bin
RUN := $(BIN)/gke-inference
READY := .venv/.ready

.PHONY: help up down doctor status test test-contract test-unit test-running soak audit lint lint-style lint-types format preview rehearse render bench docs docs-serve tools lock release clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

MEMBERS := bench components planner simulator twin workloads

$(READY): requirements.lock pyproject.toml $(MEMBERS:=/pyproject.toml)
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON): is not on PATH; install Python 3 with venv, or set PYTHON"; exit 2; }
	@$(PYTHON) $(CAN_SET_UP) --quiet
	@echo "Setting up Python packages in .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --retries 1 -r requirements-uv.lock 2>.venv/pip.log || { tail -n 1 .venv/pip.log; \
	  echo "error: Python packages could not be downloaded. Check the network, or set PIP_INDEX_URL and UV_DEFAULT_INDEX to a mirror (docs/tools.md)"; exit 2; }
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps $(addprefix -e ,$(MEMBERS)) -e .
	@touch $@

up: $(READY) ## deploy STACK (local) on the twin and ask a model; SCENARIO=tpu-stockout removes capacity
	@$(RUN) up --stack $(STACK) --scenario '$(SCENARIO)' $(if $(OVER_QUOTA),--over-quota)

down: $(READY) ## destroy all stacks on the twin, check that nothing is left, stop the twin
	@$(RUN) down

doctor: ## check this machine; works before anything is set up
	@if test -e $(READY); then $(RUN) doctor; else $(PYTHON) $(CAN_SET_UP); fi

status: $(READY) ## show the replicas of STACK: location, rung and price
	@$(RUN) status --stack $(STACK)

preview: $(READY) ## preview STACK with the policy pack, on the twin
	@$(RUN) preview --stack $(STACK)

rehearse: STACK = prod
rehearse: $(READY) ## rehearse a day of STACK (default prod) in virtual time, with a page in build/rehearsal
	@$(RUN) rehearse $(STACK) --page build/rehearsal

render: $(READY) ## write every object and resource of STACK, and a report, to build/STACK/
	@$(RUN) render --stack $(STACK)

test: test-unit ## run all tests, fast ones first
	@$(MAKE) --no-print-directory test-running

test-contract: $(READY) ## test components, stacks and policies; enough for most changes
	@$(BIN)/pytest -q -n 2 --budget 30 -m 'not needs_tools and not whole_stack' tests/contract

test-unit: $(READY) ## run every test that needs no tools
	@$(BIN)/pytest -q -n 3 --budget 240 -m 'not needs_tools'

test-running: $(READY) ## run the tests with the real engine, control plane and gateway
	@$(RUN) tools --with xla
	@$(BIN)/pytest -q -n auto --dist loadgroup --reruns 1 --budget 1500 -m needs_tools

soak: $(READY) ## run the tests that are too long for make test, or TESTS of them; writes docs/soak.md
	@$(RUN) tools --with $(if $(filter tests/diffusion%,$(TESTS)),diffusion,$(if $(filter simulator/tests/running/engines%,$(TESTS)),sglang,$(if $(filter tests/optimization%,$(TESTS)),optimization,$(if $(filter tests/pipelines%,$(TESTS)),pipelines,xla))))
	$(if $(filter tests/optimization%,$(TESTS)),@$(RUN) tools --with evaluation)
	$(if $(if $(TESTS),$(filter tests/soak%,$(TESTS)),all),@$(RUN) tools --with checkov)
	@$(BIN)/pytest -q --soak $(TESTS)

lint: lint-style lint-types ## check formatting, ruff, types and layers

lint-style: $(READY)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@PYTHONPATH=.:components $(BIN)/lint-imports --no-logo

lint-types: $(READY)
	@$(BIN)/pyrefly check --summary=none

audit: $(READY) ## check the locked packages for known vulnerabilities
	@$(RUN) audit

format: $(READY) ## format the code and apply automatic fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY) ## run all benchmarks; writes build/bench/*.json
	@$(BIN)/bench all

docs-serve: $(READY) ## build the documentation as a site and serve it on this machine
	@$(RUN) website --serve

docs: $(READY) ## regenerate the pages that are generated from code
	@$(RUN) docs
	@$(BIN)/python -m bench.reference

tools: $(READY) ## obtain the tools of the twin
	@$(RUN) tools

lock: $(READY) ## resolve requirements.lock and requirements-uv.lock again
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group dev $(addprefix --no-emit-package gke-inference-,$(MEMBERS)) --no-emit-package gke-inference --no-emit-index-url --no-emit-find-links pyproject.toml -o requirements.lock
	@mkdir -p build
	@grep '^uv==' requirements.lock | sed 's/ .*//' > build/uv.in
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header build/uv.in -o requirements-uv.lock
	@$(RUN) images lock

release: $(READY) ## build wheels, plugin, checksums and SBOM of this commit twice, compare; writes build/release
	@$(BIN)/python -m scripts.release $(if $(SIGN),--sign '$(SIGN)')

clean: ## remove all build outputs of this checkout; the twin must be down
	@test ! -d build/twin || { echo "error: the twin is up; run make down first"; exit 2; }
	rm -rf build .venv

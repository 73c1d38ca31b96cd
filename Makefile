# Every target does its own set-up. All the work is done by the program `gke-inference`.
.DEFAULT_GOAL := help
# bytecode is written even where a machine turns it off: without it each preview compiles the SDKs anew
export PYTHONDONTWRITEBYTECODE :=
STACK ?= local
SCENARIO ?=
OVER_QUOTA ?=
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
RUN := $(BIN)/gke-inference
READY := .venv/.ready

.PHONY: help up down status test test-contract test-unit test-running soak lint format preview render bench docs tools lock clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

MEMBERS := components planner simulator twin workloads

$(READY): requirements.lock pyproject.toml $(MEMBERS:=/pyproject.toml)
	@test -n "$(PYTHON)" || { echo "error: Python 3.11, 3.12 or 3.13 is needed"; exit 2; }
	@echo "Setting up Python packages in .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps $(addprefix -e ,$(MEMBERS)) -e .
	@touch $@

up: $(READY) ## deploy STACK (local) on the twin and ask a model; SCENARIO=tpu-stockout takes capacity away
	@$(RUN) up --stack $(STACK) --scenario '$(SCENARIO)' $(if $(OVER_QUOTA),--over-quota)

down: $(READY) ## destroy what is on the twin, prove that nothing is left, stop it
	@$(RUN) down

status: $(READY) ## what runs where, on which rung, at what price
	@$(RUN) status --stack $(STACK)

preview: $(READY) ## preview STACK with the policy pack, on the twin
	@$(RUN) preview --stack $(STACK)

render: $(READY) ## write every object and resource of STACK, and a page about it, to build/STACK/
	@$(RUN) render --stack $(STACK)

test: test-unit test-running ## all tests, fast ones first

test-contract: $(READY) ## components, stacks and policies: what most changes need
	@$(BIN)/pytest -q -n 2 --budget 30 -m 'not needs_tools' tests/contract

test-unit: $(READY) ## every test that needs no tools
	@$(BIN)/pytest -q -n 2 --budget 90 -m 'not needs_tools'

test-running: $(READY) ## tests with the real engine, control plane and gateway
	@$(RUN) tools --with xla
	@$(BIN)/pytest -q -n auto --dist loadgroup --reruns 1 --budget 1500 -m needs_tools

soak: $(READY) ## the runs that are too long for make test; writes docs/soak.md
	@$(RUN) tools
	@$(BIN)/pytest -q --soak

lint: $(READY) ## formatting, ruff, pyright, layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/pyright
	@PYTHONPATH=.:components $(BIN)/lint-imports --no-logo

format: $(READY) ## format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY) ## measure; writes build/bench/*.json
	@$(RUN) bench all

docs: $(READY) ## regenerate what is generated from code
	@$(RUN) docs

tools: $(READY) ## build what the twin runs
	@$(RUN) tools

lock: $(READY) ## resolve requirements.lock and requirements-uv.lock anew
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --group dev $(addprefix --no-emit-package gke-inference-,$(MEMBERS)) --no-emit-index-url --no-emit-find-links pyproject.toml -o requirements.lock
	@mkdir -p build
	@grep '^uv==' requirements.lock | sed 's/ .*//' > build/uv.in
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header build/uv.in -o requirements-uv.lock
	@$(RUN) images lock

clean: ## remove everything this checkout made; the twin must be down
	@test ! -d build/twin || { echo "error: the twin is up; run make down first"; exit 2; }
	rm -rf build .venv

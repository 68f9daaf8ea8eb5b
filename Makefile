# Rowen's commands. `make demo` and `make test` set up whatever they need.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
PYTHON := $(VENV)/bin/python
UV_VERSION := 0.13.8
CLUSTER_COMMAND := $(PYTHON) -m rowen.cluster
PACKAGES := -p rowen.crds -p rowen.kube -p rowen.operator -p rowen.scheduler -p rowen.gateway -p rowen.node_agent -p rowen.runtime -p rowen.simulator -p rowen.demo -p rowen.cluster
export ROWEN_DEV_ROOT ?= /var/lib/rowen-dev
# CLUSTER=existing alone works on the cluster of the caller's KUBECONFIG: nothing else may ever reach it.
ifneq ($(CLUSTER),existing)
override export KUBECONFIG := $(value ROWEN_DEV_ROOT)/kubeconfig
endif
export PATH := $(value PATH):$(value ROWEN_DEV_ROOT)/bin
# Each import of the engine's libraries takes half a minute where Python may not keep what it has compiled.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX ?= $(abspath $(VENV))/pycache

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: venv
venv: $(VENV)/.installed ## Python environment from the hashed lock, with the native library

$(VENV)/.locked: requirements/dev.txt
	@echo "==> Python environment in $(VENV) (some 6 GB: the engine and its libraries)"
	@test -x $(PYTHON) || python3 -m venv $(VENV)
	@test -x $(VENV)/bin/uv || $(PYTHON) -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(VENV)/bin/uv pip sync --quiet --python $(PYTHON) --require-hashes requirements/dev.txt
	@touch $@

NATIVE := $(wildcard node_agent/native/*.h $(addprefix node_agent/native/*/,*.[ch] */*.[ch])) setup.py pyproject.toml
$(VENV)/.installed: $(VENV)/.locked $(NATIVE)
	@echo "==> Rowen itself, editable, with the native gate library"
	@$(VENV)/bin/uv pip install --quiet --python $(PYTHON) --no-deps --no-build-isolation --editable .
	@mkdir -p $(VENV)/commands && ln -sf ../bin/kubectl-rowen ../bin/rowen $(VENV)/commands/
	@touch $@

.PHONY: tools
tools: venv ## Kubernetes, etcd, helm, kubeconform and an S3 server, built once on this machine
	@$(CLUSTER_COMMAND) tools

# `up` sees first whether this machine will do, and builds the tools then.
.PHONY: cluster
cluster: venv ## A real Kubernetes: CLUSTER=local (two nodes on this machine), kind or existing
	@$(CLUSTER_COMMAND) up

.PHONY: env
env: ## For eval "$(make -s env)": kubectl, `kubectl rowen` and KUBECONFIG in your shell
	@test -f $(VENV)/.installed || { echo 'nothing is set up here yet: run `make cluster` first' >&2; exit 1; }
	@$(CLUSTER_COMMAND) env

.PHONY: images
images: cluster ## Container images, built and loaded into the nodes
	@$(CLUSTER_COMMAND) images

MODE ?= Preempt

.PHONY: demo
demo: images ## The main job end to end: service, two jobs, live traffic, report; MODE=CoServe: jobs inside the engine
	@$(PYTHON) -m rowen.demo run --mode='$(MODE)'

.PHONY: lint
lint: venv ## Style, types, import contracts, generated files
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy $(PACKAGES)
	@$(VENV)/bin/lint-imports
	@$(PYTHON) -m rowen.crds.generate --check
	@$(PYTHON) -m rowen.runtime.tuning.generate --check

# Two processes at once: a test that waits leaves its core to the other. Each half's output is printed when it ends.
DEVICE_TESTS := gate memory node_agent runtime coserve% planning% riding% rows% seat%
TEST_FOLDERS := $(patsubst tests/%/,%,$(wildcard tests/*/))
PYTEST := timeout --foreground --signal=INT --kill-after=60 55m $(PYTHON) -m pytest

.PHONY: test test-control test-device
test: lint tools ## Lint, types, contracts, unit and integration tests
	@echo '==> tests, in two halves at once; each is printed when it ends'
	@$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target test-control test-device

test-control: tools ## Of them, the tests of the control plane, and of cgroups, elastic caches and benchmarks
	@$(PYTEST) $(addprefix tests/,$(filter-out $(DEVICE_TESTS) __pycache__,$(TEST_FOLDERS)))

test-device: tools ## Of them, the tests of a device: agent, gate, memory, runtime
	@$(PYTEST) $(addprefix tests/,$(filter $(DEVICE_TESTS),$(TEST_FOLDERS)))

.PHONY: test-slow
test-slow: images ## The tests that `make test` and `make e2e` leave out (some ten minutes)
	@$(PYTEST) tests -m slow
	@$(PYTEST) e2e -m slow -o timeout=900

COUNT ?= 20
SEED ?= 0

.PHONY: mutants
mutants: venv ## Do tests notice a wrong policy? MODULE=rowen.operator.jobs (all), COUNT=20 of each (0: all), SEED=0
	@PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(PYTHON) -m mutants --module='$(MODULE)' --count=$(COUNT) --seed=$(SEED)

.PHONY: e2e
e2e: images ## End-to-end tests on the cluster
	@$(PYTHON) -m pytest e2e -o timeout=900

# The short ones first: what is wrong shows early. QUICK=1 for a look at each.
BENCHMARKS := placement lemix activation_memory predictor preempt reclaim headroom prediction riding_exact window jobs slo_sweep \
  deferral harvest_memory spatial coserve_batch controlplane node_model coserve interference fleet
# Those that draw what they have measured.
PICTURED := activation_memory coserve coserve_batch predictor slo_sweep spatial
MACHINE ?= $(shell nproc)core-vm
# 10,000 jobs, the script's own number, do not get through on two cores.
PLANE_JOBS = $(if $(filter 1 2,$(shell nproc)),3000,10000)
BENCH_RESULT = benchmarks/results/$$name$(if $(QUICK),-quick)-$(MACHINE).json

.PHONY: bench
bench: venv ## The benchmarks, each beside its baselines, on a quiet machine (some seven hours; QUICK=1 an hour and a quarter)
	@for name in $(BENCHMARKS); do \
	  echo "==> $$name"; \
	  case " $(PICTURED) " in *" $$name "*) drawn="--picture $(BENCH_RESULT:.json=.png)";; *) drawn=;; esac; \
	  sized=$(if $(QUICK),--quick); test -n "$$sized" || test $$name != controlplane || sized=--jobs=$(PLANE_JOBS); \
	  $(PYTHON) benchmarks/$$name.py --json $$sized $$drawn >$(BENCH_RESULT).part; \
	  mv $(BENCH_RESULT).part $(BENCH_RESULT); \
	done
	@name=interference; $(PYTHON) benchmarks/picture.py $(BENCH_RESULT) $(BENCH_RESULT:.json=.png)

.PHONY: down
down: ## Remove the cluster: nothing stays running, mounted or routed
	@if test -x $(PYTHON); then $(CLUSTER_COMMAND) down; fi

.PHONY: lock
lock: ## Resolve the dependencies anew and write the hashed locks
	@for target in "dev --all-extras" "controlplane --extra=operator --extra=scheduler --extra=gateway" "agent --extra=agent" "runtime --extra=runtime"; do \
	  set -- $$target; name=$$1; shift; \
	  $(VENV)/bin/uv pip compile --quiet --no-header --generate-hashes --no-emit-index-url --python-version 3.11 \
	    --output-file requirements/$$name.txt pyproject.toml "$$@"; \
	done

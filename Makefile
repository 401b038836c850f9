# Riprap's tasks. Bare `make` prints this help.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
HIGGS  ?=
# Every worker, agent and test imports hundreds of modules: compiled each time, they are a third of a short job's CPU time.
unexport PYTHONDONTWRITEBYTECODE
BUILD_INPUTS := setup.py pyproject.toml $(shell find codec engine operators prep_spark -name '*.pyx' -o -name '*.pxd' -o -name '*.h' -o -path '*/kernels/*.c')

.PHONY: help demo test test-long oracle test-wheel build debug sim fuzz soak soak-dataflow soak-snapshots soak-replicas soak-endless soak-acts soak-cluster bench bench-streamlec bench-afstream bench-peers lint audit clean

help: ## print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(VENV)/.built $(VENV)/.project ## set up .venv and compile the Cython extensions

# Each step of the set-up leaves a stamp: an interrupted one goes on where it was.
PIP   = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# The requirements at a place of pyproject.toml. They are installed apart from the project, or pip compiles it once more.
needs = $$($(BIN)/python -c 'import sys, tomllib; found = tomllib.load(open("pyproject.toml", "rb")); \
  [found := found[key] for key in sys.argv[1:]]; print(*found)' $(1))

$(VENV)/.tools: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Riprap needs Python >= 3.11; set PYTHON=/path/to/python3.11") if sys.version_info < (3, 11) else 0'
	@echo "set-up: $(VENV) and the compiler of Cython"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@$(PIP) $(call needs,build-system requires)
	@touch $@

$(VENV)/.built: $(VENV)/.tools $(BUILD_INPUTS)
	@echo "set-up: compiling the extensions"
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

$(VENV)/.runtime: pyproject.toml | $(VENV)/.tools
	@echo "set-up: what Riprap runs on"
	@$(PIP) $(call needs,project dependencies)
	@touch $@

$(VENV)/.project: pyproject.toml | $(VENV)/.built $(VENV)/.runtime
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.test $(VENV)/.lint: $(VENV)/.%: pyproject.toml | $(VENV)/.tools
	@echo "set-up: the packages of make $*"
	@$(PIP) $(call needs,project optional-dependencies $*)
	@touch $@

debug: $(VENV)/.tools ## compile with bounds checks and leak counters
	RIPRAP_DEBUG=1 CYTHON_FORCE_REGEN=1 $(BIN)/python setup.py --quiet build_ext --inplace --force
	@touch $(VENV)/.built
	@$(MAKE) --no-print-directory build

demo: build ## train on a stream, kill two workers, lose nothing (HIGGS=path/to/HIGGS.csv.gz for the real data)
	$(BIN)/python -m bench.demo $(if $(HIGGS),--higgs $(HIGGS))

# A file's tests share what they set up. In their order, or files of few and long tests would be begun last.
BY_FILE = --dist loadfile --no-loadscope-reorder

test: build $(VENV)/.test ## run the default test suite on two cores: what computes in two processes, what also waits in four
	$(BIN)/python -m pytest -q -n 2 -m "not long" tests/unit tests/conformance tests/sim tests/fuzz
	$(BIN)/python -m pytest -q -n 4 $(BY_FILE) -m "not long" tests/namespaces tests/cluster tests/scenarios

test-long: build $(VENV)/.test ## run the further cases of the scenarios and unit tests, which the default suite leaves out (20 minutes)
	$(BIN)/python -m pytest -q -n 2 -m long tests/unit
	$(BIN)/python -m pytest -q -n 4 $(BY_FILE) -m long tests/namespaces tests/cluster tests/scenarios

oracle: build $(VENV)/.test ## run the topologies of configs/ under every scheme, also with kills, and compare with the kept digests (an hour)
	$(BIN)/python tests/regress/oracle.py $(NAMES)

test-wheel: build $(VENV)/.test ## build a wheel, and run the unit tests on its installed copy from another folder
	rm -rf build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheel .
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --target build/wheel/site build/wheel/*.whl
	cd build/wheel && PYTHONPATH=$(CURDIR)/build/wheel/site:$(CURDIR) $(CURDIR)/$(BIN)/python -P -m pytest -q -n 2 -c $(CURDIR)/pyproject.toml \
	  --rootdir $(CURDIR) $(CURDIR)/tests/unit $(CURDIR)/tests/conformance

sim: build $(VENV)/.test ## run the schemes through thousands of simulated faults (SEEDS=40 a case), and explore the larger cases
	RIPRAP_SIM_SEEDS=$(or $(SEEDS),40) $(BIN)/python -m pytest -q --timeout 3600 tests/sim
	RIPRAP_EXAMPLES=1000 $(BIN)/python -m pytest -q --timeout 3600 -m hypothesis tests/unit tests/conformance

fuzz: build $(VENV)/.test ## send a million malformed messages through the gate of a worker, and as many to the sockets of jobs
	$(BIN)/python tests/fuzz/fuzz_frames.py --count 1000000 --seed 1
	$(BIN)/python tests/fuzz/fuzz_sockets.py --count $(or $(COUNT),1000000) --seed 1

soak: build $(VENV)/.test ## kill everybody in COUNT=200 random schedules of SEED=1, in parts with FIRST=n (about 20 minutes)
	$(BIN)/python tests/soak/soak.py --seed $(or $(SEED),1) --first $(or $(FIRST),0) --count $(or $(COUNT),200)

soak-dataflow: build $(VENV)/.test ## kill workers of a graph of DataflowOperators in COUNT=60 random schedules (about 8 minutes)
	$(BIN)/python tests/soak/soak_dataflow.py --seed $(or $(SEED),1) --first $(or $(FIRST),0) --count $(or $(COUNT),60)

soak-snapshots: build $(VENV)/.test ## kill everybody under checkpoints, loops and transactions among the jobs, in COUNT=300 random schedules (about an hour)
	$(BIN)/python tests/soak/soak_snapshots.py --seed $(or $(SEED),1) --first $(or $(FIRST),0) --count $(or $(COUNT),300)

soak-replicas: build $(VENV)/.test ## kill primaries, replicas, hosts and racks of jobs under partially_active, in COUNT=200 random schedules (about 40 minutes)
	$(BIN)/python tests/soak/soak_replicas.py --seed $(or $(SEED),1) --first $(or $(FIRST),0) --count $(or $(COUNT),200)

soak-acts: build $(VENV)/.test ## kill everybody around savepoints, cancelling and draining, in COUNT=60 random schedules (about half an hour)
	$(BIN)/python tests/soak/soak_acts.py --seed $(or $(SEED),1) --first $(or $(FIRST),0) --count $(or $(COUNT),60)

soak-cluster: build $(VENV)/.test ## kill everybody in clusters of several jobs, in COUNT=40 random schedules (about 40 minutes)
	$(BIN)/python tests/soak/soak_cluster.py --seed $(or $(SEED),1) --first $(or $(FIRST),0) --count $(or $(COUNT),40)

soak-endless: build $(VENV)/.test ## stream without end for MINUTES=60 and kill a random role every 20 s: all counted once, nothing grows
	$(BIN)/python tests/soak/soak_endless.py --minutes $(or $(MINUTES),60)

bench: build ## measure everything and write docs/RESULTS.md (about half an hour)
	$(PIP) $(call needs,project optional-dependencies bench) || echo "no pyeclib: the ISA-L column stays empty"
	for name in codes rings network throughput hotpath profile_cost cluster_throughput recovery latency scale states count_min text compute_threads algorithms kernels defaults keys; do $(BIN)/python -m bench.$$name || exit 1; done
	$(BIN)/python -m bench.report

bench-streamlec: build ## the five experiments of the StreamLEC paper, and what is ours (about 40 minutes)
	$(PIP) $(call needs,project optional-dependencies bench) || $(PIP) matplotlib
	for name in exp1_normal exp2_failures exp3_encoding exp4_hybrid exp5_scaling attachment stragglers stops stripe_rows; do \
	  $(BIN)/python -m bench.streamlec.$$name || exit 1; done
	$(BIN)/python -m bench.report

bench-afstream: build ## the nine experiments of the AF-Stream paper (about 40 minutes; RIPRAP_DATA=folder for other books)
	$(PIP) $(call needs,project optional-dependencies bench) || $(PIP) matplotlib
	for name in exp1_text exp2_thresholds exp3_heavy_hitters exp4_online_join exp5_online_logistic exp6_iterations \
	  exp7_failures exp8_thresholds exp9_consistency; do $(BIN)/python -m bench.afstream.$$name || exit 1; done
	$(BIN)/python -m bench.report

bench-peers: build ## Riprap beside Spark, Flink, River and others, kills among them (about half an hour; installs them under .data/peers)
	$(PIP) $(call needs,project optional-dependencies bench) || $(PIP) matplotlib
	$(BIN)/python -m bench.peers.setup
	$(BIN)/python -m bench.peers.drive
	$(BIN)/python -m bench.peers.recovery
	$(BIN)/python -m bench.report

lint: build $(VENV)/.test $(VENV)/.lint ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

audit: build ## look for known vulnerabilities of what is installed, where a service of advisories answers
	@$(PIP) $(call needs,project optional-dependencies audit) || echo "pip-audit cannot be installed from here"
	$(BIN)/python .ci/audit.py

clean: ## remove what was built
	rm -rf build dist *.egg-info $(VENV)
	find . -name '*.so' -not -path './$(VENV)/*' -delete

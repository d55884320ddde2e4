PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The oldest Airflow that is supported, with the packages of the constraints of its day, so that both can be installed
# together. Only ClickHouse's driver and Airflow's ClickHouse provider are newer.
LOWEST := .venv-lowest
# Processes of pytest, each with a cluster of its own; half of the time they wait.
WORKERS ?= $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))
# In the order of tests/conftest.py, which knows the groups that take longest.
PARALLEL := --numprocesses $(WORKERS) --dist loadgroup --no-loadscope-reorder
# The packages that build the site, and nothing else.
DOCS := .venv-docs
# Each process of Airflow would compile all that it imports: twice the CPU time of its start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-ui test test-push compiled-tests test-all test-matrix test-own test-unit values combinations faults faults-points faults-watchers bench-arrivals bench-quick bench-exactly-once bench-replicas bench-sharding bench-merge bench-planning bench-history bench-nodes bench-concurrency bench-many-files bench-odd-shapes bench-in-place bench-s3-disk bench-cores bench-shared-memory deferral-scale docs docs-pictures lint clean

demo: $(READY)
	$(BIN)/ch-s3 demo

demo-ui: $(READY)
	$(BIN)/ch-s3 demo --ui

# Lint, types, unit tests, and the first test of each module on real servers. With TESTS="not thorough", the tests of
# `make test-push` as well.
TESTS := not push and not thorough
test: $(READY)
	$(MAKE) --jobs=2 lint compiled-tests
	$(BIN)/pytest $(PARALLEL) -m "$(TESTS)" --durations=25

# What each push runs besides `make test`: four more tests of each module on real servers, each with its first case.
test-push: $(READY)
	$(BIN)/pytest $(PARALLEL) -m "push and not thorough" --durations=25 tests/sandbox tests/airflow tests/faults

# Otherwise each process of pytest compiles all tests, and what they import. What fails here fails again, with its reason.
compiled-tests: $(READY)
	-$(BIN)/pytest --collect-only > /dev/null

# All tests, with 75 times as many interleavings of the protocol, and 60 histories of each kind of lake table.
test-all: lint
	CH_S3_PROTOCOL_EXAMPLES=3000 CH_S3_LAKE_HISTORIES=60 $(BIN)/pytest $(PARALLEL)

# Each topology with replicas in each mode; any two arguments and kinds of tables on replicas; each golden statement on each engine; the demo, a deferral and a kill on the oldest supported Airflow.
# Fails if one of the engines, or ZooKeeper, is missing.
test-matrix: $(READY) $(LOWEST)/.ready
	$(BIN)/pytest $(PARALLEL) --no-skips tests/sandbox/test_replicas.py tests/sandbox/test_cloud.py tests/sandbox/test_golden_statements.py
	for cluster in replicated replicated-old database old-database; do \
	    $(MAKE) combinations WAYS=2 SEED=7 CLUSTER=$$cluster || exit 1; done
	$(LOWEST)/bin/pytest tests/airflow/test_deferral.py tests/airflow/test_demo.py -k "not replicas"

# All load modes on a cluster of your own, described in CH_S3_SANDBOX: see docs/topologies.md.
test-own: $(READY)
	$(BIN)/pytest tests/sandbox/test_modes.py

# Random texts and values, compared with an oracle; the same SEED repeats a series. ENGINE=25.8, LANE=csv.
values: $(READY)
	$(BIN)/python -m tests.values --pairs $(or $(PAIRS),20000) $(if $(SEED),--seed $(SEED)) $(if $(ENGINE),--engine $(ENGINE)) $(if $(LANE),--lane $(LANE))

# Any three levels of the factors in tests/combinations, compared with an oracle; the same SEED repeats a series. WAYS=2.
combinations: $(READY)
	$(BIN)/python -m tests.combinations --ways $(or $(WAYS),3) --jobs $(WORKERS) $(if $(SEED),--seed $(SEED)) $(if $(CLUSTER),--cluster $(CLUSTER))

test-unit: $(READY)
	$(BIN)/pytest tests/unit

# Random faults; the same SEED repeats a series. FORKED=1 uses no scheduler, five times as fast. CLUSTER=replicated.
faults: $(READY)
	$(BIN)/python -m tests.faults --runs $(or $(RUNS),200) $(if $(SEED),--seed $(SEED)) $(if $(FORKED),--forked) $(if $(CLUSTER),--cluster $(CLUSTER)) $(if $(MODE),--mode $(MODE))
	$(BIN)/pytest tests/faults/test_crowded_node.py

# Kills the worker before and after every statement, under a real scheduler; takes hours.
faults-points: $(READY)
	$(BIN)/python -m tests.faults --points

# Random arrivals, polls and loads that die, around watchers of new files; the same SEED repeats a series.
faults-watchers: $(READY)
	$(BIN)/python -m tests.faults --watchers --runs $(or $(RUNS),50) $(if $(SEED),--seed $(SEED)) $(if $(CLUSTER),--cluster $(CLUSTER))

# Seconds from the arrival of a file to the commit of its rows, and the CPU time of idle watchers; takes 20 minutes.
bench-arrivals: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.arrivals

# Seconds and statements of small loads on 1, 3, 6 and 12 nodes.
bench-nodes: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.nodes

# Loads of one table that are started together.
bench-concurrency: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.concurrency

# A million objects, loaded by one task that is killed five times; takes five minutes, and needs Go.
bench-many-files: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.many_files

# Very many files of one row, and JSON nested deep, compared with plain INSERTs; takes some minutes.
bench-odd-shapes: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.odd_shapes

# Threads for a SELECT over files in place, near to and far from the store; takes ten minutes.
bench-in-place: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.in_place

# CPU, parts, merges and bytes written of plans for 8 to 64 cores, on any machine; needs a C compiler, takes ten minutes.
bench-cores: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.cores

# Delayed streams for loads into a table on an S3 disk; takes five minutes.
bench-s3-disk: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.s3_disk

# How the time of a load grows with the history of its table.
bench-history: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.history

# 1,000 deferred tasks in one triggerer; asserts times, so it needs an idle machine.
deferral-scale: $(READY)
	$(BIN)/pytest tests/airflow/deferral_scale.py -o log_cli=true --log-cli-level=INFO

# Compares the plan with the server's defaults and a small grid; takes less than 10 minutes.
bench-quick: $(READY)
	$(BIN)/ch-s3 bench --quick

# What staging, verification and commit cost, compared with a direct load of the same data.
bench-exactly-once: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.exactly_once

# What replicas cost a load.
bench-replicas: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.replicas

# A merge, compared with append to a ReplacingMergeTree, and with delete and insert; takes about ten minutes.
bench-merge: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.merge

# How evenly nodes share a load into a table with a sharding key; takes some minutes.
bench-sharding: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.sharding

# Time and memory of a worker that plans a load of 1,000,000 objects; takes a minute or two.
bench-planning: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.planning

# Memory of a small node while four loads run on it, planned alone and for four; takes some minutes.
bench-shared-memory: $(READY)
	$(BIN)/python -m ch_s3_lab.bench.scripts.shared_memory

# Builds the documentation site in build/docs; a broken link fails.
docs: $(DOCS)/.ready
	$(DOCS)/bin/sphinx-build --fail-on-warning --keep-going --nitpicky --fresh-env --quiet -c docs/_site docs build/docs

# The pictures of docs/ui.md, from the example DAGs in a browser; takes five minutes.
docs-pictures: $(READY)
	$(BIN)/pytest tests/airflow/docs_pictures.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Versions and hashes come from the lock files. pip installs uv, which installs the rest ten times as fast, and shows
# what it does: the packages take a minute or two.
define make_venv
	@echo "Installing into $(@D), once:"
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed: make PYTHON=…')"
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	$(@D)/bin/uv pip install --python $(@D) --require-hashes -r $<
endef

# The provider and the lab are installed as editable, without dependencies: the lock file has them all.
$(READY): requirements-dev.lock setup.cfg lab/setup.cfg
$(LOWEST)/.ready: requirements-lowest.lock setup.cfg lab/setup.cfg
$(READY) $(LOWEST)/.ready:
	$(make_venv)
	$(@D)/bin/uv pip install --quiet --python $(@D) --no-deps --no-build-isolation --editable . --editable lab
	touch $@

$(DOCS)/.ready: requirements-docs.lock
	$(make_venv)
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) $(DOCS) build dist *.egg-info lab/build lab/*.egg-info .mypy_cache .pytest_cache .ruff_cache

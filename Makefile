# Everything a newcomer needs. `make run` on a bare Debian 12 sets up what is missing.
# ARGS are passed on: make run ARGS="-w register -t 30"
ARGS ?=
PROVIDER ?= docker

# The tests start thousands of processes; without bytecode each compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run check coverage test tests test-whole test-busy compiled test-compiled test-frames oracle test-oracle test-campaign test-hosts test-wild suite-kafka-python suite-librdkafka vagrant-test lint lock clean

setup:
	@scripts/setup

run: setup
	@.venv/bin/kraftwreck run $(ARGS)

# More workers than cores: tests with hosts, Spark or a browser wait while others compute.
WORKERS ?= 5
test:
	@scripts/setup --test
	@$(MAKE) --no-print-directory -j 2 lint tests

# pytest rewrites the assertions of a module once and keeps the result; without the first command,
# every worker would rewrite all of them after a change.
REWRITTEN = build/rewritten
tests:
	@[ -e $(REWRITTEN) ] && [ -z "$$(find tests -name '*.py' -newer $(REWRITTEN) -print -quit)" ] || \
		{ mkdir -p build; touch $(REWRITTEN); .venv/bin/pytest --collect-only -qq >/dev/null || true; }
	.venv/bin/pytest -n $(WORKERS) --dist loadgroup $(ARGS)

# Tests that are one whole hunt, one run on hosts, a Spark cluster, or an analysis that is killed.
test-whole:
	@scripts/setup --test
	.venv/bin/pytest -m whole_run -n $(WORKERS) --dist loadgroup $(ARGS)

# The tests of make test beside LOAD busy loops: no result may depend on the speed of the machine.
LOAD ?= 30
test-busy:
	@scripts/setup --test
	.venv/bin/python -m tests.busy $(LOAD) .venv/bin/pytest -n $(WORKERS) --dist loadgroup $(ARGS)

# Before a commit, in a minute: lint, types, and the tests next to what changed since BASE that need
# no cluster, Spark, browser or whole runs.
BASE ?= HEAD
FAST = not (cluster or spark or browser or slow or oracle or campaign or vagrant or compiled or many_runs or whole_run)
check: lint
	@.venv/bin/python -m tests.changed $(BASE) | xargs .venv/bin/pytest -q -n 2 --dist loadgroup -m "$(FAST)" $(ARGS)

# Branch coverage by folder of the tests without a marker, into bench/results/coverage.md.
coverage: setup
	.venv/bin/python -m bench.branch_coverage -q -n 2 --dist loadgroup -m "$(FAST)" $(ARGS)

# Modules for `kraftwreck sim --compiled`, into build/compiled: minutes, once for these sources.
compiled:
	@scripts/setup --compile
	@.venv/bin/python -m kraftwreck.harness.compiled.tree

test-compiled: compiled
	.venv/bin/pytest -m compiled -n 0 $(ARGS)
	.venv/bin/pytest -m "many_runs and interpreted" -n 2 --dist loadgroup $(ARGS)

# Apache Kafka, the oracle, into build/oracle; quick when it is there.
oracle:
	@scripts/setup --oracle
	@.venv/bin/python -m kraftwreck.oracle.fetch

test-oracle: oracle
	.venv/bin/pytest -m oracle -n 2 --dist loadfile $(ARGS)

# Tests that other projects wrote for their Kafka clients, against Apache Kafka and against ours, into
# docs/client-suites.md: minutes each. ARGS="--against ours 0011" runs one test against ours.
suite-kafka-python suite-librdkafka: oracle
	.venv/bin/python -m bench.suites $(@:suite-%=%) $(ARGS)

# A million damaged frames against three nodes in this process: some five minutes of CPU time.
FRAMES ?= 200000
test-frames:
	@scripts/setup --test
	.venv/bin/pytest -n 2 tests/frames --frames $(FRAMES) $(ARGS)

# Hunts every planted bug one by one: long.
test-campaign: setup
	.venv/bin/pytest -m campaign -n 2 $(ARGS)

# The clean build on hosts, over workloads, faults, lengths, quorums and brokers: hours. Runs that
# are in STORE already are not repeated. ARGS="--slice" is what continuous integration runs.
STORE ?= build/hosts-matrix
test-hosts: setup
	.venv/bin/python -m bench.hosts_matrix $(STORE) $(ARGS)

# Known bugs of real systems, and the versions without them, into docs/wild.md and README.md: hours. Runs
# that are in WILD already are not repeated; the records of runs elsewhere stay. ARGS="--runs 2" makes
# at most two of each test.
WILD ?= build/wild
test-wild: setup oracle
	@.venv/bin/python -m bench.wild $(WILD) $(ARGS); code=$$?; \
		.venv/bin/python -m bench.wild $(WILD) --keep && exit $$code

# Vagrant for real, from up to destroy, with a box made of Debian's packages: containers (docker,
# lxc), or, for a quarter of an hour and more, emulated machines with kernels of their own (libvirt).
vagrant-test: setup
	@[ -e "tests/vagrant/test_by_$(PROVIDER).py" ] || \
		{ echo "PROVIDER=$(PROVIDER): it is docker, lxc or libvirt, see docs/vagrant.md" >&2; exit 254; }
	@scripts/setup --$(PROVIDER) || echo "setup: packages are missing, so nothing is tested" >&2
	.venv/bin/pytest -m vagrant -s -n 0 $(ARGS) tests/vagrant/test_by_$(PROVIDER).py

# Beside the tests the type checker takes what they leave: it ends long before them.
lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	nice .venv/bin/mypy kraftwreck tests bench

# Writes requirements.lock anew from pyproject.toml.
lock: setup
	.venv/bin/uv pip compile pyproject.toml --extra all --group dev --generate-hashes --no-annotate \
		--no-header --no-emit-index-url --no-emit-find-links -q -o requirements.lock

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

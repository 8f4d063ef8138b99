# make install             install the package and the recipes into .venv
# make demo                train a small translator for number words and export it (under 5 minutes on 2 cores)
# make test                run lint, and the tests for every change (5 minutes on 2 cores); ARGS="--seed 7"
# make test-full           run all tests on every backend; `make -j test-full` runs its parts in parallel
# make test-PART           run one part: core, text, runs, commands, training, kills, recipes, exports, serving, pages, faults, cluster, jax or torch
# make fuzz                run 10,000 random cases of odd files and commands; ARGS="--cases 300 --seed 7"
# make lint                run ruff, mypy, and zizmor, which checks the workflows of CI
# make actionlint          check the workflows of CI with actionlint, or with its Docker image
# make wheel               build the wheel and the wheel of the shipped models into dist/
# make release-check       build the wheel and the sdist, and try them on Python 3.11 to 3.13; ARGS="--python 3.12"
# make audit               look for known vulnerabilities of the packages in constraints.txt; needs the network
# make docs                build the documentation into build/site, and check every link
# make benchmark           measure how fast batches are read (about a minute)
# make benchmark-exports   measure size, speed and BLEU of the exports; ARGS="RUN --source FILE --reference FILE"
# make benchmark-peers     compare speed with other programs, in .venv-peers; ARGS="--rows beam4-tiny-32x16 --json FILE" or ARGS="--gpu"
# make benchmark-joeynmt   compare quality with JoeyNMT, in .venv-joeynmt; ARGS="--data DIR --work DIR"
# make benchmark-marian    exchange models with Marian itself, in .venv-marian; ARGS="--data DIR --work DIR"
# make benchmark-cluster   measure the overhead of a Ray cluster; ARGS="corpus" or ARGS="lines RUN --input FILE"
# make benchmark-soak      measure the web app's memory over hours; ARGS="RUN --source FILE --minutes 120"
# make benchmark-table1    measure layers over the length, as in the paper's Table 1; ARGS="--plot FILE.png"
# make benchmark-training  measure the time of a step, on a GPU; ARGS="--preset tiny --steps 20" elsewhere
# make clean               remove .venv, .venv-torch, .venv-peers, .venv-joeynmt, .venv-marian and caches, but not runs/

SHELL := /bin/bash
# actionlint 1.7.12, by its digest.
ACTIONLINT := rhysd/actionlint:1.7.12@sha256:b1934ee5f1c509618f2508e6eb47ee0d3520686341fec936f3b79331f9315667
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
# The first Python that is new enough; `make PYTHON=...` names another.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
  $$python $(NEW_ENOUGH) 2> /dev/null && echo $$python && break; done)
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt
# With `loadfile` the tests of a file stay together, so their fixtures are made once.
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations 5
# Each of the processes has a core to itself: threads beyond one would wait for each other.
ONE_THREAD := TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1 OMP_NUM_THREADS=1
# JAX compiles every operation of every test: code that is less optimised is there in half the time.
QUICK_XLA := XLA_FLAGS="$$XLA_FLAGS --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"

# What `make test` runs, without the tests that are marked `slow`.
QUICK := $(wildcard tests/test_*.py) $(addprefix tests/, \
  losses metrics schedules optimizers decoding layers models text data runs inference smoke \
  release recipes/test_number_words.py)
# The parts of `make test-full`: each is a target, `make test-core` and so on.
PARTS := core text runs commands training kills recipes exports serving pages faults cluster
core := $(wildcard tests/test_*.py) $(addprefix tests/, \
  losses metrics schedules optimizers decoding layers models distribution types)
text := $(addprefix tests/, text data parsing evaluation)
runs := $(addprefix tests/, files runs inference interpretation figures)
commands := $(addprefix tests/, cli smoke)
training := $(addprefix tests/, training translation_training)
kills := tests/kills
recipes := tests/recipes
exports := $(addprefix tests/, export interop)
serving := $(addprefix tests/, serving app deploy)
pages := keras_transformer $(addprefix tests/, pages benchmarks release)
faults := tests/fuzz
cluster := tests/cluster

.PHONY: help install demo test test-full test-jax test-torch $(PARTS:%=test-%) fuzz lint actionlint wheel release-check audit docs benchmark benchmark-exports benchmark-training benchmark-peers benchmark-joeynmt benchmark-marian benchmark-cluster benchmark-soak benchmark-table1 clean

help:
	@sed -n "s/^# make/make/p" Makefile

install: .venv/installed

demo: .venv/installed
	@$(BIN)/python -m recipes.number_words.train --export saved_models/number_words

test: lint
	$(ONE_THREAD) $(PYTEST) $(QUICK) $(ARGS)

test-full: lint docs $(PARTS:%=test-%) test-jax test-torch

test-pages: .venv/installed-docs
$(PARTS:%=test-%): test-%: .venv/installed-dev
	$(ONE_THREAD) $(PYTEST) --full --doctest-modules $($*) $(ARGS)

test-jax: .venv/installed-dev
	KERAS_BACKEND=jax $(ONE_THREAD) $(QUICK_XLA) $(PYTEST) --full -m core tests $(ARGS)

test-torch: .venv-torch/installed
	KERAS_BACKEND=torch $(ONE_THREAD) $(PYTEST:.venv/%=.venv-torch/%) --full -m core tests $(ARGS)

fuzz: .venv/installed-dev
	@$(BIN)/python -m tests.fuzz $(ARGS)

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/zizmor --offline --quiet .github

# Not in `lint`: it is no Python package.
actionlint:
	@if command -v actionlint > /dev/null; then actionlint; \
	elif command -v docker > /dev/null; then docker run --rm --volume "$$PWD:/repo:ro" --workdir /repo $(ACTIONLINT); \
	else echo "Install actionlint or Docker: https://github.com/rhysd/actionlint" >&2; exit 1; fi

# The second wheel is built from the tracked files only, without exports of one's own.
wheel: .venv/installed-dev
	rm -rf build/models && mkdir -p build/models
	git ls-files -z saved_models | tar --create --null --files-from - | tar --extract --directory build/models
	$(BIN)/python -m build --wheel --outdir dist .
	$(BIN)/python -m build --wheel --outdir dist build/models/saved_models

release-check: .venv/installed-release
	@$(BIN)/python -m tests.release $(ARGS)

audit: .venv/installed
	$(PIP_INSTALL) pip-audit
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip

docs: .venv/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

benchmark: .venv/installed
	@$(BIN)/python -m benchmarks.reading

benchmark-training: .venv/installed-dev
	@$(BIN)/python -m benchmarks.training_step $(ARGS)

benchmark-exports: .venv/installed-dev
	@$(BIN)/python -m benchmarks.exports $(ARGS)

benchmark-peers: .venv/installed-dev .venv-peers/installed
	@$(BIN)/python -m benchmarks.peers $(ARGS)

benchmark-joeynmt: .venv/installed-dev .venv-joeynmt/installed
	@$(BIN)/python -m benchmarks.joeynmt $(ARGS)

benchmark-marian: .venv/installed-dev .venv-marian/installed
	@$(BIN)/python -m benchmarks.marian $(ARGS)

benchmark-cluster: .venv/installed-dev
	@$(BIN)/python -m benchmarks.cluster $(ARGS)

benchmark-soak: .venv/installed-dev
	@$(BIN)/python -m benchmarks.app_soak $(ARGS)

benchmark-table1: .venv/installed-dev
	@$(BIN)/python -m benchmarks.table1 $(ARGS)

clean:
	rm -rf .venv .venv-torch .venv-peers .venv-joeynmt .venv-marian .pytest_cache .ruff_cache .mypy_cache build *.egg-info

# The stamps hold the time of an installation: it is repeated when the requirements change.
.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing TensorFlow and keras_transformer into .venv (a few minutes the first time)"
# The other project of that name, or this clone under its former one.
	@$(BIN)/python -m pip uninstall --yes -qqq keras-transformer; rm -rf keras_transformer.egg-info
	$(PIP_INSTALL) --editable '.[tensorflow,serving,demo]'
	@touch $@

.venv/installed-dev: .venv/installed
	$(PIP_INSTALL) --editable '.[dev]'
	@touch $@

.venv/installed-release: .venv/installed-dev
	$(PIP_INSTALL) --editable '.[release]'
	@touch $@

.venv/installed-docs: .venv/installed | .venv/installed-dev
	@echo "Installing what builds the documentation into .venv (a minute or two)"
	$(PIP_INSTALL) --editable '.[docs]'
	@touch $@

.venv-torch/installed: pyproject.toml constraints.txt | .venv/installed-dev
	@echo "Installing PyTorch into .venv-torch (6 GB; a few minutes the first time)"
	@test -x .venv-torch/bin/python || $(BIN)/python -m venv .venv-torch
	@$(PIP_INSTALL:.venv/%=.venv-torch/%) --editable '.[torch,jax,interop,plots]' hypothesis pytest pytest-xdist
	@touch $@

# One by one: what cannot be installed here is left out of the comparison.
.venv-peers/installed: benchmarks/peers/requirements.txt | .venv/bin/python
	@echo "Installing PyTorch and other peers into .venv-peers (a few minutes the first time)"
	@test -x .venv-peers/bin/python || $(BIN)/python -m venv .venv-peers
	@grep -v '^#' $< | while read -r peer; do \
	  .venv-peers/bin/python -m pip install --disable-pip-version-check --quiet "$$peer" \
	    || echo "Not installed: $$peer" >&2; done
	@touch $@

.venv-joeynmt/installed: benchmarks/joeynmt/requirements.txt | .venv/bin/python
	@echo "Installing PyTorch and JoeyNMT into .venv-joeynmt (a few minutes the first time)"
	@test -x .venv-joeynmt/bin/python || $(BIN)/python -m venv .venv-joeynmt
	@.venv-joeynmt/bin/python -m pip install --disable-pip-version-check --quiet --requirement $<
	@.venv-joeynmt/bin/python -c 'import joeynmt.prediction, joeynmt.training'
	@touch $@

.venv-marian/installed: benchmarks/marian/requirements.txt | .venv/bin/python
	@echo "Installing Marian into .venv-marian (1 GB; a few minutes the first time)"
	@test -x .venv-marian/bin/python || $(BIN)/python -m venv .venv-marian
	@.venv-marian/bin/python -m pip install --disable-pip-version-check --quiet --requirement $<
	@.venv-marian/bin/python -c 'import _pymarian'
	@touch $@

.venv/bin/python:
	@test -n '$(PYTHON)' && $(PYTHON) $(NEW_ENOUGH) 2> /dev/null || { \
	  echo "Python 3.11 or newer is needed. Name one: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; \
	  echo "'$(PYTHON) -m venv' failed. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

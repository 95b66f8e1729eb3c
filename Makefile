# Everything runs inside .venv, which the first target that needs it builds.
# uv makes that a matter of seconds; a machine without it gets it by pip.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
export UV_LINK_MODE ?= copy
# uv installs sources alone: where Python may not keep what it compiles, each of the tests' many processes
# compiles pandas, scipy and scikit-learn anew, which takes two seconds.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt

# One BLAS thread per pytest worker: two workers on two cores must not fight for them.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: help reproduce test test-suite lint docs wheel test-wheel test-minimum benchmark benchmark-quick data clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/uv
	$(INSTALL) -e '.[all]'
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(INSTALL) -e . --group dev
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	$(INSTALL) -e . --group docs
	@touch $@

reproduce: $(VENV)/.core  ## the paper's experiment on the shipped COMPAS data: tables, figures and a page in results/
	$(BIN)/evenrisk reproduce

test: lint test-suite  ## lint, then all tests

test-suite: $(VENV)/.dev  ## all tests
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.dev  ## ruff, ruff format and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs  ## the documentation in docs/_build/html; a warning is an error
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

wheel: $(BIN)/uv  ## build dist/evenrisk-*.whl
	rm -rf dist
	$(BIN)/uv build --quiet --wheel --python $(BIN)/python

test-wheel: wheel  ## install the wheel in an empty environment and use it there
	rm -rf .venv-wheel
	$(PYTHON) -m venv .venv-wheel
	$(BIN)/uv pip install --quiet --python .venv-wheel/bin/python dist/*.whl
	cd .venv-wheel && bin/python -I ../scripts/wheel_smoke.py && bin/evenrisk --version

.venv-minimum/.done: pyproject.toml | $(BIN)/uv
	rm -rf .venv-minimum
	$(PYTHON) -m venv .venv-minimum
	$(BIN)/uv pip install --quiet --python .venv-minimum/bin/python --resolution lowest-direct -e .
	$(BIN)/uv pip install --quiet --python .venv-minimum/bin/python --group test
	@touch $@

test-minimum: .venv-minimum/.done  ## the core tests with the oldest versions pyproject.toml admits
	EVENRISK_TESTS=minimum $(ONE_THREAD) .venv-minimum/bin/python -m pytest -n 2 --dist worksteal -p no:cacheprovider

benchmark: $(VENV)/.dev  ## measure again what benchmarks/RESULTS.md sums up (idle machine, please)
	$(BIN)/python benchmarks/penalty_cost.py
	$(BIN)/python benchmarks/startup_time.py
	$(BIN)/python benchmarks/audit_cost.py
	$(BIN)/python benchmarks/fit_time.py
	$(BIN)/python benchmarks/repair_time.py
	$(BIN)/python benchmarks/tree_network_time.py
	$(BIN)/python benchmarks/boosting_descent.py
	$(BIN)/python benchmarks/solvers_vs_momentum.py
	$(BIN)/python benchmarks/paper_choices.py
	$(BIN)/python benchmarks/band_coverage.py
	$(BIN)/python benchmarks/false_alarms.py
	$(BIN)/python benchmarks/attribute_inference.py
	$(BIN)/python benchmarks/attribute_choices.py
	$(ONE_THREAD) $(BIN)/python benchmarks/quality_at_gap.py
	$(ONE_THREAD) $(BIN)/python benchmarks/budget_kept.py
	$(ONE_THREAD) $(BIN)/python benchmarks/frontier.py --jobs 2 --csv results/frontier.csv --picture results/frontier.png
	$(ONE_THREAD) $(BIN)/python benchmarks/repair_frontier.py --jobs 2 --csv results/repair_frontier.csv

benchmark-quick: $(VENV)/.dev  ## speed and quality beside every rival in under five minutes, on fewer rows
	$(BIN)/python benchmarks/fit_time.py --quick
	$(ONE_THREAD) $(BIN)/python benchmarks/frontier.py --quick --jobs 2 --csv results/frontier.csv --picture results/frontier.png

.venv-fairgbm/.done: | $(BIN)/uv  # a rival that wants older packages: without it the benchmark leaves it out
	$(PYTHON) -m venv .venv-fairgbm
	$(BIN)/uv pip install --quiet --python .venv-fairgbm/bin/python fairgbm==0.9.14 'scikit-learn<1.6' 'numpy<2' 'pandas<2.3'
	@touch $@

data: $(BIN)/uv  ## rebuild the shipped data files from the registry's wheels, checking every hash
	$(BIN)/python scripts/build_compas.py
	$(BIN)/python scripts/build_adult.py

clean:  ## remove environments and build outputs
	rm -rf $(VENV) .venv-wheel .venv-minimum .venv-fairgbm dist docs/_build docs/generated results

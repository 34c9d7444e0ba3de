# Each target makes .venv by itself when it is missing. Only Python 3.11+ is needed; uv is used when it is there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
EXTRAS := plot,cli,io,dask

# Every worker begins with half of the tests in their order, so that those of one file share fits.
WORKERS := -n 2 --dist worksteal

.PHONY: demo test test-native test-all test-oldest test-core test-rounding mutate coverage fuzz figures lint bench bench-compare bench-peers docs release clean

# What pip builds without isolation: a change of a native source is then built again at the next import.
NATIVE := $(wildcard src/sfumato/native/*) meson.build meson.options backend/sfumato_build.py
INSTALL = $(if $(shell command -v uv),uv pip install -q --python $(BIN)/python,$(BIN)/python -m pip install -q)

$(VENV)/.installed: pyproject.toml $(NATIVE)
	@echo "installing into $(VENV): build requirements, native modules (Cython, half a minute), packages"
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv -q --allow-existing --python $(PYTHON) $(VENV); \
	else \
	  $(PYTHON) -m venv $(VENV) && $(INSTALL) --upgrade "pip>=25.1"; \
	fi
	@$(BIN)/python backend/sfumato_build.py > $(VENV)/build.txt
	@$(INSTALL) -r $(VENV)/build.txt
	@PATH="$$(cd $(BIN) && pwd):$$PATH" $(INSTALL) --no-build-isolation -e ".[$(EXTRAS)]" --group test --group lint
	@touch $@

demo: $(VENV)/.installed
	$(BIN)/sfumato demo --out sfumato-demo --force

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

# Imported once first, so that a change of a native source is built once, not by every worker.
test: lint
	@$(BIN)/python -c "import sfumato.native.em"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(WORKERS) -m "not slow"

test-all: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(WORKERS)

# The native modules with every index checked and with the sanitizers of the compiler.
SANITIZED = build/sanitized
test-native: $(VENV)/.installed
	PATH="$$(cd $(BIN) && pwd):$$PATH" $(BIN)/meson setup --reconfigure $(SANITIZED) -Dchecks=true -Dbuildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false
	PATH="$$(cd $(BIN) && pwd):$$PATH" $(BIN)/meson install -C $(SANITIZED) --destdir installed --quiet
	OMP_NUM_THREADS=1 $(BIN)/python .ci/sanitized.py $(SANITIZED)

# Every dependency at the oldest version that pyproject.toml allows.
build/oldest/.installed: pyproject.toml .ci/oldest.py
	$(PYTHON) -m venv build/oldest
	build/oldest/bin/python -m pip install -q --upgrade "pip>=25.1"
	build/oldest/bin/python .ci/oldest.py plot cli io dask > build/oldest/requirements.txt
	build/oldest/bin/python -m pip install -q -r build/oldest/requirements.txt -e .
	@touch $@

test-oldest: build/oldest/.installed
	OMP_NUM_THREADS=1 build/oldest/bin/python -m pytest $(WORKERS) -m "not slow" -W default::DeprecationWarning

# Without any extra: no plots, no command line.
build/core/.installed: pyproject.toml
	$(PYTHON) -m venv build/core
	build/core/bin/python -m pip install -q --upgrade "pip>=25.1"
	build/core/bin/python -m pip install -q -e . "pytest>=8" "pytest-xdist>=3.6.1" "hypothesis>=6.100"
	@touch $@

test-core: build/core/.installed
	OMP_NUM_THREADS=1 build/core/bin/python -m pytest $(WORKERS) -m "not slow"

# As other processors would round, in other orders of the tests. ROUNDING="tests/test_contract.py": a part of them.
ROUNDING ?= $(WORKERS)
test-rounding: $(VENV)/.installed
	$(BIN)/python .ci/rounding.py $(ROUNDING)

# One line of src broken on purpose at a time; what the tests that run it do not notice is listed.
MUTANTS ?= 100
SEED ?= 0
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
mutate: $(VENV)/.installed
	PYTHONPATH=.ci OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(WORKERS) -m "not slow" -p reached
	$(BIN)/python .ci/mutate.py --number $(MUTANTS) --seed $(SEED) --jobs $(JOBS)

# Random evidence and parameters, the contract as judge; seeds are printed. SECONDS=3600 make fuzz: an hour.
SECONDS ?= 600
fuzz: $(VENV)/.installed
	OMP_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(SECONDS)

# Branch coverage with the floor that pyproject.toml sets. Beside `make test`, not in it: a minute counts there.
coverage: $(VENV)/.installed
	$(INSTALL) --group coverage
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(WORKERS) -m "not slow" --cov --cov-report=term-missing:skip-covered

# Build the distributions, check them, and run the demo and the examples of the docstrings from the wheel.
release: $(VENV)/.installed
	rm -rf dist build/release
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install -q --upgrade "pip>=25.1"
	build/release/bin/python -m pip install -q --group release
	build/release/bin/python -m build --outdir dist .
	build/release/bin/python -m twine check --strict dist/*
	$(PYTHON) -m venv --clear build/release
	build/release/bin/python -m pip install -q "$$(ls dist/*.whl)[plot,cli,io,dask]" "pytest>=8" pandas
	cd build/release && bin/sfumato demo --out demo --force
	cd build/release && bin/python -m pytest -q -p no:cacheprovider -c /dev/null --doctest-modules --ignore-glob='*/cuda*.py' --ignore-glob='*_torch.py' --pyargs sfumato
	@$(PYTHON) .ci/changes.py

# Lines, files and module constants of src.
figures:
	@$(PYTHON) .ci/figures.py

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks

# What has become slower by more than a tenth since it was recorded. BENCH="fuzzy mixture" make bench-compare
BENCH ?=
bench-compare: $(VENV)/.installed
	$(BIN)/python -m benchmarks --compare $(BENCH)

build/peers/.installed: benchmarks/peers/requirements.txt benchmarks/peers/dependencies.txt pyproject.toml
	$(PYTHON) -m venv build/peers
	build/peers/bin/python -m pip install -q -e . -r benchmarks/peers/dependencies.txt
	build/peers/bin/python -m pip install -q --no-deps -r benchmarks/peers/requirements.txt
	@touch $@

bench-peers: build/peers/.installed
	build/peers/bin/python -m benchmarks peers

docs: $(VENV)/.installed
	@$(BIN)/python -c "import sphinx_gallery, numpydoc, myst_parser, pydata_sphinx_theme, nbclient, ipykernel" 2>/dev/null || PATH="$$(cd $(BIN) && pwd):$$PATH" $(INSTALL) --no-build-isolation -e ".[docs]"
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) docs/_build sfumato-demo

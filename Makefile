# Each target makes .venv by itself when it is missing. Only Python 3.11+ is needed; uv is used when it is there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := fast,plot,cli,io,dask

.PHONY: demo test test-all lint bench bench-peers docs clean

$(VENV)/.installed: pyproject.toml
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv -q --allow-existing --python $(PYTHON) $(VENV) && uv pip install -q --python $(BIN)/python -e ".[$(EXTRAS)]" --group test --group lint; \
	else \
	  $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install -q --upgrade "pip>=25.1" && $(BIN)/python -m pip install -q -e ".[$(EXTRAS)]" --group test --group lint; \
	fi
	@touch $@

demo: $(VENV)/.installed
	$(BIN)/sfumato demo --out sfumato-demo --force

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow"

test-all: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks

build/peers/.installed: benchmarks/peers/requirements.txt benchmarks/peers/dependencies.txt pyproject.toml
	$(PYTHON) -m venv build/peers
	build/peers/bin/python -m pip install -q -e ".[fast]" -r benchmarks/peers/dependencies.txt
	build/peers/bin/python -m pip install -q --no-deps -r benchmarks/peers/requirements.txt
	@touch $@

bench-peers: build/peers/.installed
	build/peers/bin/python -m benchmarks peers

docs: $(VENV)/.installed
	@$(BIN)/python -c "import sphinx_gallery, numpydoc, myst_parser, pydata_sphinx_theme" 2>/dev/null || $(BIN)/python -m pip install -q -e ".[docs]" || uv pip install -q --python $(BIN)/python -e ".[docs]"
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) docs/_build sfumato-demo

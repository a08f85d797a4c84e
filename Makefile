# The one door for contributors: `make demo` and `make test` set everything up by themselves.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint types format witness clean

$(STAMP): pyproject.toml setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: $(STAMP)
	$(BIN)/p3vae classify sample_data/town.tif --output demo --overwrite

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# A second GDAL, to look at our products with other eyes. Without it those tests are skipped and say so.
witness:
	@command -v gdalinfo >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && apt-get install -qq -y --no-install-recommends gdal-bin >/dev/null; } \
	  || echo "gdalinfo is not installed: tests that need it are skipped"

test: lint types witness
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info

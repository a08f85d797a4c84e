# The one entry point for contributors: `make demo` and `make test` set everything up by themselves.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
USER_STAMP := $(VENV)/.user
LOWEST := .venv-lowest

define BOUNDS
import re, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
for needed in project["dependencies"] + project["optional-dependencies"]["reproduce"]:
    name, bound = re.match("([a-z0-9-]+)>=([0-9.]+)", needed).groups()
    if name != "torch":
        print(f"{name}=={bound}")
print(next(line for line in open("constraints.txt") if line.startswith("torch==")))
endef
export BOUNDS

.PHONY: demo docs ablate measured mutants quick test test-qgis qgis-plugin lowest lint types format gdal browser faults fuzz clean

# What a user needs; contributors need more.
$(USER_STAMP): pyproject.toml setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(STAMP): $(USER_STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: $(USER_STAMP)
	$(BIN)/p3vae classify sample_data/town.tif --model town --output demo --overwrite --report --qgis
	@echo
	@echo "Maps in demo/. Look at them: open demo/report.html in a browser, demo/p3vae.qgz in QGIS."
	@echo "Put p3vae on the PATH of this shell: source $(BIN)/activate"
	@echo "Go on with docs/tutorial.md, or: p3vae --help"

ablate: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks ablate --data $(DATA) --seeds 5-6

# The documentation site in build/site, strict about broken links, without network.
docs: $(STAMP)
	$(BIN)/python docs/build.py

measured:
	$(PYTHON) -m benchmarks collect

# One-line mistakes drawn at random, and whether the tests notice them; see CONTRIBUTING.md.
mutants: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks mutants $(PATHS) --count $(or $(N),20) --seed $(or $(SEED),1)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# The system's GDAL, for tests that read our products with another build than rasterio's. Without it those tests are skipped and say so.
gdal:
	@command -v gdalinfo >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && apt-get install -qq -y --no-install-recommends gdal-bin >/dev/null; } \
	  || echo "gdalinfo is not installed: tests that need it are skipped"

# A browser, for tests that look at the report as people do. Without it those tests are skipped and say so.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null; } \
	  || echo "chromium is not installed: tests that need it are skipped"

# Without tests that start other processes, and without anything from the system's packages.
quick: lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadgroup -m "not process"

test: lint types gdal browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadgroup

# Debian's QGIS (about 1.2 GB): projects, styles and the Processing provider, without a window.
test-qgis: $(STAMP)
	@command -v qgis_process >/dev/null || { apt-get update -qq \
	  && apt-get install -qq -y --no-install-recommends qgis python3-qgis >/dev/null; }
	P3VAE_TEST_QGIS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/qgis

qgis-plugin:
	mkdir -p dist
	rm -rf qgis/p3vae_provider/__pycache__
	cd qgis && $(PYTHON) -m zipfile -c ../dist/p3vae_provider.zip p3vae_provider

# The oldest libraries that pyproject allows, in an environment of their own. torch is the one of constraints.txt:
# older ones exist for GPUs only in most places, and are gigabytes.
lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(PYTHON) -c "$$BOUNDS" > $(LOWEST)/bounds.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --prefer-binary \
	  -c $(LOWEST)/bounds.txt -e ".[dev]"
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -n auto tests/physics tests/cli/scenes tests/cli/rasters \
	  tests/cli/records tests/cli/styles tests/cli/test_*.py

# Kills, signals, full disks and more, for half an hour; damaged files for an hour. Short versions are in the tests.
faults: $(STAMP)
	OMP_NUM_THREADS=1 GDAL_NUM_THREADS=1 $(BIN)/python -m benchmarks faults --kills 300 --write

fuzz: $(STAMP)
	OMP_NUM_THREADS=1 GDAL_NUM_THREADS=1 $(BIN)/python -m benchmarks fuzz --cases 5000 --write

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(LOWEST) build dist *.egg-info

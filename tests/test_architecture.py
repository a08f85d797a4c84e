"""The architecture: imports go one way, help is instant, the wheel holds `p3vae/` and nothing else."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "p3vae_cli": "p3vae.cli",
    "models": "p3vae.models",
    "physics": "p3vae.physics",
    "paper": "p3vae.paper",
}
IMPORTS_OF_PACKAGES = {
    "p3vae.physics": (),
    "p3vae.models": ("p3vae.physics",),
    "p3vae.cli": ("p3vae.models", "p3vae.physics"),
    "p3vae.paper": ("p3vae.cli", "p3vae.models", "p3vae.physics"),
}
"""What each installed package may import of the others."""
DOORS_TO_THE_PAPER = {
    "p3vae_cli/commands/reproduce.py",
    "models/landcover/registry.py",
    "models/methane/registry.py",
}
"""The command, and the registries that name modules of the paper: nothing else of the product knows it."""

_WORDS = ("class_colours", "colours", "console", "errors", "params", "settings", "signals", "tables")
_SCENES = (*_WORDS, "scenes")
_FILES = (*_SCENES, "rasters", "records", "styles")
_RUN = (*_FILES, "labels", "run")
LAYERS = {
    "p3vae.cli": {
        "class_colours": ("colours",),
        "colours": (),
        "errors": (),
        "params": (),
        "console": ("errors",),
        "settings": ("errors",),
        "signals": ("errors",),
        "tables": ("errors",),
        "scenes": _WORDS,
        "labels": _SCENES,
        "rasters": _FILES,
        "records": _FILES,
        "styles": _FILES,
        "run": (*_FILES, "report"),
        "landcover": (*_RUN, "report"),
        "methane": _RUN,
        "assess": (*_FILES, "labels"),
        "report": (*_RUN, "assess"),
        "simulate": _FILES,
        "options": (*_WORDS, "scenes", "run"),
        "api": (*_RUN, "landcover", "methane", "assess"),
        "root": ("api",),
        "commands": (*_RUN, "landcover", "methane", "assess", "report", "simulate", "options"),
        "main": (*_WORDS, "commands"),
    },
    "p3vae.models": {
        "nn": (),
        "metrics": (),
        "accuracy": (),
        "accuracy_intervals": (),
        "checkpoint": ("nn",),
        "landcover": ("nn", "metrics", "checkpoint"),
        "methane": ("nn", "metrics", "checkpoint"),
    },
    "p3vae.paper": {
        "nn": (),
        "metrics": (),
        "landcover": ("nn",),
        "methane": ("nn",),
        "pendulum": ("nn", "metrics"),
        "reproduce": ("landcover", "methane", "pendulum", "metrics"),
    },
}
"""What each subpackage or module may import of its neighbours."""
CYCLES = {
    "p3vae.cli.landcover.settings": "settings name their mapper, imported with the first scene",
    "p3vae.cli.methane.settings": "settings name their mapper, imported with the first scene",
    "p3vae.paper.landcover.fg_unet.estimator": "a model trains itself, by a loop that makes the model",
}
"""Modules with which a circle of imports may begin, each with its reason: they import the next one late."""
HOMES = {
    "rasterio": (
        "scenes/",
        "rasters/",
        "records/",
        "styles/",
        "labels/",
        "run/",
        "methane/",
        "simulate/",
        "assess/",
    ),
    "h5py": ("scenes/", "methane/wind_netcdf.py", "simulate/"),
    "click": (
        "main.py",
        "commands/",
        "options.py",
        "params.py",
        "settings.py",
        "run/settings.py",
        "scenes/settings.py",
        "landcover/settings.py",
        "landcover/train_settings.py",
        "methane/settings.py",
    ),
    "csv": ("tables.py",),
    "distributed": ("run/clusters.py",),
    "pystac": ("records/",),
}
"""Libraries that have one home inside the command-line package."""


def _imports(source: Path) -> set[str]:
    """Modules that a source imports, also inside functions; `from p import m` counts as p and as p.m."""
    names = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{source}: relative import"
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def _part(package: str, module: str) -> str | None:
    """First name below `package` in a dotted module name; None for modules of other packages."""
    return module.removeprefix(f"{package}.").split(".")[0] if module.startswith(f"{package}.") else None


@pytest.mark.parametrize("folder", PACKAGES)
def test_packages_import_one_way(folder: str) -> None:
    allowed = (PACKAGES[folder], *IMPORTS_OF_PACKAGES[PACKAGES[folder]])
    wrong = {
        f"{source.relative_to(ROOT)}: {name}"
        for source in _sources(folder)
        for name in _imports(source)
        if name.startswith("p3vae.")
        and not name.startswith(allowed)
        and not (name.startswith("p3vae.paper") and str(source.relative_to(ROOT)) in DOORS_TO_THE_PAPER)
    }
    assert not wrong


def test_the_product_reaches_the_paper_by_its_doors_only() -> None:
    """Imports and names of modules in strings alike."""
    found = {
        str(source.relative_to(ROOT))
        for folder in ("p3vae_cli", "models", "physics")
        for source in _sources(folder)
        if "p3vae.paper" in source.read_text()
    }
    assert found == DOORS_TO_THE_PAPER


def test_the_product_runs_without_the_paper(tmp_path: Path) -> None:
    """In a package that lacks it, maps are made and help is shown."""
    root = tmp_path / "p3vae"
    root.mkdir()
    (root / "__init__.py").symlink_to(ROOT / "p3vae_cli" / "root" / "__init__.py")
    for name, folder in (("cli", "p3vae_cli"), ("models", "models"), ("physics", "physics")):
        (root / name).symlink_to(ROOT / folder)
    script = (
        "import sys; sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f)]\n"
        "from importlib.util import find_spec; assert find_spec('p3vae.paper') is None\n"
        "from p3vae.cli.main import main; main()"
    )
    town, maps = ROOT / "sample_data" / "town.tif", tmp_path / "maps"
    for call in (["train", "--help"], ["classify", str(town), "-m", "town", "-o", str(maps)]):
        done = subprocess.run(
            [sys.executable, "-c", script, *call],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", LAYERS)
def test_layers_import_one_way(package: str) -> None:
    folder = next(name for name, module in PACKAGES.items() if module == package)
    layers, modules, wrong = LAYERS[package], _modules(), set()
    for source in _sources(folder):
        own = source.relative_to(ROOT / folder).with_suffix("").parts[0]
        if own in ("__init__", "data", "weights"):
            continue
        for name in _run_time_imports(source, modules):
            other = _part(package, name)
            if other in layers and other != own and other not in layers[own]:
                wrong.add(f"{source.relative_to(ROOT)}: {name}")
    assert not wrong


def _modules() -> dict[str, Path]:
    """Every module of the product, by its dotted name."""
    found = {}
    for folder, package in PACKAGES.items():
        for source in _sources(folder):
            parts = source.relative_to(ROOT / folder).with_suffix("").parts
            if parts[0] != "root":
                found[".".join((package, *parts)).removesuffix(".__init__")] = source
    return found


def _run_time_imports(source: Path, modules: dict[str, Path]) -> set[str]:
    """Modules that a source imports when it runs, inside functions too; not those of types only."""
    tree = ast.parse(source.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else node.module for name in named}
    return found & modules.keys()


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = _modules()
    imports = {name: _run_time_imports(source, modules) - {name} for name, source in modules.items()}
    for excused in CYCLES:
        imports[excused] = set()
    try:
        list(TopologicalSorter(imports).static_order())
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


@pytest.mark.parametrize("package", LAYERS)
def test_every_module_has_a_layer(package: str) -> None:
    folder = next(name for name, module in PACKAGES.items() if module == package)
    found = {source.relative_to(ROOT / folder).with_suffix("").parts[0] for source in _sources(folder)}
    assert found - {"__init__"} == set(LAYERS[package])


@pytest.mark.parametrize("library", HOMES)
def test_libraries_stay_in_their_packages(library: str) -> None:
    strangers = [
        str(source.relative_to(ROOT))
        for folder in PACKAGES
        for source in _sources(folder)
        if library in {name.split(".")[0] for name in _imports(source)}
        and not (folder == "p3vae_cli" and str(source.relative_to(ROOT / folder)).startswith(HOMES[library]))
        and "data" not in source.parts
    ]
    assert not strangers


def test_double_precision_is_left_to_the_cpu() -> None:
    """Apple's accelerators have none."""
    for source in _sources("models"):
        assert ".double().cpu()" not in source.read_text(), source


def test_nothing_unpickles() -> None:
    for folder_name in PACKAGES:
        for source in _sources(folder_name):
            assert not {"pickle", "joblib", "dill", "cloudpickle"} & _imports(source)
            assert "torch.load(" not in source.read_text()


def test_help_is_instant_and_does_not_import_torch() -> None:
    script = (
        "import sys, time; begin = time.process_time(); from p3vae.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print('heavy:', sorted({'torch', 'rasterio', 'numpy', 'geopandas'} & set(sys.modules)))\n"
        "print('seconds:', time.process_time() - begin)"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "heavy: []" in output
    assert "classify" in output or "info" in output
    assert float(output.partition("seconds:")[2]) < 0.3, "CPU seconds beyond the interpreter"


def test_import_is_instant_and_does_not_import_torch() -> None:
    script = (
        "import time; begin = time.process_time(); import p3vae, sys\n"
        "assert 'classify' in dir(p3vae) and p3vae.__version__\n"
        "print('heavy:', sorted({'torch', 'rasterio', 'numpy', 'geopandas'} & set(sys.modules)))\n"
        "print('seconds:', time.process_time() - begin)"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "heavy: []" in output
    assert float(output.partition("seconds:")[2]) < 0.3


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: building writes into the source folder, where another worker may do the same."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for folder_name in PACKAGES:
        shutil.copytree(
            ROOT / folder_name, source / folder_name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(source)],
        check=True,
    )
    return next(folder.glob("p3vae-*.whl"))


def test_wheel_contains_only_p3vae_and_every_source(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "p3vae",
        next(n.split("/")[0] for n in names if "dist-info" in n),
    }
    shipped = {name for name in names if name.endswith(".py")}
    sources = {
        f"{module.replace('.', '/')}/{source.relative_to(ROOT / folder_name).as_posix()}"
        for folder_name, module in PACKAGES.items()
        for source in _sources(folder_name)
    }
    assert shipped == sources - {"p3vae/cli/root/__init__.py"} | {"p3vae/__init__.py"}


def test_wheel_runs_from_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """A fresh environment that sees this one's libraries but not this checkout."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)],
        check=True,
    )
    libraries = next(p for p in map(Path, sys.path) if (p / "rasterio").is_dir())
    # Only packages, not the .pth files and finders of the editable install.
    done = subprocess.run(
        [environment / "bin" / "p3vae", "info", "--json", str(ROOT / "sample_data" / "town.tif")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(libraries)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"product": "GeoTIFF"' in done.stdout
    located = subprocess.run(
        [python, "-c", "import p3vae.cli.main as m; print(m.__file__)"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(libraries)},
        check=True,
    ).stdout
    assert str(environment) in located


def test_info_reads_the_headers_of_models_and_no_torch() -> None:
    script = (
        "import sys; from p3vae.cli.main import main\n"
        f"try: main(['info', {str(ROOT / 'sample_data' / 'town.tif')!r}])\nexcept SystemExit: pass\n"
        "print('heavy:', sorted({'torch', 'pandas', 'pvlib', 'sklearn', 'geopandas'} & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "earth.p3vae: fits" in output and "town.p3vae: fits" in output
    assert "heavy: []" in output

"""The house itself: imports go one way, help is instant, the wheel holds `p3vae/` and nothing else."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {"p3vae_cli": "p3vae.cli", "models": "p3vae.models", "physics": "p3vae.physics"}
FORBIDDEN = {"physics": ("p3vae.cli", "p3vae.models"), "models": ("p3vae.cli",), "p3vae_cli": ()}
# Libraries that have one home inside the command-line room.
HOMES = {
    "rasterio": ("scenes/", "products/", "samples"),
    "h5py": ("scenes/", "products/"),
    "click": ("main.py", "commands/", "options.py", "errors.py"),
}


def _imports(source: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{source}: relative import"
            names |= {node.module}
    return names


def _sources(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_one_way(room: str) -> None:
    wrong = {
        str(source.relative_to(ROOT)): name
        for source in _sources(room)
        for name in _imports(source)
        if name.startswith(FORBIDDEN[room]) and FORBIDDEN[room]
    }
    assert not wrong


@pytest.mark.parametrize("library", HOMES)
def test_libraries_stay_in_their_rooms(library: str) -> None:
    strangers = [
        str(source.relative_to(ROOT))
        for room in ROOMS
        for source in _sources(room)
        if library in {name.split(".")[0] for name in _imports(source)}
        and not (room == "p3vae_cli" and str(source.relative_to(ROOT / room)).startswith(HOMES[library]))
    ]
    assert not strangers


def test_double_precision_is_left_to_the_cpu() -> None:
    """Apple's accelerators have none."""
    for source in _sources("models"):
        assert ".double().cpu()" not in source.read_text(), source


def test_nothing_unpickles() -> None:
    for room in ROOMS:
        for source in _sources(room):
            assert not {"pickle", "joblib", "dill", "cloudpickle"} & _imports(source)
            assert "torch.load(" not in source.read_text()


def test_help_is_instant_and_does_not_import_torch() -> None:
    script = (
        "import sys; from p3vae.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print('heavy:', sorted({'torch', 'rasterio', 'numpy', 'geopandas'} & set(sys.modules)))"
    )
    best = min(_timed([sys.executable, "-c", script])[1] for _ in range(3))
    output, _ = _timed([sys.executable, "-c", script])
    assert "heavy: []" in output
    assert "classify" in output or "info" in output
    assert best < 0.5


def _timed(command: list[str]) -> tuple[str, float]:
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout, time.perf_counter() - start


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: building writes into the source folder, where another worker may do the same."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
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
        f"{module.replace('.', '/')}/{source.relative_to(ROOT / room).as_posix()}"
        for room, module in ROOMS.items()
        for source in _sources(room)
    }
    assert shipped == sources


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

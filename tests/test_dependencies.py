"""Every library that is imported is declared, and those of an extra are needed by nothing else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.cli.calls import run

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("models", "physics", "paper", "p3vae_cli")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

EXTRAS = [
    needed
    for name, extra in PROJECT["optional-dependencies"].items()
    if name not in ("dev", "docs")
    for needed in extra
]


def declared(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~; ]", requirement)[0].lower() for requirement in requirements}


def imported(source: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"p3vae"}


def test_every_third_party_import_is_declared():
    known = declared(PROJECT["dependencies"]) | declared(EXTRAS)
    homes = packages_distributions()
    missing = {
        f"{source.relative_to(ROOT)}: {name}"
        for folder in FOLDERS
        for source in (ROOT / folder).rglob("*.py")
        for name in imported(source)
        if not known & {home.lower() for home in homes.get(name, (name,))}
    }
    assert not missing


def test_everything_that_is_declared_is_imported():
    homes = packages_distributions()
    names = {
        name for folder in FOLDERS for source in (ROOT / folder).rglob("*.py") for name in imported(source)
    }
    used = {home.lower() for name in names for home in homes.get(name, (name,))}
    assert declared(PROJECT["dependencies"]) | declared(EXTRAS) <= used


def test_every_module_can_be_imported_without_the_extra():
    script = (
        "import importlib, pkgutil, sys\n"
        "sys.modules['matplotlib'] = sys.modules['torchdiffeq'] = None\n"
        "for name in ('p3vae.physics', 'p3vae.models', 'p3vae.cli', 'p3vae.paper'):\n"
        "    package = importlib.import_module(name)\n"
        "    for module in pkgutil.walk_packages(package.__path__, name + '.'):\n"
        "        if not module.name.startswith('p3vae.physics.data'):\n"
        "            importlib.import_module(module.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("absent", ["matplotlib", "torchdiffeq"])
def test_reproduce_says_how_to_install_the_extra(absent, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, absent, None)
    done = run("reproduce", "pendulum", "--quick", "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert f"{absent} is not installed (pip install 'p3vae[reproduce]')" in done.output
    assert not (tmp_path / "out").exists()

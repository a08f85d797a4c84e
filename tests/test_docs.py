"""The documents: their commands run as they are written, their links lead somewhere."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from benchmarks import collect
from p3vae.cli.main import COMMANDS
from tests.cli.calls import run

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "qgis/README.md"))]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
LATER = "# after labelling"


def indented(page: Path) -> list[str]:
    """Lines of code: those that begin with four spaces."""
    return [line[4:] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("    ")]


def commands(page: Path) -> list[list[str]]:
    """Calls of p3vae in a page, without those that need a person in between."""
    lines = [line for line in indented(page) if line.startswith("p3vae ") and LATER not in line]
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_the_readme_runs_as_it_is_written(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "sample_data", tmp_path / "sample_data")
    calls = [call for call in commands(README) if any(word.startswith("sample_data/") for word in call)]
    assert len(calls) >= 6 and {call[0] for call in calls} >= {"train", "classify", "assess"}
    for call in calls:
        done = run(*call)
        assert done.exit_code == 0, f"{call}: {done.output}"
    for made in ("maps/report.html", "maps/p3vae.qgz", "gas/report.html"):
        assert (tmp_path / made).is_file()


def test_the_readme_names_what_exists() -> None:
    """Commands of the recipes and of the table, and their options."""
    calls = [(call[0], *(w for w in call if w.startswith("-"))) for call in commands(README)]
    named = [
        cell
        for row in README.read_text().splitlines()
        if row.startswith("| `")
        for cell in row.split("|")[1:2]
    ]
    table = {name for cell in named for name in re.findall(r"`([a-z-]+)`", cell)}
    assert table == set(COMMANDS)
    for name, *options in calls:
        shown = run(name, "--help").stdout
        for option in options:
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", shown), f"{name} {option}"


def test_the_tutorial_runs_as_it_is_written(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    calls = commands(ROOT / "docs" / "tutorial.md")
    assert len(calls) >= 12
    for call in calls:
        done = run(*call)
        assert done.exit_code == 0, f"{call}: {done.output}"
    script = "\n".join(indented(ROOT / "docs" / "tutorial.md"))
    exec(script[script.index("import p3vae") :], {})
    assert (tmp_path / "lesson" / "maps_python" / "town_landcover.tif").is_file()


def test_the_measurements_are_those_of_the_results() -> None:
    pages = collect.pages()
    assert set(pages) == {ROOT / "docs" / "measured.md", *(ROOT / "docs" / "measured").glob("*.md")}
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, "run: make measured"

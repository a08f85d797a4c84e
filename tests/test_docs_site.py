"""The documentation site: built from what is there, strict about broken links."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the pages, where a test may write."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "qgis").mkdir()
    others = ("qgis/README.md", "LICENSE", "NOTICE", "CITATION.cff", "mkdocs.yml")
    for name in (*(page.name for page in ROOT.glob("*.md")), *others):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".imports").symlink_to(ROOT / ".imports")
    return tmp_path


def built(folder: Path) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, str(ROOT / "docs" / "build.py"), str(folder)]
    return subprocess.run(call, capture_output=True, text=True, check=False)


def test_every_page_is_there_and_loads_nothing_from_elsewhere(checkout):
    done = built(checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    site = checkout / "build" / "site"
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))
    assert "invert_methane" in (site / "api" / "index.html").read_text()
    for page in pages:
        loaded = re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text())
        assert not loaded, page


def test_a_broken_link_is_an_error(checkout):
    page = checkout / "docs" / "tutorial.md"
    page.write_text(page.read_text() + "\n[gone](nowhere.md)\n")
    done = built(checkout)
    assert done.returncode != 0 and "nowhere.md" in done.stdout + done.stderr

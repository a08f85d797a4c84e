"""The documentation site in build/site: make docs.

Pages keep the places they have in the repository, so that links between them hold there and here; a page of
the Python functions is added, from their docstrings. Broken links are errors.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOT_PAGES = ("LICENSE", "NOTICE", "CITATION.cff")
"""What pages link to."""
PAGES = ("README.md", "CONTRIBUTING.md", "DESIGN.md", "CHANGELOG.md", "SECURITY.md", "qgis/README.md")
PYTHON = """# Python

    import p3vae

Every function below is an attribute of `p3vae`; nothing heavy is imported before it is used.

::: p3vae.cli.api

::: p3vae.cli.run.maps.Maps

::: p3vae.cli.scenes.settings.SceneSettings

::: p3vae.cli.scenes.base.Scene
"""


def main(root: Path = ROOT) -> int:
    """Collect the pages of a checkout, then build; the exit code of mkdocs."""
    folder = root / "build" / "docs"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / "docs", folder / "docs", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name in (*PAGES, *NOT_PAGES):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(root / name, folder / name)
    (folder / "api.md").write_text(PYTHON, encoding="utf-8")
    call = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # the theme's word on its successor
    return subprocess.run(call, cwd=root, env=quiet, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))

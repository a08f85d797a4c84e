"""How much of the program a command passes: functions called, their files and folders, changes of folder.

    python -m benchmarks.trace classify sample_data/town.tif -m town -o OUT

Imports are not counted, nor what other threads do. To compare two versions, run the file with each of their
interpreters.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

FOLDERS = ("p3vae_cli", "models", "physics", "paper")


def room(filename: str) -> tuple[str, str] | None:
    """Folder and file of a function of ours; None for others."""
    parts = Path(filename).parts
    for folder in FOLDERS:
        if folder in parts and "site-packages" not in parts:
            inside = parts[parts.index(folder) :]
            return "/".join(inside[:2] if len(inside) > 2 else inside[:1]), "/".join(inside)
    return None


def main() -> None:
    """Run a command, and print what it passed."""
    from p3vae.cli.main import main as run

    functions: Counter[tuple[str, str]] = Counter()
    files: set[str] = set()
    state: dict[str, Any] = {"last": "", "changes": 0, "importing": 0}

    def look(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code.co_name == "<module>":
            state["importing"] += (event == "call") - (event == "return")
        if event != "call" or state["importing"]:
            return
        where = room(code.co_filename)
        if where is None:
            return
        folder, file = where
        functions[(file, code.co_qualname)] += 1
        files.add(file)
        state["changes"] += folder != state["last"]
        state["last"] = folder

    sys.setprofile(look)
    try:
        run(sys.argv[1:], standalone_mode=False)
    finally:
        sys.setprofile(None)
    print(f"{len(functions)} functions, {len(files)} files, {state['changes']} changes of folder")
    for folder, count in sorted(Counter(file.rsplit("/", 1)[0] for file in files).items()):
        print(f"{count:4} {folder}")


if __name__ == "__main__":
    main()

"""Results of a benchmark as JSON and Markdown, each naming the command."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def write(name: str, result: Mapping[str, Any], table: str) -> None:
    """Both files beside each other; the table also on stdout."""
    command = " ".join(sys.argv)
    RESULTS.mkdir(exist_ok=True)
    content = json.dumps({"command": command, **result}, indent=1)
    (RESULTS / f"{name}.json").write_text(content + "\n")
    (RESULTS / f"{name}.md").write_text(f"`{command}`\n\n{table}\n")
    print(table, flush=True)

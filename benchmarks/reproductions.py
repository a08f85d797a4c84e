"""What was found wrong with files: python -m benchmarks reproductions [--before TREE] [--write].

Runs the tests in tests/cli/safety/, one file for each kind of finding, against this program, and with
--before against the one in another working tree. Wrong is a test that fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS, TESTS = Path(__file__).parent / "results", ROOT / "tests" / "cli" / "safety"


def counts(test: Path, tree: Path) -> dict[str, int] | None:
    """Cases and failures of a file of tests with the program of a tree; None if it lacks what they need."""
    settings = {"PYTHONPATH": os.pathsep.join((str(tree / ".imports"), str(ROOT))), "OMP_NUM_THREADS": "1"}
    words = ["-q", "--tb=no", "-p", "no:cacheprovider", str(test)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        env=os.environ | settings,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed)", done.stdout)}
    if not found:
        return None
    return {"cases": sum(found.values()), "wrong": found.get("failed", 0)}


def report(document: dict[str, dict[str, dict[str, int] | None]]) -> str:
    """The table."""
    lines = [
        "# What was found wrong with files",
        "",
        "`python -m benchmarks reproductions --before TREE --write`",
        "",
        "Tests that fail with the program before the change, and after it. Where a cell is empty they were",
        "not run before: they make remains of runs as they are now, or wait there for minutes.",
        "",
        "| Tests | cases | wrong before | wrong |",
        "|---|---|---|---|",
    ]
    for name, after in sorted(document["after"].items()):
        before, now = document.get("before", {}).get(name), after or {"cases": 0, "wrong": 0}
        was = before["wrong"] if before else ""
        lines.append(f"| `{name}` | {now['cases']} | {was} | {now['wrong']} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path, help="working tree of the program before")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/reproductions.md")
    options = parser.parse_args()
    path = RESULTS / "reproductions.json"
    document = json.loads(path.read_text()) if path.exists() else {}
    trees = {"after": ROOT} | ({"before": options.before} if options.before else {})
    for when, tree in trees.items():
        document[when] = {test.stem: counts(test, tree) for test in sorted(TESTS.glob("test_*.py"))}
        print(when, json.dumps(document[when], indent=1), flush=True)
        if options.write:
            path.write_text(json.dumps(document, indent=1) + "\n")
            (RESULTS / "reproductions.md").write_text(report(document) if "after" in document else "")


if __name__ == "__main__":
    main()

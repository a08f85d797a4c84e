"""Damaged and hostile files for every reader: python -m benchmarks fuzz [--cases 5000] [--seed 1].

Each case is a valid small file, damaged in one to three seeded ways, and one call that reads it, in a process
of its own. A case is well when it ends in 10 s of a core and 1.5 GB with exit code 0, or with one line and
nothing written.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import tempfile
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.fuzz.harness import Verdict, cases

RESULTS = Path(__file__).parent / "results"
NAMING = ("list", "config")
"""Files by which a user names other files."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/fuzz.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        root, requests = Path(folder), []
        canary = root / "canary.bin"
        canary.write_bytes(b"the content of a foreign file" * 1000)
        threading.Thread(target=listen, args=(listener, requests), daemon=True).start()
        tokens = (str(canary), f"/vsicurl/http://127.0.0.1:{listener.getsockname()[1]}/a.tif")
        numbers = range(options.first, options.first + options.cases)
        verdicts = []
        os.utime(canary, ns=(0, time.time_ns()))
        for case in cases(root, numbers, options.seed, tokens):
            read = canary.stat().st_atime_ns and case.kind not in NAMING
            verdict = replace(case, fault="foreign file read") if read else case
            os.utime(canary, ns=(0, time.time_ns()))  # so that the next reader changes the time of access
            verdicts.append(verdict)
            if verdict.fault:
                print(
                    f"{verdict.number} {verdict.kind} {verdict.fault}: {verdict.call}\n{verdict.said}",
                    flush=True,
                )
        report = _report(verdicts, options.seed, len(requests))
    print(report)
    if options.write:
        (RESULTS / "fuzz.md").write_text(report)
        (RESULTS / "fuzz.json").write_text(json.dumps(_counts(verdicts), indent=1) + "\n")


def listen(listener: socket.socket, requests: list[bytes]) -> None:
    """Keep an empty item for every connection, until the socket is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        requests.append(b"")
        connection.close()


def _counts(verdicts: list[Verdict]) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    for kind in sorted({verdict.kind for verdict in verdicts}):
        own = [verdict for verdict in verdicts if verdict.kind == kind]
        table[kind] = {
            "cases": len(own),
            "refused": sum(verdict.code != 0 for verdict in own),
            "faults": sum(bool(verdict.fault) for verdict in own),
            "slowest_s": round(max(verdict.seconds for verdict in own), 2),
            "largest_mb": round(max(verdict.memory for verdict in own) / 1e6),
        }
    return table


def _report(verdicts: list[Verdict], seed: int, requests: int) -> str:
    faults = Counter(verdict.fault for verdict in verdicts if verdict.fault)
    lines = [
        "# Damaged and hostile files",
        "",
        f"`python -m benchmarks fuzz --cases {len(verdicts)} --seed {seed} --write`",
        "",
        "| File | cases | refused | faults | slowest [CPU s] | largest [MB] |",
        "|---|---|---|---|---|---|",
    ]
    for kind, row in _counts(verdicts).items():
        lines.append(f"| {kind} | " + " | ".join(str(value) for value in row.values()) + " |")
    listed = ", ".join(f"{count} {name}" for name, count in faults.items()) or "none"
    return "\n".join(
        [
            *lines,
            "",
            "Faults (traceback, crash, over 10 s of a core or 1.5 GB, hang over 2 min, several lines, "
            "files left, foreign file read): "
            f"{listed}. Requests to a server on this machine: {requests}.",
            "",
        ]
    )


if __name__ == "__main__":
    main()

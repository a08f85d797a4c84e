"""How long invert-methane takes, and how much memory, as scenes grow longer.

    python -m benchmarks methane_speed

`p3vae simulate` writes PRISMA L1 scenes of 1000 columns; each is mapped twice, learning its background and
with the saved one. On a machine that others use too, processor time says more than seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.methane_plumes import _run, _speed

COLUMNS = ("rows", "background", "seconds", "cpu_seconds", "pixels_per_second", "peak_rss_mb", "load")


def main() -> None:
    """Simulate, map, write JSON and Markdown."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[250, 1000])
    parser.add_argument("--output", type=Path, default=here / "results" / "methane_speed.json")
    options = parser.parse_args()
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in options.rows:
            scene, model = Path(folder) / f"{rows}.he5", Path(folder) / f"{rows}.p3vae"
            plume = ("--plume", "20000", "--plumes", "2")
            _run("simulate", "-o", scene, "--layout", "prisma-l1", "--size", f"{rows}x1000", *plume)
            for background, option in (("learned", "--save-model"), ("saved", "-m")):
                load, before = os.getloadavg()[0], os.times()
                text, seconds, memory = _run(
                    "invert-methane", scene, "-o", Path(folder) / background, option, model
                )
                after = os.times()
                cpu = (
                    after.children_user
                    + after.children_system
                    - before.children_user
                    - before.children_system
                )
                values = (
                    rows,
                    background,
                    round(seconds),
                    round(cpu),
                    _speed(text),
                    round(memory),
                    round(load, 1),
                )
                records.append(dict(zip(COLUMNS, values, strict=True)))
                print(records[-1], flush=True)
                _write(options.output, records)
            scene.unlink()


def _write(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(records, indent=1) + "\n")
    lines = [
        *("# Speed and memory of invert-methane", "", "    python -m benchmarks methane_speed", ""),
        f"PRISMA L1 scenes of 1000 columns on {os.cpu_count()} cores; load is the average of the machine "
        "just before. Seconds are the whole command, pixels per second inference with reading and writing.",
        *(
            "",
            "| " + " | ".join(name.replace("_", " ") for name in COLUMNS) + " |",
            "|" + "---|" * len(COLUMNS),
        ),
    ]
    lines += ["| " + " | ".join(str(record[name]) for name in COLUMNS) + " |" for record in records]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

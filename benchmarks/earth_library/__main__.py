"""Makes the shipped model `earth`: `python -m benchmarks earth_library --data DIR -o earth.p3vae`.

DIR holds `usgs_splib06a.npz`, `slum.npz` and the wheel that `pip download --no-deps earthlib==1.1.0` gives.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

from p3vae.models.landcover.model import save_model

from .build import build_earth
from .sources import SOURCES, read_spectra


def main() -> None:
    """Check the inputs, build, write."""
    options = argparse.ArgumentParser(description="Make the shipped model `earth` from spectral libraries.")
    options.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of the libraries")
    options.add_argument("--wheel", type=Path, metavar="WHL", help="earthlib's wheel (default: in DIR)")
    options.add_argument("-o", "--output", type=Path, required=True, metavar="MODEL")
    options.add_argument(
        "--without", action="append", default=[], choices=[key for key, s in SOURCES.items() if s.file]
    )
    options.add_argument(
        "--validation", type=Path, metavar="JSON", help="figures on real scenes, for the card"
    )
    asked = options.parse_args()
    wheel = asked.wheel or asked.data / SOURCES["icraf-isric"].file
    _require(asked.data, wheel)
    validation = json.loads(asked.validation.read_text())["card"] if asked.validation else None
    model = build_earth(read_spectra(asked.data, wheel, tuple(asked.without)), validation)
    save_model(asked.output, model)
    print(f"{asked.output}: {asked.output.stat().st_size / 1e6:.2f} MB, accuracy on withheld spectra "
          f"{model.summary.accuracy:.3f}")  # fmt: skip


def _require(folder: Path, wheel: Path) -> None:
    """Stop unless every input is the one that is named here."""
    for source in SOURCES.values():
        if not source.file:
            continue
        path = wheel if source.file == wheel.name or source.file.endswith(".whl") else folder / source.file
        if not path.is_file():
            sys.exit(f"{path}: not found; it is the file of {source.name}")
        if hashlib.sha256(path.read_bytes()).hexdigest() != source.sha256:
            sys.exit(f"{path}: not the file this was written for (its SHA-256 is not {source.sha256})")


if __name__ == "__main__":
    main()

"""Protocols of the benchmarks: which data, which splits, which scores. Everything is drawn from a seed.

The data are not part of the repository: a folder with `simulated/`, `toulouse/`, `methane/`, `real/` and
`enmap_potsdam/` is given by `--data`, or by the environment variable P3VAE_DATA.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """`--data DIR`, required unless P3VAE_DATA names the folder."""
    usual = os.environ.get("P3VAE_DATA")
    parser.add_argument(
        "--data",
        type=Path,
        default=None if usual is None else Path(usual),
        required=usual is None,
        metavar="DIR",
        help="folder of the benchmarks' data (default: $P3VAE_DATA)",
    )

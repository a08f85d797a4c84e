"""Derives `methane.npz`, the methane table shipped with p3vae, from the look-up table in the `mag1c` wheel.

    pip download --no-deps mag1c==1.2.0
    python physics/data/build_methane_table.py mag1c-1.2.0-py3-none-any.whl physics/data/methane.npz

The input holds simulated radiance at 0.02-0.06 nm for seven methane enhancements at one geometry. Per
wavelength the optical depth of the enhancement is fitted by a two-parameter curve of the Malkmus family,

    tau(u) = 2 k u / (1 + sqrt(1 + s u)),       u = enhancement x air mass factor [ppm m],

k being the one-way absorption for a vanishing enhancement and s the residual saturation of lines narrower
than the input's own grid. The radiance without enhancement is kept as the weight with which wavelengths
enter a band: where air already absorbs, an enhancement changes little of the light.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

ENHANCEMENTS_PPM_M = np.array([0.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0, 16000.0])
INPUT_AIR_MASS_FACTOR = 2.15
"""Sun plus view path of the geometry in which the input was simulated."""
INPUT_SHA256 = "52efb85d9f7391a451337a38ce7834fa5d3685c632eeaf85ce85797628f21bdf"
SATURATIONS_PER_PPM_M = np.concatenate([[0.0], np.geomspace(1e-7, 3e-4, 120)])


def read_lut(wheel: Path) -> tuple[FloatArray, FloatArray]:
    """Wavelengths [nm] (n,) and radiance (enhancements, n) of the wheel's ENVI look-up table."""
    with zipfile.ZipFile(wheel) as archive:
        header = archive.read("mag1c/ch4.hdr").decode()
        samples = np.frombuffer(archive.read("mag1c/ch4.lut"), dtype="<f8")
    listed = re.search(r"wavelength\s*=\s*\{([^}]*)\}", header)
    if listed is None:
        raise SystemExit(f"{wheel}: no wavelength list in ch4.hdr")
    wavelength = np.array([float(text) for text in listed.group(1).split(",")])
    return wavelength, samples.reshape(len(wavelength), -1).T


def fit(radiance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """k [ppm-1 m-1] and s [ppm-1 m-1] per wavelength, by least squares in relative optical depth."""
    column = ENHANCEMENTS_PPM_M[1:, None] * INPUT_AIR_MASS_FACTOR
    per_column = -np.log(radiance[1:] / radiance[0]) / column
    best_k, best_s = np.zeros(radiance.shape[1]), np.zeros(radiance.shape[1])
    best_error = np.full(radiance.shape[1], np.inf)
    for saturation in SATURATIONS_PER_PPM_M:
        shape = 2.0 / (1.0 + np.sqrt(1.0 + saturation * column))
        k = np.clip((per_column * shape).sum(0) / (shape**2).sum(), 0.0, None)
        error = ((per_column - k * shape) ** 2).sum(0)
        better = error < best_error
        best_k[better], best_s[better], best_error[better] = k[better], saturation, error[better]
    return best_k, np.where(best_k > 0, best_s, 0.0)


def main() -> None:
    """Reads the wheel, fits, writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    digest = hashlib.sha256(options.wheel.read_bytes()).hexdigest()
    if digest != INPUT_SHA256:
        raise SystemExit(f"{options.wheel}: SHA-256 {digest} is not that of mag1c 1.2.0 ({INPUT_SHA256})")
    wavelength, radiance = read_lut(options.wheel)
    absorption, saturation = fit(radiance)
    np.savez_compressed(
        options.output,
        wavelength_nm=wavelength.astype(np.float32),
        absorption=absorption.astype(np.float32),
        saturation=saturation.astype(np.float32),
        background=radiance[0].astype(np.float32),
        source=np.array("ch4.lut of mag1c 1.2.0 (BSD-3-Clause)"),
        source_sha256=np.array(digest),
    )


if __name__ == "__main__":
    main()

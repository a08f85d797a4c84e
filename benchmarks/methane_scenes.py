"""Methane in PRISMA scenes whose gas is not ours, through the command line, beside the field's own filter.

    pip install marshsi==0.1.4 mag1c==1.2.0 xarray netcdf4 spectral scikit-image
    python -m benchmarks methane_scenes --data DIR

The scenes are those of `protocols/methane_scenes.py`. mag1c is the published package on the same radiance,
column by column as it is by default, with its own absorption scaled to the scene's air mass; its plumes are
found by our rule for the map, without a look at spectra. Seeds 72 to 76 were used in development. The gas of
the truth is marshsi's absorption of a vanishing plume every 0.05 nm, given by `--absorption`.
`--peaks` replaces the strengths of the plumes, for a curve of detection.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import rasterio
import rasterio.features
import shapely
import torch

from benchmarks.protocols import add_data_option
from benchmarks.protocols import methane_scenes as protocol
from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.tiling import Window
from p3vae.models.methane.plumes.clusters import find_plumes
from p3vae.physics.emission import KG_M2_PER_PPM_M
from p3vae.physics.methane import air_mass_factor
from p3vae.physics.quality import Quality

P3VAE = Path(sys.executable).with_name("p3vae")
MAG1C = "mag1c package"
OWN_GAS = "p3vae, gas of the truth"
METHODS = ("p3vae", OWN_GAS, MAG1C, "mf", "oe")
MAG1C_AIR_MASS = 2.15
"""For which the table of mag1c was made."""
MAG1C_NM = (2122.0, 2488.0)
LIT = 0.99
"""Share of pixels with signal in a band that mag1c is given."""
FOUND_SHARE = 0.25
"""A plume is found when the mask holds pixels of this share of its peak."""
Found = tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[float, float]]]
"""Enhancement, std, label image, and IME with std of each plume."""


def main() -> None:
    """Build, invert, compare; write JSON and Markdown."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(parser)
    parser.add_argument("--backgrounds", nargs="+", default=["potsdam", "town"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[81, 82, 83])
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--peaks", type=int, nargs="*", default=[])
    parser.add_argument("--keep", action="store_true", help="add to the records that there are")
    parser.add_argument("--output", type=Path, default=here / "results" / "methane_scenes.json")
    options = parser.parse_args()
    if options.peaks:
        protocol.PEAKS = {f"peak {peak}": (peak, peak) for peak in options.peaks}
    records: list[dict[str, Any]] = []
    if options.keep and options.output.exists():
        records = json.loads(options.output.read_text())
    for seed in options.seeds:
        for background in options.backgrounds:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                protocol.build(folder, P3VAE, background, options.rows, seed, options.data)
                for method in options.methods:
                    _invert(folder, method, protocol.ZENITH[background], options.data)
                    for level in ("none", *protocol.PEAKS):
                        scene = folder / f"{background}_{level}.he5"
                        truth = np.load(folder / f"{background}_{level}_truth.npz")["truth"][:, ::-1]
                        place = {"background": background, "level": level, "seed": seed, "method": method}
                        records.append(place | measure(scene, method, truth))
                        print(json.dumps(records[-1]), flush=True)
                    options.output.write_text(json.dumps(records, indent=1) + "\n")
                    options.output.with_suffix(".md").write_text(report(records, options))


def _invert(folder: Path, method: str, zenith_deg: float, data: Path) -> None:
    """All scenes of a folder, by the command line."""
    if method == MAG1C:
        return
    asked = ["-o", folder / method, "--method", method.partition(",")[0], "--no-quality-mask", "-q"]
    if method == OWN_GAS:
        air_mass = air_mass_factor(zenith_deg)
        gas = protocol.Gas(air_mass, data)
        one_way = -np.log(gas.plume[1]) / protocol.NODES[1] / air_mass
        table = np.column_stack([gas.wl, np.maximum(one_way, 0.0)])
        np.savetxt(folder / "gas.csv", table, delimiter=",", header="wavelength_nm,absorption", comments="")
        asked += ["--absorption", folder / "gas.csv"]
    subprocess.run([P3VAE, "invert-methane", *sorted(folder.glob("*.he5")), *asked], check=True)


def measure(scene: Path, method: str, truth: np.ndarray) -> dict[str, Any]:
    """Figures of one method on one scene."""
    ppm_m, std, labels, masses = _mag1c(scene) if method == MAG1C else _products(scene, method)
    quality = _read(scene.parent / ("p3vae" if method == MAG1C else method) / f"{scene.stem}_quality.tif")
    clear, dark = quality == Quality.CLEAR, (quality == Quality.WATER) & np.isfinite(ppm_m) & (truth == 0)
    figures = protocol.score(ppm_m, std, truth, clear)
    off = clear & np.isfinite(ppm_m) & (truth == 0)
    figures["off_cover95"] = float((np.abs(ppm_m[off]) < 1.96 * std[off]).mean())
    if dark.any():
        figures["dark_mean"] = float(ppm_m[dark].mean())
    places = [(labels == k) for k in range(1, int(labels.max(initial=0)) + 1)]
    halves = np.array_split(np.arange(len(truth)), 2)
    plumes = [truth[rows].max() for rows in halves if truth.max() > 0]
    figures["plumes"] = len(plumes)
    figures["found"] = sum(
        bool((labels[rows] > 0)[truth[rows] > FOUND_SHARE * truth[rows].max()].any())
        for rows in halves
        if truth.max() > 0
    )
    figures["false"] = sum(bool(place.any() and truth[place].max() <= 0) for place in places)
    area = 900.0 * KG_M2_PER_PPM_M
    real = [(mass, float(truth[place].sum() * area)) for mass, place in zip(masses, places, strict=False)]
    figures["masses"] = [[*mass, true] for mass, true in real if true > 0]
    return figures


def _products(scene: Path, method: str) -> Found:
    stem = scene.parent / method / scene.stem
    ppm_m, std = (_read(stem.with_name(f"{stem.name}_{name}.tif")) for name in ("methane", "methane_std"))
    with rasterio.open(stem.with_name(f"{stem.name}_plume_mask.tif")) as source:
        mask, gcps = source.read(1) == 2, source.gcps[0]
    table = geopandas.read_file(stem.with_name(f"{stem.name}_plumes.gpkg"))
    labels = np.where(mask, _labels(table, gcps, mask.shape), 0)
    return ppm_m, std, labels, list(zip(table.ime_kg, table.ime_std_kg, strict=True))


def _labels(table: geopandas.GeoDataFrame, gcps: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Number of the plume whose polygon each pixel lies in."""
    to_pixels = rasterio.transform.GCPTransformer(gcps, tps=True)

    def pixels(points: np.ndarray) -> np.ndarray:
        row, col = to_pixels.rowcol(points[:, 0], points[:, 1], op=np.asarray)
        return np.column_stack([col, row])

    shapes = [(shapely.transform(outline, pixels), n) for n, outline in enumerate(table.geometry, start=1)]
    if not shapes:
        return np.zeros(shape, np.int32)
    return rasterio.features.rasterize(shapes, out_shape=shape, dtype=np.int32)


def _mag1c(scene: Path) -> Found:
    """The published package, column by column."""
    torch.cholesky = lambda c, upper=False: torch.linalg.cholesky(c)  # deprecated
    from mag1c.mag1c import acrwl1mf, generate_template_from_bands

    with open_scene(scene) as opened:
        wavelength, fwhm = opened.bands.wavelength_nm, opened.bands.fwhm_nm
        used = opened.bands.good & (wavelength >= MAG1C_NM[0]) & (wavelength <= MAG1C_NM[1])
        values = opened.read(Window(0, 0, opened.grid.height, opened.grid.width)).values[..., used]
        factor = air_mass_factor(opened.acquisition.sun_zenith_deg or 0.0) / MAG1C_AIR_MASS
    lit = (values > 0).mean((0, 1)) > LIT
    values, used = values[..., lit], np.flatnonzero(used)[lit]
    template = torch.as_tensor(factor * generate_template_from_bands(wavelength[used], fwhm[used])[:, 1])
    ppm_m = np.full(values.shape[:2], np.nan)
    for column in range(values.shape[1]):
        rows = np.flatnonzero((values[:, column] > 0).all(1))  # its option --onlypositiveradiance
        x = torch.as_tensor(values[rows, column].astype(np.float64))[None]
        all_pixels = torch.ones(1, len(rows), dtype=torch.bool)
        found, _ = acrwl1mf(x, template, 30, False, False, False, 1.0, 0.0, all_pixels)
        ppm_m[rows, column] = found[0, :, 0].numpy()
    quality = _read(scene.parent / "p3vae" / f"{scene.stem}_quality.tif")
    seen = np.isfinite(ppm_m) & (quality == Quality.CLEAR)
    labels = find_plumes(np.where(seen, ppm_m, 0.0), np.ones_like(ppm_m), seen).labels
    return ppm_m, np.full_like(ppm_m, ppm_m[seen].std()), labels, []


def _read(path: Path) -> np.ndarray:
    with rasterio.open(path) as source:
        values = source.read(1)
        return np.where(values == source.nodata, np.nan, values) if values.dtype.kind == "f" else values


def report(records: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """The tables."""
    asked = {name: " ".join(map(str, getattr(options, name))) for name in ("backgrounds", "seeds", "peaks")}
    words = " ".join(f"--{name} {values}" for name, values in asked.items() if values)
    lines = [
        *("# Methane in PRISMA scenes of an independent gas", ""),
        f"    python -m benchmarks methane_scenes --rows {options.rows} {words}",
        "",
        "Errors in ppm m, means over seeds; in the plume: truth over 5 % of its peak, clear pixels. Found: "
        "plumes of those there are. False: plumes listed where there is none, and the number of scenes. "
        "Dark: mean over water and deep shadow.",
        "",
        "| ground | plumes | method | MAE | bias | coverage | off std | off bias | off coverage | all std "
        "| dark | found | false |",
        "|" + "---|" * 13,
    ]
    keys = dict.fromkeys((r["background"], r["level"], r["method"]) for r in records)
    for key in keys:
        mine = [r for r in records if (r["background"], r["level"], r["method"]) == key]

        def mean(name: str, form: str = ",.0f", mine: list[dict[str, Any]] = mine) -> str:
            values = [r[name] for r in mine if name in r]
            return format(float(np.mean(values)), form) if values else "–"

        cells = [mean("mae"), mean("bias"), mean("cover95", ".3f"), mean("off_std"), mean("off_bias")]
        cells += [mean("off_cover95", ".3f"), mean("all_std"), mean("dark_mean")]
        cells += [f"{sum(r['found'] for r in mine)} of {sum(r['plumes'] for r in mine)}"]
        cells += [f"{sum(r['false'] for r in mine)} in {len(mine)}"]
        lines.append("| " + " | ".join([*key, *cells]) + " |")
    for method in dict.fromkeys(r["method"] for r in records):
        masses = np.array([m for r in records if r["method"] == method for m in r["masses"]]).reshape(-1, 3)
        if len(masses):
            lines += ["", _mass_line(method, masses)]
    return "\n".join(lines) + "\n"


def _mass_line(method: str, masses: np.ndarray) -> str:
    """How masses, their std and the truth (plumes, 3) compare."""
    covered = np.abs(masses[:, 0] - masses[:, 2]) < 1.96 * masses[:, 1]
    ratio = masses[:, 0] / masses[:, 2] - 1.0
    total = masses[:, 0].sum() / masses[:, 2].sum() - 1.0
    return (
        f"IME of {method}: 95 % intervals cover the truth in the mask in {covered.sum()} of {len(masses)} "
        f"plumes; all together {100 * total:+.1f} %, median of plumes {100 * np.median(ratio):+.1f} %."
    )


if __name__ == "__main__":
    main()

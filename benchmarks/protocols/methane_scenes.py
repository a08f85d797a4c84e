"""PRISMA L1 scenes with methane from an independent gas table, to be inverted through the command line.

    pip install marshsi==0.1.4 xarray netcdf4    # only for its transmittance table (8 air masses x 9 columns)
    python -m protocols.methane_scenes OUT P3VAE --data DIR [--background potsdam|town] [--rows 500]

writes OUT/<background>_{none,weak,medium,strong}.he5 (500 x 300 pixels) and *_truth.npz: ppm m on the file's
own axes, rows along track, columns across. Products are mirrored east-west: compare with truth[:, ::-1].

  potsdam  real EnMAP reflectance in shuffled patches, Kurucz sun x water vapour x background methane on a
           fine grid, a real PRISMA's noise and stripes per column
  town     `p3vae simulate`'s ground and noise; only the gas is independent

The gas is convolved per detector column, so the smile is in. Two meandering, puffed plumes a scene, with
peaks weak 1,500 + 3,000, medium 5,000 + 10,000, strong 20,000 + 40,000 ppm m. `score(map, std, truth, clear)`
gives the figures.
"""

import argparse
import csv
import importlib.util
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
from scipy.interpolate import PchipInterpolator, interp1d
from scipy.ndimage import gaussian_filter, median_filter

from benchmarks.protocols import add_data_option

SWATH = "HDFEOS/SWATHS/PRS_L1_HCO/Data Fields/"
COLS, SCALE_HEIGHT_M = 300, 8000.0
NODES = np.r_[0, np.geomspace(50, 53000, 35)]
PEAKS = {"weak": (1500, 3000), "medium": (5000, 10000), "strong": (20000, 40000)}
ZENITH = {"town": 43, "potsdam": 35}


class Gas:
    """Transmittance of a plume above the ordinary atmosphere, on a fine grid."""

    def __init__(self, air_mass: float, data: Path):
        import xarray as xr

        home = Path(importlib.util.find_spec("marshsi").origin).parent
        table = xr.open_dataset(next(home.rglob("output_Tch4_LUT*.nc"))).load()
        self.wl = table.wvl_mod.values.astype(float)
        amf = table.amf_arr.values.astype(float)
        log_t = interp1d(amf, np.log(np.clip(table.t_ch4_arr.values.astype(float), 1e-30, None)), axis=2)(
            air_mass
        )
        ppb = interp1d(amf, table.mr_ch4_arr.values.astype(float), axis=1)(air_mass)
        depth = -(log_t[:, 1:] - log_t[:, 1:2]).T
        self.plume = np.exp(
            -PchipInterpolator((ppb[1:] - ppb[1]) / 1000 * SCALE_HEIGHT_M, depth, axis=0)(NODES)
        )
        self.light = solar(self.wl, data) * water(self.wl, data) ** air_mass * np.exp(log_t[:, 1])

    def bands(self, centre, fwhm):
        """ln T (nodes, bands) of one column's bands and the clear light in them."""
        shape = np.exp(-0.5 * ((self.wl - centre[:, None]) / (fwhm[:, None] / 2.35482)) ** 2) * np.gradient(
            self.wl
        )
        seen = shape * self.light
        total = seen.sum(1)
        return np.log((seen @ self.plume.T) / total[:, None]).T, total / shape.sum(1)


def solar(wl, data: Path):
    f = np.load(data / "methane" / "solar_kurucz.npz")
    return np.interp(wl, f["wavelength_nm"], f["irradiance"])


def water(wl, data: Path):
    with (data / "methane" / "H2O_transmittance.csv").open() as f:
        rows = [[float(v.replace(",", ".")) for v in r[:2]] for r in csv.reader(f) if len(r) > 1]
    a = np.array(rows)
    return np.interp(wl, a[:, 0] * 1000, a[:, 1])


def plume(shape, row, col, azimuth, peak, width, length, rng):
    y, x = np.mgrid[: shape[0], : shape[1]].astype(float)
    y, x, a = y - row, x - col, np.radians(azimuth)
    along, across = x * np.sin(a) - y * np.cos(a), x * np.cos(a) + y * np.sin(a)
    across = across + 1.5 * np.sin(along / 9) * np.clip(along / 30, 0, 1)
    d = np.clip(along, 0, length)
    s = width + 0.1 * d
    body = (
        np.exp(-0.5 * ((across / s) ** 2 + (np.minimum(along, 0) / width) ** 2))
        * width
        / s
        * np.clip(1 - d / length, 0, 1)
    )
    out = (
        peak
        * body
        * np.exp(0.25 * gaussian_filter(rng.standard_normal(shape), 2) * 4 * np.sqrt(np.pi) - 0.03)
    )
    out[body < 1e-3] = 0
    return out * peak / out.max()


def truth(level, shape, seed):
    rng = np.random.default_rng(seed)
    total = np.zeros(shape)
    for k, peak in enumerate(PEAKS[level]):
        row = int(shape[0] * (0.28, 0.72)[k]) + rng.integers(-30, 30)
        col = (100, 190)[k] + rng.integers(-30, 30)
        total += plume(
            shape, row, col, rng.uniform(0, 360), peak, rng.uniform(1.8, 3), rng.uniform(60, 90), rng
        )
    return total


def potsdam(shape, rng, data: Path):
    """Reflectance (rows, cols, bands) of shuffled and mixed patches of the real scene, and wavelengths."""
    import rasterio

    with rasterio.open(data / "enmap_potsdam" / "enmap_potsdam_mosaic.tif") as d:
        a = d.read().astype(np.float32)
        wl = np.array([float(d.tags(i)["wavelength"]) for i in d.indexes])
    valid = a[100] != -32768
    keep = (a[:, valid] > -32768).all(1)
    a, wl, size = np.clip(a[keep], 0, None) / 1e4, wl[keep], 20
    places = [
        (r, c)
        for r in range(0, valid.shape[0] - size, 2)
        for c in range(0, valid.shape[1] - size, 2)
        if valid[r : r + size, c : c + size].all()
    ]
    out = np.zeros((*shape, len(wl)), np.float32)

    def patch():
        r, c = places[rng.integers(len(places))]
        return np.transpose(a[:, r : r + size, c : c + size], (1, 2, 0))

    for r in range(0, shape[0], size):
        for c in range(0, shape[1], size):
            p, q, w = patch(), patch(), rng.uniform(0, 0.3)
            p = p[:: rng.choice([-1, 1]), :: rng.choice([-1, 1])]
            out[r : r + size, c : c + size] = ((1 - w) * p + w * q)[: shape[0] - r, : shape[1] - c]
    light = np.clip(
        1 + 0.15 * gaussian_filter(rng.standard_normal(shape), 25) * 25 * np.sqrt(np.pi), 0.7, 1.3
    )
    return out * light[..., None], wl


def at(values, wl, centre):
    """Linear interpolation of (..., bands) at other wavelengths."""
    c = np.clip(centre, wl.min(), wl.max())
    i = np.searchsorted(wl, c).clip(1, len(wl) - 1)
    w = ((c - wl[i - 1]) / (wl[i] - wl[i - 1])).astype(np.float32)
    return values[..., i - 1] * (1 - w) + values[..., i] * w


def detector(centre, data: Path):
    """Mean radiance, SNR and stripes of a real PRISMA at these bands, (cols, bands) each."""
    f = np.load(data / "methane" / "column_statistics.npz")
    order = np.argsort(f["prisma_band_nm"])
    band = f["prisma_band_nm"][order].astype(float)
    mean, snr = (
        f[k][order][:, 300 : 300 + COLS].astype(float) for k in ("prisma_mean_radiance", "prisma_snr")
    )
    mean = np.where(mean > 0, mean, np.nan)
    usual = median_filter(np.nan_to_num(mean, nan=np.nanmedian(mean)), size=(1, 31))
    stripe = np.clip(np.nan_to_num(mean / usual, nan=1), 0.97, 1.03)
    per_column = lambda v: np.stack([np.interp(centre, band, v[:, j]) for j in range(COLS)])  # noqa: E731
    return (
        np.clip(per_column(np.nan_to_num(mean, nan=1.0)), 0.02, None),
        per_column(np.clip(np.nan_to_num(snr, nan=100), 10, None)),
        per_column(stripe),
    )


def build(out, p3vae, background, rows, seed, data: Path):
    out, shape, rng = Path(out), (rows, COLS), np.random.default_rng(seed)
    out.mkdir(parents=True, exist_ok=True)
    base, zenith = out / f"{background}_none.he5", ZENITH[background]
    subprocess.run(
        [
            p3vae,
            "simulate",
            "-o",
            base,
            "--layout",
            "prisma-l1",
            "--size",
            f"{rows}x{COLS}",
            "--seed",
            str(seed),
            "--sun-zenith",
            str(zenith),
            "--overwrite",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with h5py.File(base) as f:
        nominal, vnir = (f.attrs[k].astype(float) for k in ("List_Cw_Swir", "List_Cw_Vnir"))
        first = np.flatnonzero(f["KDP_AUX/Cw_Swir_Matrix"][0] > 0)[0]
        columns = slice(first, first + len(nominal))
        centre, fwhm = (f[f"KDP_AUX/{k}_Swir_Matrix"][:, columns].astype(float) for k in ("Cw", "Fwhm"))
        seen = np.transpose(f[SWATH + "SWIR_Cube"][:], (2, 0, 1)).astype(np.float32) / 100
        mu = np.cos(np.radians(float(f.attrs["Sun_zenith_angle"])))
    gas = Gas(1 + 1 / mu, data)
    log_t, clear = np.zeros((COLS, len(NODES), len(nominal))), np.zeros((COLS, len(nominal)))
    for j in range(COLS):
        ok = (centre[j] > 1000) & (centre[j] < 2490)
        log_t[j][:, ok], clear[j, ok] = gas.bands(centre[j][ok], fwhm[j][ok])
    visible = None
    if background == "potsdam":
        ground, wl = potsdam(shape, rng, data)
        seen = (at(ground, wl, nominal) * clear * mu / np.pi * 0.9).astype(np.float32)
        lit = vnir > 0
        visible = np.zeros((*shape, len(vnir)), np.float32)
        visible[..., lit] = (
            at(ground, wl, vnir[lit]) * solar(vnir[lit], data) * mu / np.pi * 0.85
            + 25 * (vnir[lit] / 450) ** -4.0
        )
        mean, snr, stripe = detector(nominal, data)
    for number, level in enumerate(("none", *PEAKS)):
        path, t = (
            out / f"{background}_{level}.he5",
            np.zeros(shape) if level == "none" else truth(level, shape, seed * 10 + number),
        )
        if level != "none":
            shutil.copy(base, path)
        radiance = seen.copy()
        for j in np.unique(np.nonzero(t)[1]):
            r = np.flatnonzero(t[:, j])
            radiance[r, j] *= np.exp(PchipInterpolator(NODES, log_t[j], axis=0)(t[r, j]))
        if visible is not None:
            sigma = mean / snr * np.sqrt(np.clip(radiance / mean, 0.3, None))
            radiance = radiance * stripe + sigma * np.random.default_rng(seed + number).standard_normal(
                radiance.shape
            )
        with h5py.File(path, "r+") as f:
            for name, cube in (("SWIR_Cube", radiance), ("VNIR_Cube", visible)):
                if cube is not None:
                    f[SWATH + name][...] = np.transpose(
                        np.clip(np.rint(cube * 100), 0, 65535).astype("u2"), (1, 2, 0)
                    )
        np.savez_compressed(out / f"{background}_{level}_truth.npz", truth=t.astype(np.float32))


def score(found, std, t, clear):
    """Figures in the plume (truth over 5 % of the peak) and off it, over clear pixels; all on one grid."""
    ok = clear & np.isfinite(found)
    off, out = ok & (t == 0), {}
    if t.max() > 0:
        inside = ok & (t > 0.05 * t.max())
        e = found[inside] - t[inside]
        out = {
            "mae": abs(e).mean(),
            "rmse": np.sqrt((e**2).mean()),
            "bias": e.mean(),
            "mass": found[inside].sum() / t[inside].sum() - 1,
            "slope": (found[inside] * t[inside]).sum() / (t[inside] ** 2).sum(),
            "cover95": (abs(e) < 1.96 * std[inside]).mean(),
        }
    everywhere = np.isfinite(found) & (t == 0)
    return {
        k: float(v)
        for k, v in (
            out
            | {
                "off_std": found[off].std(),
                "off_bias": found[off].mean(),
                "all_std": found[everywhere].std(),
                "all_bias": found[everywhere].mean(),
            }
        ).items()
    }


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    add_data_option(p)
    p.add_argument("out")
    p.add_argument("p3vae")
    p.add_argument("--background", default="potsdam", choices=sorted(ZENITH))
    p.add_argument("--rows", type=int, default=500)
    p.add_argument("--seed", type=int, default=72)
    a = p.parse_args()
    build(a.out, a.p3vae, a.background, a.rows, a.seed, a.data)
